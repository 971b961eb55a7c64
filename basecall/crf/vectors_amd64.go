package crf

import "golang.org/x/sys/cpu"

// vectors reports whether the processor has the instructions of what follows. That it converts
// binary16 (F16C) isn't asked for: all that have FMA do.
func vectors() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// Each of these computes, bit for bit, what the Go code of the same name in
// lattice.go and bytes.go does, four or eight numbers at a time.

// highestAVX2 returns the highest of n numbers, a multiple of 16, if all are finite.
//
//go:noescape
func highestAVX2(x *float32, n int) (top float32, finite bool)

// exponentialsAVX2 is for n numbers, a multiple of 8. It has those fetched that are so many bytes behind them.
//
//go:noescape
func exponentialsAVX2(dst, x *float32, n int, top float32, c *expConstants, ahead int)

// halvesAVX2 writes n numbers of binary16, a multiple of 8, as float32.
//
//go:noescape
func halvesAVX2(dst *float32, x *uint16, n int)

// highestByteAVX2 returns the highest of n numbers, a multiple of 16.
//
//go:noescape
func highestByteAVX2(x *int8, n int) int8

// weighBytesAVX2 is for n numbers, a multiple of 8.
//
//go:noescape
func weighBytesAVX2(dst *float32, x *int8, n int, base int32, low, middle, high *[8]float32)

// stepAVX2 is for 4q states, q a multiple of 4, that share the weight of staying.
//
//go:noescape
func stepAVX2(before, after, moves *float32, q int, stay, scale, tiny float32) float32

// stepBackAVX2 is for 4q states, q a multiple of 4, that share the weight of staying.
//
//go:noescape
func stepBackAVX2(after, before, moves *float32, q int, stay, scale, tiny float32) float32

// dotAVX2 is for vectors of n numbers, a multiple of 64.
//
//go:noescape
func dotAVX2(x, y *float32, n int) float32

// withinAVX2 writes to kept which of n numbers are at least the highest of them divided by cut, or at
// least 0 if cut is 0, and to values these numbers. Behind the n numbers are eight that are negative, and there is
// space for as many more in kept and values.
//
//go:noescape
func withinAVX2(kept *uint32, values, x *float32, n int, cut float32, lanes *[256][8]uint8) (top float32, count int)

// bestAVX2 writes to best those of kept of whose values less than width are greater, in their order, and
// returns how many these are: width, if no two of the values are equal. There is space for eight more behind
// n of kept and best, and eight negative values.
//
//go:noescape
func bestAVX2(best, kept *uint32, values *float32, n, width int, lanes *[256][8]uint8) int
