package stage

import (
	"slices"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/annotate/haplotype"
)

// GeneHaplotypes takes alleles together by the rules of bcftools csq.
type GeneHaplotypes struct{ Genes *haplotype.Genes }

// Locus spans the transcripts in whose coding sequence something of [start,end) lies.
func (h GeneHaplotypes) Locus(contig string, start, end int) (int, int) {
	first, last, ok := h.Genes.Reach(contig, start+1, end-start)
	if !ok {
		return start, end
	}
	return min(start, first-1), max(end, last)
}

// Together returns the compounds, and the alleles after a stop that another one
// introduced: these have no effect of their own any more.
func (h GeneHaplotypes) Together(contig string, alleles []event.Allele) ([][]event.Compound, error) {
	variants := make([]haplotype.Variant, len(alleles))
	for i, a := range alleles {
		variants[i] = haplotype.Variant{Pos: int(a.Pos), Ref: a.Ref, Alt: a.Alt}
	}
	effects, err := h.Genes.Effects(contig, variants, 0)
	if err != nil {
		return nil, err
	}
	out := make([][]event.Compound, len(alleles))
	for i := range effects {
		for j := range effects[i] {
			e := &effects[i][j]
			if len(e.Compound) < 2 && !e.UpstreamStop() {
				continue
			}
			carrier := carrierOf(effects, e)
			c := event.Compound{
				Gene: carrier.Gene, Transcript: carrier.Transcript, Biotype: carrier.Biotype,
				Terms: carrier.Terms.Names(), AminoAcids: carrier.AminoAcids, Changes: carrier.DNA,
			}
			if carrier.UpstreamStop() && len(c.Terms) > 0 {
				c.Terms[0] = "*" + c.Terms[0]
			}
			for _, m := range e.Compound {
				if m != i {
					c.With = append(c.With, alleles[m].VRSID)
				}
			}
			out[i] = append(out[i], c)
		}
	}
	return out, nil
}

// carrierOf is the effect that holds the change which e is a part of: one of a
// compound's variants carries it, and the others point to that one.
func carrierOf(effects [][]haplotype.Effect, e *haplotype.Effect) *haplotype.Effect {
	if e.At < 0 {
		return e
	}
	for k := range effects[e.At] {
		o := &effects[e.At][k]
		if o.At < 0 && o.Transcript == e.Transcript && slices.Equal(o.Compound, e.Compound) {
			return o
		}
	}
	return e
}
