package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
)

type genesConfig struct {
	reference, output string
	translated        string
	finding           processor.Finding
	codes             annotate.GeneticCodes
	log               cli.LogFlags
}

func genesCommand() *cobra.Command {
	var cfg genesConfig
	cmd := &cobra.Command{
		Use:   "genes --ref FASTA [--proteins KNOWN] [-o OUT.gff3]",
		Short: "Find the genes of a bacterium, archaeon, virus or plasmid in its sequence alone",
		Long: `Writes the genes of proteins, rRNA and tRNA of a genome as GFF3, for genomes that come as FASTA
without annotation. What genes look like is learnt from the genome itself, and from a
prior where the genome is short. The genetic code is found if it isn't given. Genes
that the end of a contig cuts are reported as partial.

What is left of a broken gene is reported as a pseudogene, if its codons, an insertion
sequence in it, a longer gene of the same genome, or a known protein shows it to be broken.

With --proteins, a gene whose protein is like one of those gets its name, product and
terms, and the identity and coverage of the two. Others stay without a name.

It finds no introns: for a eukaryote, give the GFF3 of AUGUSTUS, Helixer or Tiberius to
pore annotate and the others. Counts come last, on standard error.`,
		Example: `  pore genes --ref assembly.fa --circular chromosome,plasmid1 > genes.gff3
  pore annotate --ref assembly.fa --gff genes.gff3 calls.vcf > annotated.vcf
  pore genes --ref assembly.fa --proteins related.gbff.gz -o named.gff3 --faa proteins.faa`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.reference == "" {
				return cli.Usagef("--ref is required: the genome to find genes in")
			}
			if len(cfg.finding.Naming.Functions) > 0 && len(cfg.finding.Naming.Proteins) == 0 {
				return cli.Usagef("--functions are those of known proteins: give them with --proteins")
			}
			if len(cfg.codes.Contig) > 0 {
				return cli.Usagef("--genetic-code %s: want one number, all contigs have the same code", cfg.codes.String())
			}
			if cfg.translated != "" && cfg.translated == cfg.output {
				return cli.Usagef("--faa and -o are both %s: give each a file of its own", cfg.output)
			}
			if err := cli.SpareInputs(cmd.Flags(), nil, "output", "faa"); err != nil {
				return err
			}
			cfg.finding.Code = cfg.codes.Default
			logger, err := cfg.log.Logger(os.Stderr)
			if err != nil {
				return err
			}
			return findGenes(cmd.Context(), cfg, cmd.OutOrStdout(), logger)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "genome, FASTA, may be gzipped (required)")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file, GFF3")
	flags.StringVar(&cfg.translated, "faa", "", "file for the proteins of the genes found, FASTA")
	cfg.finding.Naming.Register(flags)
	flags.StringArrayVar(&cfg.finding.Naming.Functions, "functions", nil, "terms of the Gene Ontology that the known proteins have: GAF, GPAD or InterProScan; may be given several times")
	flags.StringSliceVar(&cfg.finding.Circular, "circular", nil, "circular contigs, several with commas; all for every one")
	flags.Var(&cfg.codes, "genetic-code", "NCBI's genetic code of the genome, a number; found among 11, 4, 25 and 1 if not given")
	flags.StringVar(&cfg.finding.Prior, "prior", "", "what is known of genes before the genome is read, made by train/genes; that of the release if not given")
	flags.BoolVar(&cfg.finding.AnySize, "any-size", false, "search sequences that are longer than any bacterium's genome, too")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func findGenes(ctx context.Context, cfg genesConfig, stdout io.Writer, logger *slog.Logger) error {
	g, err := new(processor.Genes).Genome(cfg.reference)
	if err != nil {
		return err
	}
	found, err := cfg.finding.Find(ctx, g)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.reference, err)
	}
	write := func(path string, text func(io.Writer) error) error {
		return writeOutput(path, stdout, func(out *bufio.Writer) error { return text(out) })
	}
	err = write(cfg.output, found.Write)
	if err == nil && cfg.translated != "" {
		err = write(cfg.translated, found.WriteProteins)
	}
	if err != nil {
		return err
	}
	if warning := found.Doubt(); warning != "" {
		logger.Warn(warning, "file", cfg.reference)
	}
	fmt.Fprintln(os.Stderr, found.Summary())
	return nil
}
