package biomarker

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowwise is a network of which each row is a function.
type rowwise func(row []float32, rows int) float32

func (f rowwise) Compute(rows int, inputs []float32) ([]float32, error) {
	out := make([]float32, rows)
	for r := range out {
		out[r] = f(inputs[r*len(inputs)/rows:(r+1)*len(inputs)/rows], rows)
	}
	return out, nil
}

// TestNetworksOfUselessNumbersAreRefused: networks that compute, and whose numbers nobody could use, are refused in one line.
func TestNetworksOfUselessNumbersAreRefused(t *testing.T) {
	m, err := Load(files("residue\tRT\t184\tV\nresidue\tRT\t41\tL\n", "s\tRT:215FY\t8\n"))
	require.NoError(t, err)
	sum := func(row []float32) (total float32) {
		for i, v := range row {
			total += float32(i+1) * v
		}
		return total
	}
	for _, tt := range []struct {
		name    string
		network rowwise
		want    string
	}{
		{"each row by itself", func(row []float32, _ int) float32 { return sum(row) }, ""},
		{"sums of another order", func(row []float32, rows int) float32 { return sum(row) * (1 + float32(rows)*1e-6) }, ""},
		{"rows that depend on the batch", func(row []float32, rows int) float32 { return sum(row) / float32(rows) }, "the network gives 7 for a sample alone and 2.3333333 beside others: each row"},
		{"no number where nothing is known", func(row []float32, _ int) float32 { return 0 * float32(math.Inf(int(1-sum(row)))) }, "the network gives NaN, which is no finite number"},
		{"too large where all is changed", func(row []float32, _ int) float32 { return float32(math.Pow(1e20, float64(row[0]+row[1]))) }, "the network gives +Inf, which is no finite number"},
	} {
		err := m.Try(tt.network)
		if tt.want == "" {
			require.NoError(t, err, tt.name)
			continue
		}
		require.ErrorContains(t, err, tt.want, tt.name)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestCalibrationIsFinite: a curve that gives no number is refused where it is read.
func TestCalibrationIsFinite(t *testing.T) {
	for _, curve := range []string{"[0.0, 1.0]", "[nan, 0.0]", "[inf, 0.0]", "[1.0, nan]", "[1.0, -inf]"} {
		fsys := files("residue\tRT\t184\tV\n", "")
		fsys["manifest.toml"].Data = []byte(strings.Replace(string(fsys["manifest.toml"].Data), "[2.0, -1.0]", curve, 1))
		_, err := Load(fsys)
		require.ErrorContains(t, err, "output o: calibration needs a slope above 0 and an offset, both finite", curve)
	}
}
