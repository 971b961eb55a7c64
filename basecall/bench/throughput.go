package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/bench/gpu"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/stat"
)

// Throughput is how fast reads are called.
type Throughput struct {
	Model  string `json:"model"`
	Device string `json:"device"`
	// Precision is what the network computes in: fp32, fp16 or int8.
	Precision string `json:"precision"`
	// Scores is the form in which scores leave the network: fp32, fp16 or int8.
	Scores   string `json:"scores"`
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
	// The same of samples of reads, without those that windows share and are padded with: what a
	// user has of the bare network's speed.
	ReadsOverBare    float64 `json:"reads_over_bare"`
	ReadsOverBareCPU float64 `json:"reads_over_bare_cpu_time"`

	// Bases that the engine calls in a round, and per second of the median round.
	Bases    int64   `json:"bases"`
	BaseRate float64 `json:"bases_per_s"`

	// GPU is what the GPUs did while the engine ran; nil without GPUs to ask.
	GPU *GPUUsage `json:"gpu,omitempty"`
}

// GPUUsage is what GPUs do while an engine runs on them. What the driver doesn't
// report is nil.
type GPUUsage struct {
	Utilisation       *float64 `json:"utilisation,omitempty"` // share of the time in which they compute, mean
	Watts             *float64 `json:"watts,omitempty"`       // of all, mean
	JoulesPerMegabase *float64 `json:"joules_per_megabase,omitempty"`
}

// Effort says how long throughput is measured.
type Effort struct {
	// Rounds is how often; at least 1.
	Rounds int
	// Round is the least time that a round of the engine takes: the reads are called
	// several times in a row for it. 0: two seconds on a GPU, which finishes reads
	// that keep a CPU busy before its utilisation can be read, and once on a CPU.
	Round time.Duration
	// Batches is how many batches a session computes in a round at least; 0: it doesn't
	// matter. With few of them the first and the last, during which a session waits,
	// are much of the round.
	Batches int
	// GPUs are asked for their energy and utilisation; nil: nothing is asked.
	GPUs []gpu.Counters
}

// roundGPU is a round's least time on a GPU.
const roundGPU = 2 * time.Second

