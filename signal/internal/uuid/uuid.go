// Package uuid writes and reads the usual text form of UUIDs, in which POD5 names
// reads and files.
package uuid

import "encoding/hex"

// Format returns the text form: 36 characters, lower case.
func Format(id [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	b[8] = '-'
	hex.Encode(b[9:13], id[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], id[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], id[8:10])
	b[23] = '-'
	hex.Encode(b[24:], id[10:])
	return string(b[:])
}

// Parse is the inverse of Format; ok is false for any other text.
func Parse(s string) (id [16]byte, ok bool) {
	if len(s) != 36 {
		return id, false
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil || Format(id) != s {
		return [16]byte{}, false
	}
	return id, true
}
