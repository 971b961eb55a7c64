package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/modbase"
	modnetwork "github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/wholefile"
)

type basecallConfig struct {
	engines  processor.Flags
	filter   cli.FilterFlags
	log      cli.LogFlags
	format   string
	batch    int
	scores   string
	resume   string
	minimum  float64
	failed   string
	models   string
	ends     processor.Barcoding
	split    bool
	noMoves  bool
	modified []string
}

func basecallCommand() *cobra.Command {
	var cfg basecallConfig
	cmd := &cobra.Command{
		Use:   "basecall [--ref FASTA] [--format fastq|sam|bam] SIGNAL...",
		Short: "Basecall POD5, BLOW5 and FAST5 files to standard output",
		Long: `Basecalls files, or folders of them, with the engine that the stream uses. Reads
come in the order in which the sequencer began them. With --ref they are aligned
too; FASTQ has no place for that.

With --kit-name each read is given its barcode, and adapters, primers and barcodes are
cut off; --split-reads makes two reads of those that are two molecules: docs/files/demux.md.

With --modified-bases networks of Remora, Dorado or DeepMod2 say which bases are modified, in the tags MM, ML
and MN: docs/files/modified-bases.md.

Output that was broken off goes on with --resume-from, to the bytes that it would have
had at once: pore basecall --resume-from broken.bam ... > whole.bam
Output of another version of the model is refused. The version of pore, --device, --precision and what is
cut off reads have to be the same, too, which a file doesn't say.`,
		Example: `  pore basecall reads.pod5 > reads.fastq
  pore basecall --ref ref.fa --format bam --device cuda:0 run1/ > run1.bam
  pore basecall --modified-bases dna_r9.4.1_e8_hac_5mc_CG_v0.onnx --ref ref.fa --format bam run1/ > run1.bam
  pore basecall --kit-name SQK-RBK114-24 --format bam reads.pod5 > reads.bam`,
		Args: cli.Args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.SpareInputs(cmd.Flags(), args, "failed", "record-scores"); err != nil {
				return err
			}
			return basecallFiles(cmd.Context(), cfg, args, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.engines.Reference, "ref", "", "reference genome to align to, FASTA, may be gzipped")
	cfg.engines.RegisterBasecall(flags)
	cfg.filter.Register(flags)
	flags.StringVar(&cfg.format, "format", "fastq", "fastq, sam or bam")
	flags.IntVar(&cfg.batch, "batch", 0, "windows computed together; 0 chooses by device, and in int8 it is 1")
	flags.Float64Var(&cfg.minimum, "min-qscore", 0, "reads of a lower mean quality go to --failed, or are left out and counted")
	flags.StringVar(&cfg.failed, "failed", "", "file for the reads below --min-qscore, in the same format")
	flags.StringVar(&cfg.resume, "resume-from", "", "output of the same command that was broken off: its reads are taken over, not called again")
	cfg.ends.Register(flags)
	flags.BoolVar(&cfg.split, "split-reads", false, "split reads where the pore was open and at adapters amid them")
	cfg.ends.RegisterStart(flags)
	flags.BoolVar(&cfg.noMoves, "no-moves", false, "leave out the tag mv, which says where in the signal each base is and takes a quarter to a third of a BAM file")
	flags.StringSliceVar(&cfg.modified, "modified-bases", nil, processor.ModifiedBasesHelp)
	flags.StringVar(&cfg.models, "models-dir", "", modelsDirHelp)
	flags.StringVar(&cfg.scores, "record-scores", "", "file to record the network's scores in, for a simulated device in load tests")
	cfg.log.Register(flags, slog.LevelWarn)
	return cmd
}

// modelsDirHelp is what --models-dir is for.
const modelsDirHelp = "folder of models, of Dorado or converted; the run gets the one for its flow cell, kit and rate, of the size in --model (fast, hac, sup; default hac)"

func basecallFiles(ctx context.Context, cfg basecallConfig, paths []string, stdout io.Writer) (err error) {
	format, err := cfg.outputFormat()
	if err != nil {
		return err
	}
	ends, err := cfg.ends.Options()
	if err != nil {
		return err
	}
	ends.Split = cfg.split
	logger, err := cfg.log.Logger(os.Stderr)
	if err != nil {
		return err
	}
	// Some 25 MB are in use, beside what the network takes outside of the heap: collecting twice as often costs no time that
	// can be measured, and takes 20 MB off the peak where the longest reads come together.
	setGCPercent(50)
	recording, err := cfg.openRecording(ctx, paths, logger)
	if err != nil {
		return err
	}
	defer recording.Close()
	model, modified, err := cfg.openModels(recording, logger)
	if err != nil {
		return err
	}
	b := &basecaller{recording: recording, minimum: cfg.minimum, barcodes: make(map[string]int64), without: make(map[string]int64)}
	if b.finisher, err = cfg.finisher(ends, model, recording, logger); err != nil {
		return err
	}
	if b.caller, err = basecall.NewCaller(model, basecall.Config{
		Device: cfg.engines.Device, DeviceTimeout: cfg.engines.DeviceTimeout, RecordScores: cfg.scores, Compute: cfg.engines.Compute,
		Library: cfg.engines.Library, Batch: cfg.batch, Logger: logger,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.caller.Close()) }()
	if len(modified) > 0 {
		if b.modifier, err = modnetwork.New(modified, modnetwork.Config{
			Device: processor.OwnDevice(cfg.engines.Device), DeviceTimeout: cfg.engines.DeviceTimeout, Library: cfg.engines.Library, Logger: logger,
		}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.modifier.Close()) }()
	}
	header := cfg.header(model, modified, b)
	if cfg.engines.Reference != "" {
		index, err := b.loadAligners(&cfg.engines, &header)
		if err != nil {
			return err
		}
		defer index.Close()
		defer b.aligners.Close()
	}
	return b.writeFiles(ctx, &cfg, format, header, stdout, logger)
}

