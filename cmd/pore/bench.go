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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/bench"
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
	cmd.AddCommand(benchBasecallCommand(), benchLatencyCommand(), benchJudgeCommand(), benchWatchingCommand())
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
	flags.IntVar(&f.batch, "batch", 0, "windows computed together; 0 chooses by device")
	flags.IntVar(&f.sessions, "sessions", 0, "copies of the network per device; 0 chooses by device")
	flags.IntVar(&f.samples, "samples", samples, "take reads of about so many samples from the recording")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	f.log.Register(flags, slog.LevelWarn)
}

func (f *benchFlags) config(logger *slog.Logger) basecall.Config {
	return basecall.Config{Device: f.engines.Device, Library: f.engines.Library, Batch: f.batch, Sessions: f.sessions, Logger: logger}
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
	if err := processor.CheckModel(recording, model, f.engines.Model != ""); err != nil {
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

func benchBasecallCommand() *cobra.Command {
	var f benchFlags
	var rounds int
	var scaling bool
	cmd := &cobra.Command{
		Use:   "basecall SIGNAL...",
		Short: "Throughput of the engine against the bare network, and with cores",
		Long: `Calls reads of POD5 and BLOW5 files again and again, in turns with as many windows
through the bare network: the same model, device, batch and sessions. With
--scaling it does so on one core and on all of them.`,
		Example: `  pore bench basecall --rounds 5 reads.pod5`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			model, reads, logger, err := f.open(cmd.Context(), args)
			if err != nil {
				return err
			}
			report, err := benchBasecall(cmd.Context(), model, reads, f.config(logger), rounds, scaling)
			if err != nil {
				return err
			}
			return report.print(cmd.OutOrStdout(), f.json)
		},
	}
	f.register(cmd.Flags(), 2_000_000)
	cmd.Flags().IntVar(&rounds, "rounds", 5, "how often; the medians are told")
	cmd.Flags().BoolVar(&scaling, "scaling", true, "measure on one core, too")
	return cmd
}

// basecallReport is what pore bench basecall prints.
type basecallReport struct {
	All bench.Throughput  `json:"all_cores"`
	One *bench.Throughput `json:"one_core,omitempty"`
	// Scaling is the read rate on all cores over that on one.
	Scaling float64 `json:"scaling,omitempty"`
}

func benchBasecall(ctx context.Context, model *basecall.Model, reads []basecall.Read, cfg basecall.Config, rounds int, scaling bool) (basecallReport, error) {
	var r basecallReport
	var err error
	if r.All, err = bench.MeasureThroughput(ctx, model, cfg, reads, rounds); err != nil || !scaling || runtime.GOMAXPROCS(0) == 1 {
		return r, err
	}
	err = bench.OnCores(1, func() error {
		one, err := bench.MeasureThroughput(ctx, model, cfg, reads, rounds)
		r.One = &one
		return err
	})
	if err == nil {
		r.Scaling = r.All.ReadRate / r.One.ReadRate
	}
	return r, err
}

func (r basecallReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	for _, t := range []*bench.Throughput{&r.All, r.One} {
		if t == nil {
			continue
		}
		fmt.Fprintf(w, "%s on %s, %d cores, %d sessions, batch %d: %.0f samples/s of reads; engine %.0f, bare network %.0f samples/s of windows: %.3f (%.3f by processor time)\n",
			t.Model, t.Device, t.Cores, t.Sessions, t.Batch, t.ReadRate, t.EngineRate, t.BareRate, t.EngineOverBare, t.EngineOverBareCPU)
	}
	if r.One != nil {
		fmt.Fprintf(w, "%d cores over one: %.2f\n", r.All.Cores, r.Scaling)
	}
	return nil
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
		t, err := bench.MeasureThroughput(ctx, model, caller, reads, 1)
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
