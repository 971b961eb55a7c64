package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/operator"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
)

type replayConfig struct {
	kafka          cli.KafkaFlags
	log            cli.LogFlags
	stage, group   string
	from, to, into string
	dry            bool
}

func replayCommand() *cobra.Command {
	var cfg replayConfig
	cmd := &cobra.Command{
		Use:   "replay --brokers HOST:PORT --stage STAGE --from start|OFFSET|TIME [--into PREFIX [--to OFFSET|TIME]]",
		Short: "Have a stage go over a stretch of its input again",
		Long: `Without --into the position of a stage that is stopped goes back, and when its
processors start again they repeat their results from there on, with the same ids
and revisions. Nothing else is touched: this is for results that were lost.

With --into the stretch is copied to the topics of another prefix, for processors
with that --topic-prefix: other models, references or sources give their results
there, and nothing of this deployment changes. Another reference needs --stage basecall
or align: aligned reads are differences from the reference that they were aligned to.

An offset counts in every partition; a time is RFC 3339.`,
		Example: `  pore replay --brokers kafka:9092 --stage annotate --from 2026-11-22T09:00:00Z --dry-run
  pore replay --brokers kafka:9092 --stage variant --from start --into again.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return replay(cmd.Context(), cfg, cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	cfg.kafka.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	flags.StringVar(&cfg.stage, "stage", "", "basecall, align, variant, methylate, annotate or watch (required)")
	flags.StringVar(&cfg.group, "group", "porestream", "prefix of the consumer groups, as the processors have it")
	flags.StringVar(&cfg.from, "from", "", "where the stretch begins: start, an offset or a time (required)")
	flags.StringVar(&cfg.to, "to", "", "where it ends, with --into: an offset or a time; what is there now if not given")
	flags.StringVar(&cfg.into, "into", "", "prefix of the topics to copy the stretch to")
	flags.BoolVar(&cfg.dry, "dry-run", false, "say what would be processed again, and change nothing")
	return cmd
}

func replay(ctx context.Context, cfg replayConfig, stdout io.Writer) error {
	input, err := stageInput(stream.NewTopics(cfg.kafka.Prefix), cfg.stage)
	if err != nil {
		return err
	}
	from, err := parsePoint("from", cfg.from)
	if err != nil {
		return err
	}
	switch {
	case cfg.into == "" && cfg.to != "":
		return cli.Usagef("--to needs --into: a stage that goes back goes on to where it was and further")
	case cfg.into != "" && cfg.into == cfg.kafka.Prefix:
		return cli.Usagef("--into %q is the prefix that is copied from", cfg.into)
	case cfg.into != "" && cfg.dry:
		return cli.Usagef("--dry-run is for going back, not for --into")
	}
	var to *operator.Point
	if cfg.to != "" {
		end, err := parsePoint("to", cfg.to)
		if err != nil {
			return err
		}
		to = &end
	}
	client, err := connect(ctx, &cfg.kafka, &cfg.log)
	if err != nil {
		return err
	}
	defer client.Close()
	if cfg.into != "" {
		return replayInto(ctx, client, cfg, input, from, to, stdout)
	}
	group := access.Deployment{Prefix: cfg.kafka.Prefix, Group: cfg.group}.GroupOf(cfg.stage)
	again, err := operator.Rewind(ctx, client, group, input, from, cfg.dry)
	if err != nil {
		return err
	}
	what := "will be processed again when the stage starts"
	if cfg.dry {
		what = "would be processed again"
	}
	fmt.Fprintf(stdout, "%s\nup to %d records of %d partitions of topic %s %s\n", described(again), records(again), len(again), input, what)
	return nil
}

func replayInto(ctx context.Context, client *kafka.Client, cfg replayConfig, input string, from operator.Point, to *operator.Point, stdout io.Writer) error {
	partitions, err := client.Partitions(ctx, input)
	if err != nil {
		return err
	}
	d := access.Deployment{Prefix: cfg.into, Panels: cfg.stage == access.RoleWatch, Methylation: cfg.stage == access.RoleMethylate}
	if err := client.EnsureTopics(ctx, d.Topics(partitions), cfg.kafka.Replication); err != nil {
		return err
	}
	into := cfg.into + strings.TrimPrefix(input, cfg.kafka.Prefix)
	copied, err := operator.Copy(ctx, client, access.Deployment{Prefix: cfg.kafka.Prefix}.OperatorID(), input, into, &from, to)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\nup to %d records of %d partitions of topic %s are in topic %s: start processors with --topic-prefix %s\n",
		described(copied), records(copied), len(copied), input, into, cfg.into)
	return nil
}

func described(stretches []operator.Stretch) string {
	lines := []string{"PARTITION\tFROM\tTO"}
	for _, s := range stretches {
		lines = append(lines, fmt.Sprintf("%d\t%d\t%d", s.Partition, s.From, s.To))
	}
	return strings.Join(lines, "\n")
}

func records(stretches []operator.Stretch) int64 {
	n := int64(0)
	for _, s := range stretches {
		n += s.To - s.From
	}
	return n
}

func parsePoint(flag, s string) (operator.Point, error) {
	if s == "start" {
		return operator.Point{Start: true}, nil
	}
	if offset, err := strconv.ParseInt(s, 10, 64); err == nil && offset >= 0 {
		return operator.Point{Offset: offset}, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return operator.Point{Time: at}, nil
	}
	return operator.Point{}, cli.Usagef("--%s %q: want start, an offset or a time such as 2026-11-21T18:20:00Z", flag, s)
}

// stageInput is the topic that a stage reads.
func stageInput(t stream.Topics, stage string) (string, error) {
	inputs := map[string]string{access.RoleBasecall: t.Signal, access.RoleAlign: t.Called, access.RoleVariant: t.Reads, access.RoleMethylate: t.Reads, access.RoleAnnotate: t.Calls, access.RoleWatch: t.Watch}
	input, known := inputs[stage]
	if !known {
		return "", cli.Usagef("--stage %q: want one of %s", stage, strings.Join(slices.Sorted(maps.Keys(inputs)), ", "))
	}
	return input, nil
}
