package infer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

// fakeRunner negates its input, one sample per window, and takes a fixed time.
type fakeRunner struct {
	cost time.Duration
	fail func(run int) error // nil never fails

	mu      *sync.Mutex
	batches *[]fakeBatch
	in, out []float32
	runs    int
	closed  bool
}

type fakeBatch struct {
	start  time.Time
	inputs []float32
}

func (r *fakeRunner) Input(row int) []float32 { return r.in[row : row+1] }

func (r *fakeRunner) Run(rows, _ int) (int, error) {
	r.mu.Lock()
	*r.batches = append(*r.batches, fakeBatch{time.Now(), slices.Clone(r.in[:rows])})
	r.mu.Unlock()
	time.Sleep(r.cost)
	r.runs++
	if r.fail != nil {
		if err := r.fail(r.runs); err != nil {
			return 0, err
		}
	}
	for i, x := range r.in[:rows] {
		r.out[i] = -x
	}
	return rows, nil
}

func (*fakeRunner) Count(int, int) {}

func (r *fakeRunner) Scores(row int) scores.Window { return scores.OfFloats(r.out[row:row+1], 1) }

func (r *fakeRunner) Close() error { r.closed = true; return nil }

// fixture is a batcher on fake runners and the batches that they computed.
type fixture struct {
	*Batcher
	fakes   []*fakeRunner
	batches []fakeBatch
	mu      sync.Mutex
}

func newFixture(t *testing.T, runners int, cost time.Duration, cfg BatcherConfig) *fixture {
	t.Helper()
	f := &fixture{}
	var rs []Runner
	for range runners {
		r := &fakeRunner{
			cost: cost, mu: &f.mu, batches: &f.batches,
			in: make([]float32, cfg.Batch), out: make([]float32, cfg.Batch),
		}
		f.fakes = append(f.fakes, r)
		rs = append(rs, r)
	}
	b, err := NewBatcher(rs, cfg)
	require.NoError(t, err)
	f.Batcher = b
	return f
}

func (f *fixture) sizes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sizes []int
	for _, b := range f.batches {
		sizes = append(sizes, len(b.inputs))
	}
	return sizes
}

func newRequest(x float32) *Request {
	return &Request{Input: []float32{x}, Output: make([]float32, 1), Tag: int(x)}
}

// receiveAll receives n results and checks that each is the negation of its input.
func receiveAll(t *testing.T, p *Producer, n int) (tags []int) {
	t.Helper()
	for range n {
		req, err := p.Receive(t.Context())
		require.NoError(t, err)
		require.NoError(t, req.Err)
		require.Equal(t, -req.Input[0], req.Output[0])
		tags = append(tags, req.Tag)
	}
	return tags
}

func TestPlan(t *testing.T) {
	const batch, delay = 4, 100 * time.Millisecond
	tests := []struct {
		name    string
		state   queueState
		reason  Dispatch
		recheck time.Duration
	}{
		{"nothing queued", queueState{producers: 1, waiting: 1, closing: true}, DispatchNone, 0},
		{"full", queueState{queued: 4, producers: 1}, DispatchFull, 0},
		{"more than full", queueState{queued: 9, producers: 1, closing: true}, DispatchFull, 0},
		{"a shorter one", queueState{queued: 1, short: 1, producers: 2}, DispatchShort, 0},
		{"a shorter one beside a full batch", queueState{queued: 4, short: 1, producers: 2}, DispatchFull, 0},
		{"shorter ones that can wait", queueState{leisure: 2, quiet: 30 * time.Millisecond, producers: 3, waiting: 2}, DispatchNone, 70 * time.Millisecond},
		{"they, and nothing else has come", queueState{leisure: 2, quiet: delay, producers: 3, waiting: 2}, DispatchDelay, 0},
		{"they, and nothing else can come", queueState{leisure: 2, producers: 2, waiting: 2}, DispatchDrain, 0},
		{"as many of them as a batch", queueState{queued: 1, leisure: 4, due: true, producers: 6}, DispatchShort, 0},
		{"others that have waited, beside them", queueState{queued: 1, leisure: 1, age: delay, producers: 3}, DispatchDelay, 0},
		{"young", queueState{queued: 3, age: 30 * time.Millisecond, producers: 2, waiting: 1}, DispatchNone, 70 * time.Millisecond},
		{"old", queueState{queued: 1, age: delay, producers: 1}, DispatchDelay, 0},
		{"all wait", queueState{queued: 1, urgent: 1, producers: 2, waiting: 2}, DispatchDrain, 0},
		{"producers have left", queueState{queued: 1, urgent: 1}, DispatchDrain, 0},
		{"nobody waits", queueState{queued: 3, age: 30 * time.Millisecond}, DispatchNone, 70 * time.Millisecond},
		{"all who wait do, for one of two", queueState{queued: 2, urgent: 1, producers: 1, waiting: 1}, DispatchDrain, 0},
		{"closing", queueState{queued: 1, producers: 2, closing: true}, DispatchDrain, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reason, recheck := plan(test.state, batch, delay)
			assert.Equal(t, test.reason, reason)
			assert.Equal(t, test.recheck, recheck)
		})
	}
}

