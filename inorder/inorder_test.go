package inorder

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// square reads n numbers, which take their time to be squared, and returns the squares as
// they are finished and how many numbers were out at once.
func square(ctx context.Context, workers, n int, fail func(step string, number int) error) (squares []int, most int, err error) {
	type piece struct{ number, square int }
	var finished atomic.Int64
	read := func(_ context.Context, emit func(*piece) error) error {
		for i := range n {
			if err := fail("read", i); err != nil {
				return err
			}
			if err := emit(&piece{number: i}); err != nil {
				return err
			}
			most = max(most, i+1-int(finished.Load()))
		}
		return nil
	}
	work := func(worker int, pieces iter.Seq[*piece]) error {
		rnd := rand.New(rand.NewPCG(1, uint64(worker)))
		for p := range pieces {
			time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
			if err := fail("work", p.number); err != nil {
				return err
			}
			p.square = p.number * p.number
		}
		return nil
	}
	err = Do(ctx, workers, read, work, func(p *piece) error {
		if err := fail("finish", p.number); err != nil {
			return err
		}
		squares = append(squares, p.square)
		finished.Add(1)
		return nil
	})
	return squares, most, err
}

func never(string, int) error { return nil }

func TestDoKeepsTheOrder(t *testing.T) {
	for _, workers := range []int{1, 2, 7} {
		for _, n := range []int{0, 1, 100} {
			synctest.Test(t, func(t *testing.T) {
				squares, most, err := square(t.Context(), workers, n, never)
				require.NoError(t, err)
				require.Len(t, squares, n)
				for i, s := range squares {
					require.Equal(t, i*i, s)
				}
				assert.LessOrEqual(t, most, 5*workers+2, "what is out is bounded")
			})
		}
	}
}

func TestDoEndsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	for _, step := range []string{"read", "work", "finish"} {
		synctest.Test(t, func(t *testing.T) {
			squares, _, err := square(t.Context(), 3, 1000, func(s string, number int) error {
				if s == step && number == 50 {
					return broken
				}
				return nil
			})
			require.ErrorIs(t, err, broken, step)
			require.LessOrEqual(t, len(squares), 50)
		})
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errors.New("a cause"))
		defer cancel()
		_, _, err := square(ctx, 2, 1000, never)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
