package stage

import (
	"cmp"
	"time"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
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
		h.placer.Metrics.Part(alignstage.Short, nil) // a read without any current is still a read
	}
	of := h.placed(run, read)
	var parts []alignstage.Part
	for i, s := range stretches {
		p := part{number: read.firstPart + i, from: s[0], to: s[1], call: callFrom(began, s[0])}
		called, outcome, err := h.called(run, read, p, since, tools, span)
		if err != nil {
			return nil, err
		}
		f := h.placer.Finish(of, alignstage.Part{Number: p.number, From: p.from, To: p.to, Called: called, Outcome: outcome})
		h.placer.Metrics.Finished(f)
		parts = append(parts, f)
	}
	alignstage.Inherit(parts)
	var outs []stream.Out
	var placed []*streampb.Segment
	for _, f := range parts {
		from := span.now()
		published, aligned, segments, err := h.placer.Place(of, f, tools.aligner)
		if err != nil {
			return nil, err
		}
		if f.Outcome == alignstage.Mapped && f.Sample != "" {
			span.part("align", f.Number, from, span.now(), trace.Int("porestream.segments", len(segments)))
		}
		for i := range aligned {
			span.carry(&aligned[i])
		}
		outs = append(append(outs, published...), aligned...)
		placed = append(placed, segments...)
	}
	handed.wait()
	withdrawn, err := h.withdrawn(read, handed, placed)
	if err != nil {
		return nil, err
	}
	return h.named(append(outs, withdrawn...), of, placed)
}

// named puts the name of the model ahead of what a read's segments are among, if it was not told yet.
func (h *handler) named(outs []stream.Out, of *alignstage.Read, segments []*streampb.Segment) ([]stream.Out, error) {
	if len(segments) == 0 {
		return outs, nil
	}
	return h.models.Ahead(outs, of, h.cfg.Topics.Reads, h.cfg.ReadsPartitions)
}

// placed is a read as a placer takes it.
func (h *handler) placed(run *streampb.Run, read *assembledRead) *alignstage.Read {
	return &alignstage.Read{
		Run: run, ID: read.id, Model: cmp.Or(h.cfg.Name, h.cfg.Publish), Channel: read.channel, Number: read.number, Start: read.start,
		Total: read.total, LastChunkMs: read.lastChunkMS,
	}
}

// part is a gapless part of a read that has ended.
type part struct {
	number   int    // within the read
	from, to uint64 // samples within the read
	call     *call  // nil if it is not being called yet
}

// called basecalls one gapless part of a read. Its outcome is what has become of it if
// it is not to be aligned, and otherwise mapped, which it may not turn out to be.
func (h *handler) called(run *streampb.Run, read *assembledRead, p part, since time.Time, tools tools, span *readSpan) (basecall.Called, alignstage.Outcome, error) {
	none := basecall.Called{}
	if !h.supports(run) {
		return none, alignstage.Unsupported, nil
	}
	if p.to-p.from < minSamples {
		return none, alignstage.Short, nil
	}
	if p.call == nil {
		var err error
		if p.call, err = begin(h.cfg.Caller, run, read, p.from); err != nil {
			return none, 0, err
		}
		defer p.call.stream.Close()
	}
	from, timings := span.now(), span.observe(p.call.stream)
	if err := p.call.write(h.background.Context(), read, p.to, tools.unpack); err != nil {
		return none, 0, err
	}
	called, err := p.call.stream.Finish(h.background.Context())
	if err != nil {
		return none, 0, err
	}
	span.called(p.number, from, timings, len(called.Sequence))
	h.cfg.Metrics.called(time.Since(since))
	if len(called.Sequence) == 0 {
		return called, alignstage.Short, nil
	}
	return called, alignstage.Mapped, nil
}
