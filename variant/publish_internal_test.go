package variant

import (
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

// Reads that show neither the reference nor the allele are a doubt in a diploid sample,
// unless the genotype has another allele that they may show.
func TestNeitherIsADoubt(t *testing.T) {
	others := []*streampb.OtherAllele{{Pos: 50, Ref: "A", Alt: "T"}}
	for _, tc := range []struct {
		name             string
		ploidy           Ploidy
		depth, fwd, back uint32
		others           []*streampb.OtherAllele
		want             bool
	}{
		{"none", Diploid, 40, 0, 0, nil, true},
		{"one in eight", Diploid, 40, 2, 3, nil, true},
		{"more", Diploid, 40, 3, 3, nil, false},
		{"more, on one strand", Diploid, 40, 6, 0, nil, false},
		{"another allele of the genotype", Diploid, 40, 10, 10, others, true},
		{"haploid", Haploid, 40, 6, 6, nil, true},
		{"mixture", Mixture, 40, 6, 6, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			contig := &genome.Contig{Name: "c", Seq: []byte(strings.Repeat("ACGT", 100))}
			r, err := NewRegion(contig, 0, Config{Ploidy: tc.ploidy, Network: &DoseNetwork{}})
			if err != nil {
				t.Fatal(err)
			}
			c := &streampb.Call{
				Pos: 50, Ref: "A", Alt: "C", Qual: 40, GenotypeQuality: 30, Depth: tc.depth,
				RefForward: 5, RefReverse: 5, AltForward: 5, AltReverse: 5,
				OtherForward: tc.fwd, OtherReverse: tc.back, Others: tc.others,
			}
			if got := r.beyondDoubt(c); got != tc.want {
				t.Errorf("beyond doubt: %t, want %t", got, tc.want)
			}
		})
	}
}
