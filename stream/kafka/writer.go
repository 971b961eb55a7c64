package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"github.com/porestream/porestream/stream"
)

// discipline is the way in which batches get into the log: idempotently, each
// partition for itself, or within transactions, all or none.
type discipline interface {
	// admit returns the session to write the queue's next batch under. If that
	// is another than the queue's last, sequence numbers begin at 0.
	admit(ctx context.Context, q *queue) (*session, error)
	// lost is called when records have failed.
	lost(err error)
	// halted is closed once repeating a request is of no use; nil is never.
	halted() <-chan struct{}
}

// writer is what [Producer] and [Transactor] have in common: a queue of records
// for each partition and the account of what is not yet written.
//
// A queue has a goroutine while there is something in it, so a writer that
// rests costs its memory only.
type writer struct {
	client          *Client
	cfg             ProducerConfig
	space           *Space
	discipline      discipline
	transactionalID string // empty: none

	// Lock order: mu is taken alone; no lock is held while a callback runs.
	mu      sync.Mutex
	queues  map[topicPartition]*queue
	pending map[*delivery]struct{} // pushed, and the callback has not returned
	closing bool

	start func(*queue) // runs a queue until stop
	stop  context.CancelFunc
	done  sync.WaitGroup
}

type topicPartition struct {
	topic     string
	partition int32
}

// session is a producer id and epoch under which sequences are counted.
type session struct {
	id    int64
	epoch int16
}

// newSession is the session that a broker grants, or why it does not.
func newSession(res *initproducerid.Response) (*session, error) {
	if res.ErrorCode != 0 {
		return nil, kafka.Error(res.ErrorCode)
	}
	return &session{id: res.ProducerID, epoch: res.ProducerEpoch}, nil
}

// delivery is one Send: it is over when all of its records are.
type delivery struct {
	outs    []stream.Out
	targets []topicPartition
	bytes   int64

	remaining int
	err       error
	onWritten func(error)
	waiters   []*flush
}

// flush waits for a set of deliveries.
type flush struct {
	remaining int
	err       error
	done      chan struct{}
}

func newWriter(ctx context.Context, client *Client, cfg ProducerConfig) (*writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking producer settings: %w", oneLine(err))
	}
	cfg = cfg.withDefaults()
	w := &writer{
		client: client, cfg: cfg, space: cfg.Space,
		queues: make(map[topicPartition]*queue), pending: make(map[*delivery]struct{}),
	}
	if w.space == nil {
		w.space = NewSpace(cfg.MaxBufferedBytes)
	}
	// The queues outlive the caller's context.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.start = func(q *queue) { w.done.Go(func() { q.run(run) }) }
	w.stop = stop
	return w, nil
}

// accept checks records, finds their partitions and takes the space for them.
func (w *writer) accept(ctx context.Context, outs []stream.Out, onWritten func(error)) (*delivery, error) {
	if len(outs) == 0 {
		return nil, errors.New("sending: no records")
	}
	d := &delivery{outs: outs, targets: make([]topicPartition, len(outs)), remaining: len(outs), onWritten: onWritten}
	for i := range outs {
		target, err := w.target(ctx, &outs[i])
		if err != nil {
			return nil, fmt.Errorf("sending: %w", err)
		}
		size := recordSize(&outs[i])
		if size+batchHeaderBytes > w.cfg.MaxBatchBytes {
			return nil, fmt.Errorf("sending: %w", &RecordTooLargeError{Topic: target.topic, Bytes: size + batchHeaderBytes, Limit: w.cfg.MaxBatchBytes})
		}
		d.targets[i] = target
		d.bytes += int64(size)
	}
	if err := w.space.acquire(ctx, d.bytes); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	w.client.metrics.queueBytes.Add(float64(d.bytes))
	return d, nil
}

// release gives back the space that accept has taken.
func (w *writer) release(d *delivery) {
	w.client.metrics.queueBytes.Sub(float64(d.bytes))
	w.space.release(d.bytes)
}

