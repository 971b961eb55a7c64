package variant

import (
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/genome"
)

// An example is what a [Network] is given about one allele, version
// [ExampleVersion]. Planes come first, row-major: plane p has column c at
// p*ExampleColumns+c, and column exampleAnchor is the position of the allele in
// VCF: the substituted base, or the base before an indel. Scalars follow. The
// layout only grows by using scalars that were zero.
const (
	ExampleVersion = 1
	ExampleColumns = 41
	ExamplePlanes  = 48
	ExampleScalars = 80
	ExampleSize    = ExamplePlanes*ExampleColumns + ExampleScalars

	exampleAnchor = 16
)

// Scalars by their index among the scalars. What an example is about, by which
// networks are calibrated, comes first.
const (
	ScalarPloidy = 0 // one of three is 1: haploid, diploid, mixture
	ScalarType   = 3 // one of three is 1: substitution, insertion, deletion
	ScalarLength = 6 // bases inserted or deleted / 16
)

// The heads of a network's answer: natural logarithms of calibrated probabilities.
const (
	// ScoreCopies is where P(0, 1, 2 copies of the allele) start. A haploid sample
	// has 0 or 2; in a mixture 1 means present in a part of the molecules.
	ScoreCopies = 0
	// ScoreZygosity is where P(reference only, two different alleles, one and the
	// same other allele) of the site start.
	ScoreZygosity = 3
	// ScoreLength is where P(change of length of the haplotype that the allele's
	// reads come from), from -16 to 16 bases, start.
	ScoreLength = 6
	// Scores is the number of values of an answer.
	Scores = 39
)

// Network scores alleles.
type Network interface {
	// Score appends to dst Scores values for each example; examples has
	// ExampleSize values for each. The scores of an example depend on that example
	// alone, bit for bit.
	Score(dst, examples []float32) ([]float32, error)
	// Fingerprint differs between networks that score differently.
	Fingerprint() string
}

// Candidate describes an allele that reads show often enough to be scored.
type Candidate struct {
	Contig   string
	Pos      int // 1-based, left-aligned, VCF spelling
	Ref, Alt string
	// Start and End are the 0-based, half-open reference interval over which the
	// change can't be distinguished from equivalent ones: the repeat that an
	// indel is in.
	Start, End int
	// Run is the length of the homopolymer that an indel is in, its like in another
	// repeat, or that of the longest one beside a substitution. Unit and Copies are
	// the length of the unit of an indel's repeat, in bases, and how often the
	// reference has it, rounded down; 0 for a substitution.
	Run, Unit, Copies int
	Depth             int // reads that span the window around it
	// Reads per strand, forward first, that prefer the reference, the allele, or an
	// allele that excludes it.
	RefReads, AltReads, OtherReads [2]int
}

// Examples passes every candidate of the region's core to emit, by position, with
// its example, exactly as they are put to a network. The example is valid until
// emit returns; its error ends the walk and is returned.
func (r *Region) Examples(emit func(Candidate, []float32) error) error {
	model := r.errorModel()
	haplotypes := r.phaseReads(model, r.allTiles())
	for t := range r.tiles {
		cs := r.gather(t, model, haplotypes)
		r.work.encoder.begin(r, &r.work.scratch, model)
		for i := range cs {
			c := &cs[i]
			if c.lengths != nil || c.pos < r.tileStart(t) || c.pos >= r.tileEnd(t) {
				continue
			}
			if haplotypes != nil {
				c.haps = haplotypes.of(c, &r.work.scratch)
			}
			r.work.examples = r.work.encoder.append(r.work.examples[:0], c)
			if err := emit(c.describe(r.contig), r.work.examples); err != nil {
				return fmt.Errorf("passing on the example of %s:%d %s>%s: %w", r.contig.Name, c.pos+1, c.ref, c.alt, err)
			}
		}
	}
	return nil
}

