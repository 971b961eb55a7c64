package stage

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/primer"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Aligner places one read on the reference; minimap.Aligner is one. It is used
// by one goroutine at a time.
type Aligner interface {
	Map(name string, seq []byte) ([]align.Alignment, error)
}

// Outcome is what became of a read, or of a part of one between signal gaps.
type Outcome int

// The outcomes.
const (
	Mapped Outcome = iota
	Unmapped
	Short
	Unsupported // the model was made for another sample rate
	LowQuality
	Unclassified // no barcode of the run's samples
	NoModel      // the run has no model, or it can't be loaded
	Outcomes     // how many there are
)

func (o Outcome) String() string {
	return [Outcomes]string{"mapped", "unmapped", "short", "unsupported", "low_quality", "unclassified", "no_model"}[o]
}

// Placer does what follows a call. It is safe for concurrent use.
type Placer struct {
	Topics stream.Topics
	// Contig returns the upper-case sequence of a contig that an alignment
	// names.
	Contig func(name string) []byte
	// MinQuality is the mean quality, on the Phred scale, below which a read is not
	// aligned; zero: all are.
	MinQuality float64
	// Finisher assigns reads to samples by their barcodes, and cuts off sequence that isn't
	// the molecule's; nil does neither. It must not split reads.
	Finisher *finish.Finisher
	// Primers are those that the reads' amplicons were made with: bases within them are no evidence; nil: none.
	Primers *primer.Scheme
	// Publish has called reads published on the topic of basecalls.
	Publish bool
	Metrics *PlacerMetrics // nil: none
	Logger  *slog.Logger
}

// Read is what is known of a read besides what it is called.
type Read struct {
	Run         *streampb.Run
	ID          string
	Model       string // that has called it; empty: nobody knows
	Channel     uint32
	Number      uint32 // on its channel
	Start       uint64 // sample of the run
	Total       uint64 // samples
	LastChunkMs int64  // record time of the newest chunk, or of the called read
}

// Part is a gapless part of a read, and what it is called.
type Part struct {
	Number   int    // within the read
	From, To uint64 // samples within the read
	Called   basecall.Called
	// Begin has the first samples, as many as the finisher needs, of a part with which its read begins.
	Begin   []int16
	Outcome Outcome // Mapped, if it is to be aligned
	Sample  string  // empty if its barcode is none of the run's
	Barcode *output.Barcode
	// Modified is what the read's basecaller says of modified bases; nil: nothing.
	Modified *modbase.Tags
}

// Finish finds a part's barcode, cuts it off, and filters the rest as [Placer.Filter] does.
func (p *Placer) Finish(read *Read, part Part) Part {
	if p.Finisher == nil || !p.Finisher.Classifies() {
		part.Sample = read.Run.GetSample() // of a run that is taken apart only a barcode says whose a part is
	}
	if part.Outcome != Mapped {
		return part
	}
	if p.Finisher != nil {
		r := p.Finisher.Finish(basecall.Read{ID: read.ID, Samples: part.Begin}, part.Called)[0]
		part.Modified = p.cut(read, part, r.From, r.To)
		part.Called = r.Called
		if r.Barcode != nil {
			of := Recorded(read.Run)
			part.Sample, part.Barcode = p.Finisher.Sample(of, read.Run.GetSample(), r.Barcode), p.Finisher.Barcode(of, r.Barcode)
		}
	}
	return p.Filter(part)
}

// Filter sets the outcome of a finished part that is not to be aligned.
func (p *Placer) Filter(part Part) Part {
	switch {
	case len(part.Called.Sequence) == 0:
		part.Outcome = Short
	case part.Called.MeanQuality < p.MinQuality:
		part.Outcome = LowQuality
	}
	return part
}

// Inherit gives the parts of one read that have no barcode that of another: most kits
// have one at the beginning of a molecule only, and the others begin behind a gap.
func Inherit(parts []Part) {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Sample != "" })
	if i < 0 {
		return
	}
	for k := range parts {
		if parts[k].Sample == "" {
			parts[k].Sample, parts[k].Barcode = parts[i].Sample, parts[i].Barcode
		}
	}
}

// TakenApart reports whether another program has already searched a run's reads for barcodes.
func TakenApart(run *streampb.Run) bool { return len(run.GetSamples()) > 0 || run.GetSamplesListed() }

