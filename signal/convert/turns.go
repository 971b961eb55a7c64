package convert

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// turns lets several goroutines work on numbered tasks at once, and finish them one
// at a time in their order. The first error in that order ends all.
type turns struct {
	mu    sync.Mutex
	cond  *sync.Cond
	next  int // whose turn it is
	err   error
	ended bool
}

func newTurns() *turns {
	t := new(turns)
	t.cond = sync.NewCond(&t.mu)
	return t
}

// wait returns true when it is a task's turn, and false when it won't be.
func (t *turns) wait(task int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.next != task && !t.ended {
		t.cond.Wait()
	}
	return !t.ended
}

// done ends a turn.
func (t *turns) done(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	if err != nil {
		t.err, t.ended = err, true
	}
	t.cond.Broadcast()
}

// inOrder runs tasks 0 to n-1 on as many goroutines as there are processors, and
// returns the error of the first that fails. A task is called with the number of its
// goroutine and with a function that waits for its turn: what it does behind that, no
// other does at the same time, and all before it have done. When the function returns
// false another task has failed, and this one is to return. Tasks begin in order, and
// no more than there are goroutines are under way, each with one read in memory.
func inOrder(ctx context.Context, n int, task func(goroutine, i int, turn func() bool) error) error {
	t := newTurns()
	var begun atomic.Int64
	var wg sync.WaitGroup
	for g := range workers(n) {
		wg.Go(func() {
			for {
				i := int(begun.Add(1)) - 1
				if i >= n {
					return
				}
				waited, mine := false, false
				err := context.Cause(ctx)
				if err == nil {
					err = task(g, i, func() bool {
						waited, mine = true, t.wait(i)
						return mine
					})
				}
				if !waited {
					mine = t.wait(i)
				}
				if !mine {
					return
				}
				if t.done(err); err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return t.err
}

// workers is the number of goroutines for n tasks.
func workers(n int) int { return max(1, min(n, runtime.GOMAXPROCS(0))) }
