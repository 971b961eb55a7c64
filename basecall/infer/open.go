package infer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
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
	// Batch is the number of windows that a runner has room for, by kind of
	// device, except in PrecisionInt8, where it is one; and Sessions the number of runners
	// per device.
	BatchCPU, BatchCUDA       int
	SessionsCPU, SessionsCUDA int
	Compute
	// Tune has the batch found by trying: on a CPU one that is as fast as any up to
	// BatchCPU, and on a GPU the first of BatchCUDA, half of it, and so on, for which all
	// sessions have memory.
	Tune bool
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Runners are the open copies of a network.
type Runners struct {
	Runners []Runner
	Devices []Device
	Batch   int // rows that are to be computed together; each has room for them
	// Padded says that partial batches are padded to Batch.
	Padded bool
	// Precision is what the network computes in: PrecisionSingle, PrecisionHalf or
	// PrecisionInt8.
	Precision Precision
	// Kernels says what operators of our own compute.
	Kernels Kernels
	// LeftToCPU are nodes of the network that a GPU leaves to the CPU.
	LeftToCPU []Node
	name      string // of a simulated device
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
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
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
	if err := record(r.Runners, opts.Record, net); err != nil {
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

// openOn opens all sessions on devices of one kind and checks them.
func openOn(net Network, devices []Device, opts Options, logger *slog.Logger) (*Runners, error) {
	batch, sessions := opts.BatchCPU, opts.SessionsCPU
	if devices[0].CUDA {
		batch, sessions = opts.BatchCUDA, opts.SessionsCUDA
	}
	if batch < 1 || sessions < 1 {
		return nil, fmt.Errorf("batch size %d and %d sessions per device are not positive", batch, sessions)
	}
	fast, kernels, err := openWithKernels(net, devices, batch, sessions, opts, logger)
	if fast != nil || err != nil {
		return fast, err
	}
	opts.Precision = net.asked(opts.Precision)
	var precision Precision
	if net.ONNX, precision, err = net.chosen(devices[0], opts.Precision); err != nil {
		return nil, err
	}
	if precision == PrecisionInt8 {
		batch = quantisedBatch
	}
	r, err := openBatch(net, devices, batch, sessions, opts, logger)
	if err != nil {
		return nil, err
	}
	r.Precision, r.Kernels = precision, kernels
	return r, nil
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
// have memory for it. refused is told of those for which they haven't.
func fitting(batch int, open func(batch int) (*Runners, error), refused func(batch int, why error)) (*Runners, error) {
	for ; ; batch /= 2 {
		r, err := open(batch)
		if err == nil || batch == 1 || !OutOfMemory(err) {
			return r, err
		}
		refused(batch, err)
	}
}

// fill has every runner compute a whole batch. What that takes of the device's memory a
// session keeps, so they have room beside each other from then on.
func (r *Runners) fill() error {
	for _, runner := range r.Runners {
		for row := range r.Batch {
			fillProbe(runner.Input(row), row)
		}
		if _, err := runner.Run(r.Batch); err != nil {
			return fmt.Errorf("trying batches of %d windows: %w", r.Batch, err)
		}
	}
	return nil
}

// openAll opens the sessions with a batch.
func openAll(net Network, devices []Device, batch, sessions int, opts Options, logger *slog.Logger) (*Runners, error) {
	r := &Runners{Devices: devices, Batch: batch, Padded: devices[0].CUDA}
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
	first := r.Runners[0].(*session)
	if !r.Padded {
		independent, err := rowsIndependent(first, net, r.Batch)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", net.Name, err)
		}
		r.Padded = !independent
	}
	for _, runner := range r.Runners {
		runner.(*session).fixed = r.Padded
	}
	if r.Padded {
		independent, err := rowsIndependent(first, net, r.Batch)
		if err != nil {
			return fmt.Errorf("trying network %s: %w", net.Name, err)
		}
		if !independent {
			return fmt.Errorf("network %s on %s: the result of a window depends on its place in the batch", net.Name, r.Devices[0])
		}
	}
	return nil
}

// rowsIndependent reports whether a window has the same scores, bit for bit, alone
// and in batches of other sizes at other places among other windows. Which code a
// runtime uses for a matrix goes by shape and not by content, so one window per
// shape tells.
func rowsIndependent(r Runner, net Network, batch int) (bool, error) {
	want := make([]float32, net.Frames*net.Classes)
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
			fillProbe(r.Input(row), row-place)
		}
		if _, err := r.Run(rows); err != nil {
			return false, err
		}
		if first {
			r.Output(place, want)
			first = false
			continue
		}
		r.Output(place, have)
		for i := range have {
			if math.Float32bits(have[i]) != math.Float32bits(want[i]) {
				return false, nil
			}
		}
	}
	return true, nil
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
