package infer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/scores"
)

// GPUKernels is whether a GPU computes layers with Porestream's own operators.
type GPUKernels uint8

// The choices.
const (
	// KernelsOff leaves all to the runtime.
	KernelsOff GPUKernels = iota
	// KernelsAuto takes them on a GPU where the library is found, the network has layers
	// for them and they compute what the runtime's operators do.
	KernelsAuto
	// KernelsAlways takes them on a CPU, too, where they are slow, and fails where KernelsAuto would
	// do without: for tests and measurements.
	KernelsAlways
)

var kernelNames = [...]string{KernelsAuto: "auto", KernelsOff: "off", KernelsAlways: "always"}

// String returns "off", "auto" or "always".
func (k GPUKernels) String() string {
	if int(k) < len(kernelNames) {
		return kernelNames[k]
	}
	return fmt.Sprintf("GPUKernels(%d)", uint8(k))
}

// Set parses a flag's value.
func (k *GPUKernels) Set(text string) error {
	i := slices.Index(kernelNames[:], text)
	if i < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(kernelNames[:], ", "))
	}
	*k = GPUKernels(i)
	return nil
}

// Type is what help says of the flag.
func (*GPUKernels) Type() string { return "kernels" }

// Refusal is why a network is computed without kernels of our own on a GPU.
type Refusal string

// The refusals, as metrics name them.
const (
	RefusedLibrary Refusal = "library" // it isn't there
	RefusedNetwork Refusal = "network" // has no layer for them
	RefusedDevice  Refusal = "device"  // can't load or run them
	RefusedResult  Refusal = "result"  // isn't that of the runtime's operators
)

var refusals = [...]Refusal{RefusedLibrary, RefusedNetwork, RefusedDevice, RefusedResult}

// Kernels says how far operators of our own compute a network.
type Kernels struct {
	Layers  int  // that they compute
	Plain   int  // LSTM layers that they don't
	Decodes bool // scores become paths on the device
	// Refused is why there are none where there could be; empty where none are asked for.
	Refused Refusal
	Why     string // Refused in a line, with what to do
}

// mostKernelError is how far a window's scores may be from those of the runtime's operators:
// the root mean square of the difference, as a part of that of the scores. Rounding the states to
// half floats makes some thousandths; a wrong kernel makes about 1.
const mostKernelError = 2e-2

// What of a window's frames has to be decoded as on the CPU, and how far the probabilities of its bases may be off on average. What a wrong
// kernel decodes has little to do with it.
const (
	leastAlike           = 0.95
	mostProbabilityError = 1e-2
)

