package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/porestream/porestream/basecall/scores"
)

// ErrClosed is returned to producers of a batcher that has been closed.
var ErrClosed = errors.New("batcher is closed")

// Request is one window to be computed. Between Submit and Receive it belongs to
// the batcher.
type Request struct {
	Input []float32 // samples of the window
	// Short says that the window is shorter than others, so that only those of its length are in its batch.
	Short bool
	// Leisure says of one that is short that nobody waits for it by itself: it may wait until a batch of its length is whole,
	// while there are others to compute. It takes up no place in the queue, so a producer has one of them at a time.
	Leisure bool
	// Decode, if it is set, is given the scores where they lie in the batch, on a goroutine
	// of the batcher, and leaves them as they are. Its error says that they are wrong: the batch
	// is then computed once more, and Decode called again.
	Decode func(scores.Window) error
	Output []float32 // receives the scores, frame by frame, without Decode
	Frames int       // that are wanted of the window; 0 means all
	Tag    int       // the producer's own, for example the window's number
	Err    error     // why there are no scores; nil if there are

	producer *Producer
	queued   time.Time
	slot     chan struct{} // that it takes up while it is queued; nil for none
	serial   int           // of those at leisure, counted by the queue
}

// leave frees the place in the queue.
func (r *Request) leave() {
	if r.slot != nil {
		<-r.slot
	}
}

// BatcherConfig sets a Batcher's sizes.
type BatcherConfig struct {
	// Batch is the largest number of requests that are computed together, at
	// least 1 and at most what the runners have space for.
	Batch int
	// Queue is the number of requests that may wait, at least Batch. Submit
	// blocks beyond it.
	Queue int
	// PatientQueue is the same for patient producers; 0 means Queue.
	PatientQueue int
	// Patience is for how long others may overtake a request of a patient producer;
	// 0 means a second.
	Patience time.Duration
	// Leisure is how many requests at leisure may come after one before it is computed with however many there are of
	// its length; 0 means that a batch of them is never waited for.
	Leisure int
	// MaxDelay is how long an incomplete batch may wait for more requests while
	// producers are busy; 0 sends whatever there is to a free runner.
	MaxDelay time.Duration
	// Timeout is how long a batch may be computed before its runner is given up;
	// 0 is for ever. Time in which the process stood still doesn't count.
	Timeout time.Duration
	// Places is how many of the runners are one session, which computes one batch at a time
	// while those in its other places are decoded; 0 means 1.
	Places int
	// Decoders is how many windows of a batch are decoded at the same time; 0 means 1. With
	// one place, a session waits for that.
	Decoders int
	// GivesWay has the threads that compute on the CPU leave it to all others that want it.
	GivesWay bool
	// Share, if set, has batches of this batcher and of others that share it take turns.
	Share *Share
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
// One goroutine per session takes turns at watching the queue: the one that
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
	party   *party // nil: nothing is shared

	// One token per queued request, of patient producers and of others; sends are
	// served first come, first served.
	slots, patientSlots chan struct{}

	turn    chan struct{} // held by the goroutine that watches the queue
	changed chan struct{} // holds a token after the queue or a producer has changed
	closing chan struct{}
	hung    chan struct{} // closed when a runner hangs; failure says so
	working sync.WaitGroup
	close   sync.Once

	mu        sync.Mutex
	queue     queue
	submitted time.Time // when the last request came
	again     []*retry  // batches that have failed once
	failure   error
	producers int // that are not patient
	waiting   int // of these
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
	case cfg.PatientQueue < 0:
		return nil, fmt.Errorf("patient queue of %d is negative", cfg.PatientQueue)
	case len(runners)%max(1, cfg.Places) != 0:
		return nil, fmt.Errorf("%d runners are no sessions of %d places", len(runners), cfg.Places)
	case cfg.MaxDelay < 0 || cfg.Patience < 0 || cfg.Leisure < 0:
		return nil, fmt.Errorf("maximum delay %v, patience %v or leisure %d is negative", cfg.MaxDelay, cfg.Patience, cfg.Leisure)
	}
	b := &Batcher{
		cfg:          cfg,
		slots:        make(chan struct{}, cfg.Queue),
		patientSlots: make(chan struct{}, cmp.Or(cfg.PatientQueue, cfg.Queue)),
		turn:         make(chan struct{}, 1),
		changed:      make(chan struct{}, 1),
		closing:      make(chan struct{}),
		hung:         make(chan struct{}),
		queue:        queue{patience: cmp.Or(cfg.Patience, time.Second), batch: cfg.Batch, leisure: cfg.Leisure},
	}
	places := max(1, cfg.Places)
	b.party = cfg.Share.join(len(runners) / places)
	for session := range slices.Chunk(runners, places) {
		w := newWorker(b, session)
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
				err = errors.Join(err, w.close())
			}
		}
	})
	return err
}

