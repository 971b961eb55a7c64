package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/planted"
)

// Transactor writes inside transactions under one transactional id. What it
// sends becomes visible to readers of the committed with Commit, all of it
// together with the group's offsets, or never.
//
// A transaction begins by itself with the first record, at the broker with the
// first batch of each partition. Sequence numbers, batches and retries are as
// in [Producer]. A record that can't be written makes the transaction fail: all
// that belongs to it fails too, Send refuses more, and Abort has to be called;
// then a next transaction may begin.
//
// A transactor is over, and has to be made anew, when its id has been taken by
// another or a Commit is in doubt. NewTransactor settles what the one before
// has left open, so that [Client.CommittedOffset] is right after it.
//
// Send is safe for concurrent use, also with the other methods, which wait for
// each other. A transactor that rests has no goroutines and no timers.
type Transactor struct {
	*writer
	log  *slog.Logger
	wire transactionLog
	turn chan struct{} // holds a token while a transaction is being ended

	// Guarded by the writer's mu.
	session *session
	phase   phase
	reason  error         // why the phase is failed or over
	broken  chan struct{} // closed when the phase becomes failed or over
	aborts  int           // distinguishes Sends from before an Abort from those after it
	waiting []*delivery   // sent while held
	held    bool
	added   map[topicPartition]bool // partitions in the transaction
	adding  chan struct{}           // closed when a request to add has ended; nil if there is none
	began   time.Time               // when a request first named the transaction to the coordinator; zero: none has
}

// phase is what a transactor can do.
type phase int

const (
	// phaseOpen takes records and commits.
	phaseOpen phase = iota
	// phaseFailed can only be aborted.
	phaseFailed
	// phaseOver can only be closed.
	phaseOver
)

var (
	// ErrFenced is what Transactor and CommitOffsets answer, to be found by
	// [errors.Is], when they may no longer write: another holder has taken the
	// transactional id, the broker has aborted the transaction for its timeout
	// or forgotten the producer, or the group's generation has ended.
	ErrFenced = errors.New("fenced")
	// ErrInDoubt is what Commit answers, to be found by [errors.Is], when it
	// could not learn the outcome. NewTransactor for the same id settles it,
	// and [Client.CommittedOffset] then shows it.
	ErrInDoubt = errors.New("it is not known whether the transaction is committed")
	// ErrAborted is what Send answers and records fail with, to be found by
	// [errors.Is], whose transaction has been aborted or can only be.
	ErrAborted = errors.New("the transaction is aborted")
)

// NewTransactor takes a transactional id. The holder before is fenced, its open
// transaction is aborted, and a transaction whose commit had been decided is
// completed before NewTransactor returns. Close must be called.
func NewTransactor(ctx context.Context, client *Client, id string, cfg ProducerConfig) (*Transactor, error) {
	if id == "" {
		return nil, errors.New("taking a transactional id: it is empty")
	}
	if planted.Is(planted.NoFencing) {
		id += "/" + rand.Text()
	}
	w, err := newWriter(ctx, client, cfg)
	if err != nil {
		return nil, err
	}
	// Once the broker has aborted the transaction, trying on is of no use.
	w.cfg.DeliveryTimeout = min(w.cfg.DeliveryTimeout, w.cfg.TransactionTimeout)
	t := &Transactor{
		writer: w, log: client.log.With(slog.String("transactional_id", id)),
		wire:   transactionLog{client: client, id: id, timeout: w.cfg.TransactionTimeout, limit: w.cfg.DeliveryTimeout},
		turn:   make(chan struct{}, 1),
		broken: make(chan struct{}),
		added:  make(map[topicPartition]bool),
	}
	w.discipline, w.transactionalID = t, id
	if t.session, err = t.wire.begin(ctx, nil); err != nil {
		w.stop()
		return nil, err
	}
	return t, nil
}

