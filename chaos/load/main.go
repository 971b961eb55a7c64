// Command load is a sequencer's full signal for ingest: as many channels as a flow cell
// has give recorded signal at the sequencer's pace through MinKNOW's interface, the
// real ingest publishes it to an embedded broker, and a stage that does nothing else
// unpacks it. Each of them is a process. At the end every channel's samples must be
// those that were given, and ingest's memory flat. docs/attach/minknow.md describes how to
// read what it prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/chaos/load/sequencer"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
)

func main() { os.Exit(cli.Main(command())) }

// config is what the command line asks for.
type config struct {
	channels, rate int
	chunk, length  time.Duration
	pace           float64
	patience       time.Duration
	partitions     int
	recording      string
	bin, out       string
}

func command() *cobra.Command {
	var cfg config
	root := &cobra.Command{
		Use:   "load [--channels N] [--length D] [--pace P]",
		Short: "Give ingest a sequencer's full signal through MinKNOW's interface and account for every sample",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.channels < 1 || cfg.rate < 1 || cfg.pace <= 0 || cfg.partitions < 1 || cfg.chunk < 10*time.Millisecond || cfg.length < time.Second {
				return cli.Usagef("--channels, --rate, --pace and --partitions must be positive, --chunk at least 10ms and --length 1s")
			}
			r, err := run(cmd.Context(), &cfg)
			if err != nil {
				return err
			}
			r.print(cmd.OutOrStdout())
			if faults := r.faults(); len(faults) > 0 {
				return errors.New(strings.Join(faults, "; "))
			}
			return nil
		},
	}
	flags := root.Flags()
	flags.IntVar(&cfg.channels, "channels", 3000, "channels of the flow cell")
	flags.IntVar(&cfg.rate, "rate", 5000, "samples a second of each channel")
	flags.DurationVar(&cfg.chunk, "chunk", 800*time.Millisecond, "MinKNOW's break_reads_after_seconds")
	flags.DurationVar(&cfg.length, "length", 2*time.Minute, "length of the run, by the sequencer's clock")
	flags.Float64Var(&cfg.pace, "pace", 1, "speed by the sequencer's clock")
	flags.DurationVar(&cfg.patience, "patience", 5*time.Second, "how long a chunk waits for ingest before the sequencer leaves it out")
	flags.IntVar(&cfg.partitions, "partitions", 12, "partitions of the signal topic")
	flags.StringVar(&cfg.recording, "recording", filepath.Join("testdata", "lambda", "reads.pod5"), "recorded reads")
	flags.StringVar(&cfg.bin, "bin", "bin", "folder with ingest")
	flags.StringVar(&cfg.out, "out", filepath.Join("chaos", "out", "load"), "folder for logs")
	root.AddCommand(brokerCommand(), stageCommand())
	return root
}

// cell is the flow cell that the command line asks for.
func (c *config) cell(ctx context.Context) (sequencer.Cell, error) {
	index, err := signal.NewIndex(ctx, []string{c.recording})
	if err != nil {
		return sequencer.Cell{}, err
	}
	defer index.Close()
	cell := sequencer.Cell{
		Channels: c.channels, Rate: c.rate,
		Chunk:   max(1, int(c.chunk.Seconds()*float64(c.rate))),
		Samples: uint64(c.length.Seconds() * float64(c.rate)),
	}
	for i := range index.Len() {
		if cell.Levels, err = index.Samples(i, cell.Levels); err != nil {
			return sequencer.Cell{}, fmt.Errorf("reading the recording: %w", err)
		}
	}
	return cell, nil
}
