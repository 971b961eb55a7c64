package scores

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStep: every score within the bound has a byte, and products and differences are exact.
func TestStep(t *testing.T) {
	for _, bound := range []float32{0.1, 1, 2, 3.5, 5, 7.3, 10, 16} {
		step := Step(bound)
		q := float64(bound) / float64(step)
		assert.LessOrEqual(t, q, float64(MaxByte), "bound %v", bound)
		assert.Greater(t, q, MaxByte-0.1, "bound %v: the step is needlessly large", bound)
		for b := -MaxByte; b <= MaxByte; b++ {
			exact := float64(b) * float64(step)
			require.Equal(t, exact, float64(float32(b)*step))
			require.Equal(t, exact-MaxByte*float64(step), float64(float32(b)*step-MaxByte*step))
		}
	}
}

// TestFromHalf: all 65,536, by the definition of IEEE 754.
func TestFromHalf(t *testing.T) {
	for h := range 1 << 16 {
		sign := 1 - 2*float64(h>>15)
		exponent, fraction := h>>10&31, float64(h&0x3ff)
		have := float64(FromHalf(uint16(h)))
		switch {
		case exponent == 31 && fraction > 0:
			require.True(t, math.IsNaN(have), "%#x", h)
		case exponent == 31:
			require.True(t, math.IsInf(have, int(sign)), "%#x", h)
		case exponent == 0:
			require.Equal(t, sign*fraction*0x1p-24, have, "%#x", h)
			require.Equal(t, sign < 0, math.Signbit(have), "%#x", h)
		default:
			require.Equal(t, sign*math.Ldexp(1+fraction/1024, exponent-15), have, "%#x", h)
		}
	}
}

// TestForms reads the same scores of the second of three windows in each form.
func TestForms(t *testing.T) {
	const frames, classes, rows, row = 3, 2, 3, 1
	step := Step(5)
	whole := Window{Frames: frames, Classes: classes, Stride: rows * classes}
	floats, halves, bytes := whole, whole, whole
	floats.Floats, halves.Halves, bytes.Bytes = make([]float32, frames*rows*classes), make([]uint16, frames*rows*classes), make([]int8, frames*rows*classes)
	bytes.Step, bytes.Sums, bytes.SumStride = step, make([]float32, frames*rows), rows
	want := make([]float32, frames*classes)
	for i := range want {
		at := i/classes*rows*classes + row*classes + i%classes
		b := int8(30*i - 90)
		want[i] = float32(b)
		floats.Floats[at], bytes.Bytes[at] = want[i], b
		halves.Halves[at] = half(t, want[i])
	}
	floats.Floats, halves.Halves, bytes.Bytes, bytes.Sums = floats.Floats[row*classes:], halves.Halves[row*classes:], bytes.Bytes[row*classes:], bytes.Sums[row:]
	for name, w := range map[string]Window{"floats": floats, "halves": halves, "bytes": bytes} {
		unit := float32(1)
		if w.Bytes != nil {
			unit = step
		}
		have := make([]float32, len(want))
		w.Copy(have)
		for i := range want {
			assert.Equal(t, want[i]*unit, have[i], name)
		}
		assert.Equal(t, have[:2*classes], w.First(2).Contiguous(nil), name)
	}
	require.NoError(t, bytes.Check(1))
	bytes.Sums[1*rows] = float32(math.NaN())
	require.ErrorContains(t, bytes.Check(1), "a score of frame 1 is not a number")
	assert.True(t, math.IsNaN(float64(bytes.Contiguous(nil)[classes])))

	together := []float32{1, 2, 3, 4}
	assert.Same(t, &together[0], &OfFloats(together, 2).Contiguous(nil)[0], "what lies so is not copied")
}

// half returns a whole number below 2048 as binary16.
func half(t *testing.T, v float32) uint16 {
	t.Helper()
	for h := range 1 << 16 {
		if FromHalf(uint16(h)) == v {
			return uint16(h)
		}
	}
	t.Fatalf("%v is no half", v)
	return 0
}
