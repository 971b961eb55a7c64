package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/testenv"
)

// What a multiprocessor lets a block have of shared memory, in bytes, and their number.
var (
	a100  = card{processors: 108, shared: 163 << 10}
	h100  = card{processors: 132, shared: 227 << 10}
	small = card{processors: 1, shared: 99 << 10} // as on the cards of compute capability 8.6, 8.9 and 12.0
	full  = card{processors: 1, shared: 227 << 10}
)

type card struct{ processors, shared int }

// layer is a layer with what it is given.
type layer struct {
	kernels.LSTM
	steps, windows    int
	reverse, residual bool
	x                 []uint16 // [steps][windows][Width]
	weights           []uint16 // packed
	bias              []float32
}

func randomLayer(width, steps, windows int, reverse, residual bool) layer {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(steps*1000+windows)))
	normal := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		return v
	}
	scale := 1 / math.Sqrt(float64(width))
	l := layer{
		LSTM:  kernels.LSTM{Width: width, W: normal(4*width*width, scale), R: normal(4*width*width, scale), B: normal(8*width, 0.1)},
		steps: steps, windows: windows, reverse: reverse, residual: residual,
	}
	for _, v := range normal(steps*windows*width, 1) {
		l.x = append(l.x, half.FromFloat(v))
	}
	l.weights, l.bias = l.Pack()
	return l
}

// run has the emulator compute the layer and returns what it gives and what it says.
func (l layer) run(t *testing.T, emulator, what string, rest ...string) (y []uint16, says string) {
	t.Helper()
	args := append([]string{what, strconv.Itoa(l.Width), strconv.Itoa(l.steps), strconv.Itoa(l.windows), kernelstest.Bool(l.reverse), kernelstest.Bool(l.residual)}, rest...)
	return emulated(t, emulator, len(l.x), []any{l.x, l.weights, l.bias}, args...)
}

// emulated has the emulator compute so many half floats of its input's parts.
func emulated(t *testing.T, emulator string, count int, parts []any, args ...string) (y []uint16, says string) {
	t.Helper()
	out, says := kernelstest.Emulate(t, emulator, parts, args...)
	require.Equal(t, 2*count, out.Len())
	y = make([]uint16, count)
	require.NoError(t, binary.Read(out, binary.LittleEndian, y))
	return y, says
}

func (l layer) emulate(t *testing.T, emulator string, on card, backwards bool) (y []uint16, says string) {
	t.Helper()
	return l.run(t, emulator, "lstm", strconv.Itoa(on.processors), strconv.Itoa(on.shared), kernelstest.Bool(backwards))
}

// reference computes the layer as ONNX defines it, in float64. Its weights and inputs are the half
// floats that kernels multiply.
func (l layer) reference() []float64 {
	h := l.Width
	rounded := func(v []float32) []float64 {
		out := make([]float64, len(v))
		for i := range v {
			out[i] = float64(half.ToFloat(half.FromFloat(v[i])))
		}
		return out
	}
	w, r := rounded(l.W), rounded(l.R)
	x := make([]float64, len(l.x))
	for i, v := range l.x {
		x[i] = float64(half.ToFloat(v))
	}
	y := make([]float64, len(l.x))
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for n := range l.windows {
		state, cell, gates := make([]float64, h), make([]float64, h), make([]float64, 4*h)
		for step := range l.steps {
			t := step
			if l.reverse {
				t = l.steps - 1 - step
			}
			at := (t*l.windows + n) * h
			for row := range gates {
				sum := float64(l.B[row]) + float64(l.B[4*h+row])
				fromInput, fromState := w[row*h:][:h], r[row*h:][:h]
				for k, v := range x[at:][:h] {
					sum += fromInput[k]*v + fromState[k]*state[k]
				}
				gates[row] = sum
			}
			for u := range h {
				in, out, forget, c := gates[u], gates[h+u], gates[2*h+u], gates[3*h+u]
				cell[u] = sigmoid(forget)*cell[u] + sigmoid(in)*math.Tanh(c)
				state[u] = sigmoid(out) * math.Tanh(cell[u])
				y[at+u] = state[u]
				if l.residual {
					y[at+u] += x[at+u]
				}
			}
		}
	}
	return y
}

// relativeError is the root mean square of the difference over that of what is wanted.
func relativeError(have []uint16, want []float64) float64 {
	var difference, all float64
	for i, v := range want {
		d := float64(half.ToFloat(have[i])) - v
		difference += d * d
		all += v * v
	}
	return math.Sqrt(difference / all) // NaN if anything is
}

// mostError is three times what rounding the states to half floats makes.
const mostError = 6e-4

// widths are those that layers of every width are tested with: all up to 256, and above each fifth and the widest, since the time
// grows with the square; with PORESTREAM_TEST_ALL, as every night, all.
func widths() (list []int) {
	for width := 96; width <= 1024; width += 16 {
		if width <= 256 || width/16%5 == 1 || width == 1024 || testenv.All() {
			list = append(list, width)
		}
	}
	return list
}