// Demultiplexed is a run with the samples that its reads may be of by their barcodes.
func Demultiplexed(run *streampb.Run, f *finish.Finisher) *streampb.Run {
	run = proto.CloneOf(run)
	run.Samples, run.SamplesListed = f.Samples(Recorded(run), run.GetSample())
	return run
}

// Controlled is a run, whose samples are known, with its negative controls; of nil: those that it comes with.
func Controlled(run *streampb.Run, of func(*streampb.Run) []*streampb.Control) *streampb.Run {
	if of == nil {
		return run
	}
	run = proto.CloneOf(run)
	run.Controls = of(run)
	return run
}

// WarnUnlisted warns that the sample sheet, if there is one, has no row of a run that has ended.
func WarnUnlisted(run *streampb.Run, f *finish.Finisher, log *slog.Logger) {
	if of := Recorded(run); !f.Listed(of) {
		log.Warn("no row of the sample sheet is of a run, so none of its reads was used", "run", of.ID, "flow_cell", of.FlowCellID, "position", of.SequencerPosition)
	}
}

// Recorded describes a run as a recording describes it.
func Recorded(run *streampb.Run) *signal.Run {
	r := &signal.Run{
		ID: run.GetId(), SampleRate: int(run.GetSampleRate()),
		FlowCellID: run.GetFlowCell(), SequencerPosition: run.GetPosition(),
	}
	if ms := run.GetStartTimeMs(); ms != 0 {
		r.StartTime = time.UnixMilli(ms)
	}
	return r
}

// Place does for a finished part what its outcome asks for: it is published, aligned and
// counted. It returns the records, those of segments last, and the segments.
func (p *Placer) Place(read *Read, part Part, a Aligner) (published, aligned []stream.Out, segments []*streampb.Segment, err error) {
	if part.Outcome == Mapped && part.Sample == "" {
		part.Outcome = Unclassified
	}
	published = p.published(read, part)
	if part.Outcome == Mapped {
		var bases int
		if segments, bases, err = p.Segments(read, part, a); err != nil {
			return nil, nil, nil, err
		}
		p.Metrics.placed(bases)
		if len(segments) == 0 {
			part.Outcome = Unmapped
		}
	}
	p.Metrics.Part(part.Outcome, part.Barcode)
	for _, s := range segments {
		out, err := p.SegmentOut(s)
		if err != nil {
			return nil, nil, nil, err
		}
		aligned = append(aligned, out)
	}
	return published, aligned, segments, nil
}

// Segments aligns a part of a read, and says on how many bases of the reference its
// alignments lie. It returns none where it doesn't map.
func (p *Placer) Segments(read *Read, part Part, a Aligner) (all []*streampb.Segment, bases int, err error) {
	called := part.Called
	alignments, err := a.Map(read.ID, called.Sequence)
	if err != nil {
		return nil, 0, err
	}
	r := &align.Read{
		Run: read.Run.GetId(), Sample: part.Sample, ID: read.ID, Part: uint32(part.Number),
		Seq: called.Sequence, Qualities: called.Qualities, Dwells: called.Dwells(), LastChunkMs: read.LastChunkMs,
	}
	model := uint32(0)
	if stream.ModelNameable(read.Model) {
		model = stream.ModelNumber(read.Model)
	}
	for i := range alignments {
		if p.Primers != nil {
			ends := p.Primers.Trim(&alignments[i])
			p.Metrics.primed(ends)
			if ends == primer.Nothing {
				continue
			}
		}
		ref := p.Contig(alignments[i].Contig)
		segments, err := align.Segments(r, &alignments[i], ref)
		if err != nil {
			return nil, 0, err
		}
		if part.Modified != nil && i == 0 && !alignments[i].Supplementary {
			p.modified(read, part, &alignments[i], ref, segments)
		}
		bases += alignments[i].End - alignments[i].Start
		for _, s := range segments {
			s.Alignment, s.Model = uint32(i), model
		}
		all = append(all, segments...)
	}
	return all, bases, nil
}

// Region is a region of a contig in a sample.
type Region struct {
	Sample, Contig string
	Index          uint32
}

// Compare orders regions by sample, contig and index.
func (r Region) Compare(o Region) int {
	return cmp.Or(cmp.Compare(r.Sample, o.Sample), cmp.Compare(r.Contig, o.Contig), cmp.Compare(r.Index, o.Index))
}

