//go:build !amd64

package vbz

// decodeEights decodes samples, eight for each key byte, from the beginning of data
// into dst. It stops before the last 15 bytes of data, because it loads more than it
// needs, and says how many eights are done and how many bytes of data they took.
func decodeEights(dst []int16, keys, data []byte) (eights, used int) {
	return decodeEightsByWord(dst, keys, data)
}
