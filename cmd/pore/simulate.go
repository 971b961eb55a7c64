package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/inorder"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
	"github.com/porestream/porestream/simulate"
)

// plantFlags choose the variants that are planted.
type plantFlags struct {
	simulation.Plant
	truth  string
	sample string
}

func (f *plantFlags) register(flags *pflag.FlagSet) {
	f.VCFFlag = "vcf-in"
	flags.StringVar(&f.Reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&f.Variants, "variants", "none", "variants to plant: none, human, human-events, or changes to human as snp=1/1000,indel=1/8000,mnp=1/40000,max=20")
	flags.StringVar(&f.VCF, f.VCFFlag, "", "VCF of the variants to plant, in place of --variants; its first sample's genotypes count")
	flags.StringVar(&f.truth, "truth", "", "file for the VCF of the planted variants")
	flags.StringVar(&f.sample, "sample", "sample", "sample of the VCF")
	flags.IntVar(&f.Ploidy, "ploidy", 1, "haplotypes: 1 or 2")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed of all that is drawn")
}

// plant returns the reference and the variants, and writes the truth.
func (f *plantFlags) plant() (*genome.Genome, []simulate.Site, error) {
	g, sites, err := f.Load()
	if err != nil || f.truth == "" {
		return g, sites, err
	}
	return g, sites, simulation.WriteSites(f.truth, simulate.Header(g, f.sample), sites)
}

type simulateReadsConfig struct {
	plant   plantFlags
	reads   simulate.ReadsConfig
	profile string
	output  string
	threads int
	log     cli.LogFlags
}

func simulateReadsCommand() *cobra.Command {
	var cfg simulateReadsConfig
	cmd := &cobra.Command{
		Use:   "reads --ref FASTA --profile NAME --depth N [--variants SPEC | --vcf-in VCF] [--truth OUT.vcf]",
		Short: "Simulate reads of a genome with planted variants",
		Long: `Plants variants into a reference, or those of a VCF, reads the haplotypes with the
errors of a profile, and writes FASTQ to standard output. The same seed makes the same
bytes, whatever the number of threads.

A read's name has its number, haplotype and strand, and where it is from on the
reference, 1-based: r0000017_h2-_chr11:1204-13377.

--variants takes "human" (1 SNP per 1,000 bases, 1 indel per 8,000), "human-events" (with
MNPs and delins beside) or changes to the former, or to one that they begin with, as
human-events,max=50 or none,mnp=20:
  snp=1/500,indel=1/2000   densities
  mnp=60, delins=60        numbers of events of several bases: 2 to 5 bases in a row, each
                           another one; replaced by 1 to 15 more or fewer
  neighbours=20            pairs with 1 to 10 bases between: SNP and indel, or two indels
                           in one repeat
  snp=200,indel=100        numbers
  max=50                   longest indel (20)
  het=1, multi=0.1         share of heterozygous sites (0.6), of indels in repeats with
                           two alternate alleles (0.03); with --ploidy 2
  homopolymer=0, tandem=0  shares of indels that are copies of a homopolymer (0.4) and
                           of a tandem repeat (0.2)
  titv=2                   transitions per transversion

Examples:
  pore simulate reads --ref lambda.fa --profile r10.4.1-2pct --depth 30 > reads.fastq
  pore simulate reads --ref chr11.fa.gz --ploidy 2 --variants human --profile r10.4.1-2pct \
    --depth 30 --length 12000 --seed 7 --truth truth.vcf | pore align --ref chr11.fa.gz - > reads.bam

Profiles: ` + strings.Join(simulate.Profiles(), ", ") + `
(docs/files/simulation.md describes them, and how to measure others).`,
		Example: `  pore simulate reads --ref ref.fa --profile r9.4-porestream --depth 30 > reads.fastq
  pore simulate reads --ref ref.fa --profile r9.4-porestream --depth 30 --ploidy 2 --variants human --truth truth.vcf -o reads.fastq`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return simulateReads(cmd.Context(), cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	cfg.plant.register(flags)
	flags.StringVar(&cfg.profile, "profile", "", "error profile, by name or file (required)")
	flags.Float64Var(&cfg.reads.Depth, "depth", 30, "mean depth, all haplotypes together")
	flags.Float64Var(&cfg.reads.Length, "length", 12_000, "mean length of molecules in bases")
	flags.Float64Var(&cfg.reads.LengthSpread, "length-spread", 0.6, "standard deviation of lengths over their mean (lognormal); 0 makes all the same")
	flags.IntVar(&cfg.reads.MinLength, "min-length", 0, "least length of molecules (default 200, or the mean if that is less)")
	flags.BoolVar(&cfg.reads.Circular, "circular", false, "contigs have no ends: reads go over the origin")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func simulateReads(ctx context.Context, cfg simulateReadsConfig, stdout io.Writer) error {
	if cfg.profile == "" {
		return cli.Usagef("--profile is required: %s, or a file", strings.Join(simulate.Profiles(), ", "))
	}
	if cfg.threads < 0 {
		return cli.Usagef("--threads %d: want a number of workers", cfg.threads)
	}
	cfg.reads.Seed = cfg.plant.Seed
	if cfg.reads.MinLength == 0 {
		cfg.reads.MinLength = max(1, min(200, int(cfg.reads.Length)))
	}
	if err := cfg.reads.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	profile, err := simulate.OpenProfile(cfg.profile)
	if err != nil {
		return err
	}
	g, sites, err := cfg.plant.plant()
	if err != nil {
		return err
	}
	copies, err := simulation.Haplotypes(g, sites, cfg.plant.Ploidy)
	if err != nil {
		return err
	}
	sampler, err := simulate.NewSampler(copies, cfg.plant.Ploidy, profile, cfg.reads)
	if err != nil {
		return err
	}
	logger.Info("reads are being made", "variants", len(sites), "reads", sampler.Len(), "bases", sampler.Bases())
	return writeOutput(cfg.output, stdout, func(out *bufio.Writer) error { return writeReads(ctx, sampler, cfg.threads, out) })
}

// readsAtOnce is how many reads a worker makes before it hands them over.
const readsAtOnce = 32

// writeReads makes the reads on all cores and writes them in order.
func writeReads(ctx context.Context, sampler *simulate.Sampler, threads int, out io.Writer) error {
	type made struct {
		first int
		text  []byte
	}
	plan := func(_ context.Context, emit func(*made) error) error {
		for first := 0; first < sampler.Len(); first += readsAtOnce {
			if err := emit(&made{first: first}); err != nil {
				return err
			}
		}
		return nil
	}
	work := func(_ int, pieces iter.Seq[*made]) error {
		var read simulate.Read
		for m := range pieces {
			for i := range min(readsAtOnce, sampler.Len()-m.first) {
				sampler.Read(m.first+i, &read)
				m.text = read.AppendFASTQ(slices.Grow(m.text, 2*len(read.Seq)+len(read.Name)+6))
			}
		}
		return nil
	}
	return inorder.Do(ctx, cmp.Or(threads, runtime.GOMAXPROCS(0)), plan, work, func(m *made) error {
		if _, err := out.Write(m.text); err != nil {
			return fmt.Errorf("writing reads: %w", err)
		}
		return nil
	})
}
