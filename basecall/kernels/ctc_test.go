package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/basecall/scores"
)

// randomCTC has windows of scores that favour a sequence more or less, as a network's do.
func randomCTC(rng *rand.Rand, cfg ctc.Config, steps int, spread float64, frames ...int) batch {
	b := batch{Classes: cfg.Classes, Steps: steps, Frames: frames}
	for range frames {
		x := make([]float32, steps*cfg.Classes)
		for t := range steps {
			row := x[t*cfg.Classes:][:cfg.Classes]
			for k := range row {
				row[k] = float32(rng.NormFloat64() * spread)
			}
			class := 0
			if rng.Float64() < 0.4 {
				class = 1 + rng.IntN(cfg.Classes-1)
			}
			row[class] += float32(4 + 2*rng.NormFloat64())
			if !cfg.Logits {
				logSoftmax(row)
			}
		}
		b.Scores = append(b.Scores, x)
	}
	return b
}

func logSoftmax(row []float32) {
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v))
	}
	for k := range row {
		row[k] -= float32(math.Log(sum))
	}
}

func ctcInGo(t testing.TB, b batch, cfg ctc.Config) []decoded {
	t.Helper()
	return b.InGo(t, ctc.NewDecoder(cfg).DecodeWindow)
}

// TestCTCIsGos holds the GPU's kernel, on a CPU, and that for CPUs to the bits of the decoder in Go: beams of all
// kinds of widths, all numbers of classes, scores of both kinds and both orders.
func TestCTCIsGos(t *testing.T) {
	t.Parallel()
	const steps = 90
	i := 0
	for classes := 2; classes <= 5; classes++ {
		for _, cfg := range []ctc.Config{
			{BeamWidth: 5, BeamCut: 0.1, Logits: true},
			{BeamWidth: 32, BeamCut: 1e-3},
			{BeamWidth: 32, BeamCut: 0, Logits: true, BaseBonus: 0.5},
			{BeamWidth: 1, BeamCut: 0.1},
			{BeamWidth: 2, BeamCut: 0.19, BaseBonus: -5, Logits: true},
			{BeamWidth: 12, BeamCut: 0, BaseBonus: 5},
		} {
			cfg.Classes = classes
			i++
			seed := uint64(i)
			t.Run(fmt.Sprintf("%+v", cfg), func(t *testing.T) {
				t.Parallel()
				require.True(t, kernels.DecodesCTC(cfg))
				rng := rand.New(rand.NewPCG(seed, 1))
				for n, spread := range []float64{0.3, 1.2, 4} {
					b := randomCTC(rng, cfg, steps, spread, steps, 0, 1, steps-1, steps/2)
					b.WindowsFirst = n%2 == 0
					on := gpu
					on.Backwards = n == 1
					have := kernelstest.CTC(t, b, cfg, on)
					require.Equal(t, kernelstest.CTC(t, b, cfg, kernelstest.On{}), have)
					require.Equal(t, ctcInGo(t, b, cfg), kernelstest.Bases(have))
				}
				if cfg.Logits { // rounded log-probabilities don't sum to one
					b := randomCTC(rng, cfg, steps, 1, steps, 3, 9, 10, 11).Rounded()
					onePart := kernelstest.On{GPU: true, Memory: 1, Backwards: true}
					require.Equal(t, ctcInGo(t, b, cfg), kernelstest.Bases(kernelstest.CTC(t, b, cfg, onePart)), "half floats, one part after the other")
					require.Equal(t, ctcInGo(t, b, cfg), kernelstest.Bases(kernelstest.CTC(t, b, cfg, kernelstest.On{})))
				}
			})
		}
	}
}

// TestCTCOfLongWindows goes on until sums and best paths have been scaled often, with frames that leave nothing
// but blanks, ties, and probabilities of 0.
func TestCTCOfLongWindows(t *testing.T) {
	t.Parallel()
	const steps = 1500
	for _, bonus := range []float32{-5, 0, 0.3, 5} {
		cfg := ctc.Config{Classes: 5, BeamWidth: 5, BeamCut: 0.1, BaseBonus: bonus}
		rng := rand.New(rand.NewPCG(9, 9))
		b := randomCTC(rng, cfg, steps, 1.2, steps, steps, steps)
		b.WindowsFirst = true
		minus := float32(math.Inf(-1))
		for f := range steps {
			tie, blank := b.Scores[1][5*f:], b.Scores[2][5*f:]
			copy(tie, []float32{minus, float32(math.Log(0.25)), float32(math.Log(0.25)), float32(math.Log(0.25)), float32(math.Log(0.25))})
			if f%7 != 0 {
				copy(blank, []float32{0, minus, minus, -100, -90})
			}
		}
		want := ctcInGo(t, b, cfg)
		require.Equal(t, want, kernelstest.Bases(kernelstest.CTC(t, b, cfg, gpu)))
		require.Equal(t, want, kernelstest.Bases(kernelstest.CTC(t, b, cfg, kernelstest.On{})))
	}
}

// TestCTCReportsScoresThatAreNone says at which frame.
func TestCTCReportsScoresThatAreNone(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, logits := range []bool{true, false} {
		cfg := ctc.Config{Classes: 5, BeamWidth: 5, BeamCut: 0.1, Logits: logits}
		b := randomCTC(rng, cfg, 40, 1, 40, 40, 30, 40)
		b.Scores[0][5*33+2] = float32(math.NaN())
		b.Scores[0][5*39] = float32(math.NaN())
		b.Scores[1][5*7] = float32(math.Inf(1))
		b.Scores[2][5*35] = float32(math.NaN()) // the frame is not decoded
		for _, have := range [][]decoded{kernelstest.CTC(t, b, cfg, gpu), kernelstest.CTC(t, b, cfg, kernelstest.On{})} {
			for window, frame := range []int{33, 7} {
				want := make([]uint8, 40)
				want[frame] = scores.NoNumber
				assert.Equal(t, want, have[window].Path)
			}
			assert.NotContains(t, have[2].Path, uint8(scores.NoNumber))
			assert.NotContains(t, have[3].Path, uint8(scores.NoNumber))
		}
	}
}

// TestCTCPathsNameTheNewestBase has of each frame the base that began last.
func TestCTCPathsNameTheNewestBase(t *testing.T) {
	t.Parallel()
	cfg := ctc.Config{Classes: 5, BeamWidth: 5, BeamCut: 0.1, Logits: true}
	b := randomCTC(rand.New(rand.NewPCG(1, 2)), cfg, 200, 1, 200)
	path := kernelstest.CTC(t, b, cfg, gpu)[0].Path
	newest, begun := uint8(0), 0
	for _, v := range path {
		if v&scores.Begins != 0 {
			newest = v & 3
			begun++
		}
		require.Equal(t, newest, v&3)
	}
	assert.Greater(t, begun, 30)
}

func TestCTCsWithoutAKernel(t *testing.T) {
	for _, cfg := range []ctc.Config{{Classes: 1, BeamWidth: 5}, {Classes: 6, BeamWidth: 5}, {Classes: 5}, {Classes: 5, BeamWidth: 33}} {
		assert.False(t, kernels.DecodesCTC(cfg), "%+v", cfg)
	}
}
