package variant

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// candidate is an allele that is put to the reads.
type candidate struct {
	pos      int // 0-based position of ref
	ref, alt string

	// The change without padding: reference bases [from, to) become seq.
	from, to int
	seq      string
	// The bases within which the change can't be distinguished from equivalent
	// ones: the repeat that an indel is in. No other call may claim them.
	start, end int
	indel      bool
	ploidy     Ploidy
	run        int // homopolymer that the change is in or beside, in bases

	makeUp

	prior float64 // probability of the allele
	// How often reads of the reference agree on the allele, and of the allele on
	// the reference, by mistake.
	sys   [2]systematic
	rates [2][2]float64 // of confusion of a substitution, [hypothesis][strand]

	readings
	outcome
}

// makeUp is what a complex allele is made of.
type makeUp struct {
	parts   []candidate // its changes
	weakest int         // the most doubtful of them
	// Of it and those without its doubtful changes, which are there in case a
	// network doesn't believe in these: a number of their own, from 1, and how many of the
	// changes are left out.
	nest, level int
	sole        bool // the nest is in place of the two of the cluster, in case a network doesn't believe in one of these
	cluster     int  // in which it competed
}

// readings are what reads say of an allele against the others of its cluster.
type readings struct {
	reads    []support // that span the window, in canonical order
	whole    []support // of one of a nest: the same against haplotypes that have nothing of the nest
	rival    []support // the same against another haplotype without the allele; nil: there is none
	paint    *painting // what a network is shown of them; nil: what is aligned
	alone    bool      // the network is shown none of the others in the cluster
	haps     hapReads  // where haplotypes are known: those of these reads
	side     side      // and where it lies, if one haplotype has it
	strength float64   // log likelihood that its reads gain, while no other allele competes
	company  company   // in its cluster

	lengths *opinion // of an allele that is evaluated by lengths of a homopolymer
}

// outcome is what the reads' evidence of an allele comes to.
type outcome struct {
	logOdds float64 // natural log of its posterior odds by the analytic model
	depth   int
	// Reads per strand that prefer the reference, the allele, and an allele that
	// excludes it.
	refReads, altReads, otherReads [2]int
	biased                         bool
	carried                        bool // by nearly all of many reads, of either strand

	newestRun string // of the newest read at the site
	lastChunk int64
}

// company is the other alleles of a candidate's cluster.
type company struct {
	alleles  int     // in the cluster, itself included
	excluded int     // of them, those that can't be together with it
	rival    float64 // the largest share of reads that prefer one of these to the reference
	distance int     // bases to the closest other allele; -1: none
	weak     bool    // it wasn't combined with all of the others
}

// compare orders candidates as VCF does.
func (c *candidate) compare(o *candidate) int {
	return cmp.Or(cmp.Compare(c.pos, o.pos), strings.Compare(c.ref, o.ref), strings.Compare(c.alt, o.alt))
}

// among reports whether c is one of some candidates.
func (c *candidate) among(cs []candidate) bool {
	for i := range cs {
		if cs[i].compare(c) == 0 {
			return true
		}
	}
	return false
}

// conflicts reports whether c and o can't both be on one haplotype.
func (c *candidate) conflicts(o *candidate) bool {
	if c.holds(o) || o.holds(c) {
		return true
	}
	if c.isComplex() || o.isComplex() { // what touches it would be a part of it
		return c.start <= o.end && o.start <= c.end
	}
	if c.indel != o.indel {
		return c.from < o.to && o.from < c.to
	}
	return c.start < o.end && o.start < c.end || c.start == o.start
}

// holds reports whether o is c without some doubtful changes.
func (c *candidate) holds(o *candidate) bool {
	return c.nest > 0 && c.nest == o.nest && c.cluster == o.cluster && c.level < o.level
}

// note finds the newest read at the site; the first in canonical order of equals.
func (c *candidate) note(m *matrix) {
	col := c.from - m.lo
	if s := m.newest(col, col+1); s != nil {
		c.newestRun, c.lastChunk = s.run, s.lastChunk
	}
}

