package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/livepage"
	"github.com/porestream/porestream/internal/tracing"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/trace"
)

// process holds an ingest's settings that don't depend on its sources: where
// Kafka is, and how it shows itself.
type process struct {
	kafka              cli.KafkaFlags
	partitions         int
	transactionTimeout time.Duration
	listen             string
	reports            livepage.ReportFlags
	log                cli.LogFlags
	trace              tracing.Flags
	profile            ops.ProfileFlags
}

// register adds the flags.
func (p *process) register(flags *pflag.FlagSet) {
	p.registerKafka(flags)
	p.registerSelf(flags)
}

// registerKafka adds the flags for Kafka.
func (p *process) registerKafka(flags *pflag.FlagSet) {
	p.kafka.Register(flags)
	fileFlag(flags, "tls-ca", "tls-cert", "tls-key", "sasl-password-file")
	flags.IntVar(&p.partitions, "partitions", 0, "partitions that the topics must have; if not given, existing topics may have any number and new ones get 12")
	flags.DurationVar(&p.transactionTimeout, "transaction-timeout", time.Minute, "for how long readers wait for the signal of an ingest that has died")
}

// registerSelf adds the flags for how the process shows itself.
func (p *process) registerSelf(flags *pflag.FlagSet) {
	p.log.Register(flags, slog.LevelInfo)
	p.trace.Register(flags)
	p.profile.Register(flags)
	fileFlag(flags, append(tracing.Files(), ops.ProfileTokenFlag)...)
	flags.StringVar(&p.listen, "listen", "127.0.0.1:9101", "address of /healthz, /readyz, /metrics and /status")
	p.reports.Register(flags)
}

// connection is Kafka with its topics, and how the process shows its sources.
type connection struct {
	process    *process
	client     *kafka.Client
	topics     stream.Topics
	partitions map[string]int32 // of the topics that runs are written to
	registry   *prometheus.Registry
	meters     *meters
	runs       sources.Runs
	tracer     *trace.Tracer
	many       bool // sources are named in the log
	logger     *slog.Logger
	// ready makes /readyz say so.
	ready func()
	// serve makes /status show the sources, and the file that lists them if
	// there is one.
	serve func(*sources.Supervisor, *sources.File)
}

// attach connects to Kafka, calls fn, and returns when it is done. Meanwhile it
// serves health, metrics and status; until fn is ready /readyz says what it is
// waiting for, as waiting describes it.
func (p *process) attach(ctx context.Context, waiting string, fn func(context.Context, *connection) error) error {
	if err := p.reports.Validate(); err != nil {
		return err
	}
	logger, err := p.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	registry := ops.NewRegistry(cli.Version)
	kafkaConfig, err := p.kafka.Config(logger, registry)
	if err != nil {
		return err
	}
	tracer, stopTracing, err := p.trace.Start(ctx, "porestream-ingest", registry, logger)
	if err != nil {
		return err
	}
	defer stopTracing()
	var ready atomic.Bool
	server, err := ops.Listen(p.listen, registry, func() error {
		if !ready.Load() {
			return errors.New(waiting)
		}
		return nil
	}, logger)
	if err != nil {
		return err
	}
	if err := p.profile.Serve(server, logger); err != nil {
		return err
	}
	c := &connection{
		process: p, topics: stream.NewTopics(p.kafka.Prefix), registry: registry, meters: newMeters(registry), logger: logger, tracer: tracer,
		ready: func() { ready.Store(true) }, serve: serveStatus(server, registry),
	}
	group, ctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(ctx)
	group.Go(func() error { return server.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		if c.client, err = kafka.Connect(ctx, kafkaConfig); err != nil {
			return err
		}
		defer c.client.Close()
		if err := c.ensureTopics(ctx); err != nil {
			return err
		}
		defer c.report(ctx)()
		return fn(ctx, c)
	})
	return group.Wait()
}

// serveStatus serves the status of sources, of none until the returned function is called, which registers their metrics, too.
func serveStatus(server *ops.Server, registry *prometheus.Registry) func(*sources.Supervisor, *sources.File) {
	var report atomic.Pointer[func() sources.Report]
	server.Handle("GET /status", sources.Handler(func() sources.Report {
		if newReport := report.Load(); newReport != nil {
			return (*newReport)()
		}
		return sources.Report{Version: 1, Time: time.Now(), Sources: []sources.Status{}}
	}))
	return func(s *sources.Supervisor, f *sources.File) {
		registry.MustRegister(sources.NewCollector(s, f))
		newReport := func() sources.Report { return sources.NewReport(s, f) }
		report.Store(&newReport)
	}
}

// report has the process report its state for the live page until the returned
// function is called.
func (c *connection) report(ctx context.Context) (stop func()) {
	p := livepage.New(livepage.Config{
		Client: c.client, Topics: c.topics, Kind: "ingest", Stages: []string{"ingest"}, Version: cli.Version,
		Interval: c.process.reports.Interval, Registry: c.registry, Channels: c.meters.channels, Logger: c.logger,
	})
	ctx, cancel := context.WithCancel(ctx)
	var reported sync.WaitGroup
	reported.Go(func() { p.Run(ctx) })
	return func() {
		cancel()
		reported.Wait()
	}
}

// ensureTopics makes sure of the topics.
func (c *connection) ensureTopics(ctx context.Context) error {
	if err := c.client.EnsureTopics(ctx, c.topics.Settings(c.process.partitions), c.process.kafka.Replication); err != nil {
		return err
	}
	c.partitions = make(map[string]int32)
	for _, topic := range []string{c.topics.Signal, c.topics.Called} {
		partitions, err := c.client.Partitions(ctx, topic)
		if err != nil {
			return fmt.Errorf("reading topic %s: %w", topic, err)
		}
		c.partitions[topic] = int32(partitions)
	}
	return nil
}
