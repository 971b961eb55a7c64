//go:build !unix

package genome

import "os"

// reserve returns an empty slice with capacity for n bytes.
func reserve(n int) []byte { return make([]byte, 0, n) }

// systemWords is memory for n words.
func systemWords(n int) []uint64 { return make([]uint64, n) }

// mapFile is false: files are not mapped into memory here.
func mapFile(*os.File, int64) ([]byte, bool, error) { return nil, false, nil }
