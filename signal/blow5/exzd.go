package blow5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// exzdHead is the length of what precedes the first sample in ex-zd data: the
// version, the number of samples and the number of dropped low bits.
const exzdHead = 1 + 8 + 1

// exzdCount returns the number of samples that ex-zd data promises.
func exzdCount(src []byte) (int, error) {
	if len(src) < exzdHead+2+4 {
		return 0, fmt.Errorf("ex-zd: %d bytes are too few", len(src))
	}
	if src[0] != 0 {
		return 0, fmt.Errorf("ex-zd: unknown version %d", src[0])
	}
	// Each sample takes at least a byte, the first takes two.
	n := binary.LittleEndian.Uint64(src[1:])
	if n == 0 || n > uint64(len(src)) {
		return 0, fmt.Errorf("ex-zd: %d bytes can't hold %d samples", len(src), n)
	}
	return int(n), nil
}

// appendEXZD appends the samples in ex-zd data, version 0.
//
// Samples are shifted right by the number of low bits that are zero in all of
// them, then differenced and zigzagged, modulo 2^16. The first is stored in two
// bytes. Of the others, those under 256 are stored in a byte each, at the end; the
// rest are exceptions, stored before as two lists, their positions (less the
// position before, less one) and their values less 256. A list of two or more is
// a 32-bit length and Stream VByte, a single exception is two plain 32-bit words.
func appendEXZD(dst []int16, src []byte) ([]int16, error) {
	n, err := exzdCount(src)
	if err != nil {
		return dst, err
	}
	shift := src[exzdHead-1]
	if shift > 15 {
		return dst, fmt.Errorf("ex-zd: %d low bits dropped of 16", shift)
	}
	first := binary.LittleEndian.Uint16(src[exzdHead:])
	at, values, low, err := exceptions(src[exzdHead+2:])
	if err != nil {
		return dst, fmt.Errorf("ex-zd: %w", err)
	}
	if len(low)+len(at) != n-1 {
		return dst, fmt.Errorf("ex-zd: %d samples, but %d promised", 1+len(low)+len(at), n)
	}
	start := len(dst)
	dst = slices.Grow(dst, n)
	out := dst[start : start+n]
	sum := unzigzag16(first)
	out[0] = int16(sum << shift)
	for i := range n - 1 {
		var z uint16
		if len(at) > 0 && at[0] == uint32(i) {
			z = uint16(values[0] + 256)
			at, values = at[1:], values[1:]
		} else if len(low) > 0 {
			z = uint16(low[0])
			low = low[1:]
		} else {
			return dst[:start], fmt.Errorf("ex-zd: exception at %d of %d samples", at[0], n)
		}
		sum += unzigzag16(z)
		out[i+1] = int16(sum << shift)
	}
	return dst[:start+n], nil
}

// exceptions reads the positions and values of the exceptions and returns the low
// bytes that follow.
func exceptions(src []byte) (at, values []uint32, low []byte, err error) {
	n := int(binary.LittleEndian.Uint32(src))
	src = src[4:]
	// A list takes two key bits and at least a byte for each entry.
	if uint64(n)*2 > uint64(len(src)) {
		return nil, nil, nil, fmt.Errorf("%d bytes can't hold %d exceptions", len(src), n)
	}
	switch n {
	case 0:
		return nil, nil, src, nil
	case 1:
		if len(src) < 8 {
			return nil, nil, nil, errors.New("data end inside an exception")
		}
		at = []uint32{binary.LittleEndian.Uint32(src)}
		values = []uint32{binary.LittleEndian.Uint32(src[4:])}
		src = src[8:]
	default:
		at, values = make([]uint32, n), make([]uint32, n)
		for _, list := range [][]uint32{at, values} {
			if src, err = streamVByteList(list, src); err != nil {
				return nil, nil, nil, err
			}
		}
		for i := 1; i < n; i++ {
			if at[i] += at[i-1] + 1; at[i] <= at[i-1] {
				return nil, nil, nil, errors.New("positions of exceptions overflow")
			}
		}
	}
	for _, v := range values {
		if v > 0xffff-256 {
			return nil, nil, nil, fmt.Errorf("exception of %d doesn't fit in 16 bits", v)
		}
	}
	return at, values, src, nil
}

// streamVByteList fills dst from a list with its length in bytes before it, and
// returns what follows.
func streamVByteList(dst []uint32, src []byte) ([]byte, error) {
	if len(src) < 4 {
		return nil, errors.New("data end before a list")
	}
	size := binary.LittleEndian.Uint32(src)
	src = src[4:]
	keys := (len(dst) + 3) / 4
	if uint64(size) > uint64(len(src)) || int(size) < keys {
		return nil, fmt.Errorf("a list of %d bytes doesn't fit", size)
	}
	list, rest := src[:size], src[size:]
	data := list[keys:]
	for i := range dst {
		width := int(list[i>>2]>>(i&3*2)&3) + 1
		if len(data) < width {
			return nil, fmt.Errorf("a list ends at entry %d of %d", i, len(dst))
		}
		for j := range width {
			dst[i] |= uint32(data[j]) << (8 * j)
		}
		data = data[width:]
	}
	if len(data) != 0 {
		return nil, fmt.Errorf("%d bytes left over after a list", len(data))
	}
	return rest, nil
}

func unzigzag16(z uint16) uint16 { return z>>1 ^ -(z & 1) }
