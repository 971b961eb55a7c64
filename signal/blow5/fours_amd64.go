package blow5

import "golang.org/x/sys/cpu"

// decodeFours decodes samples, four for each key byte, from the beginning of data into
// dst. It stops before the last 15 bytes of data, because it loads more than it needs,
// and says how many fours are done, how many bytes of data they took, and whether the
// samples fit in 16 bits; if not, those in dst mean nothing.
func decodeFours(dst []int16, keys, data []byte) (fours, used int, fits bool) {
	if len(keys) == 0 || len(data) == 0 || !cpu.X86.HasSSSE3 {
		return decodeFoursByWord(dst, keys, data)
	}
	_ = dst[:4*len(keys)]
	return decodeFoursSSSE3(&dst[0], &keys[0], len(keys), &data[0], len(data))
}

// decodeFoursSSSE3 is decodeFours for keys of nk bytes and data of nd bytes; neither is
// empty, and dst has space for 4*nk samples. The processor must have SSSE3.
//
// It has no branch that depends on data: a table of shuffles brings each of four
// values into a lane of its own, and two shifted additions sum the differences.
// Daniel Lemire, Nathan Kurz and Christoph Rupp, Stream VByte: Faster Byte-Oriented
// Integer Compression, 2018.
//
//go:noescape
func decodeFoursSSSE3(dst *int16, keys *byte, nk int, data *byte, nd int) (fours, used int, fits bool)

// spreads holds, for each key byte, the shuffle that spreads four values of one to four
// bytes over four lanes of four: for each byte of a lane the byte to take, or 0x80
// for a zero.
var spreads = func() (t [256][16]byte) { //nolint:unused // assembly uses it
	for key := range t {
		next := byte(0)
		for i := range t[key] {
			if width := key >> (i / 4 * 2) & 3; i%4 > width {
				t[key][i] = 0x80
				continue
			}
			t[key][i] = next
			next++
		}
	}
	return t
}()

// lengths holds, for each key byte, how many bytes its four values take.
var lengths = func() (t [256]byte) { //nolint:unused // assembly uses it
	for key := range t {
		t[key] = byte(4 + key&3 + key>>2&3 + key>>4&3 + key>>6)
	}
	return t
}()
