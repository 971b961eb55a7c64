package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/ingest"
	"github.com/porestream/porestream/signal"
)

// playCommand plays recorded runs.
func playCommand() *cobra.Command {
	cfg := newSettings()
	var paceText string
	var restart bool
	var filter cli.FilterFlags
	cmd := &cobra.Command{
		Use:   "play --brokers HOST:PORT SIGNAL...",
		Short: "Put the signal of recorded runs on Kafka",
		Long: "Plays POD5, BLOW5 and FAST5 files, or folders of them, as the sequencer would have delivered them, and ends every run with a marker. " +
			"Started again after a crash or an interrupt, it goes on where it stopped.",
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, paths []string) error {
			pace, err := ingest.ParsePace(paceText)
			if err != nil {
				return cli.Usagef("--pace: %w", err)
			}
			chosen, err := filter.Filter()
			if err != nil {
				return err
			}
			return cfg.attach(cmd.Context(), "connecting and reading the recording", func(ctx context.Context, to *destination) error {
				to.service.Player.Pace, to.service.Restart = pace, restart
				return play(ctx, to, paths, chosen)
			})
		},
	}
	flags := cmd.Flags()
	cfg.register(flags)
	filter.Register(flags)
	flags.StringVar(&paceText, "pace", "max", "speed by the recording's own clock: 1, any number, or max")
	flags.BoolVar(&restart, "restart", false, "send runs from their beginning, whatever is in Kafka already")
	return cmd
}

func play(ctx context.Context, to *destination, paths []string, filter signal.Filter) error {
	recording, err := signal.NewIndex(ctx, paths)
	if err != nil {
		return err
	}
	defer recording.Close()
	if recording.Len() == 0 {
		return fmt.Errorf("%s: no reads", strings.Join(paths, ", "))
	}
	selection, err := recording.Select(filter)
	if err != nil {
		return err
	}
	cli.LogSelection(to.logger, filter, selection, recording.Len())
	to.service.Player.Filter = filter.String()
	to.ready()
	totals, err := ingest.Run(ctx, recording, to.service)
	to.logger.Info("ingest stopped", "runs", totals.Runs, "reads", totals.Reads, "chunks", totals.Chunks, "samples", totals.Samples)
	return err
}
