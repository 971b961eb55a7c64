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
	// The bases among which the change can't be told apart from its like, the
	// repeat that an indel is in; no other call may claim them.
	start, end int
	indel      bool

	prior float64 // probability of the allele
	// How often reads of the reference agree on the allele, and of the allele on
	// the reference, by mistake.
	sys [2]systematic

	raw     int64   // cost that the allele saves over all reads, in milli-Phred
	logOdds float64 // natural log of its posterior odds
	rivals  []float64
	qual    float64
	depth   int
	// Reads per strand that prefer either allele.
	refReads, altReads [2]int
	biased             bool

	run       string // of the newest read at the site
	lastChunk int64
}

// compare orders candidates as VCF does.
func (c *candidate) compare(o *candidate) int {
	return cmp.Or(cmp.Compare(c.pos, o.pos), strings.Compare(c.ref, o.ref), strings.Compare(c.alt, o.alt))
}

// conflicts says whether c and o can't both be called.
func (c *candidate) conflicts(o *candidate) bool {
	if c.indel != o.indel {
		return c.from < o.to && o.from < c.to
	}
	return c.start < o.end && o.start < c.end || c.start == o.start
}

// note finds the newest read at the site; the first in canonical order of equals.
func (c *candidate) note(m *matrix) {
	col := c.from - m.lo
	if s := m.newest(col, col+1); s != nil {
		c.run, c.lastChunk = s.run, s.lastChunk
	}
}

const (
	// flank is how many reference bases on either side of an allele are realigned.
	flank = 10
	// maxWindow bounds the reference bases that are realigned together.
	maxWindow = 120
	// maxCluster bounds the alleles that compete in a window.
	maxCluster = 12
)

// evaluate is what tile t holds, by position.
//
// Problem: one true indel makes several alleles look better than the reference:
// the indel, a shorter one, a substitution beside it.
//
// Strategy: alleles that are likelier than the reference are clustered, and
// each cluster builds its haplotype greedily: the allele that saves the reads most
// cost joins, and the others are put to the reads again, given what has joined.
//
// Consequences: an allele is called only for what no better one explains; two
// true variants close to each other are both called, each given the other.
func (r *Region) evaluate(t int, model *errorModel) []candidate {
	m := &r.work.scratch
	m.load(r, t)
	r.work.counts = m.pileup(r.work.counts)

	var likely []candidate
	for _, c := range r.propose(m, model) {
		if r.test(m, model, nil, &c, c.start-flank, c.end+flank) {
			likely = append(likely, c)
		}
	}
	slices.SortFunc(likely, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.start, b.start), a.compare(&b)) })
	var called []candidate
	for len(likely) > 0 {
		n := clusterSize(likely)
		called = append(called, r.haplotype(m, model, likely[:n])...)
		likely = likely[n:]
	}

	start, end := r.tileStart(t), r.tileEnd(t)
	called = slices.DeleteFunc(called, func(c candidate) bool { return c.pos < start || c.pos >= end })
	for i := range called {
		called[i].note(m)
	}
	slices.SortFunc(called, func(a, b candidate) int { return a.compare(&b) })
	return called
}

// propose lists the alleles that the columns of the matrix show often enough.
func (r *Region) propose(m *matrix, model *errorModel) []candidate {
	var out []candidate
	for col := range r.work.counts {
		out = r.proposeSNPs(out, m, model, col)
	}
	return r.proposeIndels(out, m, model)
}

// clusterSize is how many of the first candidates, sorted by start, compete.
func clusterSize(cs []candidate) int {
	end := cs[0].end
	n := 1
	for n < len(cs) && cs[n].start < end+flank && max(end, cs[n].end)-cs[0].start <= maxWindow-2*flank {
		end = max(end, cs[n].end)
		n++
	}
	return n
}

