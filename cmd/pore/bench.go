package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/bench"
	"github.com/porestream/porestream/basecall/bench/gpu"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
)

func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the engines on this machine",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(benchBasecallCommand(), benchAgreementCommand(), benchLatencyCommand(), benchScoringCommand(), benchWatchingCommand())
	return cmd
}

// benchFlags are what the benchmarks have in common.
type benchFlags struct {
	engines  processor.Flags
	log      cli.LogFlags
	samples  int
	batch    int
	sessions int
	json     bool
}

func (f *benchFlags) register(flags *pflag.FlagSet, samples int) {
	flags.StringVar(&f.engines.Model, "model", "", "basecalling model, by name or folder")
	flags.StringVar(&f.engines.Device, "device", "auto", "auto, cpu, cuda or cuda:N[,N...]")
	flags.StringVar(&f.engines.Library, "ort-lib", "", "ONNX Runtime library; else the environment variable ORT_LIB")
	f.engines.RegisterCompute(flags)
	flags.IntVar(&f.batch, "batch", 0, "windows computed together; 0 chooses by device, and in int8 it is 1")
	flags.IntVar(&f.sessions, "sessions", 0, "copies of the network per device; 0 chooses by device")
	flags.IntVar(&f.samples, "samples", samples, "take reads of about so many samples from the recording")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.log.Register(flags, slog.LevelWarn)
}

func (f *benchFlags) config(logger *slog.Logger) basecall.Config {
	return basecall.Config{Device: f.engines.Device, Compute: f.engines.Compute, Library: f.engines.Library, Batch: f.batch, Sessions: f.sessions, Logger: logger}
}

// open loads the model and reads of the recordings.
func (f *benchFlags) open(ctx context.Context, paths []string) (*basecall.Model, []basecall.Read, *slog.Logger, error) {
	logger, err := f.log.Logger(os.Stderr)
	if err != nil {
		return nil, nil, nil, err
	}
	model, err := models.Open(f.engines.Model)
	if err != nil {
		return nil, nil, nil, err
	}
	recording, err := signal.NewIndex(ctx, paths)
	if err != nil {
		return nil, nil, nil, err
	}
	defer recording.Close()
	if err := processor.CheckModel(recording, model, f.engines.Model != "", ""); err != nil {
		return nil, nil, nil, err
	}
	var reads []basecall.Read
	total := 0
	for i := 0; i < recording.Len() && total < f.samples; i++ {
		samples, err := recording.Samples(i, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		entry := recording.Entry(i)
		reads = append(reads, basecall.Read{ID: entry.ID, Samples: samples, SampleRate: entry.Run.SampleRate, Calibration: entry.Calibration})
		total += len(samples)
	}
	if total == 0 {
		return nil, nil, nil, errors.New("the recording has no signal: nothing can be measured")
	}
	return model, reads, logger, nil
}

// basecallBench holds the settings of pore bench basecall.
type basecallBench struct {
	effort  bench.Effort
	scaling *bool // nil: on a CPU
	sweep   *bool // nil: on a GPU
	batches []int // of the sweep; empty: chosen by device
}

func benchBasecallCommand() *cobra.Command {
	var f benchFlags
	var b basecallBench
	var scaling, sweep bool
	cmd := &cobra.Command{
		Use:   "basecall SIGNAL...",
		Short: "Throughput of the engine against the bare network, with cores and with batch sizes",
		Long: `Calls reads of POD5 and BLOW5 files again and again, in turns with as many windows
through the bare network: the same model, device, batch and sessions. On a CPU it
does so on one core, too (--scaling); on a GPU it tries batches of doubling size until
the memory is used up (--sweep), and reports the GPU's utilisation and the energy for a
million bases by the driver's counters: docs/operate/devices.md.`,
		Example: `  pore bench basecall --rounds 5 reads.pod5
  pore bench basecall --device cuda:0 --sweep-batches 256,512,1024 reads.pod5`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.effort.Rounds < 1 || b.effort.Round < 0 {
				return cli.Usagef("--rounds is to be at least 1, and --round-time not negative")
			}
			for i, size := range b.batches {
				if size < 1 || i > 0 && size <= b.batches[i-1] {
					return cli.Usagef("--sweep-batches %v: want sizes of at least 1, each larger than the one before", b.batches)
				}
			}
			if cmd.Flags().Changed("scaling") {
				b.scaling = &scaling
			}
			if cmd.Flags().Changed("sweep") {
				b.sweep = &sweep
			} else if len(b.batches) > 0 {
				b.sweep = new(bool)
				*b.sweep = true
			}
			model, reads, logger, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if f.json {
				report, err := b.run(cmd.Context(), model, reads, f.config(logger), io.Discard)
				if err != nil {
					return err
				}
				return printJSON(w, report)
			}
			_, err = b.run(cmd.Context(), model, reads, f.config(logger), w)
			return err
		},
	}
	flags := cmd.Flags()
	f.register(flags, 2_000_000)
	flags.IntVar(&b.effort.Rounds, "rounds", 5, "how often; the medians are reported")
	flags.DurationVar(&b.effort.Round, "round-time", 0, "least time of a round, for which reads are called again; 0: 2s on a GPU, and all reads once on a CPU")
	flags.BoolVar(&scaling, "scaling", false, "measure on one core, too; without it on a CPU only")
	flags.BoolVar(&sweep, "sweep", false, "measure with batches of several sizes; without it on a GPU only")
	flags.IntSliceVar(&b.batches, "sweep-batches", nil, "sizes of batches for a sweep, growing; without it doubling from 32 to 8192 on a GPU, and from 1 to 32 on a CPU")
	return cmd
}

