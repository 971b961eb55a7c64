package variant

import (
	"math"
	"slices"
)

// Lengths of homopolymers.
//
// Problem: of a homopolymer of 15 bases every second read has lost or gained some, and
// of one of 20 hardly any shows the length that is there. Which of the lengths the
// sample has can't be seen in what single reads prefer, only in how their lengths are
// distributed.
//
// Assumptions: a read's length depends on the length that its molecule has, on the base
// that went through the pore, and on what is around; what is around moves the shares of
// a strand's reads together. Reads whose haplotype is known show that haplotype's length.
//
// Strategy: how often reads show each length is measured on the region's own
// homopolymers, without the one that is evaluated; rare lengths lean on the next
// shorter ones. The likelihood of a strand's lengths is Dirichlet-multinomial about
// these shares. All pairs of lengths that reads show are compared, with a prior that
// grows with the length.
//
// Consequences: what is said of an allele takes the place of a network's opinion; which
// genotype is called, and whether it passes, is decided as elsewhere. Lengths that both
// strands' reads agree on by their surroundings alone convince only so far.

const (
	// minLongRun is the shortest homopolymer that is evaluated by lengths.
	minLongRun = 9
	// Lengths from minCountedRun on are counted; those from maxCountedRun on together.
	minCountedRun = 4
	maxCountedRun = 24
	// maxLengthChange bounds how many bases more or fewer are distinguished.
	maxLengthChange = 6
	lengthChanges   = 2*maxLengthChange + 1
)

// lengthCounts is how often reads show homopolymers with how many bases more or fewer
// than the reference has: by length, base in reading direction, and change.
type lengthCounts [maxCountedRun - minCountedRun + 1][4][lengthChanges]uint32

// lengthShares is the probabilities of changes, from maxLengthChange fewer.
type lengthShares [lengthChanges]float64

// lengthModel is lengthCounts as probabilities.
type lengthModel [maxCountedRun - minCountedRun + 1][4]lengthShares

const (
	// lengthWeight is how many observations what is expected of a length is worth.
	lengthWeight = 100
	// longerOdds is by how much the odds of a wrong length are expected to grow with
	// each base.
	longerOdds = 1.25
	// strayLength is the share of reads that are wrong in another way: aligned wrongly,
	// or cut short by an error beside the homopolymer.
	strayLength = 0.01
)

// countedRow is the row of a length.
func countedRow(length int) int {
	return min(max(length, minCountedRun), maxCountedRun) - minCountedRun
}

// changeColumn is the column of a change of length.
func changeColumn(change int) int {
	return min(max(change, -maxLengthChange), maxLengthChange) + maxLengthChange
}

// model derives the probabilities.
func (c *lengthCounts) model(prior *ErrorRates) *lengthModel {
	m := new(lengthModel)
	for base := range 4 {
		expected := shortRunShares(prior)
		for row := range c {
			m[row][base] = expected.after(&c[row][base])
			expected = m[row][base].longer()
		}
	}
	return m
}

// shortRunShares is what is expected of homopolymers of minCountedRun bases: the prior
// rates of a loss and a gain, and of each further base a quarter of that.
func shortRunShares(prior *ErrorRates) lengthShares {
	var s lengthShares
	for change := 1; change <= maxLengthChange; change++ {
		f := 0.75 * math.Pow(0.25, float64(change-1))
		s[maxLengthChange-change] = f * prior.Deletion[minCountedRun]
		s[maxLengthChange+change] = f * prior.Insertion[minCountedRun]
	}
	s.normalise()
	return s
}

// normalise gives what the changes leave to no change.
func (s *lengthShares) normalise() {
	s[maxLengthChange] = 0
	sum := 0.0
	for _, p := range s {
		sum += p
	}
	s[maxLengthChange] = 1 - sum
}

// after is s after some observations.
func (s *lengthShares) after(seen *[lengthChanges]uint32) lengthShares {
	total := float64(lengthWeight)
	for _, n := range seen {
		total += float64(n)
	}
	var out lengthShares
	for i, n := range seen {
		out[i] = (float64(n) + float64(s[i]*lengthWeight)) / total
	}
	return out
}

// longer is what is expected of a homopolymer that is a base longer.
func (s *lengthShares) longer() lengthShares {
	right := min(s[maxLengthChange], 1-1e-9)
	factor := longerOdds / (right + float64(longerOdds*(1-right))) // of what is wrong
	out := *s
	for i := range out {
		out[i] *= factor
	}
	out.normalise()
	return out
}

