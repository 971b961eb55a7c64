//go:build !amd64

package blow5

// decodeFours decodes samples, four for each key byte, from the beginning of data into
// dst. It stops before the last 15 bytes of data, because it loads more than it needs,
// and says how many fours are done, how many bytes of data they took, and whether the
// samples fit in 16 bits; if not, those in dst mean nothing.
func decodeFours(dst []int16, keys, data []byte) (fours, used int, fits bool) {
	return decodeFoursByWord(dst, keys, data)
}
