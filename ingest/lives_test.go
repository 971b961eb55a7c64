package ingest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// TestRunsOfOneProcessComeAndGo: runs of one process begin and end at any time. One stays in the spool
// when the process ends, and the next process knows of it.
func TestRunsOfOneProcessComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kafka := newFakeKafka()
		var away atomic.Bool
		kafka.fault = func(string) verdict {
			if away.Load() {
				return fails
			}
			return works
		}
		cfg := serviceConfig(kafka)
		cfg.SpoolDir = filepath.Join(t.TempDir(), "spool")
		lives, err := OpenLives(cfg, 2)
		if err != nil {
			t.Fatal(err)
		}
		run := func(id string) *streampb.Run { return &streampb.Run{Id: id, Sample: "s", SampleRate: 1000} }
		put := func(ctx context.Context, l *Live, n int) error {
			for i := range n {
				if err := l.Put(ctx, &streampb.SignalChunk{
					Run: l.run.GetId(), Channel: 1, ReadId: "read", FirstSample: uint64(i * 1000), SampleCount: 1000, Vbz: make([]byte, 100_000),
				}); err != nil {
					return err
				}
			}
			return nil
		}
		long := make(chan error)
		stopped := errors.New("stopped")
		go func() {
			long <- lives.Run(t.Context(), run("long"), func(ctx context.Context, l *Live) error {
				if err := put(ctx, l, 100); err != nil { // more than memory
					return err
				}
				for l.Committed() < 101 {
					time.Sleep(time.Second)
				}
				away.Store(true)
				if err := put(ctx, l, 100); err != nil {
					return err
				}
				for l.Durable() < 201 {
					time.Sleep(time.Second)
				}
				if l.Committed() != 101 || l.Taken() != 201 {
					t.Errorf("%d events committed and %d taken, want 101 and 201", l.Committed(), l.Taken())
				}
				return stopped
			})
		}()
		synctest.Wait()
		if err := lives.Run(t.Context(), run("long"), nil); err == nil {
			t.Error("a run is written twice at the same time")
		}
		for range 2 {
			err := lives.Run(t.Context(), run("short"), func(ctx context.Context, l *Live) error { return put(ctx, l, 3) })
			over, again := errors.AsType[*EndedError](err)
			kafka.mu.Lock()
			ended := kafka.cursor["short"].GetEnded()
			kafka.mu.Unlock()
			if !ended || err != nil && !again || again && over.Events != 5 {
				t.Errorf("short run: %v, ended: %v", err, ended)
			}
		}
		if err := <-long; !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		away.Store(false)
		lives.Close(t.Context())

		if lives, err = OpenLives(cfg, 2); err != nil {
			t.Fatal(err)
		}
		defer lives.Close(t.Context())
		if left := lives.Left(); !slices.Equal(left, []string{"long"}) {
			t.Errorf("left in the spool: %v", left)
		}
		err = lives.Run(t.Context(), run("long"), func(_ context.Context, l *Live) error {
			if l.Taken() != 201 {
				t.Errorf("goes on behind %d events", l.Taken())
			}
			return nil
		})
		if err != nil || kafka.cursor["long"].GetNext() != 202 {
			t.Errorf("%v, %d events", err, kafka.cursor["long"].GetNext())
		}
		if left := lives.Left(); left != nil {
			t.Errorf("still in the spool: %v", left)
		}
	})
}

// TestSpooledAnnouncement: what a run was announced as is known when only the
// spool has its beginning.
func TestSpooledAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kafka := newFakeKafka()
		opened := false
		kafka.fault = func(op string) verdict {
			if op == "commit" && opened {
				return fails
			}
			opened = opened || op == "commit"
			return works
		}
		cfg := serviceConfig(kafka)
		cfg.SpoolDir = filepath.Join(t.TempDir(), "spool")
		want := &streampb.Run{Id: "r", Sample: "s", SampleRate: 1000, Kit: "k"}
		stopped := errors.New("stopped")
		for again := range 2 {
			lives, err := OpenLives(cfg, 2)
			if err != nil {
				t.Fatal(err)
			}
			got, err := lives.Spooled("r")
			if err != nil || (again == 0) != (got == nil) || again == 1 && !proto.Equal(got, want) {
				t.Errorf("announced as %v, %v", got, err)
			}
			opened = again > 0
			err = lives.Run(t.Context(), want, func(_ context.Context, l *Live) error {
				for l.Durable() == 0 {
					time.Sleep(time.Second)
				}
				return stopped
			})
			if again == 0 && !errors.Is(err, stopped) {
				t.Fatal(err)
			}
			lives.Close(t.Context())
		}
	})
}
