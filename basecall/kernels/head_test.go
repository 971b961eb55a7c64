package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
)

// head is the layer before a decoder with what it is given.
type head struct {
	kernels.Linear
	activation       kernels.Activation
	scale, low, high float64
	bias             []float32
	x                []uint16 // [rows][Factors]
}

func randomHead(width, scores, rows int, activation kernels.Activation) head {
	rng := rand.New(rand.NewPCG(uint64(width), uint64(scores*1000+rows)))
	h := head{Linear: kernels.Linear{Factors: width, Columns: scores}, activation: activation, scale: 5, low: -1, high: 0.75}
	for range width * scores {
		h.W = append(h.W, float32(rng.NormFloat64()/math.Sqrt(float64(width))))
	}
	for range scores {
		h.bias = append(h.bias, float32(rng.NormFloat64()))
	}
	for range rows * width {
		h.x = append(h.x, half.FromFloat(float32(rng.NormFloat64())))
	}
	return h
}

func (h head) run(t *testing.T, what string, rest ...string) (y []uint16, says string) {
	t.Helper()
	rows := len(h.x) / h.Factors
	args := []string{what, strconv.Itoa(h.Factors), strconv.Itoa(rows), strconv.Itoa(h.Columns), strconv.Itoa(int(h.activation)), fmt.Sprint(h.scale), fmt.Sprint(h.low), fmt.Sprint(h.high)}
	return emulated(t, kernelstest.Emulator(t), rows*h.Columns, []any{h.x, h.Pack(), h.bias}, append(args, rest...)...)
}

func (h head) emulate(t *testing.T, on card, backwards bool) (y []uint16, says string) {
	t.Helper()
	return h.run(t, "head", strconv.Itoa(on.processors), strconv.Itoa(on.shared), kernelstest.Bool(backwards))
}

// activated is what the layer makes of a sum, in float64.
func (h head) activated(v float64) float64 {
	switch h.activation {
	case kernels.Tanh:
		return h.scale * math.Tanh(v)
	case kernels.Clamp:
		return min(max(v, h.low), h.high) // of NaN it is NaN
	}
	return v
}

// reference computes the layer in float64, of the half floats that kernels multiply.
func (h head) reference() []float64 {
	w := make([]float64, len(h.W))
	for i, v := range h.W {
		w[i] = float64(half.ToFloat(half.FromFloat(v)))
	}
	var y []float64
	for x := range slices.Chunk(h.x, h.Factors) {
		sums := make([]float64, h.Columns)
		for c, b := range h.bias {
			sums[c] = float64(b)
		}
		for k, v := range x {
			for c, weight := range w[k*h.Columns:][:h.Columns] {
				sums[c] += float64(half.ToFloat(v)) * weight
			}
		}
		for _, v := range sums {
			y = append(y, h.activated(v))
		}
	}
	return y
}

// mostHeadError is twice what rounding scores to half floats makes.
const mostHeadError = 4e-4

// TestHeadOfEveryWidth runs the GPU's kernel, on a CPU, for each width with each activation, and that for CPUs, and compares them with
// float64.
func TestHeadOfEveryWidth(t *testing.T) {
	t.Parallel()
	for _, width := range widths() {
		scores := 32 * (1 + width/16%10)
		require.True(t, kernels.HasHead(width, scores))
		h := randomHead(width, scores, 37, kernels.Activation(width/16%3))
		want := h.reference()
		for name, y := range map[string][]uint16{
			"a GPU": first(h.emulate(t, h100, width/32%2 == 0)),
			"a CPU": first(h.run(t, "head-cpu")),
		} {
			assert.LessOrEqual(t, relativeError(y, want), mostHeadError, "width %d, on %s", width, name)
		}
	}
	for _, size := range [][2]int{{80, 256}, {100, 256}, {1040, 256}, {256, 0}, {256, 5}, {256, 260}, {256, 8224}} {
		assert.False(t, kernels.HasHead(size[0], size[1]), size)
	}
}

