package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/bench/gpu"
)

func TestSweep(t *testing.T) {
	noMemory := errors.New("Failed to allocate memory for requested buffer of size 99")
	broken := errors.New("CUDNN_STATUS_EXECUTION_FAILED")
	for _, test := range []struct {
		name   string
		errs   map[int]error
		want   string // batches, ! where there is no memory
		errHas string
	}{
		{"all fit", nil, "32 64 128 256", ""},
		{"not all fit", map[int]error{128: noMemory}, "32 64 128!", ""},
		{"none fits", map[int]error{32: noMemory}, "32!", ""},
		{"a device that fails otherwise", map[int]error{64: broken, 128: noMemory}, "32", "measuring batches of 64 windows: basecalling: CUDNN_STATUS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var steps []string
			err := sweep(Doubling(32, 256), func(s Step) {
				mark := ""
				if s.Throughput == nil {
					assert.Contains(t, s.OutOfMemory, "Failed to allocate")
					mark = "!"
				} else {
					assert.Equal(t, s.Batch, s.Throughput.Batch)
				}
				steps = append(steps, fmt.Sprint(s.Batch, mark))
			}, func(batch int) (Throughput, error) {
				if err := test.errs[batch]; err != nil {
					return Throughput{}, fmt.Errorf("basecalling: %w", err)
				}
				return Throughput{Batch: batch}, nil
			})
			if test.errHas == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.errHas)
			}
			assert.Equal(t, test.want, strings.Join(steps, " "))
		})
	}
}

func TestDoubling(t *testing.T) {
	assert.Equal(t, []int{1, 2, 4, 8}, Doubling(0, 8))
	assert.Equal(t, []int{32, 64}, Doubling(32, 127))
	assert.Empty(t, Doubling(4, 3))
}

func TestTimesFor(t *testing.T) {
	for _, test := range []struct {
		round, took time.Duration
		times, want int
	}{
		{2 * time.Second, 2 * time.Second, 1, 1},
		{2 * time.Second, 2 * time.Second, 7, 7},
		{2 * time.Second, 300 * time.Millisecond, 1, 7},
		{2 * time.Second, 300 * time.Millisecond, 3, 20},
		{time.Second, time.Minute, 5, 5},
		{time.Second, 0, 1, 1000},
	} {
		assert.Equal(t, test.want, timesFor(test.round, test.took, test.times), "%v", test)
	}
}

// counted is a GPU that has taken 3 J more each time that it is asked.
type counted struct{ asked atomic.Int64 }

func (c *counted) Energy() (float64, error)      { return 3 * float64(c.asked.Add(1)), nil }
func (c *counted) Power() (float64, error)       { return 0, gpu.ErrUnsupported }
func (c *counted) Utilisation() (float64, error) { return 0.75, nil }

func TestThroughputReportsGPUs(t *testing.T) {
	model := open(t)
	cfg := basecall.Config{Device: "cpu", Batch: 2, Sessions: 1}
	got, err := MeasureThroughput(t.Context(), model, cfg, someReads(8000), Effort{Rounds: 2, Batches: 3, GPUs: []gpu.Counters{&counted{}}})
	require.NoError(t, err)
	assert.Equal(t, 6*8000, got.ReadSamples, "a read has samples of 1.2 windows, and a round is of six at least")
	assert.Equal(t, 6*(7200+1296), got.WindowSamples)
	assert.Positive(t, got.Bases)
	require.NotNil(t, got.GPU)
	assert.InDelta(t, 0.75, *got.GPU.Utilisation, 1e-9)
	assert.InEpsilon(t, 3/(float64(got.Bases)/1e6), *got.GPU.JoulesPerMegabase, 1e-9)
	assert.Positive(t, *got.GPU.Watts)
	assert.InEpsilon(t, float64(got.Bases)/float64(got.ReadSamples), got.BaseRate/got.ReadRate, 1e-9)

	unknown := newGPUUsage(gpu.Usage{}, 0)
	assert.Equal(t, GPUUsage{Utilisation: new(float64)}, *unknown, "nothing was measured")

	_, err = MeasureThroughput(t.Context(), model, cfg, someReads(2), Effort{Rounds: 1})
	require.ErrorContains(t, err, "too short")
}
