// Package finish does what follows a basecall before a read is written: it splits reads
// that are two, finds barcodes, and cuts off what library preparation put on. What and
// where is decided by package demux; this package keeps sequence, qualities, frames and
// samples together.
package finish

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/signal"
)

// Trim says what is cut off reads.
type Trim uint8

// The choices.
const (
	TrimNone     Trim = iota
	TrimAdapters      // adapters and primers
	TrimAll           // and barcodes with their flanks
)

// ParseTrim returns the choice that a user named.
func ParseTrim(name string) (Trim, error) {
	for t, known := range []string{TrimNone: "none", TrimAdapters: "adapters", TrimAll: "all"} {
		if name == known {
			return Trim(t), nil
		}
	}
	return 0, fmt.Errorf("%q is none of none, adapters, all", name)
}

// Options say what is done. The zero value does nothing.
type Options struct {
	Kit      *demux.Kit   // barcodes to search for; nil for none
	BothEnds bool         // a barcode counts only at both ends
	Sheet    *demux.Sheet // which barcodes there are and what their samples are called; nil for all
	Trim     Trim
	Split    bool
	Start    bool // a DNA read begins where its current shows that the strand does
	Standard bool // the model takes standardised picoamperes, and then every read loses as much; for Start
	RNA      bool // reads are direct RNA, whose adapter shows in the signal; kits with barcodes are for DNA
}

// Finisher finishes reads of one model. It is safe for concurrent use.
type Finisher struct {
	opts       Options
	quality    basecall.QualityManifest
	classifier *demux.Classifier
	trimmer    *demux.Trimmer
}

// New returns a finisher. A sheet must fit the kit.
func New(opts Options, quality basecall.QualityManifest) (*Finisher, error) {
	f := &Finisher{opts: opts, quality: quality}
	if opts.RNA && opts.Start {
		return nil, errors.New("the start of reads is found by signal for DNA, but the model is for RNA, whose adapter is cut off with the others")
	}
	if opts.RNA && opts.Kit != nil {
		return nil, fmt.Errorf("kit %s is for DNA, but the model is for RNA", opts.Kit.Name)
	}
	if opts.Trim >= TrimAdapters && !opts.RNA {
		f.trimmer = demux.NewTrimmer(demux.Adapters(), demux.Primers())
	}
	if opts.Kit == nil {
		return f, nil
	}
	var err error
	f.classifier, err = opts.Classifier()
	return f, err
}

// Classifier returns a classifier for the kit, of which there must be one.
func (opts Options) Classifier() (*demux.Classifier, error) {
	kit := *opts.Kit
	for k := &kit; k != nil; k = k.Inner {
		if opts.BothEnds && !(k.AtFront && k.AtRear) {
			return nil, fmt.Errorf("kit %s has barcodes at one end only: they can't be asked for at both", k.Name)
		}
		if opts.Sheet != nil {
			if err := opts.Sheet.Kit(k.Name); err != nil {
				return nil, err
			}
		}
	}
	if opts.Sheet != nil {
		if names := opts.Sheet.Barcodes(); len(names) > 0 {
			var err error
			if kit, err = kit.Only(names); err != nil {
				return nil, err
			}
		}
	}
	return demux.NewClassifier(kit, opts.BothEnds), nil
}

// Read is a finished read: a whole one, or a part of one.
type Read struct {
	Called basecall.Called
	// ID is the read's own id or, for a part, one that is made of it; Parent is the id
	// of the read that it is a part of, empty for a whole read, and Start the sample of
	// that read at which the part begins.
	ID, Parent string
	Start      int
	// First is the base of the read, as it was called, at which the part begins.
	First int
	// From and To are the bases of the read, or of the part, that are left of it.
	From, To int
	// Barcode is what was found; nil if none is searched for.
	Barcode *demux.Classification
}

// Needs is how many of a read's first samples [Finisher.Finish] needs of a read that is not to be split and is of DNA;
// a finisher of RNA, or one that splits, needs all.
func (f *Finisher) Needs() int {
	if f == nil || !f.opts.Start {
		return 0
	}
	return demux.StartSamples
}

