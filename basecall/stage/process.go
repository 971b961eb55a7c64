package stage

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// process turns a read into the records that it is downstream.
func (h *handler) process(w *work) ([]stream.Out, error) {
	defer closeCalls(w.began)
	read, span, placer := w.read, w.span, h.placerOf(w.model)
	stretches := read.stretches()
	if len(stretches) == 0 && read.firstPart == 0 {
		h.placer.Metrics.Part(alignstage.Short, nil) // a read without any current is still a read
	}
	of := h.placed(w.run, read, w.model)
	var parts []alignstage.Part
	for i, s := range stretches {
		p := part{number: read.firstPart + i, from: s[0], to: s[1], call: callFrom(w.began, s[0])}
		called, outcome, err := h.called(w, p)
		if err != nil {
			return nil, err
		}
		whole := alignstage.Part{Number: p.number, From: p.from, To: p.to, Called: called, Outcome: outcome}
		if whole.Modified, err = h.modified(w, &whole); err != nil {
			return nil, err
		}
		if whole.Begin, err = beginning(placer.Finisher, w.tools.unpack, read, s); err != nil {
			return nil, err
		}
		f := placer.Finish(of, whole)
		h.placer.Metrics.Finished(f)
		parts = append(parts, f)
	}
	alignstage.Inherit(parts)
	var outs []stream.Out
	var placed []*streampb.Segment
	for _, f := range parts {
		from := span.now()
		published, aligned, segments, err := placer.Place(of, f, w.tools.aligner)
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
	w.handed.wait()
	withdrawn, err := h.withdrawn(read, w.handed, placed)
	if err != nil {
		return nil, err
	}
	return h.named(append(outs, withdrawn...), of, placed)
}

// named puts the name of the model ahead of the records with a read's segments, if it was not
// published yet.
func (h *handler) named(outs []stream.Out, of *alignstage.Read, segments []*streampb.Segment) ([]stream.Out, error) {
	if len(segments) == 0 {
		return outs, nil
	}
	return h.models.Ahead(outs, of, h.cfg.Topics.Reads, h.cfg.ReadsPartitions)
}

// placerOf is what places reads that a model has called; nil: none has.
func (h *handler) placerOf(m *Model) *alignstage.Placer {
	if m == nil || m.Finisher == h.placer.Finisher {
		return h.placer
	}
	own := *h.placer
	own.Finisher = m.Finisher
	return &own
}

// placed is a read that a model has called, as a placer takes it.
func (h *handler) placed(run *streampb.Run, read *assembledRead, m *Model) *alignstage.Read {
	name := h.cfg.Publish
	if m != nil {
		name = cmp.Or(m.Name, name)
	}
	return &alignstage.Read{
		Run: run, ID: read.id, Model: name, Channel: read.channel, Number: read.number, Start: read.start,
		Total: read.total, LastChunkMs: read.lastChunkMS,
	}
}

// beginning returns the first samples of a read if they are in a stretch of it, as many as a finisher needs.
func beginning(f *finish.Finisher, u *unpacker, read *assembledRead, stretch [2]uint64) ([]int16, error) {
	n := uint64(f.Needs())
	if n == 0 || stretch[0] > 0 {
		return nil, nil
	}
	return u.all(read, 0, min(stretch[1], n))
}

// part is a gapless part of a read that has ended.
type part struct {
	number   int    // within the read
	from, to uint64 // samples within the read
	call     *call  // nil if it is not being called yet
}

// called basecalls one gapless part of a read. Its outcome is what has become of it if
// it is not to be aligned, and otherwise mapped, which it may not turn out to be.
func (h *handler) called(w *work, p part) (basecall.Called, alignstage.Outcome, error) {
	none, read, span := basecall.Called{}, w.read, w.span
	switch {
	case w.model == nil:
		return none, alignstage.NoModel, nil
	case !w.model.supports(w.run):
		return none, alignstage.Unsupported, nil
	}
	if p.to-p.from < minSamples {
		return none, alignstage.Short, nil
	}
	if p.call == nil {
		var err error
		if p.call, err = begin(w.model, func() {}, w.run, read, p.from); err != nil {
			return none, 0, err
		}
		defer p.call.close()
	}
	from, timings := span.now(), span.observe(p.call.stream)
	if err := p.call.write(h.background.Context(), read, p.to, w.tools.unpack); err != nil {
		return none, 0, err
	}
	called, err := p.call.stream.Finish(h.background.Context())
	if err != nil {
		return none, 0, err
	}
	span.called(p.number, from, timings, len(called.Sequence))
	h.cfg.Metrics.called(time.Since(w.since))
	if len(called.Sequence) == 0 {
		return called, alignstage.Short, nil
	}
	return called, alignstage.Mapped, nil
}

// modified says which bases of a called part are modified, before anything is cut off it; nil: nothing is said of them. That
// its network finds no numbers for a read is no reason to go without the read.
func (h *handler) modified(w *work, part *alignstage.Part) (*modbase.Tags, error) {
	if part.Outcome != alignstage.Mapped || w.model.ModifierOf == nil {
		return nil, nil //nolint:nilnil // see above
	}
	modifier := w.model.ModifierOf(w.run)
	if modifier == nil {
		h.cfg.Metrics.modified(modifiedNoModel, 0)
		return nil, nil //nolint:nilnil // see above
	}
	samples, err := w.tools.unpack.all(w.read, part.From, part.To)
	if err != nil {
		return nil, err
	}
	from := w.span.now()
	tags, err := modifier.Call(h.background.Context(), samples, &part.Called)
	switch {
	case errors.Is(err, network.ErrScores):
		h.cfg.Metrics.modified(modifiedNoNumbers, 0)
		h.log.Warn("modified bases of a read can't be called: it goes on without them", "run", w.read.run, "read", w.read.id, "err", err)
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, fmt.Errorf("calling modified bases: %w", err)
	}
	bases := 0
	for i := range tags.Lists {
		bases += len(tags.Lists[i].Skips)
	}
	w.span.part("modified", part.Number, from, w.span.now(), trace.Int("porestream.bases", bases))
	h.cfg.Metrics.modified(modifiedCalled, bases)
	return tags, nil
}
