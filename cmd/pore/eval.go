package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/variant/eval"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/wholefile"
)

func evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Evaluate reads by their genome, and variants by a truth",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name what to evaluate; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(evalBasecallCommand(), evalVariantsCommand())
	return cmd
}

type evalVariantsConfig struct {
	reference, truth    string
	bed                 string
	strata              []string
	sample, truthSample string
	ploidy              int
	score               string
	json                bool
	roc, plot, out      string
	events              string
	moments             int
	opts                eval.Options
}

func evalVariantsCommand() *cobra.Command {
	var cfg evalVariantsConfig
	cmd := &cobra.Command{
		Use:   "variants --ref FASTA --truth TRUTH.vcf {CALLS.vcf | --events EVENTS.jsonl}",
		Short: "Compare the variants of a VCF with a truth set",
		Long: `Compares haplotypes, not rows: however an indel is placed or a complex change is
split, it is right if it makes the same sequence. Prints recall, precision and F1 of
SNPs and indels, with genotypes and without, and for parts of the reference such as
homopolymers; and of whole events by kind, where half of an MNP or delins is an error.
Both files are VCF, plain or gzipped, sorted; - is standard input.

With --events instead of CALLS.vcf the calls are what a stream reported, a JSON document
per line as pore consume --format json prints them: what stands at the end and at
moments before is compared, and how often calls were revised, changed and taken back,
and when those that are right were there, is reported besides.`,
		Example: `  pore eval variants --ref ref.fa --truth truth.vcf.gz calls.vcf
  pore eval variants --ref ref.fa --truth truth.vcf.gz --events events.jsonl`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 == (cfg.events == "") {
				return cli.Usagef("want CALLS.vcf or --events, one of the two")
			}
			return evalVariants(cmd.Context(), cfg, strings.Join(args, ""), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome of both files, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.truth, "truth", "", "true variants, VCF (required)")
	flags.StringVar(&cfg.bed, "bed", "", "regions in which the truth is known, BED; variants outside are not assessed")
	flags.StringArrayVar(&cfg.strata, "stratify", nil, "figures for further regions too, NAME=BED; may be given several times")
	flags.StringVar(&cfg.sample, "sample", "", "sample of the calls, if there are several")
	flags.StringVar(&cfg.truthSample, "truth-sample", "", "sample of the truth, if there are several")
	flags.BoolVar(&cfg.opts.All, "all", false, "take records that failed a filter too")
	flags.BoolVar(&cfg.opts.Squash, "squash", false, "compare alleles alone, whatever the genotypes")
	flags.IntVar(&cfg.ploidy, "ploidy", 0, "1 or 2: the sample has this many haplotypes, so the genotypes 1 and 1/1 are the same")
	flags.BoolVar(&cfg.opts.IgnorePhase, "ignore-phase", false, "let phased neighbours match on either haplotype")
	flags.StringVar(&cfg.score, "score", string(eval.Qual), "what calls are ranked by: QUAL or GQ")
	flags.BoolVar(&cfg.json, "json", false, "print JSON")
	flags.StringVar(&cfg.roc, "roc", "", "file for the figures at each threshold of the score, TSV with vcfeval's columns; those of SNPs and indels go to files beside it")
	flags.StringVar(&cfg.plot, "plot", "", "file for a picture of precision against recall, SVG")
	flags.StringVar(&cfg.out, "out", "", "folder for tp.vcf, fp.vcf, tp-truth.vcf and fn.vcf")
	flags.StringVar(&cfg.events, "events", "", "events of a stream, JSON lines, instead of CALLS.vcf")
	flags.IntVar(&cfg.moments, "moments", 10, "even steps of time at which what a stream had published is compared")
	flags.IntVar(&cfg.opts.Bootstrap, "bootstrap", 1000, "replicates behind the confidence intervals; 0: none")
	flags.Uint64Var(&cfg.opts.Seed, "seed", 1, "seed of the replicates")
	flags.IntVar(&cfg.opts.MaxLength, "max-length", eval.DefaultMaxLength, "longest allele that is compared, in bases")
	return cmd
}

// options checks the flags.
func (cfg *evalVariantsConfig) options() error {
	switch {
	case cfg.reference == "" || cfg.truth == "":
		return cli.Usagef("--ref and --truth are required: the reference genome and the true variants")
	case cfg.ploidy < 0 || cfg.ploidy > 2:
		return cli.Usagef("--ploidy %d: want 1 or 2", cfg.ploidy)
	case cfg.score != string(eval.Qual) && cfg.score != string(eval.GQ):
		return cli.Usagef("--score %q: want QUAL or GQ", cfg.score)
	case cfg.moments < 0:
		return cli.Usagef("--moments %d: want a number of moments", cfg.moments)
	case cfg.events != "" && cfg.out != "":
		return cli.Usagef("--out goes with CALLS.vcf, not with --events")
	case cfg.opts.Bootstrap < 0:
		return cli.Usagef("--bootstrap %d: want a number of replicates", cfg.opts.Bootstrap)
	case cfg.opts.MaxLength < 1:
		return cli.Usagef("--max-length %d: want a number of bases", cfg.opts.MaxLength)
	}
	cfg.opts.OnePloidy = cfg.ploidy > 0
	cfg.opts.Score = eval.Score(cfg.score)
	return nil
}

func evalVariants(ctx context.Context, cfg evalVariantsConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	if err := cfg.options(); err != nil {
		return err
	}
	if cfg.truth == "-" && (path == "-" || cfg.events == "-") {
		return cli.Usagef("only one of the files can be standard input")
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	if err := cfg.regions(g); err != nil {
		return err
	}
	truth, truthFile, err := openSet(cfg.truth, cfg.truthSample, stdin)
	if err != nil {
		return err
	}
	defer truthFile.Close()
	if cfg.events != "" {
		history, err := readEvents(cfg.events, cfg.sample, stdin)
		if err != nil {
			return err
		}
		result, err := eval.CompareStream(ctx, g, truth, cfg.events, history, cfg.moments, cfg.opts)
		if err != nil {
			return cfg.explainSamples(err)
		}
		return cfg.write(stdout, result.Final, result, cfg.events)
	}
	calls, callsFile, err := openSet(path, cfg.sample, stdin)
	if err != nil {
		return err
	}
	defer callsFile.Close()
	if cfg.out != "" {
		decided, err := newDecided(cfg.out, truth, calls)
		if err != nil {
			return err
		}
		defer func() { err = decided.close(err) }()
		cfg.opts.Each = decided.write
	}
	result, err := eval.Compare(ctx, g, truth, calls, cfg.opts)
	if err != nil {
		return cfg.explainSamples(err)
	}
	return cfg.write(stdout, result, result, path)
}

// regions reads the files of regions.
func (cfg *evalVariantsConfig) regions(g *genome.Genome) (err error) {
	if cfg.bed != "" {
		if cfg.opts.Regions, err = readRegions(cfg.bed, g); err != nil {
			return err
		}
	}
	for _, s := range cfg.strata {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" || file == "" {
			return cli.Usagef("--stratify %q: want NAME=BED", s)
		}
		regions, err := readRegions(file, g)
		if err != nil {
			return err
		}
		cfg.opts.Strata = append(cfg.opts.Strata, eval.Stratum{Name: name, Regions: regions})
	}
	return nil
}

// openSet opens a VCF and reads its header.
func openSet(path, sample string, stdin io.Reader) (eval.Set, io.Closer, error) {
	in, name, err := openInput(path, stdin)
	if err != nil {
		return eval.Set{}, nil, err
	}
	records, err := vcf.NewReader(in)
	if err != nil {
		in.Close()
		return eval.Set{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	return eval.Set{Name: name, Records: records, Sample: sample}, in, nil
}

// readEvents reads the revisions of one sample's calls.
func readEvents(path, sample string, stdin io.Reader) (*eval.History, error) {
	in, name, err := openInput(path, stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	history := new(eval.History)
	only := "" // the sample of all events
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		ended := err != nil
		if line = bytes.TrimSpace(line); len(line) > 0 {
			v := new(event.Variant)
			if err := json.Unmarshal(line, v); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w: not events as pore consume --format json prints them", name, n, err)
			}
			switch {
			case v.SchemaVersion == 0: // of another type, such as a run's end
			case v.Allele.VRSID == "" || v.Revision == 0:
				return nil, fmt.Errorf("%s: line %d: an event needs variant.vrs_id and revision", name, n)
			case sample != "" && v.Sample != sample:
			case sample == "" && only != "" && v.Sample != only:
				return nil, fmt.Errorf("%s: line %d: events of samples %s and %s: choose one (--sample)", name, n, only, v.Sample)
			default:
				only = v.Sample
				history.Add(revision(v))
			}
		}
		if ended {
			return history, nil
		}
	}
}

// revision holds the compared members of an event.
func revision(v *event.Variant) eval.Revision {
	r := eval.Revision{
		Key: v.Allele.VRSID, Number: v.Revision, Status: eval.Status(v.Status),
		Contig: v.Allele.Contig, Pos: int(v.Allele.Pos), Ref: v.Allele.Ref, Alt: v.Allele.Alt,
		Genotype: v.Call.Genotype, PhaseSet: v.Call.PhaseSet, Passed: len(v.Call.Filters) == 0,
		Qual: v.Call.Qual, GQ: v.Call.GenotypeQuality, Depth: int(v.Call.Depth),
	}
	if v.LastChunk != nil {
		r.Time = *v.LastChunk
	}
	return r
}

// write writes what the flags ask for: the curves, the picture, and whole as JSON or tables.
func (cfg *evalVariantsConfig) write(stdout io.Writer, result *eval.Result, whole interface{ WriteText(io.Writer) error }, path string) error {
	if cfg.roc != "" {
		for i := range result.ROC {
			c := &result.ROC[i]
			file := cfg.roc
			if c.Kind != "ALL" {
				ext := filepath.Ext(file)
				file = strings.TrimSuffix(file, ext) + "." + strings.ToLower(c.Kind) + ext
			}
			if err := writeWhole(file, func(w io.Writer) error { return c.WriteTSV(w, cfg.opts.Score) }); err != nil {
				return err
			}
		}
	}
	if cfg.plot != "" {
		title := filepath.Base(path) + " against " + filepath.Base(cfg.truth)
		if err := writeWhole(cfg.plot, func(w io.Writer) error { return result.WriteSVG(w, title) }); err != nil {
			return err
		}
	}
	if cfg.json {
		return printJSON(stdout, whole)
	}
	return whole.WriteText(stdout)
}

// explainSamples names the flag that chooses a sample.
func (cfg *evalVariantsConfig) explainSamples(err error) error {
	var which *eval.SampleError
	switch {
	case !errors.As(err, &which):
		return err
	case which.Set == cfg.truth:
		return fmt.Errorf("%w (--truth-sample)", err)
	}
	return fmt.Errorf("%w (--sample)", err)
}

// readRegions reads a BED file, which may be gzipped.
func readRegions(path string, g *genome.Genome) (*eval.Regions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := textfile.NewReader(f, 64<<10)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	regions, err := eval.ReadRegions(r, g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return regions, nil
}

// writeWhole writes a file; one that is not whole does not stay.
func writeWhole(path string, write func(io.Writer) error) error {
	return wholefile.Write(path, func(w *bufio.Writer) error { return write(w) })
}

// decided writes records to a file for each decision.
type decided struct {
	files   map[string]*wholefile.File
	writers map[string]*vcf.Writer
}

// decidedFile names the file of a decision.
func decidedFile(o eval.Outcome) string {
	switch {
	case o.Decision == eval.NotAssessed:
		return ""
	case o.Decision == eval.TruePositive && o.Truth:
		return "tp-truth.vcf"
	default:
		return strings.ToLower(string(o.Decision)) + ".vcf"
	}
}

func newDecided(dir string, truth, calls eval.Set) (_ *decided, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d := &decided{files: make(map[string]*wholefile.File), writers: make(map[string]*vcf.Writer)}
	defer func() {
		if err != nil {
			err = d.close(err)
		}
	}()
	for name, set := range map[string]eval.Set{"tp-truth.vcf": truth, "fn.vcf": truth, "tp.vcf": calls, "fp.vcf": calls} {
		f, err := wholefile.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		d.files[name] = f
		header := set.Records.Header().Clone()
		header.AddInfo("EVAL", "1", "String", "Why the record is an error: GT (right allele, wrong genotype), PART (right in part), UNRESOLVED (not decided)")
		w, err := vcf.NewWriter(f, header)
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, f.Cause(err))
		}
		d.writers[name] = w
	}
	return d, nil
}

// write writes a record to the file of its decision.
func (d *decided) write(o eval.Outcome) error {
	name := decidedFile(o)
	if name == "" {
		return nil
	}
	if o.Detail != "" {
		o.Record.Info.Set("EVAL", o.Detail)
	}
	if err := d.writers[name].Write(o.Record); err != nil {
		return fmt.Errorf("writing %s: %w", name, d.files[name].Cause(err))
	}
	return nil
}

// close ends the files; they don't stay after an error.
func (d *decided) close(err error) error {
	for name, w := range d.writers {
		if flushErr := w.Flush(); flushErr != nil {
			err = errors.Join(err, fmt.Errorf("writing %s: %w", name, d.files[name].Cause(flushErr)))
		}
	}
	failed := err
	for _, f := range d.files {
		if failed != nil {
			err = errors.Join(err, f.Discard())
			continue
		}
		err = errors.Join(err, f.Commit())
	}
	return err
}
