package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/stream"
)

// numbered is event n of a run, of some size.
func numbered(n uint64, size int) event {
	at := time.UnixMicro(int64(n))
	e := event{after: progress{next: n + 1}, at: at, samples: int(n % 1000), outs: []stream.Out{
		{Topic: "signal", Partition: stream.AnyPartition, Key: fmt.Append(nil, n), Value: make([]byte, size), Time: at},
	}}
	e.after.digest[0] = byte(n)
	return e
}

func openSpool(t *testing.T, dir string, quota *spool.Quota) *spool.Log {
	t.Helper()
	log, _, err := spool.Open(dir, spool.Options{Quota: quota, SegmentBytes: 2000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func spooled(t *testing.T, cfg queueConfig, dir string, limit int64) queueConfig {
	t.Helper()
	quota := spool.NewQuota(limit)
	cfg.spool = openSpool(t, dir, quota)
	cfg.alarm = &spoolAlarm{quota: quota, log: logger(t), metrics: cfg.metrics}
	return cfg
}

// uncommitted is the size of the events that are taken and not committed.
func uncommitted(q *queue, taken uint64) (n int64) {
	for i := range q.head[:taken-q.first] {
		n += q.head[i].size()
	}
	return n
}

// TestQueueHistories drives a queue step by step through whatever can happen:
// what is taken is what was put, in order, from the first event that is not
// committed; memory and spool keep to their limits; and what is on disk is there
// for the next process.
func TestQueueHistories(t *testing.T) {
	const memory = 20_000
	var refilled, full, recovered int
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		metrics := NewMetrics(prometheus.NewRegistry())
		limit := int64(3000 + rng.IntN(60_000))
		cfg := spooled(t, queueConfig{memory: memory, eager: rng.IntN(2) > 0, patience: time.Second, metrics: metrics}, dir, limit)
		q, err := newQueue(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		var next, taken, committed uint64
		now := time.Now()
		size := func(n uint64) int { return int(n*7919) % 700 }
		for range 600 {
			switch op := rng.IntN(20); {
			case op < 9:
				err := q.offer(numbered(next, size(next)))
				if errors.Is(err, errFull) {
					full++
				} else if err != nil {
					t.Fatal(err)
				} else {
					next++
				}
			case op < 14:
				if taken == next || uncommitted(q, taken) >= memory/4 { // a transaction's bound
					continue
				}
				if taken == q.headEnd() && q.headEnd() < q.tailStart() {
					refilled++
				}
				e, ok, err := q.take(t.Context(), taken, nil)
				if err != nil || !ok || e.number() != taken || string(e.outs[0].Key) != fmt.Sprint(taken) || len(e.outs[0].Value) != size(taken) || e.after.digest[0] != byte(taken) {
					t.Fatalf("seed %d: event %d is %+v, %v, %v", seed, taken, e, ok, err)
				}
				taken++
			case op < 16:
				committed += uint64(rng.IntN(int(taken-committed) + 1))
				if err := q.commit(committed); err != nil {
					t.Fatal(err)
				}
			case op == 16:
				if taken = q.rewind(); taken != committed {
					t.Fatalf("seed %d: goes back to event %d, want %d", seed, taken, committed)
				}
			case op < 19:
				now = now.Add(400 * time.Millisecond)
				if batch, _ := q.due(now); len(batch) > 0 {
					if err := q.spill(batch); err != nil && !errors.Is(err, spool.ErrFull) {
						t.Fatal(err)
					}
				}
			case rng.IntN(5) == 0: // the process dies, and what is in memory alone is put again
				from, to := q.cfg.spool.Bounds()
				cfg = spooled(t, cfg, dir, limit)
				if q, err = newQueue(cfg, committed); err != nil {
					t.Fatalf("seed %d: with events %d to %d on disk and %d committed: %v", seed, from, to, committed, err)
				}
				if next = max(to, committed); next > committed {
					recovered++
				}
				taken = committed
			}
			if q.next != next {
				t.Fatalf("seed %d: event %d is next, want %d", seed, q.next, next)
			}
			var bytes int64
			for _, e := range slices.Concat(q.head, q.tail) {
				bytes += e.size()
			}
			if bytes != q.bytes || bytes > memory+2000 { // an event each
				t.Fatalf("seed %d: %d bytes in memory, %d counted, limit %d", seed, bytes, q.bytes, memory)
			}
			if used := cfg.alarm.quota.Used(); used > limit+2000 {
				t.Fatalf("seed %d: %d bytes on disk, limit %d", seed, used, limit)
			}
		}
	}
	t.Logf("%d refills, %d times full, %d recoveries", refilled, full, recovered)
	if refilled < 50 || full < 50 || recovered < 10 {
		t.Error("the histories are too tame")
	}
}

// TestQueueFlush: flushing waits for the last commit, or until it is called off.
func TestQueueFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := newQueue(queueConfig{memory: 20_000}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(2) {
			if err := q.put(t.Context(), numbered(n, 500)); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- q.flush(t.Context()) }()
		for n := range uint64(2) {
			synctest.Wait()
			if len(ended) > 0 {
				t.Fatalf("flushed with %d of 2 events committed", n)
			}
			if err := q.commit(n + 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := q.put(t.Context(), numbered(2, 500)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.flush(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v after it was called off", err)
		}
	})
}

// TestQueueUnused: while Kafka keeps up, the spool is not touched.
func TestQueueUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := spooled(t, queueConfig{memory: 20_000, eager: true, patience: patience}, dir, 1<<20)
		q, err := newQueue(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go q.run(ctx)
		for n := range uint64(1000) {
			if err := q.put(ctx, numbered(n, 500)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := q.take(ctx, n, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if err := q.commit(n + 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // an idle queue has nothing to keep
		synctest.Wait()
		if _, next := cfg.spool.Bounds(); next != 0 {
			t.Errorf("%d events went to disk", next)
		}
		cancel()
		synctest.Wait()
	})
}

// TestQueueBlocks: a source waits when memory and spool are full, and goes on
// with the next commit.
func TestQueueBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := NewMetrics(prometheus.NewRegistry())
		cfg := spooled(t, queueConfig{memory: 20_000, patience: patience, metrics: metrics}, t.TempDir(), 30_000)
		q, err := newQueue(cfg, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go q.run(ctx)
		var put uint64
		go func() {
			for ; q.put(ctx, numbered(put, 500)) == nil; put++ { //nolint:revive // put is read when all goroutines wait
			}
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		stopped := put
		// How much of the memory is full when the spool refuses depends on who ran
		// first; an event takes 565 bytes in either.
		if stopped < 45 || stopped > (20_000+30_000)/565 {
			t.Errorf("%d events were taken into 20 kB of memory and 30 kB of spool", stopped)
		}
		if testutil.ToFloat64(metrics.spoolErrors.WithLabelValues("full")) == 0 || testutil.ToFloat64(metrics.spoolBytes) < 20_000 {
			t.Error("the metrics don't tell of a full spool")
		}
		for n := range stopped {
			if e, ok, err := q.take(ctx, n, nil); err != nil || !ok || e.number() != n {
				t.Fatalf("event %d: %v, %v", n, ok, err)
			}
			if err := q.commit(n + 1); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if put <= stopped {
			t.Error("the source does not go on")
		}
		cancel()
		synctest.Wait()
	})
}

func TestQueueBehindAnotherCluster(t *testing.T) {
	cfg := spooled(t, queueConfig{memory: 20_000, patience: time.Second}, t.TempDir(), 1<<20)
	if err := cfg.spool.Append(7, [][]byte{{1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := newQueue(cfg, 5); err == nil {
		t.Error("events 5 and 6 are nowhere, and no error")
	}
	q, err := newQueue(cfg, 8)
	if err != nil || q.next != 8 {
		t.Errorf("all that is spooled is in Kafka: goes on with %d, %v", q.next, err)
	}
	if cfg.alarm.quota.Used() != 0 {
		t.Error("what is in Kafka stays on disk")
	}
}
