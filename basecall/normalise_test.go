package basecall

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
)

// sortedMedian is the definition: the middle, or the mean of the two in the middle.
func sortedMedian(x []float64) float64 {
	slices.Sort(x)
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// wholeRead returns the map of a read that is normalised as a whole.
func wholeRead(t testing.TB, m NormalisationManifest, samples []int16, calibration signal.Calibration) affine {
	t.Helper()
	n, err := newNormaliser(m, calibration)
	require.NoError(t, err)
	defer n.release()
	require.True(t, n.reach(samples, len(samples), true))
	return n.affine()
}

func TestMedMADMatchesSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 500 {
		samples := make([]int16, 1+rng.IntN(60))
		spread := 1 + rng.IntN(1<<uint(1+n%16))
		for i := range samples {
			samples[i] = int16(rng.IntN(spread) - spread/2)
		}
		x := make([]float64, len(samples))
		for i, s := range samples {
			x[i] = float64(s)
		}
		median := sortedMedian(x)
		for i, s := range samples {
			x[i] = math.Abs(float64(s) - median)
		}
		mad := sortedMedian(x)

		a := wholeRead(t, NormalisationManifest{Method: "med_mad"}, samples, signal.Calibration{})
		require.InDelta(t, median, a.shift, 1e-6, "%v", samples)
		require.InDelta(t, max(1, 1.4826*mad), a.scale, 0.7413*0.51+1e-3, "%v", samples)
		if mad*2 == math.Trunc(mad*2) { // representable in half levels
			require.InEpsilon(t, max(1, 1.4826*mad), a.scale, 1e-6, "%v", samples)
		}
	}
}

func TestNormalisation(t *testing.T) {
	quantile := NormalisationManifest{Method: "quantile", QuantileA: 0.2, QuantileB: 0.9, ShiftMultiplier: 0.51, ScaleMultiplier: 0.53}
	tests := []struct {
		name         string
		manifest     NormalisationManifest
		samples      []int16
		calibration  signal.Calibration
		shift, scale float64
	}{
		{"odd", NormalisationManifest{Method: "med_mad"}, []int16{500, 100, 700, 300, 600}, signal.Calibration{}, 500, 1.4826 * 200},
		{"even", NormalisationManifest{Method: "med_mad"}, []int16{100, 200, 400, 800}, signal.Calibration{}, 300, 1.4826 * 150},
		{"extremes", NormalisationManifest{Method: "med_mad"}, []int16{-32768, 32767}, signal.Calibration{}, -0.5, 1.4826 * 32767.5},
		{"flat", NormalisationManifest{Method: "med_mad"}, []int16{7, 7, 7, 9}, signal.Calibration{}, 7, 1},
		// numpy.quantile([100..500 by 100], [0.2, 0.9]) = 180, 460
		{"quantile", quantile, []int16{300, 100, 500, 200, 400}, signal.Calibration{}, 0.51 * 640, 0.53 * 280},
		{"quantile, lower limits", quantile, []int16{-5, -5}, signal.Calibration{}, 10, 1},
		{"pa", NormalisationManifest{Method: "pa", Mean: 90, StdDev: 20}, []int16{1, 2}, signal.Calibration{Offset: 10, Scale: 0.5}, 170, 40},
		{"no samples", NormalisationManifest{Method: "med_mad"}, nil, signal.Calibration{}, 0, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := wholeRead(t, test.manifest, test.samples, test.calibration)
			assert.InDelta(t, test.shift, a.shift, 1e-3)
			assert.InDelta(t, test.scale, a.scale, 1e-2)
		})
	}
	_, err := newNormaliser(NormalisationManifest{Method: "pa", StdDev: 1}, signal.Calibration{})
	require.ErrorContains(t, err, "calibration scale is 0")
}

// runningManifest is a small running normalisation: blocks of 8 samples, spreads
// under 3 pA are still, and the first window waits for 40 samples.
var runningManifest = NormalisationManifest{Method: "med_mad", Scope: "running", Warmup: 40, Block: 8, Still: 3}

// randomCurrent is a current in which strands move, stick and leave.
func randomCurrent(rng *rand.Rand, n int) []int16 {
	samples := make([]int16, 0, n)
	for len(samples) < n {
		level, spread := 400+rng.IntN(400), []float64{1, 60}[rng.IntN(2)]
		for range min(1+rng.IntN(60), n-len(samples)) {
			samples = append(samples, int16(float64(level)+spread*rng.NormFloat64()))
		}
	}
	return samples
}

