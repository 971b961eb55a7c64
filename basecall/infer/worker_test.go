package infer

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

var errBroken = errors.New("session lost")

// TestBatchIsTriedAgain: a batch that fails once is computed by another runner, or
// by the same if there is no other, and only the metrics show it.
func TestBatchIsTriedAgain(t *testing.T) {
	for _, runners := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			metrics, err := NewMetrics(prometheus.NewPedanticRegistry(), "net", "cpu")
			require.NoError(t, err)
			f := newFixture(t, runners, time.Second, BatcherConfig{Batch: 2, Queue: 8, MaxDelay: time.Hour, Metrics: metrics})
			defer f.Close()
			f.fakes[0].fail = func(run int) error {
				if run == 1 || runners > 1 { // with others it may be broken for good
					return errBroken
				}
				return nil
			}
			for range 3 {
				p := f.NewProducer(2)
				require.NoError(t, p.Submit(t.Context(), newRequest(1)))
				require.NoError(t, p.Submit(t.Context(), newRequest(2)))
				receiveAll(t, p, 2)
				p.Close()
			}
			assert.InDelta(t, f.fakes[0].runs-boolToInt(runners == 1)*3, testutil.ToFloat64(metrics.failures), 0)
			assert.Positive(t, testutil.ToFloat64(metrics.batches.WithLabelValues("retry")))
		})
	}
}

// TestDecodingAtTheSide: a session with several places computes the next batch while the one before is
// decoded, several windows at a time, and waits when no place is free. Each request comes back once,
// with what was made of its own scores.
func TestDecodingAtTheSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const batch, batches, places, decoders = 4, 6, 2, 2
		compute, decode := 10*time.Second, 6*time.Second // for a window
		f := newFixture(t, 2*places, compute, BatcherConfig{Batch: batch, Queue: batch * batches, MaxDelay: time.Hour, Places: places, Decoders: decoders})
		start := time.Now()
		p := f.NewProducer(batch * batches)
		decoded := make([]float32, batch*batches)
		var busy, most atomic.Int32
		for i := range batch * batches {
			req := newRequest(float32(i))
			req.Decode = func(w scores.Window) error {
				now := busy.Add(1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				time.Sleep(decode)
				busy.Add(-1)
				decoded[i] = w.Floats[0]
				return nil
			}
			require.NoError(t, p.Submit(t.Context(), req))
		}
		for range batch * batches {
			req, err := p.Receive(t.Context())
			require.NoError(t, err)
			require.NoError(t, req.Err)
			require.Equal(t, -req.Input[0], decoded[req.Tag])
		}
		// Each of two sessions computes two batches, the second while the first is decoded, in 12 s,
		// and the third when that has left its place.
		assert.Equal(t, 44*time.Second, time.Since(start))
		assert.LessOrEqual(t, most.Load(), int32(2*places*decoders))
		p.Close()
		require.NoError(t, f.Close())
		for _, fake := range f.fakes {
			assert.True(t, fake.closed)
		}
	})
}

// TestWrongScoresAtTheSide: the batch is computed once more, also when the batcher closes meanwhile;
// of those whose scores are wrong again each has an error, and no other.
func TestWrongScoresAtTheSide(t *testing.T) {
	for _, sessions := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			const places = 2
			f := newFixture(t, sessions*places, time.Second, BatcherConfig{Batch: 3, Queue: 3, MaxDelay: time.Hour, Places: places, Decoders: 3})
			p := f.NewProducer(3)
			var mu sync.Mutex
			calls := map[int]int{}
			for i := range 3 {
				req := newRequest(float32(i))
				req.Decode = func(scores.Window) error {
					time.Sleep(time.Second)
					mu.Lock()
					defer mu.Unlock()
					if calls[i]++; i == 1 || i == 2 && calls[i] == 1 {
						return errBroken
					}
					return nil
				}
				require.NoError(t, p.Submit(t.Context(), req))
			}
			closed := make(chan error)
			go func() {
				time.Sleep(1500 * time.Millisecond) // the batch is being decoded
				closed <- f.Close()
			}()
			for range 3 {
				req, err := p.Receive(t.Context())
				require.NoError(t, err)
				if req.Tag == 1 {
					require.ErrorIs(t, req.Err, errBroken)
				} else {
					require.NoError(t, req.Err)
				}
			}
			require.NoError(t, <-closed)
			assert.Equal(t, map[int]int{0: 2, 1: 2, 2: 2}, calls)
			p.Close()
		})
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestWrongScores: a device that gives back too few rows, or what is no number,
// has failed, although it doesn't say so.
func TestWrongScores(t *testing.T) {
	for _, wrong := range []struct {
		name string
		out  func(r *fakeRunner)
		want [2]string // errors of the windows; empty: none
	}{
		{"NaN", func(r *fakeRunner) { r.out[1] = float32(math.NaN()) }, [2]string{"", "window 1 of a batch of 2: score 0 is NaN"}},
		{"infinite", func(r *fakeRunner) { r.out[0] = float32(math.Inf(1)) }, [2]string{"window 0 of a batch of 2: score 0 is +Inf", ""}},
		{"too few", nil, [2]string{"it computed 1", "it computed 1"}},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			for _, always := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					runner := &wrongRunner{fakeRunner: fakeRunner{in: make([]float32, 2), out: make([]float32, 2)}, wrong: wrong.out, always: always}
					b, err := NewBatcher([]Runner{runner}, BatcherConfig{Batch: 2, Queue: 2, MaxDelay: time.Hour})
					require.NoError(t, err)
					defer b.Close()
					p := b.NewProducer(2)
					defer p.Close()
					require.NoError(t, p.Submit(t.Context(), newRequest(1)))
					require.NoError(t, p.Submit(t.Context(), newRequest(2)))
					for range 2 {
						req, err := p.Receive(t.Context())
						require.NoError(t, err)
						if want := wrong.want[req.Tag-1]; always && want != "" {
							require.ErrorContains(t, req.Err, want)
						} else {
							require.NoError(t, req.Err)
							require.Equal(t, -req.Input[0], req.Output[0])
						}
					}
				})
			}
		})
	}
}

