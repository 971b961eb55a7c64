package genome

import "golang.org/x/sys/cpu"

// packs says whether the processor has the instructions of packAVX2.
func packs() bool { return cpu.X86.HasAVX2 }

// packAVX2 does what packWords does, for n words.
//
//go:noescape
func packAVX2(dst *uint64, src *byte, n int) int