// Send takes outs for writing, in order per partition, and returns. It blocks
// while the space for unwritten bytes is used up, and buffers while the
// transactor is held. When it returns an error nothing of outs was taken.
// onWritten, which may be nil, is called once, from another goroutine, when all
// of outs is acknowledged within the open transaction or has failed; it must
// not block. The keys, values and headers belong to the transactor until then.
func (t *Transactor) Send(ctx context.Context, outs []stream.Out, onWritten func(error)) error {
	t.mu.Lock()
	aborts, err := t.aborts, t.refusal()
	t.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	d, err := t.accept(ctx, outs, onWritten)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err = t.refusal()
	if err == nil && aborts != t.aborts {
		err = ErrAborted
	}
	if err != nil {
		t.release(d)
		return fmt.Errorf("sending: %w", err)
	}
	if t.held {
		d.outs = append([]stream.Out(nil), outs...)
		t.waiting = append(t.waiting, d)
		return nil
	}
	t.push(d)
	return nil
}

// refusal is why records can't be taken; nil if they can. mu is held.
func (t *Transactor) refusal() error {
	switch {
	case t.closing:
		return ErrClosed
	case t.phase == phaseFailed:
		return aborted(t.reason)
	}
	return t.reason
}

// aborted is what records get whose transaction can't be committed for reason.
func aborted(reason error) error {
	if errors.Is(reason, ErrAborted) || errors.Is(reason, ErrClosed) {
		return reason
	}
	return fmt.Errorf("%w: %w", ErrAborted, reason)
}

// Hold makes later Sends wait in the buffer and returns when everything sent
// before has been acknowledged. An error says that it was not: the transaction
// has failed, or ctx has ended. Either way later Sends wait until Commit or
// Abort.
func (t *Transactor) Hold(ctx context.Context) error {
	if err := t.take(ctx); err != nil {
		return fmt.Errorf("holding: %w", err)
	}
	defer t.yield()
	return t.hold(ctx)
}

func (t *Transactor) hold(ctx context.Context) error {
	t.mu.Lock()
	t.held = true
	err := t.refusal()
	t.mu.Unlock()
	if err != nil {
		return err
	}
	err = t.flush(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	// The reason says more than what became of one of the records.
	if refusal := t.refusal(); refusal != nil {
		return refusal
	}
	return err
}

// Commit makes everything sent before the Hold visible, together with offsets
// if these are not nil, and lets what was sent since become part of the next
// transaction. Without a Hold it holds first.
//
// After nil the transaction is committed; readers see it as soon as the broker
// has marked it in the logs, a few milliseconds later. After an error it is not
// and never will be, unless the error is [ErrInDoubt]. Abort has to be called
// after an error; it says so where the transactor is over. Offsets whose
// generation has ended are refused by the group's coordinator: that is
// [ErrFenced] too, and the transactional id is still ours then.
func (t *Transactor) Commit(ctx context.Context, offsets *GroupOffsets) error {
	if err := t.take(ctx); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	defer t.yield()
	if err := t.hold(ctx); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	if planted.Is(planted.SkipOffsets) {
		offsets = nil
	}
	t.mu.Lock()
	s := t.session
	if offsets != nil && t.began.IsZero() {
		t.began = time.Now()
	}
	began := t.began
	t.mu.Unlock()
	if began.IsZero() {
		t.letGo()
		return nil
	}
	if offsets != nil {
		if err := t.wire.addOffsets(ctx, s, offsets.Group); err != nil {
			return t.fail(err)
		}
		if err := t.wire.commitOffsets(ctx, s, offsets); err != nil {
			return t.fail(err)
		}
	}
	doubt, err := t.wire.end(ctx, s, true)
	if doubt {
		return t.finish(fmt.Errorf("%w: %w", ErrInDoubt, fencing(err)), resultUnknown)
	}
	if err != nil {
		return t.fail(err)
	}
	t.ended(resultCommitted, began)
	t.letGo()
	return nil
}

// fail notes why the transaction can't be committed and returns it.
func (t *Transactor) fail(err error) error {
	err = fencing(err)
	if isFenced(err) {
		return t.finish(err, resultFenced)
	}
	if errors.Is(err, ErrFenced) {
		t.client.metrics.fenced.Inc()
	}
	t.lost(err)
	return err
}

// finish ends the transactor's life, and the transaction's as far as it
// knows.
func (t *Transactor) finish(err error, result string) error {
	t.mu.Lock()
	over, began := t.phase == phaseOver, t.began
	t.mu.Unlock()
	if over {
		return err
	}
	t.breakOff(phaseOver, err)
	if errors.Is(err, ErrFenced) {
		t.client.metrics.fenced.Inc()
	}
	if !began.IsZero() {
		t.ended(result, began)
	}
	t.log.Warn("transactor is over", slog.Any("error", err))
	return err
}

// ended counts a transaction and forgets it.
func (t *Transactor) ended(result string, began time.Time) {
	t.client.metrics.transactions.WithLabelValues(result).Inc()
	t.client.metrics.transaction.Observe(time.Since(began).Seconds())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Time{}
	clear(t.added)
}

// letGo lets what was sent while held become part of the next transaction.
func (t *Transactor) letGo() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = false
	for _, d := range t.waiting {
		t.push(d)
	}
	t.waiting = nil
}

