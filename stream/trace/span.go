package trace

import "time"

// Kind says on which side of a topic a span is, as OpenTelemetry has it.
type Kind int

// Kinds of spans.
const (
	Internal Kind = iota
	Producer      // it ends with records written
	Consumer      // it begins with a record read
)

// Attribute is one fact about a span or an event. Its value is a string, an int64, a
// float64 or a bool.
type Attribute struct {
	Key   string
	Value any
}

// Keys of attributes that spans of several stages have.
const (
	KeyRun  = "porestream.run"
	KeyRead = "porestream.read"
)

// String, Int, Float and Bool make attributes.
func String(key, value string) Attribute { return Attribute{key, value} }

// Int makes an attribute of an integer.
func Int[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64](key string, value T) Attribute {
	return Attribute{key, int64(value)}
}

// Float makes an attribute of a number.
func Float(key string, value float64) Attribute { return Attribute{key, value} }

// Bool makes an attribute of a truth value.
func Bool(key string, value bool) Attribute { return Attribute{key, value} }

// Event is a moment within a span.
type Event struct {
	Name       string
	Time       time.Time
	Attributes []Attribute
}

// Bounds of what a span holds; they are OpenTelemetry's defaults.
const (
	MaxEvents = 128
	MaxLinks  = 128
)

// Span is one piece of work on a read. It belongs to one goroutine until it is
// recorded, and to nobody who could change it after.
type Span struct {
	Context    // of the span itself
	Parent     SpanID
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Events     []Event
	Links      []Context
	// DroppedEvents and DroppedLinks count what exceeded the span's limits.
	DroppedEvents, DroppedLinks int
}

// Add adds an event, or counts it if there are enough.
func (s *Span) Add(e Event) {
	if len(s.Events) >= MaxEvents {
		s.DroppedEvents++
		return
	}
	s.Events = append(s.Events, e)
}

// Link links the span to another trace, or counts it if there are enough links.
func (s *Span) Link(c Context) {
	if len(s.Links) >= MaxLinks {
		s.DroppedLinks++
		return
	}
	s.Links = append(s.Links, c)
}

// Sink takes spans that are over. It must not block.
type Sink interface{ Record(span *Span) }

// Tracer decides which reads are traced and takes their spans. A nil *Tracer traces
// nothing. It is safe for concurrent use.
type Tracer struct {
	sampler sampler
	sink    Sink
	now     func() time.Time
}

// New returns a tracer of a share of all reads, from 0 to 1, and of those that
// another process traces.
func New(ratio float64, sink Sink, now func() time.Time) *Tracer {
	return &Tracer{sampler: newSampler(ratio), sink: sink, now: now}
}

// Takes reports whether a read is in the tracer's share.
func (t *Tracer) Takes(run, read string) bool {
	return t != nil && t.sampler != 0 && t.sampler.takes(ReadTrace(run, read))
}

// Now is the time; the zero time without a tracer.
func (t *Tracer) Now() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.now()
}

// Begin begins a span below a place in a trace. what distinguishes spans of one name
// there. It returns nil without a tracer or a trace.
func (t *Tracer) Begin(below Context, name string, kind Kind, what ...string) *Span {
	if t == nil || below.IsZero() {
		return nil
	}
	return t.At(t.now(), below, name, kind, what...)
}

// At is Begin for a span that began at a time.
func (t *Tracer) At(start time.Time, below Context, name string, kind Kind, what ...string) *Span {
	if t == nil || below.IsZero() {
		return nil
	}
	return &Span{Context: below.Child(append([]string{name}, what...)...), Parent: below.Span, Name: name, Kind: kind, Start: start}
}

// End records a span as ended now; nil is passed over.
func (t *Tracer) End(span *Span) {
	if t == nil || span == nil {
		return
	}
	t.EndAt(span, t.now())
}

// EndAt records a span as ended at a time; nil is passed over. A clock that was set
// back makes no span end before it began.
func (t *Tracer) EndAt(span *Span, end time.Time) {
	if t == nil || span == nil {
		return
	}
	if end.Before(span.Start) {
		end = span.Start
	}
	span.End = end
	t.sink.Record(span)
}
