package tracing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/porestream/porestream/stream/trace"
	"github.com/porestream/porestream/testenv"
)

// fakeReceiver takes the spans that upload accepts.
type fakeReceiver struct {
	upload func(ctx context.Context, n int) error
	mu     sync.Mutex
	got    []int // spans of each batch
}

func (r *fakeReceiver) batches() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func (r *fakeReceiver) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	n := len(spans[0].ScopeSpans[0].Spans)
	if r.upload != nil {
		if err := r.upload(ctx, n); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, n)
	return nil
}

func span() *trace.Span {
	return &trace.Span{Context: trace.ReadPlace("run", "read"), Name: "n"}
}

func counts(e *Exporter) [3]float64 {
	return [3]float64{testutil.ToFloat64(e.metrics.sent), testutil.ToFloat64(e.metrics.full), testutil.ToFloat64(e.metrics.refused)}
}

// running starts an exporter in a bubble; stop ends it.
func running(t *testing.T, r *fakeReceiver) (e *Exporter, stop func(), log *testenv.Log) {
	log = new(testenv.Log)
	e = newExporter(r, resource{}, nil, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx) }()
	return e, func() { cancel(); <-done }, log
}

// TestBatches: a batch goes when it is full or a second old, and what is left when
// the process ends.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(fakeReceiver)
		e, stop, _ := running(t, r)
		for range batchSpans + 3 {
			e.Record(span())
		}
		synctest.Wait()
		if got := r.batches(); !slices.Equal(got, []int{batchSpans}) {
			t.Errorf("at once: batches %v", got)
		}
		time.Sleep(batchDelay)
		synctest.Wait()
		if got := r.batches(); !slices.Equal(got, []int{batchSpans, 3}) {
			t.Errorf("after a second: batches %v", got)
		}
		e.Record(span())
		stop()
		if len(r.batches()) != 3 || counts(e) != [3]float64{batchSpans + 4, 0, 0} || e.bytes.Load() != 0 {
			t.Errorf("at the end: batches %v, %v, %d bytes", r.batches(), counts(e), e.bytes.Load())
		}
	})
}

// TestReceiverAway: a receiver that hangs holds nobody up, memory is bounded, every span
// is counted, and the log says so once a minute.
func TestReceiverAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		r := &fakeReceiver{upload: func(ctx context.Context, _ int) error {
			if !away.Load() {
				return nil
			}
			<-ctx.Done()
			return errors.New("secret\nand the like: " + ctx.Err().Error())
		}}
		e, stop, log := running(t, r)
		e.hide = []string{"secret"}
		const spans = 3 * queueSpans
		began := time.Now()
		for range spans {
			e.Record(span())
		}
		if time.Since(began) != 0 {
			t.Error("recording took time")
		}
		if e.bytes.Load() > queueBytes || len(e.queue) > queueSpans {
			t.Errorf("%d bytes and %d spans wait", e.bytes.Load(), len(e.queue))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		c := counts(e)
		if c[0] != 0 || c[1] == 0 || c[1]+c[2] != spans {
			t.Errorf("of %d spans %v are sent, without room, refused", spans, c)
		}
		lines := strings.Count(log.String(), "\n")
		if lines == 0 || lines > 11 || strings.Contains(log.String(), "secret") || strings.Count(log.String(), "spans are dropped") != lines {
			t.Errorf("in ten minutes the log says\n%s", log)
		}
		away.Store(false)
		e.Record(span())
		time.Sleep(batchDelay)
		synctest.Wait()
		if counts(e)[0] != 1 || !strings.Contains(log.String(), "takes spans again") {
			t.Errorf("back again: %v\n%s", counts(e), log)
		}
		stop()
	})
}

// TestEndIsBounded: a process ends soon, whether the receiver answers or not, and
// sooner if it was away before.
func TestEndIsBounded(t *testing.T) {
	for name, before := range map[string]bool{"it hangs": false, "it was away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &fakeReceiver{upload: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
				e, stop, _ := running(t, r)
				limit := flushTimeout
				if before {
					e.Record(span())
					time.Sleep(batchDelay + uploadTimeout)
					synctest.Wait()
					limit = briefTimeout
				}
				for range 5 * batchSpans {
					e.Record(span())
				}
				began := time.Now()
				stop()
				if took := time.Since(began); took > 2*limit {
					t.Errorf("ending takes %v", took)
				}
				if c := counts(e); c[0] != 0 || c[1]+c[2] < 5*batchSpans || e.bytes.Load() != 0 {
					t.Errorf("%v, %d bytes", c, e.bytes.Load())
				}
			})
		})
	}
}

// TestLargeSpans: spans are bounded by what they take, too.
func TestLargeSpans(t *testing.T) {
	e := newExporter(new(fakeReceiver), resource{}, nil, slog.New(slog.DiscardHandler))
	for range queueSpans {
		s := span()
		for range trace.MaxEvents {
			s.Add(trace.Event{Name: "chunk", Attributes: []trace.Attribute{trace.Int("n", 1)}})
		}
		e.Record(s)
	}
	if e.bytes.Load() > queueBytes || counts(e)[1] == 0 || len(e.queue) == 0 {
		t.Errorf("%d spans of %d bytes wait, %v", len(e.queue), e.bytes.Load(), counts(e))
	}
}

func TestErrorsAreShort(t *testing.T) {
	e := &Exporter{hide: []string{"secret-token", "secret"}}
	err := e.sanitized(errors.New("body: \x1b[31m" + strings.Repeat("x ", 5000) + "secret"))
	if text := err.Error(); len(text) > 320 || strings.ContainsAny(text, "\n\r") || strings.Contains(text, "secret") {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

// BenchmarkRecord is what a span costs who makes it.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name string
		take bool
	}{{"taken", true}, {"dropped", false}} {
		b.Run(c.name, func(b *testing.B) {
			e := newExporter(new(fakeReceiver), resource{}, nil, slog.New(slog.DiscardHandler))
			if c.take {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				go e.Run(ctx)
			} else {
				e.bytes.Store(queueBytes)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Record(span())
			}
		})
	}
}
