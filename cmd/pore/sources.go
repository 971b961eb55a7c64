package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/source"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
)

func sourcesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sources",
		Short: "Compile ClinVar, gnomAD, dbSNP and other sources of known variants, and query them",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name a command; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(sourcesBuild(), sourcesList(), sourcesInfo(), sourcesVerify(), sourcesLookup())
	return cmd
}

type sourcesBuildConfig struct {
	reference, synonyms, out string
	columns                  map[string]string
	matches                  []string
	memory                   cli.Bytes
	source                   source.Config
	log                      cli.LogFlags
}

func sourcesBuild() *cobra.Command {
	var cfg sourcesBuildConfig
	cmd := &cobra.Command{
		Use:   "build --ref FASTA --name NAME --version VERSION IN -o OUT.pss",
		Short: "Compile a VCF, BED or TSV to a source for --source",
		Long: `Compiles a VCF, BED or TSV, plain or gzipped, to a file for --source of pore
annotate, pore run and processor. - is standard input. The file at OUT is replaced
in one step: a program that has it open goes on with the old one, or takes the new one.`,
		Example: `  pore sources build --ref GRCh38.fa --name clinvar --version 2026-11 --fields CLNSIG,CLNREVSTAT clinvar.vcf.gz -o clinvar.pss
  pore sources build --ref GRCh38.fa --name panel --version 3 panel.bed -o panel.pss
  pore sources build --ref GRCh38.fa --name am --version 1 --columns chrom=CHROM,pos=POS,ref=REF,alt=ALT \
      --fields am_pathogenicity:Float,am_class AlphaMissense.tsv.gz -o am.pss`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.SpareInputs(cmd.Flags(), args, "output"); err != nil {
				return err
			}
			return buildSource(cmd.Context(), cfg, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.source.Name, "name", "", "name of the source, which begins the names of its INFO fields (required)")
	flags.StringVar(&cfg.source.Version, "version", "", "release of the source (required)")
	flags.StringVar(&cfg.source.Date, "date", "", "date of the release, YYYY-MM-DD; if not given a VCF's ##fileDate")
	flags.StringVar(&cfg.source.Kind, "kind", "", "vcf, bed or tsv, if it can't be seen")
	flags.StringSliceVar(&cfg.source.Fields, "fields", nil, "what to keep: keys of INFO, FILTER, or of a BED or TSV NAME[=COLUMN][:TYPE] (default everything declared)")
	flags.StringToStringVar(&cfg.columns, "columns", nil, "columns of a TSV by name or number: chrom, pos (1-based) or start (0-based), end, ref, alt, id")
	flags.StringSliceVar(&cfg.matches, "match", nil, "exact, position, overlap (default exact for alleles, overlap for intervals)")
	flags.StringVar(&cfg.synonyms, processor.SynonymsFlag, "", processor.SynonymsUsage)
	cfg.memory = 256 << 20
	flags.Var(&cfg.memory, "memory", "memory to sort in, 1MiB or more; what is more goes to temporary files beside OUT")
	flags.StringVarP(&cfg.out, "output", "o", "", "file to write (required)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func buildSource(ctx context.Context, cfg sourcesBuildConfig, input string) error {
	switch {
	case cfg.reference == "":
		return cli.Usagef("--ref is required: the reference genome as FASTA")
	case cfg.source.Name == "" || cfg.source.Version == "":
		return cli.Usagef("--name and --version are required: they are in every record that the source is found for")
	case cfg.out == "":
		return cli.Usagef("-o is required: the file to write")
	case cfg.memory < 1<<20:
		return cli.Usagef("--memory %s is less than 1MiB: give a unit, as in 256MiB", &cfg.memory)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	c := cfg.source
	c.Logger, c.Memory, c.Columns = logger, int(cfg.memory), cfg.columns
	for _, m := range cfg.matches {
		c.Matches = append(c.Matches, annotate.Match(m))
	}
	if c.Genome, err = genome.Load(cfg.reference); err != nil {
		return err
	}
	if cfg.synonyms != "" {
		if err := c.Genome.LoadSynonyms(cfg.synonyms); err != nil {
			return err
		}
	}
	var total int64
	if info, err := os.Stat(input); err == nil && info.Mode().IsRegular() {
		total = info.Size()
	}
	var done atomic.Int64
	c.Progress = done.Store
	stop := cli.ShowProgress(os.Stderr, "B", func() (int64, int64) { return done.Load(), total })
	defer stop()
	meta, err := source.Compile(ctx, c, input, cfg.out)
	stop()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s %s: %d records, %d alleles, %d intervals%s%s\n", meta.Name, meta.Version,
		meta.Counts.Records, meta.Counts.Alleles, meta.Counts.Spans,
		listCounts("; left out: ", meta.Counts.Skipped), listCounts("; values left out: ", meta.Counts.Dropped))
	return nil
}

// listCounts is a list of counts by name; "" if there are none.
func listCounts(title string, counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d %s", counts[name], name))
	}
	return title + strings.Join(list, ", ")
}

func sourcesList() *cobra.Command {
	return &cobra.Command{
		Use:     "ls FILE|DIR...",
		Short:   "List compiled sources",
		Example: `  pore sources ls /data/sources`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := sourcePaths(args)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tVERSION\tDATE\tMATCH\tALLELES\tINTERVALS\tFIELDS\tFILE")
			for _, path := range paths {
				err := withSource(path, func(s *source.Store) error {
					m := &s.Meta
					var matches []string
					for _, k := range m.Matches {
						matches = append(matches, string(k))
					}
					_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", m.Name, m.Version, orDash(m.Date),
						strings.Join(matches, ","), m.Counts.Alleles, m.Counts.Spans, len(m.Fields), path)
					return err
				})
				if err != nil {
					return errors.Join(w.Flush(), err)
				}
			}
			return w.Flush()
		},
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// sourcePaths replaces folders by the sources in them.
func sourcePaths(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			paths = append(paths, arg)
			continue
		}
		found, err := filepath.Glob(filepath.Join(arg, "*.pss"))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

// withSource opens a source without a reference.
func withSource(path string, f func(*source.Store) error) error {
	s, err := source.Open(path, nil)
	if err != nil {
		return err
	}
	if err := f(s); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s.Close()
}

func sourcesInfo() *cobra.Command {
	return &cobra.Command{
		Use:     "info FILE",
		Short:   "Print what a compiled source says about itself, as JSON",
		Example: `  pore sources info clinvar.pss`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSource(args[0], func(s *source.Store) error {
				return printJSON(cmd.OutOrStdout(), &s.Meta)
			})
		},
	}
}