func TestBatcherLeavesForThreeReasons(t *testing.T) {
	tests := []struct {
		name   string
		submit int
		busy   bool // another producer exists that doesn't wait
		want   []int
		wait   time.Duration // virtual time that it takes
		reason Dispatch
	}{
		{"full batches at once", 8, true, []int{4, 4}, 0, DispatchFull},
		{"incomplete batch after the delay", 3, true, []int{3}, time.Second, DispatchDelay},
		{"incomplete batch at once when nobody is busy", 3, false, []int{3}, 0, DispatchDrain},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewPedanticRegistry()
				metrics, err := NewMetrics(reg, "net", "cpu")
				require.NoError(t, err)
				f := newFixture(t, 1, 0, BatcherConfig{Batch: 4, Queue: 8, MaxDelay: time.Second, Metrics: metrics})
				defer f.Close()
				if test.busy {
					defer f.NewProducer(1).Close()
				}
				start := time.Now()
				p := f.NewProducer(8)
				defer p.Close()
				for i := range test.submit {
					require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
				}
				tags := receiveAll(t, p, test.submit)
				assert.IsIncreasing(t, append([]int{-1}, tags...), "first come, first served")
				assert.Equal(t, test.want, f.sizes())
				assert.Equal(t, test.wait, time.Since(start))
				assert.InDelta(t, len(test.want), testutil.ToFloat64(metrics.batches.WithLabelValues(test.reason.String())), 0)
			})
		})
	}
}

// A shorter window neither waits for more of its length nor is counted as a full batch.
func TestShorterWindowsLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, err := NewMetrics(prometheus.NewPedanticRegistry(), "net", "cpu")
		require.NoError(t, err)
		f := newFixture(t, 1, 0, BatcherConfig{Batch: 4, Queue: 8, MaxDelay: time.Second, Metrics: metrics})
		defer f.Close()
		defer f.NewProducer(1).Close() // is busy
		start := time.Now()
		p := f.NewProducer(8)
		defer p.Close()
		r := newRequest(1)
		r.Short = true
		require.NoError(t, p.Submit(t.Context(), r))
		receiveAll(t, p, 1)
		assert.Zero(t, time.Since(start))
		for _, reason := range []Dispatch{DispatchFull, DispatchShort} {
			assert.InDelta(t, map[Dispatch]int{DispatchShort: 1}[reason], testutil.ToFloat64(metrics.batches.WithLabelValues(reason.String())), 0, reason.String())
		}
	})
}

