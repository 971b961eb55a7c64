package infer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestQueueServesWhatIsDueFirst: requests leave in the order of what the queue
// promises: when they came, plus the patience of their producer.
func TestQueueServesWhatIsDueFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		q := queue{patience: time.Duration(rng.IntN(50)) * time.Second}
		producers := []*Producer{{}, {patient: true}, {patient: true}}
		now := time.Unix(1, 0)
		due := func(r *Request) time.Time {
			if r.producer.patient {
				return r.queued.Add(q.patience)
			}
			return r.queued
		}
		var waiting []*Request
		for range 60 {
			switch p := producers[rng.IntN(3)]; rng.IntN(12) {
			case 0:
				p.patient = false
				q.hurry(p)
			case 1:
				dropped := q.drop(func(r *Request) bool { return r.producer == p })
				waiting = slices.DeleteFunc(waiting, func(r *Request) bool { return slices.Contains(dropped, r) })
				require.False(t, slices.ContainsFunc(waiting, func(r *Request) bool { return r.producer == p }))
			case 2, 3:
				slices.SortStableFunc(waiting, func(a, b *Request) int { return due(a).Compare(due(b)) })
				n := rng.IntN(8)
				got := q.take(nil, n)
				require.Len(t, got, min(n, len(waiting)))
				for i, r := range got {
					require.Equal(t, due(waiting[i]), due(r))
				}
				waiting = slices.DeleteFunc(waiting, func(r *Request) bool { return slices.Contains(got, r) })
			default:
				now = now.Add(time.Duration(1+rng.IntN(10)) * time.Second)
				r := &Request{producer: p, queued: now}
				q.add(r)
				waiting = append(waiting, r)
			}
			require.Equal(t, len(waiting), q.len())
		}
	}
}

// TestWhoWaitsComesFirst: a window that somebody waits for overtakes those of a
// patient producer, and so do the windows of one that hurries.
func TestWhoWaitsComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, 100*time.Millisecond, BatcherConfig{Batch: 1, Queue: 4, PatientQueue: 20})
		defer f.Close()
		patient, late, urgent := f.NewPatientProducer(10), f.NewPatientProducer(10), f.NewProducer(2)
		for i := range 8 {
			require.NoError(t, patient.Submit(t.Context(), newRequest(float32(i))))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, late.Submit(t.Context(), newRequest(20)))
		time.Sleep(time.Millisecond)
		require.NoError(t, urgent.Submit(t.Context(), newRequest(30)))
		late.Hurry() // is older than the urgent one
		assert.Equal(t, []int{30}, receiveAll(t, urgent, 1))
		assert.Equal(t, []int{20}, receiveAll(t, late, 1))
		assert.Len(t, receiveAll(t, patient, 8), 8)
		var order []float32
		for _, b := range f.batches {
			order = append(order, b.inputs...)
		}
		assert.Equal(t, []float32{0, 20, 30, 1, 2, 3, 4, 5, 6, 7}, order)
		patient.Close()
		late.Close()
		urgent.Close()
	})
}

// TestNobodyStarves: with more to do for the producers that wait than can be done,
// a patient window still gets its turn, later than they by the patience.
func TestNobodyStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 700 * time.Millisecond
		f := newFixture(t, 1, 100*time.Millisecond, BatcherConfig{Batch: 1, Queue: 100, Patience: patience})
		defer f.Close()
		start := time.Now()
		crowd := f.NewProducer(100)
		defer crowd.Close()
		for i := range 3 {
			require.NoError(t, crowd.Submit(t.Context(), newRequest(float32(i))))
		}
		patient := f.NewPatientProducer(1)
		defer patient.Close()
		require.NoError(t, patient.Submit(t.Context(), newRequest(1000)))
		served := make(chan time.Duration, 1)
		go func() {
			if _, err := patient.Receive(t.Context()); err != nil {
				t.Error(err)
			}
			served <- time.Since(start)
		}()
		for i := range 40 { // twice what the runner can do
			time.Sleep(50 * time.Millisecond)
			require.NoError(t, crowd.Submit(t.Context(), newRequest(float32(100+i))))
		}
		at := <-served
		assert.GreaterOrEqual(t, at, patience)
		assert.LessOrEqual(t, at, 3*patience, "behind what was queued before it was due: twice the patience, and the batch itself")
		receiveAll(t, crowd, 43)
	})
}
