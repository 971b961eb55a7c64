package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/haplotype"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vcf/filter"
)

// bcsqFlags say how BCSQ is called, as bcftools csq's options of the same names do.
type bcsqFlags struct {
	local, greedy     bool
	phase             string
	include, exclude  string
	trimProtein, ncsq int
}

func (f *bcsqFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.local, "local", false, "bcsq: each variant on its own, whatever else is on its haplotype")
	flags.StringVar(&f.phase, "phase", "r", "bcsq: unphased heterozygous genotypes: r is an error, a as they are, m all alleles on one haplotype, R no reference alleles, s leave out")
	flags.StringVarP(&f.include, "include", "i", "", "bcsq: only of records of which this expression is true; it has bcftools' syntax")
	flags.StringVarP(&f.exclude, "exclude", "e", "", "bcsq: not of records of which this expression is true")
	flags.BoolVar(&f.greedy, "greedy", false, "bcsq: introns and non-coding transcripts even where another transcript is hit in an exon")
	flags.IntVar(&f.trimProtein, "trim-protein", 0, "bcsq: amino acids to write of longer changes (0: all)")
	flags.IntVar(&f.ncsq, "ncsq", 15, "bcsq: consequences of a record that FORMAT/BCSQ can name per haplotype")
}

// check refuses flags that make no sense. wanted says whether BCSQ is to be written.
func (f *bcsqFlags) check(wanted bool) error {
	given := f.local || f.greedy || f.include != "" || f.exclude != "" || f.trimProtein != 0
	switch {
	case !wanted && given:
		return cli.Usagef("--local, --greedy, --include, --exclude and --trim-protein are for --fields bcsq")
	case f.include != "" && f.exclude != "":
		return cli.Usagef("--include and --exclude: give one of them")
	case len(f.phase) != 1:
		return cli.Usagef("--phase %q: want one of r, a, m, R and s", f.phase)
	case f.ncsq < 1 || f.trimProtein < 0:
		return cli.Usagef("--ncsq %d, --trim-protein %d: want a number above 0, and one that is not negative", f.ncsq, f.trimProtein)
	}
	return nil
}

// annotator makes what writes BCSQ.
func (f *bcsqFlags) annotator(g *genome.Genome, m *annotate.Model, allStarts, skipErrors bool, logger *slog.Logger) (*haplotype.Annotator, error) {
	genes, err := haplotype.NewGenes(g, m, allStarts)
	if err != nil {
		return nil, err
	}
	for _, w := range genes.Warnings {
		logger.Warn("genes are not used completely for BCSQ", "reason", w)
	}
	opts := haplotype.Options{
		Phase: haplotype.Phase(f.phase[0]), Local: f.local, Greedy: f.greedy, TrimProtein: f.trimProtein, PerHaplotype: f.ncsq,
	}
	return haplotype.NewAnnotator(genes, opts, f.choose, skipErrors, logger), nil
}

// choose reads the expression for a file with the given header.
func (f *bcsqFlags) choose(h *vcf.Header) (haplotype.Select, error) {
	text, want := f.include, true
	if f.exclude != "" {
		text, want = f.exclude, false
	}
	if text == "" {
		return nil, nil
	}
	expression, err := filter.Parse(text, h)
	if err != nil {
		return nil, cli.Usagef("--include, --exclude: %w", err)
	}
	return func(rec *vcf.Record) bool { return expression.Match(rec) == want }, nil
}

// reportBCSQ logs what was left out of BCSQ.
func reportBCSQ(w io.Writer, a *haplotype.Annotator) {
	c := a.Counts()
	for _, line := range []struct {
		n    int
		text string
	}{
		{a.Skipped, "records with errors have no BCSQ"},
		{c.Colliding, "variants overlap one before them on their haplotype and are not part of it"},
		{c.Polyploid, "reads records with genotypes of more than two alleles, or none, found no haplotypes"},
		{c.Overflowed, "consequences do not fit in FORMAT/BCSQ (see --ncsq)"},
	} {
		if line.n > 0 {
			fmt.Fprintf(w, "%d %s\n", line.n, line.text)
		}
	}
}

// explainBCSQ adds what to do about an error.
func explainBCSQ(err error) error {
	if errors.Is(err, haplotype.ErrUnphased) {
		return fmt.Errorf("%w: see --phase", err)
	}
	return err
}