// describe is what others may know of c.
func (c *candidate) describe(contig *genome.Contig) Candidate {
	d := Candidate{
		Contig: contig.Name, Pos: c.pos + 1, Ref: c.ref, Alt: c.alt, Start: c.start, End: c.end, Run: c.run,
		Depth: c.depth, RefReads: c.refReads, AltReads: c.altReads, OtherReads: c.otherReads,
	}
	if c.indel {
		d.Unit = period(c.changed(contig.Seq))
		d.Copies = (c.end - c.from) / d.Unit
	}
	return d
}

// The planes. The first are per group of reads, those that show, by column:
// another base than the reference's, a gap, inserted bases behind the column (their
// number, of a read at most maxInsertedCount), anything at all. They are divided by
// the number of reads.
const (
	planeBase     = 0 // of a group; A, C, G, T
	planeGap      = 4
	planeInserted = 5
	planeCovered  = 6
	groupPlanes   = 7

	planeReference  = groups * groupPlanes // A, C, G, T
	planeAllele     = planeReference + 4   // its bases, from where they differ or are inserted on
	planeAlleleGap  = planeAllele + 4      // reference bases that it deletes
	planeRun        = planeAlleleGap + 1   // length of the reference's homopolymer / 10
	planeQuality    = planeRun + 1         // mean Phred quality of differing bases / 40
	planeDwell      = planeQuality + 1     // frames per base over the read's mean, of reads that show the allele
	planeDwellOther = planeDwell + 1       // and of those that don't
)

const _ = uint(ExamplePlanes - planeDwellOther - 1) // compiles if the planes fit

// The groups of reads: those that prefer the allele, those that don't, by strand,
// and those that are undecided.
const (
	groupAlt = iota
	groupAltReverse
	groupOther
	groupOtherReverse
	groupUndecided
	groups
)

// maxEdits bounds the scalar of differences per column.
const maxEdits = 4

// maxInsertedCount is how many inserted bases of a read count at one place.
const maxInsertedCount = 16

// The scalars. Natural logarithms x of likelihood ratios are given as
// asinh(x)/5, counts n as log(1+n)/5. A vector's first place is named and
// followed by the others. Pairs by strand begin with the forward one.
// ScalarPloidy, ScalarType and ScalarLength come first.
const (
	scalarRun          = 7  // homopolymer that it is in or, a substitution, beside / 10
	scalarUnit         = 8  // length of the unit of an indel's repeat / 10
	scalarCopies       = 9  // units in the repeat / 10
	scalarPalindrome   = 10 // in four bases that are their own reverse complement
	scalarDepth        = 11 // reads, a count
	scalarShares       = 12 // 5: of the groups
	scalarCounts       = 17 // 5: of the groups
	scalarSupport      = 22 // 2: sum of the reads' log likelihood ratios by strand
	scalarDoses        = 24 // 9: log likelihood of 0, 1, 2 of 2 copies less the greatest: all reads, forward, reverse
	scalarOdds         = 33 // posterior log odds with systematic errors
	scalarMismatch     = 34 // mismatches per aligned base of the region * 10
	scalarGaps         = 35 // gaps per column of the region * 10
	scalarDeletions    = 36 // 2: deletions per homopolymer of this length and base in the region, by strand
	scalarInsertions   = 38 // 2: insertions
	scalarConfusion    = 40 // 4: log10 of the rate of the base in its context / 4: of reference reads by strand, of the allele's
	scalarMapping      = 44 // 2: mean mapping quality / 60 of the allele's reads, of the others
	scalarQuality      = 46 // mean Phred quality of a substitution's bases / 40
	scalarEdits        = 47 // 2: mean differences per column of the allele's reads in the tile * 10, of the others
	scalarAlleles      = 49 // alleles in the cluster / 8
	scalarExcluded     = 50 // of these, those that can't be together with it / 8
	scalarRival        = 51 // largest share of reads of one of these
	scalarDistance     = 52 // bases to the closest other allele / 32; 1 if there is none
	scalarWeak         = 53 // not combined with all of the others
	scalarElsewhere    = 54 // share of reads that prefer an allele that excludes it
	scalarFull         = 55 // depth / the depth at which reads are left out
	scalarHasQualities = 56
	scalarHasDwell     = 57
	scalarTransition   = 58 // a substitution of A by G, C by T, or back
	scalarFraction     = 59 // likeliest share of the allele
	scalarFractionOdds = 60 // log likelihood ratio of that share over none
	scalarChange       = 61 // 2: mean change of length at the site, as aligned, of the allele's reads / 16, of the others
	scalarSpread       = 63 // 2: mean distance from it / 16
	scalarStrength     = 65 // 2: mean log likelihood ratio of the allele's reads / maxReadSupport, of the others
	scalarSlack        = 67 // bases over which an indel can slide / maxTract
	scalarPartial      = 68 // share of the reads at the site that don't span the window

	// Evidence from the haplotypes of reads, without what the reads show at the allele or beside it: all 0
	// where none is known, as in a haploid sample. The haplotype whose reads speak more for the allele comes
	// first.
	scalarHapKnown   = 69 // share of the reads whose haplotype is known
	scalarHapSupport = 70 // 2: sum of the log likelihood ratios of their reads
	scalarHapCounts  = 72 // 2: of their reads
	scalarHapShares  = 74 // 2: share of their reads that prefer the allele
	scalarHapDoses   = 76 // 3: log likelihood of no copy, one on the first haplotype, two, less the greatest
	usedScalars      = 79
)

