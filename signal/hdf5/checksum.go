package hdf5

import (
	"encoding/binary"
	"math/bits"
)

// lookup3 is the checksum of metadata: Bob Jenkins' lookup3 hash, little-endian,
// begun with zero (https://burtleburtle.net/bob/c/lookup3.c, hashlittle).
func lookup3(b []byte) uint32 {
	x := uint32(0xdeadbeef) + uint32(len(b))
	y, z := x, x
	for len(b) > 12 {
		x += binary.LittleEndian.Uint32(b)
		y += binary.LittleEndian.Uint32(b[4:])
		z += binary.LittleEndian.Uint32(b[8:])
		x = (x - z) ^ bits.RotateLeft32(z, 4)
		z += y
		y = (y - x) ^ bits.RotateLeft32(x, 6)
		x += z
		z = (z - y) ^ bits.RotateLeft32(y, 8)
		y += x
		x = (x - z) ^ bits.RotateLeft32(z, 16)
		z += y
		y = (y - x) ^ bits.RotateLeft32(x, 19)
		x += z
		z = (z - y) ^ bits.RotateLeft32(y, 4)
		y += x
		b = b[12:]
	}
	if len(b) == 0 {
		return z
	}
	var last [12]byte
	copy(last[:], b)
	x += binary.LittleEndian.Uint32(last[:])
	y += binary.LittleEndian.Uint32(last[4:])
	z += binary.LittleEndian.Uint32(last[8:])
	z = (z ^ y) - bits.RotateLeft32(y, 14)
	x = (x ^ z) - bits.RotateLeft32(z, 11)
	y = (y ^ x) - bits.RotateLeft32(x, 25)
	z = (z ^ y) - bits.RotateLeft32(y, 16)
	x = (x ^ z) - bits.RotateLeft32(z, 4)
	y = (y ^ x) - bits.RotateLeft32(x, 14)
	z = (z ^ y) - bits.RotateLeft32(y, 24)
	return z
}

// fletcher32 is the checksum of the filter of that name, over big-endian words of
// 16 bits; an odd last byte is the upper half of a word.
func fletcher32(b []byte) uint32 {
	var sum1, sum2 uint32
	for len(b) >= 2 {
		// 360 words are the most whose sums can't overflow.
		n := min(len(b)/2, 360)
		for range n {
			sum1 += uint32(b[0])<<8 | uint32(b[1])
			sum2 += sum1
			b = b[2:]
		}
		sum1 = sum1&0xffff + sum1>>16
		sum2 = sum2&0xffff + sum2>>16
	}
	if len(b) == 1 {
		sum1 += uint32(b[0]) << 8
		sum2 += sum1
		sum1 = sum1&0xffff + sum1>>16
		sum2 = sum2&0xffff + sum2>>16
	}
	sum1 = sum1&0xffff + sum1>>16
	sum2 = sum2&0xffff + sum2>>16
	return sum2<<16 | sum1
}
