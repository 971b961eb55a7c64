package simulate

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// Reads can be made with whatever numbers a profile is accepted with.
func FuzzProfileNumbers(f *testing.F) {
	good, err := OpenProfile("r10.4.1-2pct")
	require.NoError(f, err)
	g, err := genome.Read(strings.NewReader(">a\n" + strings.Repeat("ACGGTTACATTTTTT", 50) + "\n"))
	require.NoError(f, err)
	copies, err := Haplotypes(g.Contigs[0], nil, 1)
	require.NoError(f, err)
	f.Add(good.Reads.Spread, good.Bursts.Share, good.Bursts.Length, good.Bursts.Factor, good.Systematic.Deletions, good.Deletions.Rate, good.Runs.SiteSpread, good.Qualities.Correlation, good.Qualities.ReadShare)
	f.Add(3.0, 1e-300, 1.0, 1000.0, 0.2, 0.2, 5.0, 0.999, 0.999)
	f.Add(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
	f.Add(math.NaN(), math.Inf(1), -1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
	f.Fuzz(func(t *testing.T, spread, share, length, factor, deletions, rate, siteSpread, correlation, readShare float64) {
		p := *good
		p.Reads.Spread, p.Bursts = spread, Bursts{share, length, factor}
		p.Systematic.Deletions, p.Deletions.Rate, p.Runs.SiteSpread = deletions, rate, siteSpread
		p.Qualities.Correlation, p.Qualities.ReadShare = correlation, readShare
		if p.check() != nil {
			return
		}
		s, err := NewSampler(copies, 1, &p, ReadsConfig{Depth: 2, Length: 200, MinLength: 10, Seed: 1})
		require.NoError(t, err)
		var read Read
		for i := range s.Len() {
			s.Read(i, &read)
			require.Len(t, read.Qualities, len(read.Seq))
			require.Equal(t, s.Molecule(i).Length-read.Deleted+read.Inserted, len(read.Seq))
		}
	})
}

// The odds in the middle give the chance on average, also where chances saturate.
func TestMiddleOdds(t *testing.T) {
	m := &model{spread: 0.7, siteSpread: 0.9}
	m.bursts.share, m.bursts.inside, m.bursts.out = 0.2, 2.5, 0.625
	for _, chance := range []float64{0, 0.001, 0.05, 0.4, 0.9, 0.99} {
		odds := m.middleOdds(chance)
		rnd, _ := newRand(1, varyStream, 0)
		sum := 0.0
		const n = 400_000
		for range n {
			o := odds * math.Exp(m.spread*rnd.NormFloat64()-m.spread*m.spread/2+m.siteSpread*rnd.NormFloat64())
			if rnd.Float64() < m.bursts.share {
				o *= m.bursts.inside
			} else {
				o *= m.bursts.out
			}
			sum += o / (1 + o)
		}
		require.InDelta(t, chance, sum/n, 0.002)
	}
}

func TestPoissonTail(t *testing.T) {
	for _, tc := range []struct {
		n          int
		mean, want float64
	}{{0, 3, 1}, {1, 1, 0.6321205588}, {5, 1, 0.003659846827}, {20, 2, 6.4e-14}} {
		require.InEpsilon(t, tc.want, poissonTail(tc.n, tc.mean), 0.1)
	}
	require.InEpsilon(t, 0.003659846827, poissonTail(5, 1), 1e-6)
}
