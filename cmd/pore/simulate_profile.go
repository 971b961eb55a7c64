package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/biogo/hts/sam"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/simulation"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/vcf"
)

type simulateProfileConfig struct {
	reference, known, output string
	measure                  simulate.MeasureOptions
	mapping                  int
	maxBases                 cli.Bytes
	errors                   float64
	rounds                   int
	preset                   string
	log                      cli.LogFlags
}

func simulateProfileCommand() *cobra.Command {
	cfg := simulateProfileConfig{maxBases: 200e6}
	cmd := &cobra.Command{
		Use:   "profile --ref FASTA IN.bam",
		Short: "Measure an error profile on aligned reads",
		Long: `Measures the errors of the primary alignments of a BAM or SAM file and writes a profile
for pore simulate reads to standard output; docs/files/simulation.md describes it. - is
standard input.

What differs from the reference in most reads of both strands counts as a variant, not
as an error. --same-genome says that the reads are of the reference itself, --known
names variants. Some megabases at 30x and more are best: systematic errors are found
only where a strand is read 12 times.`,
		Example: `  pore simulate profile --ref ref.fa reads.sorted.bam > profile.json`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return simulateProfile(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.known, "known", "", "VCF of variants of the sample, left out")
	flags.BoolVar(&cfg.measure.SameGenome, "same-genome", false, "the reads are of the reference itself: all differences are errors")
	flags.StringVar(&cfg.measure.Name, "name", "", "name of the profile (default the BAM file's)")
	flags.StringVar(&cfg.measure.Description, "description", "measured", "what the profile is of")
	flags.StringVar(&cfg.measure.Source, "source", "", "what it was measured on (default the BAM file's name)")
	flags.Uint64Var(&cfg.measure.Seed, "seed", 1, "seed of the profile's systematic errors")
	flags.Float64Var(&cfg.errors, "errors", 0, "scale the rates to this one of errors per base, as 0.02; 0 leaves them")
	flags.IntVar(&cfg.rounds, "rounds", 4, "corrections by measuring reads simulated with the profile; 0 for none")
	flags.StringVar(&cfg.preset, "preset", minimap.DefaultPreset, "minimap2 preset for simulated reads: the one that the real ones were aligned with")
	flags.IntVar(&cfg.mapping, "min-mapping-quality", 20, "least mapping quality")
	flags.Var(&cfg.maxBases, "max-bases", "bases that are held and measured; those beyond are left out")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func simulateProfile(ctx context.Context, cfg simulateProfileConfig, path string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case cfg.reference == "":
		return cli.Usagef("--ref is required: the reference genome that the reads are aligned to")
	case cfg.rounds < 0 || cfg.rounds > 20:
		return cli.Usagef("--rounds %d: want 0 to 20", cfg.rounds)
	case cfg.errors < 0 || cfg.errors > 0.5:
		return cli.Usagef("--errors %g: want a rate up to 0.5", cfg.errors)
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	opts := cfg.measure
	if opts.Name == "" {
		opts.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	if opts.Source == "" {
		opts.Source = filepath.Base(name)
	}
	if cfg.known != "" {
		if opts.Known, err = knownIn(cfg.known); err != nil {
			return err
		}
	}
	observations, err := observe(ctx, in, g, cfg, logger)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p, err := simulate.Measure(observations, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if p, err = correct(ctx, p, g, observations, cfg, logger); err != nil {
		return err
	}
	logger.Info("errors are measured", "alignments", len(observations), "rate", p.ErrorRate)
	if cfg.errors > 0 {
		p = p.Scale(cfg.errors/p.ErrorRate, p.Name, p.Seed)
	}
	return writeOutput(cfg.output, stdout, func(out *bufio.Writer) error {
		_, err := out.Write(p.AppendTOML(nil))
		return err
	})
}

// correctedBases is the least that is simulated for a correction: enough for the rates of
// contexts.
const correctedBases = 6_000_000

// correct takes out of a profile what aligning and measuring distort: reads like the real
// ones are simulated with it and measured likewise, and the difference is corrected, as
// often as asked for.
func correct(ctx context.Context, target *simulate.Profile, g *genome.Genome, real []simulate.Observation, cfg simulateProfileConfig, logger *slog.Logger) (*simulate.Profile, error) {
	if cfg.rounds == 0 {
		return target, nil
	}
	reads, err := likeThose(real, g)
	if err != nil {
		return nil, err
	}
	index, err := minimap.NewIndex(g, minimap.Config{Preset: cfg.preset})
	if err != nil {
		return nil, err
	}
	defer index.Close()
	copies, err := simulation.Haplotypes(g, nil, 1)
	if err != nil {
		return nil, err
	}
	opts := cfg.measure
	opts.SameGenome = true
	p := target
	for round := range cfg.rounds {
		reads.Seed = uint64(round + 1)
		sampler, err := simulate.NewSampler(copies, 1, p, reads)
		if err != nil {
			return nil, err
		}
		observations, err := alignSimulated(ctx, sampler, index, g)
		if err != nil {
			return nil, err
		}
		measured, err := simulate.Measure(observations, opts)
		if err != nil {
			return nil, err
		}
		logger.Info("profile is corrected", "round", round+1, "rate", target.ErrorRate, "simulated_rate", measured.ErrorRate)
		p = p.Correct(target, measured)
	}
	return p, nil
}

// likeThose returns a configuration for reads of the lengths and the depth of
// observations.
func likeThose(observations []simulate.Observation, g *genome.Genome) (simulate.ReadsConfig, error) {
	sum, squares := 0.0, 0.0
	for i := range observations {
		n := float64(len(observations[i].Bases))
		sum += n
		squares += n * n
	}
	covered := 0
	for _, c := range g.Contigs {
		for _, b := range c.Seq {
			if strings.IndexByte("ACGT", b) >= 0 {
				covered++
			}
		}
	}
	if sum == 0 || covered == 0 {
		return simulate.ReadsConfig{}, errors.New("no alignments to measure")
	}
	mean := sum / float64(len(observations))
	cfg := simulate.ReadsConfig{
		Depth: max(sum, correctedBases) / float64(covered), Length: mean,
		LengthSpread: min(3, math.Sqrt(max(0, squares/float64(len(observations))-mean*mean))/mean),
		MinLength:    int(min(500, mean)),
	}
	return cfg, nil
}

// alignSimulated makes reads and aligns them.
func alignSimulated(ctx context.Context, sampler *simulate.Sampler, index *minimap.Index, g *genome.Genome) ([]simulate.Observation, error) {
	out := make([]*simulate.Observation, sampler.Len())
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		group.Go(func() error {
			aligner := index.NewAligner()
			defer aligner.Close()
			var read simulate.Read
			for i := w; i < sampler.Len() && ctx.Err() == nil; i += workers {
				sampler.Read(i, &read)
				alignments, err := aligner.Map(read.Name, read.Seq)
				if err != nil {
					return err
				}
				if len(alignments) == 0 {
					continue
				}
				a := &alignments[0]
				o := &simulate.Observation{
					Contig: g.Contig(a.Contig), Start: a.Start, Reverse: a.Reverse, Ops: a.Ops,
					Bases: bytes.Clone(read.Seq[a.QueryStart:a.QueryEnd]), Qualities: bytes.Clone(read.Qualities[a.QueryStart:a.QueryEnd]),
				}
				if a.Reverse {
					genome.ReverseComplement(o.Bases)
					slices.Reverse(o.Qualities)
				}
				out[i] = o
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var list []simulate.Observation
	for _, o := range out {
		if o != nil {
			list = append(list, *o)
		}
	}
	return list, nil
}

// knownIn reads where a VCF has variants.
func knownIn(path string) ([]simulate.Site, error) {
	return simulation.SitesOf(path, func(r *vcf.Reader) ([]simulate.Site, error) {
		var sites []simulate.Site
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				return sites, nil
			}
			if err != nil {
				return nil, err
			}
			sites = append(sites, simulate.Site{Contig: rec.Chrom, Start: rec.Pos - 1, Ref: rec.Ref, Alts: rec.Alt})
		}
	})
}

// observe reads the alignments that a profile is measured by.
func observe(ctx context.Context, in io.Reader, g *genome.Genome, cfg simulateProfileConfig, logger *slog.Logger) ([]simulate.Observation, error) {
	alignments, err := hts.NewReader(bufio.NewReaderSize(in, 256<<10), 1)
	if err != nil {
		return nil, fmt.Errorf("reading alignments: the header: %w: this is neither SAM nor BAM", err)
	}
	defer alignments.Close()
	var out []simulate.Observation
	records, bases := 0, int64(0)
	wrong, first := 0, error(nil)
	for ; ctx.Err() == nil; records++ {
		rec, err := alignments.Read()
		if errors.Is(err, io.EOF) {
			if wrong > 0 {
				logger.Warn("alignments that can't be used are left out", "alignments", wrong, "first", first)
			}
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading alignment %d: %w", records+1, err)
		}
		if rec.Ref == nil || rec.Flags&(sam.Unmapped|sam.Secondary|sam.Supplementary|sam.Duplicate|sam.QCFail) != 0 || int(rec.MapQ) < cfg.mapping || rec.Seq.Length == 0 {
			continue
		}
		c := g.Contig(rec.Ref.Name())
		if c == nil {
			return nil, fmt.Errorf("alignment %d is to %s, which isn't in the reference", records+1, rec.Ref.Name())
		}
		o, err := observation(rec, c)
		if err != nil {
			if wrong++; first == nil {
				first = fmt.Errorf("alignment %d, read %s: %w", records+1, rec.Name, err)
			}
			continue
		}
		out = append(out, o)
		if bases += int64(len(o.Bases)); bases >= int64(cfg.maxBases) {
			logger.Warn("alignments beyond --max-bases are left out", "alignments", records+1)
			return out, nil
		}
	}
	return nil, ctx.Err()
}

// observation is a record without its clips.
func observation(rec *sam.Record, c *genome.Contig) (simulate.Observation, error) {
	o := simulate.Observation{Contig: c, Start: rec.Pos, Reverse: rec.Flags&sam.Reverse != 0}
	bases, qualities := hts.Bases(rec, c.Seq), hts.Qualities(rec)
	at := 0
	for i, op := range rec.Cigar {
		n := op.Len()
		switch op.Type() {
		case sam.CigarSoftClipped:
			if n > len(bases)-at {
				return o, errors.New("the CIGAR is longer than the read")
			}
			if i == 0 || i == 1 && rec.Cigar[0].Type() == sam.CigarHardClipped {
				at = n
			}
		case sam.CigarHardClipped, sam.CigarPadded:
		case sam.CigarMatch, sam.CigarEqual:
			o.Ops = append(o.Ops, align.Op{Kind: align.Match, Len: n})
		case sam.CigarMismatch:
			o.Ops = append(o.Ops, align.Op{Kind: align.Mismatch, Len: n})
		case sam.CigarInsertion:
			o.Ops = append(o.Ops, align.Op{Kind: align.Insertion, Len: n})
		case sam.CigarDeletion:
			o.Ops = append(o.Ops, align.Op{Kind: align.Deletion, Len: n})
		default:
			return o, fmt.Errorf("the CIGAR has %v, which alignments of DNA have not", op.Type())
		}
	}
	end := at
	for _, op := range o.Ops {
		if op.Kind != align.Deletion {
			end += op.Len
		}
	}
	if end > len(bases) {
		return o, errors.New("the CIGAR is longer than the read")
	}
	o.Bases = bases[at:end]
	if qualities != nil {
		o.Qualities = qualities[at:end]
	}
	return o, nil
}
