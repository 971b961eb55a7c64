// Package half converts between float32 and IEEE 754 binary16, which weights are stored in.
package half

import "math"

// FromFloat converts to binary16, to the nearest and ties to even. What is too large becomes
// the largest finite number: a weight is never infinite.
func FromFloat(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits>>16) & 0x8000
	magnitude := bits &^ (1 << 31)
	switch {
	case magnitude > 0x7f800000: // not a number
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7bff
	case magnitude < 0x38800000: // below 2^-14: a multiple of 2^-24
		scaled := math.RoundToEven(math.Abs(float64(v)) * 0x1p24)
		return sign | uint16(scaled)
	}
	// Rebias the exponent, and round at bit 13.
	magnitude -= 112 << 23
	magnitude += 0xfff + magnitude>>13&1
	return sign | uint16(magnitude>>13)
}

// ToFloat converts from binary16.
func ToFloat(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero, or a multiple of 2^-24
		v := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
