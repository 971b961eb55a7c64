package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/porestream/porestream/ingest/spool"
)

// errFull is what offer answers when neither memory nor the spool takes an
// event.
var errFull = errors.New("memory and spool are full")

// spoolBatch bounds what is written to the spool at once, in bytes of memory.
const spoolBatch = 4 << 20

// spoolRetry is how often a spool without space is tried again.
const spoolRetry = time.Second

// queueConfig bounds a queue.
type queueConfig struct {
	// memory is the number of bytes that the queue may hold. Half of it is for
	// what is put, and a quarter for what is read back from the spool.
	memory int64
	// eager spills as soon as the memory is half full, for sources that can't
	// wait; otherwise it is spilled only when nothing has been committed for
	// patience.
	eager    bool
	patience time.Duration
	log      *slog.Logger
	spool    *spool.Log // nil: none
	alarm    *spoolAlarm
	metrics  *Metrics
}

// queue holds the events of one run between its source and Kafka until they are
// committed: in memory, and in the spool while Kafka is away or behind.
//
// Memory holds two stretches of the run. The head begins with the first event
// that is not committed, and is what is sent next; the tail ends with the newest
// event. What lies between is on disk. While the spool is not in use there is no
// tail: everything is in the head. Once it is, events are written to disk in
// order, whether or not they are in memory as well, and those that are neither
// sent nor next to be leave the memory then. When the consumer has read all that
// is on disk, the tail is the head's continuation.
//
// put belongs to the source; take, rewind and commit to the consumer; run to the
// goroutine that writes the spool.
type queue struct {
	cfg queueConfig

	mu       sync.Mutex
	changed  chan struct{} // closed at the next change; nil while nobody waits
	nudge    chan struct{} // holds a token when there may be something to spill
	head     []event
	tail     []event
	first    uint64 // number of the first event that is not committed
	next     uint64 // number of the event that is put next
	sent     uint64 // events below have been taken
	bytes    int64  // of head and tail
	onDisk   uint64 // events below, from first on, are on disk; 0 or less than first: none
	spilling bool
	moved    time.Time // when something was last committed, or began to wait
}

// newQueue makes a queue for a run that goes on with event first, except for what
// the spool holds from then on.
func newQueue(cfg queueConfig, first uint64) (*queue, error) {
	q := &queue{cfg: cfg, first: first, next: first, sent: first, moved: time.Now(), nudge: make(chan struct{}, 1)}
	if cfg.spool == nil {
		return q, nil
	}
	from, to := cfg.spool.Bounds()
	switch {
	case to <= first:
		return q, cfg.spool.TrimBefore(to)
	case from > first:
		return nil, fmt.Errorf("the spool begins with event %d, and Kafka has got the events before %d only: was the spool filled for another cluster, or is the topic of cursors a new one", from, first)
	}
	q.next, q.onDisk, q.spilling = to, to, true
	return q, nil
}

// put takes an event, and waits while there is no space for it.
func (q *queue) put(ctx context.Context, e event) error {
	for {
		wait, err := q.tryPut(e)
		if err != nil || wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// offer takes an event if there is space for it at once, or answers errFull. It
// is for sources that can't be made to wait; see [Live].
func (q *queue) offer(e event) error {
	wait, err := q.tryPut(e)
	if wait != nil {
		return errFull
	}
	return err
}

// tryPut takes an event, or returns what to wait for.
func (q *queue) tryPut(e event) (<-chan struct{}, error) {
	size := e.size()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case e.number() != q.next:
		return nil, fmt.Errorf("event %d where %d is next", e.number(), q.next)
	case q.bytes > 0 && q.bytes+size > q.cfg.memory/2:
		return q.wait(), nil
	}
	if q.first == q.next {
		q.moved = time.Now()
	}
	if q.spilling || q.headEnd() != q.tailStart() {
		q.tail = append(q.tail, e)
	} else {
		q.head = append(q.head, e)
	}
	q.next++
	q.bytes += size
	q.cfg.metrics.buffer(size)
	q.wake()
	// The spool's writer is left alone otherwise: it checks the queue by itself now and then.
	if q.spilling || q.pressed() {
		select {
		case q.nudge <- struct{}{}:
		default:
		}
	}
	return nil, nil
}

// pressed reports whether a source that can't wait may have to soon. mu is held.
func (q *queue) pressed() bool { return q.cfg.eager && q.bytes >= q.cfg.memory/4 }

func (q *queue) headEnd() uint64   { return q.first + uint64(len(q.head)) }
func (q *queue) tailStart() uint64 { return q.next - uint64(len(q.tail)) }

// wait returns a channel that is closed at the next change. mu is held.
func (q *queue) wait() <-chan struct{} {
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return q.changed
}

// wake notifies the waiters of a change. mu is held.
func (q *queue) wake() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// take returns the event with a number, which is at most one more than the last
// that was taken. If it isn't there, take waits until the timer fires and then
// returns false; a nil timer never does.
func (q *queue) take(ctx context.Context, number uint64, timer <-chan time.Time) (event, bool, error) {
	for {
		q.mu.Lock()
		if q.headEnd() == q.tailStart() {
			// All that is not committed is in memory: the spool is not needed.
			q.head = append(q.head, q.tail...)
			q.tail, q.spilling = nil, false
		}
		if number < q.headEnd() {
			e := q.head[number-q.first]
			q.sent = max(q.sent, number+1)
			q.mu.Unlock()
			return e, true, nil
		}
		refill := q.headEnd() < q.tailStart()
		wait := q.wait()
		q.mu.Unlock()
		if refill {
			if err := q.refill(); err != nil {
				return event{}, false, err
			}
			continue
		}
		select {
		case <-wait:
		case <-timer:
			return event{}, false, nil
		case <-ctx.Done():
			return event{}, false, context.Cause(ctx)
		}
	}
}

// refill reads what follows the head from the spool.
func (q *queue) refill() error {
	q.mu.Lock()
	from, end := q.headEnd(), q.tailStart()
	q.mu.Unlock()
	payloads, err := q.cfg.spool.Read(from, q.cfg.memory/4)
	if err != nil {
		return err
	}
	var events []event
	var bytes int64
	for i, p := range payloads {
		if from+uint64(i) == end {
			break
		}
		e, err := parseEvent(p, from+uint64(i))
		if err != nil {
			return err
		}
		events = append(events, e)
		bytes += e.size()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.head = append(q.head, events...)
	q.bytes += bytes
	q.cfg.metrics.buffer(bytes)
	return nil
}

// rewind makes the events from first on be taken again.
func (q *queue) rewind() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = q.first
	return q.first
}

// commit forgets the events below a number, which are in Kafka.
func (q *queue) commit(number uint64) error {
	if q.cfg.spool != nil {
		if err := q.cfg.spool.TrimBefore(number); err != nil {
			return err
		}
		q.cfg.alarm.update()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if number < q.first || number > q.next {
		return fmt.Errorf("events below %d are said to be committed, and those from %d to %d are waiting", number, q.first, q.next)
	}
	n := min(number-q.first, uint64(len(q.head)))
	q.drop(q.head[:n])
	q.head = q.head[n:]
	if rest := number - q.first - n; rest > 0 {
		// Committed without having been taken: only before the first take.
		if start := q.tailStart(); number > start {
			q.drop(q.tail[:number-start])
			q.tail = q.tail[number-start:]
		}
	}
	if number > q.first { // else it was only found out again what is
		q.moved = time.Now()
	}
	q.first = number
	q.sent = max(q.sent, number)
	q.wake()
	return nil
}

// drop takes events out of the account. mu is held.
func (q *queue) drop(events []event) {
	var bytes int64
	for i := range events {
		bytes += events[i].size()
		events[i] = event{}
	}
	q.bytes -= bytes
	q.cfg.metrics.buffer(-bytes)
}

// durable is the number of the first event that is neither committed nor on disk.
func (q *queue) durable() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.first, q.onDisk)
}

