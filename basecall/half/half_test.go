package half

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFromFloat(t *testing.T) {
	for v, want := range map[float32]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 1e9: 0x7bff, -1e9: 0xfbff, 0x1p-24: 1, 0x1p-26: 0, 0x1p-14: 0x0400,
		1.5 * 0x1p-24: 2, 1 + 0x1p-11: 0x3c00, 1 + 3*0x1p-11: 0x3c02, 2047.9999: 0x6800, 65519.9: 0x7bff, 6.0975550e-05: 0x3ff,
	} {
		assert.Equal(t, want, FromFloat(v), "%v", v)
	}
}

func TestToFloat(t *testing.T) {
	for h, want := range map[uint16]float64{
		0x0000: 0, 0x0001: 0x1p-24, 0x03ff: 0x3ffp-24, 0x0400: 0x1p-14, 0x3555: 0.333251953125, 0x7bff: 65504, 0xfc00: math.Inf(-1),
	} {
		assert.InDelta(t, want, float64(ToFloat(h)), 0, "%#x", h)
	}
	assert.True(t, math.IsNaN(float64(ToFloat(0x7e00))))
	assert.True(t, math.Signbit(float64(ToFloat(0x8000))))
}

func TestEveryFiniteNumberComesBack(t *testing.T) {
	for h := range uint32(1 << 16) {
		if h>>10&0x1f != 0x1f {
			assert.Equal(t, uint16(h), FromFloat(ToFloat(uint16(h))))
		}
	}
}
