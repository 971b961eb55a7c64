package infer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/porestream/porestream/basecall/scores"
)

// Options say on what a network is to run.
type Options struct {
	// Device is "auto" (also ""), "cpu", "cuda" or "cuda:0,1"; see ParseDevices. For
	// load tests it is "sim:LATENCY:BATCH:FILE": a device that takes the latency for
	// each batch of so many windows and gives back the scores recorded in the file.
	Device string
	// Record is a file to write the scores of all windows to, for a simulated device;
	// empty for none.
	Record string
	// Library is the path of ONNX Runtime's shared library; empty to search, see
	// FindLibrary.
	Library string
	// Batch is the number of windows that a runner has space for, by kind of device,
	// except in PrecisionInt8, where it is one; and Sessions the number of runners per
	// device.
	BatchCPU, BatchCUDA       int
	SessionsCPU, SessionsCUDA int
	// Places is how many batches a session has space for: while it computes one, others
	// are decoded; 0 means 1. A simulated device has those of a GPU.
	PlacesCPU, PlacesCUDA int
	Compute
	// Tune has the batch found by trying: on a CPU one that is as fast as any up to
	// BatchCPU, and on a GPU the first of BatchCUDA, half of it, and so on, for which all
	// sessions have memory.
	Tune bool
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger

	places int    // of a session on the devices that are opened
	cuda   string // the driver's library, of tests; empty for CUDA's own
}

// driver returns the name of CUDA's driver library.
func (o Options) driver() string { return cmp.Or(o.cuda, driverLibrary) }

// logger returns one that is not nil.
func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// Runners are the open copies of a network.
type Runners struct {
	// Runners holds the places for batches of the first session, and then those of the others.
	Runners []Runner
	Places  int // of each session
	Devices []Device
	Batch   int // rows that are to be computed together; each has space for them
	// Padded says that partial batches are padded to Batch.
	Padded bool
	// Unit is the network's, or 0 if all windows have to be of one length: on GPUs, whose batches are large, of
	// networks that take no other, and of forms of scores for which it wasn't tried. A simulated device has that
	// of what was recorded.
	Unit int
	// Precision is what the network computes in: PrecisionSingle, PrecisionHalf or
	// PrecisionInt8.
	Precision Precision
	// Kernels says what operators of our own compute.
	Kernels Kernels
	// Form is how scores leave the network: ScoresFloat, ScoresHalf or ScoresBytes.
	Form ScoreForm
	// LeftToCPU are nodes of the network that a GPU leaves to the CPU.
	LeftToCPU []Node
	// GPUs are those of the devices, and Pinned says that their driver has pinned the memory that
	// batches lie in.
	GPUs   []GPU
	Pinned bool
	name   string // of a simulated device
}

// Sessions returns the first place of each session: what computes side by side.
func (r *Runners) Sessions() []Runner {
	var all []Runner
	for i := 0; i < len(r.Runners); i += max(1, r.Places) {
		all = append(all, r.Runners[i])
	}
	return all
}

// DeviceNames names the devices as logs and outputs show them; see [DeviceNames].
func (r *Runners) DeviceNames() string {
	if r.name != "" {
		return r.name
	}
	return DeviceNames(r.Devices)
}

