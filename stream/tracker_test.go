package stream

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// slowTracker is the obvious reference: a map of everything ever tracked.
type slowTracker struct {
	start, next int64
	resolved    map[int64]bool
	bytes       map[int64]int64
}

func newSlowTracker(next int64) *slowTracker {
	return &slowTracker{start: next, next: next, resolved: map[int64]bool{}, bytes: map[int64]int64{}}
}

func (s *slowTracker) committable() int64 {
	for o := s.start; o < s.next; o++ {
		if done, tracked := s.resolved[o]; tracked && !done {
			return o
		}
	}
	return s.next
}

func (s *slowTracker) unresolved() (n int, bytes int64) {
	for o, done := range s.resolved {
		if !done {
			n++
			bytes += s.bytes[o]
		}
	}
	return n, bytes
}

func TestTrackerAgreesWithReference(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			start := rng.Int64N(1000)
			fast, slow := NewTracker(start), newSlowTracker(start)
			last := start
			for step := range 1500 {
				switch op := rng.IntN(10); {
				case op < 4:
					offset, bytes := slow.next+rng.Int64N(3), rng.Int64N(100)
					if !fast.Track(offset, bytes) {
						t.Fatalf("step %d: Track(%d) refused", step, offset)
					}
					slow.resolved[offset], slow.bytes[offset], slow.next = false, bytes, offset+1
				case op < 5:
					to := slow.next + rng.Int64N(4) - 2
					fast.Advance(to)
					slow.next = max(slow.next, to)
				default:
					offset := start + rng.Int64N(slow.next-start+2)
					_, tracked := slow.resolved[offset]
					want := tracked || offset < slow.committable()
					if got := fast.Resolve(offset); got != want {
						t.Fatalf("step %d: Resolve(%d) = %v, want %v", step, offset, got, want)
					}
					if tracked {
						slow.resolved[offset] = true
					}
				}
				if got, want := fast.Committable(), slow.committable(); got != want {
					t.Fatalf("step %d: committable %d, want %d", step, got, want)
				}
				gn, gb := fast.Unresolved()
				if wn, wb := slow.unresolved(); gn != wn || gb != wb {
					t.Fatalf("step %d: unresolved %d (%d bytes), want %d (%d bytes)", step, gn, gb, wn, wb)
				}
				if fast.Committable() < last {
					t.Fatalf("step %d: committable went back from %d to %d", step, last, fast.Committable())
				}
				last = fast.Committable()
			}
		})
	}
}

func TestTrackerStopsAtHole(t *testing.T) {
	tr := NewTracker(10)
	for o := int64(10); o < 15; o++ {
		tr.Track(o, 1)
	}
	for _, o := range []int64{14, 12, 10, 13} {
		tr.Resolve(o)
	}
	if got := tr.Committable(); got != 11 {
		t.Errorf("with 11 open, committable is %d", got)
	}
	tr.Resolve(11)
	tr.Advance(17) // two transaction markers follow
	if got := tr.Committable(); got != 17 {
		t.Errorf("with all resolved, committable is %d, want 17", got)
	}
	if tr.Track(16, 1) {
		t.Error("an offset that was passed already was tracked again")
	}
	if tr.Resolve(99) {
		t.Error("an offset that was never tracked was resolved")
	}
}

func TestTrackerMemoryIsBoundedByTheWindow(t *testing.T) {
	tr := NewTracker(0)
	for o := range int64(100_000) {
		tr.Track(o, 1)
		if o >= 100 {
			tr.Resolve(o - 100)
		}
	}
	if c := cap(tr.entries); c > 4096 {
		t.Errorf("a window of 100 records takes %d entries", c)
	}
}

func BenchmarkTracker(b *testing.B) {
	tr := NewTracker(0)
	var o int64
	for b.Loop() {
		tr.Track(o, 4096)
		if o >= 1000 {
			tr.Resolve(o - 1000 + o%7) // almost in order
			tr.Resolve(o - 1000)
		}
		o++
	}
}
