package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/vcf"
)

func diplotypeCommand() *cobra.Command {
	var definitions []string
	var least diplotype.Least
	var combinations bool
	cmd := &cobra.Command{
		Use:   "diplotype --definitions GENE_translation.json... CALLS.vcf",
		Short: "Named alleles of genes (star alleles), from calls",
		Long: `Writes a line for each sample and gene: the pairs of named alleles that explain
the calls with the most positions that define them, with semicolons between them
where it can't be decided which; all other pairs that explain the calls; alleles all
of whose positions are missing, so that they may be there; the positions that are
missing, those with bases that no allele has, and why there is no pair. Definitions
are PharmCAT's JSON files; - is standard input. What no record speaks of is missing,
not the reference: give a gVCF (pore call --gvcf --ploidy 2). What has failed a
filter, or has fewer reads or a lower GQ than asked for, is missing, too. Phase
comes from GT with | and PS. Structural alleles (CYP2D6) aren't called, combinations
that have no name with --combinations only, but of DPYD and RYR1.`,
		Example: `  pore diplotype --definitions CYP2C19_translation.json calls.g.vcf.gz`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if least.Depth < 0 || least.Quality < 0 {
				return cli.Usagef("--min-depth and --min-gq must not be negative")
			}
			return nameAlleles(definitions, least, combinations, args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringArrayVar(&definitions, "definitions", nil, "PharmCAT's definitions of a gene, JSON (required); may be given several times")
	cmd.Flags().BoolVar(&combinations, "combinations", false, "where no pair of alleles explains the calls, name copies by combinations of alleles and changes besides, as [*6 + *14]; for research")
	cmd.Flags().IntVar(&least.Depth, "min-depth", diplotype.DefaultLeast().Depth, "least reads (MIN_DP, else DP) for a position to count, where the calls have them")
	cmd.Flags().IntVar(&least.Quality, "min-gq", diplotype.DefaultLeast().Quality, "least quality of the genotype (GQ, else RGQ) for a position to count, where the calls have it")
	return cmd
}

func nameAlleles(paths []string, least diplotype.Least, combinations bool, calls string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(paths) == 0 {
		return cli.Usagef("--definitions is required: PharmCAT's definitions of a gene, such as CYP2C19_translation.json")
	}
	genes, err := processor.LoadDefinitions(paths, nil)
	if err != nil {
		return err
	}
	in, name, err := openInput(calls, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := vcf.NewReader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	names := r.Header().Samples
	if len(names) == 0 {
		return fmt.Errorf("%s has no sample: genotypes are needed", name)
	}
	samples := make([][]*diplotype.Sample, len(names))
	var contigs []*diplotype.Contigs
	for _, d := range genes {
		c, err := diplotype.NewContigs(d, r.Header())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		contigs = append(contigs, c)
		for i := range names {
			s := diplotype.NewSample(d, least)
			s.Combinations = combinations
			samples[i] = append(samples[i], s)
		}
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, c := range contigs {
			c.Add(rec.Chrom)
		}
		for i := range names {
			for _, s := range samples[i] {
				if err := s.Add(rec, i); err != nil {
					return fmt.Errorf("%s:%d: %w", name, r.Line(), err)
				}
			}
		}
	}
	for _, c := range contigs {
		if err := c.Err(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	out := bufio.NewWriter(stdout)
	fmt.Fprintln(out, diplotype.TableHeader)
	for i := range names {
		for k, s := range samples[i] {
			c := s.Call()
			if c.Refused != "" {
				fmt.Fprintf(stderr, "%s: sample %s, %s: %s\n", name, names[i], c.Gene, c.Refused)
			}
			fmt.Fprintln(out, genes[k].Row(names[i], c))
		}
	}
	return out.Flush()
}