// haplotype picks the alleles of a cluster that together explain the reads.
func (r *Region) haplotype(m *matrix, model *errorModel, cluster []candidate) []candidate {
	if len(cluster) > maxCluster {
		slices.SortFunc(cluster, func(a, b candidate) int { return cmp.Or(cmp.Compare(b.raw, a.raw), a.compare(&b)) })
		cluster = cluster[:maxCluster]
	}
	lo, hi := cluster[0].start, cluster[0].end
	for i := range cluster {
		lo, hi = min(lo, cluster[i].start), max(hi, cluster[i].end)
	}
	lo, hi = lo-flank, hi+flank

	var called []candidate
	rest := slices.Clone(cluster)
	for len(rest) > 0 {
		best := -1
		for i := range rest {
			c := &rest[i]
			if len(cluster) > 1 && !r.test(m, model, called, c, lo, hi) {
				continue
			}
			if best < 0 || c.raw > rest[best].raw || c.raw == rest[best].raw && c.compare(&rest[best]) < 0 {
				best = i
			}
		}
		if best < 0 {
			break
		}
		winner := rest[best]
		rest = slices.Delete(rest, best, best+1)
		for i := range rest {
			if winner.conflicts(&rest[i]) {
				r.duel(m, model, called, &winner, &rest[i], lo, hi)
			}
		}
		rest = slices.DeleteFunc(rest, func(c candidate) bool { return winner.conflicts(&c) })
		winner.qual = errorPhred(winner.logOdds, winner.rivals)
		called = append(called, winner)
	}
	return called
}

// test puts c to the reads, on top of what is called already, realigning
// reference positions [lo, hi) as far as the matrix goes. It reports whether c
// is likelier than not.
func (r *Region) test(m *matrix, model *errorModel, called []candidate, c *candidate, lo, hi int) bool {
	lo, hi = max(lo, m.lo), min(hi, m.hi)
	if lo > c.from || hi < c.to || hasAmbiguity(r.contig.Seq[lo:hi]) {
		return false
	}
	site := noSite
	if !c.indel {
		site = c.from - m.lo
	}
	with := append(called[:len(called):len(called)], *c)
	r.realign(m, model, c, lo, hi, spell(r.contig.Seq, lo, hi, called), spell(r.contig.Seq, lo, hi, with), site)
	if c.depth == 0 {
		return false
	}
	c.logOdds = r.work.evidence.logOdds(&c.sys) + math.Log(c.prior) - math.Log1p(-c.prior)
	c.qual = errorPhred(c.logOdds, nil)
	c.biased = biased(r.work.evidence.support())
	return c.logOdds > 0
}

// duel weighs the winner against an allele that can't be called with it: what
// odds the loser keeps is part of the doubt about the winner.
func (r *Region) duel(m *matrix, model *errorModel, called []candidate, winner, loser *candidate, lo, hi int) {
	lo, hi = max(lo, m.lo), min(hi, m.hi)
	var tally candidate
	a := append(called[:len(called):len(called)], *loser)
	b := append(called[:len(called):len(called)], *winner)
	r.realign(m, model, &tally, lo, hi, spell(r.contig.Seq, lo, hi, a), spell(r.contig.Seq, lo, hi, b), noSite)
	odds := r.work.evidence.logOdds(&[2]systematic{winner.sys[0], winner.sys[0]}) + math.Log(winner.prior) - math.Log(loser.prior)
	winner.rivals = append(winner.rivals, winner.logOdds-odds)
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

// errorPhred is the Phred-scaled probability that an allele is wrong, from its log
// odds against the reference and those of its rivals.
func errorPhred(logOdds float64, rivals []float64) float64 {
	wrong := 0.0 // the reference
	for _, odds := range rivals {
		wrong = logAdd(wrong, odds)
	}
	q := (logAdd(wrong, logOdds) - wrong) * 10 / math.Ln10
	return min(maxQual, max(0, math.Round(q*100)/100))
}

// maxQual caps qualities: no model of errors is believed beyond it.
const maxQual = 99

// genotypeQuality is qual as an integer.
func (c *candidate) genotypeQuality() uint32 { return uint32(math.Round(c.qual)) }

// biasMinReads is how many reads a strand needs before its disagreement filters a
// call.
const biasMinReads = 3

// biased says whether a strand with enough reads speaks against the call.
func biased(llr [2]float64, n [2]int) bool {
	return n[0] >= biasMinReads && llr[0] < 0 || n[1] >= biasMinReads && llr[1] < 0
}

// hasAmbiguity says whether seq holds anything but A, C, G and T.
func hasAmbiguity(seq []byte) bool {
	for _, b := range seq {
		if baseCode[b] > 3 {
			return true
		}
	}
	return false
}
