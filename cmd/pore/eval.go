package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/variant/eval"
	"github.com/porestream/porestream/vcf"
)

func evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Compare results with a truth",
		Args:  cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Usagef("name what to evaluate; see %s --help", cmd.CommandPath())
		},
	}
	cmd.AddCommand(evalVariantsCommand())
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
	opts                eval.Options
}

func evalVariantsCommand() *cobra.Command {
	var cfg evalVariantsConfig
	cmd := &cobra.Command{
		Use:   "variants --ref FASTA --truth TRUTH.vcf CALLS.vcf",
		Short: "Compare the variants of a VCF with a truth set",
		Long: `Compares haplotypes, not rows: however an indel is placed or a complex change is
split, it is right if it makes the same sequence. Prints recall, precision and F1 of
SNPs and indels, with genotypes and without, and for parts of the reference such as
homopolymers. Both files are VCF, plain or gzipped, sorted; - is standard input.`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return evalVariants(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
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
	if path == "-" && cfg.truth == "-" {
		return cli.Usagef("only one of the files can be standard input")
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
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
	sets := [2]eval.Set{{Sample: cfg.truthSample}, {Sample: cfg.sample}}
	for i, path := range []string{cfg.truth, path} {
		in, name, err := openInput(path, stdin)
		if err != nil {
			return err
		}
		defer in.Close()
		records, err := vcf.NewReader(in)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: the file is cut short; get it again", err)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		sets[i].Name, sets[i].Records = name, records
	}
	if cfg.out != "" {
		decided, err := newDecided(cfg.out, sets)
		if err != nil {
			return err
		}
		defer func() { err = decided.close(err) }()
		cfg.opts.Each = decided.write
	}
	result, err := eval.Compare(ctx, g, sets[0], sets[1], cfg.opts)
	if err != nil {
		return explainSamples(err, cfg)
	}
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
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(result)
	}
	return result.WriteText(stdout)
}

// explainSamples tells which flag chooses a sample.
func explainSamples(err error, cfg evalVariantsConfig) error {
	var which *eval.SampleError
	if !errors.As(err, &which) {
		return err
	}
	if which.Set == cfg.truth {
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
	in := bufio.NewReader(f)
	var r io.Reader = in
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		if r, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: decompressing: %w", path, err)
		}
	}
	regions, err := eval.ReadRegions(r, g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return regions, nil
}

// writeWhole writes a file; one that is not whole does not stay.
func writeWhole(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = write(w)
	return closeOutput(f, errors.Join(err, w.Flush()))
}

// decided writes records to a file for each decision.
type decided struct {
	files   map[string]*os.File
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

func newDecided(dir string, sets [2]eval.Set) (_ *decided, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	d := &decided{files: make(map[string]*os.File), writers: make(map[string]*vcf.Writer)}
	defer func() {
		if err != nil {
			err = d.close(err)
		}
	}()
	for name, set := range map[string]eval.Set{"tp-truth.vcf": sets[0], "fn.vcf": sets[0], "tp.vcf": sets[1], "fp.vcf": sets[1]} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		d.files[name] = f
		header := set.Records.Header().Clone()
		header.AddInfo("EVAL", "1", "String", "Why the record is an error: GT (right allele, wrong genotype), PART (right in part), UNRESOLVED (not decided)")
		if d.writers[name], err = vcf.NewWriter(f, header); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.Name(), err)
		}
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
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// close ends the files; they don't stay after an error.
func (d *decided) close(err error) error {
	for name, w := range d.writers {
		if flushErr := w.Flush(); flushErr != nil {
			err = errors.Join(err, fmt.Errorf("writing %s: %w", name, flushErr))
		}
	}
	failed := err
	for _, f := range d.files {
		if closeErr := closeOutput(f, failed); closeErr != nil && failed == nil {
			err = errors.Join(err, closeErr)
		}
	}
	return err
}
