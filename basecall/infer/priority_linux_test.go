package infer

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestGivesWay: only the threads of a batcher that gives way have a lower priority, by as much as is said, and when it is closed no
// thread has.
func TestGivesWay(t *testing.T) {
	nice := func() int {
		had, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		assert.NoError(t, err)
		return 20 - had
	}
	own := nice()
	for givesWay, want := range map[bool]int{true: min(own+givingWay, 19), false: own} {
		f := newFixture(t, 1, 0, BatcherConfig{Batch: 1, Queue: 1, GivesWay: givesWay})
		var at int
		f.fakes[0].fail = func(int) error { at = nice(); return nil }
		p := f.NewProducer(1)
		require.NoError(t, p.Submit(t.Context(), newRequest(1)))
		receiveAll(t, p, 1)
		p.Close()
		require.NoError(t, f.Close())
		assert.Equal(t, want, at, "gives way: %v", givesWay)
	}
	const threads = 16
	var group sync.WaitGroup
	var together sync.WaitGroup
	together.Add(threads)
	for range threads {
		group.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			together.Done()
			together.Wait() // each on a thread of its own
			assert.Equal(t, own, nice())
		})
	}
	group.Wait()
}
