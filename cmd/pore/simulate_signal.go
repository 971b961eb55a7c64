package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
)

type simulateSignalConfig struct {
	sequencer simulation.Sequencer
	sample    string
	out       string
	threads   int
	log       cli.LogFlags
}

// simulateCommand is the virtual sequencer; the other simulators are its subcommands.
func simulateCommand() *cobra.Command {
	var cfg simulateSignalConfig
	cmd := &cobra.Command{
		Use:   "simulate --ref FASTA [--vcf TRUTH] [--depth N] [--seed N] [--out DIR]",
		Short: "A virtual sequencer: signal, reads and references with a known truth",
		Long: `Makes the signal that a flow cell would record of a reference with planted variants:
channels that capture strands, pores that die, strands that stick, the levels of a
pore with a motor's irregular speed, noise and drift. Writes to the folder --out
  reads.pod5   the signal
  truth.vcf    the variants that were planted
  reads.tsv    where each read is from, 0-based half open, and when it was read where
The same settings and seed make the same bytes, whatever the number of threads.
docs/attach/simulator.md describes what is simulated, and how close to real reads it is;
ingest simulate plays the same run live.

Its subcommands make basecalled reads, references with planted variants, and profiles
of errors: docs/files/simulation.md.`,
		Example: `  pore simulate --ref lambda.fa --variants snp=30,indel=10 --depth 30 --seed 7 --out run1
  pore simulate --ref chr11.fa.gz --vcf truth.vcf --ploidy 2 --depth 30 --seed 1
  pore simulate --ref ref.fa --chemistry r10.4.1-5khz --out r10
  pore simulate --ref ref.fa --pore-model 9mer_levels_v1.txt --chemistry r10.4.1-4khz --out r10-published`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return simulateSignal(cmd.Context(), &cfg) },
	}
	flags := cmd.Flags()
	cfg.sequencer.Register(flags)
	flags.StringVar(&cfg.sample, "sample", "sample", "name of the sample")
	flags.StringVar(&cfg.out, "out", "simulated", "folder for the signal and its truth; files of their names are replaced")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	cfg.log.Register(flags, slog.LevelWarn)
	cmd.AddCommand(simulateReadsCommand(), simulateProfileCommand(), simulateDeriveCommand(), simulateReferenceCommand(), simulateFolderCommand())
	return cmd
}

func simulateSignal(ctx context.Context, cfg *simulateSignalConfig) error {
	if cfg.threads < 0 {
		return cli.Usagef("--threads %d: want a number of workers", cfg.threads)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	run, err := cfg.sequencer.Plan(ctx, cfg.sample)
	if err != nil {
		return err
	}
	if run.Spent() {
		logger.Warn("every pore died before the depth was reached", "depth", run.Depth(), "reads", run.Len())
	}
	var done atomic.Int64
	total := run.NumSamples()
	stop := cli.ShowProgress(os.Stderr, "samples", func() (int64, int64) { return done.Load(), total })
	defer stop()
	if err := run.WriteTruth(cfg.out); err != nil {
		return err
	}
	if err := run.WritePOD5(ctx, filepath.Join(cfg.out, simulation.ReadsName), "porestream "+cli.Version, cfg.threads, &done); err != nil {
		return err
	}
	stop()
	fmt.Fprintf(os.Stderr, "%d reads, %d bases and %d samples, %.1fx, of a run of %v, in %s\n",
		run.Len(), run.Bases(), total, run.Depth(), run.Duration().Round(1e9), cfg.out)
	return nil
}