// Watchdog returns when a runner hangs, with a [HungError], or when ctx ends, with
// nil.
func (b *Batcher) Watchdog(ctx context.Context) error {
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
		taken, reason, closing, recheck := b.takeDue(batch)
		if reason != DispatchNone || closing {
			return taken, reason
		}
		b.waitForChange(recheck)
	}
}

// takeNow is take without waiting: the reason is DispatchNone if no batch is due, or somebody
// else watches the queue.
func (b *Batcher) takeNow(batch []*Request) ([]*Request, Dispatch) {
	select {
	case b.turn <- struct{}{}:
	default:
		return batch, DispatchNone
	}
	defer func() { <-b.turn }()
	taken, reason, _, _ := b.takeDue(batch)
	return taken, reason
}

// takeDue moves a batch that is due from the queue to batch. Otherwise it returns after how
// long to check again; 0: after a change.
func (b *Batcher) takeDue(batch []*Request) (taken []*Request, reason Dispatch, closing bool, recheck time.Duration) {
	b.mu.Lock()
	if len(b.again) > 0 {
		r := b.again[0]
		b.again = slices.Delete(b.again, 0, 1)
		b.mu.Unlock()
		close(r.taken)
		return append(batch, r.batch...), DispatchRetry, false, 0
	}
	now := time.Now()
	state := queueState{
		queued:    b.queue.whole(),
		short:     len(b.queue.short),
		urgent:    len(b.queue.urgent),
		leisure:   len(b.queue.atLeisure),
		due:       b.queue.leisureDue(),
		quiet:     now.Sub(b.submitted),
		age:       b.queue.oldest(now),
		producers: b.producers,
		waiting:   b.waiting,
		closing:   b.isClosing(),
	}
	reason, recheck = plan(state, b.cfg.Batch, b.cfg.MaxDelay)
	if reason != DispatchNone {
		batch = b.queue.take(batch, b.cfg.Batch)
		if batch[0].Short {
			reason = DispatchShort // also where others would fill a batch
		}
		b.cfg.Metrics.queueLength(b.queue.len())
	}
	b.mu.Unlock()
	if reason != DispatchNone {
		for _, req := range batch {
			req.leave()
		}
	}
	return batch, reason, state.closing, recheck
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
	p.results = append(p.results, req)
	select {
	case p.arrived <- struct{}{}:
	default: // it will check anyway
	}
}

// Producer is one source of requests. It is used by one goroutine at a time.
type Producer struct {
	b           *Batcher
	limit       int           // of outstanding
	arrived     chan struct{} // holds a token after a result has come
	outstanding int           // submitted and not received

	// Guarded by b.mu.
	results []*Request // computed, and not received
	patient bool
	waiting bool // counted in b.waiting
	closed  bool
}

// NewProducer registers a producer that will have at most limit requests
// outstanding. While it exists and doesn't block in Receive, the batcher expects
// more from it, so it must be closed.
func (b *Batcher) NewProducer(limit int) *Producer {
	p := b.NewPatientProducer(limit)
	p.Hurry()
	return p
}

