package annotate

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkConsequences decides and orders the consequences of random small variants, as for each line of a VCF, without
// describing them.
func BenchmarkConsequences(b *testing.B) {
	for _, set := range []struct {
		name string
		load func(testing.TB) *Annotator
	}{
		{"ecoli", ecoli},
		{"human-like", func(t testing.TB) *Annotator { return newGeneSet(1, 8, 400, false).annotator(t) }},
	} {
		b.Run(set.name, func(b *testing.B) {
			a := set.load(b)
			rng := rand.New(rand.NewPCG(61, 1))
			sites := make([]Site, 4096)
			for i := range sites {
				c := a.genome.Contigs[rng.IntN(len(a.genome.Contigs))]
				at := rng.IntN(c.Len() - 10)
				ref := c.Text(at, at+1)
				alt := complementOf(ref)
				switch i % 10 {
				case 0:
					ref, alt = c.Text(at, at+3), ref
				case 1:
					alt = ref + "GT"
				}
				sites[i] = Site{Contig: c.Name, Pos: at + 1, Ref: ref, Alts: []string{alt}}
			}
			var w workspace
			var alleles []evaluatedAllele
			effects := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				w.reset()
				var err error
				if alleles, err = a.evaluate(&w, alleles[:0], &sites[i%len(sites)]); err != nil {
					b.Fatal(err)
				}
				effects += len(alleles[0].effects)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "variants/s")
			b.ReportMetric(float64(effects)/float64(b.N), "effects/variant")
		})
	}
}
