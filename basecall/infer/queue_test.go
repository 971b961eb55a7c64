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

// TestShorterWindowsHaveBatchesOfTheirLength: before those of reads that go on, after others that somebody waits for, but for
// the patience at most, and at once where of the others there is no whole batch. Nothing of theirs is lost.
func TestShorterWindowsHaveBatchesOfTheirLength(t *testing.T) {
	urgent, patient := &Producer{}, &Producer{patient: true}
	at := func(second int64, p *Producer, samples int) *Request {
		return &Request{producer: p, queued: time.Unix(second, 0), Input: make([]float32, samples), Short: samples < 9}
	}
	queued := func(all ...*Request) *queue {
		q := &queue{patience: 10 * time.Second}
		for _, r := range all {
			q.add(r)
		}
		return q
	}
	late, first, three, four := at(0, patient, 9), at(1, urgent, 9), at(2, urgent, 3), at(3, urgent, 4)
	second, threeToo, another := at(4, urgent, 9), at(5, urgent, 3), at(6, urgent, 3)
	q := queued(late, first, three, four, second, threeToo, another)
	require.Equal(t, 7, q.len())
	assert.Equal(t, []*Request{first, second}, q.take(nil, 2), "a whole batch for which somebody waits")
	assert.Equal(t, []*Request{three, threeToo}, q.take(nil, 2), "the oldest, and of its length")
	assert.Equal(t, []*Request{four}, q.take(nil, 2))
	assert.Equal(t, []*Request{another}, q.take(nil, 1), "before one that is patient")
	assert.Equal(t, []*Request{late}, q.take(nil, 2))
	assert.Zero(t, q.len())

	later := []*Request{at(13, urgent, 9), at(13, urgent, 9)}
	assert.Equal(t, []*Request{three}, queued(three, later[0], later[1]).take(nil, 2), "it has waited for the patience")
	assert.Equal(t, later, queued(four, later[0], later[1]).take(nil, 2))
	old := []*Request{at(-10, patient, 9), at(-9, patient, 9)}
	assert.Equal(t, old, queued(old[0], old[1], three).take(nil, 2), "these have")

	q = queued(four)
	assert.Equal(t, 4*time.Second, q.oldest(time.Unix(7, 0)))
	assert.Equal(t, []*Request{four}, q.drop(func(r *Request) bool { return r.producer == urgent }))
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