// wrongRunner gives back wrong scores, once or always.
type wrongRunner struct {
	fakeRunner
	wrong  func(r *fakeRunner) // nil: too few rows
	always bool
	count  int
}

func (r *wrongRunner) Run(rows, _ int) (int, error) {
	for i, x := range r.in[:rows] {
		r.out[i] = -x
	}
	r.count++
	if r.count > 1 && !r.always {
		return rows, nil
	}
	if r.wrong == nil {
		return rows - 1, nil
	}
	r.wrong(&r.fakeRunner)
	return rows, nil
}

// TestHungRunner: everything that waits gets an error within the timeout, closing
// doesn't wait for the runner, and what it brings after all is of no account.
func TestHungRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Minute
		f := newFixture(t, 2, time.Second, BatcherConfig{Batch: 2, Queue: 8, MaxDelay: time.Hour, Timeout: timeout})
		f.fakes[0].fail = func(int) error { time.Sleep(time.Hour); return nil }
		f.fakes[1].fail = f.fakes[0].fail
		watched := make(chan error)
		go func() { watched <- f.Watchdog(t.Context()) }()
		start := time.Now()
		p := f.NewProducer(7)
		for i := range 7 {
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		var hung *HungError
		require.ErrorAs(t, <-watched, &hung)
		assert.Equal(t, HungError{Windows: 2, Timeout: timeout}, *hung)
		assert.GreaterOrEqual(t, time.Since(start), timeout)
		assert.LessOrEqual(t, time.Since(start), timeout+timeout/4)
		failed := 0
		for range 5 { // one batch of two may be in the other runner
			req, err := p.Receive(t.Context())
			require.NoError(t, err)
			require.ErrorAs(t, req.Err, &hung)
			failed++
		}
		assert.Equal(t, 5, failed)
		require.ErrorAs(t, p.Submit(t.Context(), newRequest(9)), &hung)
		p.Close()

		closed := make(chan error)
		go func() { closed <- f.Close() }()
		require.NoError(t, <-closed)
		assert.Len(t, f.sizes(), 2)
		assert.Equal(t, 1, boolToInt(f.fakes[0].closed)+boolToInt(f.fakes[1].closed), "a runner that hangs is not to be closed")
		time.Sleep(2 * time.Hour)
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, 0, BatcherConfig{Batch: 1, Queue: 1, Timeout: time.Minute})
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.NoError(t, f.Watchdog(ctx))
	})
}

// TestSlowIsNotHung: neither many batches one after the other, nor a process that
// was stopped in the middle of one.
func TestSlowIsNotHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, 50*time.Second, BatcherConfig{Batch: 1, Queue: 8, Timeout: time.Minute})
		defer f.Close()
		p := f.NewProducer(8)
		defer p.Close()
		for i := range 8 {
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		receiveAll(t, p, 8)
	})
	// Ticks after a stop: the first brings a day, of which two intervals count.
	b := &Batcher{cfg: BatcherConfig{Timeout: time.Minute}}
	b.workers = []*worker{{b: b, batch: []*Request{{}}, number: 1, watched: 1}}
	if b.check(min(24*time.Hour, 2*b.cfg.Timeout/8)) {
		t.Error("a stop is held for a hung device")
	}
}