// lengthGap is a gap of a read: reference bases [from, to) are deleted, or seq comes
// before from.
type lengthGap struct {
	from, to int
	seq      []byte
}

// lengthChange is by how many bases gaps, by position and none before it, change a homopolymer of
// base b at [start, end).
func lengthChange(gaps []lengthGap, b byte, start, end int) int {
	change := 0
	for _, g := range gaps {
		if g.from > end {
			break
		}
		if g.from < g.to {
			change -= max(0, min(g.to, end)-max(g.from, start))
			continue
		}
		for i := range len(g.seq) {
			if g.seq[i] == b {
				change++
			}
		}
	}
	return change
}

// change counts what gaps, by position, of a read over [start, end) change of homopolymers that
// were counted as unchanged.
func (c *lengthCounts) change(gaps []lengthGap, start, end int, reverse bool, ref []byte) {
	next := start + 1 // homopolymers that begin before are done
	for i, g := range gaps {
		// Those that the gap touches: from the one that ends at it to the one that begins behind it.
		for at := g.from - 1; at <= g.to && at < end; {
			for at > start && ref[at-1] == ref[at] {
				at--
			}
			n := runFrom(ref, at)
			if at >= next && n >= minCountedRun && at+n < end && baseCode[ref[at]] < 4 {
				if by := lengthChange(gaps[i:], ref[at], at, at+n); by != 0 {
					own := &c[countedRow(n)][strandBase(baseCode[ref[at]], reverse)]
					own[changeColumn(0)]--
					own[changeColumn(by)]++
				}
			}
			at += n
			next = max(next, at)
		}
	}
}

// longRun is a homopolymer of the reference whose length is evaluated.
type longRun struct {
	start, end int
	shown      [2][3][lengthChanges]uint32 // reads by strand, haplotype (0: not known) and change
	reads      int
}

const (
	// lengthConcentration is how far the shares of a strand's reads are the same
	// whatever is around a homopolymer: as if so many reads had been seen.
	lengthConcentration = 12
	// wrongHaplotype is the probability that a read is of the other haplotype than it
	// is taken to be of.
	wrongHaplotype = 0.02
	// minRightShare is the least share of reads that show homopolymers of minLongRun bases
	// right, on either strand, for lengths to be evaluated. With fewer (R9.4: 0.3 to 0.5,
	// where R10.4.1 has 0.8 and more) what is taken for a change of length is more often an
	// error beside the homopolymer.
	minRightShare = 0.6
	// minLengthShare is the least probability of an allele that is put to the reads.
	minLengthShare = 0.02
)

// Prior probabilities of a homopolymer: that a diploid sample hasn't the reference's
// length twice grows from longRunRate at minLongRun by longRunFactor with each base, up
// to longRunMost; that it then has one other length twice; that it has two
// others; and of the lengths with each further base.
const (
	longRunRate   = 0.006
	longRunFactor = 1.45
	longRunMost   = 0.15
	sameOnBoth    = 0.4
	twoOthers     = 0.05
	furtherBase   = 0.22
)

// lengthVerdict is what the reads say about the lengths of a homopolymer: the natural
// logarithms of the probabilities of pairs of changes, those of the two haplotypes.
type lengthVerdict struct {
	run     longRun
	changes []int       // that are held possible, ascending
	pairs   [][]float64 // by the haplotypes' changes
}

// lengthsOf collects what the reads in m show of the homopolymer at [start, end);
// false where it doesn't lie well within m.
func (r *Region) lengthsOf(m *matrix, phased *haplotypes, start, end int) (longRun, bool) {
	run := longRun{start: start, end: end}
	if start-flank < m.lo || end+flank > m.hi {
		return run, false
	}
	from, to := start-m.lo, end-m.lo
	changes, rows, numbers := r.work.changes[:0], r.work.rows[:0], r.work.numbers[:0]
	odd := 0
	for i := range m.rows {
		w := &m.rows[i]
		if w.from > from-2 || w.to < to+2 {
			continue
		}
		change, whole := w.lengthChange(r.contig.Seq[start], from, to)
		if !whole {
			continue
		}
		if change != 0 {
			odd++
		}
		changes, rows, numbers = append(changes, change), append(rows, i), append(numbers, w.seg.number)
	}
	r.work.changes, r.work.rows, r.work.numbers = changes, rows, numbers
	run.reads = len(rows)
	if odd < indelMinReads || !r.enough(start, int32(odd), int32(len(rows))) {
		return run, false
	}
	known := make([]hapRead, len(rows))
	if phased != nil {
		_, known = phased.around(start-flank, end+flank, numbers)
	}
	for i, row := range rows {
		run.shown[strandIndex(m.rows[row].seg.reverse)][known[i].haplotype][changeColumn(changes[i])]++
	}
	return run, true
}

