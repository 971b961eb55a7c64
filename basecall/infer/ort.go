package infer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/porestream/porestream/basecall/scores"
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
	// machines report to nobody what they compute.
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

// session is a Runner on ONNX Runtime: one of the places in which batches of a session of the
// runtime lie. While one is computed, others are filled and decoded.
type session struct {
	net    Network
	batch  int
	fixed  bool // compute full batches only
	shared *sharedSession
	in     *hostMemory // float32
	out    *hostMemory // as the form has them
	sums   *hostMemory // float32; nil without
	// frames are how many the device is to decode of each row, int32; nil if it gives scores. wanted are those that Count
	// returned.
	frames *hostMemory
	wanted []int32
	// tensors hold the first rows, by their number and by the samples of a window; made when needed. They
	// share memory with in, out and sums, so that nothing is allocated per batch.
	tensors map[[2]int]tensors
	rows    int // rows computed by the last Run
	length  int // samples of its windows
}

// sharedSession is the runtime's, for several places.
type sharedSession struct {
	inner  *ort.DynamicAdvancedSession
	places atomic.Int32 // that have not been closed
}

// tensors are the ends of a run.
type tensors struct{ in, out []ort.Value }

func (t tensors) destroy() error {
	var err error
	for _, v := range slices.Concat(t.in, t.out) {
		err = errors.Join(err, v.Destroy())
	}
	return err
}

var _ Runner = (*session)(nil)

// openSession loads a network, the file that was chosen for the device being its ONNX, with space for so many
// batches at places of their own, as one of a number of sessions there. adjust changes the session's options;
// nil leaves them.
func openSession(net Network, device Device, batch, places, sessions int, opts Options, adjust func(*ort.SessionOptions) error) ([]*session, error) {
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
	}
	s, err := newSession(net, batch, places, options, hostMemoryFor(device, opts.driver(), opts.logger()))
	if err != nil {
		err = fmt.Errorf("loading network %s on %s: %w", net.Name, device, err)
		if !device.CUDA && !OutOfMemory(err) {
			return nil, &NetworkError{err}
		}
		return nil, err
	}
	return s, nil
}

// newSession opens a session on a network.
func newSession(net Network, batch, places int, options *ort.SessionOptions, memory allocator) (all []*session, err error) {
	inputs, outputs := []string{net.Input}, []string{net.Output}
	if net.form.frames != "" {
		inputs = append(inputs, net.form.frames)
	}
	if net.form.sums != "" {
		outputs = append(outputs, net.form.sums)
	}
	// Loading CUDA's provider takes over signal handlers.
	handlers := saveSignalHandlers()
	inner, err := ort.NewDynamicAdvancedSessionWithONNXData(net.ONNX, inputs, outputs, options)
	handlers.restore()
	if err != nil {
		return nil, oneLine(err)
	}
	shared := &sharedSession{inner: inner}
	shared.places.Store(int32(places))
	for range places {
		s := &session{
			net: net, batch: batch, shared: shared, tensors: make(map[[2]int]tensors), length: net.Samples,
			in:  memory(4 * batch * net.Samples),
			out: memory(net.form.size() * batch * net.Frames * net.Classes),
		}
		if net.form.sums != "" {
			s.sums = memory(4 * batch * net.Frames)
		}
		if net.form.frames != "" {
			s.frames, s.wanted = memory(4*batch), make([]int32, batch)
			for row := range s.wanted {
				s.wanted[row] = int32(net.Frames)
			}
		}
		all = append(all, s)
	}
	return all, nil
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
		advice = missingLibrary(text)
	case strings.Contains(text, "CUDA driver version is insufficient"), strings.Contains(text, "forward compatibility was attempted on non supported HW"):
		advice = "the NVIDIA driver is too old for the CUDA libraries that ONNX Runtime was built with: install a newer driver, 580 or later for CUDA 13"
	case strings.Contains(text, "invalid device ordinal"):
		advice = "CUDA counts GPUs from 0, and CUDA_VISIBLE_DEVICES may hide some"
	}
	return fmt.Errorf("device %s can't be used: %s; %s", device, text, advice)
}

// missingLibrary says where a library that can't be opened is to be had.
func missingLibrary(text string) string {
	path := " and add its folder to LD_LIBRARY_PATH"
	for _, library := range []struct{ name, advice string }{
		{"libonnxruntime_providers_", "it is a part of the onnxruntime-gpu package, and has to lie beside libonnxruntime.so"},
		{"libcudnn", "install cuDNN 9 (the package nvidia-cudnn-cu13, or onnxruntime-gpu[cuda,cudnn])" + path},
		{"libcuda.so", "it is a part of the NVIDIA driver: install it, or in a container have it mounted"},
		{"libcu", "install CUDA's libraries (onnxruntime-gpu[cuda,cudnn])" + path},
		{"libnv", "install CUDA's libraries (onnxruntime-gpu[cuda,cudnn])" + path},
	} {
		missing, _, _ := strings.Cut(text, ": cannot open shared object file")
		if fields := strings.Fields(missing); len(fields) > 0 && strings.HasPrefix(filepath.Base(fields[len(fields)-1]), library.name) {
			return library.advice
		}
	}
	return "install that library (part of CUDA, cuDNN or the NVIDIA driver) or add its folder to LD_LIBRARY_PATH"
}

