//go:build !amd64

package genome

// packs is false: words are packed by Go.
func packs() bool { return false }

func packAVX2(*uint64, *byte, int) int { panic("no AVX2") }