// Finish returns a called read, or the parts that it falls into, in order. Of the read's samples it needs what
// [Finisher.Needs] says.
func (f *Finisher) Finish(read basecall.Read, called basecall.Called) []Read {
	parts := []Read{{ID: read.ID, Called: called}}
	if f.opts.Split {
		parts = f.split(read, called)
	}
	for i := range parts {
		parts[i].To = len(parts[i].Called.Sequence)
		if f.opts.RNA {
			f.finishRNA(&parts[i], read)
		} else {
			f.finish(&parts[i], f.begin(&parts[i], read))
		}
	}
	return parts
}

// begin is the base with which a read begins by its current. Where a read was split, the parts behind the first
// one begin where it was.
func (f *Finisher) begin(r *Read, read basecall.Read) int {
	if !f.opts.Start || r.Start > 0 {
		return 0
	}
	samples := read.Samples[:min(len(read.Samples), r.Called.NumSamples)]
	if f.opts.Standard {
		return r.Called.BasesBefore(demux.StandardStart(samples))
	}
	return r.Called.BasesBefore(demux.StartOf(samples, r.Called.Shift, r.Called.Scale))
}

// finishRNA cuts off the adapter, which is DNA and what passes first: a network for RNA
// can't read it, so that nothing in the sequence shows where it ends.
func (f *Finisher) finishRNA(r *Read, read basecall.Read) {
	if f.opts.Trim < TrimAdapters {
		return
	}
	samples := read.Samples[r.Start:][:r.Called.NumSamples]
	adapter := r.Called.BasesBefore(demux.RNAAdapter(picoamperes(samples, read.Calibration), read.SampleRate))
	r.To -= adapter
	r.Called = r.Called.Slice(0, r.To, f.quality)
}

// finish finds the barcode of a DNA read that begins with a base, and cuts off what is put on.
func (f *Finisher) finish(r *Read, begin int) {
	found := demux.Classification{Barcode: -1}
	if f.classifier != nil {
		found = f.classifier.Classify(r.Called.Sequence)
		r.Barcode = &found
	}
	cut := found
	if f.opts.Trim < TrimAll {
		cut = found.Uncut()
	}
	inside := f.trimmer.Inside(r.Called.Sequence, cut)
	// The barcode and adapters are searched for in all of the read.
	r.From, r.To = max(inside.Start, min(begin, inside.End)), inside.End
	r.Called = r.Called.Slice(r.From, r.To, f.quality)
}

// split cuts a read where the pore was open, and before adapters amid its sequence.
func (f *Finisher) split(read basecall.Read, called basecall.Called) []Read {
	gaps := f.gaps(read, called)
	if len(gaps) == 0 {
		return []Read{{ID: read.ID, Called: called}}
	}
	parts := make([]Read, 0, len(gaps)+1)
	begin := 0
	for _, gap := range append(gaps, demux.Interval{Start: len(read.Samples), End: len(read.Samples)}) {
		parts = append(parts, Read{
			ID: demux.ChildID(read.ID, begin), Parent: read.ID, Start: begin, First: called.BasesBefore(begin), Called: called.Part(begin, gap.Start, f.quality),
		})
		begin = gap.End
	}
	return parts
}

// gaps lists the samples between the parts of a read, in order.
func (f *Finisher) gaps(read basecall.Read, called basecall.Called) []demux.Interval {
	gaps := demux.OpenPore(picoamperes(read.Samples, read.Calibration), read.SampleRate)
	if f.opts.RNA {
		return gaps
	}
	// An adapter right behind an open pore is that of the same molecule.
	near := read.SampleRate / 2
	for _, base := range demux.MiddleAdapters(called.Sequence, demux.Adapters()) {
		at := called.BaseStart(base)
		if !slices.ContainsFunc(gaps, func(g demux.Interval) bool { return at > g.Start-near && at < g.End+near }) {
			gaps = append(gaps, demux.Interval{Start: at, End: at})
		}
	}
	slices.SortFunc(gaps, func(a, b demux.Interval) int { return cmp.Compare(a.Start, b.Start) })
	return gaps
}

func picoamperes(samples []int16, calibration signal.Calibration) []float32 {
	current := make([]float32, len(samples))
	for i, level := range samples {
		current[i] = calibration.Picoamperes(level)
	}
	return current
}