const _ = uint(ExampleScalars - usedScalars) // compiles if the scalars fit

// qualityOfBin is a Phred quality for each bin of a differing base.
var qualityOfBin = [...]float32{0, 3, 6, 9, 13, 17, 24, 33}

// encoder turns candidates of a tile into examples.
type encoder struct {
	m     *matrix
	model *errorModel
	cfg   *Config
	ref   []byte
	edits []float32 // differences per column, by row

	spanning int // reads of the allele, before some are left out

	// Of the read that is painted.
	work    *Workspace
	painted row
	hap     []byte
	columns []int
	where   []int32
}

// begin starts with another tile.
func (e *encoder) begin(r *Region, m *matrix, model *errorModel) {
	e.m, e.model, e.cfg, e.ref, e.work = m, model, &r.cfg, r.contig.Seq, r.work
	e.edits = e.edits[:0]
	for i := range m.rows {
		w := &m.rows[i]
		n := len(w.ins)
		for _, a := range w.altered {
			if a.code != m.ref[a.col] {
				n++
			}
		}
		e.edits = append(e.edits, float32(n)/float32(max(1, m.columnsShown(w))))
	}
}

// group is the group of a read.
func (e *encoder) group(s *support) int {
	g := groupUndecided
	switch {
	case s.llr > informative:
		g = groupAlt
	case s.llr < -informative:
		g = groupOther
	}
	if g != groupUndecided {
		g += strandIndex(e.m.rows[s.row].seg.reverse)
	}
	return g
}

// append appends the example of c.
func (e *encoder) append(dst []float32, c *candidate) []float32 {
	if c.isComplex() {
		stand, w := *c, c.likest()
		stand.pos, stand.from, stand.to, stand.seq, stand.start, stand.end, stand.indel = w.pos, w.from, w.to, w.seq, w.start, w.end, w.indel
		stand.parts = nil
		c = &stand
	}
	e.spanning = c.depth
	c = e.thinned(c)
	n := len(dst)
	dst = slices.Grow(dst, ExampleSize)[:n+ExampleSize]
	clear(dst[n:])
	scalars := dst[n+ExamplePlanes*ExampleColumns:]
	e.scalars(scalars, c)
	if e.planes(dst[n:], c) {
		scalars[scalarHasQualities] = 1
	}
	return dst
}

// plane is plane p of an example.
func plane(example []float32, p int) []float32 {
	return example[p*ExampleColumns:][:ExampleColumns]
}

