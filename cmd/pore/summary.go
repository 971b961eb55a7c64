package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/internal/cli"
)

func summaryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "summary READS.bam",
		Short: "List the reads of a BAM or SAM file with their signal, qualities and alignments",
		Long: `Writes a table, a line for each read, to standard output: where its signal is from,
how long it is, how good, and what its primary alignment is like, in the columns of
a sequencing summary, as NanoPlot and pycoQC read it. start_time and template_start are
seconds since the begin of the run, which the read groups state (DT); start_time_utc is the
instant itself. The file may be another basecaller's; - is standard input.`,
		Example: `  pore summary reads.bam > reads.tsv`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return summary(args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func summary(path string, stdin io.Reader, stdout io.Writer) error {
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := output.Summarise(stdout, in); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
