package vbz

import (
	"encoding/binary"
	"math/bits"
)

// decodeEightsByWord is [decodeEights] in plain Go.
//
// Signal changes slowly: of the key bytes of real recordings, 95 % (R9.4, 4 kHz) and
// 83 % (R10.4.1, 5 kHz) say that eight samples take a byte each. Those are decoded
// together within a word. For the others four samples are at most eight bytes, so
// that one word holds them, and a table gives all four positions at once; a plain
// loop would branch on data and chain every load to the one before.
func decodeEightsByWord(dst []int16, keys, data []byte) (eights, used int) {
	var prev uint16
	rest := data
	for i, key := range keys {
		if len(rest) < 16 {
			return i, len(data) - len(rest)
		}
		out := (*[8]int16)(dst[8*i:])
		w := binary.LittleEndian.Uint64(rest)
		if key == 0 {
			prev = decodeNarrow(out, w, prev)
			rest = rest[8:]
			continue
		}
		low, high := &fours[key&15], &fours[key>>4]
		prev = low.decode((*[4]int16)(out[:4]), w, prev)
		prev = high.decode((*[4]int16)(out[4:]), binary.LittleEndian.Uint64(rest[low.bytes&15:]), prev)
		rest = rest[8+bits.OnesCount8(key):]
	}
	return len(keys), len(data) - len(rest)
}

// Each byte, or each second byte, of a word.
const (
	eachByte = 0x01_01_01_01_01_01_01_01
	each16   = 0x0001_0001_0001_0001
)

// decodeNarrow decodes eight samples of one byte each, the first of which is in the
// lowest bits of w, and returns the last of them.
func decodeNarrow(out *[8]int16, w uint64, prev uint16) uint16 {
	// The differences plus 128, so that none is negative and no sum of eight
	// carries from one 16-bit lane to the next: a zigzagged byte is its upper
	// seven bits, inverted if the lowest is set.
	d := w>>1&(eachByte*0x7f) ^ w&eachByte*0xff ^ eachByte*0x80
	// The differences of samples 0, 2, 4 and 6, and of samples 1, 3, 5 and 7.
	even, odd := d&(each16*0xff), d>>8&(each16*0xff)
	// Lane k of the product is the sum of the lanes up to k.
	sum := (even + odd) * each16
	even = sum - odd
	out[0] = int16(prev + uint16(even) - 1*128)
	out[1] = int16(prev + uint16(sum) - 2*128)
	out[2] = int16(prev + uint16(even>>16) - 3*128)
	out[3] = int16(prev + uint16(sum>>16) - 4*128)
	out[4] = int16(prev + uint16(even>>32) - 5*128)
	out[5] = int16(prev + uint16(sum>>32) - 6*128)
	out[6] = int16(prev + uint16(even>>48) - 7*128)
	prev += uint16(sum>>48) - 8*128
	out[7] = int16(prev)
	return prev
}

// four holds, for four key bits, where each of four samples lies in a
// little-endian word and how wide it is.
type four struct {
	shift1, shift2, shift3 uint8
	bytes                  uint8 // that the four samples take
	mask                   [4]uint16
}

// fours is indexed by four key bits.
var fours = func() (t [16]four) {
	for k := range t {
		e := &t[k]
		width := func(i int) uint8 { return 8 << (k >> i & 1) }
		e.shift1 = width(0)
		e.shift2 = e.shift1 + width(1)
		e.shift3 = e.shift2 + width(2)
		e.bytes = (e.shift3 + width(3)) / 8
		for i := range e.mask {
			e.mask[i] = 1<<width(i) - 1
		}
	}
	return t
}()

// decode decodes four samples, which w begins with, and returns the last of them.
func (f *four) decode(out *[4]int16, w uint64, prev uint16) uint16 {
	prev += unzigzag(uint16(w) & f.mask[0])
	out[0] = int16(prev)
	prev += unzigzag(uint16(w>>(f.shift1&63)) & f.mask[1])
	out[1] = int16(prev)
	prev += unzigzag(uint16(w>>(f.shift2&63)) & f.mask[2])
	out[2] = int16(prev)
	prev += unzigzag(uint16(w>>(f.shift3&63)) & f.mask[3])
	out[3] = int16(prev)
	return prev
}
