// Package scores is how the scores of a window pass from a network to a decoder: as they lie
// in a batch's buffer, in the numbers that they were given in, or what a device that decodes them by itself gives instead.
package scores

import (
	"fmt"
	"math"
)

// Window holds the scores of one window, frames by classes. They belong to a batch, whose
// windows may lie side by side in each frame, and are not to be changed unless they are Spent. Exactly one of
// Floats, Halves, Bytes and Path is set, and begins with the scores of the first frame.
type Window struct {
	Frames, Classes int
	// Stride is the number of scores from the beginning of a frame to that of the next.
	Stride int

	Floats []float32
	// Spent says that nobody reads Floats any more: a decoder may write over those of the window.
	Spent  bool
	Halves []uint16 // IEEE 754 binary16
	// Bytes are scores in units of Step, within ±[MaxByte].
	Bytes []int8
	Step  float32
	// Sums show what Bytes can't: the sum of each frame's scores, SumStride apart, is not a
	// number if one of the scores wasn't. Its unit is of no account.
	Sums      []float32
	SumStride int

	// Path is what was decoded already, a number for each frame: [Begins] if a base begins there, plus the
	// code of the newest base, 0 to 3; or [NoNumber]. Probabilities are of the bases that begin in a frame.
	Path          []uint8
	Probabilities []float32
}

// What a path says of a frame.
const (
	Begins   = 4
	NoNumber = 0xFF // one of its scores isn't a finite number; nothing was decoded
)

// Base is one base of a decoded sequence.
type Base struct {
	// Frame is where the base starts, counted from the first that was decoded.
	Frame int32
	// Code says which it is: 0, 1, 2 or 3, in the order of the network's classes.
	Code uint8
	// Probability says how sure the base is, from 0 to 1, as the decoder defines it.
	Probability float32
}

// NoNumberError says that a frame of a path has a score from which nothing could be decoded.
type NoNumberError struct{ Frame int }

func (e *NoNumberError) Error() string {
	return fmt.Sprintf("a score of frame %d is not a finite number", e.Frame)
}

// AppendBases appends the bases of a Path.
func (w Window) AppendBases(bases []Base) ([]Base, error) {
	for t, v := range w.Path[:w.Frames] {
		switch {
		case v == NoNumber:
			return bases, &NoNumberError{Frame: t}
		case v&Begins != 0:
			bases = append(bases, Base{Frame: int32(t), Code: v & 3, Probability: w.Probabilities[t]})
		}
	}
	return bases, nil
}

// MaxByte is the highest score in Bytes, and -MaxByte the lowest.
const MaxByte = 127

// StepBits is the number of binary digits that a Step has at most, so that
// scores, and differences of scores, are exact as float32.
const StepBits = 12

// OfFloats returns scores that lie frame behind frame.
func OfFloats(x []float32, classes int) Window {
	return Window{Frames: len(x) / classes, Classes: classes, Stride: classes, Floats: x}
}

// Step returns the unit of scores within ±bound, which is exact in StepBits.
func Step(bound float32) float32 {
	fraction, exponent := math.Frexp(float64(bound) / MaxByte)
	return float32(math.Ldexp(math.Ceil(math.Ldexp(fraction, StepBits)), exponent-StepBits))
}

// First returns the scores of the first frames.
func (w Window) First(frames int) Window {
	w.Frames = min(frames, w.Frames)
	return w
}

// ByteRow returns the scores of a frame, in units of Step.
func (w *Window) ByteRow(frame int) []int8 { return w.Bytes[frame*w.Stride:][:w.Classes] }

// Row returns the scores of a frame, in dst if they lie otherwise.
func (w *Window) Row(frame int, dst []float32) []float32 {
	at := frame * w.Stride
	switch {
	case w.Floats != nil:
		return w.Floats[at:][:w.Classes]
	case w.Path != nil: // to distinguish windows
		for i, b := range w.Path[at:][:w.Classes] {
			dst[i] = float32(b)
		}
	case w.Halves != nil:
		for i, h := range w.Halves[at:][:w.Classes] {
			dst[i] = FromHalf(h)
		}
	default:
		for i, b := range w.Bytes[at:][:w.Classes] {
			dst[i] = float32(b) * w.Step
		}
		if !w.numbers(frame) {
			fill(dst, float32(math.NaN()))
		}
	}
	return dst[:w.Classes]
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// numbers says that all scores of a frame of Bytes are.
func (w *Window) numbers(frame int) bool {
	sum := w.Sums[frame*w.SumStride]
	return sum == sum
}

// Check returns an error if a score of a frame of Bytes is not a number.
func (w *Window) Check(frame int) error {
	if !w.numbers(frame) {
		return fmt.Errorf("a score of frame %d is not a number", frame)
	}
	return nil
}

// Copy writes the scores to dst, frame by frame. Those of a frame of Bytes with a score that
// isn't a number become not-a-number.
func (w Window) Copy(dst []float32) {
	if w.Floats != nil && w.Stride == w.Classes {
		copy(dst, w.Floats[:w.Frames*w.Classes])
		return
	}
	for frame := range w.Frames {
		out := dst[frame*w.Classes:][:w.Classes]
		copy(out, w.Row(frame, out))
	}
}

// Contiguous returns the scores frame behind frame, in buf, which may grow, if they lie otherwise.
func (w Window) Contiguous(buf []float32) []float32 {
	n := w.Frames * w.Classes
	if w.Floats != nil && w.Stride == w.Classes {
		return w.Floats[:n]
	}
	if cap(buf) < n {
		buf = make([]float32, n)
	}
	w.Copy(buf[:n])
	return buf[:n]
}

// FromHalf returns the number that is written as binary16.
func FromHalf(h uint16) float32 {
	sign, exponent, fraction := uint32(h)>>15<<31, uint32(h)>>10&31, uint32(h)&0x3ff
	switch exponent {
	case 0: // a multiple of 2^-24, which float32 has as a normal number
		v := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