// basecallReport is what pore bench basecall prints.
type basecallReport struct {
	All bench.Throughput  `json:"all_cores"`
	One *bench.Throughput `json:"one_core,omitempty"`
	// Scaling is the read rate on all cores over that on one.
	Scaling float64      `json:"scaling,omitempty"`
	Sweep   []bench.Step `json:"sweep,omitempty"`
	// GPU names the GPUs whose counters were read, and NoCounters says why none were.
	GPU        *gpu.Description `json:"gpu,omitempty"`
	NoCounters string           `json:"no_gpu_counters,omitempty"`
}

// run measures, and writes results to w as they come.
func (b basecallBench) run(ctx context.Context, model *basecall.Model, reads []basecall.Read, cfg basecall.Config, w io.Writer) (basecallReport, error) {
	var r basecallReport
	var err error
	if r.All, err = bench.MeasureThroughput(ctx, model, cfg, reads, b.effort); err != nil {
		if infer.OutOfMemory(err) {
			err = fmt.Errorf("%w; a smaller --batch or --sessions 1 may fit", err)
		}
		return r, err
	}
	printThroughput(w, r.All)
	devices, _ := infer.ParseDevices(r.All.Device) // of a simulated one: none
	onGPU := len(devices) > 0 && devices[0].CUDA
	if chosen(b.scaling, !onGPU) && runtime.GOMAXPROCS(0) > 1 {
		err := bench.OnCores(1, func() error {
			one, err := bench.MeasureThroughput(ctx, model, cfg, reads, b.effort)
			r.One = &one
			return err
		})
		if err != nil {
			return r, err
		}
		r.Scaling = r.All.ReadRate / r.One.ReadRate
		printThroughput(w, *r.One)
		fmt.Fprintf(w, "%d cores over one: %.2f\n", r.All.Cores, r.Scaling)
	}
	if !chosen(b.sweep, onGPU) {
		return r, nil
	}
	cfg.Device = r.All.Device
	return r, b.runSweep(ctx, model, reads, cfg, devices, &r, w)
}

// chosen is the requested value, or else the default.
func chosen(asked *bool, usual bool) bool {
	if asked != nil {
		return *asked
	}
	return usual
}

// sweepBatches is how many batches each session computes in a round of a sweep at least.
const sweepBatches = 4

func (b basecallBench) runSweep(ctx context.Context, model *basecall.Model, reads []basecall.Read, cfg basecall.Config, devices []infer.Device, r *basecallReport, w io.Writer) error {
	effort := b.effort
	effort.Batches = sweepBatches
	batches := b.batches
	if len(batches) == 0 {
		batches = bench.Doubling(1, 32)
	}
	if len(devices) > 0 && devices[0].CUDA {
		if len(b.batches) == 0 {
			batches = bench.Doubling(32, 8192)
		}
		var indexes []int
		for _, d := range devices {
			indexes = append(indexes, d.Index)
		}
		if driver, err := gpu.Open(indexes); err != nil {
			r.NoCounters = err.Error()
		} else {
			effort.GPUs = driver.Counters()
			about := driver.Description()
			r.GPU = &about
		}
	} else {
		r.NoCounters = "not on a GPU"
	}
	fmt.Fprintln(w)
	if r.GPU != nil {
		fmt.Fprintf(w, "%s; driver %s, CUDA up to %s\n\n", strings.Join(r.GPU.GPUs, ", "), r.GPU.Driver, r.GPU.CUDA)
	} else {
		fmt.Fprintf(w, "GPU, W and J/Mbase are not known: %s\n\n", r.NoCounters)
	}
	fmt.Fprintln(w, sweepHead)
	return bench.Sweep(ctx, model, cfg, reads, effort, batches, func(s bench.Step) {
		r.Sweep = append(r.Sweep, s)
		printStep(w, s)
	})
}

func printThroughput(w io.Writer, t bench.Throughput) {
	fmt.Fprintf(w, "%s on %s in %s, %d cores, %d sessions, batch %d: %.0f samples/s of reads; engine %.0f, bare network %.0f samples/s of windows: %.3f (%.3f by processor time), of reads over windows %.3f (%.3f)\n",
		t.Model, t.Device, t.Precision, t.Cores, t.Sessions, t.Batch, t.ReadRate, t.EngineRate, t.BareRate, t.EngineOverBare, t.EngineOverBareCPU, t.ReadsOverBare, t.ReadsOverBareCPU)
}