// planes fills in what the columns around c show. It reports whether bases have
// qualities.
func (e *encoder) planes(x []float32, c *candidate) (qualities bool) {
	first := c.pos - exampleAnchor // reference position of column 0
	lo, hi := max(0, -first), min(ExampleColumns, len(e.ref)-first)
	var reference [ExampleColumns]byte
	for col := lo; col < hi; col++ {
		b := baseCode[e.ref[first+col]]
		reference[col] = b
		if b < 4 {
			plane(x, planeReference+int(b))[col] = 1
			plane(x, planeRun)[col] = float32(runAround(e.ref, first+col)) / 10
		}
	}
	for i, b := range []byte(c.seq) {
		if col := c.from - first + i; col < ExampleColumns {
			plane(x, planeAllele+int(baseCode[b]))[col] = 1
		}
	}
	if c.indel {
		for p := c.from; p < min(c.to, first+ExampleColumns); p++ {
			plane(x, planeAlleleGap)[p-first] = 1
		}
	}

	var wrong [ExampleColumns]float32 // differing bases
	quality := plane(x, planeQuality)
	lo, hi = max(lo, e.m.lo-first), min(hi, e.m.hi-first)
	shift := first - e.m.lo // from columns of the example to those of the matrix
	for i := range c.reads {
		s := &c.reads[i]
		w := e.row(c, i)
		group := x[e.group(s)*groupPlanes*ExampleColumns:][:groupPlanes*ExampleColumns]
		for col := max(lo, w.from-shift); col < min(hi, w.to-shift); col++ {
			code := w.code[shift+col]
			if code == absent {
				continue
			}
			group[planeCovered*ExampleColumns+col]++
			switch {
			case code == reference[col]:
			case code == deleted:
				group[planeGap*ExampleColumns+col]++
			case code < 4:
				group[(planeBase+int(code))*ExampleColumns+col]++
				wrong[col]++
				if bin := int(w.qual[shift+col]); bin < len(qualityOfBin) {
					quality[col] += qualityOfBin[bin]
					qualities = qualities || bin != noQuality
				}
			}
		}
		for _, ins := range w.ins {
			if col := ins.after - shift; col >= lo && col < hi && w.code[ins.after] != absent {
				group[planeInserted*ExampleColumns+col] += float32(min(len(ins.seq), maxInsertedCount))
			}
		}
	}
	for i := range groups * groupPlanes * ExampleColumns {
		x[i] /= float32(max(1, c.depth))
	}
	for col, n := range wrong {
		quality[col] /= 40 * max(1, n)
	}
	return qualities
}

// scalars fills in what sums c up.
func (e *encoder) scalars(x []float32, c *candidate) {
	flag := func(at int, v bool) {
		if v {
			x[at] = 1
		}
	}
	flag(ScalarPloidy, c.ploidy == Haploid)
	flag(ScalarPloidy+1, c.ploidy == Diploid)
	flag(ScalarPloidy+2, c.ploidy == Mixture)
	insertion := c.indel && c.from == c.to
	flag(ScalarType, !c.indel)
	flag(ScalarType+1, insertion)
	flag(ScalarType+2, c.indel && !insertion)
	x[scalarRun] = float32(c.run) / 10
	base := baseCode[e.ref[c.pos]]
	if c.indel {
		unit := c.changed(e.ref)
		base = baseCode[unit[0]]
		slack := c.end - c.to
		x[ScalarLength] = float32(len(unit)) / 16
		x[scalarUnit] = float32(period(unit)) / 10
		x[scalarCopies] = float32(slack+len(unit)) / float32(10*period(unit))
		x[scalarSlack] = float32(slack) / maxTract
	} else {
		for strand := range 2 {
			x[scalarConfusion+strand] = float32(math.Log10(c.rates[0][strand]) / 4)
			x[scalarConfusion+2+strand] = float32(math.Log10(c.rates[1][strand]) / 4)
		}
		flag(scalarTransition, (base+2)&3 == baseCode[c.seq[0]])
		flag(scalarPalindrome, inPalindrome(e.ref, c.pos))
	}
	for strand := range 2 {
		b := strandBase(base, strand == 1)
		x[scalarDeletions+strand] = float32(e.model.deletion[min(c.run, maxRun)][b])
		x[scalarInsertions+strand] = float32(e.model.insertion[min(c.run, maxRun)][b])
	}
	x[scalarMismatch] = float32(10 * e.model.mismatch)
	x[scalarGaps] = float32(10 * e.model.gapRate)
	x[scalarOdds] = ratioScale(c.logOdds)
	x[scalarDepth] = countScale(c.depth)
	full := e.cfg.MaxDepth
	if e.deep(c) {
		full = min(full, networkDepth)
	}
	x[scalarFull] = float32(c.depth) / float32(full)

	x[scalarAlleles] = float32(c.company.alleles) / 8
	x[scalarExcluded] = float32(c.company.excluded) / 8
	x[scalarRival] = float32(c.company.rival)
	x[scalarDistance] = 1
	if d := c.company.distance; d >= 0 {
		x[scalarDistance] = min(1, float32(d)/32)
	}
	flag(scalarWeak, c.company.weak)

	e.sums(x, c)
	e.doses(x, c)
	e.haplotypes(x, c)
}

