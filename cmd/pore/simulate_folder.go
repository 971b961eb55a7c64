package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/runfolder"
)

type simulateFolderConfig struct {
	plant        simulation.Plant
	reads        simulate.ReadsConfig
	run          runfolder.Config
	profile      string
	barcodes     int
	unclassified float64
	format       string
	rotate       time.Duration
	pace         string
	out, truth   string
	log          cli.LogFlags
}

// maxBarcodes is the most that a kit of ONT's has.
const maxBarcodes = 96

func simulateFolderCommand() *cobra.Command {
	cfg := simulateFolderConfig{run: runfolder.R1041()}
	cmd := &cobra.Command{
		Use:   "folder --ref FASTA --profile NAME --out DIR [--barcoded 24] [--duration 3m] [--pace 1] [--truth DIR]",
		Short: "Write a folder of called reads as MinKNOW does, while they are sequenced",
		Long: `Sequences samples with planted variants, one for each barcode, calls the reads with the
errors of a profile, and writes them into a folder as MinKNOW lays it out, each read
when it ends: fastq_pass/barcode01/..., bam_pass/..., unclassified, and fail. Files grow,
and are begun anew every --rotate; a final summary ends the run.

Each barcode's sample has variants of its own. With --truth a folder gets
  barcodeNN.vcf  the variants of a barcode's sample
  reads.tsv      of each read: its barcode, whether it failed, its bases and their CRC-32,
                 where it is from, when it was written, and its files
The same settings and seed make the same files, at any pace.

ingest reads takes such a folder, also while it is written.`,
		Example: `  pore simulate folder --ref ref.fa --profile r10.4.1-2pct --barcoded 24 --variants snp=30 --out run1 --truth truth
  pore simulate folder --ref ref.fa --profile r10.4.1-2pct --barcoded 0 --format bam --pace max --out run2`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return simulateFolder(cmd.Context(), &cfg) },
	}
	flags := cmd.Flags()
	cfg.plant.VCFFlag = "vcf-in"
	flags.StringVar(&cfg.plant.Reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.plant.Variants, "variants", "none", "variants to plant in each sample, others in each: none, human, human-events, or changes to human as snp=1/1000,indel=1/8000,mnp=1/40000,max=20")
	flags.StringVar(&cfg.plant.VCF, cfg.plant.VCFFlag, "", "VCF of the variants of all samples, in place of --variants; its first sample's genotypes count")
	flags.IntVar(&cfg.plant.Ploidy, "ploidy", 1, "haplotypes: 1 or 2")
	flags.Uint64Var(&cfg.plant.Seed, "seed", 1, "seed of all that is drawn")
	flags.StringVar(&cfg.profile, "profile", "", "error profile, by name or file (required)")
	flags.Float64Var(&cfg.reads.Length, "length", 5000, "mean length of molecules in bases")
	flags.Float64Var(&cfg.reads.LengthSpread, "length-spread", 0.6, "standard deviation of lengths over their mean (lognormal); 0 makes all the same")
	flags.BoolVar(&cfg.reads.Circular, "circular", false, "contigs have no ends: reads go over the origin")
	flags.IntVar(&cfg.barcodes, "barcoded", 24, "samples with a barcode, from barcode01 on; 0: one sample without")
	flags.Float64Var(&cfg.unclassified, "unclassified", 0.03, "share of the reads on which no barcode is found; with --barcoded")
	flags.Float64Var(&cfg.run.Failed, "failing", cfg.run.Failed, "share of the reads that fall through the basecaller's quality control")
	flags.DurationVar(&cfg.run.Duration, "duration", cfg.run.Duration, "when the run is stopped, by its own clock")
	flags.IntVar(&cfg.run.Channels, "channels", cfg.run.Channels, "channels of the flow cell")
	flags.Float64Var(&cfg.run.Speed, "speed", cfg.run.Speed, "bases per second in a pore")
	flags.DurationVar(&cfg.run.Capture, "capture", cfg.run.Capture, "mean time until an open pore captures a strand")
	flags.StringVar(&cfg.run.SampleID, "sample", cfg.run.SampleID, "sample of the run")
	flags.StringVar(&cfg.format, "format", "fastq", "fastq (gzipped), bam, or both, each with all reads")
	flags.DurationVar(&cfg.rotate, "rotate", 30*time.Second, "age at which files are begun anew, by the run's clock; 0: never")
	flags.StringVar(&cfg.pace, "pace", "1", "speed by the run's own clock: 1, any number, or max")
	flags.StringVar(&cfg.out, "out", "", "folder of the run, which must not be there or be empty (required)")
	flags.StringVar(&cfg.truth, "truth", "", "folder for the truth; none if not given")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func (cfg *simulateFolderConfig) check() error {
	switch {
	case cfg.profile == "":
		return cli.Usagef("--profile is required: %s, or a file", strings.Join(simulate.Profiles(), ", "))
	case cfg.out == "":
		return cli.Usagef("--out is required: the folder of the run")
	case cfg.barcodes < 0 || cfg.barcodes > maxBarcodes:
		return cli.Usagef("--barcoded %d: want 0 to %d", cfg.barcodes, maxBarcodes)
	case !(cfg.unclassified >= 0 && cfg.unclassified < 1):
		return cli.Usagef("--unclassified %g: want a share of 0 to less than 1", cfg.unclassified)
	case cfg.rotate < 0:
		return cli.Usagef("--rotate %v: want a time, or 0", cfg.rotate)
	case strings.ContainsAny(cfg.run.SampleID, " \t\n/") || cfg.run.SampleID == "":
		return cli.Usagef("--sample %q: want a name without blanks and slashes", cfg.run.SampleID)
	}
	return cfg.plant.Check()
}

