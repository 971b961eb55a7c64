package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/check"
)

func signalCheckCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "check SIGNAL...",
		Short: "Read POD5, BLOW5 and FAST5 files to the last sample and say what is wrong",
		Long: `Reads everything in files, or folders of them: tables, records, every piece of
signal. Each problem is a line with the file, the place in it, what is wrong and
what to do. The last line counts. Exit code 1: something is wrong.`,
		Example: `  pore signal check reads.pod5 old.fast5`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkSignal(cmd.Context(), args, asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "a JSON object per problem, and a last one with the counts")
	return cmd
}

func checkSignal(ctx context.Context, args []string, asJSON bool, stdout io.Writer) error {
	files, err := signal.Expand(args)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	counts, err := check.Files(ctx, files, func(p check.Problem) {
		if asJSON {
			_ = encoder.Encode(p) // the writer keeps its error
			return
		}
		fmt.Fprintln(out, p)
	})
	if err != nil {
		return err
	}
	if asJSON {
		_ = encoder.Encode(counts) // the writer keeps its error
	} else {
		fmt.Fprintf(out, "%d files, %d reads, %d samples, %d problems\n", counts.Files, counts.Reads, counts.Samples, counts.Problems)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if counts.Problems > 0 {
		return fmt.Errorf("%d problems in the signal", counts.Problems)
	}
	return nil
}
