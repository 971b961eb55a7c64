package crf

import "golang.org/x/sys/cpu"

// processor returns what the processor has of what follows. That it converts binary16 (F16C) isn't asked for: all that have FMA
// do.
func processor() instructions {
	x := &cpu.X86
	vectors := x.HasAVX2 && x.HasFMA
	wider := vectors && x.HasAVX512F && x.HasAVX512DQ
	return instructions{
		vectors: vectors, wider: wider,
		widerBeam: wider && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512CD && x.HasAVX512VBMI2 && x.HasBMI1 && x.HasBMI2 && x.HasPOPCNT,
	}
}

// Each of these computes, bit for bit, what the Go code of the same name in
// lattice.go and bytes.go does, four, eight or 16 numbers at a time.

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

// weighAVX512 writes the exponentials of n scores, a multiple of 32, less the highest of them and of the score of staying, and
// returns that and staying's own exponential, if all are finite. It has the scores fetched that are so many bytes behind.
//
//go:noescape
func weighAVX512(dst, x *float32, n int, stay float32, c *expConstants, ahead int) (top, weight float32, finite bool)

// stepBackAVX512 is stepBackAVX2 for q a multiple of 16.
//
//go:noescape
func stepBackAVX512(after, before, moves *float32, q int, stay, scale, tiny float32, order *[5][16]uint32) float32

// stepAVX512 is stepAVX2 for q a multiple of 16. It returns the scalar product with the backward sums, too.
//
//go:noescape
func stepAVX512(before, after, moves, backward *float32, q int, stay, scale, tiny float32, order *[5][16]uint32) (highest, total float32)

// advanceAVX512 extends the beam in lanes by a frame and writes where each entry comes from to row, behind which there is space for 16 in
// all. mask is that of states, and oldest how far their oldest base is from the lowest bit. It reports false, and changes
// nothing, if width entries can't be chosen as some weigh the same.
//
//go:noescape
func advanceAVX512(l *narrow, moves, after *float32, mask, oldest, width int, cut, stay float32, row *origin, c *laneConstants) bool