func (cfg *simulateFolderConfig) formats() ([]runfolder.Format, error) {
	switch cfg.format {
	case "both":
		return []runfolder.Format{runfolder.FASTQ, runfolder.BAM}, nil
	case string(runfolder.FASTQ), string(runfolder.BAM):
		return []runfolder.Format{runfolder.Format(cfg.format)}, nil
	}
	return nil, cli.Usagef("--format %s: want fastq, bam or both", cfg.format)
}

func simulateFolder(ctx context.Context, cfg *simulateFolderConfig) (err error) {
	if err := cfg.check(); err != nil {
		return err
	}
	formats, err := cfg.formats()
	if err != nil {
		return err
	}
	pace, err := ingest.ParsePace(cfg.pace)
	if err != nil {
		return cli.Usagef("--pace: %w", err)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if cfg.run.Profile, err = simulate.OpenProfile(cfg.profile); err != nil {
		return err
	}
	if cfg.truth != "" {
		if err := os.MkdirAll(cfg.truth, 0o755); err != nil {
			return err
		}
	}
	if err := cfg.prepare(); err != nil {
		return err
	}
	run, err := runfolder.NewRun(cfg.run)
	if err != nil {
		return cli.Usagef("%w", err)
	}
	folder, err := runfolder.NewFolder(cfg.out, run, cfg.rotate, formats...)
	if err != nil {
		return err
	}
	player := &runfolder.Player{Run: run, Folder: folder, Pace: pace}
	reads, bases := 0, 0
	log := func(*runfolder.Read, []string, time.Time) error { return nil }
	if cfg.truth != "" {
		table, err := newReadsTable(filepath.Join(cfg.truth, "reads.tsv"))
		if err != nil {
			return err
		}
		defer func() {
			if closed := table.Close(); err == nil {
				err = closed
			}
		}()
		log = table.write
	}
	player.Written = func(r *runfolder.Read, files []string, at time.Time) error {
		reads++
		bases += len(r.Sequence)
		return log(r, files, at)
	}
	logger.Info("the run begins", "run", run.ID(), "folder", cfg.out)
	if err := player.Play(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d reads and %d bases of run %s, in %s\n", reads, bases, run.ID(), cfg.out)
	return nil
}

// prepare plants variants in each sample and makes its molecules.
func (cfg *simulateFolderConfig) prepare() error {
	cfg.reads.Depth, cfg.reads.MinLength = 1, max(1, min(200, int(cfg.reads.Length)))
	if err := cfg.reads.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	cfg.run.Seed = cfg.plant.Seed
	settings := cfg.plant
	settings.Reference, settings.VCF = filepath.Base(settings.Reference), filepath.Base(settings.VCF)
	cfg.run.Settings = fmt.Sprintf("%+v %+v %s %d %g %s", settings, cfg.reads, filepath.Base(cfg.profile), cfg.barcodes, cfg.unclassified, cfg.run.SampleID)
	names := []string{""}
	if cfg.barcodes > 0 {
		names = nil
		for i := range cfg.barcodes {
			names = append(names, fmt.Sprintf("barcode%02d", i+1))
		}
	}
	g, err := genome.Load(cfg.plant.Reference)
	if err != nil {
		return err
	}
	plant := cfg.plant
	for i, name := range names {
		plant.Seed = cfg.plant.Seed + uint64(i)
		sites, err := plant.Sites(g)
		if err != nil {
			return err
		}
		if cfg.truth != "" {
			sample, file := cfg.run.SampleID, "truth"
			if name != "" {
				sample, file = sample+"_"+name, name
			}
			if err := simulation.WriteSites(filepath.Join(cfg.truth, file+".vcf"), simulate.Header(g, sample), sites); err != nil {
				return err
			}
		}
		copies, err := simulation.Haplotypes(g, sites, plant.Ploidy)
		if err != nil {
			return err
		}
		library, err := simulate.NewLibrary(copies, cfg.reads)
		if err != nil {
			return err
		}
		share := 1.0
		if name != "" && cfg.unclassified > 0 {
			share -= cfg.unclassified
			cfg.run.Samples = append(cfg.run.Samples, runfolder.Sample{Library: library, Share: cfg.unclassified})
		}
		cfg.run.Samples = append(cfg.run.Samples, runfolder.Sample{Barcode: name, Library: library, Share: share})
	}
	return nil
}

// readsTable is a table of the reads as they are written.
type readsTable struct {
	file *os.File
	out  *bufio.Writer
}

func newReadsTable(path string) (*readsTable, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	t := &readsTable{f, bufio.NewWriter(f)}
	_, err = t.out.WriteString("read\tbarcode\tfailed\tbases\tcrc32\torigin\twritten\tfiles\n")
	return t, err
}

func (t *readsTable) write(r *runfolder.Read, files []string, at time.Time) error {
	_, err := fmt.Fprintf(t.out, "%s\t%s\t%t\t%d\t%08x\t%s\t%s\t%s\n",
		r.ID, r.Barcode, r.Failed, len(r.Sequence), r.Sum(), r.Origin, at.UTC().Format(time.RFC3339Nano), strings.Join(files, ","))
	return err
}

func (t *readsTable) Close() error {
	err := t.out.Flush()
	if closed := t.file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", t.file.Name(), err)
	}
	return nil
}
