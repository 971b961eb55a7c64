package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/fastq"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
	"github.com/porestream/porestream/variant/network"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/wholefile"
)

type callConfig struct {
	primers           string
	reference, index  string
	sample, oneSample string
	calling           processor.Calling
	device, library   string
	targets           targetFlags
	output            string
	gvcf              bool
	vcfVersion        vcf.Version
	survey            processor.SurveySettings
	callable          string
	haplotag          string
	calledBy          string
	findMotifs        bool
	threads           int
	controls          processor.Controls
	sheet             string
	log               cli.LogFlags
}

func callCommand() *cobra.Command {
	var cfg callConfig
	cmd := &cobra.Command{
		Use:   "call --ref FASTA [--ploidy 1|2|mixture] [-o OUT.vcf.gz] IN.bam",
		Short: "Call the variants of reads",
		Long: `Writes the variants of a BAM, CRAM or SAM file as VCF, with the engine that the stream
uses. CRAM is read by the FASTA that it was written with. - is standard input.

Reads that are not aligned (FASTQ, or SAM or BAM whose header names no reference) are
aligned by minimap2 first.

A file that is sorted by coordinate is called while it is read. Any other is held
until its end, as differences from the reference: about a byte per 30 bases. With
--region or --bed, and an index beside a sorted BAM file, only what is asked for is read.
The output is the same for any number of threads, with and without an index.

A file whose read groups (SM) name several samples is called sample by sample: --sample
names one, and {sample} in the names of the output files stands for each of them.
--one-sample says that they are one.

--control names a negative control of them, or --sample-sheet does by its column type:
alleles that carry-over from other samples explains get the filter CarryOver.

docs/files/variant-calling.md describes every field and filter of the output.`,
		Example: `  pore call --ref ref.fa reads.sorted.bam > calls.vcf
  pore call --ref ref.fa --ploidy 2 --gvcf --callable callable.bed -o calls.g.vcf.gz reads.sorted.bam
  pore call --ref ref.fa --ploidy 2 --haplotag tagged.bam -o calls.vcf.gz reads.sorted.bam
  pore call --ref ref.fa -o calls.{sample}.vcf.gz barcodes.sorted.bam
  pore call --ref ref.fa --no-template-control water -o calls.{sample}.vcf.gz barcodes.sorted.bam
  pore call --ref ref.fa --ploidy mixture --find-modified-motifs bacteria.sorted.bam > calls.vcf
  pore call --ref ref.fa --region chr17:43044295-43125364 reads.cram`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			// What is in use is some 20 MB, whatever the genome's length: collecting twice as often takes 10 MB less for a fiftieth of the time.
			setGCPercent(50)
			if err := cli.SpareInputs(cmd.Flags(), args, "output", "callable", "haplotag"); err != nil {
				return err
			}
			return call(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cfg.register(cmd)
	return cmd
}

func (cfg *callConfig) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.index, "index", "", "for reads that are not aligned: minimap2 index of the reference, made by pore index; made anew if not given")
	flags.StringVar(&cfg.sample, "sample", "", "sample to call, of those that the read groups name; where they name one or none, what it is called")
	flags.StringVar(&cfg.oneSample, "one-sample", "", "call the reads of all samples as one of this name")
	flags.StringVar(&cfg.primers, "primers", "", processor.PrimersHelp)
	cfg.calling.Register(flags)
	flags.BoolVar(&cfg.findMotifs, "find-modified-motifs", false, "find the motifs that are modified by what the reads say (tags MM and ML), as --modified-motifs names them; a sorted BAM or SAM file, which is read once more")
	flags.StringVar(&cfg.calledBy, "called-by", "", "basecalling model of reads whose read group (DS: basecall_model=) and title name none")
	flags.StringVar(&cfg.device, "device", "auto", "where the variant model runs: auto, cpu, cuda or cuda:N[,N...]")
	flags.StringVar(&cfg.library, "ort-lib", "", "ONNX Runtime library, for example a CUDA build; else the environment variable ORT_LIB")
	flags.StringVarP(&cfg.output, "output", "o", "", "file for the VCF instead of standard output; compressed by BGZF and indexed if it ends in .gz")
	flags.Var(&cfg.vcfVersion, "vcf-version", vcfVersionHelp)
	flags.BoolVar(&cfg.gvcf, "gvcf", false, "write blocks of positions without a variant, too")
	flags.IntVar(&cfg.threads, "threads", 0, "regions that are called at a time; 0: one for each CPU")
	cfg.targets.register(cmd)
	flags.StringVar(&cfg.callable, "callable", "", "BED file for what the reads allow to be said of each position: CALLABLE, LOW_DEPTH, LOW_MAPPING_QUALITY, NO_COVERAGE or N")
	cfg.survey.Register(flags)
	cfg.controls.Register(flags)
	flags.StringVar(&cfg.sheet, "sample-sheet", "", "MinKNOW's sample sheet, CSV, whose column type names negative_control and no_template_control")
	flags.StringVar(&cfg.haplotag, "haplotag", "", "BAM file for the alignments with the haplotypes of their reads (tags HP, PS and PC), in the order of the input")
	cfg.log.Register(flags, slog.LevelWarn)
}