func sourcesVerify() *cobra.Command {
	var reference string
	cmd := &cobra.Command{
		Use:     "verify [--ref FASTA] FILE|DIR...",
		Short:   "Compare all checksums of compiled sources, and their reference",
		Example: `  pore sources verify clinvar.pss`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := sourcePaths(args)
			if err != nil {
				return err
			}
			var g *genome.Genome
			if reference != "" {
				if g, err = genome.Load(reference); err != nil {
					return err
				}
			}
			var errs []error
			for _, path := range paths {
				errs = append(errs, verifySource(path, g))
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d sources are whole\n", len(paths))
			return err
		},
	}
	cmd.Flags().StringVar(&reference, "ref", "", "reference genome that they must have been compiled for")
	return cmd
}

func verifySource(path string, g *genome.Genome) error {
	s, err := source.Open(path, g)
	if err != nil {
		return err
	}
	if err := s.Verify(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s.Close()
}

func sourcesLookup() *cobra.Command {
	var reference string
	var paths []string
	cmd := &cobra.Command{
		Use:   "lookup --ref FASTA --source FILE... CONTIG:POS:REF:ALT...|-",
		Short: "Print what sources know of variants, a JSON line each",
		Long: `Prints a JSON line for each variant, CONTIG:POS:REF:ALT as in VCF. - reads them from
standard input, one per line.`,
		Example: `  pore sources lookup --ref ref.fa --source clinvar.pss chr7:140753336:A:T`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if reference == "" || len(paths) == 0 {
				return cli.Usagef("--ref and --source are required: the reference genome and compiled sources")
			}
			g, err := genome.Load(reference)
			if err != nil {
				return err
			}
			a, closeSources, err := withSources(annotate.New(g, nil), g, paths)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closeSources()) }()
			return lookup(args, cmd.InOrStdin(), cmd.OutOrStdout(), a)
		},
	}
	cmd.Flags().StringVar(&reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cmd.Flags().StringArrayVar(&paths, "source", nil, "compiled source; may be repeated (required)")
	return cmd
}

// withSources gives an annotator sources, which may be none. What it returns closes them.
func withSources(a *annotate.Annotator, g *genome.Genome, paths []string) (*annotate.Annotator, func() error, error) {
	if len(paths) == 0 {
		return a, func() error { return nil }, nil
	}
	set, err := source.OpenSet(g, paths...)
	if err != nil {
		return nil, nil, err
	}
	return a.WithSources(set), set.Close, nil
}

// lookup prints the sources' entries on each variant.
func lookup(args []string, stdin io.Reader, stdout io.Writer, a *annotate.Annotator) error {
	w := bufio.NewWriter(stdout)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	one := func(text string) error {
		f := strings.Split(text, ":")
		if len(f) < 4 {
			return fmt.Errorf("%q: want CONTIG:POS:REF:ALT", text)
		}
		n := len(f) // contig names may have colons
		pos, err := strconv.Atoi(f[n-3])
		if err != nil {
			return fmt.Errorf("%q: %q is not a position", text, f[n-3])
		}
		ann, err := a.Annotate(strings.Join(f[:n-3], ":"), pos, f[n-2], f[n-1])
		if err != nil {
			return err
		}
		return enc.Encode(struct {
			Variant string           `json:"variant"`
			Known   []annotate.Known `json:"known"`
		}{text, append([]annotate.Known{}, ann.Known...)})
	}
	err := eachArgument(args, stdin, one)
	return errors.Join(err, w.Flush())
}

// eachArgument calls f for each argument; "-" stands for the lines of standard input.
func eachArgument(args []string, stdin io.Reader, f func(string) error) error {
	for _, arg := range args {
		if arg != "-" {
			if err := f(arg); err != nil {
				return err
			}
			continue
		}
		lines := bufio.NewScanner(stdin)
		for n := 1; lines.Scan(); n++ {
			if text := strings.TrimSpace(lines.Text()); text != "" {
				if err := f(text); err != nil {
					return fmt.Errorf("standard input: line %d: %w", n, err)
				}
			}
		}
		if err := lines.Err(); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	return nil
}
