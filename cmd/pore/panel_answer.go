package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/watchlist"
)

type panelAnswerConfig struct {
	reference, format, library string
	genes                      processor.Genes
	log                        cli.LogFlags
}

func panelAnswerCommand() *cobra.Command {
	var cfg panelAnswerConfig
	cmd := &cobra.Command{
		Use:   "answer --ref FASTA [--gff GFF3] PANEL.yaml LIST.tsv",
		Short: "Answers of a panel's models for lists of mutations",
		Long: `Asks the models of a panel about samples that are known by their mutations: one
a line, with a name, mutations such as RT:M184V, and perhaps what is covered
(PR RT:1-240), separated by tabs; - is standard input. What isn't listed is as in
the models' numbering. The answers are those that reads of such a sample lead to.`,
		Example: `  pore panel answer --ref hxb2.fa --gff pol.gff3 panel.yaml isolates.tsv`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answerLists(cmd.Context(), cfg, args[0], args[1], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cfg.genes.Register(flags)
	flags.StringVar(&cfg.format, "format", "tsv", "tsv or json (one alert per line)")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime library; else the environment variable ORT_LIB")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func answerLists(ctx context.Context, cfg panelAnswerConfig, panel, path string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome that the panel is about")
	}
	if cfg.format != "tsv" && cfg.format != "json" {
		return cli.Usagef("--format %q: want tsv or json", cfg.format)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	list, err := watchlist.ReadList(in)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	annotator, err := cfg.genes.Annotator(ctx, g, logger)
	if err != nil {
		return err
	}
	w, err := newWatch(g, annotator, []string{panel}, stderr)
	if err != nil {
		return err
	}
	if len(w.Models()) == 0 {
		return fmt.Errorf("%s: no rule asks a model: give one the key model", panel)
	}
	opened, err := attachModels(w, cfg.library, logger, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	out := bufio.NewWriter(stdout)
	if cfg.format == "tsv" {
		fmt.Fprintln(out, "#sample\trule\tstate\tprobability\tdrivers\tmissing\treason")
	}
	for _, l := range list {
		alerts, err := w.AnswerList(l)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", path, err), out.Flush())
		}
		for i := range alerts {
			if err := writeAnswer(out, &alerts[i], cfg.format); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// writeAnswer writes one answer on one line.
func writeAnswer(out io.Writer, a *watchlist.Alert, format string) error {
	if format == "json" {
		document, err := a.JSON()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s\n", document)
		return err
	}
	drivers := []string{}
	for _, d := range a.Model.Drivers {
		drivers = append(drivers, fmt.Sprintf("%s %+.3f", d.Feature, d.Effect))
	}
	state := string(a.State)
	if a.State == watchlist.Classified {
		state = a.Model.Class
	}
	cells := []string{
		a.Sample, a.Rule, state, strconv.FormatFloat(a.Model.Probability, 'f', 4, 64), strings.Join(drivers, ", "), strings.Join(a.Model.Missing, ", "), a.Reason,
	}
	for i, cell := range cells {
		if cell == "" {
			cells[i] = "."
		}
	}
	_, err := fmt.Fprintln(out, strings.Join(cells, "\t"))
	return err
}
