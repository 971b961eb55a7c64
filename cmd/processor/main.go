// Command processor runs the stages of the stream: it basecalls signal, calls
// variants from the reads, annotates the calls and holds samples against panels,
// consuming from and producing to Kafka. Start as many as there is work for;
// partitions are shared out between them. internal/processor/wire.go shows the
// flow.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	alignstage "github.com/porestream/porestream/align/stage"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/livepage"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/internal/tracing"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	variantstage "github.com/porestream/porestream/variant/stage"
)

func main() { os.Exit(cli.Main(program())) }

func program() *cobra.Command { return cli.Program(command(), processor.Parts()...) }

type config struct {
	kafka    cli.KafkaFlags
	engines  processor.Flags
	stream   processor.Stream
	log      cli.LogFlags
	trace    tracing.Flags
	profile  ops.ProfileFlags
	controls processor.Controls
	stages   string
	group    string
	// memberships is the path of the file of memberships; "" for none.
	memberships string
	listen      string
	page        livepage.Flags
	reports     livepage.ReportFlags
	partitions  int
}

// stopGrace is what stopping may take besides draining: last commits, leaving
// the groups, releasing devices.
const stopGrace = 15 * time.Second

func command() *cobra.Command {
	var cfg config
	cmd := &cobra.Command{
		Use:   "processor --brokers HOST:PORT --ref FASTA [--gff GFF3] [--panel YAML]",
		Short: "Basecall, call variants and annotate, from Kafka to Kafka",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Draining is bounded; should something in it hang all the same, an end is
			// made of it.
			defer context.AfterFunc(cmd.Context(), func() {
				time.AfterFunc(cfg.stream.DrainTimeout+stopGrace, func() {
					cli.Exit(cmd, fmt.Sprintf("not stopped within %v", cfg.stream.DrainTimeout+stopGrace))
				})
			})()
			return cli.Stopped(cmd.Context(), run(cmd.Context(), cfg))
		},
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.engines.Register(flags)
	cfg.engines.Adaptive.Register(flags)
	cfg.controls.Register(flags)
	cfg.stream.Register(flags)
	cfg.log.Register(flags, slog.LevelInfo)
	cfg.trace.Register(flags)
	cfg.profile.Register(flags)
	flags.StringVar(&cfg.stages, "stages", "", "stages to run, comma-separated: basecall, align, variant, annotate, with --panel watch, and with --adaptive adaptive (default all)")
	flags.StringVar(&cfg.group, "group", "porestream", "prefix of the consumer groups")
	flags.StringVar(&cfg.memberships, "memberships", "", "file of this processor alone with its memberships: killed and started again with it, it goes on at once, not only after --session-timeout")
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9102", "address of the live page, /healthz, /readyz and /metrics")
	cfg.page.Register(flags)
	cfg.reports.Register(flags)
	flags.IntVar(&cfg.partitions, "partitions", 0, "partitions that the topics must have; if not given, existing topics may have any number and new ones get 12")
	return cmd
}

func run(ctx context.Context, cfg config) error {
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	opts, err := cfg.options()
	if err != nil {
		return err
	}
	token, err := cfg.page.Token()
	if err != nil {
		return err
	}
	var memberships *kafka.Memberships
	if cfg.memberships != "" {
		if memberships, err = kafka.OpenMemberships(cfg.memberships); err != nil {
			return err
		}
		defer func() { _ = memberships.Close() }() // what is in it has been written
	}
	reg := ops.NewRegistry(cli.Version)
	tracer, stopTracing, err := cfg.trace.Start(ctx, "porestream-processor", reg, logger)
	if err != nil {
		return err
	}
	defer stopTracing()
	kafkaConfig, err := cfg.kafka.Config(logger, reg)
	if err != nil {
		return err
	}
	client, err := kafka.Connect(ctx, kafkaConfig)
	if err != nil {
		return err
	}
	defer client.Close()
	opts.Registerer, opts.Logger = reg, logger
	engines, err := processor.Load(ctx, opts)
	if err != nil {
		return err
	}
	defer func() {
		if err := engines.Close(); err != nil {
			logger.Warn("closing the engines", "err", err)
		}
	}()
	work := processor.Config{
		Topics: stream.NewTopics(cfg.kafka.Prefix), Group: cfg.kafka.Prefix + cfg.group, Stream: cfg.stream, Memberships: memberships, Logger: logger, Tracer: tracer,
	}
	return cfg.process(ctx, client, engines, work, reg, token)
}

