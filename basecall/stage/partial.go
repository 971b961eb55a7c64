package stage

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// partialResult is what the stages behind have been given of a read that goes on.
//
// Problem: an ultra-long read takes the better part of an hour to pass the pore, and
// all the while what it shows is known here and nowhere else.
//
// Strategy: what has been called of it is aligned and published when it is long
// enough, and whenever it is twice as long as the last time. Segments say how often that
// was, and take the place of those before; those of the finished read take the place
// of all. Where a read turns out not to lie, its segments are withdrawn.
//
// Consequences: a read is aligned at most twice more, whatever its length, and what is
// final does not know of any of this. None of it is state: a new owner of the partition
// begins anew, and what its predecessor published to places that the read has left since
// stays there until the run ends.
type partialResult struct {
	times  int                        // it was published
	places map[alignstage.Region]bool // regions that hold segments of it
	done   chan struct{}              // closed when the last time is emitted, or has failed
}

// wait waits until the read is not being published any more. It holds the tools that it
// takes, so that is soon.
func (o *partialResult) wait() {
	if o != nil {
		<-o.done
	}
}

// busy reports whether the read is being published.
func (o *partialResult) busy() bool {
	if o.done == nil {
		return false
	}
	select {
	case <-o.done:
		return false
	default:
		return true
	}
}

// times is how often a read is published of which so many samples are called: once
// from the least on, and once more whenever there are twice as many.
func times(samples, least uint64) int { return bits.Len64(samples / max(1, least)) }

// publishPartial gives what has been called of an open read to the stages behind if that is due.
// Finished reads come first: without tools that none of them waits for, it is left to a
// later chunk.
func (h *handler) publishPartial(read *assembledRead, emit stream.Emitter) {
	if h.cfg.Partial == 0 || read == nil {
		return
	}
	run, key := h.fold.runs.Run(read.run), readKey{read.run, read.id}
	if len(h.calls.open[key]) == 0 {
		return // it is called when it has ended
	}
	model := h.calls.open[key][0].model
	least := uint64(h.cfg.Partial.Seconds() * float64(run.GetSampleRate()))
	handed := cmp.Or(h.calls.partials[key], &partialResult{})
	var written, called uint64
	for _, k := range h.calls.open[key] {
		written += k.to - k.from
	}
	if times(written, least) <= handed.times || handed.busy() {
		return
	}
	// What was written last is still being called.
	var soFar []alignstage.Part
	for i, k := range h.calls.open[key] {
		c := k.stream.SoFar()
		soFar = append(soFar, alignstage.Part{Number: read.firstPart + i, From: k.from, Called: c})
		called += uint64(c.NumSamples)
	}
	n := times(called, least)
	if n <= handed.times {
		return
	}
	var t tools
	select {
	case t = <-h.works.tools:
	default:
		return
	}
	// The read's chunks may change while it is published.
	begin, err := beginning(h.placerOf(model).Finisher, &h.calls.unpack, read, [2]uint64{soFar[0].From, h.calls.open[key][0].to})
	if err != nil {
		h.works.tools <- t
		h.background.Fail(fmt.Errorf("publishing read %s of run %s: %w", read.id, read.run, err), emit)
		return
	}
	soFar[0].Begin = begin
	handed.times, handed.done = n, make(chan struct{})
	h.calls.partials[key] = handed
	h.background.Go(func() {
		defer close(handed.done)
		outs, err := h.partial(run, read, model, soFar, handed, t)
		h.works.tools <- t
		if err == nil && len(outs) > 0 {
			err = emit.Emit(h.background.Context(), outs, nil)
		}
		if err != nil {
			h.background.Fail(fmt.Errorf("publishing read %s of run %s: %w", read.id, read.run, err), emit)
			return
		}
		h.cfg.Metrics.partialPublished()
	})
}

// partial returns the records by which an open read is published. soFar is what the model has
// called of its stretches, in order.
func (h *handler) partial(run *streampb.Run, read *assembledRead, model *Model, soFar []alignstage.Part, handed *partialResult, t tools) ([]stream.Out, error) {
	of, placer := h.placed(run, read, model), h.placerOf(model)
	uncounted := *placer // what reads are like is counted once, when they have ended
	uncounted.Metrics = nil
	var parts []alignstage.Part
	for _, called := range soFar {
		parts = append(parts, placer.Finish(of, called))
	}
	alignstage.Inherit(parts)
	var segments []*streampb.Segment
	for _, f := range parts {
		if f.Outcome != alignstage.Mapped || f.Sample == "" {
			continue
		}
		more, _, err := uncounted.Segments(of, f, t.aligner)
		if err != nil {
			return nil, err
		}
		segments = append(segments, more...)
	}
	for _, s := range segments {
		s.Partial = uint32(handed.times)
	}
	outs, err := h.withdrawn(read, handed, segments)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		out, err := h.placer.SegmentOut(s)
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return h.named(outs, of, segments)
}

// withdrawn returns the records that take a read back from where it was published to and has
// no segments now, which are noted.
func (h *handler) withdrawn(read *assembledRead, handed *partialResult, now []*streampb.Segment) ([]stream.Out, error) {
	if handed == nil {
		return nil, nil
	}
	left := handed.places
	handed.places = make(map[alignstage.Region]bool)
	for _, s := range now {
		delete(left, alignstage.RegionOf(s))
		handed.places[alignstage.RegionOf(s)] = true
	}
	var outs []stream.Out
	for _, p := range slices.SortedFunc(maps.Keys(left), alignstage.Region.Compare) {
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Withdrawal{Withdrawal: &streampb.Withdrawal{
			Run: read.run, Sample: p.Sample, ReadId: read.id, Contig: p.Contig, Region: p.Index,
		}}})
		if err != nil {
			return nil, err
		}
		outs = append(outs, h.placer.RegionOut(p, value))
	}
	return outs, nil
}