// outputFormat is the format to write; an error if other flags don't go with it or with each other.
func (cfg *basecallConfig) outputFormat() (output.Format, error) {
	format, err := output.ParseFormat(cfg.format)
	switch {
	case err != nil:
		return format, cli.Usagef("--format: %w", err)
	case cfg.engines.Reference != "" && format == output.FASTQ:
		return format, cli.Usagef("--ref aligns the reads, which FASTQ has no place for: choose --format sam or bam")
	case cfg.engines.Reference == "" && cfg.engines.Index != "":
		return format, cli.Usagef("--index is the index of --ref, which isn't given")
	case cfg.failed != "" && cfg.minimum <= 0:
		return format, cli.Usagef("--failed is for the reads below --min-qscore, which isn't given")
	}
	return format, nil
}

// openRecording opens the reads that the filter lets through.
func (cfg *basecallConfig) openRecording(ctx context.Context, paths []string, logger *slog.Logger) (*signal.Index, error) {
	filter, err := cfg.filter.Filter()
	if err != nil {
		return nil, err
	}
	recording, err := cfg.filter.Index(ctx, paths, logger)
	if err != nil {
		return nil, err
	}
	selection, err := recording.Select(filter)
	if err != nil {
		return nil, errors.Join(err, recording.Close())
	}
	cli.LogSelection(logger, filter, selection, recording.Len())
	return recording, nil
}

// openModels opens the basecalling model, chosen by the recording's runs if there is a folder of
// models, and the models of modified bases, and refuses those that weren't made for such signal.
func (cfg *basecallConfig) openModels(recording *signal.Index, logger *slog.Logger) (*basecall.Model, []*modnetwork.Model, error) {
	name := cfg.engines.Model
	if cfg.models != "" {
		all, err := models.List(cfg.models)
		if err != nil {
			return nil, nil, err
		}
		chosen, err := models.Choose(all, recording.Runs(), name)
		if err != nil {
			return nil, nil, err
		}
		for _, l := range models.PassedOver(all, chosen, name) {
			logger.Warn(models.PassedOverMessage, slog.String("model", filepath.Base(l.Path)), slog.Any("err", l.Err), slog.String("chosen", chosen.Manifest.Name))
		}
		logger.Info("model is chosen", slog.String("model", chosen.Manifest.Name), slog.String("path", chosen.Path))
		name = chosen.Path
	}
	model, err := models.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if err := processor.CheckModel(recording, model, name != "", processor.ChosenForEach); err != nil {
		return nil, nil, err
	}
	modified, err := processor.OpenModified(cfg.modified)
	if err != nil {
		return nil, nil, err
	}
	if err := processor.FitModified(modified, &model.Manifest); err != nil {
		return nil, nil, err
	}
	return model, modified, processor.CheckModified(modified, recording.Runs())
}

// finisher is what happens to the reads of the model after they are called.
func (cfg *basecallConfig) finisher(ends finish.Options, model *basecall.Model, recording *signal.Index, logger *slog.Logger) (*finish.Finisher, error) {
	ends.RNA, ends.Standard = model.Manifest.RNA(), model.Manifest.Normalisation.Standard()
	if ends.RNA && ends.Start {
		return nil, cli.Usagef("--trim-start is for DNA, and model %s for RNA: --trim adapters cuts off what is before its poly(A) tail", model.Manifest.Name)
	}
	finisher, err := finish.New(ends, model.Manifest.Qualities)
	if err != nil {
		return nil, cfg.ends.Blame(err)
	}
	return finisher, cfg.ends.CheckSheet(finisher, recording.Runs(), logger)
}

