package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
)

// stem is the convolutions with what they are given.
type stem struct {
	kernels.Stem
	samples int
	x       [][]float32 // of each window
}

// shippedStem has the sizes of the shipped models' convolutions.
func shippedStem(width, stride int) kernels.Stem {
	pad := (20 - stride) / 2
	return kernels.Stem{
		{In: 1, Out: 16, Taps: 9, Stride: 1, Left: 4, Right: 4, Activation: kernels.SiLU},
		{In: 16, Out: width, Taps: 19, Stride: stride, Left: pad, Right: pad, Activation: kernels.SiLU},
	}
}

// threeConvolutions has sizes that Bonito's and Dorado's models have.
func threeConvolutions(first, width, stride int, last kernels.Activation) kernels.Stem {
	return kernels.Stem{
		{In: 1, Out: first, Taps: 5, Stride: 1, Left: 2, Right: 2, Activation: kernels.SiLU},
		{In: first, Out: 16, Taps: 5, Stride: 1, Left: 2, Right: 2, Activation: kernels.SiLU},
		{In: 16, Out: width, Taps: 19, Stride: stride, Left: 9, Right: 9, Activation: last},
	}
}

func randomStem(s kernels.Stem, samples, windows int) stem {
	rng := rand.New(rand.NewPCG(uint64(s[len(s)-1].Out), uint64(samples*100+windows)))
	for i, c := range s {
		for range c.Out * c.In * c.Taps {
			s[i].W = append(s[i].W, float32(rng.NormFloat64()/math.Sqrt(float64(c.In*c.Taps))))
		}
		for range c.Out {
			s[i].B = append(s[i].B, float32(rng.NormFloat64()/2))
		}
	}
	out := stem{Stem: s, samples: samples}
	for range windows {
		x := make([]float32, samples)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		out.x = append(out.x, x)
	}
	return out
}

func (s stem) last() kernels.Convolution { return s.Stem[len(s.Stem)-1] }
func (s stem) frames() int {
	c := s.last()
	return (s.samples+c.Left+c.Right-c.Taps)/c.Stride + 1
}

func (s stem) run(t *testing.T, what string, rest ...int) (y []uint16, says string) {
	t.Helper()
	weights, bias, small := s.Pack()
	var parts []any
	for _, x := range s.x {
		parts = append(parts, x)
	}
	c, f := s.last(), s.Activations()
	args := []string{what}
	for _, n := range append([]int{c.Out, len(s.x), s.samples, s.Stem[0].Out, s.Stem[0].Taps, s.Second(), c.Taps, c.Stride, c.Left, c.Right, int(f[0]), int(f[1]), int(f[2])}, rest...) {
		args = append(args, strconv.Itoa(n))
	}
	return emulated(t, kernelstest.Emulator(t), s.frames()*len(s.x)*c.Out, append(parts, weights, bias, small), args...)
}

func (s stem) emulate(t *testing.T, on card, backwards int) (y []uint16, says string) {
	t.Helper()
	return s.run(t, "stem", on.processors, on.shared, backwards)
}

// reference computes the convolutions as ONNX defines them, in float64, with the last one's weights as the half floats that kernels
// multiply: [frames][windows][width].
func (s stem) reference() []float64 {
	activated := func(v float64, f kernels.Activation) float64 {
		switch f {
		case kernels.SiLU:
			return v / (1 + math.Exp(-v))
		case kernels.Tanh:
			return math.Tanh(v)
		}
		return v
	}
	width := s.last().Out
	y := make([]float64, s.frames()*len(s.x)*width)
	for n, x := range s.x {
		level := make([][]float64, s.samples) // by position and channel
		for p, v := range x {
			level[p] = []float64{float64(v)}
		}
		for i, c := range s.Stem {
			next := make([][]float64, (len(level)+c.Left+c.Right-c.Taps)/c.Stride+1)
			for p := range next {
				next[p] = make([]float64, c.Out)
				for out := range c.Out {
					sum := float64(c.B[out])
					for in := range c.In {
						for tap := range c.Taps {
							at := p*c.Stride - c.Left + tap
							if at < 0 || at >= len(level) {
								continue
							}
							w := c.W[(out*c.In+in)*c.Taps+tap]
							if i == len(s.Stem)-1 {
								w = half.ToFloat(half.FromFloat(w))
							}
							sum += float64(w) * level[at][in]
						}
					}
					next[p][out] = activated(sum, c.Activation)
				}
			}
			level = next
		}
		for f, v := range level {
			copy(y[(f*len(s.x)+n)*width:], v)
		}
	}
	return y
}

// mostStemError is three times what rounding what the last convolution takes and gives to half floats makes.
const mostStemError = 9e-4