// TestLSTMOfEveryWidth runs the GPU's kernel, on a CPU, for each width and compares it with float64.
func TestLSTMOfEveryWidth(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	for _, width := range widths() {
		l := randomLayer(width, 2, 3, width/16%2 == 0, width/16%3 != 0)
		y, _ := l.emulate(t, emulator, h100, false)
		want := l.reference()
		assert.LessOrEqual(t, relativeError(y, want), mostError, "width %d", width)
		cpu, _ := l.run(t, emulator, "lstm-cpu")
		assert.LessOrEqual(t, relativeError(cpu, want), mostError, "width %d, on a CPU", width)
	}
	for width := 96; width <= 1024; width += 16 {
		assert.True(t, kernels.HasWidth(width), width)
	}
	for _, width := range []int{0, 16, 80, 100, 1040, -96} {
		assert.False(t, kernels.HasWidth(width), width)
	}
}

// TestLSTMOfShapesAndCards has odd batches, short and longer sequences, both directions, and cards
// with more or less memory: the bytes depend on none of the cards, nor on the order in which threads run.
func TestLSTMOfShapesAndCards(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	for _, tt := range []struct {
		width, steps, windows int
		reverse, residual     bool
		plans                 map[card]string // tiles of 16 windows that a block has
	}{
		{96, 1, 1, false, false, map[card]string{h100: "1 tiles", full: "1 tiles"}},
		{112, 9, 67, true, true, map[card]string{h100: "1 tiles", full: "4 tiles", small: "4 tiles"}},
		{128, 5, 33, false, true, map[card]string{full: "4 tiles", small: "4 tiles"}},
		{208, 3, 50, true, false, map[card]string{full: "4 tiles", small: "2 tiles"}},
		{256, 6, 65, true, true, map[card]string{h100: "1 tiles", full: "4 tiles 200704 shared 0 cells", a100: "1 tiles", small: "2 tiles"}},
		{256, 3, 20, false, true, map[card]string{full: "2 tiles", small: "2 tiles"}},
		{384, 3, 64, true, true, map[card]string{full: "4 tiles 200704 shared 24576 cells", small: "2 tiles 100352 shared 24576 cells"}},
		{512, 2, 40, false, false, map[card]string{full: "2 tiles", small: "1 tiles"}},
		{1024, 2, 17, true, true, map[card]string{full: "1 tiles", a100: "1 tiles"}},
	} {
		l := randomLayer(tt.width, tt.steps, tt.windows, tt.reverse, tt.residual)
		t.Run(fmt.Sprintf("%d wide, %d steps, %d windows", tt.width, tt.steps, tt.windows), func(t *testing.T) {
			t.Parallel()
			want := l.reference()
			cpu, _ := l.run(t, emulator, "lstm-cpu")
			assert.LessOrEqual(t, relativeError(cpu, want), mostError)
			var first []uint16
			for on, plan := range tt.plans {
				for _, backwards := range []bool{false, true} {
					y, says := l.emulate(t, emulator, on, backwards)
					assert.Contains(t, says, plan, "%+v", on)
					assert.LessOrEqual(t, relativeError(y, want), mostError, "%+v", on)
					if first == nil {
						first = y
					}
					assert.Equal(t, first, y, "%+v, backwards %v", on, backwards)
				}
			}
		})
	}
}

// TestLSTMWindowsAreIndependent takes windows out of a batch: what they get is the same.
func TestLSTMWindowsAreIndependent(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	const steps, windows, width = 4, 70, 112
	all := randomLayer(width, steps, windows, true, true)
	y, _ := all.emulate(t, emulator, full, false)
	for _, from := range []int{0, 15, 41, 69} {
		some := all
		some.windows = min(5, windows-from)
		some.x = nil
		var want []uint16
		for step := range steps {
			part := func(v []uint16) []uint16 { return v[(step*windows+from)*width:][:some.windows*width] }
			some.x, want = append(some.x, part(all.x)...), append(want, part(y)...)
		}
		have, _ := some.emulate(t, emulator, full, false)
		assert.Equal(t, want, have, "from window %d", from)
	}
}

// TestNoSpaceForALayer has cards whose blocks have too little memory for wide layers.
func TestNoSpaceForALayer(t *testing.T) {
	t.Parallel()
	emulator := kernelstest.Emulator(t)
	l := randomLayer(784, 1, 1, false, false)
	y, _ := l.emulate(t, emulator, small, false)
	assert.LessOrEqual(t, relativeError(y, l.reference()), mostError)
	out, err := exec.CommandContext(t.Context(), emulator, "lstm", "800", "1", "1", "0", "0", "1", strconv.Itoa(small.shared), "0").CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, "no room\n", string(out))
}

func TestPackedBiasesAreSums(t *testing.T) {
	t.Parallel()
	l := kernels.LSTM{Width: 96, W: make([]float32, 4*96*96), R: make([]float32, 4*96*96), B: make([]float32, 8*96)}
	for i := range l.B {
		l.B[i] = float32(i)
	}
	_, bias := l.Pack()
	for gate, place := range []int{0, 2, 3, 1} { // in, forget, cell, out among in, out, forget, cell
		assert.InDelta(t, 4*96+2*(place*96+5), bias[gate*96+5], 0)
	}
	l.B = nil
	_, bias = l.Pack()
	assert.Equal(t, make([]float32, 4*96), bias)
}

func BenchmarkPack(b *testing.B) {
	l := randomLayer(256, 1, 1, false, false).LSTM
	b.SetBytes(int64(16 * l.Width * l.Width))
	for b.Loop() {
		l.Pack()
	}
}
