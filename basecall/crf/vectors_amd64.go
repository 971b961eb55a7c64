package crf

import "golang.org/x/sys/cpu"

// vectors says whether the processor has the instructions of what follows.
func vectors() bool { return cpu.X86.HasAVX2 }

// Each of these computes, bit for bit, what the Go code of the same name in
// lattice.go does, four or eight numbers at a time.

// highestAVX2 returns the highest of n numbers, a multiple of 16, if all are finite.
//
//go:noescape
func highestAVX2(x *float32, n int) (top float32, finite bool)

// exponentialsAVX2 is for n numbers, a multiple of 8.
//
//go:noescape
func exponentialsAVX2(x *float32, n int, top float32, c *expConstants)

// stepAVX2 is for 4q states, q a multiple of 4, that share the weight of staying.
//
//go:noescape
func stepAVX2(before, after, moves *float32, q int, stay, scale, tiny float32) float32

// stepBackAVX2 is for 4q states, q a multiple of 4, that share the weight of staying.
//
//go:noescape
func stepBackAVX2(after, before, moves *float32, q int, stay, scale, tiny float32) float32