// MeasureThroughput calls the reads a number of times, in turns with as many
// windows of noise through the bare network: the same model, device, batch and
// sessions, and nothing else.
func MeasureThroughput(ctx context.Context, model *basecall.Model, cfg basecall.Config, reads []basecall.Read, effort Effort) (t Throughput, err error) {
	if len(reads) == 0 || effort.Rounds < 1 {
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

	samples, windowSamples := 0, 0
	for _, read := range reads {
		samples += len(read.Samples)
		windowSamples += c.WindowSamples(len(read.Samples))
	}
	// The bare network computes whole windows of as many samples.
	window := model.Manifest.Window.Samples
	windows := (windowSamples + window/2) / window
	if windows == 0 {
		return Throughput{}, errors.New("measuring throughput: the reads are too short for a window")
	}
	capacity := len(bare.Sessions()) * bare.Batch
	if effort.Round == 0 && strings.HasPrefix(c.Device(), "cuda") {
		effort.Round = roundGPU
	}
	l := load{caller: c, reads: reads, times: 1, together: c.SideBySide(samples / len(reads))}
	if l.times, err = effort.times(ctx, l, windows, capacity); err != nil {
		return Throughput{}, err
	}
	t = Throughput{
		Model: model.Manifest.Name, Device: c.Device(), Precision: c.Precision().String(), Scores: c.Path().Scores, Cores: Cores(), Sessions: len(bare.Sessions()), Batch: bare.Batch, Rounds: effort.Rounds,
		ReadSamples: samples * l.times, WindowSamples: windowSamples * l.times,
	}
	var used gpu.Usage
	warm := false
	engine := func() (err error) {
		if !warm || len(effort.GPUs) == 0 {
			warm = true
			t.Bases, err = l.call(ctx)
			return err
		}
		u, err := gpu.Measure(effort.GPUs, func() (err error) {
			t.Bases, err = l.call(ctx)
			return err
		})
		used.Add(u)
		return err
	}
	bareWindows := (windowSamples*l.times + window/2) / window
	d, err := Compare(effort.Rounds, engine, func() error { return RunBare(ctx, bare, bareWindows) })
	if err != nil {
		return Throughput{}, err
	}
	t.ReadRate = float64(t.ReadSamples) / d.Engine
	t.BaseRate = float64(t.Bases) / d.Engine
	t.EngineRate = float64(t.WindowSamples) / d.Engine
	t.BareRate = float64(bareWindows*window) / d.Bare
	// What both compute differs by half a window at most.
	same := float64(t.WindowSamples) / float64(bareWindows*window)
	t.EngineOverBare, t.EngineOverBareCPU = d.EngineOverBare*same, d.EngineOverBareCPU*same
	share := float64(t.ReadSamples) / float64(t.WindowSamples)
	t.ReadsOverBare, t.ReadsOverBareCPU = t.EngineOverBare*share, t.EngineOverBareCPU*share
	if len(effort.GPUs) > 0 {
		t.GPU = newGPUUsage(used, t.Bases*int64(effort.Rounds))
	}
	return t, nil
}

// newGPUUsage is what was used for so many bases.
func newGPUUsage(used gpu.Usage, bases int64) *GPUUsage {
	return &GPUUsage{
		Utilisation:       known(used.Utilisation),
		Watts:             known(used.Watts()),
		JoulesPerMegabase: known(used.Joules / (float64(bases) / 1e6)),
	}
}

// known returns nil for what is no finite number.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// times returns how often the reads are to be called in a round.
func (e Effort) times(ctx context.Context, l load, windows, capacity int) (int, error) {
	times := max(1, (e.Batches*capacity+windows-1)/windows)
	if e.Round <= 0 {
		return times, nil
	}
	l.times = times
	for again := range 2 { // the first batches are slow
		begin := time.Now()
		if _, err := l.call(ctx); err != nil {
			return 0, err
		}
		if took := time.Since(begin); again > 0 {
			return timesFor(e.Round, took, times), nil
		} else if took >= 2*e.Round {
			break
		}
	}
	return times, nil
}

// timesFor returns how often to call what took some time for a number of times, so
// that it takes at least round.
func timesFor(round, took time.Duration, times int) int {
	took = max(took, time.Millisecond)
	return max(times, int(math.Ceil(float64(times)*float64(round)/float64(took))))
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
	for _, values := range [][]float64{engineTimes, bareTimes, ratios, ratiosCPU} {
		slices.Sort(values)
	}
	return Durations{
		Engine: stat.Quantile(engineTimes, 0.5), Bare: stat.Quantile(bareTimes, 0.5),
		EngineOverBare: stat.Quantile(ratios, 0.5), EngineOverBareCPU: stat.Quantile(ratiosCPU, 0.5),
	}, nil
}

// load is what the engine does in a round.
type load struct {
	caller   *basecall.Caller
	reads    []basecall.Read
	times    int // that each of them is called
	together int // reads side by side
}

// call does it, and returns the number of bases.
func (l load) call(ctx context.Context) (int64, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.together)
	var bases atomic.Int64
	for i := range l.times * len(l.reads) {
		group.Go(func() error {
			called, err := l.caller.CallAtLeisure(ctx, l.reads[i%len(l.reads)])
			bases.Add(int64(len(called.Sequence)))
			return err
		})
	}
	err := group.Wait()
	return bases.Load(), err
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
	for _, runner := range bare.Sessions() {
		group.Go(func() error {
			for rows := range batches {
				if err := ctx.Err(); err != nil {
					return err
				}
				if _, err := runner.Run(rows, len(runner.Input(0))); err != nil {
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
