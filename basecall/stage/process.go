package stage

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// process turns a read into the records that it is downstream. began is what has
// been called of it, and handed where it was handed on to; since is when the read was
// finished. span is nil if it is not traced.
func (h *handler) process(run *streampb.Run, read *assembledRead, began []*call, handed *handedOn, since time.Time, tools tools, span *readSpan) ([]stream.Out, error) {
	defer closeCalls(began)
	stretches := read.stretches()
	if len(stretches) == 0 && read.firstPart == 0 {
		h.cfg.Metrics.read(outcomeShort, nil) // a read without any current is still a read
	}
	var parts []finished
	for i, s := range stretches {
		p := part{number: read.firstPart + i, from: s[0], to: s[1], call: callFrom(began, s[0])}
		called, outcome, err := h.called(run, read, p, since, tools, span)
		if err != nil {
			return nil, err
		}
		f := h.finished(run, read, p, called, outcome)
		if f.outcome == outcomeMapped || f.outcome == outcomeLowQuality {
			h.cfg.Metrics.finished(len(f.called.Sequence), f.called.MeanQuality)
		}
		parts = append(parts, f)
	}
	inherit(parts)
	var outs []stream.Out
	var placed []*streampb.Segment
	for _, f := range parts {
		if f.outcome == outcomeMapped && f.sample == "" {
			f.outcome = outcomeUnclassified
		}
		outs = append(outs, h.published(run, read, f)...)
		var segments []*streampb.Segment
		if f.outcome == outcomeMapped {
			from := span.now()
			var bases int
			var err error
			if segments, bases, err = h.segments(run, read, f, tools); err != nil {
				return nil, err
			}
			h.cfg.Metrics.placed(bases)
			span.part("align", f.number, from, span.now(), trace.Int("porestream.segments", len(segments)))
			if len(segments) == 0 {
				f.outcome = outcomeUnmapped
			}
		}
		h.cfg.Metrics.read(f.outcome, f.barcode)
		for _, s := range segments {
			out, err := h.segmentOut(s)
			if err != nil {
				return nil, err
			}
			span.carry(&out)
			outs = append(outs, out)
		}
		placed = append(placed, segments...)
	}
	handed.wait()
	withdrawn, err := h.withdrawn(read, handed, placed)
	return append(outs, withdrawn...), err
}

// segmentOut is a segment as a record for who owns its region.
func (h *handler) segmentOut(s *streampb.Segment) (stream.Out, error) {
	value, err := h.encode(s)
	return h.regionOut(placeOf(s), value), err
}

// regionOut is a record for who owns a region.
func (h *handler) regionOut(p place, value []byte) stream.Out {
	return stream.Out{
		Topic: h.cfg.Topics.Reads, Partition: stream.AnyPartition, Key: stream.RegionKey(p.sample, p.contig, p.region), Value: value,
	}
}

// finished is a called part of a read without what library preparation put on it.
type finished struct {
	part
	called  basecall.Called
	outcome outcome // mapped, if it is to be aligned
	sample  string  // empty if its barcode is none of the run's
	barcode *output.Barcode
}

// finished finds a part's barcode, cuts it off, and judges what is left.
func (h *handler) finished(run *streampb.Run, read *assembledRead, p part, called basecall.Called, outcome outcome) finished {
	f := finished{part: p, called: called, outcome: outcome}
	if h.cfg.Finisher == nil || !h.cfg.Finisher.Classifies() {
		f.sample = run.GetSample() // of a run that is taken apart only a barcode says whose a part is
	}
	if outcome != outcomeMapped {
		return f
	}
	if h.cfg.Finisher != nil {
		r := h.cfg.Finisher.Finish(basecall.Read{ID: read.id}, called)[0]
		f.called = r.Called
		if r.Barcode != nil {
			of := recorded(run)
			f.sample, f.barcode = h.cfg.Finisher.Sample(of, run.GetSample(), r.Barcode), h.cfg.Finisher.Barcode(of, r.Barcode)
		}
	}
	switch {
	case len(f.called.Sequence) == 0:
		f.outcome = outcomeShort
		return f
	case f.called.MeanQuality < h.cfg.MinQuality:
		f.outcome = outcomeLowQuality
	}
	return f
}

