package stage

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestWaiting holds the queue against a list that is sorted anew each time.
func TestWaiting(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		w := &waiting{limit: 1 + rng.IntN(6)}
		var model []*evaluation // oldest signal first; of equals, what came last
		var out int
		handlers := []*handler{{}, {}}
		for range 100 {
			switch rng.IntN(5) {
			case 0, 1, 2:
				e := &evaluation{at: time.UnixMilli(rng.Int64N(50)), handler: handlers[rng.IntN(2)]}
				i, _ := slices.BinarySearchFunc(model, e.at, func(m *evaluation, at time.Time) int { return m.at.Compare(at) })
				model = slices.Insert(model, i, e)
				got := w.add(e)
				if len(model) <= w.limit {
					if got != nil {
						t.Fatal("put out with room left")
					}
					break
				}
				if got == nil || !got.at.Equal(model[0].at) {
					t.Fatalf("put out %v, want one of %v", got, model[0].at)
				}
				model = slices.Delete(model, slices.Index(model, got), slices.Index(model, got)+1)
				out++
			case 3:
				before := time.UnixMilli(rng.Int64N(20))
				got, late := w.next(before)
				kept := slices.DeleteFunc(slices.Clone(model), func(e *evaluation) bool { return e.at.Before(before) })
				if len(late) != len(model)-len(kept) || slices.ContainsFunc(late, func(e *evaluation) bool { return !e.at.Before(before) }) {
					t.Fatalf("%d are late, want %d", len(late), len(model)-len(kept))
				}
				model = kept
				if len(model) == 0 {
					if got != nil {
						t.Fatal("a look out of nothing")
					}
					break
				}
				if got == nil || !got.at.Equal(model[len(model)-1].at) {
					t.Fatalf("next is %v, want signal of %v", got, model[len(model)-1].at)
				}
				// Of evaluations of one time the one that came first.
				if want := slices.IndexFunc(model, func(e *evaluation) bool { return e == got }); want != len(model)-1 {
					t.Fatal("one that came later is next")
				}
				model = model[:len(model)-1]
			case 4:
				h := handlers[rng.IntN(2)]
				if rng.IntN(5) > 0 {
					break
				}
				gone := w.withdraw(h)
				for _, e := range gone {
					if e.handler != h {
						t.Fatal("another's look is withdrawn")
					}
				}
				before := len(model)
				model = slices.DeleteFunc(model, func(e *evaluation) bool { return e.handler == h })
				if len(gone) != before-len(model) {
					t.Fatal("not all of a handler's looks are withdrawn")
				}
			}
			if len(w.evaluations) != len(model) {
				t.Fatalf("%d wait, want %d", len(w.evaluations), len(model))
			}
		}
	}
}