// flush waits until all that was put is committed.
func (q *queue) flush(ctx context.Context) error {
	for {
		q.mu.Lock()
		if q.first == q.next {
			q.mu.Unlock()
			return nil
		}
		wait := q.wait()
		q.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// committed is the number of the first event that is not committed.
func (q *queue) committed() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.first
}

// backlog is the number of events that are not committed, and when the oldest of
// those in memory came in.
func (q *queue) backlog() (events uint64, oldest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.head) > 0 {
		oldest = q.head[0].at
	}
	return q.next - q.first, oldest
}

// abandon takes what is left out of the account, when the queue is of no use any
// more.
func (q *queue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(q.head)
	q.drop(q.tail)
	q.head, q.tail = nil, nil
}

// oldest is when the oldest event that is not committed came in; zero if there is
// none, or it lies on disk alone.
func (q *queue) oldest() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.head) == 0 {
		return time.Time{}
	}
	return q.head[0].at
}

// run writes events to the spool whenever they are due there, until ctx ends.
func (q *queue) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, delay := q.due(time.Now())
		nudge := q.nudge
		if len(batch) > 0 {
			err := q.spill(batch)
			q.cfg.alarm.spooled(err)
			if err == nil {
				continue
			}
			delay, nudge = spoolRetry, nil
		}
		timer.Reset(delay)
		select {
		case <-ctx.Done():
			return
		case <-nudge:
		case <-timer.C:
		}
	}
}

// due returns the events to be written to the spool now, or for how long to
// wait at most.
func (q *queue) due(now time.Time) (batch []event, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := max(q.onDisk, q.first)
	if from == q.next {
		return nil, q.cfg.patience
	}
	if !q.spilling && !q.pressed() {
		if delay := q.moved.Add(q.cfg.patience).Sub(now); delay > 0 {
			return nil, delay
		}
	}
	q.spilling = true
	var bytes int64
	for n := from; n < q.next && bytes < spoolBatch; n++ {
		e := q.inMemory(n)
		batch = append(batch, *e)
		bytes += e.size()
	}
	return batch, 0
}

// inMemory is an event of head or tail. mu is held.
func (q *queue) inMemory(n uint64) *event {
	if n < q.headEnd() {
		return &q.head[n-q.first]
	}
	return &q.tail[n-q.tailStart()]
}

// spill writes events to disk and lets go of those that are not needed in
// memory for now.
func (q *queue) spill(batch []event) error {
	payloads := make([][]byte, len(batch))
	for i := range batch {
		payloads[i] = appendEvent(nil, &batch[i])
	}
	if err := q.cfg.spool.Append(batch[0].number(), payloads); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.onDisk = batch[len(batch)-1].after.next
	if start := q.tailStart(); q.spilling && q.onDisk > start {
		q.drop(q.tail[:q.onDisk-start])
		q.tail = q.tail[q.onDisk-start:]
	}
	// Something of the head stays, to be sent without the disk.
	n := len(q.head)
	for q.bytes > q.cfg.memory/4 && n > 0 && q.headEnd() <= q.onDisk && q.first+uint64(n) > q.sent+1 {
		n--
		q.drop(q.head[n : n+1])
		q.head = q.head[:n]
	}
	q.wake()
	return nil
}
