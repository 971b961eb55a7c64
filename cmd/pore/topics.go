package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
)

type topicsConfig struct {
	kafka       cli.KafkaFlags
	log         cli.LogFlags
	partitions  int
	panels      bool
	adaptive    bool
	basecalls   bool
	methylation bool
}

// topics are those of a deployment as the flags describe it.
func (cfg *topicsConfig) topics() []stream.TopicSettings {
	return access.Deployment{Prefix: cfg.kafka.Prefix, Panels: cfg.panels, Adaptive: cfg.adaptive, Basecalls: cfg.basecalls, Methylation: cfg.methylation}.Topics(cfg.partitions)
}

func topicsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "Check or make the topics of a deployment",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(
		topicsSubcommand("check", "Compare the topics with what the guarantees need, and say how to repair them", "", checkTopics),
		topicsSubcommand("create", "Make the topics that are missing", " --partitions 24 --replication 3", createTopics),
	)
	return cmd
}

func topicsSubcommand(name, short, exampleFlags string, run func(context.Context, topicsConfig, io.Writer) error) *cobra.Command {
	var cfg topicsConfig
	cmd := &cobra.Command{
		Use: name + " --brokers HOST:PORT", Short: short, Example: "  pore topics " + name + " --brokers kafka:9092" + exampleFlags,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.IntVar(&cfg.partitions, "partitions", 0, "partitions that the topics must have; if not given, existing topics may have any number and new ones get 12")
	flags.BoolVar(&cfg.panels, "panels", false, "samples are held against watch-lists")
	flags.BoolVar(&cfg.adaptive, "adaptive", false, "reads are decided about while they are sequenced (docs/attach/adaptive.md)")
	flags.BoolVar(&cfg.basecalls, "basecalls", false, "called reads are published (docs/consume/basecalls.md)")
	flags.BoolVar(&cfg.methylation, "methylation", false, "modified bases are counted (docs/consume/methylation.md)")
	return cmd
}

// checkTopics prints a line for every topic that is in order or missing and two
// for every fault: its description, and the command that repairs it.
func checkTopics(ctx context.Context, cfg topicsConfig, stdout io.Writer) error {
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := cfg.topics()
	report, err := client.CheckTopics(ctx, topics)
	if err != nil {
		return err
	}
	missing, faulty := make(map[string]bool), make(map[string]bool)
	for _, t := range report.Missing {
		missing[t.Name] = true
	}
	for _, f := range report.Faults {
		faulty[f.Topic] = true
	}
	for _, t := range topics {
		switch {
		case missing[t.Name]:
			fmt.Fprintf(stdout, "%s\tmissing\n", t.Name)
		case !faulty[t.Name]:
			fmt.Fprintf(stdout, "%s\tin order\n", t.Name)
		}
	}
	for _, f := range report.Faults {
		fmt.Fprintf(stdout, "%s\t%s is %s, needed is %s: %s\n\t%s\n", f.Topic, f.Setting, f.Value, f.Want, f.Why, f.Fix)
	}
	switch {
	case len(report.Faults) > 0:
		return fmt.Errorf("%d of %d topics are not in order, %d are missing", len(faulty), len(topics), len(missing))
	case len(missing) > 0:
		return errors.New("topics are missing: pore topics create makes them")
	}
	return nil
}

func createTopics(ctx context.Context, cfg topicsConfig, stdout io.Writer) error {
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	topics := cfg.topics()
	report, err := client.CheckTopics(ctx, topics)
	if err != nil {
		return err
	}
	if err := client.EnsureTopics(ctx, topics, cfg.kafka.Replication); err != nil {
		return err
	}
	for _, t := range report.Missing {
		fmt.Fprintf(stdout, "%s\tmade\n", t.Name)
	}
	fmt.Fprintf(stdout, "%d topics are in order, %d of them new\n", len(topics), len(report.Missing))
	return nil
}