// sums fills in sums over the reads.
func (e *encoder) sums(x []float32, c *candidate) {
	var (
		counts                       [groups]int
		support                      [2]float64
		reads                        [2]int // that prefer the allele, that don't
		mapping, edits, change, llrs [2]float64
		qualities, bases             float64
		others                       int
	)
	depth := float32(max(1, c.depth))
	site := c.from - e.m.lo
	for i := range c.reads {
		s := &c.reads[i]
		w := e.row(c, i)
		support[strandIndex(w.seg.reverse)] += s.llr
		if s.other && c.paint == nil {
			others++
		}
		g := e.group(s)
		counts[g]++
		if g == groupUndecided {
			continue
		}
		side := g / 2
		reads[side]++
		mapping[side] += float64(w.seg.mappingQuality)
		edits[side] += float64(e.edits[s.row])
		change[side] += float64(w.change(c.start-e.m.lo, c.end-e.m.lo))
		llrs[side] += s.llr
		if !c.indel && w.code[site] == baseCode[c.seq[0]] {
			bases++
			if bin := int(w.qual[site]); bin < len(qualityOfBin) {
				qualities += float64(qualityOfBin[bin])
			}
		}
	}
	for g, n := range counts {
		x[scalarShares+g] = float32(n) / depth
		x[scalarCounts+g] = countScale(n)
	}
	for strand, sum := range support {
		x[scalarSupport+strand] = ratioScale(sum)
	}
	for side, n := range reads {
		n := float64(max(1, n))
		change[side] /= n
		x[scalarMapping+side] = float32(mapping[side] / n / 60)
		x[scalarEdits+side] = float32(min(maxEdits, 10*edits[side]/n))
		x[scalarChange+side] = float32(change[side] / 16)
		x[scalarStrength+side] = float32(llrs[side] / n / maxReadSupport)
	}
	var spread [2]float64
	for i := range c.reads {
		if g := e.group(&c.reads[i]); g != groupUndecided {
			w := e.row(c, i)
			spread[g/2] += math.Abs(float64(w.change(c.start-e.m.lo, c.end-e.m.lo)) - change[g/2])
		}
	}
	for side, n := range reads {
		x[scalarSpread+side] = float32(spread[side] / float64(max(1, n)) / 16)
	}
	if bases > 0 {
		x[scalarQuality] = float32(qualities / bases / 40)
	}
	x[scalarElsewhere] = float32(others) / depth
	there := 0
	for i := range e.m.rows {
		if w := &e.m.rows[i]; w.from <= site && site < w.to && w.code[site] != absent {
			there++
		}
	}
	x[scalarPartial] = float32(max(0, there-e.spanning)) / float32(max(1, there))
}

// change is by how many bases the read is longer than the reference, as aligned,
// over columns [from, to) and the borders around them.
func (w *row) change(from, to int) int {
	n := 0
	for c := max(from-1, w.from); c < min(to+1, w.to); c++ {
		if w.code[c] == deleted {
			n--
		}
	}
	for _, ins := range w.ins {
		if ins.after >= from-1 && ins.after < to {
			n += len(ins.seq)
		}
	}
	return n
}

