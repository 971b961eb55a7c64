package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/embedded"
)

type brokerConfig struct {
	log    cli.LogFlags
	listen string
	data   string
}

func brokerCommand() *cobra.Command {
	var cfg brokerConfig
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run a Kafka broker on this machine, to try the services without a cluster",
		Long: `Runs the embedded broker, which speaks Kafka's protocol with transactions and consumer
groups, until Ctrl-C. Its log stays in --data, and the next start goes on with it. It is
for trials and laptops: one node, nobody has to log in, and only this machine
reaches it. make kafka runs Apache Kafka instead.`,
		Example: `  pore broker
  pore broker --listen 127.0.0.1:0 --data broker`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runBroker(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9092", "loopback address that the broker listens on; port 0 takes a free one, which is printed")
	flags.StringVar(&cfg.data, "data", "", "folder of the broker's log (default $STATE_DIRECTORY or $XDG_STATE_HOME/porestream, and there broker)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

// runBroker runs a broker until the context ends, and prints its address once it listens.
func runBroker(ctx context.Context, cfg brokerConfig, stdout io.Writer) error {
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if cfg.data == "" {
		if cfg.data, err = cli.StateFolder("broker"); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	broker, err := startEmbedded("--listen", embedded.Config{DataDir: cfg.data, Listen: cfg.listen, Logger: logger})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, `Kafka broker on %[1]s, for programs on this machine; its log is in %[2]s. Ctrl-C ends it.
  ingest    --brokers %[1]s DATA              # or ingest folder, ingest reads, ingest minknow
  processor --brokers %[1]s --ref ref.fa      # --gff genes.gff3 for consequences
  pore consume --brokers %[1]s
`, broker.Addr(), cfg.data)
	failed := broker.Wait(ctx)
	if failed != nil {
		failed = fmt.Errorf("%w; make space there and start the broker again", failed)
	}
	return errors.Join(failed, broker.Close())
}

// startEmbedded starts an embedded broker whose address a flag has chosen.
func startEmbedded(flag string, cfg embedded.Config) (*embedded.Broker, error) {
	broker, err := embedded.Start(cfg)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w: something listens there already, a broker perhaps; name another port with %s, or 0 for a free one", err, flag)
	}
	return broker, err
}
