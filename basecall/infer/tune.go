package infer

import (
	"fmt"
	"runtime"
	"time"
)

// How a batch size is found.
const (
	// tuneBudget is how much processor time is spent on it, one batch aside.
	tuneBudget = time.Second
	// tuneSlack is by how much a smaller batch may be slower per window than the best.
	tuneSlack = 1.05
)

// tune finds how many windows, up to batch, a runner on a CPU best computes
// together: as few as are about as fast per window as any number. On a CPU a
// batch of half the size takes half the time, so that windows somebody waits for
// get a session sooner; what a network loses by it depends on the network.
//
// It goes down from batch in halves and measures by clock. The clock has to
// return the processor time of the runner's thread, since on a machine that
// others use as well small batches would appear slow. A network so slow that the
// budget is spent keeps the size that was best so far.
func tune(r Runner, batch int, clock func() time.Duration) (int, error) {
	type candidate struct {
		size int
		cost time.Duration // per window
	}
	var measured []candidate
	began := clock()
	best := time.Duration(1<<63 - 1)
	for size := batch; size >= 1; size /= 2 {
		if len(measured) > 0 && clock()-began > tuneBudget {
			break
		}
		for row := range size {
			fillProbe(r.Input(row), row)
		}
		cost := time.Duration(1<<63 - 1)
		for again := range 2 { // the first time of a size is slow
			start := clock()
			if again > 0 && start-began > tuneBudget {
				break
			}
			if _, err := r.Run(size, len(r.Input(0))); err != nil {
				return 0, fmt.Errorf("trying batches of %d windows: %w", size, err)
			}
			cost = min(cost, (clock()-start)/time.Duration(size))
		}
		measured = append(measured, candidate{size, cost})
		best = min(best, cost)
	}
	found := batch
	for _, c := range measured {
		if float64(c.cost) <= tuneSlack*float64(best) {
			found = c.size
		}
	}
	return found, nil
}

// tuneBatch lowers the batch of runners on a CPU to what tune finds. Padded
// batches keep their size, as they have to be the same whenever a read is called.
func (r *Runners) tuneBatch() error {
	if r.Padded {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	size, err := tune(r.Runners[0], r.Batch, threadTime)
	if err != nil {
		return err
	}
	r.Batch = size
	return nil
}
