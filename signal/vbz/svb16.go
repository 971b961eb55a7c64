package vbz

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// keyBytes is the number of key bytes before the data of n samples.
func keyBytes(n int) int { return (n + 7) / 8 }

// svb16Bound is the most bytes that n samples can take.
func svb16Bound(n int) int { return keyBytes(n) + 2*n }

// appendSVB16 appends the svb16 form of the zigzagged differences of samples.
func appendSVB16(dst []byte, samples []int16) []byte {
	n := len(samples)
	start := len(dst)
	need := start + svb16Bound(n)
	if cap(dst) < need {
		grown := make([]byte, start, need)
		copy(grown, dst)
		dst = grown
	}
	out := dst[start:need]
	p := keyBytes(n)
	var prev uint16
	i := 0
	// Widths are nearly random, so the processor mispredicts a branch on them. Four
	// samples are at most eight bytes, so they are put together in a word, a narrow one
	// taking one byte because its upper one is zero. The whole word is stored: the next
	// four samples overwrite the unused bytes at its end, and out has space for those
	// bytes while eight samples are left.
	for ; i+8 <= n; i += 8 {
		s := samples[i : i+8 : i+8]
		z0, z1, z2, z3 := zigzag(s[0], prev), zigzag(s[1], uint16(s[0])), zigzag(s[2], uint16(s[1])), zigzag(s[3], uint16(s[2]))
		w0, w1, w2, w3 := wide(z0), wide(z1), wide(z2), wide(z3)
		at1 := 8 + 8*w0
		at2 := at1 + 8 + 8*w1
		at3 := at2 + 8 + 8*w2
		binary.LittleEndian.PutUint64(out[p:], uint64(z0)|uint64(z1)<<(at1&63)|uint64(z2)<<(at2&63)|uint64(z3)<<(at3&63))
		p += int(4 + w0 + w1 + w2 + w3)
		key := w0 | w1<<1 | w2<<2 | w3<<3

		z0, z1, z2, z3 = zigzag(s[4], uint16(s[3])), zigzag(s[5], uint16(s[4])), zigzag(s[6], uint16(s[5])), zigzag(s[7], uint16(s[6]))
		w0, w1, w2, w3 = wide(z0), wide(z1), wide(z2), wide(z3)
		at1 = 8 + 8*w0
		at2 = at1 + 8 + 8*w1
		at3 = at2 + 8 + 8*w2
		binary.LittleEndian.PutUint64(out[p:], uint64(z0)|uint64(z1)<<(at1&63)|uint64(z2)<<(at2&63)|uint64(z3)<<(at3&63))
		p += int(4 + w0 + w1 + w2 + w3)
		out[i/8] = byte(key | w0<<4 | w1<<5 | w2<<6 | w3<<7)
		prev = uint16(s[7])
	}
	if i < n {
		var key byte
		for j, s := range samples[i:] {
			z := zigzag(s, prev)
			prev = uint16(s)
			out[p] = byte(z)
			if p++; wide(z) > 0 {
				out[p] = byte(z >> 8)
				p++
				key |= 1 << j
			}
		}
		out[i/8] = key
	}
	return dst[:start+p]
}

// zigzag maps the difference of a sample to the one before it.
func zigzag(s int16, prev uint16) uint16 {
	d := uint16(s) - prev
	return d<<1 ^ uint16(int16(d)>>15)
}

// wide is 1 for what takes two bytes and 0 for what takes one.
func wide(z uint16) uint32 { return (0xff - uint32(z)) >> 31 }

var errTrailing = errors.New("svb16: bytes left over after the last sample")

// decodeSVB16 fills dst from src and insists that src holds exactly len(dst)
// samples.
func decodeSVB16(dst []int16, src []byte) error {
	n := len(dst)
	nk := keyBytes(n)
	if len(src) < nk+n {
		return fmt.Errorf("svb16: %d bytes are too few for %d samples", len(src), n)
	}
	keys, data := src[:nk], src[nk:]
	eights, used := decodeEights(dst, keys[:n/8], data)
	data = data[used:]
	i := 8 * eights
	var prev uint16
	if i > 0 {
		prev = uint16(dst[i-1])
	}
	for ; i < n; i++ {
		width := 1 + int(keys[i>>3]>>(i&7)&1)
		if len(data) < width {
			return fmt.Errorf("svb16: data end at sample %d of %d", i, n)
		}
		z := uint16(data[0])
		if width == 2 {
			z |= uint16(data[1]) << 8
		}
		prev += unzigzag(z)
		dst[i] = int16(prev)
		data = data[width:]
	}
	if len(data) != 0 {
		return errTrailing
	}
	if spare := n & 7; spare != 0 && keys[nk-1]>>spare != 0 {
		return errors.New("svb16: key bits set past the last sample")
	}
	return nil
}

func unzigzag(z uint16) uint16 { return z>>1 ^ -(z & 1) }