// vcfVersionHelp is the help of --vcf-version.
const vcfVersionHelp = "version of the VCF: 4.2, 4.3, 4.4 or 4.5 (default the least that the file needs, 4.2 unless a name in it is not ASCII)"

// targetFlags choose the regions to call.
type targetFlags struct {
	regions []string
	bed     string
}

func (f *targetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.regions, "region", nil, "call only CONTIG, CONTIG:START or CONTIG:START-END (from 1, END included); may be repeated")
	cmd.Flags().StringVar(&f.bed, "bed", "", "call only the intervals of a BED file")
}

// targets reads what the flags name; nil: everything.
func (f *targetFlags) targets(g *genome.Genome) (aligned.Targets, error) {
	if len(f.regions) == 0 && f.bed == "" {
		return nil, nil //nolint:nilnil // no choice was made
	}
	targets := make(aligned.Targets)
	for _, text := range f.regions {
		contig, span, err := parseRegion(text, g)
		if err != nil {
			return nil, cli.Usagef("--region %s: %w", text, err)
		}
		targets[contig] = append(targets[contig], span)
	}
	if f.bed != "" {
		in, err := os.Open(f.bed)
		if err != nil {
			return nil, fmt.Errorf("--bed: %w", err)
		}
		defer in.Close()
		intervals, err := adaptive.ReadTargets(in, f.bed, 0, func(name string) (int, bool) {
			if c := g.Contig(name); c != nil {
				return len(c.Seq), true
			}
			return 0, false
		})
		if err != nil {
			return nil, err
		}
		for _, c := range g.Contigs {
			for start, end := range intervals.Intervals(c.Name) {
				targets[c.Name] = append(targets[c.Name], variant.Span{Start: start, End: end})
			}
		}
	}
	for contig, spans := range targets {
		targets[contig] = variant.Union(spans)
	}
	return targets, nil
}

// parseRegion reads a stretch as samtools does.
func parseRegion(text string, g *genome.Genome) (contig string, s variant.Span, err error) {
	c := g.Contig(text)
	if c != nil {
		return text, variant.Span{Start: 0, End: len(c.Seq)}, nil
	}
	contig, places := text, ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		contig, places = text[:i], strings.ReplaceAll(text[i+1:], ",", "")
	}
	if c = g.Contig(contig); c == nil {
		return "", s, fmt.Errorf("there is no contig %q in the reference", contig)
	}
	first, last, ranged := strings.Cut(places, "-")
	start, err := strconv.Atoi(first)
	if err != nil {
		return "", s, fmt.Errorf("%q is no position", first)
	}
	end := len(c.Seq)
	if ranged {
		if end, err = strconv.Atoi(last); err != nil {
			return "", s, fmt.Errorf("%q is no position", last)
		}
	}
	if start < 1 || end < start || start > len(c.Seq) {
		return "", s, fmt.Errorf("want 1 <= START <= END, and START on the contig of %d bases", len(c.Seq))
	}
	return contig, variant.Span{Start: start - 1, End: min(end, len(c.Seq))}, nil
}

