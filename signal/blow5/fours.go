package blow5

import "encoding/binary"

// decodeFoursByWord is [decodeFours] in plain Go.
func decodeFoursByWord(dst []int16, keys, data []byte) (fours, used int, fits bool) {
	var sum, wide int32
	rest := data
	for i, key := range keys {
		if len(rest) < 16 {
			return i, len(data) - len(rest), wide == 0
		}
		p := 0
		for j := range (*[4]int16)(dst[4*i:]) {
			width := key & 3
			key >>= 2
			z := binary.LittleEndian.Uint32(rest[p:]) & (1<<(8*width+8) - 1)
			p += int(width) + 1
			sum += unzigzag(z)
			wide |= sum ^ int32(int16(sum))
			dst[4*i+j] = int16(sum)
		}
		rest = rest[p:]
	}
	return len(keys), len(data) - len(rest), wide == 0
}