// breakOff enters a phase in which nothing can be written and fails all that
// has not been, what waits for the next transaction included: it follows on
// what is lost.
func (t *Transactor) breakOff(to phase, reason error) {
	t.mu.Lock()
	if t.phase >= to {
		t.mu.Unlock()
		return
	}
	if t.phase == phaseOpen {
		close(t.broken)
	}
	t.phase, t.reason = to, reason
	recs, waiting := t.takeAll(), t.waiting
	t.waiting = nil
	t.mu.Unlock()
	err := aborted(reason)
	t.settle(recs, err)
	for _, d := range waiting {
		t.release(d)
		if d.onWritten != nil {
			d.onWritten(err)
		}
	}
}

// Abort drops everything sent since the last Commit: what has been written is
// never shown, what has not been fails with an error. It returns once the
// broker has ended the transaction and the transactor has gone on to a new
// epoch, under which nothing that may still be on its way from before can be
// written. After an error, or when the transactor is over already, it is over:
// then the transaction ends with the next NewTransactor, or with its timeout.
func (t *Transactor) Abort(ctx context.Context) error {
	if err := t.take(ctx); err != nil {
		return fmt.Errorf("aborting: %w", err)
	}
	defer t.yield()
	return t.abort(ctx)
}

func (t *Transactor) abort(ctx context.Context) error {
	t.mu.Lock()
	t.aborts++
	s, began := t.session, t.began
	t.mu.Unlock()
	if err := t.end(ctx); err != nil {
		return err
	}
	if !began.IsZero() {
		next, err := t.wire.begin(ctx, s)
		if err != nil {
			return t.finish(fmt.Errorf("aborting: %w", fencing(err)), resultFenced)
		}
		s = next
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session, t.phase, t.reason, t.held = s, phaseOpen, nil, false
	t.broken = make(chan struct{})
	return nil
}

// end drops the open transaction and has the broker abort it.
func (t *Transactor) end(ctx context.Context) error {
	t.breakOff(phaseFailed, ErrAborted)
	// Requests are not cut off: a batch that arrives after the abort would, at
	// brokers before 3.6, open a transaction that nobody ends. They fail or
	// succeed by themselves within the request timeout.
	if err := t.drained(ctx); err != nil {
		return t.finish(fmt.Errorf("aborting: %w", err), resultUnknown)
	}
	t.mu.Lock()
	over, reason, s, began := t.phase == phaseOver, t.reason, t.session, t.began
	t.mu.Unlock()
	switch {
	case over:
		return fmt.Errorf("aborting: %w", reason)
	case began.IsZero():
		return nil
	}
	// INVALID_TXN_STATE: the coordinator never received a request of the transaction.
	if _, err := t.wire.end(ctx, s, false); err != nil && !errors.Is(err, kafka.InvalidTransactionState) {
		return t.finish(fencing(err), abortResult(err))
	}
	t.ended(resultAborted, began)
	return nil
}

func abortResult(err error) string {
	if isFenced(fencing(err)) {
		return resultFenced
	}
	return resultUnknown
}

// drained waits until no request of the transaction is under way.
func (t *Transactor) drained(ctx context.Context) error {
	// What failed has been reported to its senders.
	if err := t.flush(ctx); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Close aborts an open transaction and stops the transactor. What is not
// written fails. When ctx ends before that is done the transaction ends with
// the next NewTransactor, or with its timeout. Closing again does nothing.
func (t *Transactor) Close(ctx context.Context) error {
	// What waits for a broker that does not answer must not keep the goroutines.
	defer t.halt()
	if err := t.take(ctx); err != nil {
		t.breakOff(phaseOver, ErrClosed)
		return fmt.Errorf("closing: %w", err)
	}
	defer t.yield()
	t.mu.Lock()
	again, over := t.closing, t.phase == phaseOver
	t.closing = true
	t.mu.Unlock()
	if again {
		return nil
	}
	var err error
	if !over {
		err = t.end(ctx)
	}
	t.breakOff(phaseOver, ErrClosed)
	return err
}

// take waits for its turn to end a transaction.
func (t *Transactor) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Transactor) yield() { <-t.turn }

// admit implements discipline: it makes the partition part of the transaction.
// It makes one request at a time, for all partitions that have records by then.
func (t *Transactor) admit(ctx context.Context, q *queue) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		switch {
		case t.phase != phaseOpen:
			return nil, aborted(t.reason)
		case t.added[q.topicPartition]:
			return t.session, nil
		case t.adding != nil:
			adding := t.adding
			t.mu.Unlock()
			select {
			case <-adding:
			case <-ctx.Done():
			}
			t.mu.Lock()
			if ctx.Err() != nil {
				return nil, ErrClosed
			}
		default:
			if err := t.add(ctx, q.topicPartition); err != nil {
				return nil, err
			}
		}
	}
}