// check refuses flags that don't go together, before anything is read.
func (cfg *callConfig) check(path string) error {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome that the reads are aligned to")
	}
	if err := cfg.calling.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	switch {
	case cfg.haplotag == "":
	case path == "-":
		return cli.Usagef("--haplotag reads the alignments twice: give a file, not standard input")
	case cfg.calling.Ploidy != variant.Diploid.String() && cfg.calling.PloidyBED == "":
		return cli.Usagef("--haplotag: reads have two haplotypes with --ploidy 2 only")
	}
	switch {
	case !cfg.findMotifs:
	case cfg.calling.ModifiedMotifs != "":
		return cli.Usagef("--find-modified-motifs and --modified-motifs: give one of them")
	case path == "-":
		return cli.Usagef("--find-modified-motifs reads the alignments twice: give a file, not standard input")
	}
	if err := cfg.checkSamples(path); err != nil {
		return err
	}
	if cfg.threads < 0 {
		return cli.Usagef("--threads %d: want 0 or more", cfg.threads)
	}
	if err := cfg.survey.Validate(); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// checkSamples refuses flags on samples, their controls and their output files that don't go together.
func (cfg *callConfig) checkSamples(path string) error {
	if cfg.sample != "" && cfg.oneSample != "" {
		return cli.Usagef("--sample chooses one sample, --one-sample makes one of all: give one of them")
	}
	switch {
	case !cfg.eachSample():
	case !isPattern(cfg.output) || slices.ContainsFunc(cfg.outputs(), func(o string) bool { return o != "" && !isPattern(o) }):
		return cli.Usagef("%s stands in the names of all output files, -o too, or of none", samplePlace)
	case path == "-":
		return cli.Usagef("%s: the alignments are read for each sample: give a file, not standard input", samplePlace)
	}
	if cfg.hasControls() && (!cfg.eachSample() || cfg.sample != "" || cfg.oneSample != "") {
		return cli.Usagef("controls bound what the other samples of a file show: call all of them, with -o '%s.vcf.gz' and without --sample and --one-sample", samplePlace)
	}
	return nil
}

func (cfg *callConfig) outputs() []string { return []string{cfg.output, cfg.callable, cfg.haplotag} }

// eachSample reports whether each sample of the file has output files of its own.
func (cfg *callConfig) eachSample() bool { return slices.ContainsFunc(cfg.outputs(), isPattern) }

// hasControls reports whether alleles that controls explain are to be marked.
func (cfg *callConfig) hasControls() bool { return cfg.controls.Named() || cfg.sheet != "" }

