package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrClosed is returned to producers of a batcher that has been closed.
var ErrClosed = errors.New("batcher is closed")

// Request is one window to be computed. Between Submit and Receive it belongs to
// the batcher.
type Request struct {
	Input  []float32 // samples of the window
	Output []float32 // receives the scores, frame by frame
	Tag    int       // the producer's own, for example the window's number
	Err    error     // why there are no scores; nil if there are

	producer *Producer
	queued   time.Time
}

// BatcherConfig sets a Batcher's sizes.
type BatcherConfig struct {
	// Batch is the largest number of requests that are computed together, at
	// least 1 and at most what the runners have room for.
	Batch int
	// Queue is the number of requests that may wait, at least Batch. Submit
	// blocks beyond it.
	Queue int
	// MaxDelay is how long an incomplete batch may wait for more requests while
	// producers are busy; 0 sends whatever there is to a free runner.
	MaxDelay time.Duration
	// Timeout is how long a batch may be computed before its runner is given up;
	// 0 is for ever. Time in which the process stood still doesn't count.
	Timeout time.Duration
	// Metrics receives counts and durations; nil for none.
	Metrics *Metrics
}

// HungError says that a runner did not come back from a batch. The call into the
// native library can't be ended, so all that is left is to end the process.
type HungError struct {
	Windows int           // in the batch
	Timeout time.Duration // that has passed
}

func (e *HungError) Error() string {
	return fmt.Sprintf("the device has not computed a batch of %d windows within %v: it hangs, and only a new process can do without", e.Windows, e.Timeout)
}

// Batcher forms batches from the requests of many producers and computes them on
// its runners. It is safe for concurrent use.
//
// One goroutine per runner takes turns at looking at the queue: the one that
// holds the turn waits until a batch is due, takes it, passes the turn on and
// computes. So exactly one goroutine waits on changed, however many runners
// there are, and no signal is lost to one that doesn't need it.
//
// A batch that fails is computed once more, by another runner if there is one
// that has time: what is wrong may be one session or a moment. When that fails
// too its requests have an error. A runner that hangs is the end of the batcher:
// everything that waits has an error, and so has all that comes.
type Batcher struct {
	workers []*worker
	cfg     BatcherConfig

	slots   chan struct{} // one token per queued request; sends are served first come, first served
	turn    chan struct{} // held by the goroutine that watches the queue
	changed chan struct{} // holds a token after the queue or a producer has changed
	closing chan struct{}
	hung    chan struct{} // closed when a runner hangs; failure says so
	working sync.WaitGroup
	close   sync.Once

	mu        sync.Mutex
	queue     []*Request // oldest first
	again     []*retry   // batches that have failed once
	failure   error
	producers int
	waiting   int
}

// NewBatcher starts a batcher on at least one runner. Close closes the runners too.
func NewBatcher(runners []Runner, cfg BatcherConfig) (*Batcher, error) {
	switch {
	case len(runners) == 0:
		return nil, errors.New("batcher needs a runner")
	case cfg.Batch < 1:
		return nil, fmt.Errorf("batch size %d is not positive", cfg.Batch)
	case cfg.Queue < cfg.Batch:
		return nil, fmt.Errorf("queue of %d is smaller than a batch of %d", cfg.Queue, cfg.Batch)
	case cfg.MaxDelay < 0:
		return nil, fmt.Errorf("maximum delay %v is negative", cfg.MaxDelay)
	}
	b := &Batcher{
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.Queue),
		turn:    make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		closing: make(chan struct{}),
		hung:    make(chan struct{}),
		queue:   make([]*Request, 0, cfg.Queue),
	}
	for _, r := range runners {
		w := &worker{b: b, runner: r}
		b.workers = append(b.workers, w)
		b.working.Add(1)
		go w.work()
	}
	if cfg.Timeout > 0 {
		go b.watch()
	}
	return b, nil
}

// Close computes what is queued, stops the runners and releases them, but for
// one that hangs. Producers may still receive what they submitted.
func (b *Batcher) Close() error {
	var err error
	b.close.Do(func() {
		b.mu.Lock()
		close(b.closing)
		b.mu.Unlock()
		b.notify()
		b.working.Wait()
		for _, w := range b.workers {
			if !w.abandoned {
				err = errors.Join(err, w.runner.Close())
			}
		}
	})
	return err
}

// Watch returns when a runner hangs, with a [HungError], or when ctx ends, with
// nil.
func (b *Batcher) Watch(ctx context.Context) error {
	select {
	case <-b.hung:
		return b.failure
	case <-ctx.Done():
		return nil
	}
}

// notify wakes the goroutine that watches the queue.
func (b *Batcher) notify() {
	select {
	case b.changed <- struct{}{}:
	default: // it will wake anyway
	}
}

// isClosing reports whether Close has been called.
func (b *Batcher) isClosing() bool {
	select {
	case <-b.closing:
		return true
	default:
		return false
	}
}

