package ingest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
)

// recorded keeps spans by the trace that they are of.
type recorded struct {
	mu    sync.Mutex
	spans map[trace.TraceID][]*trace.Span
}

func (r *recorded) Record(s *trace.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spans == nil {
		r.spans = make(map[trace.TraceID][]*trace.Span)
	}
	r.spans[s.Trace] = append(r.spans[s.Trace], s)
}

// TestPlayedReadsAreTraced: the chunks of traced reads carry the place of their read, other
// records nothing, and a read has one span with an event for each chunk.
func TestPlayedReadsAreTraced(t *testing.T) {
	for _, share := range []float64{0, 0.5, 1} {
		synctest.Test(t, func(t *testing.T) {
			sink := new(recorded)
			cfg := config()
			cfg.Pace = 1
			cfg.Tracer = trace.New(share, sink, time.Now)
			sender := new(fakeSender)
			if _, err := play(t, t.Context(), recording(), sender, cfg); err != nil {
				t.Fatal(err)
			}
			chunks := make(map[trace.TraceID]int)
			for _, o := range sender.outs {
				place := trace.FromHeaders(o.Headers)
				var c *streampb.SignalChunk
				if o.Topic != "runs" {
					m, err := stream.DecodeSignal(o.Value)
					if err != nil {
						t.Fatal(err)
					}
					c = m.GetChunk()
				}
				switch {
				case c == nil || !cfg.Tracer.Takes(c.GetRun(), c.GetReadId()):
					if len(o.Headers) > 0 {
						t.Errorf("a record of %s carries %v", o.Topic, o.Headers)
					}
				case place != trace.ReadPlace(c.GetRun(), c.GetReadId()):
					t.Errorf("a chunk of read %s carries %v", c.GetReadId(), place)
				default:
					chunks[place.Trace]++
				}
			}
			if len(chunks) != len(sink.spans) || share == 1 && len(chunks) == 0 {
				t.Errorf("%d reads are traced, %d have spans", len(chunks), len(sink.spans))
			}
			for id, spans := range sink.spans {
				s := spans[0]
				if len(spans) != 1 || s.Name != trace.NameIngest || s.Parent != (trace.SpanID{}) || len(s.Events)+s.DroppedEvents != chunks[id] || s.End.Before(s.Start) {
					t.Errorf("%d spans, the first %+v, for %d chunks", len(spans), s, chunks[id])
				}
			}
		})
	}
}

// TestOnlyCommittedChunksAreTraced: a chunk whose transaction fails is traced once, when it
// is in Kafka; a read that never ends has its span at the end of its run.
func TestOnlyCommittedChunksAreTraced(t *testing.T) {
	sink := new(recorded)
	now := time.Unix(100, 0)
	s := newSpans(trace.New(1, sink, func() time.Time { return now }))
	chunk := func(read string, number uint32, last bool) sentChunk {
		return sentChunk{newTracedChunk("run", read, number, last), now.Add(-time.Second), 400}
	}
	s.sent(nil)
	s.sent([]sentChunk{chunk("a", 0, false), chunk("b", 0, true)})
	now = now.Add(time.Minute)
	if s.sent([]sentChunk{chunk("a", 1, false)}); len(sink.spans) != 1 {
		t.Fatalf("%d reads have ended", len(sink.spans))
	}
	s.end()
	s.end()
	a := sink.spans[trace.ReadTrace("run", "a")]
	if len(a) != 1 || len(a[0].Events) != 2 || a[0].Start != time.Unix(99, 0) || a[0].End != now || len(s.open) != 0 {
		t.Errorf("spans %+v", a)
	}
	for i := range 2 * maxOpenSpans {
		s.sent([]sentChunk{chunk(string(rune(i+'a')), 0, false)})
	}
	if len(s.open) != maxOpenSpans {
		t.Errorf("%d reads are kept", len(s.open))
	}
}

// goldenTracedEvent is a chunk of a traced read as the spool keeps it; it may never
// change.
const goldenTracedEvent = "0200000000000000000000000000000000000000000000000000000000000000008089f2d9c8d5ae05a01f01067369676e616c000972756e2d312f343137030102030572756e2d3106726561642d3907"

// TestSpooledChunkIsTraced: what the spool gives back carries what it did.
func TestSpooledChunkIsTraced(t *testing.T) {
	at := time.UnixMicro(1_510_000_000_123_456)
	e := event{after: progress{next: 8}, at: at, samples: 4000, traced: newTracedChunk("run-1", "read-9", 3, true), outs: []stream.Out{
		{Topic: "signal", Partition: stream.AnyPartition, Key: []byte("run-1/417"), Value: []byte{1, 2, 3}, Time: at},
	}}
	trace.Inject(&e.outs[0], e.traced.place)
	got := appendEvent(nil, &e)
	want, err := hex.DecodeString(goldenTracedEvent)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("it is written as\n%x\nwant\n%s", got, goldenTracedEvent)
	}
	back, err := parseEvent(got, 7)
	if err != nil || !reflect.DeepEqual(back, e) {
		t.Errorf("it is read as\n%+v, %v\nwant\n%+v", back, err, e)
	}
	for n := range got {
		if _, err := parseEvent(got[:n], 7); err == nil {
			t.Errorf("%d of %d bytes are read without an error", n, len(got))
		}
	}
}
