package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/network"
	"github.com/porestream/porestream/watchlist/ready"
)

func panelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "panel",
		Short: "Watch-lists: panels of alleles, genes and regions to be alerted of",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(panelCheckCommand(), panelAnswerCommand(), panelMakeCommand(), panelListCommand(), panelShowCommand())
	return cmd
}

type panelCheckConfig struct {
	reference, format, library string
	genes                      processor.Genes
	log                        cli.LogFlags
}

func panelCheckCommand() *cobra.Command {
	var cfg panelCheckConfig
	cmd := &cobra.Command{
		Use:   "check --ref FASTA [--gff GFF3] PANEL...",
		Short: "Check panels against a reference and its genes",
		Long: `Writes a line for each rule, and for each allele of rules that name several:
what it means on the reference, and the depth that NEGATIVE needs. The networks of
models are opened, as a processor does, and have to answer samples that are made up.
A panel with faults is refused: they are reported with file and line, and the exit
code is 1. PANEL is a file, or the name of a ready panel (pore panel ls).`,
		Example: `  pore panel check --ref ref.fa --gff genes.gff3 panel.yaml`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkPanels(cmd.Context(), cfg, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cfg.genes.Register(flags)
	flags.StringVar(&cfg.format, "format", "tsv", "tsv or json (one object per line)")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime library, for panels that ask models; else the environment variable ORT_LIB")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func checkPanels(ctx context.Context, cfg panelCheckConfig, paths []string, stdout, stderr io.Writer) (err error) {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome that the panels are about")
	}
	if cfg.format != "tsv" && cfg.format != "json" {
		return cli.Usagef("--format %q: want tsv or json", cfg.format)
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
	w, err := newWatch(g, annotator, paths, stderr)
	if err != nil {
		return err
	}
	opened, err := attachModels(w, cfg.library, logger, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	for _, warning := range w.Warnings() {
		fmt.Fprintln(stderr, "warning:", warning)
	}
	return writeResolved(stdout, w.Resolve(), cfg.format)
}

// writeResolved writes what rules mean.
func writeResolved(w io.Writer, rules []watchlist.Resolved, format string) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if format == "tsv" {
		fmt.Fprintln(out, watchlist.ResolvedColumns)
	}
	for _, r := range rules {
		if format == "json" {
			if err := enc.Encode(r); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(out, r.Text())
	}
	return out.Flush()
}

// newWatch loads panels and checks them against a reference, and reports all faults.
func newWatch(g *genome.Genome, annotator *annotate.Annotator, paths []string, stderr io.Writer) (*watchlist.Watch, error) {
	var panels []*watchlist.Panel
	var faults []error
	for _, path := range paths {
		p, err := ready.Open(path)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		panels = append(panels, p)
	}
	w, err := watchlist.New(g, annotator, panels...)
	if err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, refused(err, stderr)
	}
	return w, nil
}

// attachModels opens the networks of the models that panels ask, and reports all faults.
func attachModels(w *watchlist.Watch, library string, logger *slog.Logger, stderr io.Writer) (network.Networks, error) {
	opened, err := network.Attach(w, library, logger)
	if err != nil {
		return nil, refused(err, stderr)
	}
	return opened, nil
}

// refused writes what is wrong with panels.
func refused(faults error, stderr io.Writer) error {
	fmt.Fprintln(stderr, faults)
	return fmt.Errorf("the panels can't be used as they are: see the lines above")
}

func panelListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "Panels that come with Porestream",
		Long:    "Writes a line for each panel that --panel takes by its name: rules, date, licence,\ntitle and source.",
		Example: "  pore panel ls",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			fmt.Fprintln(out, "#name\trules\tdate\tlicence\ttitle\tsource")
			for _, name := range ready.Names() {
				p, err := ready.Open(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "%s\t%d\t%s\t%s\t%s\t%s\n", name, p.Rules(), p.Date, p.Licence, p.Title, p.Source)
			}
			return out.Flush()
		},
	}
}

func panelShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "A panel that comes with Porestream, as YAML",
		Long:    "Writes a ready panel, to be read or to be changed for one's own use: give it an id\nof its own then.",
		Example: "  pore panel show malaria > my-malaria.yaml",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := ready.Text(args[0])
			if text == nil {
				return cli.Usagef("no ready panel %q: there are %s", args[0], strings.Join(ready.Names(), ", "))
			}
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
