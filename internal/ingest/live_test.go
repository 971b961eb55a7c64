package ingest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TestLive: a source that can't wait loses what there is no room for; it is
// counted, shows as a gap, and everything else arrives once and in order.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics(prometheus.NewRegistry())
		cfg := spooled(t, queueConfig{memory: 40_000, eager: true, patience: patience, metrics: metrics}, t.TempDir(), 30_000)
		q, err := newQueue(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go q.run(ctx)
		run := &streampb.Run{Id: "r", Sample: "s", SampleRate: 1000}
		l := &Live{queue: q, topics: stream.NewTopics(""), run: run, metrics: metrics}
		if err := l.Announce(ctx, 2); err != nil {
			t.Fatal(err)
		}
		const chunks = 200
		var taken []uint64
		for i := range chunks {
			ok, err := l.Chunk(&streampb.SignalChunk{
				Run: "r", Channel: 1, ReadId: "read", Number: uint32(i), FirstSample: uint64(i * 1000), SampleCount: 1000, Vbz: make([]byte, 600),
			})
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				taken = append(taken, uint64(i*1000))
			}
			time.Sleep(time.Second) // virtual: Kafka is away
		}
		synctest.Wait()
		lost := chunks - len(taken)
		if lost == 0 || len(taken) < 40 || testutil.ToFloat64(metrics.lost) != float64(lost*1000) {
			t.Fatalf("%d chunks lost, %v samples counted", lost, testutil.ToFloat64(metrics.lost))
		}
		if l.Taken() != uint64(1+len(taken)) || l.Durable() == 0 || l.Durable() >= l.Taken() {
			t.Errorf("%d events taken, %d durable", l.Taken(), l.Durable())
		}
		var got []uint64
		for n := range l.Taken() {
			e, ok, err := q.take(ctx, n, nil)
			if err != nil || !ok {
				t.Fatal(err)
			}
			if n > 0 {
				m, err := stream.DecodeSignal(e.outs[0].Value)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, m.GetChunk().GetFirstSample())
			}
			if err := q.commit(n + 1); err != nil {
				t.Fatal(err)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(taken) {
			t.Errorf("%v arrive, %v were taken", got, taken)
		}
		if err := l.End(ctx, 2); err != nil {
			t.Fatal(err)
		}
		if e, ok, err := q.take(ctx, l.Taken()-1, nil); err != nil || !ok || !e.after.ended || len(e.outs) != 2 {
			t.Errorf("the end is %+v, %v", e, err)
		}
		if l.Durable() != l.Taken()-1 {
			t.Errorf("%d events durable, want all but the end", l.Durable())
		}
		cancel()
		synctest.Wait()
	})
}
