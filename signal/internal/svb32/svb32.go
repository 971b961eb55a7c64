// Package svb32 decodes Stream VByte, a byte-oriented packing of 32-bit integers.
//
// n values are ceil(n/4) key bytes and then their bytes: each key holds four codes of
// two bits, the first value's lowest, and a value takes its code plus one bytes,
// little-endian. (D. Lemire, N. Kurz, C. Rupp: Stream VByte, 2018,
// https://arxiv.org/abs/1709.08990.) ONT's VBZ filter packs signal so: the
// differences of neighbouring samples, zigzagged (0, -1, 1, -2, ... become 0, 1, 2,
// 3, ...) and taken as 32 bits.
package svb32

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// KeyBytes is the number of key bytes before the data of n values.
func KeyBytes(n int) int { return (n + 3) / 4 }

// Bound is the most bytes that n values can take.
func Bound(n int) int { return KeyBytes(n) + 4*n }

// four holds, for a key, where each of four values lies in their bytes and how wide
// it is.
type four struct {
	at1, at2, at3 uint8 // bits
	bytes         uint8 // that the four values take
	mask          [4]uint32
}

// fours is indexed by key.
var fours = func() (t [256]four) {
	for k := range t {
		e := &t[k]
		width := func(i int) uint8 { return uint8(8 * (k>>(2*i)&3 + 1)) }
		e.at1 = width(0)
		e.at2 = e.at1 + width(1)
		e.at3 = e.at2 + width(2)
		e.bytes = (e.at3 + width(3)) / 8
		for i := range e.mask {
			e.mask[i] = uint32(1<<width(i) - 1)
		}
	}
	return t
}()

var errTrailing = errors.New("svb32: bytes left over after the last value")

// split checks the least length of n values and divides keys from data.
func split(src []byte, n int) (keys, data []byte, err error) {
	nk := KeyBytes(n)
	if len(src) < nk+n {
		return nil, nil, fmt.Errorf("svb32: %d bytes are too few for %d values", len(src), n)
	}
	return src[:nk], src[nk:], nil
}

// finish checks that nothing is left: neither data, nor keys past the n-th value.
func finish(keys, data []byte, n int) error {
	if len(data) != 0 {
		return errTrailing
	}
	if spare := n & 3; spare != 0 && keys[len(keys)-1]>>(2*spare) != 0 {
		return errors.New("svb32: key bits set past the last value")
	}
	return nil
}

// next takes one value off data.
func next(data []byte, code byte) (value uint32, rest []byte, ok bool) {
	width := int(code&3) + 1
	if len(data) < width {
		return 0, nil, false
	}
	for i := width - 1; i >= 0; i-- {
		value = value<<8 | uint32(data[i])
	}
	return value, data[width:], true
}

func ended(i, n int) error { return fmt.Errorf("svb32: data end at value %d of %d", i, n) }

// Decode fills dst from src and insists that src holds exactly len(dst) values.
func Decode(dst []uint32, src []byte) error {
	keys, data, err := split(src, len(dst))
	if err != nil {
		return err
	}
	for i := range dst {
		v, rest, ok := next(data, keys[i>>2]>>(2*(i&3)))
		if !ok {
			return ended(i, len(dst))
		}
		dst[i], data = v, rest
	}
	return finish(keys, data, len(dst))
}

// DecodeDelta16 fills dst with the running sums of the zigzagged differences in src,
// modulo 2^16, and insists that src holds exactly len(dst) of them.
func DecodeDelta16(dst []int16, src []byte) error {
	n := len(dst)
	keys, data, err := split(src, n)
	if err != nil {
		return err
	}
	// Problem: the width of a value depends on its code, so a plain loop branches on
	// data and chains every load to the one before. Strategy: differences of signal
	// seldom take more than two bytes, so four of them are in one word, and a table by
	// key gives all four places. The branch for wider ones is hardly ever taken. Only
	// the word's address and the running sum form chains. Consequence: a word is
	// read whole, so the last values go through the plain loop.
	var prev uint32
	i := 0
	for ; i+4 <= n && len(data) >= 16; i += 4 {
		e := &fours[keys[i>>2]]
		out := dst[i : i+4 : i+4]
		w := binary.LittleEndian.Uint64(data)
		if e.bytes > 8 {
			prev += unzigzag(uint32(w) & e.mask[0])
			out[0] = int16(prev)
			prev += unzigzag(binary.LittleEndian.Uint32(data[e.at1/8:]) & e.mask[1])
			out[1] = int16(prev)
			prev += unzigzag(binary.LittleEndian.Uint32(data[e.at2/8:]) & e.mask[2])
			out[2] = int16(prev)
			prev += unzigzag(binary.LittleEndian.Uint32(data[e.at3/8:]) & e.mask[3])
			out[3] = int16(prev)
			data = data[e.bytes:]
			continue
		}
		prev += unzigzag(uint32(w) & e.mask[0])
		out[0] = int16(prev)
		prev += unzigzag(uint32(w>>(e.at1&63)) & e.mask[1])
		out[1] = int16(prev)
		prev += unzigzag(uint32(w>>(e.at2&63)) & e.mask[2])
		out[2] = int16(prev)
		prev += unzigzag(uint32(w>>(e.at3&63)) & e.mask[3])
		out[3] = int16(prev)
		data = data[e.bytes:]
	}
	for ; i < n; i++ {
		v, rest, ok := next(data, keys[i>>2]>>(2*(i&3)))
		if !ok {
			return ended(i, n)
		}
		prev += unzigzag(v)
		dst[i], data = int16(prev), rest
	}
	return finish(keys, data, n)
}

func unzigzag(z uint32) uint32 { return z>>1 ^ -(z & 1) }
