package annotate

import (
	"math/bits"
	"strconv"
)

// digitPairs are the numbers from 00 to 99.
var digitPairs = func() (pairs [100][2]byte) {
	for i := range pairs {
		pairs[i] = [2]byte{byte('0' + i/10), byte('0' + i%10)}
	}
	return pairs
}()

// powersOfTen are those that have up to ten digits.
var powersOfTen = [10]uint32{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000}

// appendNumber appends what strconv.AppendInt does, in half the time: descriptions are full of numbers of up to nine digits,
// which it writes where they stay.
func appendNumber(b []byte, n int) []byte {
	const most = 1_000_000_000
	if n < 0 && n > -most {
		b, n = append(b, '-'), -n
	}
	if n < 0 || n >= most || cap(b)-len(b) < 9 {
		return strconv.AppendInt(b, int64(n), 10)
	}
	left := uint32(n)
	width := (bits.Len32(left|1)*1233)>>12 + 1 // 1233/4096 is the logarithm of 2: it may be one too many
	if left < powersOfTen[width-1] && width > 1 {
		width--
	}
	at := len(b) + width
	b = b[:at]
	for ; left >= 10; left /= 100 {
		at -= 2
		b[at], b[at+1] = digitPairs[left%100][0], digitPairs[left%100][1]
	}
	if at > len(b)-width {
		b[at-1] = byte('0' + left)
	}
	return b
}
