package variant

import (
	"cmp"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
)

// sameEvidence compares two calls without what belongs to the revision.
func sameEvidence(a, b *streampb.Call) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	for _, c := range []*streampb.Call{a, b} {
		c.Revision, c.Status, c.Reason = 0, 0, ""
	}
	return proto.Equal(a, b)
}

// calls are a scored candidate as calls without revision and status: one call, or for a
// complex allele one for each of its pieces.
func (r *Region) calls(c *candidate, model *errorModel, v *verdict) []*streampb.Call {
	set := v.phase(c)
	filters := r.filters(c, model, v.qual)
	var others []candidate
	if v.other != nil {
		others = r.pieces(v.other)
	}
	var out []*streampb.Call
	for _, p := range r.pieces(c) {
		id, err := vrs.AlleleID(r.contig.Digest(), r.contig.Seq, p.pos, p.ref, p.alt)
		if err != nil {
			panic("variant: candidate doesn't fit its contig: " + err.Error()) // ref was cut out of it
		}
		call := &streampb.Call{
			Run: c.newestRun, Sample: r.cfg.Sample, VrsId: id,
			Contig: r.contig.Name, Pos: int64(p.pos) + 1, Ref: p.ref, Alt: p.alt,
			Qual: v.qual, GenotypeQuality: uint32(math.Round(v.genotypeQual)), Genotype: v.genotype, PhredLikelihoods: v.likelihoods, PhaseSet: set,
			Depth:      uint32(c.depth),
			RefForward: uint32(c.refReads[0]), RefReverse: uint32(c.refReads[1]),
			AltForward: uint32(c.altReads[0]), AltReverse: uint32(c.altReads[1]),
			OtherForward: uint32(c.otherReads[0]), OtherReverse: uint32(c.otherReads[1]),
			Filters:     filters,
			LastChunkMs: c.lastChunk, ModelMismatch: r.fitted.mismatch,
		}
		if len(others) > 0 {
			o := &others[0]
			for i := range others {
				if q := &others[i]; q.pos < p.pos+len(p.ref) && p.pos < q.pos+len(q.ref) {
					o = q
					break
				}
			}
			call.Others = []*streampb.OtherAllele{{Pos: int64(o.pos) + 1, Ref: o.ref, Alt: o.alt}}
		}
		out = append(out, call)
	}
	return out
}

// pieces are the alleles that c is called as: c itself, or of a complex allele its changes,
// those within Config.MNPDistance of each other as one, wherever in its repeat one is put.
func (r *Region) pieces(c *candidate) []candidate {
	if !c.isComplex() {
		return []candidate{*c}
	}
	var out []candidate
	if r.cfg.MNPDistance < 0 {
		least := 0
		for _, a := range (vrs.Edit{Start: c.from, Ref: c.ref, Alt: c.seq}).Atoms() {
			change := candidate{from: a.Start, to: a.Start + len(a.Ref), seq: a.Alt}
			if p, ok := r.join([]candidate{change}, 0, least); ok {
				out = append(out, p)
			}
			least = change.to
		}
		return out
	}
	least := 0
	for parts := c.parts; len(parts) > 0; {
		n := 1
		for n < len(parts) && parts[n].from-parts[n-1].end < r.cfg.MNPDistance {
			n++
		}
		if p, ok := r.join(parts[:n], 0, least); ok {
			out = append(out, p)
		}
		least = parts[n-1].to
		parts = parts[n:]
	}
	return out
}

// distinctCalls are sorted calls, of which those of one allele are one call: haplotypes with different
// events can have a change in common that is called by itself, as it isn't close to the others.
func distinctCalls(calls []*streampb.Call) []*streampb.Call {
	out := calls[:0]
	for _, c := range calls {
		if n := len(out); n > 0 && compareCalls(out[n-1], c) == 0 {
			out[n-1] = joined(out[n-1], c)
			continue
		}
		out = append(out, c)
	}
	return out
}

// joined is a call of what two haplotypes have, in different reads.
func joined(a, b *streampb.Call) *streampb.Call {
	if a.GetQual() < b.GetQual() {
		a, b = b, a
	}
	forward, reverse := b.GetAltForward(), b.GetAltReverse()
	for _, move := range []struct {
		to, other, ref *uint32
		n              uint32
	}{{&a.AltForward, &a.OtherForward, &a.RefForward, forward}, {&a.AltReverse, &a.OtherReverse, &a.RefReverse, reverse}} {
		fromOther := min(move.n, *move.other)
		fromRef := min(move.n-fromOther, *move.ref)
		*move.other, *move.ref, *move.to = *move.other-fromOther, *move.ref-fromRef, *move.to+fromOther+fromRef
	}
	if len(a.GetOthers()) == 0 {
		return a // of a mixture: how many molecules have it is the reads' share
	}
	// Of two haplotypes each has it, and what speaks against one of them is the doubt of the other.
	one, two := a.GetPhredLikelihoods()[0], b.GetPhredLikelihoods()[0]
	a.Genotype, a.Others, a.PhaseSet = []uint32{1, 1}, nil, 0
	a.PhredLikelihoods = []uint32{min(maxPhredLikelihood, one+two), min(one, two), 0}
	a.GenotypeQuality = min(a.GetGenotypeQuality(), b.GetGenotypeQuality(), min(one, two))
	return a
}

