package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/biogo/hts/bgzf"
	"github.com/biogo/hts/sam"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/aligned"
	"github.com/porestream/porestream/modbase/motif"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/wholefile"
)

type pileupConfig struct {
	reference                    string
	regions, motifs, thresholds  []string
	cpg, combineStrands, combine bool
	percentile                   float64
	noFiltering, haplotypes      bool
	output, bedGraph, found      string
	panel                        methylationPanel
	answers, vector              string
	memory                       cli.Bytes
	threads                      int
	log                          cli.LogFlags
}

func pileupCommand() *cobra.Command {
	cfg := pileupConfig{memory: 512 << 20}
	cmd := &cobra.Command{
		Use:   "pileup [--ref FASTA --cpg] [-o OUT.bed] IN.bam",
		Short: "Count the modified bases of aligned reads at each position",
		Long: `Reads what a sorted BAM or SAM file says of modified bases (tags MM and ML) and writes
bedMethyl, of 18 columns as modkit has it: for each position, strand and modification how
many reads have it, another one, none, no call, a call below the threshold, another base or
a deletion. - is standard input.

Calls below a threshold are counted as failed. It is the 10th percentile of the calls of
each base; --filter-threshold says what it is. Reads wait for the threshold if there is
--memory for all of them, else the file is read twice.
Only primary alignments count, and of those no duplicates and no failed reads.

docs/files/modified-bases.md describes the columns.`,
		Example: `  pore pileup --ref ref.fa --cpg --combine-strands -o cpg.bed reads.sorted.bam
  pore pileup --filter-threshold 0.8 --region chr20:1000000-2000000 reads.sorted.bam > all.bed
  pore pileup --ref ref.fa --motif GATC,1 --motif CCWGG,1 -o ecoli.bed ecoli.sorted.bam
  pore pileup --ref ecoli.fa --find-motifs motifs.tsv -o ecoli.bed ecoli.sorted.bam
  pore pileup --ref ref.fa --cpg --haplotypes -o 'cpg.{haplotype}.bed' tagged.bam
  pore pileup --ref ref.fa --cpg --rules promoters.tsv --answers answers.tsv -o cpg.bed reads.sorted.bam
  pore pileup --ref ref.fa --cpg --bedgraph track --no-filtering reads.sorted.bam > cpg.bed`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.SpareInputs(cmd.Flags(), args, "output", "find-motifs", "answers", "vector"); err != nil {
				return err
			}
			return pileUp(cmd.Context(), cfg, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome that the reads are aligned to, FASTA, may be gzipped; needed for --motif and --cpg")
	flags.StringArrayVar(&cfg.motifs, "motif", nil, "write only positions of a motif: IUPAC letters and the place of the modified base in them from 0 on, such as CG,0; may be repeated")
	flags.BoolVar(&cfg.cpg, "cpg", false, "the same as --motif CG,0")
	flags.BoolVar(&cfg.combineStrands, "combine-strands", false, "add the counts of both strands of a motif, which must be a palindrome, at its place on the plus strand")
	flags.BoolVar(&cfg.combine, "combine-mods", false, "count all modifications of a base as one, of which the code is the base")
	flags.StringArrayVar(&cfg.regions, "region", nil, "count only CONTIG, CONTIG:START or CONTIG:START-END (from 1, END included); may be repeated")
	flags.StringArrayVar(&cfg.thresholds, "filter-threshold", nil, "least probability of a call that counts, from 0 to 1, of all bases or of one, such as C:0.8; may be repeated")
	flags.Float64Var(&cfg.percentile, "filter-percentile", 0.1, "share of the calls of a base that fail, where --filter-threshold doesn't say")
	flags.BoolVar(&cfg.noFiltering, "no-filtering", false, "no call fails")
	flags.BoolVar(&cfg.haplotypes, "haplotypes", false, "count reads by haplotype (tag HP), each to a file: "+haplotypePlace+" in -o and --bedgraph stands for its number, or unphased")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file")
	flags.StringVar(&cfg.bedGraph, "bedgraph", "", "write percentages for browsers, too, to PREFIX.CODE.plus.bedgraph and the same with minus or combined")
	flags.StringVar(&cfg.found, "find-motifs", "", "file for the motifs that are modified, such as GATC and CCWGG of E. coli, as a table (docs/files/modified-bases.md#motifs); needs --ref")
	cfg.panel.register(flags)
	flags.StringVar(&cfg.answers, "answers", "", "file for the answers to --rules")
	flags.StringVar(&cfg.vector, "vector", "", "file for the states of --sites: 1, 0 or a point where nothing is known")
	flags.Var(&cfg.memory, "memory", "reads that are held until the threshold is known; a file with more is read twice")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

// haplotypePlace stands for a haplotype in the names of output files.
const haplotypePlace = "{haplotype}"

// sharedFile is the error that two tables would go to one file; nil: each has its own.
func (cfg *pileupConfig) sharedFile() error {
	named := make(map[string]string) // flags, by file
	for _, f := range []struct{ flag, file string }{{"-o", cfg.output}, {"--find-motifs", cfg.found}, {"--answers", cfg.answers}, {"--vector", cfg.vector}} {
		if f.file == "" {
			continue
		}
		file := filepath.Clean(f.file)
		if other := named[file]; other != "" {
			return fmt.Errorf("%s and %s are both %s: name a file for each", f.flag, other, f.file)
		}
		named[file] = f.flag
	}
	return nil
}

// options reads what the flags say; given are the bases whose thresholds are said.
func (cfg *pileupConfig) options(path string) (opts aligned.Options, given [4]bool, err error) {
	opts = aligned.Options{CombineStrands: cfg.combineStrands, CombineKinds: cfg.combine, Haplotypes: cfg.haplotypes, Threads: threadsOf(cfg.threads)}
	motifs := cfg.motifs
	if cfg.cpg {
		motifs = append([]string{"CG,0"}, motifs...)
	}
	for _, text := range motifs {
		m, err := pileup.ParseMotif(text)
		if err != nil {
			return opts, given, cli.Usagef("--motif %w", err)
		}
		if cfg.combineStrands && !m.Palindrome() {
			return opts, given, cli.Usagef("--combine-strands: %s doesn't read the same on both strands", &m)
		}
		opts.Motifs = append(opts.Motifs, m)
	}
	if opts.Thresholds, given, err = pileup.ParseThresholds(cfg.thresholds); err != nil {
		return opts, given, cli.Usagef("--filter-threshold %w", err)
	}
	every := given == [4]bool{true, true, true, true}
	switch {
	case len(opts.Motifs) > 0 && cfg.reference == "":
		err = errors.New("--ref is required: motifs are searched for in the reference genome")
	case cfg.found != "" && cfg.reference == "":
		err = errors.New("--ref is required: --find-motifs compares what is around modified bases in the reference genome")
	case cfg.found != "" && (len(opts.Motifs) > 0 || cfg.combine || cfg.haplotypes):
		err = errors.New("--find-motifs takes all positions and reads, each modification by itself: leave --motif, --cpg, --combine-mods and --haplotypes out")
	case cfg.sharedFile() != nil:
		err = cfg.sharedFile()
	case (cfg.panel.rules == "") != (cfg.answers == ""), (cfg.panel.sites == "") != (cfg.vector == ""):
		err = errors.New("--rules has its answers in --answers, and --sites in --vector: give both, or none")
	case (cfg.answers != "" || cfg.vector != "") && (!cfg.cpg || len(opts.Motifs) > 1):
		err = errors.New("--rules and --sites are of CpGs: give --cpg, and no --motif")
	case (cfg.answers != "" || cfg.vector != "") && cfg.combine:
		err = errors.New("--rules and --sites are of one modification each, and --combine-mods counts all as one: leave it out")
	case cfg.haplotypes && (cfg.answers != "" && !strings.Contains(cfg.answers, haplotypePlace) || cfg.vector != "" && !strings.Contains(cfg.vector, haplotypePlace)):
		err = fmt.Errorf("--haplotypes: %s must stand in --answers and --vector, too", haplotypePlace)
	case cfg.combineStrands && len(opts.Motifs) == 0:
		err = errors.New("--combine-strands adds the strands of a motif: give --cpg or --motif")
	case cfg.noFiltering && len(cfg.thresholds) > 0:
		err = errors.New("--no-filtering and --filter-threshold: give one of them")
	case !(cfg.percentile >= 0 && cfg.percentile < 1):
		err = fmt.Errorf("--filter-percentile %v: want a share from 0 to less than 1", cfg.percentile)
	case cfg.threads < 0:
		err = fmt.Errorf("--threads %d: want a number of workers", cfg.threads)
	case path == "-" && !cfg.noFiltering && !every:
		err = errors.New("the threshold is a percentile of all calls, for which the input is read twice: give a file, --filter-threshold or --no-filtering")
	case cfg.haplotypes && !strings.Contains(cfg.output, haplotypePlace):
		err = fmt.Errorf("--haplotypes: %s must stand in the name of -o", haplotypePlace)
	case cfg.haplotypes && cfg.bedGraph != "" && !strings.Contains(cfg.bedGraph, haplotypePlace):
		err = fmt.Errorf("--haplotypes: %s must stand in --bedgraph, too", haplotypePlace)
	}
	if cfg.noFiltering {
		given = [4]bool{true, true, true, true}
	}
	if err != nil {
		err = cli.Usagef("%w", err)
	}
	return opts, given, err
}

func pileUp(ctx context.Context, cfg pileupConfig, path string, stdin io.Reader, stdout io.Writer) (err error) {
	opts, given, err := cfg.options(path)
	if err != nil {
		return err
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if err := cfg.panel.load(); err != nil {
		return err
	}
	if cfg.reference != "" {
		if opts.Genome, err = genome.Load(cfg.reference); err != nil {
			return err
		}
	}
	var survey *aligned.Survey
	if given != [4]bool{true, true, true, true} {
		if survey, err = thresholds(ctx, &cfg, &opts, given, path, logger); err != nil {
			return err
		}
	}
	out := &pileupOutput{cfg: &cfg, motifs: opts.Motifs, files: make(map[string]*pileupFile), stdout: stdout}
	defer func() { err = errors.Join(err, out.discard()) }()
	if err := out.begin(); err != nil {
		return err
	}
	conclusions := &pileupConclusions{cfg: &cfg, genome: opts.Genome, out: out, finder: motif.NewFinder(motif.Config{}), asked: make(map[string]*panelCounts)}
	var counts *aligned.Counts
	if survey != nil && survey.Whole() {
		if counts, err = survey.Pileup(ctx, opts.Thresholds, conclusions.row); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	} else {
		counts, err = pileUpFile(ctx, path, stdin, &cfg, &opts, conclusions.row)
	}
	if err != nil {
		return err
	}
	reportPileup(logger, counts)
	if err := conclusions.write(ctx); err != nil {
		return err
	}
	return out.commit()
}

// pileupConclusions write rows as they come, and keep what is concluded from all of them: the
// motifs that are modified, and the answers and states of a panel.
type pileupConclusions struct {
	cfg    *pileupConfig
	genome *genome.Genome // of finder
	out    *pileupOutput
	finder *motif.Finder
	asked  map[string]*panelCounts // by haplotype
}

func (p *pileupConclusions) row(contig string, r *pileup.Row) error {
	if p.cfg.found != "" {
		if c := p.genome.Contig(contig); c != nil {
			p.finder.Add(c.Seq, r)
		}
	}
	if p.asksPanel() {
		p.counts(haplotypeOf(r.Group)).add(contig, r)
	}
	return p.out.row(contig, r)
}

func (p *pileupConclusions) asksPanel() bool { return p.cfg.answers != "" || p.cfg.vector != "" }

// counts are those that the panel's answers on a haplotype are made of.
func (p *pileupConclusions) counts(haplotype string) *panelCounts {
	if p.asked[haplotype] == nil {
		p.asked[haplotype] = p.cfg.panel.counts()
	}
	return p.asked[haplotype]
}

// write writes the files of what was concluded, once no row follows.
func (p *pileupConclusions) write(ctx context.Context) error {
	if p.cfg.found != "" {
		p.out.line = append(p.out.line[:0], motif.Header...)
		motifs, err := p.finder.Find(ctx)
		if err != nil {
			return err
		}
		for _, m := range motifs {
			p.out.line = m.Append(p.out.line)
		}
		if err := p.out.write(p.cfg.found, ""); err != nil {
			return err
		}
	}
	if p.asksPanel() {
		p.counts(haplotypeOf(0)) // is answered whether or not there are rows
	}
	for haplotype, counts := range p.asked {
		if p.cfg.answers != "" {
			p.out.line = counts.answers()
			if err := p.out.write(p.cfg.answers, haplotype); err != nil {
				return err
			}
		}
		if p.cfg.vector != "" {
			p.out.line = counts.states()
			if err := p.out.write(p.cfg.vector, haplotype); err != nil {
				return err
			}
		}
	}
	return nil
}

// pileUpFile reads and counts a file.
func pileUpFile(ctx context.Context, path string, stdin io.Reader, cfg *pileupConfig, opts *aligned.Options, row func(contig string, r *pileup.Row) error) (counts *aligned.Counts, err error) {
	in, name, err := openPileup(path, stdin, cfg, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, in.close()) }()
	if counts, err = aligned.Pileup(ctx, in.records, *opts, row); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return counts, nil
}

// haplotypeOf is the name of a group of reads.
func haplotypeOf(group int) string {
	if group > 0 {
		return strconv.Itoa(group)
	}
	return "unphased"
}

// thresholds makes those that aren't given of the calls of the file, and keeps its reads if they fit into the memory.
func thresholds(ctx context.Context, cfg *pileupConfig, opts *aligned.Options, given [4]bool, path string, logger *slog.Logger) (survey *aligned.Survey, err error) {
	in, name, err := openPileup(path, nil, cfg, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, in.close()) }()
	if survey, err = aligned.NewSurvey(ctx, in.records, *opts, int(cfg.memory)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, t := range survey.Calls.Percentile(cfg.percentile) {
		if !given[i] && t > 0 {
			opts.Thresholds[i] = t
			logger.Info("least probability of a call that counts", "base", "ACGT"[i:i+1], "probability", float64(t)/pileup.Units)
		}
	}
	return survey, nil
}

// pileupInput is a file that is read.
type pileupInput struct {
	records *hts.Reader
	close   func() error
}

// openPileup opens a file, and goes to the region if there is one and an index.
func openPileup(path string, stdin io.Reader, cfg *pileupConfig, opts *aligned.Options) (in *pileupInput, name string, err error) {
	file, name, err := openInput(path, stdin)
	if err != nil {
		return nil, name, err
	}
	fail := func(err error) (*pileupInput, string, error) {
		return nil, name, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	// Only a file itself can be gone about in, which NewReader doesn't.
	f, isFile := file.(*os.File)
	var records *hts.Reader
	if isFile && isBAM(f) {
		records, err = hts.NewBAMReader(f, opts.Threads)
	} else {
		in := bufio.NewReader(file)
		if magic, _ := in.Peek(4); string(magic) == "CRAM" {
			return fail(errors.New("this is CRAM, which is not read; pipe it: samtools view -u FILE.cram | pore pileup --filter-threshold 0.8 -"))
		}
		records, err = hts.NewReader(in, opts.Threads)
	}
	if err != nil {
		return fail(fmt.Errorf("reading the header: %w: this is neither SAM nor BAM", err))
	}
	in = &pileupInput{records, func() error { return errors.Join(records.Close(), file.Close()) }}
	refs := records.Header().Refs()
	if len(refs) == 0 {
		return fail(errors.New("the header names no reference sequence (@SQ): align the reads first (pore align -y)"))
	}
	if len(cfg.regions) == 0 {
		return in, name, nil
	}
	opts.Regions = nil
	for _, text := range cfg.regions {
		region, err := regionOf(text, refs)
		if err != nil {
			return fail(cli.Usagef("--region %s: %w", text, err))
		}
		opts.Regions = append(opts.Regions, region)
	}
	if isFile && records.Binary() {
		if err := limit(records, f, path, opts.Regions); err != nil {
			return fail(err)
		}
	}
	return in, name, nil
}

// isBAM reports whether a seekable file begins as BAM does.
func isBAM(f *os.File) bool {
	magic := make([]byte, 2)
	_, err := f.ReadAt(magic, 0)
	return err == nil && string(magic) == "\x1f\x8b"
}

// limit has only what may be of regions be read, if the file has an index.
func limit(records *hts.Reader, f *os.File, path string, regions []aligned.Region) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	index, err := hts.FindIndex(path, info)
	if err != nil || index == nil {
		return err
	}
	var all []bgzf.Chunk
	for _, ref := range records.Header().Refs() {
		for _, region := range regions {
			if ref.Name() != region.Contig {
				continue
			}
			chunks, err := index.Chunks(ref, region.Start, region.End)
			if err != nil {
				return err
			}
			all = append(all, chunks...)
		}
	}
	return records.Limit(hts.Apart(all))
}

// regionOf reads a stretch of a reference sequence as samtools does.
func regionOf(text string, refs []*sam.Reference) (aligned.Region, error) {
	find := func(contig string) int {
		return slices.IndexFunc(refs, func(ref *sam.Reference) bool { return ref.Name() == contig })
	}
	if i := find(text); i >= 0 {
		return aligned.Region{Contig: text, End: refs[i].Len()}, nil
	}
	contig, places := text, ""
	if at := strings.LastIndexByte(text, ':'); at >= 0 {
		contig, places = text[:at], strings.ReplaceAll(text[at+1:], ",", "")
	}
	i := find(contig)
	if i < 0 {
		return aligned.Region{}, fmt.Errorf("there is no reference sequence %q", contig)
	}
	n := refs[i].Len()
	first, last, ranged := strings.Cut(places, "-")
	start, err := strconv.Atoi(first)
	end := n
	if err == nil && ranged {
		end, err = strconv.Atoi(last)
	}
	if err != nil || start < 1 || end < start || start > n {
		return aligned.Region{}, fmt.Errorf("want 1 <= START <= END, and START on the sequence of %d bases", n)
	}
	return aligned.Region{Contig: contig, Start: start - 1, End: min(end, n)}, nil
}

// pileupOutput writes rows to the files that they are for.
type pileupOutput struct {
	cfg    *pileupConfig
	motifs []pileup.Motif
	files  map[string]*pileupFile
	stdout io.Writer
	line   []byte
}

// pileupFile is a file on its way; file is nil for standard output.
type pileupFile struct {
	*bufio.Writer
	file *wholefile.File
}

// begin makes the files that are there whether or not there are rows.
func (o *pileupOutput) begin() error {
	if o.cfg.haplotypes {
		return nil
	}
	_, err := o.to(o.cfg.output)
	return err
}

// to is the file of a name, which is made when it is first wanted.
func (o *pileupOutput) to(name string) (*pileupFile, error) {
	if f := o.files[name]; f != nil {
		return f, nil
	}
	f := new(pileupFile)
	if name == "-" {
		f.Writer = bufio.NewWriterSize(o.stdout, 1<<16)
	} else {
		var err error
		if f.file, err = wholefile.Create(name); err != nil {
			return nil, err
		}
		f.Writer = bufio.NewWriterSize(f.file, 1<<16)
	}
	o.files[name] = f
	return f, nil
}

// row writes a row.
func (o *pileupOutput) row(contig string, r *pileup.Row) error {
	haplotype := haplotypeOf(r.Group)
	o.line = pileup.AppendBED(o.line[:0], contig, r, o.motifs)
	if err := o.write(o.cfg.output, haplotype); err != nil || o.cfg.bedGraph == "" {
		return err
	}
	strand := map[pileup.Strand]string{pileup.Plus: "plus", pileup.Minus: "minus", pileup.Both: "combined"}[r.Strand]
	name := o.cfg.bedGraph + "." + r.Code.String()
	if len(o.motifs) > 1 {
		name += "." + strings.ReplaceAll(o.motifs[r.Motif].String(), ",", "_")
	}
	o.line = pileup.AppendBedGraph(o.line[:0], contig, r)
	return o.write(name+"."+strand+".bedgraph", haplotype)
}

// write writes the line to a file.
func (o *pileupOutput) write(name, haplotype string) error {
	if o.cfg.haplotypes {
		name = strings.ReplaceAll(name, haplotypePlace, haplotype)
	}
	f, err := o.to(name)
	if err != nil {
		return err
	}
	_, err = f.Write(o.line)
	return err
}

// commit gives all files their names.
func (o *pileupOutput) commit() error {
	for _, name := range slices.Sorted(maps.Keys(o.files)) {
		f := o.files[name]
		if err := f.Flush(); err != nil {
			return err
		}
		if f.file == nil {
			continue
		}
		if err := f.file.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the files that do not have their final names yet.
func (o *pileupOutput) discard() error {
	var errs []error
	for _, f := range o.files {
		if f.file != nil {
			errs = append(errs, f.file.Discard())
		}
	}
	return errors.Join(errs...)
}

// reportPileup reports what a user would not expect of a file.
func reportPileup(logger *slog.Logger, n *aligned.Counts) {
	for _, fault := range n.Faults.List() {
		logger.Warn("modified bases of reads can't be used: they count as reads without calls", "reads", fault.Reads, "first", fault.First, "why", fault.Detail)
	}
	for _, code := range slices.SortedFunc(maps.Keys(n.Unlisted), modbase.Code.Compare) {
		logger.Warn("a code of modified bases is not among those of the SAM specification: it is counted as it stands", "code", code.String(), "reads", n.Unlisted[code])
	}
	if odd := n.OddHaplotypes; odd.Records > 0 {
		logger.Warn("haplotypes are no numbers from 1 to "+strconv.Itoa(aligned.MaxHaplotypes)+": the reads count as unphased", "reads", odd.Records, "first", odd.First, "why", odd.Why)
	}
	if odd := n.Broken; odd.Records > 0 {
		logger.Warn("alignments don't fit their read or reference and are left out", "records", odd.Records, "first", odd.First, "why", odd.Why)
	}
	if n.Reads > 0 && n.Tagged == 0 {
		logger.Warn("no read says anything of modified bases: were they basecalled with a model for them, and aligned with pore align -y or minimap2 -y?", "reads", n.Reads)
	}
	logger.Info("modified bases are counted", "reads", n.Reads, "with calls", n.Tagged, "rows", n.Rows,
		"not aligned", n.Unmapped, "secondary, supplementary, duplicate or failed", n.Secondary, "without a sequence", n.NoSequence)
}
