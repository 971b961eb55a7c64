package vbz

import "golang.org/x/sys/cpu"

// decodeEights decodes samples, eight for each key byte, from the beginning of data
// into dst. It stops before the last 15 bytes of data, because it loads more than it
// needs, and says how many eights are done and how many bytes of data they took.
func decodeEights(dst []int16, keys, data []byte) (eights, used int) {
	if len(keys) == 0 || len(data) == 0 || !cpu.X86.HasSSSE3 || !cpu.X86.HasPOPCNT {
		return decodeEightsByWord(dst, keys, data)
	}
	_ = dst[:8*len(keys)]
	return decodeEightsSSSE3(&dst[0], &keys[0], len(keys), &data[0], len(data))
}

// decodeEightsSSSE3 is decodeEights for keys of nk bytes and data of nd bytes; neither
// is empty, and dst has space for 8*nk samples. The processor must have SSSE3 and
// POPCNT.
//
// It has no branch that depends on data: a table of shuffles brings each of eight
// samples into a lane of its own, and three shifted additions sum the differences.
// Daniel Lemire, Nathan Kurz and Christoph Rupp, Stream VByte: Faster Byte-Oriented
// Integer Compression, 2018.
//
//go:noescape
func decodeEightsSSSE3(dst *int16, keys *byte, nk int, data *byte, nd int) (eights, used int)

// spreads holds, for each key byte, the shuffle that spreads eight samples of one
// or two bytes over eight lanes of two: for each byte of a lane the byte to take, or
// 0x80 for a zero.
var spreads = func() (t [256][16]byte) { //nolint:unused // assembly uses it
	for key := range t {
		next := byte(0)
		for i := range 8 {
			t[key][2*i], t[key][2*i+1] = next, 0x80
			next++
			if key>>i&1 == 1 {
				t[key][2*i+1] = next
				next++
			}
		}
	}
	return t
}()