// lengthChange is by how many bases w changes the homopolymer of base b in columns
// [from, to); false if it doesn't show it whole.
func (w *row) lengthChange(b byte, from, to int) (change int, whole bool) {
	for _, code := range w.code[from-1 : to+1] {
		if code == absent {
			return 0, false
		}
	}
	for _, code := range w.code[from:to] {
		if code == deleted {
			change--
		}
	}
	for _, in := range w.ins {
		if in.after >= from-1 && in.after < to {
			for _, x := range in.seq {
				if x == b {
					change++
				}
			}
		}
	}
	return change, true
}

// evaluateLengths weighs all pairs of lengths that reads show of a homopolymer.
func (r *Region) evaluateLengths(model *errorModel, run longRun) *lengthVerdict {
	length, base := run.end-run.start, baseCode[r.contig.Seq[run.start]]
	v := &lengthVerdict{run: run}
	var all [lengthChanges]uint32
	for strand := range run.shown {
		for _, shown := range run.shown[strand] {
			for i, n := range shown {
				all[i] += n
			}
		}
	}
	for i, n := range all {
		if change := i - maxLengthChange; length+change >= minCountedRun && (n >= indelMinReads || change == 0) {
			v.changes = append(v.changes, change)
		}
	}
	// The shares of each length by strand, from the point of view of the reference.
	shares := make([][2]lengthShares, len(v.changes))
	for i, change := range v.changes {
		for strand := range 2 {
			b := strandBase(base, strand == 1)
			own := model.lengths[countedRow(length+change)][b]
			if countedRow(length+change) == countedRow(length) {
				own = model.lengthsWithout(length, b, &run.shown[strand])
			}
			shares[i][strand] = own.moved(change)
		}
	}
	prior := math.Log(min(longRunMost, longRunRate*math.Pow(longRunFactor, float64(length-minLongRun))))
	for i, a := range v.changes {
		v.pairs = append(v.pairs, make([]float64, len(v.changes)))
		for j, b := range v.changes {
			p := lengthPrior(prior, a, b)
			for strand := range 2 {
				p += likelihoodOfLengths(&run.shown[strand], &shares[i][strand], &shares[j][strand], i == j)
			}
			v.pairs[i][j] = p
		}
	}
	total := math.Inf(-1)
	for _, row := range v.pairs {
		for _, p := range row {
			total = logAdd(total, p)
		}
	}
	for _, row := range v.pairs {
		for j := range row {
			row[j] -= total
		}
	}
	return v
}

// lengthPrior is the log prior probability of haplotypes with changes a and b, given that
// of any change.
func lengthPrior(change float64, a, b int) float64 {
	size := func(n int) float64 {
		return math.Log(0.5*(1-furtherBase)) + float64(float64(max(n, -n)-1)*math.Log(furtherBase))
	}
	switch {
	case a == 0 && b == 0:
		return math.Log1p(-math.Exp(change))
	case a == b:
		return change + math.Log(sameOnBoth*(1-twoOthers)) + size(a)
	case a == 0 || b == 0:
		return change + math.Log((1-sameOnBoth)*(1-twoOthers)/2) + size(a+b)
	}
	return change + math.Log(twoOthers) + size(a) + size(b)
}

// lengthsWithout is what is expected of a length and base without the reads of the
// homopolymer that is evaluated.
func (m *errorModel) lengthsWithout(length int, b byte, shown *[3][lengthChanges]uint32) lengthShares {
	row := countedRow(length)
	rest := m.counts.lengths[row][b]
	for _, own := range shown {
		for i, n := range own {
			rest[i] -= min(rest[i], n)
		}
	}
	expected := shortRunShares(&m.prior)
	if row > 0 {
		expected = m.lengths[row-1][b].longer()
	}
	return expected.after(&rest)
}

