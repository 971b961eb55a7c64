package variant

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	// maxHaplotypes bounds the combinations of alleles of a cluster.
	maxHaplotypes = 16
	// maxWeakHaplotypes bounds those that an allele is put on top of, when not all
	// combinations with it fit.
	maxWeakHaplotypes = 4
	// maxCluster bounds the alleles that compete in a window.
	maxCluster = 12
)

// lattice is the haplotypes of a cluster, as sets of alleles by index. The first
// is the reference.
type lattice struct {
	sets []uint16
	seqs [][]byte
	// full is how many of them are all combinations of the first strong alleles;
	// each other allele has been put on top of the first few of these only.
	full, strong int
	all          []int // their indexes
	leftOut      int   // combinations with the other alleles that are none of them
}

// newLattice combines alleles, strongest first. Of combinations that spell the
// same bases only the one with the fewest alleles counts.
func newLattice(ref []byte, lo, hi int, alleles []candidate) *lattice {
	l := &lattice{sets: []uint16{0}}
	for l.strong < len(alleles) {
		sets := l.with(l.sets, alleles, l.strong)
		if len(l.sets)+len(sets) > maxHaplotypes {
			break
		}
		l.sets = append(l.sets, sets...)
		l.strong++
	}
	l.full = len(l.sets)
	for i := l.strong; i < len(alleles); i++ {
		few := min(l.full, maxWeakHaplotypes)
		l.leftOut += len(l.with(l.sets[few:l.full], alleles, i))
		l.sets = append(l.sets, l.with(l.sets[:few], alleles, i)...)
	}
	order := make([]int, len(l.sets))
	for i := range l.sets {
		order[i] = i
		l.seqs = append(l.seqs, spell(ref, lo, hi, l.members(alleles, i)))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(bits.OnesCount16(l.sets[a]), bits.OnesCount16(l.sets[b]))
	})
	var kept []int
	for _, i := range order {
		if !slices.ContainsFunc(kept, func(k int) bool { return bytes.Equal(l.seqs[k], l.seqs[i]) }) {
			kept = append(kept, i)
		}
	}
	slices.Sort(kept)
	for n, i := range kept {
		l.sets[n], l.seqs[n] = l.sets[i], l.seqs[i]
	}
	l.sets, l.seqs = l.sets[:len(kept)], l.seqs[:len(kept)]
	l.full, _ = slices.BinarySearch(kept, l.full)
	for h := range l.sets {
		l.all = append(l.all, h)
	}
	return l
}

// with is the sets that allele i can join, with it.
func (l *lattice) with(sets []uint16, alleles []candidate, i int) []uint16 {
	var out []uint16
	for _, set := range sets {
		joins := true
		for a := range alleles {
			joins = joins && (set&(1<<a) == 0 || !alleles[a].conflicts(&alleles[i]))
		}
		if joins {
			out = append(out, set|1<<i)
		}
	}
	return out
}

// members are the alleles of haplotype h.
func (l *lattice) members(alleles []candidate, h int) []candidate {
	var out []candidate
	for a := range alleles {
		if l.sets[h]&(1<<a) != 0 {
			out = append(out, alleles[a])
		}
	}
	return out
}

// compared reports whether haplotype h distinguishes allele i from its absence:
// haplotypes with it have counterparts without it.
func (l *lattice) compared(h, i int) bool {
	if i < l.strong {
		return h < l.full
	}
	return l.sets[h]&(1<<i) != 0 || h < min(l.full, maxWeakHaplotypes)
}

// compete puts the alleles of a cluster, sorted by start, to the reads again, each
// with and without the others; painted is whether a network is to see each as if it were the
// only one. The second result is how that went; nil if there is but one allele.
func (r *Region) compete(m *matrix, model *errorModel, cluster []candidate, painted bool) ([]candidate, *contest) {
	if len(cluster) == 1 {
		cluster[0].company = company{alleles: 1, distance: -1}
		return cluster, nil
	}
	cluster = r.strongest(cluster)
	lo, hi := cluster[0].start, cluster[0].end
	for i := range cluster {
		lo, hi = min(lo, cluster[i].start), max(hi, cluster[i].end)
	}
	lo, hi = max(lo-flank, m.lo), min(hi+flank, m.hi)
	l := newLattice(r.contig.Seq, lo, hi, cluster)
	r.bounds.Combinations += l.leftOut
	for i := range cluster {
		cluster[i].company = l.company(cluster, i)
	}

	g := &r.work.aligner
	g.begin(model)
	for _, seq := range l.seqs {
		g.add(seq)
	}
	reads := r.alignSpanning(m, lo, hi, nil)
	r.work.totals = reads.regrets(r.work.totals[:0])
	of := &contest{haplotypes: l, rows: slices.Clone(reads.rows)}
	for n := range reads.rows {
		of.closest = append(of.closest, l.closest(-1, l.all, reads.costs(n)))
	}
	var shared *painting
	if painted {
		shared = &painting{lo: lo, hi: hi, haplotypes: l, alleles: slices.Clone(cluster), changes: make([][]candidate, len(l.sets))}
	}
	for i := range cluster {
		r.putToReads(m, l, cluster, i, reads, shared)
	}
	return cluster, of
}