// Barcode returns what is written of a read's barcode; nil if none was searched for.
func (f *Finisher) Barcode(run *signal.Run, found *demux.Classification) *output.Barcode {
	if found == nil {
		return nil
	}
	b := f.named(run, found.Barcode)
	if b.Info = demux.Info(found); found.Reason != demux.Found {
		b.Reason = found.Reason.String()
	}
	return &b
}

// Barcodes lists the barcodes that reads of a run may have.
func (f *Finisher) Barcodes(run *signal.Run) []output.Barcode {
	var list []output.Barcode
	for i := range f.classifier.Barcodes() {
		list = append(list, f.named(run, i))
	}
	return list
}

// Samples lists, ascending, the samples that reads of a run may be of by their barcodes,
// when sample is what the run itself is called: aliases of the sheet, or else
// <sample>_barcode01. listed reports whether a sheet names them. None if no barcodes are
// searched for.
func (f *Finisher) Samples(run *signal.Run, sample string) (samples []string, listed bool) {
	if f.classifier == nil {
		return nil, false
	}
	for i := range f.classifier.Barcodes() {
		if name := f.Sample(run, sample, &demux.Classification{Barcode: i}); name != "" {
			samples = append(samples, name)
		}
	}
	slices.Sort(samples)
	return slices.Compact(samples), f.lists()
}

// Sample returns the sample that a read of a run is of. It is empty for a read without a
// barcode, or with one that the sheet doesn't have for this run.
func (f *Finisher) Sample(run *signal.Run, sample string, found *demux.Classification) string {
	if found.Barcode < 0 {
		return ""
	}
	barcode := f.classifier.Barcodes()[found.Barcode]
	if f.lists() {
		if !f.opts.Sheet.Lists(run.FlowCellID, run.SequencerPosition, barcode) {
			return ""
		}
		if alias := f.opts.Sheet.Alias(run.FlowCellID, run.SequencerPosition, barcode); alias != "" {
			return alias
		}
	}
	return sample + "_" + barcode
}

// Sheet is the sample sheet; nil: none.
func (f *Finisher) Sheet() *demux.Sheet { return f.opts.Sheet }

// SheetKeys are runs as a sample sheet knows them.
func SheetKeys(runs []*signal.Run) []demux.RunKey {
	var keys []demux.RunKey
	for _, run := range runs {
		keys = append(keys, demux.RunKey{ID: run.ID, FlowCell: run.FlowCellID, Position: run.SequencerPosition})
	}
	return keys
}

// Listed reports whether the sample sheet, if there is one, has a row of a run.
func (f *Finisher) Listed(run *signal.Run) bool {
	return f.opts.Sheet == nil || f.opts.Sheet.Of(run.FlowCellID, run.SequencerPosition)
}

// Silent lists the samples that the sheet names for runs and that no read is of; reads are the
// numbers of reads by the names of their barcodes, as [Finisher.Barcode] gives them.
func (f *Finisher) Silent(runs []*signal.Run, reads map[string]int64) []string {
	if f.opts.Sheet == nil {
		return nil
	}
	return f.opts.Sheet.Silent(SheetKeys(runs), reads)
}

// lists reports whether a sheet says which barcodes there are.
func (f *Finisher) lists() bool { return f.opts.Sheet != nil && len(f.opts.Sheet.Barcodes()) > 0 }

// Count is how many barcodes, or pairs of an outer and an inner one, are searched for.
func (f *Finisher) Count() int {
	if f.classifier == nil {
		return 0
	}
	return len(f.classifier.Barcodes())
}

// Classifies reports whether barcodes are searched for.
func (f *Finisher) Classifies() bool { return f.classifier != nil }

func (f *Finisher) named(run *signal.Run, barcode int) output.Barcode {
	if barcode < 0 {
		return output.Barcode{Name: output.Unclassified}
	}
	name := f.classifier.Barcodes()[barcode]
	b := output.Barcode{Name: f.classifier.Name(barcode), Sample: name}
	if f.opts.Sheet != nil {
		b.Alias = f.opts.Sheet.Alias(run.FlowCellID, run.SequencerPosition, name)
	}
	if b.Alias != "" {
		b.Name, b.Sample = b.Alias, b.Alias
	}
	return b
}