// options are what the engines are loaded with; an error if flags of this process can't be meant.
func (cfg *config) options() (opts processor.Options, err error) {
	stages, err := processor.ParseStages(cfg.stages, cfg.engines.Work())
	if err != nil {
		return opts, cli.Usagef("--stages: %w", err)
	}
	if opts, err = cfg.engines.Options(stages); err != nil {
		return opts, err
	}
	if err := cfg.stream.Validate(); err != nil {
		return opts, cli.Usagef("%w", err)
	}
	if err := cfg.reports.Validate(); err != nil {
		return opts, err
	}
	return opts, cfg.page.Validate()
}

// process works the stages and serves the live page, health and metrics, until ctx ends or one of them fails.
func (cfg *config) process(ctx context.Context, client *kafka.Client, engines *processor.Engines, work processor.Config, reg *prometheus.Registry, token ops.Token) error {
	logger, stages := work.Logger, engines.Stages()
	if err := client.EnsureTopics(ctx, engines.TopicSettings(work.Topics, cfg.partitions), cfg.kafka.Replication); err != nil {
		return err
	}
	if slices.Contains(stages, variantstage.Name) {
		work.Regions = variantstage.NewRegions()
	}
	controls, err := namedControls(*cfg, stages, engines, logger)
	if err != nil {
		return err
	}
	work.Controls, work.Metrics = controls.OfSamples, processor.NewMetrics(reg)
	p := processor.New(client, engines, work)
	server, err := ops.Listen(cfg.listen, reg, p.Ready, logger)
	if err != nil {
		return err
	}
	if err := cfg.profile.Serve(server, logger); err != nil {
		return err
	}
	live := livepage.Config{
		Client: client, Topics: work.Topics, Kind: "processor", Stages: stages, Version: cli.Version, Interval: cfg.reports.Interval,
		Registry: reg, Token: token, Advertise: cfg.page.Advertise, Namer: pipeline.NamerOf(engines), Logger: logger,
	}
	if work.Regions != nil {
		live.Depths, live.Reads = work.Regions.Depths, processor.ReadsOf(work.Regions)
	}
	if !cfg.page.Off {
		live.Server = server
	}
	page := livepage.New(live)
	logger.Info("processor started", "stages", strings.Join(stages, ","), "device", engines.Device(), "precision", engines.Precision(), "model", engines.Model(), "variant_model", engines.VariantModel(), "listen", server.Addr())

	group, runCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.Run(runCtx) })
	group.Go(func() error { return server.Run(runCtx) })
	group.Go(func() error {
		page.Run(runCtx)
		return nil
	})
	switch {
	case cfg.page.Off:
	case page.Generated():
		page.Announce(os.Stderr) // a token is for people, not for logs
	default:
		logger.Info("the live page is served", "address", page.Address(), "token", token)
	}
	err = group.Wait()
	logger.Info("processor stopped")
	return err
}

// namedControls are the negative controls that flags and sample sheet name. They are named where runs get their samples.
func namedControls(cfg config, stages []string, engines *processor.Engines, logger *slog.Logger) (*processor.NamedControls, error) {
	sheet, path := engines.Sheet(), engines.SheetPath()
	if _, err := cfg.controls.Of(sheet, path, nil); err != nil {
		return nil, err
	}
	if cfg.controls.Named() && !slices.Contains(stages, basecallstage.Name) && !slices.Contains(stages, alignstage.Name) {
		return nil, cli.Usagef("controls are named where runs get their samples: give --control and --no-template-control to the processors of stages %s and %s", basecallstage.Name, alignstage.Name)
	}
	return &processor.NamedControls{Flags: &cfg.controls, Sheet: sheet, Path: path, Logger: logger}, nil
}
