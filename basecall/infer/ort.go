package infer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// environment is ONNX Runtime itself. A process has one, because the library
// keeps it in a global; it is never unloaded, as its threads may outlive sessions.
var environment struct {
	sync.Mutex
	library string // path it was loaded from; empty before
}

// loadLibrary loads ONNX Runtime if that hasn't been done, and refuses a second,
// different library.
func loadLibrary(path string) error {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	environment.Lock()
	defer environment.Unlock()
	switch environment.library {
	case path:
		return nil
	case "":
	default:
		return fmt.Errorf("ONNX Runtime is already loaded from %s; a process can't load %s as well", environment.library, path)
	}
	// Official builds report their use to Microsoft, from the moment they are
	// loaded, unless this is set before (onnxruntime#27379). A laboratory's
	// machines tell nobody what they compute.
	if err := os.Setenv("ORT_DISABLE_TELEMETRY", "1"); err != nil {
		return fmt.Errorf("switching ONNX Runtime's telemetry off: %w", err)
	}
	ort.SetSharedLibraryPath(path)
	// Its own log would repeat on standard error what it returns as errors.
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		return fmt.Errorf("loading ONNX Runtime from %s: %w", path, err)
	}
	environment.library = path
	return nil
}

// LibraryVersion loads ONNX Runtime, from where FindLibrary finds it, and returns its
// version and where it is from, for example "1.31.1, /opt/porestream/lib/libonnxruntime.so".
func LibraryVersion(explicit string) (string, error) {
	path, err := FindLibrary(explicit)
	if err != nil {
		return "", err
	}
	if err := loadLibrary(path); err != nil {
		return "", err
	}
	return ort.GetVersion() + ", " + filepath.Clean(path), nil
}

// session is a Runner on ONNX Runtime.
type session struct {
	net     Network
	batch   int
	fixed   bool // compute full batches only
	session *ort.DynamicAdvancedSession
	in, out []float32
	// tensors hold the first n rows of in and out at index n; made when needed.
	// They share memory with in and out, so that nothing is allocated per batch.
	tensors []tensorPair
	rows    int // rows computed by the last Run
}

type tensorPair struct{ in, out *ort.Tensor[float32] }

var _ Runner = (*session)(nil)

// openSession loads a network, the file that was chosen for the device being its ONNX, with room
// for a batch, as one of a number of sessions there. adjust changes the session's options; nil leaves them.
func openSession(net Network, device Device, batch, sessions int, opts Options, adjust func(*ort.SessionOptions) error) (*session, error) {
	options, err := sessionOptions(device, sessions, opts.Compute)
	if err != nil {
		return nil, err
	}
	defer options.Destroy()
	if adjust != nil {
		if err := adjust(options); err != nil {
			return nil, oneLine(err)
		}
	}
	if net.operators != "" {
		if err := options.RegisterCustomOpsLibrary(net.operators); err != nil {
			return nil, fmt.Errorf("loading operators from %s: %w", net.operators, oneLine(err))
		}
	} else if err := checkEnds(net); err != nil {
		return nil, err
	}
	s, err := newSession(net, batch, options)
	if err != nil {
		return nil, fmt.Errorf("loading network %s on %s: %w", net.Name, device, err)
	}
	return s, nil
}

// newSession opens a session on a network.
func newSession(net Network, batch int, options *ort.SessionOptions) (*session, error) {
	// Loading CUDA's provider takes over signal handlers.
	handlers := saveSignalHandlers()
	inner, err := ort.NewDynamicAdvancedSessionWithONNXData(net.ONNX, []string{net.Input}, []string{net.Output}, options)
	handlers.restore()
	if err != nil {
		return nil, oneLine(err)
	}
	s := &session{
		net:     net,
		batch:   batch,
		session: inner,
		in:      make([]float32, batch*net.Samples),
		out:     make([]float32, batch*net.Frames*net.Classes),
		tensors: make([]tensorPair, batch+1),
	}
	return s, nil
}

// sessionOptions returns the options for one session on a device. On the CPU a
// session computes on the calling thread only: several sessions side by side are
// faster than several threads in one, as a recurrent layer leaves them little
// to share.
func sessionOptions(device Device, sessions int, compute Compute) (*ort.SessionOptions, error) {
	options, err := ort.NewSessionOptions()
	if err != nil {
		return nil, fmt.Errorf("making session options: %w", err)
	}
	err = errors.Join(
		options.SetIntraOpNumThreads(1),
		options.SetInterOpNumThreads(1),
		options.SetGraphOptimizationLevel(ort.GraphOptimizationLevelEnableAll),
		options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
		options.AddSessionConfigEntry("session.inter_op.allow_spinning", "0"),
	)
	if err == nil && device.CUDA {
		err = appendCUDA(options, device, sessions, compute)
	}
	if err != nil {
		options.Destroy()
		return nil, err
	}
	return options, nil
}

