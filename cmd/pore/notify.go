package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/notify"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
)

type notifyConfig struct {
	kafka      cli.KafkaFlags
	log        cli.LogFlags
	config     string
	listen     string
	deployment access.Deployment
	try, check bool
}

func notifyCommand() *cobra.Command {
	var cfg notifyConfig
	cmd := &cobra.Command{
		Use:   "notify --config YAML --brokers HOST:PORT",
		Short: "Notify people and programs of alerts, by mail and webhook",
		Long: `Sends the alerts of panels to the destinations of a file, webhooks and mail, until
Ctrl-C. Every alert is sent at least once, in order, and has the same id when it is sent
again; what a destination has is committed to Kafka, so a restart goes on there. A
destination that fails is tried again until give_up, and holds up no other.
docs/consume/notify.md has the file.

--check reads the file and its secrets and sends nothing; --test sends each
destination an example, marked as such, and needs no Kafka.`,
		Example: `  pore notify --config notify.yaml --check
  pore notify --config notify.yaml --test
  pore notify --config notify.yaml --brokers kafka:9092 --listen :9103`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return notifyAlerts(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelInfo)
	flags.StringVar(&cfg.config, "config", "", "file of destinations (required; docs/consume/notify.md)")
	flags.StringVar(&cfg.listen, "listen", "", "address of /healthz, /readyz and /metrics; none if not given")
	flags.StringVar(&cfg.deployment.Group, "group", "porestream", "prefix of the consumer groups, as the processors have it")
	flags.BoolVar(&cfg.check, "check", false, "only read the file and its secrets")
	flags.BoolVar(&cfg.try, "test", false, "send an example to every destination, and end")
	cmd.MarkFlagsMutuallyExclusive("check", "test")
	return cmd
}

func notifyAlerts(ctx context.Context, cfg notifyConfig, stdout io.Writer) error {
	if cfg.config == "" {
		return cli.Usagef("--config is required: the file of destinations")
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	destinations, err := notify.Load(cfg.config)
	if err != nil {
		return err
	}
	switch {
	case cfg.check:
		fmt.Fprintf(stdout, "%s: %d destinations\n", cfg.config, len(destinations.Destinations))
		return nil
	case cfg.try:
		return notify.Try(ctx, destinations, logger, func(name string, err error) {
			if err != nil {
				fmt.Fprintf(stdout, "%s: %v\n", name, err)
				return
			}
			fmt.Fprintf(stdout, "%s: has the test\n", name)
		})
	}
	cfg.deployment.Prefix, cfg.deployment.Panels = cfg.kafka.Prefix, true
	registry := ops.NewRegistry(cli.Version)
	kafkaConfig, err := cfg.kafka.Config(logger, registry)
	if err != nil {
		return err
	}
	return cli.Stopped(ctx, cfg.send(ctx, destinations, kafkaConfig, registry, logger))
}

// send sends alerts until ctx ends.
func (cfg *notifyConfig) send(ctx context.Context, destinations *notify.Config, kafkaConfig kafka.Config, registry *prometheus.Registry, logger *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	if cfg.listen != "" {
		server, err := ops.Listen(cfg.listen, registry, nil, logger)
		if err != nil {
			return err
		}
		logger.Info("listening", "addr", server.Addr())
		group.Go(func() error { return server.Run(ctx) })
	}
	ended := errors.New("done")
	group.Go(func() error {
		client, err := kafka.Connect(ctx, kafkaConfig)
		if err != nil {
			return err
		}
		defer client.Close()
		service := notify.Service{Client: client, Config: destinations, Deployment: cfg.deployment, Metrics: notify.NewMetrics(registry), Logger: logger}
		if err := service.Run(ctx); err != nil {
			return err
		}
		return ended
	})
	if err := group.Wait(); err != nil && !errors.Is(err, ended) {
		return err
	}
	return nil
}
