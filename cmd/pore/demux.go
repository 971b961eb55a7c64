package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/demux/sorted"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/wholefile"
)

type demuxConfig struct {
	ends processor.Barcoding
	out  string
	log  cli.LogFlags
}

func demuxCommand() *cobra.Command {
	cfg := demuxConfig{ends: processor.Barcoding{ByTag: true}}
	cmd := &cobra.Command{
		Use:   "demux --out DIR [--kit-name KIT] READS.bam",
		Short: "Sort reads into one BAM file per barcode",
		Long: `Finds the barcode of each read of a BAM or SAM file, ours or another basecaller's, and
writes the reads to a file per barcode, and those without one to unclassified.bam; a
table of them goes to standard output. What is classified is written unaligned, and what
its tags say of modified bases (MM, ML, MN) is rewritten where the read is cut.

Without a kit reads go by the tag BC that they have, and stay as they are, but for what
--sample-sheet calls their samples. - is standard input.`,
		Example: `  pore demux --out by-barcode reads.bam
  pore demux --kit-name SQK-RBK114-24 --out by-barcode reads.bam
  pore demux --sample-sheet sheet.csv --out by-sample reads.bam
  pore demux --kit-name SQK-NBD114-24 --inner-kit-name EXP-PBC096 --sample-sheet sheet.csv --out by-sample reads.bam`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demuxFile(cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.out, "out", "", "folder for the files, made if it isn't there (required)")
	cfg.ends.Register(flags)
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func demuxFile(cfg demuxConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	if cfg.out == "" {
		return cli.Usagef("--out is required: the folder for the files")
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	ends, err := cfg.ends.Options()
	if err != nil {
		return err
	}
	if ends.Kit == nil && (cfg.ends.Trim != "" || cfg.ends.NoTrim) {
		return cli.Usagef("--trim and --no-trim go with --kit-name: without a kit reads stay as they are")
	}
	opts := sorted.Options{
		Sheet: ends.Sheet, TrimBarcodes: ends.Trim == finish.TrimAll,
		Program: [3]string{"pore", cli.Version, "pore demux"},
	}
	if ends.Trim >= finish.TrimAdapters {
		opts.Trimmer = demux.NewTrimmer(demux.Adapters(), demux.Primers())
	}
	if ends.Kit != nil {
		if opts.Classifier, err = ends.Classifier(); err != nil {
			return cfg.ends.Blame(err)
		}
	}
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(cfg.out, 0o755); err != nil {
		return err
	}
	// Reads that are there already are not overwritten, they may be all there is; nor is
	// anything added to them.
	there, err := filepath.Glob(filepath.Join(cfg.out, "*.bam"))
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("%s is there already: choose another folder with --out", there[0])
	}
	counts, err := sorted.Sort(in, func(barcode string) (sorted.File, error) {
		return wholefile.Create(filepath.Join(cfg.out, barcode+".bam"))
	}, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	reportDemux(os.Stderr, logger, &counts, ends.Kit != nil)
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "READS\tBASES\t\tBARCODE")
	for _, c := range counts.Barcodes {
		fmt.Fprintf(table, "%d\t%d\t\t%s\n", c.Reads, c.Bases, c.Barcode)
	}
	return table.Flush()
}

// reportDemux says what became of the reads besides the table; searched is whether barcodes were searched for, and not read from tags.
func reportDemux(w io.Writer, logger *slog.Logger, counts *sorted.Counts, searched bool) {
	if len(counts.Reasons) > 0 {
		reasons := make(map[string]int64)
		for reason, reads := range counts.Reasons {
			reasons[reason.String()] = reads
		}
		fmt.Fprintln(w, "reads without a barcode, by why: "+inLine(reasons))
	}
	if counts.Secondary > 0 {
		logger.Info("secondary and supplementary records are left out", "records", counts.Secondary)
	}
	warnUntrue(logger, &counts.Untrue)
	for _, warning := range counts.Warnings {
		logger.Warn("sample sheet: " + warning)
	}
	if len(counts.Silent) > 0 {
		logger.Warn("samples of the sample sheet have no reads", "samples", strings.Join(counts.Silent, ", "))
	}
	all, without := int64(0), int64(0)
	for _, c := range counts.Barcodes {
		if all += c.Reads; c.Barcode == demux.Unclassified {
			without = c.Reads
		}
	}
	switch {
	case 2*without <= all:
	case searched:
		logger.Warn("most reads have no barcode: is it the kit that the library was made with?", "unclassified", without, "of", all)
	default:
		logger.Warn("most reads have no barcode in their tag BC: --kit-name searches the sequences for them", "unclassified", without, "of", all)
	}
}

// warnUntrue reports, in a line for each reason, reads whose tags of modified bases were
// dropped.
func warnUntrue(logger *slog.Logger, untrue *record.Faults) {
	for _, fault := range untrue.List() {
		logger.Warn("tags of modified bases that are not of their reads were dropped", "reads", fault.Reads, "first", fault.First, "why", fault.Detail)
	}
}
