package bench

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
)

func open(t *testing.T) *basecall.Model {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model, err := basecall.OpenModel(filepath.Join("..", "..", "models", "r9.4-fast"))
	require.NoError(t, err)
	return model
}

// someReads returns noise; what is called in it is of no interest here.
func someReads(lengths ...int) []basecall.Read {
	rng := rand.New(rand.NewPCG(1, 1))
	reads := make([]basecall.Read, len(lengths))
	for i, n := range lengths {
		reads[i] = basecall.Read{ID: "noise", SampleRate: 4000, Samples: make([]int16, n)}
		for k := range reads[i].Samples {
			reads[i].Samples[k] = int16(500 + 80*rng.NormFloat64())
		}
	}
	return reads
}

func TestMeasureThroughput(t *testing.T) {
	model := open(t)
	got, err := MeasureThroughput(t.Context(), model, basecall.Config{Device: "cpu", Batch: 2, Sessions: 2}, someReads(15_000, 2000), Effort{Rounds: 2})
	require.NoError(t, err)
	assert.Equal(t, 17_000, got.ReadSamples)
	const windowSamples = 2*7200 + 1296 + 2160
	assert.Equal(t, windowSamples, got.WindowSamples, "three windows and one, of which the last are as long as they have to be")
	assert.Equal(t, 2, got.Batch)
	assert.Equal(t, 2, got.Sessions)
	assert.Equal(t, "cpu", got.Device)
	assert.InEpsilon(t, got.EngineRate*17_000/windowSamples, got.ReadRate, 1e-9)
	assert.InEpsilon(t, got.EngineOverBare*17_000/windowSamples, got.ReadsOverBare, 1e-9)
	assert.InEpsilon(t, got.EngineOverBareCPU*17_000/windowSamples, got.ReadsOverBareCPU, 1e-9)
	for _, rate := range []float64{got.BareRate, got.EngineOverBare, got.EngineOverBareCPU} {
		assert.Positive(t, rate)
	}
	_, err = MeasureThroughput(t.Context(), model, basecall.Config{}, nil, Effort{Rounds: 1})
	require.Error(t, err)
}

// TestMeasureLatency: which reads are played, and how much of them comes, is a
// function of the schedule alone, however late the machine is.
func TestMeasureLatency(t *testing.T) {
	model := open(t)
	c, err := basecall.NewCaller(model, basecall.Config{Device: "cpu", Batch: 4})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	cfg := LatencyConfig{Channels: 3, Chunk: 100 * time.Millisecond, Duration: time.Second}
	first, err := MeasureLatency(t.Context(), c, someReads(1200, 1900, 400), cfg)
	require.NoError(t, err)
	again, err := MeasureLatency(t.Context(), c, someReads(1200, 1900, 400), cfg)
	require.NoError(t, err)
	assert.Greater(t, first.Reads, 3)
	assert.Equal(t, first.Reads, again.Reads)
	assert.InDelta(t, first.CalledEarly, again.CalledEarly, 1e-12)
	assert.Greater(t, first.CalledEarly, 0.4)
	for _, l := range []Latency{first, again} {
		assert.Positive(t, l.P50)
		assert.LessOrEqual(t, l.P50, l.P99)
		assert.LessOrEqual(t, l.P99, l.Max)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = MeasureLatency(ended, c, someReads(1200), cfg)
	require.ErrorIs(t, err, context.Canceled)
	_, err = MeasureLatency(t.Context(), c, nil, cfg)
	require.Error(t, err)
}

func TestOnCores(t *testing.T) {
	had := Cores()
	err := OnCores(1, func() error {
		assert.Equal(t, 1, Cores())
		return nil
	})
	if err != nil {
		t.Skip("cores can't be chosen here: ", err)
	}
	assert.Equal(t, had, Cores())
	require.Error(t, OnCores(had+1, func() error { return nil }))
}
