package stat_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stat"
)

// TestQuantileIsNumPys compares with numpy.quantile 2.4.6 of the same values.
func TestQuantileIsNumPys(t *testing.T) {
	values := []float64{-3, 0.5, 1, 2, 7.25, 11, 90}
	for _, tt := range []struct{ q, want float64 }{
		{0, -3}, {0.05, -1.95}, {0.1, -0.9}, {0.25, 0.75}, {0.5, 2}, {0.75, 9.125}, {0.9, 42.6}, {0.99, 85.26}, {1, 90},
	} {
		require.InDelta(t, tt.want, stat.Quantile(values, tt.q), 1e-12, "%v", tt.q)
	}
	require.Equal(t, 2.5, stat.Quantile([]int16{1, 2, 3, 4}, 0.5))
	require.Equal(t, 32767.0, stat.Quantile([]int16{-32768, 32767}, 1))
	require.Equal(t, -0.5, stat.Quantile([]int16{-32768, 32767}, 0.5), "the difference of two int16 needs more bits")
	require.Equal(t, 8.0, stat.Quantile([]float32{8}, 0.3))
	require.Zero(t, stat.Quantile[float64](nil, 0.5))
}

// TestQuantilesRise: a greater share never has a smaller quantile, and none lies outside of the values.
func TestQuantilesRise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		values := make([]float64, 1+rng.IntN(50))
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		slices.Sort(values)
		last := values[0]
		for q := 0.0; q <= 1; q += 1.0 / 64 {
			v := stat.Quantile(values, q)
			require.GreaterOrEqual(t, v, last)
			last = v
		}
		require.Equal(t, values[len(values)-1], last)
	}
}
