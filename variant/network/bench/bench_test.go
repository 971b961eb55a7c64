package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/bench"
	"github.com/porestream/porestream/variant/network/networktest"
)

func TestMeasure(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model := networktest.Model(t, networktest.Random(1))
	cfg := network.Config{Device: "cpu", Batch: 8, Sessions: 2}
	j, err := bench.Measure(t.Context(), model, cfg, bench.Load{Callers: 3, Alleles: 5, Examples: 40, Rounds: 2})
	require.NoError(t, err)
	assert.Equal(t, "test", j.Model)
	assert.Equal(t, "cpu", j.Device)
	assert.Equal(t, 2, j.Sessions)
	assert.Equal(t, 8, j.Batch)
	for _, v := range []float64{j.Rate, j.BareRate, j.ScoringOverBare, j.ScoringOverBareCPU} {
		assert.Positive(t, v)
	}
	_, err = bench.Measure(t.Context(), model, cfg, bench.Load{Callers: 1, Alleles: 5, Rounds: 1})
	require.ErrorContains(t, err, "no caller, allele, example or round")
}
