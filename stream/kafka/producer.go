package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go/protocol/initproducerid"

	"github.com/porestream/porestream/stream"
)

const (
	defaultLinger          = 5 * time.Millisecond
	defaultMaxBatchBytes   = 1048576 - 4096
	defaultMaxBuffered     = 64 << 20
	defaultDeliveryTimeout = 2 * time.Minute

	defaultTransactionTimeout = time.Minute
)

// ProducerConfig bounds a producer. The zero value of every field has a
// meaning.
type ProducerConfig struct {
	// Linger is how long a batch waits for company. Zero means 5 ms, negative
	// not at all.
	Linger time.Duration
	// MaxBatchBytes bounds one encoded batch and so one record. Zero means
	// 1,044,480: the brokers' default limit less 4 KiB.
	MaxBatchBytes int
	// MaxBufferedBytes bounds what is accepted and not yet written; Send blocks
	// above it. Zero means 64 MiB. It has no effect with Space.
	MaxBufferedBytes int64
	// Space, if set, is shared with other producers and bounds all of them
	// together.
	Space *Space
	// DeliveryTimeout is for how long a batch is tried before its records fail.
	// Zero means 2 minutes.
	DeliveryTimeout time.Duration
	// TransactionTimeout is for how long a [Transactor]'s transaction may stay
	// open before the broker aborts it and fences the transactor; until then a
	// crashed one keeps readers of the committed from going on. It also bounds
	// the transactor's DeliveryTimeout. Zero means 1 minute; more than the
	// broker's transaction.max.timeout.ms, 15 minutes by default, is refused by
	// NewTransactor. A [Producer] has no use for it.
	TransactionTimeout time.Duration
	// Zstd names the topics whose batches are compressed. Signal is packed
	// already and gains nothing.
	Zstd []string
}

// Validate returns every fault of c at once, joined.
func (c ProducerConfig) Validate() error {
	var errs []error
	if c.MaxBatchBytes < 0 || c.MaxBatchBytes > 0 && c.MaxBatchBytes < 1024 {
		errs = append(errs, fmt.Errorf("batches of %d bytes are too small, at least 1024 are needed", c.MaxBatchBytes))
	}
	if c.MaxBufferedBytes < 0 {
		errs = append(errs, fmt.Errorf("buffer of %d bytes", c.MaxBufferedBytes))
	}
	if c.DeliveryTimeout < 0 {
		errs = append(errs, fmt.Errorf("delivery timeout %v is negative", c.DeliveryTimeout))
	}
	if c.TransactionTimeout < 0 || c.TransactionTimeout > 0 && c.TransactionTimeout < time.Millisecond {
		errs = append(errs, fmt.Errorf("transaction timeout %v is too short, at least 1 ms is needed", c.TransactionTimeout))
	}
	return errors.Join(errs...)
}

func (c ProducerConfig) withDefaults() ProducerConfig {
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	c.Linger = max(c.Linger, 0)
	if c.MaxBatchBytes == 0 {
		c.MaxBatchBytes = defaultMaxBatchBytes
	}
	if c.MaxBufferedBytes == 0 {
		c.MaxBufferedBytes = defaultMaxBuffered
	}
	if c.DeliveryTimeout == 0 {
		c.DeliveryTimeout = defaultDeliveryTimeout
	}
	if c.TransactionTimeout == 0 {
		c.TransactionTimeout = defaultTransactionTimeout
	}
	return c
}

// Producer writes records idempotently: a retried batch is in the log once.
// It is safe for concurrent use.
//
// Every partition has a queue that cuts batches and sends them one after the
// other, so order is kept. A batch is encoded once; the same bytes are sent
// until they are acknowledged or given up. What is given up may or may not be
// in the log, so the partition then goes on under a new producer id, and
// everything that was queued for it fails too: were later records written,
// earlier ones would be missing before them.
type Producer struct {
	*writer

	renewing chan struct{} // holds a token while a session is taken, so that one is taken for all
	session  *session
}

// NewProducer takes a producer id and starts a producer. Close must be called.
func NewProducer(ctx context.Context, client *Client, cfg ProducerConfig) (*Producer, error) {
	w, err := newWriter(ctx, client, cfg)
	if err != nil {
		return nil, err
	}
	p := &Producer{writer: w, renewing: make(chan struct{}, 1)}
	w.discipline = p
	if p.session, err = p.newSession(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// newSession takes a producer id from the cluster.
func (p *Producer) newSession(ctx context.Context) (*session, error) {
	var s *session
	err := p.client.retry(ctx, "taking a producer id", func(ctx context.Context) error {
		// Brokers since 2.5 want -1 and -1 here.
		res, err := send[*initproducerid.Response](ctx, p.client, anyBroker, &initproducerid.Request{ProducerID: -1, ProducerEpoch: -1})
		if err == nil {
			s, err = newSession(res)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking a producer id: %w", err)
	}
	p.client.metrics.sessions.Inc()
	return s, nil
}

// admit implements discipline. A session that is of no use any more is
// replaced, unless that has been done; partitions that get on with the old one
// keep it.
func (p *Producer) admit(ctx context.Context, q *queue) (*session, error) {
	if q.session != nil && !q.spent {
		return q.session, nil
	}
	select {
	case p.renewing <- struct{}{}:
		defer func() { <-p.renewing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.session != q.session {
		return p.session, nil
	}
	s, err := p.newSession(ctx)
	if err != nil {
		return nil, err
	}
	p.session = s
	return s, nil
}

// lost implements discipline: other partitions are not affected.
func (p *Producer) lost(error) {}

// halted implements discipline: a batch is tried for as long as it may be.
func (p *Producer) halted() <-chan struct{} { return nil }

// Send takes outs for writing, in order per partition, and returns. It blocks
// while MaxBufferedBytes are in flight. When it returns an error nothing of
// outs was taken. onDurable, which may be nil, is called once, from another
// goroutine, when all of outs is durable or has failed; it must not block. The
// keys, values and headers belong to the producer until then.
func (p *Producer) Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error {
	d, err := p.accept(ctx, outs, onDurable)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		p.release(d)
		return fmt.Errorf("sending: %w", ErrClosed)
	}
	p.push(d)
	p.mu.Unlock()
	return nil
}

// Flush waits until everything taken before the call is durable or has failed,
// callbacks included, and returns the first failure among it.
func (p *Producer) Flush(ctx context.Context) error { return p.flush(ctx) }

// Close flushes and stops the producer. What is not durable when ctx ends
// fails. Closing again does nothing.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	again := p.closing
	p.closing = true
	p.mu.Unlock()
	if again {
		p.done.Wait()
		return nil
	}
	err := p.flush(ctx)
	p.halt()
	return err
}
