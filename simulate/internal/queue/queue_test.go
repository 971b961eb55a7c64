package queue

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTurns holds the queue to a list that is sorted anew before each turn.
func TestTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	compare := func(a, b *int) int { return cmp.Compare(*a, *b) }
	q := New(compare)
	var list []*int
	for range 2000 {
		next := rng.IntN(1 << 30)
		switch n := rng.IntN(3); {
		case n == 0 || len(list) == 0:
			q.Push(&next)
			list = append(list, &next)
		case n == 1:
			*q.First() = next
			q.Fix()
		default:
			q.Drop()
			list = list[1:]
		}
		slices.SortFunc(list, compare)
		require.Equal(t, len(list), q.Len())
		if len(list) > 0 {
			require.Same(t, list[0], q.First())
		}
	}
}