// refusal is an error that names what it is about.
type refusal struct {
	kind Refusal
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// openWithKernels opens all sessions with operators of our own, if these are asked for and to be had.
// Otherwise it returns no runners, and why.
func openWithKernels(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (*Runners, Kernels, error) {
	exact := opts.Precision == PrecisionSingle || opts.Precision == PrecisionInt8
	switch {
	case exact && opts.Kernels == KernelsAlways:
		return nil, Kernels{}, &NetworkError{fmt.Errorf("network %s: GPU kernels multiply half floats, which %v is not", net.Name, opts.Precision)}
	case exact, opts.Kernels == KernelsOff, opts.Kernels == KernelsAuto && !devices[0].CUDA:
		return nil, Kernels{}, nil
	}
	r, k, err := kernelsOrPlain(net, devices, batch, sessions, opts, logger)
	if err != nil {
		k, err = k.refuse(net, opts.Kernels, err, logger)
		return nil, k, err
	}
	r.Kernels = k
	return r, k, nil
}

// refuse says that there are no kernels because of an error, which it returns if there have to be some.
func (k Kernels) refuse(net Network, asked GPUKernels, err error, logger *slog.Logger) (Kernels, error) {
	if asked == KernelsAlways {
		return Kernels{}, fmt.Errorf("network %s: GPU kernels can't be used: %w", net.Name, oneLine(err))
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		return Kernels{}, nil // the network or the device is at fault, which it shows without kernels as well
	}
	k.Plain, k.Layers, k.Decodes = k.Plain+k.Layers, 0, false
	k.Refused, k.Why = refused.kind, oneLine(err).Error()
	level := slog.LevelWarn
	if k.Refused == RefusedNetwork {
		level = slog.LevelInfo // there is nothing that one could do
	}
	logger.Log(context.Background(), level, "the GPU computes the network with ONNX Runtime's operators, not with Porestream's kernels",
		slog.String("network", net.Name), slog.String("why", k.Why))
	return k, nil
}

// kernelsOrPlain opens all sessions with operators of our own, without the one that decodes if that is what can't be used.
func kernelsOrPlain(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (*Runners, Kernels, error) {
	r, k, err := tryKernels(net, devices, batch, sessions, opts, logger)
	var refused *refusal
	if err == nil || !k.Decodes || opts.Kernels == KernelsAlways || errors.As(err, &refused) && refused.kind == RefusedLibrary {
		return r, k, err
	}
	undecoded := net
	undecoded.Decoder = nil
	r, layers, withoutErr := tryKernels(undecoded, devices, batch, sessions, opts, logger)
	if withoutErr != nil {
		if errors.As(withoutErr, &refused) && refused.kind == RefusedNetwork {
			return nil, k, err // nothing but decoding could have kernels
		}
		return nil, layers, withoutErr
	}
	logger.Warn("the GPU leaves decoding to the CPU", slog.String("network", net.Name), slog.String("why", oneLine(err).Error()))
	return r, layers, nil
}

// tryKernels opens all sessions with operators of our own, and compares what they compute with what the
// runtime's do.
func tryKernels(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (r *Runners, k Kernels, err error) {
	plain := net
	precision := PrecisionSingle
	opts.Precision = net.asked(opts.Precision)
	if opts.Precision != PrecisionSingle && net.HalfONNX != nil {
		plain.ONNX, precision = net.HalfONNX, PrecisionHalf
	}
	rewritten := plain
	if rewritten.ONNX, k.Layers, k.Plain, err = withKernels(plain.ONNX); err != nil {
		return nil, k, fmt.Errorf("reading network %s: %w", net.Name, err)
	}
	if k.Layers == 0 {
		rewritten.ONNX = plain.ONNX
	}
	k.Decodes = opts.form() == ScoresAuto && net.Decoder != nil && net.Decoder.kernel()
	if k.Layers == 0 && !k.Decodes {
		return nil, k, &refusal{RefusedNetwork, errors.New("it has no layers that there are kernels for, and no scores that one could decode")}
	}
	if rewritten.operators, err = kernels.FindLibrary(); err != nil {
		return nil, k, &refusal{RefusedLibrary, err}
	}
	if err := checkEnds(plain); err != nil {
		return nil, k, err
	}
	ours, err := independent(rewritten.ONNX)
	if err != nil {
		return nil, k, fmt.Errorf("reading network %s: %w", net.Name, err)
	}
	scored := rewritten
	if k.Decodes {
		rewritten, err = rewritten.decoded(precision)
	} else {
		rewritten, err = rewritten.inForm(opts.form(), devices[0])
	}
	if err != nil {
		return nil, k, err
	}
	if rewritten.independent, err = independent(rewritten.ONNX); err != nil {
		return nil, k, fmt.Errorf("reading network %s: %w", net.Name, err)
	}
	if devices[0].CUDA && opts.Tune {
		batch = rewritten.fitHost(batch)
	}
	if r, err = openBatch(rewritten, devices, batch, sessions, opts, logger); err != nil {
		return nil, k, &refusal{RefusedDevice, err}
	}
	if ours {
		precision = PrecisionHalf // all of its layers multiply half floats, whichever file has their weights
	}
	r.Precision, r.Form = precision, rewritten.form.kind
	if k.Decodes {
		err = r.compareDecoded(plain, scored, opts)
	} else {
		err = r.compareWith(plain, opts)
	}
	if err != nil {
		return nil, k, errors.Join(err, r.Close())
	}
	return r, k, nil
}

// compareWith has each runner compute a window and compares the scores with those of another network.
func (r *Runners) compareWith(plain Network, opts Options) error {
	have := make([]float32, plain.Frames*plain.Classes)
	for i, device := range r.Devices {
		want, err := probed(plain, device, opts)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", plain.Name, err)
		}
		if err := r.probe(i, func(w scores.Window) error {
			w.Copy(have)
			return compareScores(have, want, device)
		}); err != nil {
			return err
		}
	}
	return nil
}

// compareDecoded has each runner decode a window and compares that with what the CPU decodes of the scores of the network that the
// device decodes, scored, which in turn are compared with those of the plain one.
func (r *Runners) compareDecoded(plain, scored Network, opts Options) error {
	decoder, err := plain.Decoder.Open()
	if err != nil {
		return err
	}
	for i, device := range r.Devices {
		want, err := probed(plain, device, opts)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", plain.Name, err)
		}
		have, err := probed(scored, device, opts)
		if err != nil {
			return &refusal{RefusedDevice, err}
		}
		if err := compareScores(have, want, device); err != nil {
			return err
		}
		window := scores.OfFloats(have, plain.Classes)
		if plain.TimeMajor {
			window.Stride = plain.Classes // a batch of one
		}
		bases, err := decoder.DecodeWindow(window)
		if err != nil {
			return &refusal{RefusedResult, err}
		}
		if err := r.probe(i, func(w scores.Window) error { return comparePaths(w, bases, device) }); err != nil {
			return err
		}
	}
	return nil
}

// probed returns the scores that a network gives a window of its own.
func probed(net Network, device Device, opts Options) ([]float32, error) {
	places, err := openSession(net, device, 1, 1, 1, opts, nil)
	if err != nil {
		return nil, err
	}
	s := places[0]
	out := make([]float32, net.Frames*net.Classes)
	fillProbe(s.Input(0), 0)
	_, err = s.Run(1, net.Samples)
	if err == nil {
		s.Scores(0).Copy(out)
	}
	return out, errors.Join(err, s.Close())
}

// probe has the runners of one of the devices compute that window and checks the scores that they
// give.
func (r *Runners) probe(device int, inspect func(scores.Window) error) error {
	sessions := r.Sessions()
	for j := device; j < len(sessions); j += len(r.Devices) { // see openSessions
		runner := sessions[j]
		fillProbe(runner.Input(0), 0)
		if _, err := runner.Run(1, len(runner.Input(0))); err != nil {
			return &refusal{RefusedDevice, err}
		}
		if err := inspect(runner.Scores(0)); err != nil {
			return err
		}
	}
	return nil
}

func compareScores(have, want []float32, device Device) error {
	if e := relativeError(have, want); !(e <= mostKernelError) {
		return &refusal{RefusedResult, fmt.Errorf("on %s scores differ by %.2g of their size from those of ONNX Runtime's operators, and may by %.2g", device, e, mostKernelError)}
	}
	return nil
}

// comparePaths compares what a device has decoded with the bases of the same scores. A network may round otherwise
// in a batch of another size, which moves a base here and there.
func comparePaths(w scores.Window, bases []scores.Base, device Device) error {
	want := make([]uint8, w.Frames)
	for _, b := range bases {
		want[b.Frame] = scores.Begins | b.Code
	}
	alike, off := 0, 0.0
	next := 0
	for t, v := range w.Path[:w.Frames] {
		if v&scores.Begins == 0 {
			v = 0
		}
		if v == want[t] {
			alike++
		}
		if want[t] == 0 {
			continue
		}
		if v == want[t] {
			off += math.Abs(float64(w.Probabilities[t] - bases[next].Probability))
		}
		next++
	}
	part := float64(alike) / float64(w.Frames)
	if part < leastAlike || !(off/float64(max(1, len(bases))) <= mostProbabilityError) {
		return &refusal{RefusedResult, fmt.Errorf("on %s %.1f %% of a window's frames are decoded as on the CPU, not %.0f %%, or bases are as probable as there", device, 100*part, 100*leastAlike)}
	}
	return nil
}

// relativeError returns the root mean square of the difference over that of what is wanted.
func relativeError(have, want []float32) float64 {
	var difference, all float64
	for i, w := range want {
		d := float64(have[i]) - float64(w)
		difference += d * d
		all += float64(w) * float64(w)
	}
	if difference == 0 {
		return 0
	}
	return math.Sqrt(difference / all)
}
