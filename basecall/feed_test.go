package basecall

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
)

// fed is a window that a feed has given.
type fed struct {
	window
	input []float32
	after int // samples that had come
}

// feedAll feeds a read in pieces of the given lengths, again and again.
func feedAll(t testing.TB, w windowing, m NormalisationManifest, samples []int16, pieces func() int) []fed {
	t.Helper()
	f, err := newFeed(w, m, signal.Calibration{Scale: 0.2})
	require.NoError(t, err)
	defer f.release()
	var all []fed
	take := func() {
		for {
			dst := make([]float32, w.samples)
			window, due := f.next(dst)
			if !due {
				return
			}
			all = append(all, fed{window, dst, f.samples})
		}
	}
	for rest := samples; len(rest) > 0; {
		n := min(len(rest), max(1, pieces()))
		f.write(rest[:n])
		rest = rest[n:]
		take()
		if m.Scope == scopeRunning || m.Method == methodPicoamperes {
			// Of the signal only what is still needed is held, whatever the read's length.
			require.LessOrEqual(t, len(f.tail), 2*w.samples+w.stride+longestWarmup*m.Warmup+n)
		}
	}
	f.end()
	take()
	return all
}

// TestWindowsDependOnSamplesAlone: however a read is cut into pieces, its windows
// are the same to the bit, and those of its definition.
func TestWindowsDependOnSamplesAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	normalisations := []NormalisationManifest{
		runningManifest,
		{Method: "med_mad", Clip: 2},
		{Method: "med_mad", Scope: "read", Still: 3, Block: 8},
		{Method: "quantile", Scope: "running", Warmup: 40, Block: 8, Still: 3, QuantileA: 0.2, QuantileB: 0.9, ShiftMultiplier: 0.51, ScaleMultiplier: 0.53},
		{Method: "pa", Mean: 90, StdDev: 20},
	}
	for n := range 400 {
		m := normalisations[n%len(normalisations)]
		w := windowing{stride: 3, samples: 60, overlap: 12, phase: n % 7}
		if n%2 == 1 {
			w.unit = 3 * max(1, w.phase)
		}
		samples := randomCurrent(rng, rng.IntN(900))
		want := feedAll(t, w, m, samples, func() int { return len(samples) })
		require.Len(t, want, w.count(len(samples)))
		for i, f := range want {
			start, length := w.start(i, len(samples)), w.length(i, len(samples))
			require.Equal(t, window{index: i, frame: start / 3, frames: min(length/3, len(samples)/3-start/3), length: length}, f.window)
		}
		for _, pieces := range []func() int{
			func() int { return 1 },
			func() int { return 7 },
			func() int { return rng.IntN(200) },
		} {
			have := feedAll(t, w, m, samples, pieces)
			require.Equal(t, len(want), len(have))
			for i := range want {
				require.Equal(t, want[i].window, have[i].window)
				require.Equal(t, want[i].input, have[i].input, "case %d: window %d of %d samples", n, i, len(samples))
			}
		}
	}
}

// TestWindowsAreDueEarly: behind the warm-up a window is due with its last sample,
// and when the read ends one is left at most.
func TestWindowsAreDueEarly(t *testing.T) {
	w := windowing{stride: 3, samples: 60, overlap: 12}
	samples := make([]int16, 1000)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range samples {
		samples[i] = int16(500 + 80*rng.NormFloat64())
	}
	late := 0
	for _, f := range feedAll(t, w, runningManifest, samples, func() int { return 1 }) {
		end := 3*f.frame + w.samples
		switch {
		case f.after == len(samples):
			late++
		default:
			assert.Equal(t, max(end, runningManifest.Warmup), f.after)
		}
	}
	assert.LessOrEqual(t, late, 1)

	// A strand that sticks for ever doesn't keep windows back for ever.
	flat := slices.Repeat([]int16{700}, 1000)
	first := feedAll(t, w, runningManifest, flat, func() int { return 1 })[0]
	assert.Equal(t, longestWarmup*runningManifest.Warmup, first.after)
}
