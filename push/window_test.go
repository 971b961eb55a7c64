package push

import (
	"math/rand/v2"
	"testing"
)

// TestWindow compares a window with a list of everything that was ever added.
func TestWindow(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 6))
		first := uint64(rng.IntN(100))
		w := newWindow[uint64](first, 1000)
		acked, send, next := first, first, first
		sizes := make(map[uint64]int64)
		for range 500 {
			switch n := uint64(rng.IntN(8)); rng.IntN(4) {
			case 0:
				size := int64(1 + rng.IntN(400))
				used := int64(0)
				for k := acked; k < next; k++ {
					used += sizes[k]
				}
				if got, want := w.fits(size), used == 0 || used+size <= 1000; got != want {
					t.Fatalf("%d bytes fit behind %d: %v", size, used, got)
				}
				if w.fits(size) {
					w.add(next, size)
					sizes[next] = size
					next++
				}
			case 1:
				v, ok := w.pending()
				if ok != (send < next) || ok && v != send {
					t.Fatalf("pending is %d, %v, want %d of %d", v, ok, send, next)
				}
				if ok {
					w.sent()
					send++
				}
			case 2:
				number := acked + n - min(n, 2) // sometimes an old one, sometimes too many
				if n < 2 {
					number = acked - min(n, acked)
				}
				err := w.ack(number)
				if (err != nil) != (number > next) {
					t.Fatalf("ack of %d of %d: %v", number, next, err)
				}
				if err == nil {
					acked = max(acked, number)
					send = max(send, acked)
				}
			case 3:
				number := acked + n - min(n+acked, 1)
				err := w.rewind(number)
				if (err != nil) != (number < acked || number > next) {
					t.Fatalf("rewind to %d, from %d to %d: %v", number, acked, next, err)
				}
				if err == nil {
					send = number
				}
			}
			if w.first != acked || w.next() != next || w.send != send {
				t.Fatalf("first %d, send %d, next %d; want %d, %d, %d", w.first, w.send, w.next(), acked, send, next)
			}
		}
	}
}