// definedMap is the definition of the running normalisation, without its economy:
// what the window of a read of samples that ends at sample end is normalised with.
func definedMap(m NormalisationManifest, samples []int16, end int, gain float32) affine {
	statistics := func(x []int16) (median, scale float32) {
		levels := make([]float64, len(x))
		for i, s := range x {
			levels[i] = float64(s)
		}
		middle := sortedMedian(levels)
		for i, s := range x {
			levels[i] = math.Abs(float64(s) - middle)
		}
		return float32(middle), float32(math.Floor(2*sortedMedian(levels))) / 2 * madToStdDev
	}
	var moving []int16
	at, warm := 0, false
	for at+m.Block <= len(samples) && (!warm || at+m.Block <= end) {
		block := samples[at : at+m.Block]
		if _, scale := statistics(block); gain == 0 || scale*gain >= m.Still {
			moving = append(moving, block...)
		}
		at += m.Block
		warm = len(moving) >= m.Warmup || at >= 8*m.Warmup
	}
	over := moving
	switch {
	case !warm && (len(moving) < 4*m.Block || gain == 0):
		over = samples
	case len(moving) < 4*m.Block:
		over = samples[:at]
	}
	a := affine{scale: 1, clip: m.Clip}
	if len(over) > 0 {
		a.shift, a.scale = statistics(over)
		a.scale = max(minScale, a.scale)
	}
	return a
}

func TestRunningNormalisationMatchesItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for n := range 2000 {
		samples := randomCurrent(rng, rng.IntN(700))
		gain := []float32{0.2, 0.2, 0.2, 0}[rng.IntN(4)]
		norm, err := newNormaliser(runningManifest, signal.Calibration{Scale: gain})
		require.NoError(t, err)
		there := 0
		for end := rng.IntN(50); end < len(samples); end += 1 + rng.IntN(100) {
			there = max(there, end)
			for !norm.reach(samples[min(norm.needs(), there):there], end, there == len(samples)) {
				there = min(len(samples), there+1+rng.IntN(20))
			}
			require.Equal(t, definedMap(runningManifest, samples, end, gain), norm.affine(), "case %d: window to %d of %d samples", n, end, len(samples))
		}
		norm.release()
	}
}

// TestNothingMovesDoesNotCount: a read that begins in an open pore and then
// sticks is normalised as it would be without that.
func TestNothingMovesDoesNotCount(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	m := NormalisationManifest{Method: "med_mad", Scope: "running", Warmup: 4096, Still: 4}
	calibration := signal.Calibration{Scale: 0.18}
	strand := syntheticRead(1, 12000).Samples
	clean := wholeRead(t, m, strand, calibration)
	still := make([]int16, 24*256)
	for i := range still {
		still[i] = int16(1200 + 5*rng.NormFloat64())
	}
	assert.Equal(t, clean, wholeRead(t, m, append(still, strand...), calibration))
	noisy := m
	noisy.Still = 0
	assert.Greater(t, wholeRead(t, noisy, append(still, strand...), calibration).scale, 1.5*clean.scale, "it would count otherwise")
}

func TestHistogramGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		h := new(histogram)
		for range 2 { // it is used again
			h.reset()
			counts := make(map[int]uint32)
			center := rng.IntN(1<<16) - 1<<15
			for range 1 + rng.IntN(20) {
				width := 1 + rng.IntN(1<<uint(rng.IntN(12)))
				samples := make([]int16, 1+rng.IntN(30))
				for i := range samples {
					level := min(math.MaxInt16, max(math.MinInt16, center+rng.IntN(2*width)-width))
					samples[i] = int16(level)
					counts[level]++
				}
				h.add(samples)
			}
			total := 0
			for i, n := range h.counts {
				require.Equal(t, counts[h.low+i], n)
				total += int(n)
			}
			require.Equal(t, h.n, total)
		}
	}
}

func TestPicoampereNormalisationEqualsItsDefinition(t *testing.T) {
	calibration := signal.Calibration{Offset: -243, Scale: 0.1755}
	manifest := NormalisationManifest{Method: "pa", Mean: 93.69, StdDev: 23.5}
	samples := []int16{0, 500, 800, 1023, -100}
	a := wholeRead(t, manifest, samples, calibration)
	have := make([]float32, len(samples))
	a.apply(have, samples)
	for i, s := range samples {
		assert.InDelta(t, (float64(calibration.Picoamperes(s))-93.69)/23.5, have[i], 1e-4)
	}
}

func TestApplyClips(t *testing.T) {
	have := make([]float32, 4)
	affine{shift: 100, scale: 10, clip: 2.5}.apply(have, []int16{0, 90, 110, 300})
	assert.Equal(t, []float32{-2.5, -1, 1, 2.5}, have)
	affine{shift: 100, scale: 10}.apply(have, []int16{0, 90, 110, 300})
	assert.Equal(t, []float32{-10, -1, 1, 20}, have)
}

func BenchmarkNormalise(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	samples := make([]int16, 100_000)
	for i := range samples {
		samples[i] = int16(500 + 80*rng.NormFloat64())
	}
	dst := make([]float32, len(samples))
	manifest := NormalisationManifest{Method: "med_mad", Clip: 5}
	b.SetBytes(int64(2 * len(samples)))
	b.ReportAllocs()
	for b.Loop() {
		wholeRead(b, manifest, samples, signal.Calibration{}).apply(dst, samples)
	}
}
