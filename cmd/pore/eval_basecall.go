package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/biogo/hts/sam"
	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/basecall/eval"
	"github.com/porestream/porestream/fastq"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/inorder"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/textfile"
)

type evalBasecallConfig struct {
	reference, labels, preset string
	motifs                    []string
	realign, json             bool
	plot, tsv, compare        string
	threads                   int
	log                       cli.LogFlags
}

func evalBasecallCommand() *cobra.Command {
	var cfg evalBasecallConfig
	cmd := &cobra.Command{
		Use:   "basecall --ref FASTA {READS.fastq | READS.bam | READS.sam}...",
		Short: "Evaluate called reads by the genome that they came from",
		Long: `Prints how identical reads are to a reference, their errors by kind, what becomes of
homopolymers, the contexts and motifs with the most errors, and how far base qualities
can be believed. Files are FASTQ, plain or gzipped, SAM or BAM; - is standard input.

Reads of FASTQ files and of SAM and BAM files without reference sequences in the header
are aligned with minimap2. Alignments that a file has are taken as they are, one primary
alignment for each read; --realign aligns the reads anew. What differs from the reference
counts as an error: a sample with variants needs its own sequence.`,
		Example: `  pore basecall --model r9.4-fast reads.pod5 | pore eval basecall --ref genome.fa -
  pore eval basecall --ref genome.fa --json --plot calls.svg reads.fastq.gz > calls.json
  pore eval basecall --ref genome.fa --compare calls.json newer.fastq.gz`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return evalBasecall(cmd.Context(), cfg, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "genome that the reads came from, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.labels, "labels", "", "where reads are known to be from, TSV with the columns read_id, contig, start, end, strand: reports how many align, and how many there")
	flags.StringVar(&cfg.preset, "preset", minimap.DefaultPreset, "minimap2 preset for reads that are aligned here")
	flags.BoolVar(&cfg.realign, "realign", false, "align reads anew that are aligned in their file")
	flags.StringArrayVar(&cfg.motifs, "motif", nil, "motif of IUPAC letters, in the direction of the read, whose errors are counted apart; may be given several times (default GATC, CCWGG, CG)")
	flags.BoolVar(&cfg.json, "json", false, "print JSON")
	flags.StringVar(&cfg.plot, "plot", "", "file for a picture of identities, calibration and homopolymers, SVG")
	flags.StringVar(&cfg.tsv, "tsv", "", "folder for tables: reads, homopolymers, contexts, qualities and contigs")
	flags.StringVar(&cfg.compare, "compare", "", "earlier report (--json) to report the changes since")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

// options are what the flags ask for, besides labels, which lie in a file.
func (cfg *evalBasecallConfig) options() (opts eval.Options, err error) {
	switch {
	case cfg.reference == "":
		return opts, cli.Usagef("--ref is required: the genome that the reads came from")
	case cfg.threads < 0:
		return opts, cli.Usagef("--threads %d: want a number of workers", cfg.threads)
	case cfg.json && cfg.compare != "":
		return opts, cli.Usagef("--compare prints a table: leave out --json")
	}
	for _, text := range cfg.motifs {
		m, err := eval.ParseMotif(text)
		if err != nil {
			return opts, cli.Usagef("--motif: %w", err)
		}
		opts.Motifs = append(opts.Motifs, m)
	}
	return opts, nil
}

func evalBasecall(ctx context.Context, cfg evalBasecallConfig, paths []string, stdin io.Reader, stdout io.Writer) (err error) {
	opts, err := cfg.options()
	if err != nil {
		return err
	}
	cfg.threads = threadsOf(cfg.threads)
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	if cfg.labels != "" {
		if opts.Labels, err = loadLabels(cfg.labels); err != nil {
			return err
		}
	}
	var before *eval.Report
	if cfg.compare != "" {
		if before, err = loadReport(cfg.compare); err != nil {
			return err
		}
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	j := &readEvaluator{cfg: cfg, genome: g, stdin: stdin, rows: io.Discard}
	defer j.close()
	if cfg.tsv != "" {
		if err := os.MkdirAll(cfg.tsv, 0o755); err != nil {
			return err
		}
	}
	for range cfg.threads {
		j.tallies = append(j.tallies, eval.NewTally(opts))
	}
	stop := cli.ShowProgress(os.Stderr, "reads", func() (int64, int64) { return j.reads.Load(), 0 })
	defer stop()
	report, err := j.evaluate(ctx, paths)
	if err != nil {
		return err
	}
	stop()
	logger.Info("reads are counted", "reads", report.Reads.Reads, "records_left_out", j.leftOut)
	switch n := j.faulty.Load(); {
	case n > 0 && report.Reads.Reads == 0:
		return fmt.Errorf("none of %d records can be used; the first: %s", n, *j.fault.Load())
	case n > 0:
		logger.Warn("records that can't be used are left out", "records", n, "first", *j.fault.Load())
	}
	if report.Reads.Reads == 0 {
		return fmt.Errorf("%s: there are no reads", strings.Join(paths, ", "))
	}
	return cfg.write(stdout, report, before, paths)
}

// evaluate counts the reads of files side by side, a row for each where tables are asked for, and adds up.
func (j *readEvaluator) evaluate(ctx context.Context, paths []string) (*eval.Report, error) {
	var err error
	if j.cfg.tsv == "" {
		err = j.run(ctx, paths)
	} else {
		err = writeWhole(filepath.Join(j.cfg.tsv, "reads.tsv"), func(w io.Writer) error {
			j.rows = w
			if _, err := io.WriteString(w, eval.RowColumns); err != nil {
				return err
			}
			return j.run(ctx, paths)
		})
	}
	if err != nil {
		return nil, err
	}
	for _, other := range j.tallies[1:] {
		if err := j.tallies[0].Merge(other); err != nil {
			return nil, err
		}
	}
	return j.tallies[0].Report(), nil
}

// write writes what the flags ask for.
func (cfg *evalBasecallConfig) write(stdout io.Writer, report, before *eval.Report, paths []string) error {
	if cfg.tsv != "" {
		for _, t := range report.Tables() {
			if err := writeWhole(filepath.Join(cfg.tsv, t.Name+".tsv"), t.Write); err != nil {
				return err
			}
		}
	}
	if cfg.plot != "" {
		name := filepath.Base(paths[0])
		switch {
		case len(paths) > 1:
			name = fmt.Sprintf("%d files", len(paths))
		case paths[0] == "-":
			name = "reads"
		}
		title := fmt.Sprintf("%s against %s", name, filepath.Base(cfg.reference))
		if err := writeWhole(cfg.plot, func(w io.Writer) error { return report.WriteSVG(w, title) }); err != nil {
			return err
		}
	}
	if cfg.json {
		return printJSON(stdout, report)
	}
	if err := report.WriteText(stdout); err != nil {
		return err
	}
	if before == nil {
		return nil
	}
	if _, err := fmt.Fprintf(stdout, "Since %s\n", cfg.compare); err != nil {
		return err
	}
	return report.WriteComparison(stdout, before)
}

func loadLabels(path string) (*eval.Labels, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	labels, err := eval.ReadLabels(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return labels, nil
}

// loadReport reads what --json has printed.
func loadReport(path string) (*eval.Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(eval.Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w: want what pore eval basecall --json has printed", path, err)
	}
	if r.SchemaVersion != eval.SchemaVersion {
		return nil, fmt.Errorf("%s: a report of version %d, want %d: make it again with pore eval basecall --json", path, r.SchemaVersion, eval.SchemaVersion)
	}
	return r, nil
}

// readEvaluator has the reads of files aligned and counted in parallel, and passes on each
// file's result in the order of the files.
type readEvaluator struct {
	cfg     evalBasecallConfig
	genome  *genome.Genome
	stdin   io.Reader
	rows    io.Writer
	tallies []*eval.Tally // one for each worker
	reads   atomic.Int64
	leftOut int // secondary and supplementary records
	faulty  atomic.Int64
	fault   atomic.Pointer[string] // the first one

	index *minimap.Index // made when the first read needs it
}

func (j *readEvaluator) close() {
	if j.index != nil {
		_ = j.index.Close()
	}
}

// calledRead is a read as its file has it, and whether that says where it aligns.
type calledRead struct {
	fastq *fastq.Read
	rec   *sam.Record
	final bool // rec says whether and where it aligns
}

// calledBatch is reads of one file and what became of them.
type calledBatch struct {
	file  string
	index *minimap.Index // for reads that are to be aligned
	reads []calledRead
	rows  []eval.Row
}

func (j *readEvaluator) run(ctx context.Context, paths []string) error {
	read := func(_ context.Context, emit func(*calledBatch) error) error {
		for _, path := range paths {
			if err := j.read(path, emit); err != nil {
				return err
			}
		}
		return nil
	}
	work := func(worker int, batches iter.Seq[*calledBatch]) error {
		var aligner *minimap.Aligner
		for b := range batches {
			if aligner == nil && b.index != nil {
				aligner = b.index.NewAligner()
				defer aligner.Close()
			}
			for i := range b.reads {
				row, err := j.count(j.tallies[worker], aligner, &b.reads[i])
				if errors.Is(err, errUnusable) {
					j.leaveOut(fmt.Errorf("%s: %w", b.file, err))
					continue
				}
				if err != nil {
					return fmt.Errorf("%s: %w", b.file, err)
				}
				b.rows = append(b.rows, row)
			}
		}
		return nil
	}
	var line []byte
	return inorder.Do(ctx, len(j.tallies), read, work, func(b *calledBatch) error {
		for i := range b.rows {
			line = b.rows[i].AppendTSV(line[:0])
			if _, err := j.rows.Write(line); err != nil {
				return err
			}
		}
		j.reads.Add(int64(len(b.rows)))
		return nil
	})
}

// errUnusable is a record that can't be counted, in a file that may be right.
var errUnusable = errors.New("it can't be counted")

// leaveOut counts a record that can't be used.
func (j *readEvaluator) leaveOut(err error) {
	j.faulty.Add(1)
	text := err.Error()
	j.fault.CompareAndSwap(nil, &text)
}

// count aligns a read, if its file doesn't say where it is from, and counts it.
func (j *readEvaluator) count(tally *eval.Tally, aligner *minimap.Aligner, c *calledRead) (eval.Row, error) {
	read := new(align.Read)
	switch {
	case c.fastq != nil:
		read.ID, read.Seq, read.Qualities = c.fastq.Name, bytes.ToUpper(c.fastq.Seq), c.fastq.Qualities
	case c.final && c.rec.Flags&sam.Unmapped == 0:
		contig := j.genome.Contig(c.rec.Ref.Name())
		read, a, err := hts.Parse(c.rec, contig.Seq)
		if errors.Is(err, hts.ErrNoMatch) {
			return tally.Add(sequenced(c.rec, contig.Seq), nil, nil)
		}
		if err != nil {
			return eval.Row{}, fmt.Errorf("read %s: %w: %w", c.rec.Name, errUnusable, err)
		}
		return tally.Add(read, a, contig.Seq)
	default:
		var ref []byte
		if contig := j.genome.Contig(c.rec.Ref.Name()); contig != nil {
			ref = contig.Seq
		}
		read = sequenced(c.rec, ref)
	}
	if c.final {
		return tally.Add(read, nil, nil)
	}
	found, err := aligner.Map(read.ID, read.Seq)
	if err != nil {
		return eval.Row{}, err
	}
	if len(found) == 0 {
		return tally.Add(read, nil, nil)
	}
	return tally.Add(read, &found[0], j.genome.Contig(found[0].Contig).Seq)
}

// sequenced is the read of a record, aligned to ref if to anything, in the direction of
// sequencing.
func sequenced(rec *sam.Record, ref []byte) *align.Read {
	read := &align.Read{ID: rec.Name, Seq: hts.Bases(rec, ref), Qualities: slices.Clone(hts.Qualities(rec))}
	if rec.Flags&sam.Reverse != 0 {
		genome.ReverseComplement(read.Seq)
		slices.Reverse(read.Qualities)
	}
	return read
}

// read passes on the reads of a file in batches.
func (j *readEvaluator) read(path string, emit func(*calledBatch) error) error {
	in, name, err := openInput(path, j.stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	next, final, err := j.open(in, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !final && j.index == nil {
		if j.index, err = minimap.NewIndex(j.genome, minimap.Config{Preset: j.cfg.preset}); err != nil {
			return err
		}
	}
	fresh := func() *calledBatch { return &calledBatch{file: name, index: j.index} }
	b, bases := fresh(), 0
	for {
		c, n, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, textfile.ErrCut) && !errors.Is(err, hts.ErrCut) {
				err = fmt.Errorf("%w: the file is cut short; get it again", err)
			}
			return fmt.Errorf("%s: %w", name, err)
		}
		b.reads = append(b.reads, c)
		if bases += n; bases >= alignBatch || len(b.reads) >= alignBatch/100 {
			if err := emit(b); err != nil {
				return err
			}
			b, bases = fresh(), 0
		}
	}
	if len(b.reads) == 0 {
		return nil
	}
	return emit(b)
}

// calledFormat is what a file of reads is by its first bytes.
type calledFormat uint8

const (
	unknownFormat calledFormat = iota
	fastqFormat
	samFormat
	bamFormat
)

// formatOf inspects the beginning of a file. SAM and FASTQ both begin with @; in SAM two
// capitals and a tab follow.
func formatOf(head []byte) calledFormat {
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return unknownFormat
		}
		inner := make([]byte, 4)
		n, _ := io.ReadFull(z, inner) // head is cut short
		if string(inner[:n]) == "BAM\x01" {
			return bamFormat
		}
		return fastqFormat // the reader of FASTQ reports the faults of others
	}
	capital := func(b byte) bool { return b >= 'A' && b <= 'Z' }
	switch {
	case len(head) >= 4 && head[0] == '@' && capital(head[1]) && capital(head[2]) && head[3] == '\t':
		return samFormat
	case len(head) > 0 && (head[0] == '@' || head[0] == '>'):
		return fastqFormat
	}
	return unknownFormat
}

// open starts reading. next returns a read and its number of bases; final says that the
// file, which is called name, says whether and where reads align.
func (j *readEvaluator) open(in io.Reader, name string) (next func() (calledRead, int, error), final bool, err error) {
	buffered := bufio.NewReaderSize(in, 256<<10)
	head, err := buffered.Peek(1 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading: %w", err)
	}
	if len(head) == 0 {
		return nil, false, errors.New("the file is empty")
	}
	var records *hts.Reader
	switch formatOf(head) {
	case fastqFormat:
		r, err := fastq.NewReader(buffered)
		if err != nil {
			return nil, false, err
		}
		return func() (calledRead, int, error) {
			read, err := r.Next()
			if err != nil {
				return calledRead{}, 0, err
			}
			return calledRead{fastq: read}, len(read.Seq), nil
		}, false, nil
	case samFormat:
		records, err = hts.NewSAMReader(buffered)
	case bamFormat:
		records, err = hts.NewBAMReader(buffered, 1)
	default:
		return nil, false, errors.New("neither FASTQ, SAM (with a header) nor BAM")
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the header: %w", err)
	}
	refs := records.Header().Refs()
	final = len(refs) > 0 && !j.cfg.realign
	if final {
		if err := j.matchReferences(refs); err != nil {
			return nil, false, err
		}
	}
	return j.recordsOf(records, name, final), final, nil
}

// recordsOf reads the records of a file that reads are called from, and leaves the others out.
func (j *readEvaluator) recordsOf(records *hts.Reader, name string, final bool) func() (calledRead, int, error) {
	number := 0
	return func() (calledRead, int, error) {
		for {
			number++
			rec, err := records.Read()
			switch {
			case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
				return calledRead{}, 0, io.EOF
			case err != nil:
				return calledRead{}, 0, fmt.Errorf("reading record %d: %w", number, err)
			case rec.Flags&(sam.Secondary|sam.Supplementary) != 0:
				j.leftOut++
			case rec.Seq.Length == 0 && rec.Flags&sam.Unmapped == 0:
				j.leaveOut(fmt.Errorf("%s: record %d, read %s: it is aligned but has no sequence", name, number, rec.Name))
			case final && rec.Flags&sam.Unmapped == 0 && rec.Ref == nil:
				j.leaveOut(fmt.Errorf("%s: record %d, read %s: it is aligned to nothing", name, number, rec.Name))
			default:
				return calledRead{rec: rec, final: final}, rec.Seq.Length, nil
			}
		}
	}
}

// matchReferences reports whether alignments are to this genome.
func (j *readEvaluator) matchReferences(refs []*sam.Reference) error {
	for _, ref := range refs {
		c := j.genome.Contig(ref.Name())
		switch {
		case c == nil:
			return fmt.Errorf("it is aligned to a reference with %s, which %s has not: give that reference, or --realign", ref.Name(), j.cfg.reference)
		case len(c.Seq) != ref.Len():
			return fmt.Errorf("it is aligned to a reference whose %s has %d bases, %s has %d: give that reference, or --realign", ref.Name(), ref.Len(), j.cfg.reference, len(c.Seq))
		}
	}
	return nil
}