// Filters of a call.
const (
	filterLowQual     = "LowQual"
	filterHomopolymer = "Homopolymer"
	filterLowDepth    = "LowDepth"
	filterLowFraction = "LowFraction"
	filterStrandBias  = "StrandBias"
	filterNoisyIndel  = "NoisyIndel"
)

// filters are what speaks against a call, in the order of the header.
func (r *Region) filters(c *candidate, model *errorModel, qual float64) []string {
	var out []string
	switch {
	case qual >= r.cfg.MinQual:
	case r.cfg.Network != nil && c.carried && c.likest().inHomopolymer():
		out = append(out, filterHomopolymer)
	case r.cfg.Network != nil && c.carried && model.noisy(c.likest()):
		out = append(out, filterNoisyIndel)
	default:
		out = append(out, filterLowQual)
	}
	if c.depth < r.cfg.MinDepth {
		out = append(out, filterLowDepth)
	}
	if c.ploidy == Haploid && !c.indel {
		least := minHaploidFraction
		switch {
		case r.cfg.Network != nil && qual >= sureQual:
			least = 0
		case r.cfg.Network != nil:
			least = unsureFraction
		}
		if float64(c.altReads[0]+c.altReads[1]) < least*float64(c.depth) {
			out = append(out, filterLowFraction)
		}
	}
	if c.biased && r.cfg.Network == nil || r.cfg.Network != nil && strandPhred(c) > maxStrandPhred {
		out = append(out, filterStrandBias)
	}
	if c.indel && r.cfg.Network == nil && model.gapRate > r.cfg.MaxIndelNoise {
		out = append(out, filterNoisyIndel)
	}
	return out
}

// minHaploidFraction is the share of the reads at the site that has to show a
// substitution of a haploid sample. Of the SNPs planted into lambda every 97 bases
// (R9.4, 6 % errors) 2 in 100 have less at a depth of 10 to 14 and 4 in 1,000 from 20 on;
// of 8 false calls of the analytic model in 80 samples of lambda at 10x to 20x, 6.
const minHaploidFraction = 0.65

// A network is believed whatever the share from sureQual on; below, unsureFraction is
// asked for, so that LowQual can begin at 8: calls of few reads are wrong more often
// than their QUAL says.
const (
	sureQual       = 18
	unsureFraction = 0.7
)

// maxStrandPhred is the Phred-scaled probability of the strands' difference from
// which on it filters a call that a network made. Reads of a true allele can be
// missing from one strand where it is hard to read, which the network knows better;
// this is about what is there on one strand only.
const maxStrandPhred = 60

// strandPhred is the Phred-scaled probability, by Fisher's exact test on two sides,
// of strands that differ so much in the share of reads that show the allele.
func strandPhred(c *candidate) float64 {
	a, b := c.altReads[0], c.altReads[1]
	x, y := c.refReads[0]+c.otherReads[0], c.refReads[1]+c.otherReads[1]
	alt, forward, n := a+b, a+x, a+b+x+y
	choose := func(n, k int) float64 {
		u, _ := math.Lgamma(float64(n + 1))
		v, _ := math.Lgamma(float64(k + 1))
		w, _ := math.Lgamma(float64(n - k + 1))
		return u - v - w
	}
	// The probability that so many of the alternate reads are forward.
	p := func(k int) float64 { return choose(alt, k) + choose(n-alt, forward-k) - choose(n, forward) }
	seen := p(a)
	sum := math.Inf(-1)
	for k := max(0, forward-(n-alt)); k <= min(alt, forward); k++ {
		if l := p(k); l <= seen+1e-7 {
			sum = logAdd(sum, l)
		}
	}
	return -10 / math.Ln10 * min(0, sum)
}

// compareCalls orders calls as VCF orders records of one contig: by position, then
// by alleles.
func compareCalls(a, b *streampb.Call) int {
	return cmp.Or(cmp.Compare(a.GetPos(), b.GetPos()),
		strings.Compare(a.GetRef(), b.GetRef()), strings.Compare(a.GetAlt(), b.GetAlt()))
}