// appendCUDA makes the options ask for a GPU. The error of a machine that can't
// says what is missing.
func appendCUDA(options *ort.SessionOptions, device Device, sessions int, compute Compute) error {
	chosen, err := compute.cuda(device, sessions)
	if err != nil {
		return err
	}
	cuda, err := ort.NewCUDAProviderOptions()
	if err != nil {
		return cudaError(device, err)
	}
	defer cuda.Destroy()
	handlers := saveSignalHandlers()
	defer handlers.restore()
	// Update is what loads the provider and so the call that names the library
	// that is missing.
	if err := cuda.Update(chosen); err != nil {
		return cudaError(device, err)
	}
	if err := options.AppendExecutionProviderCUDA(cuda); err != nil {
		return cudaError(device, err)
	}
	return nil
}

// wrongOption is what to do about an option that CUDA's provider doesn't take.
const wrongOption = "take it, or its value, out of --cuda-option"

// cudaError explains why a GPU can't be used and what to do about it.
func cudaError(device Device, err error) error {
	text := oneLine(err).Error()
	advice := "check that the NVIDIA driver and the CUDA libraries are installed"
	// The runtime's own place in its source says nothing to a user.
	if _, cause, ok := strings.Cut(text, "with error: "); ok {
		text = cause
	} else if _, cause, ok := strings.Cut(text, "CUDA failure "); ok {
		// The rest are the host, the place and the expression.
		cause, _, _ = strings.Cut(cause, " ; ")
		text = "CUDA failure " + cause
	} else if _, name, ok := strings.Cut(text, "Unknown provider option: "); ok {
		text, advice = "its provider has no option "+name, wrongOption
	} else if _, name, ok := strings.Cut(text, "Failed to parse provider option "); ok {
		name, _, _ = strings.Cut(name, ": ")
		text, advice = "its provider doesn't understand the value of option "+name, wrongOption
	}
	text = strings.TrimSuffix(text, ".")
	switch {
	case strings.Contains(text, "not enabled in this build"):
		advice = "this ONNX Runtime library is for the CPU only; take libonnxruntime.so from the onnxruntime-gpu package and name it with " + LibraryEnv
	case strings.Contains(text, "cannot open shared object file"):
		advice = "install that library (part of CUDA, cuDNN or the NVIDIA driver) or add its folder to LD_LIBRARY_PATH"
	}
	return fmt.Errorf("device %s can't be used: %s; %s", device, text, advice)
}

// What the runtime says of itself in errors of CUDA, cuDNN and cuBLAS: the place in its source with
// the function's template, and behind the cause the host, the file and the expression, or the
// operation as cuDNN was told it.
var (
	runtimePlace = regexp.MustCompile(`\S+\.(cc|h):\d+ std::conditional_t<[^\]]*\] `)
	runtimeJSON  = regexp.MustCompile(` with the cudnn frontend json: \{.*`)
	runtimeCall  = regexp.MustCompile(` ; GPU=\S+ ; hostname=.*? ; file=\S+ ; line=\d+ ; expr=.*?;( |$)`)
)

// oneLine takes line breaks, the runtime's indentation and its places out of an error.
func oneLine(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = runtimeCall.ReplaceAllString(runtimePlace.ReplaceAllString(text, ""), "$1")
	text = runtimeJSON.ReplaceAllString(text, "")
	return errors.New(strings.TrimSpace(text))
}

// checkEnds compares the network's inputs and outputs with what is said about them.
func checkEnds(net Network) error {
	inputs, outputs, err := ort.GetInputOutputInfoWithONNXData(net.ONNX)
	if err != nil {
		return fmt.Errorf("reading network %s: %w", net.Name, oneLine(err))
	}
	batchAxis, frameAxis := 0, 1
	if net.TimeMajor {
		batchAxis, frameAxis = 1, 0
	}
	want := []int{-1, 1, net.Samples}
	if net.InputShape != nil {
		want = append([]int{-1}, net.InputShape...)
	}
	if err := checkEnd(net, "input", net.Input, inputs, want, 0); err != nil {
		return err
	}
	want = []int{-1, -1, net.Classes}
	want[frameAxis] = net.Frames
	if net.OutputShape != nil {
		want = append([]int{-1}, net.OutputShape...)
	}
	return checkEnd(net, "output", net.Output, outputs, want, batchAxis)
}

