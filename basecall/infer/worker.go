package infer

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// worker computes batches on one runner.
type worker struct {
	b      *Batcher
	runner Runner
	busy   time.Duration // that the last batch took, of a turn that has not been given back
	turn   bool          // it is this worker's turn to use the device

	// Guarded by b.mu.
	batch     []*Request    // in the runner; nil: none
	number    uint64        // counts batches
	watched   uint64        // the batch that observed is about
	observed  time.Duration // for how long the watchdog has seen it run
	abandoned bool          // the runner hangs: nothing is heard of it any more
}

// retry is a batch that has failed once.
type retry struct {
	batch []*Request
	taken chan struct{} // closed when a worker has it
}

// yield is how long a worker whose batch has failed leaves it to the others.
const yield = time.Second

// work computes batches until the batcher is closed and empty, or the runner is
// given up.
func (w *worker) work() {
	batch := make([]*Request, 0, w.b.cfg.Batch)
	for {
		var reason Dispatch
		if batch, reason = w.take(batch[:0]); reason == DispatchNone {
			w.b.working.Done()
			return
		}
		if !w.compute(batch, reason) {
			return
		}
		clear(batch)
	}
}

// take waits for a batch and for the turn to compute it. A batch that is there already asks
// for its turn before the one before gives its own back, so that a network with work for
// more than it can compute never seems to have none.
func (w *worker) take(batch []*Request) ([]*Request, Dispatch) {
	b := w.b
	if w.turn {
		var reason Dispatch
		batch, reason = b.takeNow(batch)
		if reason != DispatchNone {
			b.party.again(w.busy)
			return batch, reason
		}
		w.giveBack()
	}
	batch, reason := b.take(batch)
	if reason != DispatchNone {
		b.party.enter()
		w.turn = b.party != nil
	}
	return batch, reason
}

// giveBack ends the worker's turn.
func (w *worker) giveBack() {
	if w.turn {
		w.b.party.leave(w.busy)
		w.turn, w.busy = false, 0
	}
}

// compute runs a batch and gives every request of it back to its producer. It
// reports false when that took so long that the runner was given up.
func (w *worker) compute(batch []*Request, reason Dispatch) bool {
	b := w.b
	start := time.Now()
	for row, req := range batch {
		if reason != DispatchRetry {
			b.cfg.Metrics.queueDuration(start.Sub(req.queued))
		}
		copy(w.runner.Input(row), req.Input)
	}
	b.mu.Lock()
	w.batch = batch
	w.number++
	b.mu.Unlock()

	computed, err := w.runner.Run(len(batch))
	w.busy = time.Since(start)
	if err == nil && computed < len(batch) {
		err = fmt.Errorf("it computed %d", computed)
	}

	// From here on the requests are this worker's again, unless the watchdog has
	// given them back.
	b.mu.Lock()
	w.batch = nil
	abandoned := w.abandoned
	b.mu.Unlock()
	if abandoned {
		w.giveBack()
		return false
	}
	if err == nil {
		err = w.outputs(batch)
	}
	if err != nil {
		err = fmt.Errorf("running a batch of %d windows: %w", len(batch), err)
	}
	b.cfg.Metrics.batch(reason, batch, computed, time.Since(start), err)
	if err != nil && reason != DispatchRetry {
		w.giveBack() // others need it for the second try
		b.retry(batch)
		return true
	}
	b.mu.Lock()
	for _, req := range batch {
		req.Err = err
		b.deliver(req)
	}
	b.mu.Unlock()
	return true
}

// outputs takes the scores of a batch from the runner. What is no number comes
// from a device that doesn't work, whatever it says.
func (w *worker) outputs(batch []*Request) error {
	for row, req := range batch {
		w.runner.Output(row, req.Output)
		for i, score := range req.Output {
			if score != score || math.IsInf(float64(score), 1) {
				return fmt.Errorf("score %d of window %d is %v", i, row, score)
			}
		}
	}
	return nil
}

// retry puts a batch that has failed before everything else, and leaves it to
// the other runners for a while.
func (b *Batcher) retry(batch []*Request) {
	r := &retry{batch: slices.Clone(batch), taken: make(chan struct{})}
	b.mu.Lock()
	if b.failure != nil {
		b.fail(r.batch)
		b.mu.Unlock()
		return
	}
	b.again = append(b.again, r)
	b.mu.Unlock()
	b.notify()
	if len(b.workers) == 1 {
		return
	}
	timer := time.NewTimer(yield)
	defer timer.Stop()
	select {
	case <-r.taken:
	case <-timer.C:
	}
}

// fail gives requests back with the batcher's failure. b.mu is held.
func (b *Batcher) fail(batch []*Request) {
	for _, req := range batch {
		req.Err = b.failure
		b.deliver(req)
	}
}

// watch looks at what the runners do until they are done or one hangs.
func (b *Batcher) watch() {
	done := make(chan struct{})
	go func() { b.working.Wait(); close(done) }()
	interval := b.cfg.Timeout / 8
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			// A process that was stopped and goes on finds that much time has
			// passed, in which the device had none to answer.
			if b.check(min(now.Sub(last), 2*interval)) {
				return
			}
			last = now
		}
	}
}

// check adds passed to the time that each batch has taken, and reports whether a
// runner hangs.
func (b *Batcher) check(passed time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.workers {
		if w.batch == nil {
			continue
		}
		if w.watched != w.number {
			w.watched, w.observed = w.number, 0
			continue
		}
		if w.observed += passed; w.observed >= b.cfg.Timeout {
			b.giveUp(w)
			return true
		}
	}
	return false
}

// giveUp ends the batcher because of a worker whose runner hangs. b.mu is held.
func (b *Batcher) giveUp(w *worker) {
	b.failure = &HungError{Windows: len(w.batch), Timeout: b.cfg.Timeout}
	w.abandoned = true
	b.working.Done()
	b.fail(w.batch)
	queued := b.queue.drop(func(*Request) bool { return true })
	b.fail(queued)
	for _, req := range queued {
		req.leave()
	}
	for _, r := range b.again {
		b.fail(r.batch)
		close(r.taken)
	}
	b.again = nil
	b.cfg.Metrics.queueLength(0)
	close(b.hung)
}
