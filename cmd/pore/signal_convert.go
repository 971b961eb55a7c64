package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/convert"
)

type convertConfig struct {
	out    string
	format string
	split  string
	force  bool
}

func signalConvertCommand() *cobra.Command {
	var cfg convertConfig
	cmd := &cobra.Command{
		Use:   "convert -o FILE SIGNAL...",
		Short: "Write POD5, BLOW5 and FAST5 files anew as POD5 or BLOW5: convert, merge, split",
		Long: `Writes the reads of files, or folders of them, to one file, or with --split to
files in the folder that -o names. What both formats can hold comes through
unchanged; of what the target can't hold, each field is named in a warning.
Nothing appears under its name before everything is complete.`,
		Example: `  pore signal convert -o reads.pod5 fast5/
  pore signal convert --to blow5 -o reads.blow5 reads.pod5`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.SpareInputs(cmd.Flags(), args, "output"); err != nil {
				return err
			}
			return convertSignal(cmd.Context(), cfg, args, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&cfg.out, "output", "o", "", "file to write, or with --split the folder (required)")
	flags.StringVar(&cfg.format, "to", "", "pod5 or blow5; if not given, by the extension of -o, and pod5 with --split")
	flags.StringVar(&cfg.split, "split", "", "a file for each run, for each channel, or of so many reads: run, channel, or a number")
	flags.BoolVar(&cfg.force, "force", false, "replace files that exist")
	return cmd
}

func convertSignal(ctx context.Context, cfg convertConfig, args []string, stderr io.Writer) error {
	if cfg.out == "" {
		return cli.Usagef("-o is required: the file to write, or with --split the folder")
	}
	opts := convert.Options{Format: convert.Format(cfg.format), Force: cfg.force, Software: "porestream " + cli.Version}
	if f := opts.Format; f != "" && f != convert.POD5 && f != convert.BLOW5 {
		return cli.Usagef("--to is %q: pod5 or blow5", cfg.format)
	}
	var err error
	if opts.Split, err = parseSplit(cfg.split); err != nil {
		return err
	}
	if opts.Split != (convert.Split{}) && opts.Format == "" {
		opts.Format = convert.POD5
	}
	files, err := signal.Expand(args)
	if err != nil {
		return err
	}
	var done, total atomic.Int64
	opts.Progress = func(d, t int64) { done.Store(d); total.Store(t) }
	stop := cli.ShowProgress(os.Stderr, "reads", func() (int64, int64) { return done.Load(), total.Load() })
	defer stop()
	report, err := convert.Run(ctx, files, cfg.out, opts)
	stop()
	if err != nil {
		return err
	}
	for _, l := range report.Losses {
		fmt.Fprintf(stderr, "warning: field %q of %d reads: %s\n", l.Field, l.Reads, l.Why)
	}
	fmt.Fprintf(stderr, "%d reads, %d samples in %s\n", report.Reads, report.Samples, filesWritten(report.Files, cfg.out))
	return nil
}

func filesWritten(files []string, out string) string {
	if len(files) == 1 {
		return files[0]
	}
	return fmt.Sprintf("%d files in %s", len(files), out)
}

func parseSplit(s string) (convert.Split, error) {
	switch s {
	case "":
		return convert.Split{}, nil
	case "run":
		return convert.Split{Run: true}, nil
	case "channel":
		return convert.Split{Channel: true}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return convert.Split{}, cli.Usagef("--split is %q: run, channel, or a number of reads", s)
	}
	return convert.Split{Reads: n}, nil
}