// target is the partition that a record goes to.
func (w *writer) target(ctx context.Context, o *stream.Out) (topicPartition, error) {
	n, err := w.client.Partitions(ctx, o.Topic)
	if err != nil {
		return topicPartition{}, err
	}
	if int(o.Partition) >= n {
		// Partitions may have been added.
		w.client.forget(o.Topic)
		if n, err = w.client.Partitions(ctx, o.Topic); err != nil {
			return topicPartition{}, err
		}
	}
	switch {
	case o.Partition == stream.AnyPartition:
		return topicPartition{o.Topic, keyPartition(o.Key, int32(n))}, nil
	case o.Partition < 0 || int(o.Partition) >= n:
		return topicPartition{}, fmt.Errorf("topic %s has %d partitions, there is no partition %d", o.Topic, n, o.Partition)
	}
	return topicPartition{o.Topic, o.Partition}, nil
}

// push hands a delivery to the queues. mu is held.
func (w *writer) push(d *delivery) {
	now := time.Now()
	w.pending[d] = struct{}{}
	for i := range d.outs {
		o := d.outs[i]
		// What was stamped by a clock that has been set back since is not of the future.
		if o.Time.IsZero() || o.Time.After(now) {
			o.Time = now
		}
		w.queue(d.targets[i]).push(queued{out: o, size: recordSize(&o), since: now, delivery: d})
	}
	// The slice is the caller's again.
	d.outs, d.targets = nil, nil
}

// queue returns a partition's queue, making it at first use. mu is held.
func (w *writer) queue(tp topicPartition) *queue {
	q := w.queues[tp]
	if q == nil {
		q = &queue{writer: w, topicPartition: tp, maxBytes: w.cfg.MaxBatchBytes, wake: make(chan struct{}, 1)}
		q.compress = slices.Contains(w.cfg.Zstd, tp.topic)
		w.queues[tp] = q
	}
	return q
}

// settle notes that records are written, or have failed, and calls back for
// the deliveries that are over with them.
func (w *writer) settle(recs []queued, err error) {
	if len(recs) == 0 {
		return
	}
	var over []*delivery
	w.mu.Lock()
	for i := range recs {
		d := recs[i].delivery
		d.remaining--
		if d.err == nil {
			d.err = err
		}
		if d.remaining > 0 {
			continue
		}
		over = append(over, d)
	}
	w.mu.Unlock()
	for _, d := range over {
		w.release(d)
		if d.onWritten != nil {
			d.onWritten(d.err)
		}
	}
	// A flush returns only after the callbacks have run, also one that begins
	// while they do: a commit after it takes in what they resolve.
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range over {
		delete(w.pending, d)
		for _, f := range d.waiters {
			if f.err == nil {
				f.err = d.err
			}
			if f.remaining--; f.remaining == 0 {
				close(f.done)
			}
		}
		d.waiters = nil
	}
}

// flush waits until everything pushed before the call is written or has
// failed, callbacks included, and returns the first failure among it.
func (w *writer) flush(ctx context.Context) error {
	w.mu.Lock()
	f := &flush{remaining: len(w.pending), done: make(chan struct{})}
	if f.remaining == 0 {
		w.mu.Unlock()
		return nil
	}
	for d := range w.pending {
		d.waiters = append(d.waiters, f)
	}
	for _, q := range w.queues {
		if len(q.recs) > 0 {
			q.hurry = true
			q.signal()
		}
	}
	w.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return fmt.Errorf("flushing: %w", context.Cause(ctx))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.err != nil {
		return fmt.Errorf("flushing: %w", f.err)
	}
	return nil
}

// takeAll empties all queues. mu is held.
func (w *writer) takeAll() []queued {
	var recs []queued
	for _, q := range w.queues {
		recs = append(recs, q.takeAll()...)
	}
	return recs
}

// halt ends the queues and fails what is in them.
func (w *writer) halt() {
	w.stop()
	w.done.Wait()
	w.client.log.Debug("producer closed", slog.String("transactional_id", w.transactionalID))
}
