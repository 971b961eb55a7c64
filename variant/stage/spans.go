package stage

import (
	"slices"
	"strconv"
	"time"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// Bounds of the traced reads whose evidence waits for a revision: of one region, and of a
// partition. The oldest of the region, and those that come, are forgotten.
const (
	maxWaitingRegion = 64
	maxWaiting       = 4096
)

// spans are the traces of a partition. They follow from live records alone, and are
// no state.
//
// A revision follows from many reads. It belongs to the trace of the read that brought
// it about, or, if that is not traced, of the newest traced read over the place whose
// evidence has waited since the place was last published; the other traced reads there
// are linked.
type spans struct {
	tracer  *trace.Tracer // nil: nothing is traced
	waiting map[regionKey][]waitingRead
	held    int
	muted   bool // the record is replayed
}

// waitingRead is a traced read that no revision has followed from yet.
type waitingRead struct {
	place      trace.Context
	start, end int64 // on the contig, 0-based
}

func newSpans(t *trace.Tracer) spans {
	return spans{tracer: t, waiting: make(map[regionKey][]waitingRead)}
}

// begin begins the span of a segment's record; nil if its read is not traced.
func (s *spans) begin(rec stream.Record, seg *streampb.Segment) *trace.Span {
	if s.muted {
		return nil
	}
	span := s.tracer.RecordSpan(Name, rec)
	if span != nil {
		span.Attributes = append(span.Attributes,
			trace.String(trace.KeyRun, seg.GetRun()), trace.String(trace.KeyRead, seg.GetReadId()), trace.String("porestream.sample", seg.GetSample()),
			trace.String("porestream.contig", seg.GetContig()), trace.Int("porestream.start", seg.GetStart()), trace.Int("porestream.region", seg.GetRegion()))
	}
	return span
}

// applied notes that a segment is in its region, or that it changes nothing there.
func (s *spans) applied(span *trace.Span, changed bool) {
	if span == nil {
		return
	}
	span.Add(trace.Event{Name: "segment applied", Time: s.tracer.Now(), Attributes: []trace.Attribute{trace.Bool("porestream.changed", changed)}})
	if !changed {
		s.tracer.End(span)
	}
}

// evaluation is the evaluation of a region after a segment.
type evaluation struct {
	spans *spans
	key   regionKey
	seg   *streampb.Segment
	span  *trace.Span // of the segment's read; nil if that is not traced
	child *trace.Span
	began time.Time
}

// evaluate begins an evaluation; nil if no traced read could have to do with it.
func (s *spans) evaluate(key regionKey, seg *streampb.Segment, span *trace.Span) *evaluation {
	if s.tracer == nil || s.muted || span == nil && len(s.waiting[key]) == 0 {
		return nil
	}
	e := &evaluation{spans: s, key: key, seg: seg, span: span}
	e.began = s.tracer.Now()
	if span != nil {
		e.child = s.tracer.At(e.began, span.Context, "evaluate", trace.Producer)
	}
	return e
}

// done ends the evaluation: revisions have followed, in this order the records of
// calls, and records of coverage.
func (e *evaluation) done(revisions []*streampb.Call, calls, coverage []stream.Out) {
	if e == nil {
		return
	}
	s := e.spans
	// One read may cause several revisions, and one span stands for all.
	others := make(map[trace.Context]*trace.Span)
	published := false
	for i, c := range revisions {
		over := s.over(e.key, c)
		published = published || e.covers(c)
		span := e.child
		if span == nil {
			if len(over) == 0 {
				continue
			}
			newest := over[len(over)-1]
			if span = others[newest]; span == nil {
				span = s.tracer.At(e.began, newest, "evaluate", trace.Producer, c.GetVrsId(), strconv.FormatUint(c.GetRevision(), 10))
				others[newest] = span
			}
			over = over[:len(over)-1]
		}
		for _, place := range over {
			if !slices.Contains(span.Links, place) {
				span.Link(place)
			}
		}
		span.Add(trace.Event{Name: "revision", Time: s.tracer.Now(), Attributes: []trace.Attribute{
			trace.String("porestream.allele", c.GetVrsId()), trace.Int("porestream.pos", c.GetPos()),
			trace.Int("porestream.revision", c.GetRevision()), trace.String("porestream.status", c.GetStatus().String()), trace.Int("porestream.depth", c.GetDepth()),
		}})
		trace.Inject(&calls[i], span.Context)
	}
	for _, c := range revisions {
		s.release(e.key, c)
	}
	for _, span := range others {
		s.tracer.End(span)
	}
	if e.child == nil {
		return
	}
	for i := range coverage {
		trace.Inject(&coverage[i], e.child.Context)
	}
	e.child.Attributes = append(e.child.Attributes, trace.Int("porestream.revisions", len(revisions)))
	s.tracer.End(e.child)
	s.tracer.End(e.span)
	if !published {
		s.wait(e.key, e.span.Context, e.seg)
	}
}

// covers reports whether the segment's read reaches the start of a call.
func (e *evaluation) covers(c *streampb.Call) bool {
	start, end := bounds(e.seg)
	return start < c.GetPos() && c.GetPos() <= end
}

// over are the traced reads that wait over the start of a call, from the oldest on.
func (s *spans) over(key regionKey, c *streampb.Call) []trace.Context {
	var places []trace.Context
	for _, w := range s.waiting[key] {
		if w.start < c.GetPos() && c.GetPos() <= w.end {
			places = append(places, w.place)
		}
	}
	return places
}

// release has those that wait over a call wait no longer.
func (s *spans) release(key regionKey, c *streampb.Call) {
	list := s.waiting[key]
	if len(list) == 0 {
		return
	}
	left := slices.DeleteFunc(list, func(w waitingRead) bool { return w.start < c.GetPos() && c.GetPos() <= w.end })
	s.held -= len(list) - len(left)
	if s.waiting[key] = left; len(left) == 0 {
		delete(s.waiting, key)
	}
}

func (s *spans) wait(key regionKey, place trace.Context, seg *streampb.Segment) {
	list := s.waiting[key]
	if len(list) >= maxWaitingRegion { // so it is not empty behind
		list = slices.Delete(list, 0, 1)
		s.waiting[key] = list
		s.held--
	}
	if s.held >= maxWaiting {
		return
	}
	start, end := bounds(seg)
	s.waiting[key] = append(list, waitingRead{place: place, start: start, end: end})
	s.held++
}

// bounds are where a segment lies on its contig, 0-based.
func bounds(seg *streampb.Segment) (start, end int64) {
	start = seg.GetStart()
	end = start
	for ops := align.Ops(seg.GetOps()); ; {
		op, rest, ok := ops.Next()
		if !ok {
			return start, end
		}
		if op.Kind != align.Insertion {
			end += int64(op.Len)
		}
		ops = rest
	}
}
