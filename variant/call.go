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

// call is a judged candidate as a call without revision and status.
func (r *Region) call(c *candidate, model *errorModel, v verdict) *streampb.Call {
	id, err := vrs.AlleleID(r.contig.Digest(), r.contig.Seq, c.pos, c.ref, c.alt)
	if err != nil {
		panic("variant: candidate doesn't fit its contig: " + err.Error()) // ref was cut out of it
	}
	return &streampb.Call{
		Run: c.newestRun, Sample: r.cfg.Sample, VrsId: id,
		Contig: r.contig.Name, Pos: int64(c.pos) + 1, Ref: c.ref, Alt: c.alt,
		Qual: v.qual, GenotypeQuality: uint32(math.Round(v.genotypeQual)), Genotype: v.genotype,
		Depth:      uint32(c.depth),
		RefForward: uint32(c.refReads[0]), RefReverse: uint32(c.refReads[1]),
		AltForward: uint32(c.altReads[0]), AltReverse: uint32(c.altReads[1]),
		OtherForward: uint32(c.otherReads[0]), OtherReverse: uint32(c.otherReads[1]),
		Filters:     r.filters(c, model, v.qual),
		LastChunkMs: c.lastChunk,
	}
}

// Filters of a call.
const (
	filterLowQual    = "LowQual"
	filterLowDepth   = "LowDepth"
	filterStrandBias = "StrandBias"
	filterNoisyIndel = "NoisyIndel"
)

// filters are what speaks against a call, in the order of the header.
func (r *Region) filters(c *candidate, model *errorModel, qual float64) []string {
	var out []string
	if qual < r.cfg.MinQual {
		out = append(out, filterLowQual)
	}
	if c.depth < r.cfg.MinDepth {
		out = append(out, filterLowDepth)
	}
	if c.biased {
		out = append(out, filterStrandBias)
	}
	if c.indel && r.cfg.Network == nil && model.gapRate > r.cfg.MaxIndelNoise {
		out = append(out, filterNoisyIndel)
	}
	return out
}

// compareCalls orders calls as VCF orders records of one contig: by position, then
// by alleles.
func compareCalls(a, b *streampb.Call) int {
	return cmp.Or(cmp.Compare(a.GetPos(), b.GetPos()),
		strings.Compare(a.GetRef(), b.GetRef()), strings.Compare(a.GetAlt(), b.GetAlt()))
}