func first(y []uint16, _ string) []uint16 { return y }

// TestHeadOfClassesAndCards has the scores of states of three to five bases, with one score of staying or one for each state, and
// numbers of rows that leave tiles part empty: the bytes depend neither on the card nor on the order of threads.
func TestHeadOfClassesAndCards(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		width, scores, rows int
		activation          kernels.Activation
		plans               map[card]string
	}{
		{112, 256, 131, kernels.Tanh, map[card]string{h100: "2 tiles 7680 shared", full: "4 tiles 15360 shared"}},
		{96, 320, 1, kernels.Clamp, map[card]string{h100: "2 tiles", full: "2 tiles"}},
		{256, 1024, 65, kernels.Tanh, map[card]string{h100: "2 tiles", full: "4 tiles 33792 shared", small: "4 tiles"}},
		{384, 1280, 33, kernels.Clamp, map[card]string{a100: "2 tiles", small: "4 tiles"}},
		{512, 4096, 40, kernels.NoActivation, map[card]string{full: "4 tiles", a100: "2 tiles"}},
		{1024, 5120, 34, kernels.Tanh, map[card]string{full: "4 tiles 132096 shared", small: "2 tiles 66048 shared"}},
	} {
		t.Run(fmt.Sprintf("%d wide, %d scores", tt.width, tt.scores), func(t *testing.T) {
			t.Parallel()
			h := randomHead(tt.width, tt.scores, tt.rows, tt.activation)
			want := h.reference()
			cpu, _ := h.run(t, "head-cpu")
			assert.LessOrEqual(t, relativeError(cpu, want), mostHeadError)
			var before []uint16
			for on, plan := range tt.plans {
				for _, backwards := range []bool{false, true} {
					y, says := h.emulate(t, on, backwards)
					assert.Contains(t, says, plan, "%+v", on)
					if before == nil {
						before = y
						assert.LessOrEqual(t, relativeError(y, want), mostHeadError)
					}
					assert.Equal(t, before, y, "%+v, backwards %v", on, backwards)
				}
			}
		})
	}
}

// TestHeadRowsAreIndependent takes rows out of a batch: what they get is the same.
func TestHeadRowsAreIndependent(t *testing.T) {
	t.Parallel()
	all := randomHead(112, 256, 150, kernels.Tanh)
	y, _ := all.emulate(t, full, false)
	for _, from := range []int{0, 15, 63, 149} {
		some := all
		rows := min(20, 150-from)
		some.x = all.x[from*112:][:rows*112]
		have, _ := some.emulate(t, full, false)
		assert.Equal(t, y[from*256:][:rows*256], have, "from row %d", from)
	}
}

// TestHeadKeepsWhatIsNoNumber: a score that isn't a number must not become one by a tanh or a clamp.
func TestHeadKeepsWhatIsNoNumber(t *testing.T) {
	t.Parallel()
	for _, activation := range []kernels.Activation{kernels.NoActivation, kernels.Tanh, kernels.Clamp} {
		h := randomHead(96, 32, 3, activation)
		h.x[96+7] = 0x7E00 // NaN
		for _, y := range [][]uint16{first(h.emulate(t, full, false)), first(h.run(t, "head-cpu"))} {
			for i, v := range y {
				assert.Equal(t, i/32 == 1, math.IsNaN(float64(half.ToFloat(v))), "activation %d, score %d", activation, i)
			}
		}
	}
}

// TestHeadBounds: sums far beyond what a tanh distinguishes are its bounds.
func TestHeadBounds(t *testing.T) {
	t.Parallel()
	h := randomHead(96, 32, 2, kernels.Tanh)
	for i := range h.bias {
		h.bias[i] = float32(1e5 * math.Pow(-1, float64(i)))
	}
	for _, y := range [][]uint16{first(h.emulate(t, full, false)), first(h.run(t, "head-cpu"))} {
		for i, v := range y {
			assert.InDelta(t, 5*math.Pow(-1, float64(i)), half.ToFloat(v), 0)
		}
	}
}
