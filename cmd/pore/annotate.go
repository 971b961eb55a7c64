package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/haplotype"
	"github.com/porestream/porestream/annotate/network"
	"github.com/porestream/porestream/annotate/pipe"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/wholefile"
)

type annotateConfig struct {
	reference      string
	genes          processor.Genes
	fields, csq    []string
	sources        []string
	functions      []string
	format, output string
	onError        string
	threads        int
	distance       []int
	proteins       annotate.ProteinStyle
	pick           pickFlags
	bcsq           bcsqFlags
	scoring        processor.Scoring
	device         string
	library        string
	log            cli.LogFlags
}

func annotateCommand() *cobra.Command {
	var cfg annotateConfig
	cmd := &cobra.Command{
		Use:   "annotate --ref FASTA --gff GFF3 [IN.vcf]",
		Short: "Annotate the variants of a VCF with their consequences",
		Long: `Writes the VCF with INFO/CSQ (as Ensembl VEP does), ANN (as SnpEff), BCSQ (as
bcftools csq), or one JSON line or protobuf message per alternate allele, to standard output. IN.vcf may be gzipped; without it,
or if it is -, standard input is read. Everything that is not annotated stays as
it is, and so does the order. Counts come last, on standard error.`,
		Example: `  pore annotate --ref ref.fa --gff genes.gff3 calls.vcf > annotated.vcf
  pore annotate --ref ref.fa --gff genes.gtf.gz --fields csq,ann --source clinvar.pss calls.vcf.gz -o annotated.vcf.gz
  pore annotate --ref ref.fa --gff genes.gff3 --format json calls.vcf`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Variants may be annotated in their place.
			if err := cli.SpareInputs(cmd.Flags(), nil, "output"); err != nil {
				return err
			}
			return annotateVCF(cmd.Context(), cfg, cmp.Or(strings.Join(args, ""), "-"), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	cfg.genes.Register(flags)
	flags.StringSliceVar(&cfg.fields, "fields", []string{"csq"}, "INFO fields to write, several with commas: csq (as Ensembl VEP), ann (as SnpEff), bcsq (as bcftools csq)")
	names, defaults := annotate.CSQSubfields()
	flags.StringSliceVar(&cfg.csq, "csq-fields", names[:defaults], "sub-fields of CSQ; there are also "+strings.Join(names[defaults:], ","))
	flags.StringArrayVar(&cfg.sources, "source", nil, "source of known variants, made by pore sources build; may be given several times")
	flags.StringArrayVar(&cfg.functions, "functions", nil, "functions of genes and proteins: GAF, GPAD, InterProScan, GMT, OBO; may be given several times")
	flags.StringVar(&cfg.format, "format", "vcf", "vcf, json (a line for each alternate allele) or protobuf (a message each, its length before it)")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file; one that ends in .gz is compressed with BGZF")
	flags.StringVar(&cfg.onError, "on-error", "fail", "fail, or skip: pass a line with an error through without annotation, and count it")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	flags.IntSliceVar(&cfg.distance, "distance", []int{annotate.DefaultDistance}, "bases up to which a variant beside a transcript is reported with it; two, as 5000,2000: upstream and downstream")
	flags.BoolVar(&cfg.proteins.Predicted, "hgvsp-use-prediction", false, "HGVSp in parentheses, as the nomenclature has predicted proteins: p.(Arg97Gly)")
	cfg.pick.register(flags)
	cfg.bcsq.register(flags)
	cfg.scoring.Register(flags)
	flags.StringVar(&cfg.device, "device", "auto", "where networks run: auto, cpu, cuda or cuda:N[,N...]")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime library, for example a CUDA build; else the environment variable ORT_LIB")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

// options checks the flags and returns what they ask of the pipe.
func (cfg *annotateConfig) options() (pipe.Options, error) {
	opts := pipe.Options{Threads: cfg.threads, Format: pipe.Format(cfg.format), Bgzip: strings.HasSuffix(cfg.output, ".gz")}
	opts.CSQ = cfg.csq
	switch {
	case cfg.reference == "" || len(cfg.genes.Paths) == 0:
		return opts, cli.Usagef("--ref and --gff are required: the reference genome and its genes")
	case opts.Format != pipe.VCF && opts.Format != pipe.JSON && opts.Format != pipe.Protobuf:
		return opts, cli.Usagef("--format %q: want vcf, json or protobuf", cfg.format)
	case cfg.onError != "fail" && cfg.onError != "skip":
		return opts, cli.Usagef("--on-error %q: want fail or skip", cfg.onError)
	case cfg.threads < 0:
		return opts, cli.Usagef("--threads %d: want a number of workers", cfg.threads)
	case len(cfg.distance) < 1 || len(cfg.distance) > 2 || slices.Min(cfg.distance) < 0:
		return opts, cli.Usagef("--distance %v: want one number of bases, or two, upstream and downstream", cfg.distance)
	}
	if err := cfg.scoring.Validate(); err != nil {
		return opts, err
	}
	opts.SkipErrors = cfg.onError == "skip"
	for _, name := range cfg.fields {
		field := annotate.Field(strings.ToUpper(strings.TrimSpace(name)))
		switch {
		case field != annotate.CSQ && field != annotate.ANN && field != annotate.BCSQ:
			return opts, cli.Usagef("--fields %q: want csq, ann or bcsq", name)
		case slices.Contains(opts.Fields, field):
			return opts, cli.Usagef("--fields names %s twice", name)
		}
		opts.Fields = append(opts.Fields, field)
	}
	if err := cfg.bcsq.check(slices.Contains(opts.Fields, annotate.BCSQ)); err != nil {
		return opts, err
	}
	if _, err := annotate.New(new(genome.Genome), nil).Rows(opts.Options); err != nil {
		return opts, cli.Usagef("--csq-fields: %w", err)
	}
	return opts, nil
}

func annotateVCF(ctx context.Context, cfg annotateConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	opts, err := cfg.options()
	if err != nil {
		return err
	}
	pick, err := cfg.pick.pick()
	if err != nil {
		return err
	}
	if opts.Logger, err = cfg.log.Logger(os.Stderr); err != nil {
		return err
	}
	in, name, err := openInput(path, stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	g, annotator, err := cfg.loadGenes(ctx, &opts)
	if err != nil {
		return err
	}
	annotator = annotator.WithDistance(cfg.distance[0], cfg.distance[len(cfg.distance)-1]).WithProteinStyle(cfg.proteins).WithPick(pick)
	var bcsq *haplotype.Annotator
	if slices.Contains(opts.Fields, annotate.BCSQ) {
		if bcsq, err = cfg.bcsq.annotator(g, annotator.Model(), cfg.genes.Reader.Codes.AllStarts, opts.SkipErrors, opts.Logger); err != nil {
			return err
		}
		opts.Transformers = append(opts.Transformers, bcsq)
	}
	out := stdout
	if cfg.output != "-" {
		f, createErr := wholefile.Create(cfg.output) // what is there may be what is read
		if createErr != nil {
			return createErr
		}
		defer func() { err = f.Finish(err) }()
		out = f
	}
	if annotator, err = cfg.genes.WithFunctions(annotator, cfg.functions, opts.Logger); err != nil {
		return err
	}
	annotator, closeSources, err := withSources(annotator, g, cfg.sources)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeSources()) }()
	scorer, err := cfg.scoring.Open(g, annotator.Model(), network.Config{Device: cfg.device, Library: cfg.library, Logger: opts.Logger})
	if err != nil {
		return err
	}
	if scorer != nil {
		defer func() { err = errors.Join(err, scorer.Close()) }()
		annotator = annotator.WithScorer(scorer)
	}
	source := &countingReader{r: in}
	stop := cli.ShowProgress(os.Stderr, "B", func() (int64, int64) { return source.n.Load(), sizeOf(in) })
	defer stop()
	stats, err := pipe.Annotate(ctx, source, out, annotator, opts)
	stop()
	if err != nil {
		return fmt.Errorf("%s: %w", name, explainBCSQ(err))
	}
	reportAnnotation(os.Stderr, &stats, bcsq, bcsq != nil && len(opts.Fields) == 1)
	return nil
}

// loadGenes loads reference and genes, and sets how often garbage is collected while that is done and from then on.
//
// The heap is small beside the reference, which lies outside of it: collecting a quarter as often costs some tens
// of megabytes and saves a tenth of the time. Nearly all that reading genes takes stays in use, so that there is even
// less to collect meanwhile. The genes of BCSQ are on the heap twice, and it makes less garbage.
func (cfg *annotateConfig) loadGenes(ctx context.Context, opts *pipe.Options) (*genome.Genome, *annotate.Annotator, error) {
	loading, running := 600, 400
	if slices.Contains(opts.Fields, annotate.BCSQ) {
		loading, running = 150, 150
	}
	setGCPercent(loading)
	g, err := cfg.genes.PackedGenome(cfg.reference)
	if err != nil {
		return nil, nil, err
	}
	annotator, err := cfg.genes.Annotator(ctx, g, opts.Logger)
	if err != nil {
		return nil, nil, err
	}
	setGCPercent(running)
	return g, annotator, nil
}

// reportAnnotation counts what was annotated; bcsq is nil without BCSQ. Of that alone, which goes by haplotypes, alleles aren't counted.
func reportAnnotation(w io.Writer, stats *pipe.Stats, bcsq *haplotype.Annotator, alone bool) {
	if bcsq != nil {
		reportBCSQ(w, bcsq)
	}
	if alone {
		fmt.Fprintf(w, "%d records, %d lines skipped\n", stats.Records, stats.Skipped)
		return
	}
	fmt.Fprintf(w, "%d records, %d alleles annotated, %d not supported, %d lines skipped\n",
		stats.Records, stats.Alleles, stats.Unsupported.Total(), stats.Skipped)
	for reason, n := range stats.Unsupported {
		if n > 0 {
			fmt.Fprintf(w, "%d not supported: %v\n", n, annotate.Reason(reason))
		}
	}
}

// countingReader counts the bytes read.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// sizeOf is the size of a file, or 0 if r is none.
func sizeOf(r io.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
