package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
)

type resetConfig struct {
	kafka           cli.KafkaFlags
	log             cli.LogFlags
	stage, group    string
	toEarliest, dry bool
}

func resetCommand() *cobra.Command {
	var cfg resetConfig
	cmd := &cobra.Command{
		Use:   "reset --brokers HOST:PORT --stage STAGE [--to-earliest]",
		Short: "Have a stage forget its snapshots, and its position too",
		Long: `Removes the snapshots of a stage that is stopped: when its processors start again
they restore its state from its input, and go on where they were. That is for
snapshots that can't be read, such as after going back to an older program.

With --to-earliest the stage forgets its position too. It begins with the oldest
records of its input as if it had never run, and publishes all results again,
revisions counted from 1.

It is refused while a processor runs the stage, and where the stage could not start
afterwards because its input's log no longer reaches back far enough.`,
		Example: `  pore reset --brokers kafka:9092 --stage variant`,
		Args:    cli.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return reset(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.StringVar(&cfg.stage, "stage", "", "basecall, align, variant, methylate, annotate or watch (required)")
	flags.StringVar(&cfg.group, "group", "porestream", "prefix of the consumer groups, as the processors have it")
	flags.BoolVar(&cfg.toEarliest, "to-earliest", false, "forget the position too, and begin with the oldest records")
	flags.BoolVar(&cfg.dry, "dry-run", false, "say what would be forgotten, and change nothing")
	return cmd
}

func reset(ctx context.Context, cfg resetConfig, stdout io.Writer) error {
	t := stream.NewTopics(cfg.kafka.Prefix)
	input, err := stageInput(t, cfg.stage)
	if err != nil {
		return err
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	d := access.Deployment{Prefix: cfg.kafka.Prefix, Group: cfg.group}
	done, err := operator.ResetStage(ctx, client, operator.ResetConfig{
		Group: d.GroupOf(cfg.stage), Input: input, State: t.State, ID: d.OperatorID(),
		ToEarliest: cfg.toEarliest, DryRun: cfg.dry,
	})
	if err != nil {
		return err
	}
	removed, will := "were removed", "will be"
	if cfg.dry {
		removed, will = "would be removed", "would be"
	}
	fmt.Fprintf(stdout, "%d records with the state of %d partitions %s\n", done.Records, done.Sources, removed)
	if cfg.toEarliest {
		fmt.Fprintf(stdout, "up to %d records of topic %s %s processed again\n", records(done.Again), input, will)
	} else {
		fmt.Fprintf(stdout, "up to %d records of topic %s %s read again to restore the state\n", records(done.Restored), input, will)
	}
	return nil
}