const (
	// flank is how many reference bases on either side of an allele are realigned.
	flank = 10
	// maxWindow bounds the reference bases that are realigned together.
	maxWindow = 120
	// minSupport is how many reads have to prefer an allele to the reference.
	minSupport = 2
)

// gather lists the alleles of tile t that are worth evaluating, by position, those
// of its margins included: what the columns show often enough (propose), what
// reads that are realigned make likelier than the reference (likely), with what
// they say when close alleles compete (compete). The tile's reads are in
// r.work.scratch afterwards.
//
// Problem: one true indel makes several alleles fit the reads better than the
// reference: the indel, a shorter one, a substitution beside it; and two true
// variants close to each other hide one another.
//
// Strategy: alleles close to each other form a cluster, of which all combinations
// are haplotypes. What a read says about an allele is the cost of the best
// haplotype without it less that of the best with it.
//
// Consequences: an allele is supported only by what no other explains better,
// whatever the number of haplotypes in the sample.
func (r *Region) gather(t int, model *errorModel, phased *haplotypes) []candidate {
	m := &r.work.scratch
	m.load(r, t)
	r.work.counts = m.pileup(r.work.counts)
	r.work.supports = r.work.supports[:0]

	var likely []candidate
	for _, c := range r.propose(m, model) {
		c.ploidy = r.ploidy(c.pos)
		if !(c.byLength(r.contig.Seq) && model.reliableLengths(baseCode[r.contig.Seq[c.start]])) && r.likely(m, model, &c) {
			likely = append(likely, c)
		}
	}
	for _, c := range r.proposeLengths(m, model, phased) {
		c.ploidy = r.ploidy(c.pos)
		if r.put(m, model, &c) {
			likely = append(likely, c)
		}
	}
	slices.SortFunc(likely, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.start, b.start), a.compare(&b)) })
	var out []candidate
	for _, c := range r.clusters(m, model, likely) {
		for i := range c.settled {
			c.settled[i].cluster = len(out)
		}
		out = append(out, c.settled...)
	}
	for i := range out {
		out[i].weigh(m, &r.work.evidence)
		out[i].note(m)
	}
	slices.SortFunc(out, func(a, b candidate) int { return a.compare(&b) })
	return out
}

// propose lists the alleles that the columns of the matrix show often enough.
func (r *Region) propose(m *matrix, model *errorModel) []candidate {
	var out []candidate
	for col := range r.work.counts {
		out = r.proposeSNPs(out, m, model, col)
	}
	return r.proposeIndels(out, m)
}

// enough reports whether n of depth reads at a position show an allele often enough
// to evaluate it.
func (r *Region) enough(pos int, n, depth int32) bool {
	share := 0.2
	switch r.ploidy(pos) {
	case Diploid:
		share = 0.12
	case Mixture:
		share = r.cfg.MinAlleleFraction
	}
	return float64(n) >= share*float64(depth)
}

// ploidy is that of a reference position.
func (r *Region) ploidy(pos int) Ploidy { return r.cfg.PloidyAt(r.contig.Name, pos) }

// fractions are the shares of an allele among the molecules of a sample that are
// tried before it competes with others. Biased reads can show half of the true one.
func (r *Region) fractions(p Ploidy) []float64 {
	switch p {
	case Haploid:
		return []float64{0.5, 1}
	case Diploid:
		return []float64{0.25, 0.5, 1}
	}
	return []float64{r.cfg.MinAlleleFraction, 2 * r.cfg.MinAlleleFraction, 0.25, 0.5, 1}
}

// likely puts c, alone, to the reads. It reports whether enough of them prefer it
// to the reference to be likelier in some share of the molecules than in none.
func (r *Region) likely(m *matrix, model *errorModel, c *candidate) bool {
	before := len(r.work.supports)
	if !r.put(m, model, c) {
		return false
	}
	supporting := 0
	for _, s := range c.reads {
		if s.llr > informative {
			supporting++
		}
	}
	if supporting >= minSupport {
		for _, f := range r.fractions(c.ploidy) {
			sum := 0.0
			for _, s := range c.reads {
				p := s.likelihoods()
				sum += math.Log(float64((1-f)*p[0])+float64(f*p[1])) - min(0, -s.llr)
			}
			if sum > 0 {
				return true
			}
		}
	}
	r.work.supports = r.work.supports[:before]
	return false
}