// take waits for a batch to be due, and moves it from the queue to batch. The
// reason is DispatchNone once the batcher is closed and empty.
func (b *Batcher) take(batch []*Request) ([]*Request, Dispatch) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	for {
		b.mu.Lock()
		if len(b.again) > 0 {
			r := b.again[0]
			b.again = slices.Delete(b.again, 0, 1)
			b.mu.Unlock()
			close(r.taken)
			return append(batch, r.batch...), DispatchRetry
		}
		state := queueState{
			queued:    len(b.queue),
			producers: b.producers,
			waiting:   b.waiting,
			closing:   b.isClosing(),
		}
		if state.queued > 0 {
			state.age = time.Since(b.queue[0].queued)
		}
		reason, recheck := plan(state, b.cfg.Batch, b.cfg.MaxDelay)
		if reason != DispatchNone {
			n := min(state.queued, b.cfg.Batch)
			batch = append(batch, b.queue[:n]...)
			b.queue = slices.Delete(b.queue, 0, n)
			b.cfg.Metrics.queueLength(len(b.queue))
		}
		b.mu.Unlock()
		if reason != DispatchNone {
			for range batch {
				<-b.slots
			}
			return batch, reason
		}
		if state.closing {
			return batch, DispatchNone
		}
		b.waitForChange(recheck)
	}
}

// waitForChange returns after a change, or after d unless that is 0.
func (b *Batcher) waitForChange(d time.Duration) {
	if d == 0 {
		<-b.changed
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.changed:
	case <-timer.C:
	}
}

// deliver gives a request back. The producer stops counting as waiting here and
// not when it wakes: until it has had the chance to submit more, the runners
// must not conclude that nothing more can come. b.mu is held.
func (b *Batcher) deliver(req *Request) {
	p := req.producer
	if p.waiting {
		p.waiting = false
		b.waiting--
	}
	p.results <- req // has room for every outstanding request, received or not
}

// Producer is one source of requests. It is used by one goroutine at a time.
type Producer struct {
	b           *Batcher
	results     chan *Request
	outstanding int // submitted and not received

	waiting bool // counted in b.waiting; guarded by b.mu
	closed  bool // guarded by b.mu
}

// NewProducer registers a producer that will have at most limit requests
// outstanding. While it exists and doesn't block in Receive, the batcher expects
// more from it, so it must be closed.
func (b *Batcher) NewProducer(limit int) *Producer {
	p := &Producer{b: b, results: make(chan *Request, limit)}
	b.mu.Lock()
	b.producers++
	b.mu.Unlock()
	return p
}

// Outstanding returns the number of requests that were submitted and not yet received.
func (p *Producer) Outstanding() int { return p.outstanding }

// Full reports whether the producer must Receive before it can Submit again.
func (p *Producer) Full() bool { return p.outstanding == cap(p.results) }

// Submit queues a request and blocks while the queue is full. The request, its
// input and its output belong to the batcher until Receive returns it; after an
// error they still belong to the producer.
func (p *Producer) Submit(ctx context.Context, req *Request) error {
	if p.Full() {
		return fmt.Errorf("submitting a request: the producer's limit of %d is reached", cap(p.results))
	}
	b := p.b
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case b.slots <- struct{}{}:
	case <-b.closing:
		return ErrClosed
	case <-b.hung:
		return b.failure
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	if b.failure != nil || b.isClosing() {
		err := cmp.Or(b.failure, ErrClosed)
		b.mu.Unlock()
		<-b.slots
		return err
	}
	req.producer, req.Err, req.queued = p, nil, time.Now()
	b.queue = append(b.queue, req)
	p.outstanding++
	b.cfg.Metrics.queueLength(len(b.queue))
	b.mu.Unlock()
	b.notify()
	return nil
}

// Receive returns the next computed request of this producer; its Err tells
// whether there are scores. Without outstanding requests it returns an error.
func (p *Producer) Receive(ctx context.Context) (*Request, error) {
	if p.outstanding == 0 {
		return nil, errors.New("receiving a request: none is outstanding")
	}
	p.setWaiting()
	select {
	case req := <-p.results:
		p.outstanding--
		return req, nil
	case <-ctx.Done():
		p.clearWaiting()
		return nil, ctx.Err()
	}
}

// setWaiting counts the producer as waiting, unless it has a result already.
// Results are delivered under the same lock, so that one which comes later finds
// the producer waiting and takes the mark off.
func (p *Producer) setWaiting() {
	b := p.b
	b.mu.Lock()
	waits := len(p.results) == 0
	if waits {
		p.waiting = true
		b.waiting++
	}
	b.mu.Unlock()
	if waits {
		b.notify()
	}
}

// clearWaiting undoes setWaiting if no result has.
func (p *Producer) clearWaiting() {
	b := p.b
	b.mu.Lock()
	if p.waiting {
		p.waiting = false
		b.waiting--
	}
	b.mu.Unlock()
}

// Close takes the producer off. Requests that it still has in the queue are
// dropped; the buffers of those that are being computed must not be reused.
func (p *Producer) Close() {
	b := p.b
	b.mu.Lock()
	if p.closed {
		b.mu.Unlock()
		return
	}
	p.closed = true
	b.producers--
	before := len(b.queue)
	if p.outstanding > 0 {
		b.queue = slices.DeleteFunc(b.queue, func(req *Request) bool { return req.producer == p })
	}
	dropped := before - len(b.queue)
	b.cfg.Metrics.queueLength(len(b.queue))
	b.mu.Unlock()
	for range dropped {
		<-b.slots
	}
	b.notify()
}