// header says of the output what its reads were called from, and by what. Of a reference it says nothing yet.
func (cfg *basecallConfig) header(model *basecall.Model, modified []*modnetwork.Model, b *basecaller) output.Header {
	header := output.Header{
		Model: model, Runs: b.recording.Runs(), Device: b.caller.Device(), NoMoves: cfg.noMoves,
		Program: output.Program{Name: "pore", Version: cli.Version, CommandLine: "pore basecall"},
	}
	for _, m := range modified {
		header.ModifiedModels = append(header.ModifiedModels, m.Name)
	}
	if b.finisher.Classifies() {
		header.Barcodes = b.finisher.Barcodes
	}
	return header
}

// loadAligners loads the reference that reads are aligned to, and has the header name its contigs.
// The caller closes the index, after the aligners.
func (b *basecaller) loadAligners(engines *processor.Flags, header *output.Header) (*minimap.Index, error) {
	g, err := genome.Load(engines.Reference)
	if err != nil {
		return nil, err
	}
	index, err := minimap.OpenIndex(g, engines.Index, minimap.Config{Preset: engines.Preset})
	if err != nil {
		return nil, err
	}
	if b.aligners, err = index.NewPool(runtime.GOMAXPROCS(0)); err != nil {
		return nil, errors.Join(err, index.Close())
	}
	header.Aligner = &output.Program{Name: "minimap2", Version: minimap.Version()}
	for _, c := range g.Contigs {
		header.References = append(header.References, output.Reference{Name: c.Name, Length: len(c.Seq)})
	}
	return index, nil
}

// writeFiles calls the reads and writes them, those of too low a quality to a file of their own.
func (b *basecaller) writeFiles(ctx context.Context, cfg *basecallConfig, format output.Format, header output.Header, stdout io.Writer, logger *slog.Logger) (err error) {
	out := bufio.NewWriterSize(stdout, 1<<20)
	if b.writer, err = output.NewWriter(out, format, header); err != nil {
		return err
	}
	if cfg.resume != "" {
		if err := b.takeOver(cfg.resume, stdout, logger); err != nil {
			return err
		}
	}
	if cfg.failed != "" {
		file, createErr := wholefile.Create(cfg.failed)
		if createErr != nil {
			return createErr
		}
		defer func() { err = file.Finish(err) }()
		if b.failed, err = output.NewWriter(file, format, header); err != nil {
			return err
		}
	}
	stop := cli.ShowProgress(os.Stderr, "reads", func() (int64, int64) { return b.written.Load(), int64(b.recording.Len()) })
	defer stop()
	if err := b.run(ctx); err != nil {
		return err
	}
	if b.failed != nil {
		if err := b.failed.Close(); err != nil {
			return fmt.Errorf("%s: %w", cfg.failed, err)
		}
	}
	if b.below > 0 {
		logger.Warn("reads are below the least mean quality", "reads", b.below, "of", b.records, "min_qscore", cfg.minimum, "file", cfg.failed)
	}
	b.report(logger)
	if err := b.writer.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// basecaller calls the reads of a recording side by side and writes them in
// order.
type basecaller struct {
	recording *signal.Index
	caller    *basecall.Caller
	modifier  *modnetwork.Caller // nil: nothing is said of modified bases
	finisher  *finish.Finisher
	aligners  *minimap.Pool // nil: the reads are not aligned
	writer    output.Writer
	failed    output.Writer    // for reads below minimum; nil if they are left out
	minimum   float64          // least mean quality
	taken     map[string]bool  // reads that the output has already
	records   int              // reads, or parts of them, that were called
	below     int              // those of them below minimum
	unaligned int              // those that map nowhere, where reads are aligned
	split     int              // reads that were split
	barcodes  map[string]int64 // reads by barcode
	without   map[string]int64 // reads without a barcode by why
	written   atomic.Int64
	unscored  atomic.Int64 // reads whose modified bases got scores that are no numbers
}

// takeOver begins the output with the complete records of an earlier one.
func (b *basecaller) takeOver(path string, stdout io.Writer, logger *slog.Logger) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer old.Close()
	if out, ok := stdout.(*os.File); ok {
		now, err := out.Stat()
		before, err2 := old.Stat()
		if err == nil && err2 == nil && os.SameFile(now, before) {
			return cli.Usagef("--resume-from %s: the output goes to the same file, which the shell has emptied already if it was redirected by >", path)
		}
	}
	taken, err := output.Resume(b.writer, old)
	if err != nil {
		return fmt.Errorf("--resume-from %s: %w", path, err)
	}
	b.taken = taken.Reads
	logger.Info("reads are taken over", "file", path, "reads", len(taken.Reads), "broken_by", taken.Broken)
	return nil
}