// TestWindowsAtLeisureFillBatches: of reads that nobody waits for by themselves the shorter windows take up no place in the queue
// and leave in whole batches, or when there is nothing else to do, or when as many have come after one as may.
func TestWindowsAtLeisureFillBatches(t *testing.T) {
	for _, test := range []struct {
		name     string
		leisure  int
		requests int
		want     []int // windows of the batches that leave while a producer is busy
		rest     []int // and when none is any more
	}{
		{"whole batches", 100, 7, []int{3, 3}, []int{1}},
		{"one may come after one", 1, 4, []int{2, 2}, nil},
		{"none may", 0, 2, []int{1, 1}, nil},
		{"fewer than a batch", 100, 2, nil, []int{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, time.Millisecond, BatcherConfig{Batch: 3, Queue: 3, MaxDelay: time.Hour, Leisure: test.leisure})
				defer f.Close()
				busy := f.NewProducer(1)
				var calls sync.WaitGroup
				for i := range test.requests {
					calls.Go(func() {
						p := f.NewProducer(1)
						defer p.Close()
						r := newRequest(float32(i))
						r.Short, r.Leisure = true, true
						if err := p.Submit(t.Context(), r); err != nil {
							t.Error(err)
							return
						}
						receiveAll(t, p, 1)
					})
					synctest.Wait()
					time.Sleep(time.Minute)
				}
				assert.Equal(t, test.want, f.sizes())
				assert.Empty(t, f.slots)
				busy.Close()
				calls.Wait()
				assert.Equal(t, append(test.want, test.rest...), f.sizes())
			})
		})
	}
}

// TestWindowsAtLeisureLetOthersPass: while there are others to compute they wait for a batch, and go then.
func TestWindowsAtLeisureLetOthersPass(t *testing.T) {
	leisurely, urgent, patient := &Producer{}, &Producer{}, &Producer{patient: true}
	at := func(p *Producer, samples int, leisure bool) *Request {
		return &Request{producer: p, Input: make([]float32, samples), Short: samples < 9, Leisure: leisure}
	}
	q := &queue{patience: time.Second, batch: 2, leisure: 3}
	three, four, five := at(leisurely, 3, true), at(leisurely, 4, true), at(leisurely, 5, true)
	whole, last, waited := at(urgent, 9, true), at(patient, 9, false), at(urgent, 4, false)
	for _, r := range []*Request{three, four, whole, last, waited, five} {
		q.add(r)
	}
	require.Equal(t, 6, q.len())
	require.Equal(t, 2, q.whole(), "a window of the usual length is one like others")
	assert.Equal(t, []*Request{whole, last}, q.take(nil, 2))
	assert.Equal(t, []*Request{waited}, q.take(nil, 2), "somebody waits for it")
	assert.Zero(t, q.oldest(time.Unix(7, 0)))
	threeToo := at(leisurely, 3, true)
	q.add(last)
	q.add(threeToo)
	assert.Equal(t, []*Request{three, threeToo}, q.take(nil, 2), "a whole batch")
	assert.Equal(t, []*Request{last}, q.take(nil, 2), "what is left of others goes first")
	assert.Equal(t, []*Request{four}, q.take(nil, 2), "there is nothing else")
	q.add(at(leisurely, 6, true))
	q.add(last)
	require.False(t, q.leisureDue())
	q.add(at(leisurely, 7, true))
	require.True(t, q.leisureDue())
	assert.Equal(t, []*Request{five}, q.take(nil, 2), "three have come after it")
	assert.Len(t, q.drop(func(r *Request) bool { return r.producer == leisurely }), 2)
	assert.Equal(t, 1, q.len())
}

// simulated is one batch as the rules in the package comment have it.
type simulated struct {
	at   time.Duration
	size int
	full bool
}

// simulate says when which batches leave if requests arrive at the given times,
// somebody is always busy, and a batch takes cost on one of the runners.
func simulate(arrivals []time.Duration, runners, batch int, delay, cost time.Duration) []simulated {
	free := make([]time.Duration, runners)
	var out []simulated
	for i := 0; i < len(arrivals); {
		slices.Sort(free)
		due := arrivals[i] + delay
		if i+batch <= len(arrivals) {
			due = min(due, arrivals[i+batch-1])
		}
		at := max(free[0], due)
		n := 0
		for n < batch && i+n < len(arrivals) && arrivals[i+n] <= at {
			n++
		}
		out = append(out, simulated{at, n, n == batch})
		free[0] = at + cost
		i += n
	}
	return out
}