// strongest orders the alleles of a cluster, and leaves the weakest out where there are too many.
// Complex alleles come first, so that all others are compared with them.
func (r *Region) strongest(cluster []candidate) []candidate {
	slices.SortFunc(cluster, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(min(1, b.nest), min(1, a.nest)), cmp.Compare(a.level, b.level), cmp.Compare(b.strength, a.strength), a.compare(&b))
	})
	r.bounds.Alleles += max(0, len(cluster)-maxCluster)
	return cluster[:min(len(cluster), maxCluster)]
}

// spanningReads are the reads that span a cluster, aligned to each of its haplotypes. They
// lie in the region's workspace: they hold until the next cluster.
type spanningReads struct {
	aligner *realigner
	rows    []int // of the matrix
	offsets []int // of their costs
}

// costs are those of the n-th read by haplotype, in milli-Phred.
func (s *spanningReads) costs(n int) []int32 { return s.aligner.costs[s.offsets[n]:][:s.aligner.count] }

// regrets appends, for each haplotype, how much more it costs all reads than those that each of
// them fits best; no read decides alone, see [maxRegret].
func (s *spanningReads) regrets(totals []int64) []int64 {
	for h := range s.aligner.count {
		totals = append(totals, 0)
		for n := range s.rows {
			costs := s.costs(n)
			totals[h] += int64(min(costs[h]-slices.Min(costs), maxRegret))
		}
	}
	return totals
}

// alignSpanning aligns the reads that span [lo, hi), of the given rows only if those aren't nil, to the
// haplotypes that were added to the aligner.
func (r *Region) alignSpanning(m *matrix, lo, hi int, among []int) *spanningReads {
	g := &r.work.aligner
	rows, offsets := r.work.rows[:0], r.work.offsets[:0]
	for i := range m.rows {
		if _, is := slices.BinarySearch(among, i); among != nil && !is {
			continue
		}
		if w := &m.rows[i]; g.setQuery(w, lo-m.lo, hi-m.lo) {
			rows, offsets = append(rows, i), append(offsets, g.offset(w.seg.reverse))
		}
	}
	r.work.rows, r.work.offsets = rows, offsets
	return &spanningReads{aligner: g, rows: rows, offsets: offsets}
}

// putToReads has the reads say of allele i what they say with and without the others; shared is
// what networks are shown of the cluster, nil if they see reads as they are.
func (r *Region) putToReads(m *matrix, l *lattice, cluster []candidate, i int, reads *spanningReads, shared *painting) {
	c := &cluster[i]
	opponents, rival := l.all, -1
	switch {
	case c.nest > 0:
		opponents = l.nested(cluster, i)
		if c.ploidy == Haploid {
			opponents = l.closer(opponents, i, r.work.totals)
		}
	case c.ploidy == Haploid:
		opponents, rival = l.duel(i, r.work.totals)
	}
	before := len(r.work.supports)
	for n, row := range reads.rows {
		r.work.supports = append(r.work.supports, l.support(m, row, cluster, i, opponents, reads.costs(n)))
	}
	c.reads = slices.Clip(r.work.supports[before:])
	if c.nest > 0 {
		outside := l.outside(cluster, i)
		for n, row := range reads.rows {
			c.whole = append(c.whole, l.support(m, row, cluster, i, outside, reads.costs(n)))
		}
	}
	c.paint = nil
	if shared != nil {
		own := *shared
		own.focus = i
		for n := range reads.rows {
			own.shown = append(own.shown, l.closest(i, opponents, reads.costs(n)))
		}
		c.paint = &own
	}
	c.rival = nil
	if rival < 0 {
		return
	}
	before = len(r.work.supports)
	for n, row := range reads.rows {
		costs := reads.costs(n)
		r.work.supports = append(r.work.supports, c.support(m, row, costs[rival], costs[opponents[1]]))
	}
	c.rival = slices.Clip(r.work.supports[before:])
}

// contest is which haplotypes of a cluster reads fit best.
type contest struct {
	haplotypes *lattice
	rows       []int // that span it
	closest    []int // haplotype, by these
}

// maxRegret bounds, in milli-Phred, what one read says against a haplotype when the
// haplotypes of a place are compared over all reads: a read of another place, or one that
// is wrong all over, is not to decide.
const maxRegret = 20_000

