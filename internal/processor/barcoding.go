package processor

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Barcoding chooses what is found at the ends of reads and cut off.
type Barcoding struct {
	kit, barcodes, sheet string
	inner, innerBarcodes string
	bothEnds             bool
	Trim                 string
	NoTrim               bool
	// Start has reads begin where their current shows that the strand does: reads that are called here.
	Start bool
	// ByTag says that reads may have barcodes already, so that a sample sheet needs no kit.
	ByTag bool
}

// Register adds the flags.
func (f *Barcoding) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.kit, "kit-name", "", "barcoding kit to search for, for example SQK-RBK114-24")
	flags.StringVar(&f.barcodes, "barcodes", "", "barcodes of your own instead of a kit's: an arrangement in TOML (docs/files/demux.md)")
	flags.StringVar(&f.inner, "inner-kit-name", "", "of libraries with two barcodes one behind the other: the kit of the inner one, next to the insert, for example EXP-PBC096")
	flags.StringVar(&f.innerBarcodes, "inner-barcodes", "", "inner barcodes of your own instead of a kit's, as --barcodes")
	flags.BoolVar(&f.bothEnds, "barcode-both-ends", false, "a barcode counts only if it is at both ends of a read")
	flags.StringVar(&f.sheet, "sample-sheet", "", "MinKNOW's sample sheet, CSV: which barcodes there are and what their samples are called")
	flags.StringVar(&f.Trim, "trim", "", "what is cut off reads: none, adapters (and primers) or all (barcodes too); all with barcodes, none without")
	flags.BoolVar(&f.NoTrim, "no-trim", false, "leave reads whole: --trim none")
}

// RegisterStart adds the flag for reads that are called here, whose current is at hand.
func (f *Barcoding) RegisterStart(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Start, "trim-start", false, "begin DNA reads behind their first high current, an open pore's or the adapter's, as Dorado does (of models that take picoamperes: behind 10 samples)")
}

