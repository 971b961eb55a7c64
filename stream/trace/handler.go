package trace

import (
	"context"
	"hash/crc32"
	"strconv"
	"sync"
	"time"

	"github.com/porestream/porestream/stream"
)

// RecordSpan begins the span of a stage's work on a record, below the place in a
// trace that the record carries; nil if it carries none. The record's content names
// the span, so one that is delivered twice has the same span twice.
func (t *Tracer) RecordSpan(stage string, rec stream.Record) *Span {
	if t == nil {
		return nil
	}
	below := FromHeaders(rec.Headers)
	if below.IsZero() {
		return nil
	}
	span := t.Begin(below, stage, Consumer, string(rec.Key), strconv.FormatUint(uint64(crc32.ChecksumIEEE(rec.Value)), 16))
	span.Attributes = append(span.Attributes,
		String("messaging.system", "kafka"), String("messaging.destination.name", rec.Topic),
		String("messaging.destination.partition.id", strconv.Itoa(int(rec.Partition))), Int("messaging.kafka.offset", rec.Offset))
	if !rec.Time.IsZero() {
		span.Attributes = append(span.Attributes, Float("porestream.record.age", span.Start.Sub(rec.Time).Seconds()))
	}
	return span
}

// Around has the handlers of a stage make a span of each live record that carries a
// place in a trace, and has what they emit for it carry the span. It is for handlers
// that emit what follows from a record before Handle returns. Without a tracer
// newHandler is returned as it is.
func Around(t *Tracer, stage string, newHandler stream.NewHandler) stream.NewHandler {
	if t == nil {
		return newHandler
	}
	return func(topic string, partition, partitions int32) (stream.Handler, error) {
		h, err := newHandler(topic, partition, partitions)
		if err != nil {
			return nil, err
		}
		return &traced{Handler: h, tracer: t, stage: stage}, nil
	}
}

type traced struct {
	stream.Handler
	tracer *Tracer
	stage  string
}

// Tick gives the handler the time, if it wants it.
func (h *traced) Tick(ctx context.Context, now time.Time, emit stream.Emitter) error {
	if t, ok := h.Handler.(stream.Ticker); ok {
		return t.Tick(ctx, now, emit)
	}
	return nil
}

// Handle is the handler's within a span. Records that are replayed don't come here,
// and make none.
func (h *traced) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	span := h.tracer.RecordSpan(h.stage, rec)
	if span == nil {
		return h.Handler.Handle(ctx, rec, emit)
	}
	e := &tracedEmitter{Emitter: emit, span: span.Context}
	err := h.Handler.Handle(ctx, rec, e)
	records := e.end()
	if err != nil {
		return err // it is delivered again, and its span is made then
	}
	span.Attributes = append(span.Attributes, Int("porestream.records", records))
	h.tracer.End(span)
	return nil
}

// tracedEmitter has records carry a span while one record is handled. A handler may keep it: what is emitted afterwards,
// by another goroutine too, is of no span.
type tracedEmitter struct {
	stream.Emitter
	span Context

	mu      sync.Mutex
	records int
	ended   bool
}

func (e *tracedEmitter) Emit(ctx context.Context, out []stream.Out, resolved []int64) error {
	if e.count(len(out)) {
		for i := range out {
			Inject(&out[i], e.span)
		}
	}
	return e.Emitter.Emit(ctx, out, resolved)
}

// count adds n records to the span, and reports whether the span was still open.
func (e *tracedEmitter) count(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return false
	}
	e.records += n
	return true
}

// end returns how many records were of the span.
func (e *tracedEmitter) end() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	return e.records
}