// inherit gives the parts of one read that have no barcode that of another: most kits
// have one at the beginning of a molecule only, and the others begin behind a gap.
func inherit(parts []finished) {
	i := slices.IndexFunc(parts, func(f finished) bool { return f.sample != "" })
	if i < 0 {
		return
	}
	for k := range parts {
		if parts[k].sample == "" {
			parts[k].sample, parts[k].barcode = parts[i].sample, parts[i].barcode
		}
	}
}

// Demultiplexed is a run with the samples that its reads may be of by their barcodes.
func Demultiplexed(run *streampb.Run, f *finish.Finisher) *streampb.Run {
	run = proto.CloneOf(run)
	run.Samples, run.SamplesListed = f.Samples(recorded(run), run.GetSample())
	return run
}

// recorded is what is known of a run as a recording tells it.
func recorded(run *streampb.Run) *signal.Run {
	r := &signal.Run{
		ID: run.GetId(), SampleRate: int(run.GetSampleRate()),
		FlowCellID: run.GetFlowCell(), SequencerPosition: run.GetPosition(),
	}
	if ms := run.GetStartTimeMs(); ms != 0 {
		r.StartTime = time.UnixMilli(ms)
	}
	return r
}

// encode makes a segment a record. What is least needed of an ultra-long read is
// left out when it doesn't fit one.
func (h *handler) encode(s *streampb.Segment) ([]byte, error) {
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}
	if s.GetPartial() > 0 {
		rec.Body = &streampb.ReadRecord_Partial{Partial: s}
	}
	value, err := stream.EncodeReads(rec)
	for _, field := range []struct {
		name  string
		bytes *[]byte
	}{{"dwells", &s.Dwells}, {"qualities", &s.Qualities}} {
		if _, large := errors.AsType[*stream.RecordTooLargeError](err); !large {
			break
		}
		if field.name == "dwells" {
			h.cfg.Metrics.strippedSegment()
		}
		h.log.Warn("a segment doesn't fit a record", "read", s.GetReadId(), "bases", s.GetReadLength(), "without", field.name)
		*field.bytes = nil
		value, err = stream.EncodeReads(rec)
	}
	return value, err
}

// part is a gapless part of a read that has ended.
type part struct {
	number   int    // within the read
	from, to uint64 // samples within the read
	call     *call  // nil if it is not being called yet
}

// called basecalls one gapless part of a read. Its outcome is what has become of it if
// it is not to be aligned, and otherwise mapped, which it may not turn out to be.
func (h *handler) called(run *streampb.Run, read *assembledRead, p part, since time.Time, tools tools, span *readSpan) (basecall.Called, outcome, error) {
	none := basecall.Called{}
	if !h.supports(run) {
		return none, outcomeUnsupported, nil
	}
	if p.to-p.from < minSamples {
		return none, outcomeShort, nil
	}
	if p.call == nil {
		var err error
		if p.call, err = begin(h.cfg.Caller, run, read, p.from); err != nil {
			return none, 0, err
		}
		defer p.call.stream.Close()
	}
	from, timings := span.now(), span.observe(p.call.stream)
	if err := p.call.write(h.ctx, read, p.to, tools.unpack); err != nil {
		return none, 0, err
	}
	called, err := p.call.stream.Finish(h.ctx)
	if err != nil {
		return none, 0, err
	}
	span.called(p.number, from, timings, len(called.Sequence))
	h.cfg.Metrics.called(time.Since(since))
	if len(called.Sequence) == 0 {
		return called, outcomeShort, nil
	}
	return called, outcomeMapped, nil
}

// segments aligns one part of a read, and says on how many bases of the reference its
// alignments lie. It returns none where it doesn't map.
func (h *handler) segments(run *streampb.Run, read *assembledRead, f finished, tools tools) (all []*streampb.Segment, bases int, err error) {
	called := f.called
	alignments, err := tools.aligner.Map(read.id, called.Sequence)
	if err != nil {
		return nil, 0, err
	}
	r := &align.Read{
		Run: run.GetId(), Sample: f.sample, ID: read.id, Part: uint32(f.number),
		Seq: called.Sequence, Qualities: called.Qualities, Dwells: called.Dwells(), LastChunkMs: read.lastChunkMS,
	}
	for i := range alignments {
		ref := h.cfg.Contig(alignments[i].Contig)
		segments, err := align.Segments(r, &alignments[i], ref)
		if err != nil {
			return nil, 0, err
		}
		bases += alignments[i].End - alignments[i].Start
		for _, s := range segments {
			s.Alignment = uint32(i)
		}
		all = append(all, segments...)
	}
	return all, bases, nil
}