func call(ctx context.Context, cfg callConfig, path string, stdin io.Reader, stdout io.Writer) error {
	if err := cfg.check(path); err != nil {
		return err
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	targets, err := cfg.targets.targets(g)
	if err != nil {
		return err
	}
	in := &callInput{path: path, stdin: stdin, stdout: stdout, genome: g, targets: targets, logger: logger}
	if cfg.eachSample() {
		return in.callEach(ctx, cfg)
	}
	return in.callSample(ctx, cfg)
}

// callInput is what the samples of a file are called from, and what is the same for all of them.
type callInput struct {
	path    string // of the reads; - for stdin
	stdin   io.Reader
	stdout  io.Writer // for a VCF without a file
	genome  *genome.Genome
	targets aligned.Targets // nil: everything
	logger  *slog.Logger
}

// callEach calls the samples of the file one after another, each to files of its own. What controls
// explain is marked once all are called, so until then the calls lie in a folder that goes.
func (in *callInput) callEach(ctx context.Context, cfg callConfig) error {
	groups, err := readGroups(in.path, in.genome)
	if err != nil {
		return err
	}
	samples := samplesOf(groups)
	if one := cmp.Or(cfg.sample, cfg.oneSample); one != "" {
		samples = []string{one}
	}
	if len(samples) == 0 {
		return fmt.Errorf("%s: its read groups name no sample that %s could stand for: give --one-sample", in.path, samplePlace)
	}
	var marks *marking
	if cfg.hasControls() {
		if marks, err = in.marking(&cfg); err != nil {
			return err
		}
		unmarked, err := os.MkdirTemp("", "pore-call-")
		if err != nil {
			return fmt.Errorf("making a folder for calls: %w", err)
		}
		defer os.RemoveAll(unmarked)
		cfg.output = filepath.Join(unmarked, samplePlace+".vcf")
	}
	for _, sample := range samples {
		if strings.ContainsAny(sample, `/\`) {
			return fmt.Errorf("%s: no file can be called after sample %q: call it with --sample and -o", in.path, sample)
		}
		of := cfg
		for _, output := range []*string{&of.output, &of.callable, &of.haplotag} {
			*output = strings.ReplaceAll(*output, samplePlace, sample)
		}
		if cfg.oneSample == "" {
			of.sample = sample
		}
		if err := in.callSample(ctx, of); err != nil {
			return err
		}
		if marks != nil {
			marks.calls[sample] = of.output
		}
	}
	if marks != nil {
		return marks.run(ctx)
	}
	return nil
}

// marking is what marks the calls of the file's samples by its controls.
func (in *callInput) marking(cfg *callConfig) (*marking, error) {
	m := &marking{
		genome: in.genome, reads: []string{in.path}, output: cfg.output, calls: make(map[string]string), logger: in.logger, index: cfg.index,
		options: aligned.Options{Threads: threadsOf(cfg.threads)},
	}
	ploidy, err := variant.ParsePloidy(cfg.calling.Ploidy)
	if err != nil {
		return nil, err
	}
	m.options.Variant.MaxDepth = ploidy.MaxDepth()
	if err := m.find(cfg.controls, cfg.sheet); err != nil {
		return nil, err
	}
	if cfg.primers != "" {
		if m.options.Primers, err = processor.LoadPrimers(cfg.primers, in.genome); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// samplePlace stands for a sample in the names of output files.
const samplePlace = "{sample}"

func isPattern(output string) bool { return strings.Contains(output, samplePlace) }

// whose says whose reads of a file are called, of the samples that its read groups name, and
// what they are called; empty: all.
func (cfg *callConfig) whose(samples []string) (of, name string, err error) {
	switch {
	case cfg.oneSample != "":
		return "", cfg.oneSample, nil
	case len(samples) <= 1:
		return "", cmp.Or(cfg.sample, strings.Join(samples, ""), unnamedSample), nil
	case cfg.sample == "":
		return "", "", fmt.Errorf("its read groups name %d samples, %s: call one with --sample, each to a file of its own with -o '%s.vcf.gz', or all as one with --one-sample NAME",
			len(samples), textfile.Few(samples), samplePlace)
	case !slices.Contains(samples, cfg.sample):
		return "", "", fmt.Errorf("there is no sample %s: its read groups name %s", cfg.sample, textfile.Few(samples))
	}
	return cfg.sample, cfg.sample, nil
}

// callSample calls the variants of one sample of the file.
func (in *callInput) callSample(ctx context.Context, cfg callConfig) (err error) {
	opts := aligned.Options{
		Survey: cfg.survey.Config(cfg.gvcf, cfg.callable != ""), Targets: in.targets, Haplotag: cfg.haplotag != "",
		Threads: threadsOf(cfg.threads), CalledBy: cfg.calledBy, NetworkName: models.None, Strict: cfg.calling.Strict,
	}
	if cfg.primers != "" {
		if opts.Primers, err = processor.LoadPrimers(cfg.primers, in.genome); err != nil {
			return err
		}
	}
	unaligned := &unalignedReads{whose: cfg.whose, tagging: opts.Haplotag, index: cfg.index, threads: opts.Threads, logger: in.logger}
	alignments, name, err := openAlignments(ctx, in.path, in.stdin, in.genome, unaligned)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, alignments.Close()) }()
	if index, older := alignments.Index(); older && in.targets != nil {
		in.logger.Warn("the index is older than the file: make it again (samtools index) if that has changed", "index", index)
	}
	if opts.Sample, opts.Variant.Sample, err = cfg.whose(alignments.Samples()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if cfg.findMotifs {
		if opts.Variant.ModifiedMotifs, err = modifiedMotifs(ctx, in.path, opts.Sample, in.genome, opts.Threads, in.logger); err != nil {
			return err
		}
	}
	var scorer *network.Network
	opts.Variant, scorer, err = cfg.calling.Load(in.genome, opts.Variant, network.Config{Device: cfg.device, Library: cfg.library, Logger: in.logger})
	if err != nil {
		return err
	}
	if scorer != nil {
		opts.NetworkName = scorer.Model().Manifest.Name
		defer func() { err = errors.Join(err, scorer.Close()) }()
	}
	calls, err := in.writeCalls(&cfg, alignments.Contigs(), opts.Variant)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, calls.out.discard()) }()
	if shows, ok := in.stdout.(*os.File); cfg.output != "" || ok && !term.IsTerminal(int(shows.Fd())) {
		defer cli.ShowProgress(os.Stderr, "B", alignments.Progress)()
	}
	counts, err := alignments.Call(ctx, opts, calls.add)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := calls.rows.Close(); err != nil {
		return err
	}
	in.logger.Info("alignments were called", "counts", counts, "haplotypes_left_out", calls.leftOut)
	warnOfMotifs(in.logger, calls.motifs.List())
	if opts.Primers != nil {
		reportPrimers(os.Stderr, in.logger, cfg.primers, opts.Primers, counts)
	}
	calls.warn(in.logger, name, &opts, counts)
	if opts.Haplotag {
		if err := in.haplotag(ctx, cfg.haplotag, calls.tags, &opts); err != nil {
			return err
		}
	}
	if err := calls.out.commit(); err != nil {
		return err
	}
	if n := unaligned.skipped.Load(); n > 0 {
		return fmt.Errorf("%s: %d reads can't be used, and the calls are without them: see the log", name, n)
	}
	return nil
}

// sampleCalls writes a sample's regions as they are called, and keeps what is said of all of them at the end.
type sampleCalls struct {
	out         *callOutput
	rows        *variant.Rows
	tags        aligned.HaplotypeTags
	basecallers []*streampb.ModelReads
	motifs      event.MotifCounts
	leftOut     variant.LeftOut
}

// writeCalls begins the output of a sample.
func (in *callInput) writeCalls(cfg *callConfig, contigs []*genome.Contig, caller variant.Config) (*sampleCalls, error) {
	header := variant.Header(contigs, caller.Sample, caller)
	if err := header.SetVersion(cfg.vcfVersion); err != nil {
		return nil, cli.Usagef("--vcf-version: %w", err)
	}
	anyAllele := ""
	if cfg.gvcf {
		anyAllele = cfg.survey.Symbol()
		variant.DeclareBlocks(header, anyAllele)
	}
	out, err := createCalls(cfg.output, cfg.callable, in.stdout, header)
	if err != nil {
		return nil, err
	}
	return &sampleCalls{out: out, rows: variant.NewRows(anyAllele, out.records.Write), tags: make(aligned.HaplotypeTags)}, nil
}

// add writes what a region has come to.
func (s *sampleCalls) add(r *aligned.Region) error {
	s.tags.Add(r)
	s.leftOut.Add(r.LeftOut)
	s.basecallers = stream.AddModelReads(s.basecallers, variantstage.ModelReads(r.Models)...)
	for _, span := range r.Callable {
		if err := s.out.callable.add(r.Contig.Name, span); err != nil {
			return err
		}
	}
	for _, c := range r.Calls {
		s.motifs.Add(c.GetSample(), event.AlleleOf(c), event.MotifOf(c), c.GetStatus().String())
	}
	return s.rows.Add(r.Contig, r.End, r.Calls, r.Blocks)
}

// warn warns of alignments that couldn't be used, and of basecalling models that the network wasn't made for.
func (s *sampleCalls) warn(logger *slog.Logger, file string, opts *aligned.Options, counts aligned.Counts) {
	if counts.Segments == 0 {
		logger.Warn("no alignment could be used, so nothing was called", "file", file, "counts", counts)
	} else if counts.Faulty() > 0 {
		logger.Warn("alignments that can't be used were left out", "file", file, "counts", counts)
	}
	summary := pipeline.Summary{VariantModel: opts.NetworkName}
	summary.SetModels(map[string][]*streampb.ModelReads{opts.Variant.Sample: s.basecallers})
	for _, warning := range summary.ModelWarnings() {
		logger.Warn(warning, "file", file)
	}
}

// reportPrimers says how alignments ended in primers, and warns if hardly any did.
func reportPrimers(w io.Writer, logger *slog.Logger, path string, scheme *primer.Scheme, counts aligned.Counts) {
	all := 0
	parts := make([]string, 0, len(counts.Ends))
	for e, n := range counts.Ends {
		all += n
		parts = append(parts, fmt.Sprintf("%s %d", strings.ReplaceAll(primer.Ends(e).String(), "_", " "), n))
	}
	fmt.Fprintf(w, "ends of %d alignments in primers of %d amplicons: %s\n", all, scheme.Amplicons(), strings.Join(parts, ", "))
	if n := counts.Ends[primer.None]; all > 0 && n > all*9/10 {
		logger.Warn("hardly any alignment ends in a primer: is it the scheme that the amplicons were made with, and have primers been cut off already?", "scheme", path, "without", n, "of", all)
	}
}

// warnOfMotifs warns of motifs that reads of one strand get wrong.
func warnOfMotifs(logger *slog.Logger, motifs []event.MotifCount) {
	for _, m := range motifs {
		logger.Warn("reads of one strand get a motif wrong, and what it makes look like variants is filtered: call the signal with a newer basecalling model, or compare both strands", "motif", m.String())
	}
}

// haplotag writes the alignments of the file with the haplotypes of their reads to a BAM
// file, which appears when it is whole.
func (in *callInput) haplotag(ctx context.Context, to string, tags aligned.HaplotypeTags, opts *aligned.Options) (err error) {
	alignments, err := aligned.Open(in.path, in.genome)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alignments.Close()) }()
	out, err := wholefile.Create(to)
	if err != nil {
		return err
	}
	counts, err := tags.WriteBAM(ctx, alignments, out, opts.Sample, opts.Threads, [3]string{"pore", cli.Version, "pore call --haplotag"})
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", to, out.Cause(err)), out.Discard())
	}
	if err := out.Commit(); err != nil {
		return err
	}
	in.logger.Info("alignments were tagged", "counts", counts, "file", to)
	return nil
}

// threadsOf is how many threads --threads asks for.
func threadsOf(threads int) int { return cmp.Or(threads, runtime.GOMAXPROCS(0)) }

// headBytes suffice to find out whether the reads of a file are aligned, and the samples in its header.
const headBytes = 1 << 20

// openAlignments opens a file, or standard input. Reads that are aligned to nothing are
// aligned first.
func openAlignments(ctx context.Context, path string, stdin io.Reader, g *genome.Genome, unaligned *unalignedReads) (*aligned.Alignments, string, error) {
	if path != "-" {
		head, err := headOf(path)
		if err != nil || !input.Unaligned(head) {
			a, err := aligned.Open(path, g)
			return a, path, err
		}
		a, err := unaligned.align(ctx, path, head, nil, g)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", path, err)
		}
		return a, path, nil
	}
	const name = "standard input"
	buffered := bufio.NewReaderSize(stdin, headBytes)
	var a *aligned.Alignments
	var err error
	if head, _ := buffered.Peek(headBytes); input.Unaligned(head) {
		a, err = unaligned.align(ctx, path, head, buffered, g)
	} else {
		a, err = aligned.Read(struct{ io.Reader }{buffered}, g)
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return a, name, nil
}

// headOf is the beginning of a file.
func headOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, headBytes))
}

// readGroups are what the read groups of a file say of their reads.
func readGroups(path string, g *genome.Genome) (list []aligned.Group, err error) {
	if head, err := headOf(path); err == nil && input.Unaligned(head) {
		for _, r := range input.Groups(head) {
			list = append(list, aligned.Group{Sample: r.Of, Run: r.Run, FlowCell: r.FlowCell})
		}
		return list, nil
	}
	alignments, err := aligned.Open(path, g)
	if err != nil {
		return nil, err
	}
	list = alignments.Groups()
	if err := alignments.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// samplesOf lists the samples that read groups name, ascending.
func samplesOf(groups []aligned.Group) []string {
	var samples []string
	for _, g := range groups {
		if g.Sample != "" {
			samples = append(samples, g.Sample)
		}
	}
	slices.Sort(samples)
	return slices.Compact(samples)
}

// unalignedReads are reads that are aligned before they are called from.
type unalignedReads struct {
	whose   func(samples []string) (of, name string, err error) // see callConfig
	tagging bool                                                // their alignments are to be tagged
	threads int
	logger  *slog.Logger
	index   string // file of the minimap2 index; empty: it is made anew
	of      string // sample whose reads are taken; empty: all
	// flowCells takes the flow cell of reads that name no run for their run.
	flowCells bool
	skipped   atomic.Int64 // that can't be used
}

// align aligns the reads of a file that begins with head, and passes on their alignments in the
// order of the reference, as those of one sample.
func (u *unalignedReads) align(ctx context.Context, path string, head []byte, stdin io.Reader, g *genome.Genome) (*aligned.Alignments, error) {
	if u.tagging {
		return nil, errors.New("--haplotag tags alignments, and these reads have none: align them with pore align first")
	}
	of, name, err := u.whose(input.Samples(head))
	if err != nil {
		return nil, err
	}
	u.of = of
	index, err := minimap.OpenIndex(g, u.index, minimap.Config{})
	if err != nil {
		return nil, err
	}
	header, err := alignHeader(g, alignConfig{preset: minimap.DefaultPreset, group: unnamedSample, sample: name})
	if err != nil {
		return nil, errors.Join(err, index.Close())
	}
	u.logger.Info("the reads are not aligned: they are aligned first", "file", path)
	out, in := io.Pipe()
	sorter := hts.NewSorter(in, header, hts.SorterConfig{Format: hts.BAM, Memory: hts.DefaultMemory, Threads: u.threads})
	a := &fileAligner{index: index, records: hts.NewRecords(g, header), threads: u.threads, stdin: stdin, sorter: sorter, reader: u.reader, titleTags: true}
	go func() {
		err := a.run(ctx, []string{path})
		if err == nil {
			err = sorter.Finish()
		}
		in.CloseWithError(errors.Join(err, sorter.Close(), index.Close()))
	}()
	alignments, err := aligned.Read(struct{ io.Reader }{out}, g)
	if err != nil {
		return nil, errors.Join(err, out.CloseWithError(err))
	}
	return alignments, nil
}

// unnamedSample is what a sample is called that nobody has named.
const unnamedSample = "sample"

// reader reads FASTQ, SAM, BAM or CRAM, without the reads of other samples, those that failed in the
// basecaller's quality control, the parents of duplex reads and those without a base. One that can't be used is reported, and left
// out.
func (u *unalignedReads) reader(in io.Reader) (func() (*fastq.Read, error), error) {
	r, err := input.NewReader(in, cram.Options{Names: "read"})
	if err != nil {
		return nil, err
	}
	return func() (*fastq.Read, error) {
		for {
			read, err := r.Next()
			if _, record := errors.AsType[*input.RecordError](err); record {
				u.skipped.Add(1)
				u.logger.Error("a read can't be used; the others are called from", "err", err)
				continue
			}
			if err != nil {
				return nil, err
			}
			if len(read.Sequence) > 0 && !read.Failed && !read.DuplexParent && (u.of == "" || read.Of == u.of) {
				r := &fastq.Read{Name: read.ID, Seq: read.Sequence, Qualities: read.Qualities}
				var description []string // for who calls from the alignments
				run := read.Run
				if run == "" && u.flowCells {
					run = read.FlowCell
				}
				if run != "" {
					description = append(description, "runid="+run)
				}
				if read.Model != "" {
					description = append(description, input.ModelTag(read.Model))
				}
				if len(description) > 0 {
					r.Description = "DS:Z:" + strings.Join(description, " ")
				}
				return r, nil
			}
		}
	}, nil
}

// callOutput is where a call writes: files that appear when they are whole, or
// standard output.
type callOutput struct {
	records interface {
		Write(r *vcf.Record) error
	}
	file     *vcf.File // nil: none
	stream   *vcf.Writer
	target   io.Closer // of stream
	callable *bedFile  // nil: none
}

// createCalls opens the output. Without a path it is stdout, and anything but a regular
// file, such as a pipe, is written to directly.
func createCalls(path, callable string, stdout io.Writer, header *vcf.Header) (*callOutput, error) {
	out := &callOutput{}
	info, err := os.Stat(path)
	switch {
	case path == "" || path == "-":
		out.stream, err = vcf.NewWriter(stdout, header)
		out.records = out.stream
	case err == nil && !info.Mode().IsRegular():
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY, 0); err != nil {
			break
		}
		out.target = f
		out.stream, err = vcf.NewWriter(f, header)
		out.records = out.stream
	default:
		out.file, err = vcf.Create(path, header)
		out.records = out.file
	}
	if err == nil && callable != "" {
		out.callable, err = createBED(callable)
	}
	if err != nil {
		return nil, errors.Join(err, out.discard())
	}
	return out, nil
}

// commit finishes the output.
func (o *callOutput) commit() error {
	if o.stream != nil {
		if err := o.stream.Flush(); err != nil {
			return err
		}
	}
	if o.callable != nil {
		if err := o.callable.commit(); err != nil {
			return err
		}
	}
	if o.file != nil {
		return o.file.Commit()
	}
	return nil
}

// discard removes an unfinished output.
func (o *callOutput) discard() error {
	var errs []error
	if o.file != nil {
		errs = append(errs, o.file.Discard())
	}
	if o.target != nil {
		errs = append(errs, o.target.Close())
	}
	if o.callable != nil {
		errs = append(errs, o.callable.discard())
	}
	return errors.Join(errs...)
}

// bedFile is a BED file under way: stretches, joined where they touch.
type bedFile struct {
	path   string
	file   *wholefile.File
	out    *bufio.Writer
	contig string
	last   variant.CallableSpan
}

func createBED(path string) (*bedFile, error) {
	file, err := wholefile.Create(path)
	if err != nil {
		return nil, err
	}
	return &bedFile{path: path, file: file, out: bufio.NewWriter(file)}, nil
}

func (b *bedFile) add(contig string, s variant.CallableSpan) error {
	if contig == b.contig && s.Start == b.last.End && s.Callability == b.last.Callability {
		b.last.End = s.End
		return nil
	}
	err := b.flush()
	b.contig, b.last = contig, s
	return err
}

// flush writes the last stretch.
func (b *bedFile) flush() error {
	if b.contig == "" {
		return nil
	}
	if _, err := fmt.Fprintf(b.out, "%s\t%d\t%d\t%s\n", b.contig, b.last.Start, b.last.End, b.last.Callability); err != nil {
		return fmt.Errorf("writing %s: %w", b.path, b.file.Cause(err))
	}
	return nil
}

func (b *bedFile) commit() error {
	if err := b.flush(); err != nil {
		return err
	}
	if err := b.out.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", b.path, b.file.Cause(err))
	}
	return b.file.Commit()
}

func (b *bedFile) discard() error { return b.file.Discard() }