// NewPatientProducer registers a producer that doesn't wait for its results yet.
// The requests of others overtake its own, and no batch waits for it to fill up.
func (b *Batcher) NewPatientProducer(limit int) *Producer {
	return &Producer{b: b, limit: limit, arrived: make(chan struct{}, 1), patient: true}
}

// Hurry ends a producer's patience: from now on it waits for its results, also
// those of requests that are queued already.
func (p *Producer) Hurry() {
	b := p.b
	b.mu.Lock()
	if p.patient && !p.closed {
		p.patient = false
		b.producers++
		b.queue.hurry(p)
	}
	b.mu.Unlock()
	b.notify()
}

// Outstanding returns the number of requests that were submitted and not yet received.
func (p *Producer) Outstanding() int { return p.outstanding }

// Full reports whether the producer must Receive before it can Submit again.
func (p *Producer) Full() bool { return p.outstanding >= p.limit }

// Ready returns the number of requests that Receive has at once.
func (p *Producer) Ready() int {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	return len(p.results)
}

// Submit queues a request and blocks while the queue is full. The request, its
// input and its output belong to the batcher until Receive returns it; after an
// error they still belong to the producer.
func (p *Producer) Submit(ctx context.Context, req *Request) error {
	if p.Full() {
		return fmt.Errorf("submitting a request: the producer's limit of %d is reached", p.limit)
	}
	b := p.b
	if err := ctx.Err(); err != nil {
		return err
	}
	req.producer, req.Err, req.slot = p, nil, b.slots
	switch {
	case req.Short && req.Leisure:
		req.slot = nil
	case p.patient: // only its own goroutine changes that
		req.slot = b.patientSlots
	}
	if req.slot != nil {
		select {
		case req.slot <- struct{}{}:
		case <-b.closing:
			return ErrClosed
		case <-b.hung:
			return b.failure
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	if b.failure != nil || b.isClosing() {
		err := cmp.Or(b.failure, ErrClosed)
		b.mu.Unlock()
		req.leave()
		return err
	}
	req.queued = time.Now()
	b.submitted = req.queued
	b.queue.add(req)
	p.outstanding++
	b.cfg.Metrics.queueLength(b.queue.len())
	b.mu.Unlock()
	b.notify()
	return nil
}

// Receive returns the next computed request of this producer; its Err says
// whether there are scores. Without outstanding requests it returns an error.
func (p *Producer) Receive(ctx context.Context) (*Request, error) {
	if p.outstanding == 0 {
		return nil, errors.New("receiving a request: none is outstanding")
	}
	for {
		if req := p.next(); req != nil {
			p.outstanding--
			return req, nil
		}
		select {
		case <-p.arrived:
		case <-ctx.Done():
			p.clearWaiting()
			return nil, ctx.Err()
		}
	}
}

// next takes the oldest result, or counts the producer as waiting if there is
// none. Results are delivered under the same lock, so that one which comes later
// finds the producer waiting and takes the mark off.
func (p *Producer) next() *Request {
	b := p.b
	b.mu.Lock()
	if len(p.results) > 0 {
		req := p.results[0]
		p.results = slices.Delete(p.results, 0, 1)
		b.mu.Unlock()
		return req
	}
	waits := !p.waiting && !p.patient
	if waits {
		p.waiting = true
		b.waiting++
	}
	b.mu.Unlock()
	if waits {
		b.notify()
	}
	return nil
}

// clearWaiting takes the mark of waiting off if no result has.
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
	if !p.patient {
		b.producers--
	}
	var dropped []*Request
	if p.outstanding > 0 {
		dropped = b.queue.drop(func(req *Request) bool { return req.producer == p })
	}
	b.cfg.Metrics.queueLength(b.queue.len())
	b.mu.Unlock()
	for _, req := range dropped {
		req.leave()
	}
	b.notify()
}