// put puts c, alone, to the reads. It reports false where it can't: at an end of the
// matrix, or beside an ambiguous base.
func (r *Region) put(m *matrix, model *errorModel, c *candidate) bool {
	lo, hi := max(c.start-flank, m.lo), min(c.end+flank, m.hi)
	if lo > c.from || hi < c.to || hasAmbiguity(r.contig.Seq[lo:hi]) {
		return false
	}
	g := &r.work.aligner
	g.begin(model)
	g.add(r.contig.Seq[lo:hi])
	g.add(spell(r.contig.Seq, lo, hi, []candidate{*c}))
	before := len(r.work.supports)
	for i := range m.rows {
		w := &m.rows[i]
		if g.setQuery(w, lo-m.lo, hi-m.lo) {
			costs := g.align(w.seg.reverse)
			r.work.supports = append(r.work.supports, c.support(m, i, costs[0], costs[1]))
		}
	}
	c.reads = slices.Clip(r.work.supports[before:])
	c.strength = 0
	for _, s := range c.reads {
		c.strength += max(0, s.llr)
	}
	return true
}

// cluster is candidates that compete, by number, and the alleles that are left after it.
type cluster struct {
	from, to int
	settled  []candidate
}

// clusters lets candidates, sorted by start, compete.
//
// What follows from a cluster's reads can reach to candidates of the cluster beside it, a complex allele
// of which they are parts, or they themselves: then both clusters are one. Else they would be called twice.
func (r *Region) clusters(m *matrix, model *errorModel, likely []candidate) []cluster {
	var out []cluster
	for next := 0; next < len(likely); {
		c := cluster{from: next, to: next + clusterSize(likely[next:])}
		c.settled = r.settle(m, model, slices.Clone(likely[c.from:c.to]), false)
		for len(out) > 0 {
			before := &out[len(out)-1]
			own, others := likely[c.from:c.to], likely[before.from:before.to]
			if extent(likely[before.from:c.to]) > maxSpan || !reaches(before.settled, own) && !reaches(c.settled, others) {
				break
			}
			c.from, out = before.from, out[:len(out)-1]
			c.settled = r.settle(m, model, slices.Clone(likely[c.from:c.to]), true)
		}
		out, next = append(out, c), c.to
	}
	return out
}

// reaches reports whether an allele reaches to a candidate of another cluster.
func reaches(settled, others []candidate) bool {
	for i := range settled {
		for j := range others {
			if settled[i].conflicts(&others[j]) {
				return true
			}
		}
	}
	return false
}

// maxSpan is how many bases the candidates of a cluster span at most.
const maxSpan = maxWindow - 2*flank

// extent is how many bases candidates, sorted by start, span.
func extent(cs []candidate) int {
	end := 0
	for i := range cs {
		end = max(end, cs[i].end)
	}
	return end - cs[0].start
}

// clusterSize is how many of the first candidates, sorted by start, compete.
func clusterSize(cs []candidate) int {
	end := cs[0].end
	n := 1
	for n < len(cs) && cs[n].start < end+flank && max(end, cs[n].end)-cs[0].start <= maxSpan {
		end = max(end, cs[n].end)
		n++
	}
	return n
}

// spell is ref[lo:hi] with the changes of cs, which don't conflict.
func spell(ref []byte, lo, hi int, cs []candidate) []byte {
	cs = slices.Clone(cs)
	slices.SortFunc(cs, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	out := make([]byte, 0, hi-lo+maxIndel)
	at := lo
	for i := range cs {
		c := &cs[i]
		if c.from < at || c.to > hi {
			continue
		}
		out = append(append(out, ref[at:c.from]...), c.seq...)
		at = c.to
	}
	return append(out, ref[at:hi]...)
}

// hasAmbiguity reports whether seq holds anything but A, C, G and T.
func hasAmbiguity(seq []byte) bool {
	for _, b := range seq {
		if baseCode[b] > 3 {
			return true
		}
	}
	return false
}
