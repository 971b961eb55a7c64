package infer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/porestream/porestream/basecall/scores"
)

// worker computes batches on one session. Those that it has computed are decoded at
// the side, if the session has several places for batches.
type worker struct {
	b        *Batcher
	places   []*place
	free     chan *place    // those that nothing lies in
	decoding sync.WaitGroup // batches that are decoded at the side
	busy     time.Duration  // that the last batch took, of a turn that has not been given back
	turn     bool           // it is this worker's turn to use the device

	// Guarded by b.mu.
	batch     []*Request    // in the runner; nil: none
	number    uint64        // counts batches
	watched   uint64        // the batch that observed is about
	observed  time.Duration // for how long the watchdog has seen it run
	abandoned bool          // the runner hangs: its results are no longer accepted
}

// place is where a batch lies.
type place struct {
	runner   Runner
	batch    []*Request
	reason   Dispatch
	computed int
	took     time.Duration
}

func newWorker(b *Batcher, runners []Runner) *worker {
	w := &worker{b: b, free: make(chan *place, len(runners))}
	for _, r := range runners {
		p := &place{runner: r, batch: make([]*Request, 0, b.cfg.Batch)}
		w.places = append(w.places, p)
		w.free <- p
	}
	return w
}

func (w *worker) close() error {
	var err error
	for _, p := range w.places {
		err = errors.Join(err, p.runner.Close())
	}
	return err
}

// retry is a batch that has failed once.
type retry struct {
	batch []*Request
	taken chan struct{} // closed when a worker has it
}

// yield is how long a worker whose batch has failed leaves it to the others.
const yield = time.Second

// work computes batches until the batcher is closed and empty, or the session is
// given up.
func (w *worker) work() {
	if w.b.cfg.GivesWay {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, so that no other gets its priority
		giveWay()
	}
	for {
		p := w.vacant()
		if p.batch, p.reason = w.take(p.batch[:0]); p.reason == DispatchNone {
			w.free <- p
			// A batch that is decoded at the side may have to be computed once more.
			w.decoding.Wait()
			w.b.mu.Lock()
			over := len(w.b.again) == 0
			w.b.mu.Unlock()
			if !over {
				continue
			}
			w.b.working.Done()
			return
		}
		if !w.compute(p) {
			return
		}
	}
}

// vacant waits for a place, and leaves the device to others meanwhile.
func (w *worker) vacant() *place {
	select {
	case p := <-w.free:
		return p
	default:
		w.giveBack()
		return <-w.free
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

// compute runs a batch and has it decoded and given back. It reports false when
// it took so long that the session was given up.
func (w *worker) compute(p *place) bool {
	b := w.b
	start := time.Now()
	for row, req := range p.batch {
		if p.reason != DispatchRetry {
			b.cfg.Metrics.queueDuration(start.Sub(req.queued))
		}
		copy(p.runner.Input(row), req.Input)
		p.runner.Count(row, req.Frames)
	}
	b.mu.Lock()
	w.batch = p.batch
	w.number++
	b.mu.Unlock()

	var err error
	p.computed, err = p.runner.Run(len(p.batch), len(p.batch[0].Input))
	w.busy = time.Since(start)
	p.took = w.busy
	if err == nil && p.computed < len(p.batch) {
		err = fmt.Errorf("it computed %d", p.computed)
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
	switch {
	case err != nil:
		w.failed(p, err)
		if p.reason != DispatchRetry {
			w.giveBack() // others need it for the second try
		}
		w.settle(p)
	case len(w.places) == 1:
		if w.decode(p) && p.reason != DispatchRetry {
			w.giveBack()
		}
		w.settle(p)
	default:
		w.decoding.Go(func() {
			w.decode(p)
			w.settle(p)
		})
	}
	return true
}

// failed gives all requests of a batch an error.
func (w *worker) failed(p *place, err error) {
	for _, req := range p.batch {
		req.Err = fmt.Errorf("running a batch of %d windows: %w", len(p.batch), err)
	}
}

// decode takes the scores of a batch from the runner, several windows at a time. What is no number comes
// from a device that doesn't work, whatever it says. It reports whether something was wrong.
func (w *worker) decode(p *place) (wrong bool) {
	var next atomic.Int64
	take := func() {
		for row := int(next.Add(1)) - 1; row < len(p.batch); row = int(next.Add(1)) - 1 {
			req := p.batch[row]
			req.Err = nil
			if err := req.decode(p.runner.Scores(row)); err != nil {
				req.Err = fmt.Errorf("window %d of a batch of %d: %w", row, len(p.batch), err)
			}
		}
	}
	var others sync.WaitGroup
	for range min(w.b.cfg.Decoders, len(p.batch)) - 1 {
		others.Go(take)
	}
	take()
	others.Wait()
	return slices.ContainsFunc(p.batch, func(req *Request) bool { return req.Err != nil })
}

// NoNumberError says that a score of a window is not a finite number.
type NoNumberError struct {
	Score int
	Value float32
}

func (e *NoNumberError) Error() string { return fmt.Sprintf("score %d is %v", e.Score, e.Value) }

// decode hands the scores over.
func (r *Request) decode(w scores.Window) error {
	if r.Decode != nil {
		return r.Decode(w)
	}
	w.Copy(r.Output)
	for i, score := range r.Output {
		if score != score || math.IsInf(float64(score), 1) {
			return &NoNumberError{Score: i, Value: score}
		}
	}
	return nil
}

// settle gives every request of a batch back to its producer, or has the batch computed once more,
// and frees its place.
func (w *worker) settle(p *place) {
	b := w.b
	var err error
	for _, req := range p.batch {
		err = cmp.Or(err, req.Err)
	}
	b.cfg.Metrics.batch(p.reason, p.batch, p.computed, p.took, err)
	if err != nil && p.reason != DispatchRetry {
		again := slices.Clone(p.batch)
		if len(w.places) == 1 {
			b.retry(again)
			w.vacate(p)
			return
		}
		w.vacate(p) // it may be wanted for the second try
		b.retry(again)
		return
	}
	b.mu.Lock()
	for _, req := range p.batch {
		b.deliver(req)
	}
	b.mu.Unlock()
	w.vacate(p)
}

// vacate frees a place.
func (w *worker) vacate(p *place) {
	clear(p.batch)
	w.free <- p
}

// retry puts a batch that has failed before everything else, and leaves it to
// the other runners for a while.
func (b *Batcher) retry(batch []*Request) {
	r := &retry{batch: batch, taken: make(chan struct{})}
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

// watch observes the runners until they are done or one hangs.
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
