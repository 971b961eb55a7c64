package ingest

import (
	"sync"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// maxOpenSpans bounds the traced reads whose end has not come; the largest flow cells
// have three thousand channels.
const maxOpenSpans = 4096

// tracedChunk says of an event that it is a chunk of a traced read.
type tracedChunk struct {
	run, read string
	place     trace.Context // the read's span, which the record carries
	number    uint32        // of the chunk within the read
	last      bool
}

func newTracedChunk(run, read string, number uint32, last bool) *tracedChunk {
	return &tracedChunk{run: run, read: read, place: trace.ReadPlace(run, read), number: number, last: last}
}

// traced is what a chunk's event says of traces, nil if its read is not traced, after
// it has had the record carry the read's span.
func traced(t *trace.Tracer, c *streampb.SignalChunk, out *stream.Out) *tracedChunk {
	if !t.Takes(c.GetRun(), c.GetReadId()) {
		return nil
	}
	tc := newTracedChunk(c.GetRun(), c.GetReadId(), c.GetNumber(), c.GetEndOfRead())
	trace.Inject(out, tc.place)
	return tc
}

// spans are the spans of reads whose chunks are being sent. It is safe for concurrent
// use, and does nothing without a tracer.
type spans struct {
	tracer *trace.Tracer

	mu   sync.Mutex
	open map[trace.TraceID]*trace.Span
}

func newSpans(t *trace.Tracer) *spans {
	return &spans{tracer: t, open: make(map[trace.TraceID]*trace.Span)}
}

// sent notes that the chunks of events are in Kafka. Of a read that was begun by
// another process, or before Kafka was away, the span begins with what comes first.
func (s *spans) sent(events []sentChunk) {
	if len(events) == 0 {
		return
	}
	now := s.tracer.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.chunk(e, now)
	}
}

// sentChunk is a traced chunk that is in Kafka.
type sentChunk struct {
	*tracedChunk
	at      time.Time // when it came in
	samples int
}

func (s *spans) chunk(c sentChunk, now time.Time) {
	id := c.place.Trace
	span := s.open[id]
	if span == nil {
		span = s.tracer.At(c.at, trace.Context{Trace: id}, trace.NameIngest, trace.Producer)
		if span == nil || len(s.open) >= maxOpenSpans {
			return
		}
		span.Attributes = append(span.Attributes, trace.String(trace.KeyRun, c.run), trace.String(trace.KeyRead, c.read))
		s.open[id] = span
	}
	span.Add(trace.Event{Name: "chunk", Time: now, Attributes: []trace.Attribute{
		trace.Int("porestream.chunk.number", c.number), trace.Int("porestream.chunk.samples", c.samples),
		trace.Float("porestream.chunk.waited", now.Sub(c.at).Seconds()),
	}})
	if c.last {
		delete(s.open, id)
		s.tracer.EndAt(span, now)
	}
}

// end ends the spans of reads whose last chunk did not come before their run's end.
func (s *spans) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.open {
		span.Attributes = append(span.Attributes, trace.Bool("porestream.read.end_missing", true))
		s.tracer.End(span)
	}
	clear(s.open)
}
