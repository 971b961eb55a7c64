package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
)

// Throughput is how fast reads are called.
type Throughput struct {
	Model    string `json:"model"`
	Device   string `json:"device"`
	Cores    int    `json:"cores"`    // that the process may use
	Sessions int    `json:"sessions"` // copies of the network side by side
	Batch    int    `json:"batch"`    // windows computed together at most
	Rounds   int    `json:"rounds"`

	// Samples of reads and of the reads' windows, which overlap, in a round.
	ReadSamples   int `json:"read_samples"`
	WindowSamples int `json:"window_samples"`

	// Rates of the median round, per second of the clock: samples of reads that the
	// engine calls, with normalising, decoding and joining; and samples of windows of the
	// engine and of the bare network in turns with it.
	ReadRate   float64 `json:"read_samples_per_s"`
	EngineRate float64 `json:"engine_window_samples_per_s"`
	BareRate   float64 `json:"bare_window_samples_per_s"`
	// The engine's rate over the bare network's, by the clock and by processor time:
	// medians of the rounds' ratios. On a busy machine the second means more.
	EngineOverBare    float64 `json:"engine_over_bare"`
	EngineOverBareCPU float64 `json:"engine_over_bare_cpu_time"`
}

// MeasureThroughput calls the reads a number of times, in turns with as many
// windows of noise through the bare network: the same model, device, batch and
// sessions, and nothing else.
func MeasureThroughput(ctx context.Context, model *basecall.Model, cfg basecall.Config, reads []basecall.Read, rounds int) (t Throughput, err error) {
	if len(reads) == 0 || rounds < 1 {
		return Throughput{}, errors.New("measuring throughput: there is no read or no round")
	}
	c, err := basecall.NewCaller(model, cfg)
	if err != nil {
		return Throughput{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	bare, err := c.Copies()
	if err != nil {
		return Throughput{}, err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()

	window := model.Manifest.Window.Samples
	windows := 0
	t = Throughput{
		Model: model.Manifest.Name, Device: c.Device(), Cores: Cores(), Sessions: len(bare.Runners), Batch: bare.Batch, Rounds: rounds,
	}
	for _, read := range reads {
		t.ReadSamples += len(read.Samples)
		windows += model.Manifest.Window.Count(len(read.Samples), model.Manifest.Network.Stride)
	}
	t.WindowSamples = windows * window
	engine := func() error { return callAll(ctx, c, reads) }
	d, err := Compare(rounds, engine, func() error { return RunBare(ctx, bare, windows) })
	if err != nil {
		return Throughput{}, err
	}
	t.ReadRate = float64(t.ReadSamples) / d.Engine
	t.EngineRate = float64(t.WindowSamples) / d.Engine
	t.BareRate = float64(t.WindowSamples) / d.Bare
	t.EngineOverBare, t.EngineOverBareCPU = d.EngineOverBare, d.EngineOverBareCPU
	return t, nil
}

// Durations are how long an engine and the bare network take for the same.
type Durations struct {
	Engine, Bare float64 // seconds by the clock, medians of the rounds
	// EngineOverBare is how fast the engine is in units of the bare network's speed,
	// by the clock and by processor time: medians of the rounds' ratios.
	EngineOverBare, EngineOverBareCPU float64
}

// Compare measures what an engine and the bare network take, in turns, after each
// has run once.
func Compare(rounds int, engine, bare func() error) (Durations, error) {
	if err := errors.Join(engine(), bare()); err != nil { // what is slow only the first time
		return Durations{}, err
	}
	var engineTimes, bareTimes, ratios, ratiosCPU []float64
	for range rounds {
		e, err := measure(engine)
		if err != nil {
			return Durations{}, err
		}
		b, err := measure(bare)
		if err != nil {
			return Durations{}, err
		}
		engineTimes, bareTimes = append(engineTimes, e.clock.Seconds()), append(bareTimes, b.clock.Seconds())
		ratios = append(ratios, b.clock.Seconds()/e.clock.Seconds())
		ratiosCPU = append(ratiosCPU, b.cpu.Seconds()/e.cpu.Seconds())
	}
	return Durations{
		Engine: quantile(engineTimes, 0.5), Bare: quantile(bareTimes, 0.5),
		EngineOverBare: quantile(ratios, 0.5), EngineOverBareCPU: quantile(ratiosCPU, 0.5),
	}, nil
}

// callAll calls all reads, some side by side.
func callAll(ctx context.Context, c *basecall.Caller, reads []basecall.Read) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8 * runtime.GOMAXPROCS(0))
	for _, read := range reads {
		group.Go(func() error {
			_, err := c.Call(ctx, read)
			return err
		})
	}
	return group.Wait()
}

// RunBare computes a number of windows in full batches, and the last ones in a
// batch of their own, on all sessions side by side.
func RunBare(ctx context.Context, bare *infer.Runners, windows int) error {
	batches := make(chan int, windows/bare.Batch+1)
	for ; windows > 0; windows -= bare.Batch {
		batches <- min(windows, bare.Batch)
	}
	close(batches)
	group, ctx := errgroup.WithContext(ctx)
	for _, runner := range bare.Runners {
		group.Go(func() error {
			for rows := range batches {
				if err := ctx.Err(); err != nil {
					return err
				}
				if _, err := runner.Run(rows); err != nil {
					return fmt.Errorf("running the bare network: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// cost is what something took.
type cost struct{ clock, cpu time.Duration }

func measure(do func() error) (cost, error) {
	cpu, err := processorTime()
	if err != nil {
		return cost{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return cost{}, err
	}
	clock := time.Since(start)
	after, err := processorTime()
	return cost{clock: clock, cpu: after - cpu}, err
}

// processorTime returns the processor time that this process has taken.
func processorTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