// add makes the partition, and all others at work, part of the transaction: also
// those whose batch is cut already and waits to be admitted. mu is held, but
// not while it waits.
func (t *Transactor) add(ctx context.Context, tp topicPartition) error {
	partitions := []topicPartition{tp}
	for other, q := range t.queues {
		if other != tp && q.running && !t.added[other] {
			partitions = append(partitions, other)
		}
	}
	if t.began.IsZero() {
		t.began = time.Now()
	}
	t.adding = make(chan struct{})
	s := t.session
	t.mu.Unlock()
	err := t.wire.addPartitions(ctx, s, partitions)
	if err != nil {
		// Before others try in turn, each for as long.
		t.lost(err)
	}
	t.mu.Lock()
	close(t.adding)
	t.adding = nil
	if err != nil {
		return err
	}
	for _, tp := range partitions {
		t.added[tp] = true
	}
	return nil
}

// lost implements discipline: one record lost is the transaction lost.
func (t *Transactor) lost(err error) {
	if err = fencing(err); isFenced(err) {
		// Those who get this wait for nothing of the transactor's.
		_ = t.finish(err, resultFenced)
		return
	}
	t.breakOff(phaseFailed, err)
}

// halted implements discipline.
func (t *Transactor) halted() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.broken
}

// fencing marks errors that say that we may no longer write.
func fencing(err error) error {
	if err == nil || errors.Is(err, ErrFenced) {
		return err
	}
	var code kafka.Error
	if !errors.As(err, &code) {
		return err
	}
	switch code {
	case kafka.ProducerFenced, kafka.InvalidProducerEpoch, kafka.InvalidProducerIDMapping, kafka.UnknownProducerId, kafka.InvalidTransactionState:
		return &fencedError{err: err, producer: true}
	case kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.FencedInstanceID, kafka.RebalanceInProgress:
		return &fencedError{err: err}
	default:
		return err
	}
}

// isFenced reports whether the transactional id is no longer ours; the end of a
// generation does not take it away.
func isFenced(err error) bool {
	var f *fencedError
	return errors.As(err, &f) && f.producer
}

// fencedError is an ErrFenced with the broker's reason.
type fencedError struct {
	err      error
	producer bool // not just the generation
}

func (e *fencedError) Error() string {
	if e.producer {
		return "fenced: another has taken the transactional id, or the transaction outlasted its timeout: " + e.err.Error()
	}
	return "fenced: the group's generation has ended: " + e.err.Error()
}

func (e *fencedError) Unwrap() []error { return []error{ErrFenced, e.err} }
