package stage

import (
	"errors"
	"time"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// process turns a read into the records that it is downstream. began is what has
// been called of it; since is when the read was finished.
func (h *handler) process(run *streampb.Run, read *assembledRead, began []*call, since time.Time, tools tools) ([]stream.Out, error) {
	defer closeCalls(began)
	stretches := read.stretches()
	if len(stretches) == 0 && read.firstPart == 0 {
		h.cfg.Metrics.read(outcomeShort) // a read without any current is still a read
	}
	var outs []stream.Out
	for i, s := range stretches {
		p := part{number: read.firstPart + i, from: s[0], to: s[1], call: callFrom(began, s[0])}
		called, outcome, err := h.called(run, read, p, since, tools)
		if err != nil {
			return nil, err
		}
		outs = append(outs, h.published(run, read, p, called)...)
		var segments []*streampb.Segment
		if outcome == outcomeMapped {
			if segments, err = h.segments(run, read, p, called, tools); err != nil {
				return nil, err
			}
			if len(segments) == 0 {
				outcome = outcomeUnmapped
			}
		}
		h.cfg.Metrics.read(outcome)
		for _, s := range segments {
			value, err := h.encode(s)
			if err != nil {
				return nil, err
			}
			outs = append(outs, stream.Out{
				Topic: h.cfg.Topics.Reads, Partition: stream.AnyPartition,
				Key: stream.RegionKey(s.GetSample(), s.GetContig(), s.GetRegion()), Value: value,
			})
		}
	}
	return outs, nil
}

// encode makes a segment a record. What is least needed of an ultra-long read is
// left out when it doesn't fit one.
func (h *handler) encode(s *streampb.Segment) ([]byte, error) {
	rec := &streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}}
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
func (h *handler) called(run *streampb.Run, read *assembledRead, p part, since time.Time, tools tools) (basecall.Called, outcome, error) {
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
	if err := p.call.write(h.ctx, read, p.to, tools.unpack); err != nil {
		return none, 0, err
	}
	called, err := p.call.stream.Finish(h.ctx)
	if err != nil {
		return none, 0, err
	}
	h.cfg.Metrics.called(time.Since(since))
	switch {
	case len(called.Sequence) == 0:
		return called, outcomeShort, nil
	case called.MeanQuality < h.cfg.MinQuality:
		return called, outcomeLowQuality, nil
	}
	return called, outcomeMapped, nil
}

// segments aligns one part of a read. It returns none where it doesn't map.
func (h *handler) segments(run *streampb.Run, read *assembledRead, p part, called basecall.Called, tools tools) ([]*streampb.Segment, error) {
	alignments, err := tools.aligner.Map(read.id, called.Sequence)
	if err != nil {
		return nil, err
	}
	r := &align.Read{
		Run: run.GetId(), Sample: run.GetSample(), ID: read.id, Part: uint32(p.number),
		Seq: called.Sequence, Qualities: called.Qualities, Dwells: called.Dwells(), LastChunkMs: read.lastChunkMS,
	}
	var all []*streampb.Segment
	for i := range alignments {
		ref := h.cfg.Contig(alignments[i].Contig)
		segments, err := align.Segments(r, &alignments[i], ref)
		if err != nil {
			return nil, err
		}
		for _, s := range segments {
			s.Alignment = uint32(i)
		}
		all = append(all, segments...)
	}
	return all, nil
}