// TestStemOfEveryWidth runs the GPU's kernel, on a CPU, for each width and compares it, and that for CPUs, with float64.
func TestStemOfEveryWidth(t *testing.T) {
	t.Parallel()
	for _, width := range widths() {
		stride := 1 + width/16%8
		s := randomStem(shippedStem(width, stride), 30+width%7, 2)
		if width/16%3 == 0 {
			s = randomStem(threeConvolutions(1+width/16%16, width, stride, kernels.Tanh), 30+width%7, 2)
		}
		require.True(t, s.HasKernel())
		want := s.reference()
		assert.LessOrEqual(t, relativeError(first(s.emulate(t, h100, width/32%2)), want), mostStemError, "width %d", width)
		assert.LessOrEqual(t, relativeError(first(s.run(t, "stem-cpu")), want), mostStemError, "width %d, on a CPU", width)
	}
}

// TestStemOfShapesAndCards has windows that end anywhere in a block's frames, and ones that are shorter than the taps: the bytes depend
// neither on the card nor on the order of threads.
func TestStemOfShapesAndCards(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of               kernels.Stem
		samples, windows int
		plans            map[card]string
	}{
		{shippedStem(112, 6), 7 + 6*70, 3, map[card]string{h100: "2 tiles", full: "4 tiles", small: "4 tiles"}},
		{shippedStem(256, 5), 5 * 64, 2, map[card]string{h100: "2 tiles", full: "4 tiles"}},
		{shippedStem(96, 1), 3, 1, map[card]string{full: "2 tiles", small: "2 tiles"}},
		{threeConvolutions(16, 384, 6, kernels.SiLU), 6*65 + 3, 2, map[card]string{a100: "2 tiles", full: "4 tiles", small: "4 tiles"}},
		{threeConvolutions(4, 128, 5, kernels.Tanh), 200, 5, map[card]string{h100: "2 tiles", full: "4 tiles"}},
		{threeConvolutions(16, 208, 12, kernels.NoActivation), 12 * 40, 1, map[card]string{full: "4 tiles", small: "4 tiles"}},
	} {
		t.Run(fmt.Sprintf("%d wide, %d samples", tt.of[len(tt.of)-1].Out, tt.samples), func(t *testing.T) {
			t.Parallel()
			s := randomStem(tt.of, tt.samples, tt.windows)
			want := s.reference()
			assert.LessOrEqual(t, relativeError(first(s.run(t, "stem-cpu")), want), mostStemError, "on a CPU")
			var before []uint16
			for on, plan := range tt.plans {
				for backwards := range 2 {
					y, says := s.emulate(t, on, backwards)
					assert.Contains(t, says, plan, "%+v", on)
					if before == nil {
						before = y
						assert.LessOrEqual(t, relativeError(y, want), mostStemError)
					}
					assert.Equal(t, before, y, "%+v, backwards %v", on, backwards)
				}
			}
		})
	}
}

// TestStemWindowsAreIndependent: a window gets the same alone and in a batch.
func TestStemWindowsAreIndependent(t *testing.T) {
	t.Parallel()
	all := randomStem(shippedStem(112, 6), 420, 5)
	for name, run := range map[string]func(stem) []uint16{
		"a GPU": func(s stem) []uint16 { return first(s.emulate(t, full, 0)) },
		"a CPU": func(s stem) []uint16 { return first(s.run(t, "stem-cpu")) },
	} {
		y := run(all)
		for n := range all.x {
			some := all
			some.x = all.x[n : n+1]
			have := run(some)
			for f := range all.frames() {
				require.Equal(t, y[(f*5+n)*112:][:112], have[f*112:][:112], "%s, window %d, frame %d", name, n, f)
			}
		}
	}
}

func TestStemsWithoutAKernel(t *testing.T) {
	for name, f := range map[string]func(kernels.Stem) kernels.Stem{
		"one":                        func(s kernels.Stem) kernels.Stem { return s[1:] },
		"four":                       func(s kernels.Stem) kernels.Stem { return append(s, s[1], s[1]) },
		"two signals":                func(s kernels.Stem) kernels.Stem { s[0].In = 2; return s },
		"other channels between":     func(s kernels.Stem) kernels.Stem { s[0].Out = 8; s[1].In = 8; return s },
		"a stride at first":          func(s kernels.Stem) kernels.Stem { s[0].Stride = 2; return s },
		"shorter at first":           func(s kernels.Stem) kernels.Stem { s[0].Left = 0; return s },
		"even taps at first":         func(s kernels.Stem) kernels.Stem { s[0].Taps = 8; return s },
		"another width":              func(s kernels.Stem) kernels.Stem { s[1].Out = 100; return s },
		"many taps":                  func(s kernels.Stem) kernels.Stem { s[1].Taps = 65; return s },
		"a long stride":              func(s kernels.Stem) kernels.Stem { s[1].Stride = 17; return s },
		"more zeros than taps":       func(s kernels.Stem) kernels.Stem { s[1].Right = 19; return s },
		"a clamp between":            func(s kernels.Stem) kernels.Stem { s[0].Activation = kernels.Clamp; return s },
		"channels that don't follow": func(s kernels.Stem) kernels.Stem { s[0].Out = 12; return s },
	} {
		assert.False(t, f(shippedStem(256, 5)).HasKernel(), name)
	}
	assert.True(t, shippedStem(256, 5).HasKernel())
}