// What the runtime says of itself in errors of CUDA, cuDNN and cuBLAS: the place in its source with
// the function's template, and behind the cause the host, the file and the expression, or the
// operation as cuDNN was given it.
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
		return fmt.Errorf("reading network %s: %s: the file is damaged or cut off, or made for a later ONNX Runtime: copy or make it again", net.Name, strings.TrimRight(oneLine(err).Error(), "."))
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
	return s.in.floats()[row*s.net.Samples : (row+1)*s.net.Samples]
}

// Count implements Runner.
func (s *session) Count(row, frames int) {
	switch {
	case s.wanted == nil:
	case frames == 0:
		s.wanted[row] = int32(s.net.Frames)
	default:
		s.wanted[row] = int32(frames)
	}
}

// Run implements Runner.
func (s *session) Run(rows, samples int) (int, error) {
	if samples != s.net.Samples {
		if s.fixed || s.net.Unit == 0 {
			return 0, fmt.Errorf("network %s computes windows of %d samples, not of %d", s.net.Name, s.net.Samples, samples)
		}
		in := s.in.floats()
		for row := 1; row < rows; row++ { // they have to lie side by side
			copy(in[row*samples:][:samples], s.Input(row))
		}
	}
	s.rows, s.length = rows, samples
	if s.fixed {
		s.rows = s.batch
		clear(s.in.floats()[rows*s.net.Samples:])
	}
	if s.frames != nil {
		frames := s.frames.int32s()
		clear(frames[copy(frames, s.wanted[:rows]):]) // nothing of what is padded
	}
	t, err := s.tensorsFor(s.rows, samples)
	if err != nil {
		return 0, err
	}
	if err := s.shared.inner.Run(t.in, t.out); err != nil {
		return 0, oneLine(err)
	}
	return s.rows, nil
}

// tensorsFor returns the tensors over the first n rows of the buffers, of windows of so many samples.
func (s *session) tensorsFor(n, length int) (tensors, error) {
	if t, known := s.tensors[[2]int{n, length}]; known {
		return t, nil
	}
	rows, samples, frames, classes := int64(n), int64(length), int64(s.net.framesOf(length)), int64(s.net.Classes)
	first, second := rows, frames
	if s.net.TimeMajor {
		first, second = frames, rows
	}
	var t tensors
	var err error
	add := func(to *[]ort.Value, memory *hostMemory, size int, kind ort.TensorElementDataType, shape ...int64) {
		if err != nil {
			return
		}
		var v *ort.CustomDataTensor
		v, err = ort.NewCustomDataTensor(ort.NewShape(shape...), memory.data[:int64(size)*ort.NewShape(shape...).FlattenedSize()], kind)
		if err == nil {
			*to = append(*to, v)
		}
	}
	input, output := ort.NewShape(rows, 1, samples), ort.NewShape(first, second, classes)
	if s.net.InputShape != nil {
		input = batchOf(rows, s.net.InputShape)
	}
	if s.net.OutputShape != nil {
		output = batchOf(rows, s.net.OutputShape)
	}
	add(&t.in, s.in, 4, ort.TensorElementDataTypeFloat, input...)
	if s.frames != nil {
		add(&t.in, s.frames, 4, ort.TensorElementDataTypeInt32, rows)
	}
	add(&t.out, s.out, s.net.form.size(), s.net.form.element(), output...)
	if s.sums != nil {
		add(&t.out, s.sums, 4, ort.TensorElementDataTypeFloat, first, second)
	}
	if err != nil {
		return tensors{}, errors.Join(fmt.Errorf("making tensors: %w", err), t.destroy())
	}
	s.tensors[[2]int{n, length}] = t
	return t, nil
}

// batchOf is the shape of rows windows.
func batchOf(rows int64, window []int) ort.Shape {
	shape := ort.NewShape(rows)
	for _, n := range window {
		shape = append(shape, int64(n))
	}
	return shape
}

// Scores implements Runner.
func (s *session) Scores(row int) scores.Window {
	frames, classes := s.net.framesOf(s.length), s.net.Classes
	w := scores.Window{Frames: frames, Classes: classes, Stride: classes, SumStride: 1, Step: s.net.form.step}
	first := row * frames
	if s.net.TimeMajor {
		first, w.Stride, w.SumStride = row, s.rows*classes, s.rows
	}
	switch s.net.form.kind {
	case ScoresBytes:
		w.Bytes, w.Sums = s.out.int8s()[first*classes:], s.sums.floats()[first:]
	case scoresPath:
		w.Path, w.Probabilities = s.out.data[first:], s.sums.floats()[first:]
	case ScoresHalf:
		w.Halves = s.out.halves()[first*classes:]
	default:
		w.Floats = s.out.floats()[first*classes:]
	}
	return w
}

// Close implements Runner.
func (s *session) Close() error {
	var err error
	for _, t := range s.tensors {
		err = errors.Join(err, t.destroy())
	}
	s.tensors = nil
	s.in.release()
	s.out.release()
	s.sums.release()
	s.frames.release()
	if s.shared.places.Add(-1) > 0 {
		return err
	}
	return errors.Join(err, s.shared.inner.Destroy())
}
