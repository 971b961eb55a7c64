package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/biogo/hts/sam"
	"github.com/spf13/cobra"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/fastq"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/inorder"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/wholefile"
)

type alignConfig struct {
	reference, preset, index, format, output string
	sample, group                            string
	memory                                   cli.Bytes
	threads                                  int
	titleTags                                bool
	log                                      cli.LogFlags
}

// indexUsage is the help text of the commands' flag --index.
const indexUsage = "minimap2 index of the reference with the preset's seeds, made by pore index; made anew if not given"

func alignCommand() *cobra.Command {
	cfg := alignConfig{memory: hts.DefaultMemory}
	cmd := &cobra.Command{
		Use:   "align --ref FASTA READS.fastq...",
		Short: "Align reads to a reference, sorted by position",
		Long: `Aligns the reads of FASTQ files, plain or gzipped, with minimap2 and writes them as
BAM or SAM, sorted by position, to standard output. - is standard input. Supplementary
alignments are written too, secondary ones are not. Records have the tags NM, MD, AS,
de and SA, and one read group; with -y those of the reads' titles, too. MM, ML and MN are
dropped, and counted, where they are not of the read as it is: something was cut off since.

Records are held until all reads are aligned; those that --memory has no space for wait
in temporary files (in TMPDIR). The output is the same whatever the threads and memory.`,
		Example: `  pore align --ref ref.fa reads.fastq.gz > reads.sorted.bam`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Reads may be aligned in their place.
			if err := cli.SpareInputs(cmd.Flags(), nil, "output"); err != nil {
				return err
			}
			return alignFiles(cmd.Context(), cfg, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.reference, "ref", "", "reference genome, FASTA, may be gzipped (required)")
	flags.StringVar(&cfg.preset, "preset", minimap.DefaultPreset, "minimap2 preset: map-ont, or lr:hq for reads of 94 % identity and more")
	flags.StringVar(&cfg.index, "index", "", indexUsage)
	flags.StringVar(&cfg.format, "format", "bam", "bam or sam")
	flags.StringVarP(&cfg.output, "output", "o", "-", "output file")
	flags.StringVar(&cfg.sample, "sample", "sample", "sample of the read group")
	flags.StringVar(&cfg.group, "read-group", "", "name of the read group (default the sample's)")
	flags.BoolVarP(&cfg.titleTags, "title-tags", "y", false, "copy the tags in reads' titles, such as MM and ML, to their records; RG is that of --read-group")
	flags.Var(&cfg.memory, "memory", "records held in memory")
	flags.IntVar(&cfg.threads, "threads", 0, "workers (default as many as there are processors)")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

func alignFiles(ctx context.Context, cfg alignConfig, paths []string, stdin io.Reader, stdout io.Writer) (err error) {
	if cfg.reference == "" {
		return cli.Usagef("--ref is required: the reference genome to align to")
	}
	format, err := hts.ParseFormat(cfg.format)
	if err != nil {
		return cli.Usagef("--format %w", err)
	}
	if cfg.threads < 0 {
		return cli.Usagef("--threads %d: want a number of workers", cfg.threads)
	}
	if cfg.threads == 0 {
		cfg.threads = runtime.GOMAXPROCS(0)
	}
	if cfg.group == "" {
		cfg.group = cfg.sample
	}
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	g, err := genome.Load(cfg.reference)
	if err != nil {
		return err
	}
	index, err := minimap.OpenIndex(g, cfg.index, minimap.Config{Preset: cfg.preset})
	if err != nil {
		return err
	}
	defer index.Close()
	header, err := alignHeader(g, cfg)
	if err != nil {
		return err
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
	sorter := hts.NewSorter(out, header, hts.SorterConfig{Format: format, Memory: int64(cfg.memory), Threads: cfg.threads})
	defer func() { err = errors.Join(err, sorter.Close()) }()
	a := &fileAligner{index: index, records: hts.NewRecords(g, header), threads: cfg.threads, stdin: stdin, sorter: sorter, titleTags: cfg.titleTags}
	stop := cli.ShowProgress(os.Stderr, "reads", func() (int64, int64) { return a.reads.Load(), 0 })
	defer stop()
	if err := a.run(ctx, paths); err != nil {
		return err
	}
	if n := a.tagged.Load(); cfg.titleTags && n == 0 && a.reads.Load() > 0 {
		logger.Warn("-y: no title of a read has a tag")
	}
	warnUntrue(logger, &a.untrue)
	logger.Info("reads are aligned", "reads", a.reads.Load(), "unmapped", a.unmapped)
	return sorter.Finish()
}

// alignHeader returns the header of the output.
func alignHeader(g *genome.Genome, cfg alignConfig) (*sam.Header, error) {
	group, err := sam.NewReadGroup(cfg.group, "", "", "", "", "ONT", "", cfg.sample, "", "", time.Time{}, 0)
	if err != nil {
		return nil, cli.Usagef("--read-group %s: %w", cfg.group, err)
	}
	return hts.Header(g, group,
		sam.NewProgram("minimap2", "minimap2", "-x "+cfg.preset, "", minimap.Version()),
		sam.NewProgram("pore", "pore", "pore align --preset "+cfg.preset, "minimap2", cli.Version))
}

// fileAligner aligns the reads of files side by side and passes on their records in the
// order of the files.
type fileAligner struct {
	index   *minimap.Index
	records *hts.Records
	threads int
	stdin   io.Reader
	// reader reads the reads of a file; nil: FASTQ.
	reader func(io.Reader) (func() (*fastq.Read, error), error)
	sorter *hts.Sorter
	reads  atomic.Int64
	// titleTags has tags in titles copied, and tagged counts the reads that have some.
	titleTags bool
	tagged    atomic.Int64
	unmapped  int
	untrue    record.Faults // reads whose tags of modified bases were dropped
}

// dna is a sequence as BAM has it: in capitals, and with T for U.
func dna(seq []byte) []byte {
	return bytes.ReplaceAll(bytes.ToUpper(seq), []byte("U"), []byte("T"))
}

// alignBatch is about how many bases are aligned as one piece of work.
const alignBatch = 200_000

// batch is reads of one file and what became of them.
type batch struct {
	reads   []*fastq.Read
	records []*sam.Record
	untrue  []untrue
}

// untrue is a read whose tags of modified bases were dropped, and why.
type untrue struct {
	read   string
	reason error
}

func (a *fileAligner) run(ctx context.Context, paths []string) error {
	read := func(_ context.Context, emit func(*batch) error) error {
		for _, path := range paths {
			if err := a.read(path, emit); err != nil {
				return err
			}
		}
		return nil
	}
	work := func(_ int, batches iter.Seq[*batch]) error {
		aligner := a.index.NewAligner()
		defer aligner.Close()
		for b := range batches {
			if err := a.align(aligner, b); err != nil {
				return err
			}
		}
		return nil
	}
	return inorder.Do(ctx, a.threads, read, work, func(b *batch) error {
		for _, u := range b.untrue {
			a.untrue.Add(u.read, u.reason)
		}
		for _, rec := range b.records {
			if rec.Flags&sam.Unmapped != 0 {
				a.unmapped++
			}
			if err := a.sorter.Write(rec); err != nil {
				return err
			}
		}
		a.reads.Add(int64(len(b.reads)))
		return nil
	})
}

// read passes on the reads of a file in batches.
func (a *fileAligner) read(path string, emit func(*batch) error) error {
	in, name, err := openInput(path, a.stdin)
	if err != nil {
		return err
	}
	defer in.Close()
	reader := a.reader
	if reader == nil {
		reader = fastqReader
	}
	next, err := reader(in)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b, bases := new(batch), 0
	for {
		read, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		b.reads = append(b.reads, read)
		if bases += len(read.Seq); bases >= alignBatch {
			if err := emit(b); err != nil {
				return err
			}
			b, bases = new(batch), 0
		}
	}
	if len(b.reads) == 0 {
		return nil
	}
	return emit(b)
}

func fastqReader(in io.Reader) (func() (*fastq.Read, error), error) {
	r, err := fastq.NewReader(in)
	if err != nil {
		return nil, err
	}
	return r.Next, nil
}

// align makes the records of a batch.
func (a *fileAligner) align(aligner *minimap.Aligner, b *batch) error {
	for _, read := range b.reads {
		alignments, err := aligner.Map(read.Name, read.Seq)
		if err != nil {
			return err
		}
		of := hts.Read{Name: read.Name, Seq: read.Seq, Qualities: read.Qualities, Alignments: alignments}
		if a.titleTags {
			if of.Tags = hts.TitleTags(read.Description); len(of.Tags) > 0 {
				a.tagged.Add(1)
			}
			// Modified bases are counted from the read's first base, so tags of a read that was cut
			// since would refer to other bases. All records have the whole read, whichever the
			// strand.
			if of.Tags, err = record.Kept(of.Tags, modbase.Sequence{Bases: dna(read.Seq)}); err != nil {
				b.untrue = append(b.untrue, untrue{read.Name, err})
			}
		}
		records, err := a.records.Of(&of)
		if err != nil {
			return err
		}
		b.records = append(b.records, records...)
	}
	return nil
}
