package blow5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// svbzdCount returns the number of samples that svb-zd data promises.
func svbzdCount(src []byte) (int, error) {
	if len(src) < 4 {
		return 0, errors.New("svb-zd: no sample count")
	}
	n := binary.LittleEndian.Uint32(src)
	// A sample takes two key bits and at least one byte.
	if need := 4 + (uint64(n)+3)/4 + uint64(n); need > uint64(len(src)) {
		return 0, fmt.Errorf("svb-zd: %d bytes are too few for %d samples", len(src), n)
	}
	return int(n), nil
}

// appendSVBZD appends the samples in svb-zd data: a 32-bit count, then zigzag
// differences as Stream VByte (two key bits per value, low bits first, for one to
// four little-endian bytes). Differences of 16-bit samples never need more than
// three bytes; longer ones and sums outside 16 bits are refused.
func appendSVBZD(dst []int16, src []byte) ([]int16, error) {
	n, err := svbzdCount(src)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = slices.Grow(dst, n)
	out := dst[start : start+n]
	keys, data := src[4:4+(n+3)/4], src[4+(n+3)/4:]
	fours, used, fits := decodeFours(out, keys[:n/4], data)
	data = data[used:]
	i := 4 * fours
	var sum int32
	if i > 0 {
		sum = int32(out[i-1])
	}
	for ; i < n; i++ {
		width := int(keys[i>>2]>>(i&3*2)&3) + 1
		if len(data) < width {
			return dst[:start], fmt.Errorf("svb-zd: data end at sample %d of %d", i, n)
		}
		var z uint32
		for j := range width {
			z |= uint32(data[j]) << (8 * j)
		}
		sum += unzigzag(z)
		fits = fits && sum == int32(int16(sum))
		out[i] = int16(sum)
		data = data[width:]
	}
	switch {
	case len(data) != 0:
		return dst[:start], fmt.Errorf("svb-zd: %d bytes left over after the last sample", len(data))
	case !fits:
		return dst[:start], errors.New("svb-zd: a sample doesn't fit in 16 bits")
	}
	return dst[:start+n], nil
}

func unzigzag(z uint32) int32 { return int32(z>>1) ^ -int32(z&1) }