// duel returns the haplotypes without and with allele i of a haploid sample that reads are
// put to, and another one without it that is a rival of the one with it; -1 if there is none.
//
// Problem: a read that is wrong beside an allele fits some other combination of alleles
// better than any with it, and each wrong read another one.
//
// Assumptions: all reads come from one haplotype.
//
// Strategy: of the haplotypes with the allele the one that all reads together fit best is
// compared with the same without the allele; or with the best one without, if the reads
// fit that better than any with it. Otherwise that one is the rival: what is to be said for
// it is part of the doubt about the allele.
//
// Consequences: the errors of single reads don't split the reads of an allele.
func (l *lattice) duel(i int, totals []int64) (opponents []int, rival int) {
	with, without := -1, 0
	for h := range l.sets {
		switch {
		case !l.compared(h, i):
		case l.sets[h]&(1<<i) == 0:
			if totals[h] < totals[without] {
				without = h
			}
		case with < 0 || totals[h] < totals[with]:
			with = h
		}
	}
	if with < 0 { // another allele spells the same
		return []int{without, without}, -1
	}
	same := max(0, slices.Index(l.sets, l.sets[with]&^(1<<i))) // the reference, if what is left spells as others do
	if same == without || totals[without] < totals[with] {
		return []int{without, with}, -1
	}
	return []int{same, with}, without
}

// nested are the haplotypes among which a complex allele i, or one of its nest, is compared
// with what is left of it without its most doubtful change: that, the reference, and the complex
// alleles of other haplotypes of a sample that has several. What is left can be worse than either,
// where changes make sense together only.
func (l *lattice) nested(alleles []candidate, i int) []int {
	c := &alleles[i]
	rest := slices.IndexFunc(alleles, func(o candidate) bool { return c.holds(&o) && o.level == c.level+1 })
	var out []int
	for h, set := range l.sets {
		if bits.OnesCount16(set) > 1 {
			continue
		}
		switch a := bits.TrailingZeros16(set); {
		case set == 0:
		case set != 0 && (a == i || a == rest):
		case set != 0 && c.ploidy != Haploid && alleles[a].nest > 0 && alleles[a].nest != c.nest && alleles[a].level == 0:
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// closer are, of some haplotypes, the one with allele i, and of the others the one that all reads
// together fit best.
func (l *lattice) closer(among []int, i int, totals []int64) []int {
	with, without := -1, -1
	for _, h := range among {
		switch {
		case l.sets[h]&(1<<i) != 0:
			with = h
		case without < 0 || totals[h] < totals[without]:
			without = h
		}
	}
	if with < 0 { // another allele spells the same
		return []int{without}
	}
	return []int{without, with}
}

// outside are the haplotypes with allele i, and those that have nothing of its nest.
func (l *lattice) outside(alleles []candidate, i int) []int {
	c := &alleles[i]
	var nest uint16
	for a := range alleles {
		if alleles[a].holds(c) || c.holds(&alleles[a]) {
			nest |= 1 << a
		}
	}
	var out []int
	for h, set := range l.sets {
		if set&nest == 0 {
			out = append(out, h)
		}
	}
	return out
}

// support is what a read that costs so much under each haplotype says about
// allele i, put to some of them.
func (l *lattice) support(m *matrix, row int, alleles []candidate, i int, opponents []int, costs []int32) support {
	without, with := int32(math.MaxInt32), int32(math.MaxInt32)
	best := opponents[0]
	for _, h := range opponents {
		if !l.compared(h, i) {
			continue
		}
		cost := costs[h]
		if l.sets[h]&(1<<i) != 0 {
			with = min(with, cost)
		} else {
			without = min(without, cost)
		}
		if cost < costs[best] {
			best = h
		}
	}
	s := alleles[i].support(m, row, without, with)
	if s.llr < -informative {
		for a := range alleles {
			s.other = s.other || l.sets[best]&(1<<a) != 0 && alleles[a].conflicts(&alleles[i])
		}
	}
	return s
}

// closest is the haplotype that fits a read best, given the read's cost under each, the
// first of equals: of those opponents that distinguish allele i from its absence, or of
// all if i is negative.
func (l *lattice) closest(i int, opponents []int, costs []int32) int {
	best := -1
	for _, h := range opponents {
		if (i < 0 || l.compared(h, i)) && (best < 0 || costs[h] < costs[best]) {
			best = h
		}
	}
	return max(0, best)
}

// company is the other alleles that allele i has in the cluster.
func (l *lattice) company(alleles []candidate, i int) company {
	c := &alleles[i]
	x := company{alleles: len(alleles), distance: -1, weak: i >= l.strong}
	for a := range alleles {
		if a == i {
			continue
		}
		o := &alleles[a]
		if o.conflicts(c) {
			x.excluded++
			n := 0
			for _, s := range o.reads {
				if s.llr > informative {
					n++
				}
			}
			x.rival = max(x.rival, float64(n)/float64(len(o.reads)))
		}
		if d := max(0, o.start-c.end, c.start-o.end); x.distance < 0 || d < x.distance {
			x.distance = d
		}
	}
	return x
}