// Open loads a network onto the devices asked for. With "auto" it takes the
// first GPU if CUDA can be had and otherwise the CPU, and logs why; a GPU that
// was asked for by name and can't be had is an error.
func Open(net Network, opts Options) (*Runners, error) {
	logger := opts.logger()
	r, err := open(net, opts, logger)
	if err != nil {
		return nil, err
	}
	for i := range r.Runners {
		r.Runners[i] = faulty(r.Runners[i])
	}
	if opts.Record == "" {
		return r, nil
	}
	if err := record(r.Runners, opts.Record, net, r.Unit); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func open(net Network, opts Options, logger *slog.Logger) (*Runners, error) {
	if Simulated(opts.Device) {
		return openSimulated(net, opts, logger)
	}
	library, err := FindLibrary(opts.Library)
	if err != nil {
		return nil, err
	}
	if err := loadLibrary(library); err != nil {
		return nil, err
	}
	if opts.Record != "" && opts.form() != ScoresFloat {
		return nil, fmt.Errorf("scores are recorded as they are computed, in fp32: they can't be asked for in %v as well", opts.Scores)
	}
	if opts.Device != "" && opts.Device != DeviceAuto {
		devices, err := ParseDevices(opts.Device)
		if err != nil {
			return nil, err
		}
		return openOn(net, devices, opts, logger)
	}
	runners, err := openOn(net, []Device{{CUDA: true}}, opts, logger)
	if err == nil {
		return runners, nil
	}
	logger.Info("running on the CPU", slog.String("network", net.Name), slog.String("why_no_gpu", err.Error()))
	return openOn(net, []Device{{}}, opts, logger)
}

// NetworkError is an error about a network and what was asked for of it: another try, or more memory, changes nothing.
type NetworkError struct{ Err error }

// Error returns what Err says.
func (e *NetworkError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NetworkError) Unwrap() error { return e.Err }

// openOn opens all sessions on devices of one kind and checks them.
func openOn(net Network, devices []Device, opts Options, logger *slog.Logger) (*Runners, error) {
	batch, sessions, places := opts.BatchCPU, opts.SessionsCPU, opts.PlacesCPU
	if devices[0].CUDA {
		batch, sessions, places = opts.BatchCUDA, opts.SessionsCUDA, opts.PlacesCUDA
	}
	opts.places = max(1, places)
	if batch < 1 || sessions < 1 {
		return nil, fmt.Errorf("batch size %d and %d sessions per device are not positive", batch, sessions)
	}
	var gpus []GPU
	for _, device := range devices {
		if !device.CUDA {
			continue
		}
		gpu, err := inspectDevice(device, opts.driver())
		if err != nil {
			return nil, err
		}
		gpus = append(gpus, gpu)
	}
	fast, kernels, err := openWithKernels(net, devices, batch, sessions, opts, logger)
	if fast != nil {
		fast.on(gpus)
	}
	if fast != nil || err != nil {
		return fast, err
	}
	opts.Precision = net.asked(opts.Precision)
	var precision Precision
	if net.ONNX, precision, err = net.chosen(devices[0], opts.Precision); err != nil {
		return nil, &NetworkError{err}
	}
	if precision == PrecisionInt8 {
		batch = quantisedBatch
	}
	if err := checkEnds(net); err != nil {
		return nil, &NetworkError{err}
	}
	if net, err = net.inForm(opts.form(), devices[0]); err != nil {
		return nil, &NetworkError{err}
	}
	if devices[0].CUDA && opts.Tune {
		batch = net.fitHost(batch)
	}
	r, err := openBatch(net, devices, batch, sessions, opts, logger)
	if err != nil {
		if len(gpus) > 0 {
			err = explainRun(err, devices[0], gpus[0])
		}
		return nil, err
	}
	r.Precision, r.Kernels, r.Form = precision, kernels, net.form.kind
	r.on(gpus)
	return r, nil
}

// on notes the GPUs.
func (r *Runners) on(gpus []GPU) {
	r.GPUs, r.Pinned = gpus, len(gpus) > 0 && r.Runners[0].(*session).out.pinned()
}

// mostScores is how many bytes of the host's memory the scores of a batch take at most, where its
// size is not asked for.
const mostScores = 2 << 30

// fitHost returns a batch, or half of it and so on, whose scores fit into the host's memory.
func (n Network) fitHost(batch int) int {
	for batch > 1 && batch*n.Frames*n.Classes*n.form.size() > mostScores {
		batch /= 2
	}
	return batch
}

// form returns the form in which scores are asked for. What is recorded is floats.
func (o Options) form() ScoreForm {
	if o.Record != "" && o.Scores == ScoresAuto {
		return ScoresFloat
	}
	return o.Scores
}

// openBatch opens all sessions with a batch, or a smaller one that fits.
func openBatch(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (*Runners, error) {
	if !devices[0].CUDA || !opts.Tune {
		return openAll(net, devices, batch, sessions, opts, logger)
	}
	return fitting(batch, func(batch int) (*Runners, error) {
		r, err := openAll(net, devices, batch, sessions, opts, logger)
		if err != nil {
			return nil, err
		}
		if err := r.fill(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		return r, nil
	}, func(batch int, why error) {
		logger.Info("the device has not enough memory for a batch: trying half of it", slog.String("network", net.Name),
			slog.String("device", DeviceNames(devices)), slog.Int("batch", batch), slog.String("error", why.Error()))
	})
}

// fitting opens runners with a batch, or half of it, or half of that, until the devices
// have memory for it. refused is called with each batch for which they haven't.
func fitting(batch int, open func(batch int) (*Runners, error), refused func(batch int, why error)) (*Runners, error) {
	for ; ; batch /= 2 {
		r, err := open(batch)
		if err == nil || batch == 1 || !OutOfMemory(err) {
			return r, err
		}
		refused(batch, err)
	}
}

// fill has every runner compute a whole batch. A session keeps the device memory that
// it takes for that, so they fit beside each other from then on.
func (r *Runners) fill() error {
	for _, runner := range r.Runners {
		for row := range r.Batch {
			fillProbe(runner.Input(row), row)
		}
		if _, err := runner.Run(r.Batch, len(runner.Input(0))); err != nil {
			return fmt.Errorf("trying batches of %d windows: %w", r.Batch, err)
		}
	}
	return nil
}

// openAll opens the sessions with a batch.
func openAll(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (*Runners, error) {
	r := &Runners{Devices: devices, Batch: batch, Padded: devices[0].CUDA && !net.independent, Places: opts.places}
	if err := r.openSessions(net, sessions, batch, opts, logger); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if err := r.check(net); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if opts.Tune && !devices[0].CUDA {
		if err := r.tuneBatch(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

// check runs the network once, so that one that doesn't fit its description is
// refused here and not in the middle of a run, and finds out whether batches
// have to be padded.
func (r *Runners) check(net Network) error {
	for _, first := range r.Sessions()[:len(r.Devices)] { // of each device
		if r.Padded {
			break
		}
		independent, err := rowsIndependent(first, net, r.Batch)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", net.Name, err)
		}
		r.Padded = !independent
	}
	for _, runner := range r.Runners {
		runner.(*session).fixed = r.Padded
	}
	r.Unit = r.unit(r.Runners[0], net)
	if r.Padded {
		independent, err := rowsIndependent(r.Runners[0], net, r.Batch)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", net.Name, err)
		}
		if !independent {
			return &NetworkError{fmt.Errorf("network %s on %s: the result of a window depends on its place in the batch", net.Name, r.Devices[0])}
		}
	}
	return nil
}

// unit returns the network's unit if a runner computes windows as short as that, each by itself; 0 where windows have no more.
func (r *Runners) unit(first Runner, net Network) int {
	if net.Unit == 0 || net.Unit >= net.Samples || r.Padded || r.Devices[0].CUDA || net.form.kind != ScoresFloat {
		return 0
	}
	shorter := net
	shorter.Samples, shorter.Frames = net.Unit, net.framesOf(net.Unit)
	// An error is that of a network whose windows are of one length, as a transformer's.
	if independent, err := rowsIndependent(first, shorter, r.Batch); err != nil || !independent {
		return 0
	}
	return net.Unit
}

// rowsIndependent reports whether a window has the same scores, bit for bit, alone
// and in batches of other sizes at other places among other windows. Which code a
// runtime uses for a matrix goes by shape and not by content, so one window per
// shape is enough to know.
func rowsIndependent(r Runner, net Network, batch int) (bool, error) {
	want := make([]float32, net.Frames*(net.Classes+1))
	have := make([]float32, len(want))
	sizes := []int{1, 3, batch}
	slices.Sort(sizes)
	first := true
	for _, rows := range slices.Compact(sizes) {
		if rows < 1 || rows > batch {
			continue
		}
		place := rows / 2
		for row := range rows {
			fillProbe(r.Input(row)[:net.Samples], row-place)
		}
		if _, err := r.Run(rows, net.Samples); err != nil {
			return false, err
		}
		w := r.Scores(place)
		if first {
			copyAll(want, w)
			first = false
			continue
		}
		copyAll(have, w)
		for i := range have {
			if math.Float32bits(have[i]) != math.Float32bits(want[i]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// copyAll writes the scores of a window to dst, and behind them the sums of frames, or the probabilities of
// what is decoded, if there are any: in eight bits most scores are the same although they differ.
func copyAll(dst []float32, w scores.Window) {
	w.Copy(dst)
	for frame := range w.Frames {
		switch {
		case w.Sums != nil:
			dst[w.Frames*w.Classes+frame] = w.Sums[frame*w.SumStride]
		case w.Path != nil:
			dst[w.Frames*w.Classes+frame] = w.Probabilities[frame]
		}
	}
}

// fillProbe fills a window with noise of the range of a normalised signal, the
// same for the same seed.
func fillProbe(x []float32, seed int) {
	state := uint32(seed)*2654435761 + 1
	for i := range x {
		state = state*1664525 + 1013904223
		x[i] = float32(state>>8)/(1<<22) - 2
	}
}

// Close releases all runners.
func (r *Runners) Close() error {
	var err error
	for _, runner := range r.Runners {
		err = errors.Join(err, runner.Close())
	}
	return err
}
