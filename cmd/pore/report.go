package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/report"
)

func reportCommand() *cobra.Command {
	var out, title string
	var session report.Session
	cmd := &cobra.Command{
		Use:   "report [--out FILE] DIR",
		Short: "Make one HTML file of a run's results, for people",
		Long: `Reads the folder that pore run has written and makes one HTML file of it: what was found
in which sample and what to do, markers by sample, depth (of runs with --gvcf), reads and
quality, versions, and what was not examined. It needs no network and no script, prints on
A4, and is the same for the same folder. pore run writes it at its end, as DIR/report.html.

Places are links to a running IGV desktop. DIR/igv_session.xml, which pore run writes and
--igv-ref writes anew, opens the reference, genes, calls and alignments there.`,
		Example: `  pore report results
  pore report --title "Plate 7" --out plate7.html results
  pore report --out - results > report.html
  pore report --igv-ref ref.fa --igv-genes genes.gff3 --igv-alignments plate.sorted.bam results`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if session.Reference == "" && len(session.Genes)+len(session.Alignments) > 0 {
				return cli.Usagef("--igv-genes and --igv-alignments are for IGV's session, which needs --igv-ref, too")
			}
			if session.Reference != "" {
				if err := report.WriteSession(args[0], session); err != nil {
					return fmt.Errorf("making the session for IGV: %w", err)
				}
			}
			return makeReport(args[0], out, title, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "file to write, - for standard output (default DIR/"+report.FileName+")")
	flags.StringVar(&session.Reference, "igv-ref", "", "write DIR/"+report.SessionName+" for IGV desktop, with this reference, FASTA")
	flags.StringArrayVar(&session.Genes, "igv-genes", nil, "genes for that session, GFF3 or GTF; may be repeated")
	flags.StringArrayVar(&session.Alignments, "igv-alignments", nil, "sorted and indexed BAM or CRAM file for that session; may be repeated")
	flags.StringVar(&title, "title", "", "heading of the report")
	return cmd
}

func makeReport(dir, out, title string, stdout io.Writer) error {
	options := report.Options{Title: title}
	if out == "-" {
		return report.Write(stdout, dir, options)
	}
	if err := report.WriteFile(dir, out, options); err != nil {
		return fmt.Errorf("making the report: %w", err)
	}
	return nil
}
