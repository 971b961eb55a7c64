package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// single is what a half-precision number is.
func single(h uint16) float64 {
	fraction, exponent := float64(h&0x3ff), int(h>>10&0x1f)
	v := math.Ldexp(1+fraction/1024, exponent-15)
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 31:
		v = math.Inf(1)
		if fraction != 0 {
			v = math.NaN()
		}
	}
	if h&0x8000 != 0 {
		return -v
	}
	return v
}

func TestHalfIsExactWhereItCan(t *testing.T) {
	for h := range 1 << 16 {
		v := single(uint16(h))
		if math.IsNaN(v) {
			assert.True(t, math.IsNaN(single(half(float32(v)))))
			continue
		}
		require.Equal(t, uint16(h), half(float32(v)), "%v", v)
	}
}

func TestHalfRoundsToTheNearestEven(t *testing.T) {
	for h := range uint16(0x7bff) {
		low, high := single(h), single(h+1)
		middle := float32((low + high) / 2)
		require.Equal(t, (h+1)&^1, half(middle), "between %v and %v", low, high)
		require.Equal(t, h, half(math.Nextafter32(middle, 0)))
		require.Equal(t, h+1, half(math.Nextafter32(middle, 1e9)))
		require.Equal(t, 0x8000|(h+1)&^1, half(-middle))
	}
	assert.Equal(t, uint16(0x7c00), half(65520))
	assert.Equal(t, uint16(0x7bff), half(65519))
	assert.Equal(t, uint16(0x7c00), half(1e30))
	assert.Equal(t, uint16(0), half(1e-30))
}

func TestArrays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	a, err := createArray(path, labelDescr, "")
	require.NoError(t, err)
	rows := []label{{pos: 7, copies: 2, length: -3, depth: 300}, {pos: 1 << 20, zygosity: 1, run: 9}}
	for _, r := range rows {
		require.NoError(t, a.append(r.appendTo))
	}
	require.NoError(t, a.close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "\x93NUMPY\x01\x00", string(text[:8]))
	size := int(binary.LittleEndian.Uint16(text[8:]))
	head, body := string(text[10:10+size]), text[10+size:]
	assert.Zero(t, (10+size)%64)
	assert.True(t, strings.HasPrefix(head, "{'descr': [('position', '<i4'),"))
	assert.Contains(t, head, "'shape': (2,), }")
	assert.True(t, strings.HasSuffix(head, " \n"))
	require.Len(t, body, 2*12)
	assert.Equal(t, []byte{7, 0, 0, 0, 2, 0, 0xfd, 0, 0, 0, 300 & 0xff, 300 >> 8}, body[:12])
}
