// Package tracing sends the spans of a process to a receiver of OpenTelemetry's
// protocol (OTLP). It never holds up the pipeline: spans without space in the queue, or without a
// receiver, are dropped and counted. docs/operate/traces.md describes how to use it.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/porestream/porestream/stream/trace"
)

const (
	// queueSpans and queueBytes bound what waits to be sent: some seconds of many traced
	// reads, or a short absence of the receiver.
	queueSpans = 8192
	queueBytes = 16 << 20
	// batchSpans and batchDelay are when a batch is sent.
	batchSpans = 512
	batchDelay = time.Second
	// uploadTimeout bounds sending a batch, with all attempts.
	uploadTimeout = 20 * time.Second
	// flushTimeout bounds sending what is left when a process ends, twice, and
	// briefTimeout that to a receiver that was away before.
	flushTimeout = 5 * time.Second
	briefTimeout = time.Second
	// complainEvery is how often, at most, a receiver that is away is spoken of.
	complainEvery = time.Minute
)

// uploader sends spans to a receiver; the clients of otlptrace are uploaders.
type uploader interface {
	UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error
}

// Exporter takes spans and sends them, a batch at a time.
type Exporter struct {
	upload   uploader
	resource resource
	log      *slog.Logger
	metrics  *Metrics
	hide     []string // what must not be logged

	queue chan *trace.Span
	bytes atomic.Int64 // of the queue and the batch that is being sent

	failing    bool
	complained time.Time
}

// Metrics counts spans by what became of them.
type Metrics struct{ sent, full, refused prometheus.Counter }

// NewMetrics registers the metrics with reg, unless that is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "porestream_trace_spans_total",
		Help: "Spans of traced reads, by what became of them: sent to the receiver, dropped because too many were waiting (full), or dropped because the receiver did not take them (refused).",
	}, []string{"result"})
	if reg != nil {
		reg.MustRegister(spans)
	}
	return &Metrics{sent: spans.WithLabelValues("sent"), full: spans.WithLabelValues("full"), refused: spans.WithLabelValues("refused")}
}

func newExporter(upload uploader, of resource, reg prometheus.Registerer, log *slog.Logger) *Exporter {
	return &Exporter{upload: upload, resource: of, log: log, metrics: NewMetrics(reg), queue: make(chan *trace.Span, queueSpans)}
}

var _ trace.Sink = (*Exporter)(nil)

// Record takes a span if there is space for it, and never waits.
func (e *Exporter) Record(span *trace.Span) {
	size := sizeOf(span)
	if e.bytes.Add(size) > queueBytes {
		e.bytes.Add(-size)
		e.metrics.full.Inc()
		return
	}
	select {
	case e.queue <- span:
	default:
		e.bytes.Add(-size)
		e.metrics.full.Inc()
	}
}

// sizeOf is about what a span takes in memory, with its form on the wire.
func sizeOf(s *trace.Span) int64 {
	n := 512 + 128*len(s.Attributes) + 64*len(s.Links)
	for i := range s.Events {
		n += 128 + 128*len(s.Events[i].Attributes)
	}
	return int64(n)
}

// Run sends spans until ctx ends, and then for a moment what is left.
func (e *Exporter) Run(ctx context.Context) {
	for {
		batch := e.gather(ctx)
		if ctx.Err() != nil {
			e.flush(ctx, batch)
			return
		}
		// A process that ends doesn't break off what is being sent, but cuts it short.
		patience := e.patience()
		sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() { time.AfterFunc(patience, cancel) })
		e.send(sending, batch)
		stop()
		cancel()
		if ctx.Err() != nil {
			e.flush(ctx, nil)
			return
		}
	}
}

// gather waits for a batch that is full or old enough.
func (e *Exporter) gather(ctx context.Context) []*trace.Span {
	var batch []*trace.Span
	var due <-chan time.Time
	for len(batch) < batchSpans {
		select {
		case span := <-e.queue:
			if batch = append(batch, span); due == nil {
				timer := time.NewTimer(batchDelay)
				defer timer.Stop()
				due = timer.C
			}
		case <-due:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// patience is how long a process that ends waits for the receiver, for what is being
// sent and for what is left.
func (e *Exporter) patience() time.Duration {
	if e.failing {
		return briefTimeout
	}
	return flushTimeout
}

// flush sends what is left within a bound.
func (e *Exporter) flush(ctx context.Context, batch []*trace.Span) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.patience())
	defer cancel()
	for {
		for len(batch) < batchSpans && len(e.queue) > 0 {
			batch = append(batch, <-e.queue)
		}
		if len(batch) == 0 {
			return
		}
		e.send(ctx, batch)
		batch = nil
	}
}

func (e *Exporter) send(ctx context.Context, batch []*trace.Span) {
	size := int64(0)
	for _, span := range batch {
		size += sizeOf(span)
	}
	defer e.bytes.Add(-size)
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	err := ctx.Err()
	if err == nil {
		err = e.upload.UploadTraces(ctx, e.resource.spans(batch))
	}
	if err == nil {
		e.metrics.sent.Add(float64(len(batch)))
		if e.failing {
			e.failing = false
			e.log.Info("the receiver of traces takes spans again")
		}
		return
	}
	e.metrics.refused.Add(float64(len(batch)))
	if now := time.Now(); !e.failing || now.Sub(e.complained) >= complainEvery {
		e.failing, e.complained = true, now
		e.log.Warn("spans are dropped: the receiver of traces does not take them; the pipeline goes on", "spans", len(batch), "err", e.sanitized(err))
	}
}

// sanitized is an error without secrets, in one line of bounded length: a receiver may say
// anything.
func (e *Exporter) sanitized(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	for _, secret := range e.hide {
		text = strings.ReplaceAll(text, secret, "...")
	}
	const limit = 300
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in time: %s", text)
	}
	return errors.New(text)
}
