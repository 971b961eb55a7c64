package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/variant/consensus"
	"github.com/porestream/porestream/wholefile"
)

type consensusConfig struct {
	reference, callable, sample, name, output, ambiguous string
	consensus                                            consensus.Config
}

func consensusCommand() *cobra.Command {
	var cfg consensusConfig
	cmd := &cobra.Command{
		Use:   "consensus --ref FASTA [--callable BED] CALLS.vcf|-",
		Short: "Make a sample's sequence of its calls: N where reads leave it open, IUPAC where they show two bases",
		Long: `Writes the reference with a sample's calls in it, as FASTA. A position has a base only
where reads show it: by a call that passed its filters, by a block of a gVCF with
--min-depth reads at least, or by a stretch that is CALLABLE in --callable. Everything else is N, also
what failed a filter and what two records say in two ways.

The calls are those of pore call or of any VCF with genotypes. Without the blocks of a
gVCF, --callable is needed, as nothing else says where reads are.`,
		Example: `  pore call --ref ref.fa --gvcf reads.bam | pore consensus --ref ref.fa - > consensus.fa
  pore consensus --ref ref.fa --callable results/callable.bed results/variants.vcf -o consensus.fa`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.SpareInputs(cmd.Flags(), args, "output"); err != nil {
				return err
			}
			return makeConsensus(cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that was called against, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.callable, "callable", "", "BED of places that reads determine; of one with a fourth column, as pore call --callable writes it, those that are CALLABLE")
	flags.StringVar(&cfg.sample, "sample", "", "sample of the VCF, if it has several")
	flags.StringVar(&cfg.name, "name", "", "name of the sequences, before the contig's (default the sample's)")
	flags.IntVar(&cfg.consensus.MinDepth, "min-depth", 10, "least reads of a gVCF's block, and of a call, that determine a base")
	flags.Float64Var(&cfg.consensus.MinFraction, "min-fraction", 0.25, "least share of the reads that an allele needs beside another")
	flags.StringVar(&cfg.ambiguous, "ambiguous", string(consensus.IUPAC), "what bases with two alleles become: iupac, n or major")
	flags.StringVarP(&cfg.output, "output", "o", "", "file for the FASTA; standard output if not given")
	return cmd
}

func makeConsensus(cfg consensusConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome that was called against")
	}
	if cfg.consensus.Ambiguous, err = consensus.ParseAmbiguity(cfg.ambiguous); err != nil {
		return cli.Usagef("--ambiguous %w", err)
	}
	if cfg.consensus.MinDepth < 1 || !(cfg.consensus.MinFraction > 0 && cfg.consensus.MinFraction <= 0.5) {
		return cli.Usagef("--min-depth must be at least 1, and --min-fraction more than 0 and at most 0.5")
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	c := consensus.New(g, cfg.consensus)
	if cfg.callable != "" {
		if err := withText(cfg.callable, stdin, c.ReadBED); err != nil {
			return err
		}
	}
	if err := withText(path, stdin, func(r io.Reader, file string) error {
		cfg.sample, err = c.ReadVCF(r, file, cfg.sample)
		return err
	}); err != nil {
		return err
	}
	if !c.HasCoverage() {
		return fmt.Errorf("%s: it has no blocks of a gVCF, so nothing says where reads are: give --callable, or a VCF of pore call --gvcf", path)
	}
	if cfg.name == "" {
		cfg.name = cfg.sample
	}
	total, err := writeConsensus(cfg, g, c, stdout)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d bases, %d of them unknown (N); %d changes, %d places with several alleles, %d alleles that failed a filter or have too few reads, %d said in two ways, %d structural\n",
		cfg.name, total.Bases, total.Unknown, total.Applied, total.Ambiguous, total.Filtered, total.Conflicts, total.Unresolved)
	return nil
}

// withText gives what a file holds, unpacked, to a function; - is stdin.
func withText(path string, stdin io.Reader, fn func(r io.Reader, file string) error) error {
	in, name := stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in, name = f, path
	}
	text, err := textfile.NewReader(in, 1<<16)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fn(text, name)
}

// writeConsensus writes all contigs, a line for every 60 bases, and returns counts of their
// content.
func writeConsensus(cfg consensusConfig, g *genome.Genome, c *consensus.Consensus, stdout io.Writer) (total consensus.Counts, err error) {
	if cfg.output != "" {
		file, createErr := wholefile.Create(cfg.output)
		if createErr != nil {
			return total, createErr
		}
		stdout = file
		defer func() { err = file.Finish(err) }()
	}
	out := bufio.NewWriter(stdout)
	for _, contig := range g.Contigs {
		seq, n, err := c.Sequence(contig.Name)
		if err != nil {
			return total, err
		}
		total = total.Plus(n)
		fmt.Fprintf(out, ">%s|%s\n", cfg.name, contig.Name)
		for ; len(seq) > 0; seq = seq[min(60, len(seq)):] {
			_, _ = out.Write(seq[:min(60, len(seq))])
			_ = out.WriteByte('\n')
		}
	}
	if err := out.Flush(); err != nil {
		return total, fmt.Errorf("writing the consensus: %w", err)
	}
	return total, nil
}
