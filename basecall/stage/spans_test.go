package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/trace"
)

// recordedSpans keeps spans.
type recordedSpans struct {
	mu    sync.Mutex
	spans []*trace.Span
}

func (r *recordedSpans) Record(s *trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, s)
}

// summary lists the spans of a read as name(parent's name), sorted.
func (r *recordedSpans) summary(read string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[trace.SpanID]string{trace.ReadPlace("run-1", read).Span: "ingest", {}: ""}
	for _, s := range r.spans {
		names[s.Span] = s.Name
	}
	var list []string
	for _, s := range r.spans {
		if s.Trace == trace.ReadTrace("run-1", read) {
			list = append(list, fmt.Sprintf("%s(%s)", s.Name, names[s.Parent]))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// carrying has a record carry the place of a read.
func carrying(rec stream.Record, read string) stream.Record {
	rec.Headers = []stream.Header{{Key: trace.Header, Value: []byte(trace.ReadPlace("run-1", read).String())}}
	return rec
}

const steps = "align(basecall) basecall(ingest) infer(basecall) queue(basecall)"

// TestReadsAreTraced: a read is traced if its chunks say so or if it is of the share of
// this process; one whose chunks were replayed has no span for them; others have none.
func TestReadsAreTraced(t *testing.T) {
	for _, c := range []struct {
		name     string
		share    float64
		carried  bool
		replayed int // of the five records: a marker, and the four chunks of the read
		want     string
	}{
		{"not", 0, false, 0, ""},
		{"by its chunks", 0, true, 0, steps},
		{"by the share", 1, false, 0, strings.Replace(steps, "(ingest)", "()", 1)},
		{"by both", 1, true, 0, steps},
		{"its last chunk is live", 0, true, 4, steps},
		{"all is replayed", 1, true, 5, ""},
	} {
		p := &partition{t: t}
		p.start("run-1").read(1, "a", 100, 250)
		synctest.Test(t, func(t *testing.T) {
			sink := new(recordedSpans)
			cfg := testConfig()
			cfg.Tracer = trace.New(c.share, sink, time.Now)
			cfg.Caller = fakeCaller{before: func(context.Context, basecall.Read) error { time.Sleep(time.Second); return nil }}
			h := newHandler(t, cfg)
			emit := new(fakeEmitter)
			for i, rec := range p.recs {
				if c.carried && i > 0 {
					rec = carrying(rec, "a")
				}
				var err error
				if i < c.replayed {
					err = h.Replay(t.Context(), rec)
				} else {
					err = h.Handle(t.Context(), rec, emit)
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			if err := h.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := sink.summary("a"); got != c.want {
				t.Errorf("%s: spans %s, want %s", c.name, got, c.want)
			}
			checkCarried(t, emit.outs, sink.spans)
			for _, s := range sink.spans {
				want := map[string]time.Duration{"infer": time.Second, "basecall": time.Duration(4-max(c.replayed, 1))*time.Minute + time.Second}[s.Name]
				if took := s.End.Sub(s.Start); took != want {
					t.Errorf("%s: %s takes %v, want %v", c.name, s.Name, took, want)
				}
			}
			if open := len(h.(*handler).spans.open); open != 0 {
				t.Errorf("%s: %d reads are left", c.name, open)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkCarried: segments carry the basecall span, if there is one, and nothing else carries
// anything.
func checkCarried(t *testing.T, outs []stream.Out, spans []*trace.Span) {
	t.Helper()
	i := slices.IndexFunc(spans, func(s *trace.Span) bool { return s.Name == Name })
	for _, o := range outs {
		want := trace.Context{}
		if m, err := stream.DecodeReads(o.Value); err == nil && m.GetSegment() != nil && i >= 0 {
			want = spans[i].Context
		}
		if got := trace.FromHeaders(o.Headers); got != want || want.IsZero() && len(o.Headers) > 0 {
			t.Errorf("a record of %s carries %v, want %v", o.Topic, got, want)
		}
	}
}

// TestTracedReadsLoseTheirEnds: a read that another one ends, or its run, has a span of its
// own, and what is delivered again has the same spans.
func TestTracedReadsLoseTheirEnds(t *testing.T) {
	p := &partition{t: t}
	p.start("run-1")
	p.chunk(chunksOf(1, "lost", 100, 250)[0])
	p.read(1, "next", 300, 420)
	p.chunk(chunksOf(2, "open", 500, 620)[0])
	p.end("run-1")
	var before []trace.Context
	for range 2 {
		sink := new(recordedSpans)
		cfg := testConfig()
		cfg.Tracer = trace.New(1, sink, time.Now)
		h := newHandler(t, cfg)
		handleAll(t, h, p.recs, new(fakeEmitter))
		if err := h.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, read := range []string{"lost", "next", "open"} {
			if got := sink.summary(read); got != strings.Replace(steps, "(ingest)", "()", 1) {
				t.Errorf("%s: spans %s", read, got)
			}
		}
		var now []trace.Context
		for _, s := range sink.spans {
			now = append(now, s.Context)
		}
		slices.SortFunc(now, func(a, b trace.Context) int { return strings.Compare(a.String(), b.String()) })
		if before != nil && !slices.Equal(before, now) {
			t.Errorf("again the spans are %v, before %v", now, before)
		}
		before = now
		if len(h.(*handler).spans.open) != 0 {
			t.Error("reads are left")
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenSpansAreBounded: memory for traces is bounded, whatever is sent.
func TestOpenSpansAreBounded(t *testing.T) {
	s := newSpans(trace.New(1, new(recordedSpans), time.Now))
	for i := range maxTraced + 10 {
		c := chunkOf(1, fmt.Sprint(i), 0, 0, 0, false)
		s.touch(stream.Record{}, c)
		s.touch(stream.Record{}, c)
	}
	if len(s.open) != maxTraced {
		t.Errorf("%d reads", len(s.open))
	}
	s.ended("run-1")
	if len(s.open) != 0 {
		t.Errorf("%d reads of an ended run", len(s.open))
	}
}
