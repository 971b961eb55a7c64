package network

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modelfile/calibration"
	"github.com/porestream/porestream/variant"
)

// calibrated returns the scores that follow from the copies' logits.
func calibrated(c calibrations, of class, none, one, two float32) [3]float64 {
	scores := make([]float32, variant.Scores)
	scores[0], scores[1], scores[2] = none, one, two
	c.probabilities(scores, of)
	return [3]float64{float64(scores[0]), float64(scores[1]), float64(scores[2])}
}

// plain is the softmax by its definition.
func plain(logits ...float64) []float64 {
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(v)
	}
	out := make([]float64, len(logits))
	for i, v := range logits {
		out[i] = math.Exp(v) / sum
	}
	return out
}

// TestProbabilitiesWithoutCalibration holds every head to its definition.
func TestProbabilitiesWithoutCalibration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		scores := make([]float32, variant.Scores)
		logits := make([]float64, variant.Scores)
		for i := range scores {
			scores[i] = float32(5 * rng.NormFloat64())
			logits[i] = float64(scores[i])
		}
		calibrations(nil).probabilities(scores, class{typeSNP, variant.Diploid})
		for _, head := range [][2]int{{0, 3}, {3, 6}, {6, 39}} {
			for i, want := range plain(logits[head[0]:head[1]]...) {
				require.InDelta(t, want, math.Exp(float64(scores[head[0]+i])), 1e-6, "score %d", head[0]+i)
			}
		}
	}
}

func TestHaploidLeavesOneCopyOut(t *testing.T) {
	got := calibrated(nil, class{typeIndel, variant.Haploid}, 1, 50, 3)
	want := plain(1, 3)
	assert.InDelta(t, want[0], math.Exp(got[0]), 1e-6)
	assert.InDelta(t, want[1], math.Exp(got[2]), 1e-6)
	assert.Equal(t, float64(leastLog), got[1])
}

// TestCalibration: QUAL and GQ come out as the curves say, probabilities still sum
// to 1, and copies share what isn't absent as before unless GQ is corrected.
func TestCalibration(t *testing.T) {
	of := class{typeSNP, variant.Diploid}
	qual := calibration.Curve{{10, 5}, {30, 20}, {90, 60}}
	gq := calibration.Curve{{20, 10}, {100, 50}}
	c := newCalibrations([]Calibration{{Type: "snp", Ploidy: "2", Qual: qual}, {Type: "indel", Ploidy: "2", Qual: qual, GQ: gq}})
	phredOf := func(log float64) float64 { return -10 / math.Ln10 * log }
	rng := rand.New(rand.NewPCG(1, 3))
	for range 500 {
		none, one, two := float32(8*rng.NormFloat64()), float32(5*rng.NormFloat64()), float32(5*rng.NormFloat64())
		before := calibrated(nil, of, none, one, two)
		after := calibrated(c, of, none, one, two)
		require.InDelta(t, qual.At(phredOf(before[0])), phredOf(after[0]), 1e-4)
		require.InDelta(t, 1, math.Exp(after[0])+math.Exp(after[1])+math.Exp(after[2]), 1e-5)
		require.InDelta(t, before[2]-before[1], after[2]-after[1], 1e-4, "copies share in proportion")

		after = calibrated(c, class{typeIndel, variant.Diploid}, none, one, two)
		require.InDelta(t, qual.At(phredOf(before[0])), phredOf(after[0]), 1e-4)
		odds := 10 / math.Ln10 * math.Abs(float64(two)-float64(one))
		require.InDelta(t, gq.At(odds), 10/math.Ln10*math.Abs(after[2]-after[1]), 1e-3)
		require.Equal(t, two > one, after[2] > after[1], "the likelier number stays so")

		require.Equal(t, before, calibrated(c, class{typeSNP, variant.Mixture}, none, one, two), "no calibration is for mixtures")
	}
}

// TestExtremes: whatever a network says, answers are finite numbers that order as
// it says.
func TestExtremes(t *testing.T) {
	inf := float32(math.Inf(-1))
	c := newCalibrations([]Calibration{{Type: "snp", Ploidy: "2", Qual: calibration.Curve{{10, 1e-3}, {20, 50}}, GQ: calibration.Curve{{1, 1}}}})
	for _, logits := range [][3]float32{
		{0, 0, 0}, {3e38, -3e38, 0}, {-3e38, 3e38, 3e38}, {inf, inf, inf}, {inf, 0, inf}, {0, inf, inf}, {1e4, 0, 0}, {0, 1e4, -1e4}, {-90, 90, -90},
	} {
		for _, ploidy := range []variant.Ploidy{variant.Haploid, variant.Diploid, variant.Mixture} {
			for _, curves := range []calibrations{nil, c} {
				got := calibrated(curves, class{typeSNP, ploidy}, logits[0], logits[1], logits[2])
				for i, v := range got {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || v > 0, "%v at ploidy %v: score %d is %v", logits, ploidy, i, v)
				}
			}
		}
	}
	sure := calibrated(nil, class{typeSNP, variant.Diploid}, 40, 0, 0)
	assert.InDelta(t, -40+math.Ln2, math.Log(math.Exp(sure[1])+math.Exp(sure[2])), 1e-4, "what is improbable keeps its size")
	assert.InDelta(t, -40, sure[1], 1e-4)
}