// doses fills in what independent reads say about the number of copies.
func (e *encoder) doses(x []float32, c *candidate) {
	var sums [2][3]float64 // by strand and copies
	for i := range c.reads {
		s := &c.reads[i]
		p := s.likelihoods()
		own := &sums[strandIndex(e.m.rows[s.row].seg.reverse)]
		own[0] += min(0, -s.llr)
		own[1] += math.Log((p[0] + p[1]) / 2)
		own[2] += min(0, s.llr)
	}
	both := [3]float64{sums[0][0] + sums[1][0], sums[0][1] + sums[1][1], sums[0][2] + sums[1][2]}
	for i, l := range [][3]float64{both, sums[0], sums[1]} {
		best := max(l[0], l[1], l[2])
		for copies, v := range l {
			x[scalarDoses+3*i+copies] = ratioScale(v - best)
		}
	}
	f := c.fraction()
	odds := -both[0]
	for i := range c.reads {
		p := c.reads[i].likelihoods()
		odds += math.Log(float64((1-f)*p[0]) + float64(f*p[1]))
	}
	x[scalarFraction] = float32(f)
	x[scalarFractionOdds] = ratioScale(odds)
}

// haplotypes fills in what reads of either haplotype say.
func (e *encoder) haplotypes(x []float32, c *candidate) {
	if c.haps.set == noSet || len(c.haps.reads) == 0 {
		return
	}
	reads := c.haps.reads
	var (
		support     [2]float64
		count, with [2]int
	)
	for i := range c.reads {
		if h := reads[i].haplotype; h > 0 {
			llr := c.reads[i].llr
			support[h-1] += llr
			count[h-1]++
			if llr > informative {
				with[h-1]++
			}
		}
	}
	known := count[0] + count[1]
	if known == 0 {
		return
	}
	first := 0
	if support[1] > support[0] {
		first = 1
	}
	x[scalarHapKnown] = float32(known) / float32(c.depth)
	for i, h := range [2]int{first, 1 - first} {
		x[scalarHapSupport+i] = ratioScale(support[h])
		x[scalarHapCounts+i] = countScale(count[h])
		x[scalarHapShares+i] = float32(with[h]) / float32(max(1, count[h]))
	}
	var doses [3]float64
	for i := range c.reads {
		s := &c.reads[i]
		p := s.likelihoods()
		own := reads[i].share() // probability that the read is of the first haplotype
		if first == 1 {
			own = 1 - own
		}
		doses[0] += min(0, -s.llr)
		doses[1] += math.Log(float64(own*p[1]) + float64((1-own)*p[0]))
		doses[2] += min(0, s.llr)
	}
	best := max(doses[0], doses[1], doses[2])
	for copies, v := range doses {
		x[scalarHapDoses+copies] = ratioScale(v - best)
	}
}

// fraction is the likeliest share of the molecules that have the allele.
func (c *candidate) fraction() float64 {
	if len(c.reads) == 0 {
		return 0
	}
	f := 0.5
	for range 12 { // of expectation maximisation
		sum := 0.0
		for i := range c.reads {
			p := c.reads[i].likelihoods()
			with, without := float64(f*p[1]), float64((1-f)*p[0])
			sum += with / (with + without)
		}
		f = sum / float64(len(c.reads))
	}
	return f
}

// changed is the bases that an indel inserts or deletes.
func (c *candidate) changed(ref []byte) string {
	if c.from == c.to {
		return c.seq
	}
	return string(ref[c.from:c.to])
}

// period is the length of the shortest unit of which seq is a number of copies.
func period(seq string) int {
	for n := 1; n < len(seq); n++ {
		if len(seq)%n == 0 && seq[n:] == seq[:len(seq)-n] {
			return n
		}
	}
	return len(seq)
}

func ratioScale(logRatio float64) float32 { return float32(math.Asinh(logRatio) / 5) }

func countScale(n int) float32 { return float32(math.Log1p(float64(n)) / 5) }
