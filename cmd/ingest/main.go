// Command ingest puts nanopore signal on Kafka: it plays recorded runs (POD5,
// BLOW5) as the sequencer would have delivered them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/ingest"
	"github.com/porestream/porestream/internal/ingest/cluster"
	"github.com/porestream/porestream/internal/ops"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

func main() { os.Exit(cli.Main(command())) }

type config struct {
	kafka      cli.KafkaFlags
	log        cli.LogFlags
	pace       string
	chunk      time.Duration
	sample     string
	listen     string
	partitions int

	restart            bool
	spool              string
	spoolMax           cli.Bytes
	maxBuffered        cli.Bytes
	transactionTimeout time.Duration
}

func command() *cobra.Command {
	cfg := config{spoolMax: 64 << 30, maxBuffered: 64 << 20}
	cmd := &cobra.Command{
		Use:   "ingest --brokers HOST:PORT SIGNAL...",
		Short: "Put the signal of recorded runs on Kafka",
		Long: "Plays POD5 and BLOW5 files, or folders of them, as the sequencer would have delivered them, and ends every run with a marker. " +
			"Started again after a crash or an interrupt, it goes on where it stopped.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), cfg, args) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelInfo)
	flags.StringVar(&cfg.pace, "pace", "max", "speed by the recording's own clock: 1, any number, or max")
	flags.DurationVar(&cfg.chunk, "chunk", time.Second, "length of a signal chunk")
	flags.StringVar(&cfg.sample, "sample", "", "sample name, if not the recording's")
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9101", "address of /healthz, /readyz and /metrics")
	flags.IntVar(&cfg.partitions, "partitions", 0, "partitions that the topics must have; if not given, existing topics may have any number and new ones get 12")
	flags.BoolVar(&cfg.restart, "restart", false, "send runs from their beginning, whatever is in Kafka already")
	flags.StringVar(&cfg.spool, "spool", "", "folder that keeps signal while Kafka is away, one for each ingest; none if not given")
	flags.Var(&cfg.spoolMax, "spool-max", "limit of the spool")
	flags.Var(&cfg.maxBuffered, "max-buffered", "limit of the signal that is held in memory; what is more waits in the spool or in its files")
	flags.DurationVar(&cfg.transactionTimeout, "transaction-timeout", time.Minute, "for how long readers wait for the signal of an ingest that has died")
	return cmd
}

func run(ctx context.Context, cfg config, paths []string) error {
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	pace, err := ingest.ParsePace(cfg.pace)
	if err != nil {
		return cli.Usagef("--pace: %w", err)
	}
	reg := ops.NewRegistry(cli.Version)
	kafkaConfig, err := cfg.kafka.Config(logger, reg)
	if err != nil {
		return err
	}
	var playing atomic.Bool
	server, err := ops.Listen(cfg.listen, reg, func() error {
		if !playing.Load() {
			return errors.New("connecting and reading the recording")
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
		return play(ctx, cfg, kafkaConfig, paths, pace, ingest.NewMetrics(reg), logger, func() { playing.Store(true) })
	})
	return group.Wait()
}

func play(ctx context.Context, cfg config, kafkaConfig kafka.Config, paths []string, pace float64, metrics *ingest.Metrics, logger *slog.Logger, ready func()) error {
	client, err := kafka.Connect(ctx, kafkaConfig)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := stream.NewTopics(cfg.kafka.Prefix)
	if err := client.EnsureTopics(ctx, topics.Settings(cfg.partitions), cfg.kafka.Replication); err != nil {
		return err
	}
	partitions, err := client.Partitions(ctx, topics.Signal)
	if err != nil {
		return err
	}
	recording, err := signal.NewIndex(ctx, paths)
	if err != nil {
		return err
	}
	defer recording.Close()
	if recording.Len() == 0 {
		return fmt.Errorf("%s: no reads", strings.Join(paths, ", "))
	}
	ready()
	totals, err := ingest.Run(ctx, recording, ingest.ServiceConfig{
		Player: ingest.Config{
			Topics: topics, Partitions: int32(partitions), Pace: pace, Chunk: cfg.chunk, Sample: cfg.sample,
			Metrics: metrics, Logger: logger,
		},
		Cluster: cluster.New(client, cluster.Config{
			Topics: topics, Prefix: cfg.kafka.Prefix, TransactionTimeout: cfg.transactionTimeout,
			MaxBuffered: int64(cfg.maxBuffered) / 4, Logger: logger,
		}),
		TransactionTimeout: cfg.transactionTimeout,
		MaxBuffered:        int64(cfg.maxBuffered), SpoolDir: cfg.spool, SpoolMax: int64(cfg.spoolMax),
		Restart: cfg.restart,
	})
	logger.Info("ingest stopped", "runs", totals.Runs, "reads", totals.Reads, "chunks", totals.Chunks, "samples", totals.Samples)
	return err
}