// RegionOf is the region of a segment.
func RegionOf(s *streampb.Segment) Region {
	return Region{s.GetSample(), s.GetContig(), s.GetRegion()}
}

// SegmentOut is a segment as a record for the worker that owns its region.
func (p *Placer) SegmentOut(s *streampb.Segment) (stream.Out, error) {
	value, err := p.encode(s)
	return p.RegionOut(RegionOf(s), value), err
}

// RegionOut is a record for the worker that owns a region.
func (p *Placer) RegionOut(r Region, value []byte) stream.Out {
	return stream.Out{
		Topic: p.Topics.Reads, Partition: stream.AnyPartition, Key: stream.RegionKey(r.Sample, r.Contig, r.Index), Value: value,
	}
}

// encode makes a segment a record. What is least needed of an ultra-long read is
// left out when it doesn't fit one.
func (p *Placer) encode(s *streampb.Segment) ([]byte, error) {
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}
	if s.GetPartial() > 0 {
		rec.Body = &streampb.ReadRecord_Partial{Partial: s}
	}
	value, err := stream.EncodeReads(rec)
	for _, field := range []struct {
		name  string
		bytes *[]byte
	}{{"dwells", &s.Dwells}, {"modified bases", &s.Modified}, {"qualities", &s.Qualities}} {
		if _, large := errors.AsType[*stream.RecordTooLargeError](err); !large {
			break
		}
		if field.name == "dwells" {
			p.Metrics.strippedSegment()
		}
		p.Logger.Warn("a segment doesn't fit a record", "read", s.GetReadId(), "bases", s.GetReadLength(), "without", field.name)
		*field.bytes = nil
		value, err = stream.EncodeReads(rec)
	}
	return value, err
}

// Headers of records on the topic of basecalls; docs/consume/basecalls.md is the contract.
const (
	headerRun    = "run"
	headerSample = "sample"
	headerFilter = "filter"
)

// MaxPublishedBases is how many bases fit in a record on the topic of basecalls,
// with their qualities and the fields before them.
const MaxPublishedBases = (stream.MaxRecord - 1<<14) / 2

// published returns the records of a called part of a read: FASTQ, as files have it. What
// is not a whole read is named as a part that a read was split into.
func (p *Placer) published(read *Read, part Part) []stream.Out {
	called := part.Called
	if !p.Publish || len(called.Sequence) == 0 {
		return nil
	}
	r := output.Record{Barcode: part.Barcode, Read: &signal.Read{
		ID: read.ID, Channel: read.Channel, Number: read.Number, StartSample: read.Start, Run: Recorded(read.Run),
	}}
	filter := "pass"
	if part.Outcome == LowQuality || part.Outcome == Unclassified {
		filter = part.Outcome.String()
	}
	headers := []stream.Header{
		{Key: headerRun, Value: []byte(read.Run.GetId())}, {Key: headerSample, Value: []byte(part.Sample)}, {Key: headerFilter, Value: []byte(filter)},
	}
	whole := part.From == 0 && part.To == read.Total && len(called.Sequence) <= MaxPublishedBases
	var outs []stream.Out
	for from := 0; from < len(called.Sequence); from += MaxPublishedBases {
		to := min(from+MaxPublishedBases, len(called.Sequence))
		r.Called = called.Slice(from, to, basecall.QualityManifest{})
		r.Called.MeanQuality = called.MeanQuality
		if !whole {
			first, leads := from, from == 0
			if called.FromEnd {
				first, leads = to-1, to == len(called.Sequence)
			}
			r.Parent, r.ParentStart = read.ID, int(part.From)
			if !leads {
				r.ParentStart += called.BaseStart(first)
			}
			r.Read.ID = demux.ChildID(read.ID, r.ParentStart)
		}
		r.Modified = p.cut(read, part, from, to)
		value := output.AppendFASTQ(nil, r, read.Model)
		if len(value) > stream.MaxRecord && r.Modified != nil {
			p.Logger.Warn("a called read doesn't fit a record", "read", r.Read.ID, "bases", to-from, "without", "modified bases")
			r.Modified = nil
			value = output.AppendFASTQ(value[:0], r, read.Model)
		}
		outs = append(outs, stream.Out{
			Topic: p.Topics.Basecalls, Partition: stream.AnyPartition,
			Key: stream.SignalKey(read.Run.GetId(), read.Channel), Value: value, Headers: headers,
		})
	}
	return outs
}
