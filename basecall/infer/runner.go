package infer

import (
	"github.com/porestream/porestream/basecall/scores"
)

// Network is an ONNX network over windows of a signal.
type Network struct {
	Name string // for errors and metrics
	ONNX []byte
	// HalfONNX is the same network in half precision, with the same ends in
	// float32, which GPUs run instead unless asked otherwise; nil if there is none.
	HalfONNX []byte
	// Exact says that what is made of the scores hangs on their last digits: PrecisionAuto
	// is PrecisionSingle then, on GPUs too.
	Exact bool
	// Decoder says how scores are decoded, if a device may do that by itself: with ScoresAuto and a kernel of our
	// own. A Runner's windows are then paths; nil for scores in any case.
	Decoder *Decoder
	// Narrow says that scores may be rounded: ScoresAuto is ScoresBytes on GPUs then.
	Narrow bool
	Input  string // name of the input, float32 [N, 1, Samples]
	Output string // name of the output, float32
	// TimeMajor says that the output is stored as [Frames, N, Classes] and not as
	// [N, Frames, Classes].
	TimeMajor bool
	Samples   int // length of a window
	Frames    int // frames that the network makes of a window
	Classes   int // scores per frame
	// Unit is a length in samples: the windows of a batch may have any multiple of it up to Samples, where the
	// network takes that; 0 if all are of one length.
	Unit int
	// InputShape and OutputShape are the shapes of a window and of what becomes of it for networks whose ends are others
	// than [N, 1, Samples] and [N, Frames, Classes]: what follows N. Their products are still Samples and Frames x Classes;
	// nil for none.
	InputShape, OutputShape []int

	operators string // the library of operators of our own that ONNX needs; empty for none
	form      form   // of the scores, once it is chosen
	// independent says that what a window gets depends on the window alone, on any device.
	independent bool
}

// framesOf returns how many frames the network makes of a window.
func (n *Network) framesOf(samples int) int {
	if samples == n.Samples {
		return n.Frames
	}
	return samples * n.Frames / n.Samples
}

// Runner is one copy of a network with space for one batch. It is used by one
// goroutine at a time.
type Runner interface {
	// Input returns the place for the samples of a row, of the length of a window.
	Input(row int) []float32
	// Count says how many frames of a row are wanted from now on, where the device decodes them; 0 means
	// all, as it is until then.
	Count(row, frames int)
	// Run computes the first rows rows and returns how many were computed with
	// padding, rows at least. Their windows have so many samples; fewer than the
	// network's are for networks that take it. What is in the rows' places afterwards is
	// not defined then.
	Run(rows, samples int) (computed int, err error)
	// Scores returns the scores of a row of the last Run, which are there until the next.
	Scores(row int) scores.Window
	// Close releases the runner.
	Close() error
}
