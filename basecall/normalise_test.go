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

		a, err := NormalisationManifest{Method: "med_mad"}.normalisation(samples, signal.Calibration{})
		require.NoError(t, err)
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
			a, err := test.manifest.normalisation(test.samples, test.calibration)
			require.NoError(t, err)
			assert.InDelta(t, test.shift, a.shift, 1e-3)
			assert.InDelta(t, test.scale, a.scale, 1e-2)
		})
	}
	_, err := NormalisationManifest{Method: "pa", StdDev: 1}.normalisation(nil, signal.Calibration{})
	require.ErrorContains(t, err, "calibration scale is 0")
}

func TestPicoampereNormalisationEqualsItsDefinition(t *testing.T) {
	calibration := signal.Calibration{Offset: -243, Scale: 0.1755}
	manifest := NormalisationManifest{Method: "pa", Mean: 93.69, StdDev: 23.5}
	samples := []int16{0, 500, 800, 1023, -100}
	a, err := manifest.normalisation(samples, calibration)
	require.NoError(t, err)
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
		a, err := manifest.normalisation(samples, signal.Calibration{})
		if err != nil {
			b.Fatal(err)
		}
		a.apply(dst, samples)
	}
}
