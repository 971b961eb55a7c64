package infer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Precision is that of the numbers that a network computes with.
type Precision uint8

// The precisions.
const (
	// PrecisionAuto is half precision on GPUs, where the network has a file for it and
	// isn't Exact or operators of our own compute all of it, and single precision otherwise.
	// A GPU may round the factors of products to 10 bits then (TF32), but of an Exact network.
	PrecisionAuto Precision = iota
	// PrecisionSingle is float32, with products as exact as that on GPUs, too.
	PrecisionSingle
	// PrecisionHalf is float16, on a CPU as well.
	PrecisionHalf
	// PrecisionInt8 has the products of LSTM layers in whole numbers of eight bits and the
	// rest in float32, on a CPU alone: faster, and less exact. Windows are computed one at a
	// time.
	PrecisionInt8
)

var precisionNames = [...]string{PrecisionAuto: "auto", PrecisionSingle: "fp32", PrecisionHalf: "fp16", PrecisionInt8: "int8"}

// ErrNoInt8 is in the error about a network that can't be computed in PrecisionInt8.
var ErrNoInt8 = errors.New("no LSTM layers to compute in int8")

// String returns "auto", "fp32", "fp16" or "int8".
func (p Precision) String() string {
	if int(p) < len(precisionNames) {
		return precisionNames[p]
	}
	return fmt.Sprintf("Precision(%d)", uint8(p))
}

// Set parses a flag's value.
func (p *Precision) Set(text string) error {
	i := slices.Index(precisionNames[:], text)
	if i < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(precisionNames[:], ", "))
	}
	*p = Precision(i)
	return nil
}

// Type is what help says of the flag.
func (*Precision) Type() string { return "precision" }

// Compute says how devices compute a network. The zero value leaves it to them.
type Compute struct {
	Precision Precision
	// Kernels says whether a GPU computes layers with Porestream's own operators.
	Kernels GPUKernels
	// Scores is the form in which scores leave the network.
	Scores ScoreForm
	// GPUMemory is how many bytes the sessions of a network may take together on each
	// GPU for what they compute; 0 for as many as there are. CUDA's own, a few hundred
	// megabytes, come on top.
	GPUMemory int64
	// CUDA holds further options of ONNX Runtime's CUDA provider, by their names there, such
	// as cudnn_conv_use_max_workspace.
	CUDA map[string]string
}

// cuda returns the options of ONNX Runtime's CUDA provider for one of a number of sessions
// on a GPU.
func (c Compute) cuda(device Device, sessions int) (map[string]string, error) {
	options := map[string]string{
		"device_id": strconv.Itoa(device.Index),
		// The default times candidates, and would let the clock choose how results are
		// rounded.
		"cudnn_conv_algo_search": "HEURISTIC",
	}
	if c.Precision == PrecisionSingle {
		options["use_tf32"] = "0"
	}
	if c.GPUMemory > 0 {
		options["gpu_mem_limit"] = strconv.FormatInt(c.GPUMemory/int64(sessions), 10)
		// Growing in powers of two would end at half the limit.
		options["arena_extend_strategy"] = "kSameAsRequested"
	}
	for _, name := range []string{"device_id", "user_compute_stream", "has_user_compute_stream"} {
		if _, ok := c.CUDA[name]; ok {
			return nil, errors.New("CUDA option " + name + " is not to be chosen: it is the program's own")
		}
	}
	maps.Copy(options, c.CUDA)
	return options, nil
}

// asked returns what a precision means for the network: of one that is to be exact
// nothing is left to devices.
func (n Network) asked(precision Precision) Precision {
	if n.Exact && precision == PrecisionAuto {
		return PrecisionSingle
	}
	return precision
}

// chosen returns the file to run on a device and the precision, one of the last three, that it
// computes in.
func (n Network) chosen(device Device, precision Precision) ([]byte, Precision, error) {
	switch {
	case precision == PrecisionHalf && n.HalfONNX == nil:
		return nil, 0, fmt.Errorf("network %s has no file for half precision (%v)", n.Name, precision)
	case precision == PrecisionHalf, precision == PrecisionAuto && device.CUDA && n.HalfONNX != nil:
		return n.HalfONNX, PrecisionHalf, nil
	case precision == PrecisionInt8 && device.CUDA:
		return nil, 0, fmt.Errorf("%v is for CPUs: %s computes in fp16 or fp32", precision, device)
	case precision == PrecisionInt8:
		onnx, err := quantised(n.ONNX)
		if err != nil {
			return nil, 0, fmt.Errorf("reading network %s: %w", n.Name, err)
		}
		if onnx == nil {
			return nil, 0, fmt.Errorf("network %s has %w", n.Name, ErrNoInt8)
		}
		return onnx, PrecisionInt8, nil
	}
	return n.ONNX, PrecisionSingle, nil
}
