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

type diplotypeConfig struct {
	definitions  []string
	least        diplotype.Least
	combinations bool
}

func diplotypeCommand() *cobra.Command {
	var cfg diplotypeConfig
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
			if cfg.least.Depth < 0 || cfg.least.Quality < 0 {
				return cli.Usagef("--min-depth and --min-gq must not be negative")
			}
			return nameAlleles(cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringArrayVar(&cfg.definitions, "definitions", nil, "PharmCAT's definitions of a gene, JSON (required); may be given several times")
	cmd.Flags().BoolVar(&cfg.combinations, "combinations", false, "where no pair of alleles explains the calls, name copies by combinations of alleles and changes besides, as [*6 + *14]; for research")
	cmd.Flags().IntVar(&cfg.least.Depth, "min-depth", diplotype.DefaultLeast().Depth, "least reads (MIN_DP, else DP) for a position to count, where the calls have them")
	cmd.Flags().IntVar(&cfg.least.Quality, "min-gq", diplotype.DefaultLeast().Quality, "least quality of the genotype (GQ, else RGQ) for a position to count, where the calls have it")
	return cmd
}

func nameAlleles(cfg diplotypeConfig, calls string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(cfg.definitions) == 0 {
		return cli.Usagef("--definitions is required: PharmCAT's definitions of a gene, such as CYP2C19_translation.json")
	}
	genes, err := processor.LoadDefinitions(cfg.definitions, nil)
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
	called, err := newCalledGenes(&cfg, genes, r.Header())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := called.read(r, name); err != nil {
		return err
	}
	out := bufio.NewWriter(stdout)
	fmt.Fprintln(out, diplotype.TableHeader)
	for i := range names {
		for k, s := range called.samples[i] {
			c := s.Call()
			if c.Refused != "" {
				fmt.Fprintf(stderr, "%s: sample %s, %s: %s\n", name, names[i], c.Gene, c.Refused)
			}
			fmt.Fprintln(out, genes[k].Row(names[i], c))
		}
	}
	return out.Flush()
}

// calledGenes are the genes of a file's samples, and what its records say of them.
type calledGenes struct {
	samples [][]*diplotype.Sample // in the order of the file, each with one for a gene
	contigs []*diplotype.Contigs  // by gene: whether the file has the contig that it is on
}

func newCalledGenes(cfg *diplotypeConfig, genes []*diplotype.Definitions, header *vcf.Header) (*calledGenes, error) {
	c := &calledGenes{samples: make([][]*diplotype.Sample, len(header.Samples))}
	for _, d := range genes {
		contigs, err := diplotype.NewContigs(d, header)
		if err != nil {
			return nil, err
		}
		c.contigs = append(c.contigs, contigs)
		for i := range c.samples {
			s := diplotype.NewSample(d, cfg.least)
			s.Combinations = cfg.combinations
			c.samples[i] = append(c.samples[i], s)
		}
	}
	return c, nil
}

// read reads the file's records to the last.
func (c *calledGenes) read(r *vcf.Reader, name string) error {
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, contigs := range c.contigs {
			contigs.Add(rec.Chrom)
		}
		for i := range c.samples {
			for _, s := range c.samples[i] {
				if err := s.Add(rec, i); err != nil {
					return fmt.Errorf("%s:%d: %w", name, r.Line(), err)
				}
			}
		}
	}
	for _, contigs := range c.contigs {
		if err := contigs.Err(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