func (b *basecaller) run(ctx context.Context) error {
	// As many reads are in the works as the queue between start and finish
	// holds: enough to fill the network's batches.
	samples := 0
	for i := range b.recording.Len() {
		samples += b.recording.Entry(i).NumSamples
	}
	pending := make(chan chan []output.Record, b.caller.SideBySide(samples/max(1, b.recording.Len())))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pending)
		for i := range b.recording.Len() {
			if b.taken[b.recording.Entry(i).ID] {
				b.written.Add(1)
				continue
			}
			done := make(chan []output.Record, 1)
			select {
			case pending <- done:
			case <-ctx.Done():
				return ctx.Err()
			}
			group.Go(func() error {
				records, err := b.call(ctx, i)
				if err != nil {
					return err
				}
				done <- records
				return nil
			})
		}
		return nil
	})
	group.Go(func() error {
		for done := range pending {
			select {
			case records := <-done:
				if len(records) > 1 {
					b.split++
				}
				for _, rec := range records {
					if err := b.write(rec); err != nil {
						return err
					}
				}
				b.written.Add(1)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return group.Wait()
}

// write writes a read where its quality has it belong.
func (b *basecaller) write(rec output.Record) error {
	b.records++
	if rec.Barcode != nil {
		b.barcodes[rec.Barcode.Name]++
		if rec.Barcode.Reason != "" {
			b.without[rec.Barcode.Reason]++
		}
	}
	if b.aligners != nil && len(rec.Alignments) == 0 {
		b.unaligned++
	}
	if rec.Called.MeanQuality >= b.minimum {
		return b.writer.Write(rec)
	}
	b.below++
	if b.failed == nil {
		return nil
	}
	return b.failed.Write(rec)
}

// report logs what happened to reads besides being written.
func (b *basecaller) report(logger *slog.Logger) {
	for _, name := range slices.Sorted(maps.Keys(b.barcodes)) {
		logger.Info("reads by barcode", "barcode", name, "reads", b.barcodes[name])
	}
	for _, reason := range slices.Sorted(maps.Keys(b.without)) {
		logger.Info("reads without a barcode", "reason", reason, "reads", b.without[reason])
	}
	if n := b.barcodes[output.Unclassified]; 2*n > int64(b.records) {
		logger.Warn("most reads have no barcode: is it the kit that the library was made with?", "unclassified", n, "of", b.records)
	}
	if silent := b.finisher.Silent(b.recording.Runs(), b.barcodes); len(silent) > 0 && len(b.taken) == 0 {
		logger.Warn("samples of the sample sheet have no reads", "samples", strings.Join(silent, ", "))
	}
	if 2*b.unaligned > b.records {
		logger.Warn("most reads map nowhere on the reference", "unmapped", b.unaligned, "of", b.records)
	}
	if n := b.unscored.Load(); n > 0 {
		logger.Warn("a model of --modified-bases gave reads scores that are no numbers: their tags name no base", "reads", n)
	}
	if b.split > 0 {
		logger.Info("reads were split", "reads", b.split)
	}
}

// call returns a read, or the parts that it falls into.
func (b *basecaller) call(ctx context.Context, i int) ([]output.Record, error) {
	entry := b.recording.Entry(i)
	samples, err := b.recording.Samples(i, nil)
	if err != nil {
		return nil, err
	}
	read := basecall.Read{ID: entry.ID, Samples: samples, SampleRate: entry.Run.SampleRate, Calibration: entry.Calibration}
	called, err := b.caller.CallAtLeisure(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.recording.Path(i), err)
	}
	var tags *modbase.Tags
	if b.modifier != nil {
		tags, err = b.modifier.Call(ctx, samples, &called)
		if errors.Is(err, modnetwork.ErrScores) { // which says nothing of other reads
			tags, err = b.modifier.Unscored(len(called.Sequence)), nil
			b.unscored.Add(1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: read %s: %w", b.recording.Path(i), entry.ID, err)
		}
	}
	var records []output.Record
	for _, part := range b.finisher.Finish(read, called) {
		rec := output.Record{
			Called: part.Called, File: filepath.Base(b.recording.Path(i)),
			Barcode: b.finisher.Barcode(entry.Run, part.Barcode), Parent: part.Parent, ParentStart: part.Start,
		}
		if tags != nil {
			if rec.Modified, err = tags.Slice(modbase.Sequence{Bases: called.Sequence}, part.First+part.From, part.First+part.To); err != nil {
				return nil, fmt.Errorf("%s: read %s: %w", b.recording.Path(i), entry.ID, err)
			}
		}
		own := entry
		own.ID = part.ID
		own.StartSample += uint64(part.Start)
		rec.Read = &own
		if rec.Alignments, err = b.align(part); err != nil {
			return nil, err
		}
		records = append(records, rec)
	}
	return records, nil
}

// align places a read; nothing without a reference.
func (b *basecaller) align(read finish.Read) ([]align.Alignment, error) {
	if b.aligners == nil {
		return nil, nil
	}
	return b.aligners.Map(read.ID, read.Called.Sequence)
}