// Options reads the files that the flags name.
func (f *Barcoding) Options() (opts finish.Options, err error) {
	kit, err := openKit("kit-name", f.kit, "barcodes", f.barcodes)
	if err != nil {
		return opts, err
	}
	inner, err := openKit("inner-kit-name", f.inner, "inner-barcodes", f.innerBarcodes)
	switch {
	case err != nil:
		return opts, err
	case inner != nil && kit == nil:
		return opts, cli.Usagef("--inner-kit-name and --inner-barcodes are about a second barcode: name the kit of the outer one with --kit-name")
	case inner != nil:
		kit.Inner = inner
	}
	opts.Kit, opts.BothEnds = kit, f.bothEnds
	if kit == nil && (f.bothEnds || f.sheet != "" && !f.ByTag) {
		return opts, cli.Usagef("--barcode-both-ends and --sample-sheet are about barcodes: name a kit with --kit-name or describe one with --barcodes")
	}
	if kit != nil {
		opts.Trim = finish.TrimAll
	}
	switch {
	case f.NoTrim && f.Trim != "" && f.Trim != "none":
		return opts, cli.Usagef("--no-trim and --trim %s exclude each other", f.Trim)
	case f.NoTrim:
		opts.Trim = finish.TrimNone
	case f.Trim != "":
		if opts.Trim, err = finish.ParseTrim(f.Trim); err != nil {
			return opts, cli.Usagef("--trim: %w", err)
		}
	}
	opts.Start = f.Start
	if f.Start && f.NoTrim {
		return opts, cli.Usagef("--trim-start and --no-trim exclude each other")
	}
	if f.sheet != "" {
		if opts.Sheet, err = ReadSheet(f.sheet); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

// TakeSheet returns the sample sheet if it is not about barcodes that are searched for
// here: the basecaller of the reads has found them.
func (f *Barcoding) TakeSheet() (path string) {
	if f.kit == "" && f.barcodes == "" {
		path, f.sheet = f.sheet, ""
	}
	return path
}

// ReadSheet reads a sample sheet.
func ReadSheet(path string) (*demux.Sheet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sheet, err := demux.ParseSheet(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return sheet, nil
}

// finisher is what reads are finished with that the model has called; nil if they are left
// as they are called. Without a model, others have called them.
func (f *Barcoding) finisher(model *basecall.Model) (*finish.Finisher, error) {
	opts, err := f.Options()
	if err != nil {
		return nil, err
	}
	opts.Start = opts.Start && model != nil
	if opts.Kit == nil && opts.Trim == finish.TrimNone && !opts.Start {
		return nil, nil //nolint:nilnil // nothing is asked for
	}
	var quality basecall.QualityManifest
	if model != nil {
		quality = model.Manifest.Qualities
		opts.Standard = model.Manifest.Normalisation.Standard()
	}
	if model != nil && model.Manifest.RNA() {
		return nil, cli.Usagef("--trim, --trim-start and barcodes are for DNA, but model %s is for RNA: pore basecall trims RNA", model.Manifest.Name)
	}
	finisher, err := finish.New(opts, quality)
	if err != nil {
		return nil, f.Blame(err)
	}
	if n := finisher.Count(); n > stream.MaxSamples {
		return nil, cli.Usagef("there are %d pairs of barcodes, and a run has %d samples at most: name those that there are with --sample-sheet", n, stream.MaxSamples)
	}
	return finisher, nil
}

// CheckSheet compares the sample sheet, if one was named, with the runs of a recording, and
// warns of what reads of them will lack. A sheet of other runs alone is an error.
func (f *Barcoding) CheckSheet(finisher *finish.Finisher, runs []*signal.Run, logger *slog.Logger) error {
	if finisher == nil || finisher.Sheet() == nil {
		return nil
	}
	return CheckSheet(finisher.Sheet(), f.sheet, runs, logger)
}

// CheckSheet compares the sample sheet of a file with runs, see [Barcoding.CheckSheet].
func CheckSheet(sheet *demux.Sheet, path string, runs []*signal.Run, logger *slog.Logger) error {
	warnings, err := sheet.Check(finish.SheetKeys(runs))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, warning := range warnings {
		logger.Warn("sample sheet: "+warning, "file", path)
	}
	return nil
}

// CheckSheet compares the sample sheet with the runs of a recording, see [Barcoding.CheckSheet].
func (e *Engines) CheckSheet(runs []*signal.Run, logger *slog.Logger) error {
	return e.barcoding.CheckSheet(e.finisher, runs, logger)
}

// Sheet is the sample sheet of the barcodes that are searched for; nil: none.
func (e *Engines) Sheet() *demux.Sheet {
	if e.finisher == nil {
		return nil
	}
	return e.finisher.Sheet()
}

// SheetPath is the file of the sample sheet; empty: there is none.
func (e *Engines) SheetPath() string { return e.barcoding.sheet }

// Demultiplexed is a run with the samples that its reads may be of.
func (e *Engines) Demultiplexed(run *streampb.Run) *streampb.Run {
	if e.finisher == nil || alignstage.TakenApart(run) {
		return run
	}
	return alignstage.Demultiplexed(run, e.finisher)
}

// maxArrangement bounds a file with barcodes, in bytes.
const maxArrangement = 16 << 20

// openKit opens the kit that one of two flags names; nil if none does.
func openKit(byName, name, byFile, path string) (*demux.Kit, error) {
	switch {
	case name != "" && path != "":
		return nil, cli.Usagef("--%s and --%s exclude each other", byName, byFile)
	case name != "":
		kit, err := demux.OpenKit(name)
		if err != nil {
			return nil, cli.Usagef("--%s: %w", byName, err)
		}
		return &kit, nil
	case path != "":
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.Size() > maxArrangement {
			return nil, fmt.Errorf("%s: larger than %d bytes", path, maxArrangement)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		kit, err := demux.ParseKit(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &kit, nil
	}
	return nil, nil //nolint:nilnil // no barcodes are asked for
}

// Blame says of an error that may be about the sample sheet which one it is.
func (f *Barcoding) Blame(err error) error {
	if f.sheet == "" {
		return err
	}
	return fmt.Errorf("%s: %w", f.sheet, err)
}
