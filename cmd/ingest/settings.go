package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/ingest"
	"github.com/porestream/porestream/internal/ingest/cluster"
	"github.com/porestream/porestream/internal/ops"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// settings are what every source of signal is told: where Kafka is, how signal
// is cut and named, and what may be held meanwhile.
type settings struct {
	kafka      cli.KafkaFlags
	log        cli.LogFlags
	chunk      time.Duration
	sample     string
	listen     string
	partitions int

	spool              string
	spoolMax           cli.Bytes
	maxBuffered        cli.Bytes
	transactionTimeout time.Duration
}

func newSettings() *settings { return &settings{spoolMax: 64 << 30, maxBuffered: 64 << 20} }

// register adds the flags.
func (s *settings) register(flags *pflag.FlagSet) {
	s.registerPatient(flags)
	flags.StringVar(&s.spool, "spool", "", "folder that keeps signal while Kafka is away, one for each ingest; none if not given")
	flags.Var(&s.spoolMax, "spool-max", "limit of the spool")
}

// registerPatient adds the flags of a source that needs no spool: what Kafka
// doesn't take for now waits in the source.
func (s *settings) registerPatient(flags *pflag.FlagSet) {
	s.kafka.Register(flags)
	s.log.Register(flags, slog.LevelInfo)
	flags.DurationVar(&s.chunk, "chunk", time.Second, "length of a signal chunk")
	flags.StringVar(&s.sample, "sample", "", "sample name, if not the recording's")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:9101", "address of /healthz, /readyz and /metrics")
	flags.IntVar(&s.partitions, "partitions", 0, "partitions that the topics must have; if not given, existing topics may have any number and new ones get 12")
	flags.Var(&s.maxBuffered, "max-buffered", "limit of the signal that is held in memory; what is more waits in the spool or in its files")
	flags.DurationVar(&s.transactionTimeout, "transaction-timeout", time.Minute, "for how long readers wait for the signal of an ingest that has died")
}

// destination is what a source of signal writes to: connected, and its topics are
// there.
type destination struct {
	client   *kafka.Client
	registry *prometheus.Registry // of the source's own metrics
	logger   *slog.Logger
	// service is ready to be used, except for what only the source knows.
	service ingest.ServiceConfig
	// ready makes /readyz say so.
	ready func()
}

// attach connects a source of signal to Kafka and returns when it is done.
// Meanwhile it serves health and metrics; until the source is ready /readyz says
// that it is waiting for what waiting tells.
func (s *settings) attach(ctx context.Context, waiting string, source func(context.Context, *destination) error) error {
	logger, err := s.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	registry := ops.NewRegistry(cli.Version)
	kafkaConfig, err := s.kafka.Config(logger, registry)
	if err != nil {
		return err
	}
	var ready atomic.Bool
	server, err := ops.Listen(s.listen, registry, func() error {
		if !ready.Load() {
			return errors.New(waiting)
		}
		return nil
	}, logger)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(ctx)
	group.Go(func() error { return server.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		client, err := kafka.Connect(ctx, kafkaConfig)
		if err != nil {
			return err
		}
		defer client.Close()
		to := &destination{client: client, registry: registry, logger: logger, ready: func() { ready.Store(true) }}
		if to.service, err = s.service(ctx, to); err != nil {
			return err
		}
		return source(ctx, to)
	})
	return group.Wait()
}

// service makes sure of the topics and says how runs are written to them.
func (s *settings) service(ctx context.Context, to *destination) (ingest.ServiceConfig, error) {
	topics := stream.NewTopics(s.kafka.Prefix)
	if err := to.client.EnsureTopics(ctx, topics.Settings(s.partitions), s.kafka.Replication); err != nil {
		return ingest.ServiceConfig{}, err
	}
	partitions, err := to.client.Partitions(ctx, topics.Signal)
	if err != nil {
		return ingest.ServiceConfig{}, err
	}
	return ingest.ServiceConfig{
		Player: ingest.Config{
			Topics: topics, Partitions: int32(partitions), Chunk: s.chunk, Sample: s.sample,
			Metrics: ingest.NewMetrics(to.registry), Logger: to.logger,
		},
		Cluster: cluster.New(to.client, cluster.Config{
			Topics: topics, Prefix: s.kafka.Prefix, TransactionTimeout: s.transactionTimeout,
			MaxBuffered: int64(s.maxBuffered) / 4, Logger: to.logger,
		}),
		TransactionTimeout: s.transactionTimeout,
		MaxBuffered:        int64(s.maxBuffered), SpoolDir: s.spool, SpoolMax: int64(s.spoolMax),
	}, nil
}
