package variant

import (
	"cmp"
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

// calls turns a tile's candidates into calls without revision and status.
func (r *Region) calls(t int, model *errorModel) []*streampb.Call {
	var out []*streampb.Call
	for _, c := range r.evaluate(t, model) {
		if c.qual < r.cfg.EmitQual {
			continue
		}
		id, err := vrs.AlleleID(r.contig.Digest(), r.contig.Seq, c.pos, c.ref, c.alt)
		if err != nil {
			panic("variant: candidate doesn't fit its contig: " + err.Error()) // ref was cut out of it
		}
		out = append(out, &streampb.Call{
			Run: c.run, Sample: r.cfg.Sample, VrsId: id,
			Contig: r.contig.Name, Pos: int64(c.pos) + 1, Ref: c.ref, Alt: c.alt,
			Qual: c.qual, GenotypeQuality: c.genotypeQuality(), Genotype: []uint32{1},
			Depth:      uint32(c.depth),
			RefForward: uint32(c.refReads[0]), RefReverse: uint32(c.refReads[1]),
			AltForward: uint32(c.altReads[0]), AltReverse: uint32(c.altReads[1]),
			Filters:     r.filters(&c, model),
			LastChunkMs: c.lastChunk,
		})
	}
	return out
}

// Filters of a call.
const (
	filterLowQual    = "LowQual"
	filterLowDepth   = "LowDepth"
	filterStrandBias = "StrandBias"
	filterNoisyIndel = "NoisyIndel"
)

// filters are what speaks against a call, in the order of the header.
func (r *Region) filters(c *candidate, model *errorModel) []string {
	var out []string
	if c.qual < r.cfg.MinQual {
		out = append(out, filterLowQual)
	}
	if c.depth < r.cfg.MinDepth {
		out = append(out, filterLowDepth)
	}
	if c.biased {
		out = append(out, filterStrandBias)
	}
	if c.indel && model.gapRate > r.cfg.MaxIndelNoise {
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
