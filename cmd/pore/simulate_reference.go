package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/wholefile"
)

type simulateReferenceConfig struct {
	plant           plantFlags
	output          string
	inside, outside string
	run             int
	log             cli.LogFlags
}

func simulateReferenceCommand() *cobra.Command {
	var cfg simulateReferenceConfig
	cmd := &cobra.Command{
		Use:   "reference --ref FASTA --variants SPEC [--truth OUT.vcf]",
		Short: "Plant variants into a reference, so that real reads have them",
		Long: `Writes a reference with planted variants to standard output, as FASTA. Reads of the
original genome, aligned to it, have the changes back: those are in --truth, as VCF
of the new reference. So a caller is tried on real reads with a known truth.

  pore simulate reference --ref NEB.fa --variants snp=200,indel=100 --seed 1 \
    --truth truth.vcf -o planted.fa
  pore align --ref planted.fa reads.fastq > reads.bam

--variants is described in pore simulate reads --help.`,
		Example: `  pore simulate reference --ref ref.fa --variants human --truth truth.vcf > other.fa`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return simulateReference(cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	cfg.plant.register(flags)
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file")
	flags.StringVar(&cfg.inside, "homopolymers", "", "BED file for where the old or the new reference has homopolymers, with a base on either side")
	flags.StringVar(&cfg.outside, "outside-homopolymers", "", "BED file for everywhere else")
	flags.IntVar(&cfg.run, "homopolymer-length", 5, "least bases of those")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func simulateReference(cfg simulateReferenceConfig, stdout io.Writer) error {
	if cfg.plant.Ploidy != 1 {
		return cli.Usagef("--ploidy %d: a reference is of one haplotype", cfg.plant.Ploidy)
	}
	if cfg.run < 2 {
		return cli.Usagef("--homopolymer-length %d: want at least 2", cfg.run)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	truth := cfg.plant.truth
	cfg.plant.truth = "" // it is of the new reference
	g, sites, err := cfg.plant.plant()
	if err != nil {
		return err
	}
	planted, err := reverse(g, sites, cfg.run)
	if err != nil {
		return err
	}
	logger.Info("variants are planted", "variants", len(planted.back))
	if truth != "" {
		if err := simulation.WriteSites(truth, simulate.Header(planted.genome, cfg.plant.sample), planted.back); err != nil {
			return err
		}
	}
	if err := writeIntervals(cfg.inside, planted.inside); err != nil {
		return err
	}
	if err := writeIntervals(cfg.outside, planted.outside); err != nil {
		return err
	}
	return writeOutput(cfg.output, stdout, func(out *bufio.Writer) error { return writeFASTA(out, planted.genome) })
}

// plantedReference is a genome with variants in it.
type plantedReference struct {
	genome *genome.Genome
	back   []simulate.Site // that lead back from it to the genome without
	// Where it or the genome without has homopolymers, and where not.
	inside, outside []contigIntervals
}

type contigIntervals struct {
	contig    string
	intervals []simulate.Interval
}

// reverse plants sites, which are in the genome's order, and turns them round; homopolymers have run bases at least.
func reverse(g *genome.Genome, sites []simulate.Site, run int) (*plantedReference, error) {
	p := &plantedReference{genome: new(genome.Genome)}
	for _, c := range g.Contigs {
		n := 0
		for n < len(sites) && sites[n].Contig == c.Name {
			n++
		}
		h, changes, err := simulate.Reverse(c, sites[:n])
		if err != nil {
			return nil, err
		}
		sites = sites[n:]
		p.back = append(p.back, changes...)
		p.genome.Contigs = append(p.genome.Contigs, &genome.Contig{Name: c.Name, Seq: h.Seq})
		long := simulate.Homopolymers(c, h, run)
		p.inside = append(p.inside, contigIntervals{c.Name, long})
		p.outside = append(p.outside, contigIntervals{c.Name, simulate.Outside(long, len(h.Seq))})
	}
	return p, nil
}

// writeIntervals writes a BED file, unless the path is empty.
func writeIntervals(path string, contigs []contigIntervals) error {
	if path == "" {
		return nil
	}
	return wholefile.Write(path, func(out *bufio.Writer) error {
		for _, c := range contigs {
			for _, v := range c.intervals {
				fmt.Fprintf(out, "%s\t%d\t%d\n", c.contig, v.Start, v.End)
			}
		}
		return nil
	})
}

// writeFASTA writes contigs in lines of 80 bases.
func writeFASTA(out *bufio.Writer, g *genome.Genome) error {
	for _, c := range g.Contigs {
		out.WriteString(">" + c.Name + "\n")
		for seq := c.Seq; len(seq) > 0; {
			n := min(80, len(seq))
			out.Write(seq[:n])
			if err := out.WriteByte('\n'); err != nil { // a bufio.Writer keeps its first error
				return err
			}
			seq = seq[n:]
		}
	}
	return nil
}