// checkEnd checks that one of the tensors has the given name and dimensions. A
// dimension that the network leaves open fits all.
func checkEnd(net Network, kind, name string, tensors []ort.InputOutputInfo, want []int, batchAxis int) error {
	var names []string
	for _, t := range tensors {
		if t.Name != name {
			names = append(names, strconv.Quote(t.Name))
			continue
		}
		if t.DataType != ort.TensorElementDataTypeFloat {
			return fmt.Errorf("network %s: %s %q is %v, not float32", net.Name, kind, name, t.DataType)
		}
		if len(t.Dimensions) != len(want) {
			return fmt.Errorf("network %s: %s %q has %d dimensions, not %d", net.Name, kind, name, len(t.Dimensions), len(want))
		}
		for axis, have := range t.Dimensions {
			switch {
			case have < 0:
			case axis == batchAxis:
				return fmt.Errorf("network %s: %s %q has a fixed batch size of %d; it must be exported with a dynamic batch axis",
					net.Name, kind, name, have)
			case int(have) != want[axis]:
				return fmt.Errorf("network %s: axis %d of %s %q is %d, not %d", net.Name, axis, kind, name, have, want[axis])
			}
		}
		return nil
	}
	return fmt.Errorf("network %s has no %s %q, only %s", net.Name, kind, name, strings.Join(names, ", "))
}

// Input implements Runner.
func (s *session) Input(row int) []float32 {
	return s.in[row*s.net.Samples : (row+1)*s.net.Samples]
}

// Run implements Runner.
func (s *session) Run(rows int) (int, error) {
	s.rows = rows
	if s.fixed {
		s.rows = s.batch
		clear(s.in[rows*s.net.Samples:])
	}
	t, err := s.tensorsFor(s.rows)
	if err != nil {
		return 0, err
	}
	if err := s.session.Run([]ort.Value{t.in}, []ort.Value{t.out}); err != nil {
		return 0, oneLine(err)
	}
	return s.rows, nil
}

// tensorsFor returns the tensors over the first n rows of the buffers.
func (s *session) tensorsFor(n int) (tensorPair, error) {
	if t := s.tensors[n]; t.in != nil {
		return t, nil
	}
	rows, samples, frames, classes := int64(n), int64(s.net.Samples), int64(s.net.Frames), int64(s.net.Classes)
	shape := ort.NewShape(rows, 1, samples)
	if s.net.InputShape != nil {
		shape = batchOf(rows, s.net.InputShape)
	}
	in, err := ort.NewTensor(shape, s.in)
	if err != nil {
		return tensorPair{}, fmt.Errorf("making input tensor: %w", err)
	}
	shape = ort.NewShape(rows, frames, classes)
	if s.net.TimeMajor {
		shape = ort.NewShape(frames, rows, classes)
	}
	if s.net.OutputShape != nil {
		shape = batchOf(rows, s.net.OutputShape)
	}
	out, err := ort.NewTensor(shape, s.out)
	if err != nil {
		_ = in.Destroy()
		return tensorPair{}, fmt.Errorf("making output tensor: %w", err)
	}
	s.tensors[n] = tensorPair{in, out}
	return s.tensors[n], nil
}

// batchOf is the shape of rows windows.
func batchOf(rows int64, window []int) ort.Shape {
	shape := ort.NewShape(rows)
	for _, n := range window {
		shape = append(shape, int64(n))
	}
	return shape
}

// Output implements Runner.
func (s *session) Output(row int, dst []float32) {
	classes := s.net.Classes
	if !s.net.TimeMajor {
		n := s.net.Frames * classes
		copy(dst, s.out[row*n:(row+1)*n])
		return
	}
	for frame := range s.net.Frames {
		copy(dst[frame*classes:(frame+1)*classes], s.out[(frame*s.rows+row)*classes:])
	}
}

// Close implements Runner.
func (s *session) Close() error {
	var err error
	for _, t := range s.tensors {
		if t.in != nil {
			err = errors.Join(err, t.in.Destroy(), t.out.Destroy())
		}
	}
	s.tensors = nil
	return errors.Join(err, s.session.Destroy())
}