// sweepHead heads the table of a sweep, which is Markdown.
const sweepHead = `| batch | reads, samples/s | engine, samples/s | bare session, samples/s | share | Mbases/s |   GPU |     W | J/Mbase |
|------:|-----------------:|------------------:|------------------------:|------:|---------:|------:|------:|--------:|`

// printStep writes a row of that table. Engine and bare session are given in samples of
// windows, which overlap.
func printStep(w io.Writer, s bench.Step) {
	t := s.Throughput
	if t == nil {
		fmt.Fprintf(w, "| %5d | not enough memory on the device: %s |\n", s.Batch, s.OutOfMemory)
		return
	}
	var use bench.GPUUsage
	if t.GPU != nil {
		use = *t.GPU
	}
	cell := func(v *float64, scale float64, format string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v*scale)
	}
	fmt.Fprintf(w, "| %5d | %16.0f | %17.0f | %23.0f | %5.3f | %8.3f | %5s | %5s | %7s |\n", s.Batch, t.ReadRate, t.EngineRate, t.BareRate,
		t.EngineOverBare, t.BaseRate/1e6, cell(use.Utilisation, 100, "%.0f %%"), cell(use.Watts, 1, "%.0f"), cell(use.JoulesPerMegabase, 1, "%.1f"))
}

func benchLatencyCommand() *cobra.Command {
	var f benchFlags
	var cfg bench.LatencyConfig
	var load float64
	cmd := &cobra.Command{
		Use:   "latency SIGNAL...",
		Short: "Time from a read's last signal to its finished call, at the sequencer's pace",
		Long: `Plays reads of POD5 and BLOW5 files on many channels as a sequencer would, each
channel read after read without a pause, and takes the time from a read's last
chunk to its finished call. Without --channels there are as many as --load of the
engine's throughput, measured first, keeps up with.`,
		Example: `  pore bench latency reads.pod5
  pore bench latency --channels 512 --duration 1m --json reads.pod5`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(load > 0 && load <= 1) {
				return cli.Usagef("--load %v is not above 0 and at most 1", load)
			}
			if cfg.Chunk < time.Millisecond || cfg.Duration < time.Second || cfg.Channels < 0 {
				return cli.Usagef("--chunk is to be 1ms, --duration 1s or more, and --channels not negative")
			}
			model, reads, logger, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			report, err := benchLatency(cmd.Context(), model, reads, f.config(logger), cfg, load)
			if err != nil {
				return err
			}
			return report.print(cmd.OutOrStdout(), f.json)
		},
	}
	f.register(cmd.Flags(), 4_000_000)
	cmd.Flags().IntVar(&cfg.Channels, "channels", 0, "channels that sequence; 0 finds how many the machine keeps up with")
	cmd.Flags().Float64Var(&load, "load", 0.7, "share of the engine's throughput to use, without --channels")
	cmd.Flags().DurationVar(&cfg.Chunk, "chunk", time.Second, "signal in one chunk")
	cmd.Flags().DurationVar(&cfg.Duration, "duration", 30*time.Second, "for how long to play")
	return cmd
}

// latencyReport is what pore bench latency prints.
type latencyReport struct {
	bench.Latency

	// ReadRate is the engine's throughput, if it was measured for the load.
	ReadRate float64 `json:"engine_read_samples_per_s,omitempty"`
	Load     float64 `json:"load,omitempty"`
}

func benchLatency(ctx context.Context, model *basecall.Model, reads []basecall.Read, caller basecall.Config, cfg bench.LatencyConfig, load float64) (r latencyReport, err error) {
	if cfg.Channels == 0 {
		t, err := bench.MeasureThroughput(ctx, model, caller, reads, bench.Effort{Rounds: 1})
		if err != nil {
			return r, err
		}
		r.ReadRate, r.Load = t.ReadRate, load
		cfg.Channels = max(1, int(math.Floor(load*t.ReadRate/float64(reads[0].SampleRate))))
	}
	c, err := basecall.NewCaller(model, caller)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r.Latency, err = bench.MeasureLatency(ctx, c, reads, cfg)
	return r, err
}

func (r latencyReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	if r.ReadRate > 0 {
		fmt.Fprintf(w, "engine: %.0f samples/s of reads\n", r.ReadRate)
	}
	_, err := fmt.Fprintf(w, "%s on %s, %d cores: %d channels, %.0f samples/s; %d reads: median %.0f ms, 90 %% %.0f ms, 99 %% %.0f ms, longest %.0f ms from the last chunk to the call\n",
		r.Model, r.Device, r.Cores, r.Channels, r.SamplesPerS, r.Reads, r.P50, r.P90, r.P99, r.Max)
	return err
}
