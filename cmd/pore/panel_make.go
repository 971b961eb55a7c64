package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/watchlist/catalogue"
)

type panelMakeConfig struct {
	reference string
	head      catalogue.Head
	genes     processor.Genes
	log       cli.LogFlags
}

// registerHead registers flags for what a panel says of itself; of what nobody gives h is kept.
func registerHead(flags *pflag.FlagSet, h *catalogue.Head) {
	flags.StringVar(&h.ID, "id", h.ID, "id of the panel")
	flags.StringVar(&h.Version, "panel-version", h.Version, "version of the panel")
	flags.StringVar(&h.Source, "source", h.Source, "where the table is from, for people")
	flags.StringVar(&h.Date, "date", h.Date, "of when it is, for people")
	flags.StringVar(&h.Licence, "licence", h.Licence, "its terms, for people")
}

// checkHead refuses what no panel can say of itself.
func checkHead(h catalogue.Head) error {
	if err := h.Check(); err != nil {
		return cli.Usagef("--id, --panel-version, --source, --date and --licence: %w", err)
	}
	return nil
}

func panelMakeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "make",
		Short: "Make a panel of a table that others publish",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(panelMakeTBCommand(), panelMakeLineagesCommand())
	return cmd
}

func panelMakeTBCommand() *cobra.Command {
	cfg := panelMakeConfig{head: catalogue.WHO2021()}
	cmd := &cobra.Command{
		Use:   "tb --ref FASTA --gff GFF3 TABLE.tsv",
		Short: "Panel of the WHO's catalogue of mutations of M. tuberculosis",
		Long: `Writes a panel of the WHO's catalogue of mutations of 2021: what is associated
with resistance (grading 1) or so far (2). TABLE.tsv has the columns gene,
mutation, alphabet (DNA or PROT), drug and grading, and may be gzipped; - is
standard input. A mutation that is graded twice for a drug has the better grade. Of
another edition say so with --id, --panel-version, --source and --date. The
reference is H37Rv, NC_000962.3, with its RefSeq annotation, and every row is held
against it. The catalogue is under CC BY-NC-SA 3.0 IGO, and so is the panel.`,
		Example: `  pore panel make tb --ref h37rv.fa --gff h37rv.gff3 who-panel.tsv > tb.yaml`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return makeTB(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cfg.genes.Register(flags)
	registerHead(flags, &cfg.head)
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func makeTB(ctx context.Context, cfg panelMakeConfig, table string, stdin io.Reader, stdout, stderr io.Writer) error {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: H37Rv, NC_000962.3")
	}
	if err := checkHead(cfg.head); err != nil {
		return err
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	annotator, err := cfg.genes.Annotator(ctx, g, logger)
	if err != nil {
		return err
	}
	in, name, err := openInput(table, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := catalogue.Tuberculosis(stdout, in, cfg.head, g, annotator)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(stderr, "%d rules\n", n)
	return nil
}

type panelMakeLineagesConfig struct {
	reference string
	head      catalogue.Head
}

func panelMakeLineagesCommand() *cobra.Command {
	cfg := panelMakeLineagesConfig{head: catalogue.Head{ID: "lineages", Version: "1"}}
	cmd := &cobra.Command{
		Use:   "lineages --ref FASTA BARCODE.bed",
		Short: "Panel of a barcode of lineages",
		Long: `Writes a panel with a rule for each lineage of a barcode: a BED file of single
positions, whose fourth column is the lineage and whose fifth the base that its
members have, such as those of TB-Profiler; it may be gzipped, and - is standard
input. Positions where the reference itself has that base are left out, and counted.
Lineages without any other, to which the reference belongs, have no rule, and are named.`,
		Example: `  pore panel make lineages --ref h37rv.fa --id tb-lineage --source tbdb barcode.bed > tb-lineage.yaml`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return makeLineages(cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome of one contig, FASTA, may be gzipped (required)")
	registerHead(flags, &cfg.head)
	return cmd
}

func makeLineages(cfg panelMakeLineagesConfig, barcode string, stdin io.Reader, stdout, stderr io.Writer) error {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the genome that the barcode's positions are on")
	}
	if err := checkHead(cfg.head); err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	in, name, err := openInput(barcode, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	made, err := catalogue.Lineages(stdout, in, cfg.head, g)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(stderr, "%d rules; at %d positions the reference itself has the lineage's base, so there is no change to watch for\n", made.Rules, made.LeftOut)
	if len(made.Without) > 0 {
		fmt.Fprintf(stderr, "no rule for %s: the reference itself has their bases at all of their positions\n", strings.Join(made.Without, ", "))
	}
	return nil
}
