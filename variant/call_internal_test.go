package variant

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/porestream/porestream/stream/streampb"
)

// TestAnAlleleIsOneCall: what two haplotypes have in events of their own is one call of the reads of both.
func TestAnAlleleIsOneCall(t *testing.T) {
	other := []*streampb.OtherAllele{{Pos: 8, Ref: "A", Alt: "C"}}
	of := func(pos int64, qual float64, alt, others uint32, with []*streampb.OtherAllele) *streampb.Call {
		c := &streampb.Call{
			Pos: pos, Ref: "G", Alt: "T", Qual: qual, GenotypeQuality: uint32(qual), Genotype: []uint32{0, 1}, PhredLikelihoods: []uint32{uint32(qual), 0, 30},
			Depth: 40, RefForward: 2, AltForward: alt, OtherForward: others, Others: with, PhaseSet: 5,
		}
		if with != nil {
			c.Genotype = []uint32{1, 2}
		}
		return c
	}
	got := distinctCalls([]*streampb.Call{of(3, 20, 18, 20, nil), of(7, 30, 18, 20, other), of(7, 50, 20, 17, other), of(9, 40, 10, 9, nil), of(9, 20, 11, 10, nil)})
	assert.Len(t, got, 3)
	assert.Equal(t, []uint32{0, 1}, got[0].GetGenotype())

	both := got[1]
	assert.Equal(t, 50.0, both.GetQual())
	assert.Equal(t, []uint32{1, 1}, both.GetGenotype())
	assert.Equal(t, []uint32{80, 30, 0}, both.GetPhredLikelihoods())
	assert.Equal(t, uint32(30), both.GetGenotypeQuality())
	assert.Empty(t, both.GetOthers())
	assert.Zero(t, both.GetPhaseSet())
	assert.Equal(t, [3]uint32{1, 38, 0}, [3]uint32{both.GetRefForward(), both.GetAltForward(), both.GetOtherForward()})

	part := got[2] // of a mixture
	assert.Equal(t, 40.0, part.GetQual())
	assert.Equal(t, []uint32{0, 1}, part.GetGenotype())
	assert.Equal(t, [3]uint32{0, 21, 0}, [3]uint32{part.GetRefForward(), part.GetAltForward(), part.GetOtherForward()})
}