func TestBatcherMatchesSimulation(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			runners, batch := 1+rng.IntN(3), 1+rng.IntN(8)
			delay := time.Duration(1 + rng.Int64N(int64(50*time.Millisecond)))
			cost := time.Duration(1 + rng.Int64N(int64(200*time.Millisecond)))
			arrivals := make([]time.Duration, 200)
			for i := range arrivals {
				arrivals[i] = time.Duration(rng.Int64N(int64(3 * time.Second)))
			}
			slices.Sort(arrivals)
			arrivals = slices.Compact(arrivals)
			metrics, err := NewMetrics(prometheus.NewRegistry(), "net", "cpu")
			require.NoError(t, err)
			f := newFixture(t, runners, cost, BatcherConfig{Batch: batch, Queue: len(arrivals) + batch, MaxDelay: delay, Metrics: metrics})
			defer f.Close()
			busy := f.NewProducer(1)
			start := time.Now()
			var producers sync.WaitGroup
			for i, at := range arrivals {
				producers.Go(func() {
					p := f.NewProducer(1)
					defer p.Close()
					time.Sleep(at)
					if err := p.Submit(t.Context(), newRequest(float32(i))); err != nil {
						t.Error(err)
						return
					}
					if req, err := p.Receive(t.Context()); err != nil || req.Output[0] != -float32(i) {
						t.Errorf("request %d: %v, %v", i, req, err)
					}
				})
			}
			producers.Wait()
			busy.Close()

			want := simulate(arrivals, runners, batch, delay, cost)
			var have []simulated
			next := float32(0)
			for _, b := range f.batches {
				have = append(have, simulated{b.start.Sub(start), len(b.inputs), len(b.inputs) == batch})
				for _, x := range b.inputs {
					assert.InDelta(t, next, x, 0, "seed %d: requests are served in order, each once", seed)
					next++
				}
			}
			assert.Equal(t, want, have, "seed %d", seed)
			full := 0
			for _, w := range want {
				if w.full {
					full++
				}
			}
			assert.InDelta(t, full, testutil.ToFloat64(metrics.batches.WithLabelValues("full")), 0, "seed %d", seed)
			assert.InDelta(t, len(want)-full, testutil.ToFloat64(metrics.batches.WithLabelValues("delay")), 0, "seed %d", seed)
		})
	}
}

// TestBatcherDeliversExactlyOnce lets producers with random habits loose, some of
// which give up, and checks that every other request comes back once.
func TestBatcherDeliversExactlyOnce(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			batch := 1 + rng.IntN(6)
			cfg := BatcherConfig{Batch: batch, Queue: batch + rng.IntN(6), MaxDelay: time.Duration(rng.IntN(20)) * time.Millisecond}
			f := newFixture(t, 1+rng.IntN(3), 7*time.Millisecond, cfg)
			defer f.Close()
			var producers sync.WaitGroup
			for id := range 12 {
				rng := rand.New(rand.NewPCG(seed, uint64(100+id)))
				producers.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					quits := id%4 == 3
					if quits {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(60))*time.Millisecond)
						defer cancel()
					}
					p := f.NewProducer(1 + rng.IntN(10))
					defer p.Close()
					seen := map[int]bool{}
					const total = 40
					for next := 0; next < total || p.Outstanding() > 0; {
						if next < total && !p.Full() && rng.IntN(3) > 0 {
							err := p.Submit(ctx, newRequest(float32(id*1000+next)))
							if err != nil {
								if !quits {
									t.Errorf("producer %d: %v", id, err)
								}
								return
							}
							next++
							continue
						}
						if p.Outstanding() == 0 {
							time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
							continue
						}
						req, err := p.Receive(ctx)
						if err != nil {
							if !quits {
								t.Errorf("producer %d: %v", id, err)
							}
							return
						}
						if seen[req.Tag] || req.Tag/1000 != id || req.Output[0] != -req.Input[0] {
							t.Errorf("producer %d received %d, seen before: %v", id, req.Tag, seen[req.Tag])
						}
						seen[req.Tag] = true
					}
					if len(seen) != total {
						t.Errorf("producer %d received %d of %d", id, len(seen), total)
					}
				})
			}
			producers.Wait()
			synctest.Wait()
			assert.Zero(t, f.queue.len())
			assert.Empty(t, f.slots)
			assert.Zero(t, f.producers)
			assert.Zero(t, f.waiting)
		})
	}
}

func TestBatcherBlocksWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, time.Second, BatcherConfig{Batch: 2, Queue: 2, MaxDelay: time.Hour})
		defer f.Close()
		p := f.NewProducer(10)
		defer p.Close()
		for i := range 4 { // two run, two wait
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, p.Submit(ctx, newRequest(9)), context.DeadlineExceeded)
		start := time.Now()
		require.NoError(t, p.Submit(t.Context(), newRequest(4)))
		assert.Equal(t, 700*time.Millisecond, time.Since(start), "there is room once the first batch is done")
		assert.Equal(t, []int{0, 1, 2, 3, 4}, receiveAll(t, p, 5))
	})
}

func TestBatcherIsFairToSmallProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, time.Second, BatcherConfig{Batch: 4, Queue: 8, MaxDelay: time.Hour})
		greedy := f.NewProducer(1000)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			for i := 0; greedy.Submit(ctx, newRequest(float32(i))) == nil; i++ {
			}
		})
		time.Sleep(10 * time.Second)
		small := f.NewProducer(1)
		start := time.Now()
		require.NoError(t, small.Submit(t.Context(), newRequest(1)))
		receiveAll(t, small, 1)
		// One batch is running, at most three hold what was there before.
		assert.LessOrEqual(t, time.Since(start), 4*time.Second)
		stop()
		done.Wait()
		small.Close()
		greedy.Close()
		require.NoError(t, f.Close())
	})
}

func TestBatcherReportsAFailedBatchToItsRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, 0, BatcherConfig{Batch: 2, Queue: 8, MaxDelay: time.Hour})
		defer f.Close()
		broken := errors.New("out of memory")
		f.fakes[0].fail = func(run int) error {
			if run == 2 || run == 3 { // and when it is tried again
				return broken
			}
			return nil
		}
		p := f.NewProducer(6)
		defer p.Close()
		for i := range 6 {
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		for range 6 {
			req, err := p.Receive(t.Context())
			require.NoError(t, err)
			if req.Tag == 2 || req.Tag == 3 {
				require.ErrorIs(t, req.Err, broken)
				require.ErrorContains(t, req.Err, "running a batch of 2 windows")
			} else {
				require.NoError(t, req.Err)
			}
		}
	})
}

func TestBatcherCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, time.Second, BatcherConfig{Batch: 4, Queue: 8, MaxDelay: time.Hour})
		p := f.NewProducer(8)
		defer p.Close()
		for i := range 3 {
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		require.NoError(t, f.Close())
		require.NoError(t, f.Close(), "closing twice is harmless")
		assert.True(t, f.fakes[0].closed && f.fakes[1].closed)
		require.ErrorIs(t, p.Submit(t.Context(), newRequest(3)), ErrClosed)
		assert.Equal(t, []int{0, 1, 2}, receiveAll(t, p, 3), "what was submitted before is computed")
	})
}

func TestBatcherUnblocksSubmittersOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, time.Second, BatcherConfig{Batch: 1, Queue: 1, MaxDelay: 0})
		p := f.NewProducer(8)
		defer p.Close()
		for i := range 2 {
			require.NoError(t, p.Submit(t.Context(), newRequest(float32(i))))
		}
		var done sync.WaitGroup
		done.Go(func() {
			if err := p.Submit(t.Context(), newRequest(2)); !errors.Is(err, ErrClosed) {
				t.Errorf("submitting while closing: %v", err)
			}
		})
		synctest.Wait()
		require.NoError(t, f.Close())
		done.Wait()
	})
}

func TestProducerDropsItsRequestsWhenClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, time.Second, BatcherConfig{Batch: 2, Queue: 4, MaxDelay: time.Hour})
		defer f.Close()
		quitter, other := f.NewProducer(8), f.NewProducer(8)
		defer other.Close()
		for i := range 6 { // two run, four wait
			require.NoError(t, quitter.Submit(t.Context(), newRequest(float32(i))))
		}
		quitter.Close()
		quitter.Close()
		for i := range 4 { // so there is space for four
			require.NoError(t, other.Submit(t.Context(), newRequest(float32(10+i))))
		}
		receiveAll(t, other, 4)
		assert.Equal(t, []int{2, 2, 2}, f.sizes(), "dropped requests aren't computed")
	})
}

func TestProducerIsHeldToItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, 0, BatcherConfig{Batch: 2, Queue: 4, MaxDelay: 0})
		defer f.Close()
		p := f.NewProducer(1)
		defer p.Close()
		_, err := p.Receive(t.Context())
		require.ErrorContains(t, err, "none is outstanding")
		require.NoError(t, p.Submit(t.Context(), newRequest(1)))
		require.ErrorContains(t, p.Submit(t.Context(), newRequest(2)), "limit of 1 is reached")
		receiveAll(t, p, 1)

		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, p.Submit(cancelled, newRequest(3)), context.Canceled)
		assert.Zero(t, p.Outstanding())
	})
}

func TestReceiveHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, time.Minute, BatcherConfig{Batch: 1, Queue: 4, MaxDelay: 0})
		defer f.Close()
		p := f.NewProducer(1)
		defer p.Close()
		require.NoError(t, p.Submit(t.Context(), newRequest(1)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Receive(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Zero(t, f.waiting)
		receiveAll(t, p, 1)
	})
}

func TestNewBatcherRefusesBadSizes(t *testing.T) {
	r := []Runner{&fakeRunner{}}
	for _, test := range []struct {
		runners []Runner
		cfg     BatcherConfig
		want    string
	}{
		{nil, BatcherConfig{Batch: 1, Queue: 1}, "needs a runner"},
		{r, BatcherConfig{Queue: 1}, "batch size 0"},
		{r, BatcherConfig{Batch: 4, Queue: 3}, "queue of 3 is smaller than a batch of 4"},
		{r, BatcherConfig{Batch: 1, Queue: 1, MaxDelay: -1}, "negative"},
	} {
		_, err := NewBatcher(test.runners, test.cfg)
		require.ErrorContains(t, err, test.want)
	}
}

func TestMetricsLintAndSharing(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, model := range []string{"a", "b"} {
		m, err := NewMetrics(reg, model, "cpu")
		require.NoError(t, err)
		m.batch(DispatchFull, []*Request{newRequest(1), newRequest(2)}, 4, time.Second, nil)
	}
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	assert.Empty(t, problems)
	n, err := testutil.GatherAndCount(reg, "porestream_infer_padding_samples_total", "porestream_infer_info")
	require.NoError(t, err)
	assert.Equal(t, 4, n, "one of each per model")

	none, err := NewMetrics(nil, "a", "cpu")
	require.NoError(t, err)
	none.batch(DispatchFull, nil, 0, 0, nil)
	none.queueLength(1)
}

// BenchmarkBatcher measures what a window costs beside its computing: queueing,
// two copies and its way back.
func BenchmarkBatcher(b *testing.B) {
	const samples, frames = 3600, 1200 * 5
	runners := []Runner{newIdleRunner(8, samples, frames), newIdleRunner(8, samples, frames)}
	batcher, err := NewBatcher(runners, BatcherConfig{Batch: 8, Queue: 32, MaxDelay: time.Millisecond})
	require.NoError(b, err)
	defer batcher.Close()
	b.ReportAllocs()
	b.SetBytes(4 * samples)
	b.RunParallel(func(pb *testing.PB) {
		p := batcher.NewProducer(24)
		defer p.Close()
		var free []*Request
		for range 24 {
			free = append(free, &Request{Input: make([]float32, samples), Output: make([]float32, frames)})
		}
		for pb.Next() {
			if len(free) == 0 {
				req, err := p.Receive(b.Context())
				if err != nil {
					b.Error(err)
					return
				}
				free = append(free, req)
			}
			if err := p.Submit(b.Context(), free[len(free)-1]); err != nil {
				b.Error(err)
				return
			}
			free = free[:len(free)-1]
		}
	})
}

// idleRunner computes nothing.
type idleRunner struct {
	in, out         []float32
	samples, scores int
}

func newIdleRunner(batch, samples, scores int) *idleRunner {
	return &idleRunner{make([]float32, batch*samples), make([]float32, batch*scores), samples, scores}
}

func (r *idleRunner) Input(row int) []float32 { return r.in[row*r.samples : (row+1)*r.samples] }

func (r *idleRunner) Run(rows, _ int) (int, error) { return rows, nil }

func (*idleRunner) Count(int, int) {}

func (r *idleRunner) Scores(row int) scores.Window {
	return scores.OfFloats(r.out[row*r.scores:(row+1)*r.scores], 1)
}

func (r *idleRunner) Close() error { return nil }