// TestCalibrationIsMonotone: of two examples the one that a network holds for
// likelier to be variant is so after calibration too, or alike.
func TestCalibrationIsMonotone(t *testing.T) {
	c := newCalibrations([]Calibration{{Type: "snp", Ploidy: "1", Qual: calibration.Curve{{1, 0.5}, {1.5, 3}, {40, 3}, {60, 61}}}})
	last := math.Inf(1)
	for odds := float32(-30); odds < 30; odds += 0.05 {
		got := calibrated(c, class{typeSNP, variant.Haploid}, 0, 0, odds)
		require.LessOrEqual(t, got[0], last)
		last = got[0]
	}
}

func TestClassOf(t *testing.T) {
	for p, ploidy := range []variant.Ploidy{variant.Haploid, variant.Diploid, variant.Mixture} {
		for i, want := range []alleleType{typeSNP, typeIndel, typeIndel} {
			example := make([]float32, variant.ExampleSize)
			scalars := example[variant.ExamplePlanes*variant.ExampleColumns:]
			scalars[variant.ScalarPloidy+p], scalars[variant.ScalarType+i] = 1, 1
			assert.Equal(t, class{want, ploidy}, classOf(example))
		}
	}
}

func TestLongIndelsAreCalibratedApart(t *testing.T) {
	example := func(kind, changed int) []float32 {
		x := make([]float32, variant.ExampleSize)
		scalars := x[variant.ExamplePlanes*variant.ExampleColumns:]
		scalars[variant.ScalarPloidy], scalars[variant.ScalarType+kind] = 1, 1
		scalars[variant.ScalarLength] = float32(changed) / 16
		return x
	}
	short := Calibration{Type: "indel", Ploidy: "1", Qual: calibration.Curve{{10, 1}}}
	long := Calibration{Type: "long_indel", Ploidy: "1", Qual: calibration.Curve{{10, 8}}}
	quality := func(of class, list ...Calibration) float64 {
		scores := make([]float32, variant.Scores)
		scores[variant.ScoreCopies+2] = 10
		newCalibrations(list).probabilities(scores, of)
		return -phred * float64(scores[variant.ScoreCopies])
	}
	for _, tt := range []struct {
		kind, changed int
		apart, same   float64 // with a curve for long indels, and without
	}{
		{1, 1, 1, 1}, {1, 3, 1, 1}, {1, 4, 8, 1}, {1, 20, 8, 1},
		{2, 3, 1, 1}, {2, 4, 8, 1}, {2, 16, 8, 1},
	} {
		of := classOf(example(tt.kind, tt.changed))
		assert.InDelta(t, tt.apart, quality(of, short, long), 1e-4, "%+v", tt)
		assert.InDelta(t, tt.same, quality(of, short), 1e-4, "%+v", tt)
	}
	// A substitution's example has no length.
	assert.Equal(t, typeSNP, classOf(example(0, 0)).of)
}

// TestOwnIndelsLeaveLongOnes: a set's curve of indels is not one of long indels, unless the model doesn't distinguish
// the two.
func TestOwnIndelsLeaveLongOnes(t *testing.T) {
	curve := func(to float64) calibration.Curve { return calibration.Curve{{1, to}} }
	set := ReadSet{Calibration: []Calibration{{Type: "indel", Ploidy: "1", Qual: curve(2)}}}
	indel := Calibration{Type: "indel", Ploidy: "1", Qual: curve(3)}
	long := Calibration{Type: "long_indel", Ploidy: "1", Qual: curve(4)}
	c := newCalibrations(set.over([]Calibration{indel, long}))
	require.Equal(t, curve(2), c[class{typeIndel, variant.Haploid}].Qual)
	require.Equal(t, curve(4), c[class{typeLongIndel, variant.Haploid}].Qual)
	c = newCalibrations(set.over([]Calibration{indel}))
	require.Equal(t, curve(2), c[class{typeLongIndel, variant.Haploid}].Qual)
}