// moved is the shares of changes from the reference's length where the length is
// changed itself, with those of stray reads.
func (s *lengthShares) moved(change int) lengthShares {
	var out lengthShares
	sum := 0.0
	for i := range out {
		seen := i - maxLengthChange - change // against the length that is there
		p := strayLength * math.Pow(0.5, math.Abs(float64(seen))) / 3
		if seen >= -maxLengthChange && seen <= maxLengthChange {
			p += float64((1 - strayLength) * s[seen+maxLengthChange])
		}
		out[i] = p
		sum += p
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// likelihoodOfLengths is the log likelihood of what a strand's reads show, by haplotype, where
// the haplotypes' reads show lengths with shares a and b.
func likelihoodOfLengths(shown *[3][lengthChanges]uint32, a, b *lengthShares, same bool) float64 {
	if same {
		all := shown[0]
		for i := range all {
			all[i] += shown[1][i] + shown[2][i]
		}
		return dirichletMultinomial(&all, a)
	}
	var unknown, first, second lengthShares
	for i := range a {
		unknown[i] = (a[i] + b[i]) / 2
		first[i] = float64((1-wrongHaplotype)*a[i]) + float64(wrongHaplotype*b[i])
		second[i] = float64((1-wrongHaplotype)*b[i]) + float64(wrongHaplotype*a[i])
	}
	return dirichletMultinomial(&shown[0], &unknown) + dirichletMultinomial(&shown[1], &first) + dirichletMultinomial(&shown[2], &second)
}

// dirichletMultinomial is the log probability of a sequence of observations with the
// given counts, whose shares vary about the expected ones.
func dirichletMultinomial(counts *[lengthChanges]uint32, expected *lengthShares) float64 {
	sum, total := 0.0, 0
	for i, n := range counts {
		weight := float64(lengthConcentration * expected[i])
		for k := range n {
			sum += math.Log(weight + float64(k))
		}
		total += int(n)
	}
	for k := range total {
		sum -= math.Log(lengthConcentration + float64(k))
	}
	return sum
}

// opinion is what the lengths say about one allele.
func (v *lengthVerdict) opinion(allele int) opinion {
	var o opinion
	for i := range 3 {
		o.copies[i], o.zygosity[i] = math.Inf(-1), math.Inf(-1)
	}
	for i, a := range v.changes {
		for j, b := range v.changes {
			copies, zygosity := 0, 1
			if a == allele {
				copies++
			}
			if b == allele {
				copies++
			}
			switch {
			case a == 0 && b == 0:
				zygosity = 0
			case a == b:
				zygosity = 2
			}
			o.copies[copies] = logAdd(o.copies[copies], v.pairs[i][j])
			o.zygosity[zygosity] = logAdd(o.zygosity[zygosity], v.pairs[i][j])
		}
	}
	for i := range 3 { // rounding, and what isn't possible among what reads show
		o.copies[i] = min(0, max(o.copies[i], leastLogLength))
		o.zygosity[i] = min(0, max(o.zygosity[i], leastLogLength))
	}
	return o
}

// leastLogLength bounds logarithms of probabilities from below, as a network's are.
const leastLogLength = -200

// proposeLengths lists the alleles of long homopolymers that their lengths hold possible,
// with their opinions.
func (r *Region) proposeLengths(m *matrix, model *errorModel, phased *haplotypes) []candidate {
	var out []candidate
	ref := r.contig.Seq
	for pos := m.lo; pos < m.hi; {
		n := runFrom(ref, pos)
		start, end := pos, pos+n
		pos = end
		if n < minLongRun || baseCode[ref[start]] > 3 || start == 0 || r.ploidy(start-1) != Diploid || !model.reliableLengths(baseCode[ref[start]]) {
			continue
		}
		run, ok := r.lengthsOf(m, phased, start, end)
		if !ok {
			continue
		}
		v := r.evaluateLengths(model, run)
		for _, change := range v.changes {
			if change == 0 {
				continue
			}
			o := v.opinion(change)
			if o.copies[0] > math.Log1p(-minLengthShare) {
				continue
			}
			a := indel{pos: start, del: max(0, -change), ins: string(slices.Repeat(ref[start:start+1], max(0, change)))}
			if c, ok := a.candidate(ref, r.cfg.IndelRate); ok {
				c.lengths = &o
				out = append(out, c)
			}
		}
	}
	return out
}

// reliableLengths reports whether reads are right often enough about homopolymers of base b.
func (m *errorModel) reliableLengths(b byte) bool {
	of := m.lengths[countedRow(minLongRun)]
	return min(of[strandBase(b, false)][maxLengthChange], of[strandBase(b, true)][maxLengthChange]) >= minRightShare
}

// byLength reports whether c changes a long homopolymer of a diploid place and is
// evaluated by lengths.
func (c *candidate) byLength(ref []byte) bool {
	if !c.indel || c.ploidy != Diploid || c.run < minLongRun || c.run != c.end-c.start {
		return false
	}
	changed := c.changed(ref)
	return len(changed) <= maxLengthChange && period(changed) == 1 && runFrom(ref, c.start) >= minLongRun
}
