package stage

import (
	"strconv"
	"time"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// maxTraced bounds the traced reads of a partition whose end has not come.
const maxTraced = 4096

// spans are the traces of a partition's open reads. They follow from live records alone
// and are no state: what is lost of them, with the process or the partition, is missing
// in traces and nowhere else.
type spans struct {
	tracer *trace.Tracer // nil: nothing is traced
	open   map[readKey]*openSpan
}

// openSpan is a traced read whose end has not come.
type openSpan struct {
	below  trace.Context
	began  time.Time // when the first of its chunks was here
	chunks int
}

func newSpans(t *trace.Tracer) spans { return spans{tracer: t, open: make(map[readKey]*openSpan)} }

// touch notes a live chunk that was added. A read is traced if its chunks say so, or if
// it is one of the share of this process: then its trace begins here.
func (s *spans) touch(rec stream.Record, c *streampb.SignalChunk) {
	if s.tracer == nil {
		return
	}
	key := readKey{c.GetRun(), c.GetReadId()}
	if o := s.open[key]; o != nil {
		o.chunks++
		return
	}
	below := trace.FromHeaders(rec.Headers)
	if below.IsZero() && s.tracer.Takes(key.run, key.id) {
		below = trace.Context{Trace: trace.ReadTrace(key.run, key.id)}
	}
	if below.IsZero() || len(s.open) >= maxTraced {
		return
	}
	s.open[key] = &openSpan{below: below, began: s.tracer.Now(), chunks: 1}
}

// take begins the span of a read that is finished or cut, nil if it is not traced.
func (s *spans) take(read *assembledRead) *readSpan {
	if s.tracer == nil {
		return nil
	}
	key := readKey{read.run, read.id}
	o := s.open[key]
	delete(s.open, key)
	now := s.tracer.Now()
	if o == nil {
		// All of its chunks were replayed, so their headers were not read.
		if !s.tracer.Takes(key.run, key.id) {
			return nil
		}
		o = &openSpan{below: trace.ReadPlace(key.run, key.id), began: now}
	}
	span := s.tracer.At(o.began, o.below, Name, trace.Consumer, strconv.Itoa(read.firstPart))
	gaps, missing := read.missing()
	span.Attributes = append(span.Attributes,
		trace.String(trace.KeyRun, read.run), trace.String(trace.KeyRead, read.id), trace.Int("porestream.channel", read.channel),
		trace.Int("porestream.samples", read.samples()), trace.Int("porestream.chunks", o.chunks))
	if gaps > 0 {
		span.Attributes = append(span.Attributes, trace.Int("porestream.gaps", gaps), trace.Int("porestream.missing_samples", missing))
	}
	span.Add(trace.Event{Name: "complete", Time: now})
	return &readSpan{tracer: s.tracer, span: span, complete: now}
}

// ended forgets the reads of a run that has ended.
func (s *spans) ended(run string) {
	for key := range s.open {
		if key.run == run {
			delete(s.open, key)
		}
	}
}

// readSpan is the span of a traced read that is being called. Its methods do nothing
// for nil, which is a read that is not traced. It belongs to the goroutine that works
// on the read.
type readSpan struct {
	tracer   *trace.Tracer
	span     *trace.Span
	children []*trace.Span
	complete time.Time // when the read was
}

func (s *readSpan) now() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.tracer.Now()
}

// part adds a span below the read's for one of its parts.
func (s *readSpan) part(name string, part int, from, to time.Time, attributes ...trace.Attribute) {
	if s == nil {
		return
	}
	child := s.tracer.At(from, s.span.Context, name, trace.Internal, strconv.Itoa(part))
	child.End, child.Attributes = to, attributes
	if part > 0 {
		child.Attributes = append(child.Attributes, trace.Int("porestream.part", part))
	}
	s.children = append(s.children, child)
}

// admitted notes that work on the read begins.
func (s *readSpan) admitted() {
	if s != nil {
		s.part("queue", 0, s.complete, s.now())
	}
}

// observe has a stream keep times, if it can.
func (s *readSpan) observe(stream Stream) *basecall.Timings {
	if s == nil {
		return nil
	}
	t := new(basecall.Timings)
	if o, can := stream.(interface{ Observe(*basecall.Timings) }); can {
		o.Observe(t)
	}
	return t
}

// called notes that a part has been called, since when its last samples were handed
// over. Most of its windows were computed before that, while the read went on.
func (s *readSpan) called(part int, since time.Time, t *basecall.Timings, bases int) {
	if s == nil {
		return
	}
	now := s.now()
	if t.Windows == 0 {
		s.part("infer", part, since, now, trace.Int("porestream.bases", bases))
		return
	}
	s.part("infer", part, since, t.Last, trace.Int("porestream.windows", t.Windows), trace.Float("porestream.wait_seconds", t.Wait.Seconds()))
	s.part("decode", part, t.First, t.Joined, trace.Int("porestream.bases", bases), trace.Float("porestream.busy_seconds", t.Decode.Seconds()))
}

// carry has the records of segments carry the read's span.
func (s *readSpan) carry(out *stream.Out) {
	if s != nil {
		trace.Inject(out, s.span.Context)
	}
}

// emitted records the spans: what follows from the read is on its way.
func (s *readSpan) emitted(records int) {
	if s == nil {
		return
	}
	s.span.Attributes = append(s.span.Attributes, trace.Int("porestream.records", records))
	for _, child := range s.children {
		s.tracer.EndAt(child, child.End)
	}
	s.tracer.End(s.span)
}
