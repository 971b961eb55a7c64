package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TestLossesAreCountedWhileKafkaIsAway: Kafka goes away for long under a source that can't wait, and the
// process dies meanwhile. What finds no space is lost, counted, and shows as a
// gap; what was durable when the process died arrives, as does everything that
// was taken later: once and in order.
func TestLossesAreCountedWhileKafkaIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kafka := newFakeKafka()
		var away bool
		kafka.fault = func(string) verdict {
			if away {
				return fails
			}
			return works
		}
		run := &streampb.Run{Id: "r", Sample: "s", SampleRate: 1000}
		metrics := NewMetrics(prometheus.NewRegistry())
		cfg := serviceConfig(kafka)
		cfg.Metrics = metrics
		cfg.MaxBuffered, cfg.SpoolDir, cfg.SpoolMax = minBuffered, filepath.Join(t.TempDir(), "spool"), 4<<20

		sample := uint64(0)
		var taken []uint64 // first samples of the chunks that were taken
		feed := func(ctx context.Context, l *Live, chunks int) error {
			for range chunks {
				ok, err := l.Chunk(&streampb.SignalChunk{
					Run: "r", Channel: 1, ReadId: "read", Number: uint32(sample / 1000), FirstSample: sample, SampleCount: 1000, Vbz: make([]byte, 100_000),
				})
				if err != nil {
					return err
				}
				if ok {
					taken = append(taken, sample)
				}
				sample += 1000
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}
		died := errors.New("the power is cut")
		err := RunLive(t.Context(), run, cfg, func(ctx context.Context, l *Live) error {
			if err := feed(ctx, l, 10); err != nil {
				return err
			}
			if l.Durable() < l.Taken()-1 {
				t.Errorf("%d of %d events are durable while Kafka is there", l.Durable(), l.Taken())
			}
			away = true
			if err := feed(ctx, l, 90); err != nil {
				return err
			}
			lost := 100 - len(taken)
			if lost < 30 || testutil.ToFloat64(metrics.lost) != float64(lost*1000) {
				t.Errorf("%d chunks lost, %v samples counted", lost, testutil.ToFloat64(metrics.lost))
			}
			if l.Taken() != uint64(1+len(taken)) || l.Durable() >= l.Taken() || l.Durable() < 40 {
				t.Errorf("%d events taken, %d durable", l.Taken(), l.Durable())
			}
			taken = taken[:l.Durable()-1] // a source that keeps nothing has lost the rest
			return died
		})
		if !errors.Is(err, died) {
			t.Fatal(err)
		}
		away = false
		err = RunLive(t.Context(), run, cfg, func(ctx context.Context, l *Live) error {
			if l.Taken() != uint64(1+len(taken)) {
				t.Errorf("goes on behind %d events, want %d", l.Taken(), 1+len(taken))
			}
			return feed(ctx, l, 20)
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for n := range 3 {
			for _, line := range kafka.logs[fmt.Sprintf("signal/%d r", n)] {
				var key string
				var value []byte
				if _, err := fmt.Sscanf(line, "%q=%x", &key, &value); err != nil {
					t.Fatal(err)
				}
				m, err := stream.DecodeSignal(value)
				if err != nil {
					t.Fatal(err)
				}
				if c := m.GetChunk(); c != nil {
					got = append(got, c.GetFirstSample())
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(taken) {
			t.Errorf("%v arrive,\n%v were taken", got, taken)
		}
		if !kafka.cursor["r"].GetEnded() {
			t.Error("the run has not ended")
		}
		if err := RunLive(t.Context(), run, cfg, nil); err == nil {
			t.Error("a run that has ended begins again")
		}
	})
}
