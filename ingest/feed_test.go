package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TestEachChunkIsSentOnceWhateverFails sends reads through a cluster whose operations fail in every way, in
// processes that die at any of them: each chunk is there once, in order.
func TestEachChunkIsSentOnceWhateverFails(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			k := newFakeKafka()
			k.fault = func(string) verdict {
				switch rng.IntN(60) {
				case 0, 1:
					return fails
				case 2:
					return unknown
				case 3:
					return dies
				}
				return works
			}
			run := &streampb.Run{Id: "r", Sample: "s", SampleRate: 10}
			var at []Position // behind each event
			for try := 0; ; try++ {
				if try == 1000 {
					t.Fatal("the run does not end")
				}
				ctx, kill := context.WithCancel(t.Context())
				cfg := ServiceConfig{
					Config:  Config{Topics: stream.NewTopics(""), Partitions: 2, Chunk: time.Second},
					Cluster: &process{fakeKafka: k, kill: kill}, TransactionTimeout: time.Minute, MaxBuffered: minBuffered,
				}
				err := RunFeed(ctx, run, cfg, func(ctx context.Context, f *Feed) error {
					if f.Position().Ended() {
						return nil
					}
					at = append(at[:0], feedPositions(t, run)...)
					next := f.Position().Next()
					if f.Position() != at[next] {
						return fmt.Errorf("position %d is not where its reads lead", next)
					}
					for i := range 30 {
						rd, samples := feedRead(i)
						first := feedStart(i)
						chunks := uint64(Chunks(len(samples), f.ChunkSamples()))
						if next >= first+chunks {
							continue
						}
						from := 0
						if next > first {
							from = int(next - first)
						}
						if err := f.Put(ctx, rd, samples, from); err != nil {
							return err
						}
					}
					return f.End(ctx)
				})
				kill()
				synctest.Wait()
				if err == nil {
					break
				}
			}
			// One log of each partition has its chunks in order; together they are all.
			want := int(feedStart(30)) - 1 + 2*2
			got := 0
			for topic, log := range k.logs {
				if len(topic) >= 6 && topic[:6] == "signal" {
					got += len(log)
				}
			}
			if got != want {
				t.Errorf("seed %d: %d records of signal, want %d", seed, got, want)
			}
		})
	}
}

// feedRead is a read of the test's run: 0 to 44 samples at 10 a chunk.
func feedRead(i int) (*signal.Read, []int16) {
	samples := make([]int16, 7*i%45)
	return &signal.Read{ID: fmt.Sprint("read-", i), Channel: uint32(i), NumSamples: len(samples), Calibration: signal.Calibration{Scale: 1}}, samples
}

// feedStart is the number of a read's first event.
func feedStart(i int) uint64 {
	n := uint64(1)
	for k := range i {
		_, samples := feedRead(k)
		n += uint64(Chunks(len(samples), 10))
	}
	return n
}

func feedPositions(t *testing.T, run *streampb.Run) []Position {
	t.Helper()
	var p Position
	list := []Position{p}
	if err := p.Begin(run, 10, 2); err != nil {
		t.Fatal(err)
	}
	list = append(list, p)
	for i := range 30 {
		rd, samples := feedRead(i)
		for n := range Chunks(len(samples), 10) {
			p.Chunk(rd.ID, n)
			list = append(list, p)
		}
	}
	p.End()
	// The announcement is the first event: before it the position is the zero one.
	// A feed that is under way is given that position.
	return append(list, p)
}

func TestFeedRefuses(t *testing.T) {
	k := newFakeKafka()
	cfg := func(chunk time.Duration) ServiceConfig {
		return ServiceConfig{
			Config:  Config{Topics: stream.NewTopics(""), Partitions: 2, Chunk: chunk},
			Cluster: &process{fakeKafka: k, kill: func() {}}, TransactionTimeout: time.Minute, MaxBuffered: minBuffered,
		}
	}
	run := &streampb.Run{Id: "r", Sample: "s", SampleRate: 10}
	stop := errors.New("stop")
	begun := func(ctx context.Context, f *Feed) error {
		rd, samples := feedRead(5)
		if err := f.Put(ctx, rd, samples[:3], 0); err == nil {
			t.Error("a read with other samples than announced was taken")
		}
		if err := f.Put(ctx, rd, samples, 0); err != nil {
			return err
		}
		for f.Committed() < f.Position().Next() {
			time.Sleep(time.Millisecond)
		}
		return stop
	}
	synctest.Test(t, func(t *testing.T) {
		if err := RunFeed(t.Context(), run, cfg(time.Second), begun); !errors.Is(err, stop) {
			t.Fatal(err)
		}
	})
	err := RunFeed(t.Context(), run, cfg(2*time.Second), begun)
	if want := "run r: it was begun with chunks of 10 samples, and now they have 20: give the same --chunk, or --restart to send it again from its beginning"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	spooled := cfg(time.Second)
	spooled.SpoolDir = t.TempDir()
	if err := RunFeed(t.Context(), run, spooled, begun); err == nil {
		t.Error("a feed has no spool")
	}
	synctest.Test(t, func(t *testing.T) {
		err := RunFeed(t.Context(), run, cfg(time.Second), func(context.Context, *Feed) error { return nil })
		if want := "run r: its source has stopped before its end"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}
