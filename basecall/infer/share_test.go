package infer

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

// TestTurnsAreFairByTime has parties whose batches take from 1 to 100 ms share slots: those that
// always have work use the device for equally long, to within a batch or two, and no slot is
// idle while somebody asks.
func TestTurnsAreFairByTime(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		slots, n := 1+rng.IntN(4), 2+rng.IntN(4)
		tt := turns{slots: slots}
		type running struct {
			p    *party
			ends time.Duration
			took time.Duration
		}
		var parties []*party
		took := make(map[*party]time.Duration)
		used := make(map[*party]time.Duration)
		longest := time.Duration(0)
		for range n {
			p := &party{}
			parties = append(parties, p)
			took[p] = time.Duration(1+rng.IntN(100)) * time.Millisecond
			longest = max(longest, took[p])
			for range slots { // a session for each slot, always with work
				tt.ask(p)
			}
		}
		var works []running
		now := time.Duration(0)
		for now < 30*time.Second {
			for p := tt.next(); p != nil; p = tt.next() {
				works = append(works, running{p, now + took[p], took[p]})
			}
			require.Len(t, works, slots, "a slot is idle")
			slices.SortFunc(works, func(a, b running) int { return int(a.ends - b.ends) })
			w := works[0]
			works = works[1:]
			now = w.ends
			used[w.p] += w.took
			tt.end(w.p, w.took)
			tt.ask(w.p)
		}
		// One network can't take more than all slots, nor what others leave; with as many sessions
		// as slots each could have all of it.
		share := 30 * time.Second * time.Duration(slots) / time.Duration(n)
		for _, p := range parties {
			assert.InDelta(t, share.Seconds(), used[p].Seconds(), 3*float64(slots)*longest.Seconds(), "seed %d: %v per batch", seed, took[p])
		}
	}
}

func TestWhoWasAwayHasNoClaim(t *testing.T) {
	tt := turns{slots: 1}
	a, b := &party{}, &party{}
	for range 100 {
		tt.ask(a)
		require.Same(t, a, tt.next())
		tt.end(a, time.Second)
	}
	got := map[*party]int{}
	tt.ask(a)
	tt.ask(b)
	for range 20 {
		p := tt.next()
		got[p]++
		tt.end(p, time.Second)
		tt.ask(p)
	}
	assert.InDelta(t, 10, got[a], 1, "b was away for 100 turns, and takes every other one now")
}

// TestBatchersShare has two batchers with a session each share one slot: never do both compute.
func TestBatchersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := NewShare()
		var mu sync.Mutex
		computing, most := 0, 0
		busy := map[string]time.Duration{}
		run := func(name string, d time.Duration) func() {
			return func() {
				mu.Lock()
				computing++
				most = max(most, computing)
				mu.Unlock()
				time.Sleep(d)
				mu.Lock()
				computing--
				busy[name] += d
				mu.Unlock()
			}
		}
		var done sync.WaitGroup
		for name, d := range map[string]time.Duration{"small": time.Millisecond, "large": 40 * time.Millisecond} {
			b, err := NewBatcher([]Runner{&timedRunner{run: run(name, d)}}, BatcherConfig{Batch: 1, Queue: 4, Share: share})
			require.NoError(t, err)
			done.Go(func() {
				defer func() { assert.NoError(t, b.Close()) }()
				p := b.NewProducer(4)
				defer p.Close()
				until := time.Now().Add(4 * time.Second)
				for time.Now().Before(until) {
					for !p.Full() {
						assert.NoError(t, p.Submit(t.Context(), &Request{Input: make([]float32, 1), Output: make([]float32, 1)}))
					}
					_, err := p.Receive(t.Context())
					assert.NoError(t, err)
				}
			})
		}
		done.Wait()
		assert.Equal(t, 1, most, "two networks were computed at once on one slot")
		assert.InDelta(t, 1, busy["small"].Seconds()/busy["large"].Seconds(), 0.1)
	})
}

// timedRunner is a runner of one row.
type timedRunner struct{ run func() }

func (r *timedRunner) Input(int) []float32 { return make([]float32, 1) }

func (r *timedRunner) Run(rows, _ int) (int, error) {
	r.run()
	return rows, nil
}

func (*timedRunner) Count(int, int) {}

func (r *timedRunner) Scores(int) scores.Window { return scores.Window{} }

func (r *timedRunner) Close() error { return nil }
