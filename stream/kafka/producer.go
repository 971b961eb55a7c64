package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"golang.org/x/sync/semaphore"

	"github.com/porestream/porestream/stream"
)

const (
	defaultLinger          = 5 * time.Millisecond
	defaultMaxBatchBytes   = 1048576 - 4096
	defaultMaxBuffered     = 64 << 20
	defaultDeliveryTimeout = 2 * time.Minute
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
	// MaxBufferedBytes bounds what is accepted and not yet durable; Send
	// blocks above it. Zero means 64 MiB.
	MaxBufferedBytes int64
	// DeliveryTimeout is for how long a batch is tried before its records fail.
	// Zero means 2 minutes.
	DeliveryTimeout time.Duration
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
	return c
}

// Producer writes records idempotently: a retried batch is in the log once.
// It is safe for concurrent use.
//
// Every partition has a queue with a goroutine of its own that cuts batches
// and sends them one after the other, so order is kept. A batch is encoded
// once; the same bytes are sent until they are acknowledged or given up. What
// is given up may or may not be in the log, so the partition then goes on
// under a new producer id, and everything that was queued for it fails too:
// were later records written, earlier ones would be missing before them.
type Producer struct {
	client *Client
	cfg    ProducerConfig
	zstd   *zstd.Encoder // shared; EncodeAll is stateless

	space   *semaphore.Weighted // bytes that may still be accepted
	buffers sync.Pool           // of *[]byte, for encoded batches

	// Lock order: mu is taken alone; no lock is held while a callback runs.
	mu      sync.Mutex
	queues  map[topicPartition]*queue
	pending map[*delivery]struct{}
	session *session
	closing bool

	start func(*queue) // runs a queue until stop
	stop  context.CancelFunc
	done  sync.WaitGroup
}

type topicPartition struct {
	topic     string
	partition int32
}

// session is a producer id under which sequences are counted.
type session struct {
	id    int64
	epoch int16
}

// delivery is one Send: it is over when all of its records are.
type delivery struct {
	remaining int
	bytes     int64
	err       error
	onDurable func(error)
	waiters   []*flush
}

// flush waits for a set of deliveries.
type flush struct {
	remaining int
	err       error
	done      chan struct{}
}

// NewProducer takes a producer id and starts a producer. Close must be called.
func NewProducer(ctx context.Context, client *Client, cfg ProducerConfig) (*Producer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking producer settings: %w", oneLine(err))
	}
	cfg = cfg.withDefaults()
	p := &Producer{
		client:  client,
		cfg:     cfg,
		space:   semaphore.NewWeighted(cfg.MaxBufferedBytes),
		queues:  make(map[topicPartition]*queue),
		pending: make(map[*delivery]struct{}),
	}
	if len(cfg.Zstd) > 0 {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("preparing compression: %w", err)
		}
		p.zstd = enc
	}
	s, err := p.newSession(ctx)
	if err != nil {
		return nil, err
	}
	p.session = s
	// The queues outlive the caller's context: Close ends them.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.start = func(q *queue) { p.done.Go(func() { q.run(run) }) }
	p.stop = stop
	return p, nil
}

// newSession takes a producer id from the cluster.
func (p *Producer) newSession(ctx context.Context) (*session, error) {
	var s *session
	err := p.client.retry(ctx, "taking a producer id", func(ctx context.Context) error {
		// Brokers since 2.5 want -1 and -1 here.
		res, err := send[*initproducerid.Response](ctx, p.client, anyBroker, &initproducerid.Request{ProducerID: -1, ProducerEpoch: -1})
		if err != nil {
			return err
		}
		if res.ErrorCode != 0 {
			return kafka.Error(res.ErrorCode)
		}
		s = &session{id: res.ProducerID, epoch: res.ProducerEpoch}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("taking a producer id: %w", err)
	}
	p.client.metrics.sessions.Inc()
	return s, nil
}

// renew replaces a session that is of no use any more, unless that has been
// done. Partitions that get on with the old one keep it.
func (p *Producer) renew(ctx context.Context, spent *session) (*session, error) {
	p.mu.Lock()
	current := p.session
	p.mu.Unlock()
	if current != spent {
		return current, nil
	}
	s, err := p.newSession(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = s
	return s, nil
}

// Send takes outs for writing, in order per partition, and returns. It blocks
// while MaxBufferedBytes are in flight. When it returns an error nothing of
// outs was taken. onDurable, which may be nil, is called once, from another
// goroutine, when all of outs is durable or has failed; it must not block. The
// keys, values and headers belong to the producer until then.
func (p *Producer) Send(ctx context.Context, outs []stream.Out, onDurable func(error)) error {
	if len(outs) == 0 {
		return errors.New("sending: no records")
	}
	d := &delivery{remaining: len(outs), onDurable: onDurable}
	targets := make([]topicPartition, len(outs))
	for i := range outs {
		o := &outs[i]
		n, err := p.client.Partitions(ctx, o.Topic)
		if err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		targets[i] = topicPartition{o.Topic, o.Partition}
		if int(o.Partition) >= n {
			// Partitions may have been added.
			p.client.forget(o.Topic)
			if n, err = p.client.Partitions(ctx, o.Topic); err != nil {
				return fmt.Errorf("sending: %w", err)
			}
		}
		if o.Partition == stream.AnyPartition {
			targets[i].partition = keyPartition(o.Key, int32(n))
		} else if o.Partition < 0 || int(o.Partition) >= n {
			return fmt.Errorf("sending: topic %s has %d partitions, there is no partition %d", o.Topic, n, o.Partition)
		}
		size := recordSize(o)
		if size+batchHeaderBytes > p.cfg.MaxBatchBytes {
			return fmt.Errorf("sending: %w", &RecordTooLargeError{Topic: o.Topic, Bytes: size + batchHeaderBytes, Limit: p.cfg.MaxBatchBytes})
		}
		d.bytes += int64(size)
	}
	// More than the whole space waits until it is all free.
	if err := p.space.Acquire(ctx, min(d.bytes, p.cfg.MaxBufferedBytes)); err != nil {
		return fmt.Errorf("sending: %w", context.Cause(ctx))
	}
	now := time.Now()
	p.mu.Lock()
	if p.closing {
		p.mu.Unlock()
		p.space.Release(min(d.bytes, p.cfg.MaxBufferedBytes))
		return fmt.Errorf("sending: %w", ErrClosed)
	}
	p.pending[d] = struct{}{}
	p.client.metrics.queueBytes.Add(float64(d.bytes))
	for i := range outs {
		o := outs[i]
		if o.Time.IsZero() {
			o.Time = now
		}
		p.queue(targets[i]).push(queued{out: o, size: recordSize(&o), since: now, delivery: d})
	}
	p.mu.Unlock()
	for i := range targets {
		if i == 0 || targets[i] != targets[i-1] {
			p.wake(targets[i])
		}
	}
	return nil
}

// queue returns a partition's queue, starting it at first use. mu is held.
func (p *Producer) queue(tp topicPartition) *queue {
	q := p.queues[tp]
	if q == nil {
		q = &queue{producer: p, topicPartition: tp, session: p.session, maxBytes: p.cfg.MaxBatchBytes, wake: make(chan struct{}, 1)}
		if slices.Contains(p.cfg.Zstd, tp.topic) {
			q.zstd = p.zstd
		}
		p.queues[tp] = q
		p.start(q)
	}
	return q
}

func (p *Producer) wake(tp topicPartition) {
	p.mu.Lock()
	q := p.queues[tp]
	p.mu.Unlock()
	q.signal()
}

// settle notes that records are durable, or have failed, and calls back for
// the deliveries that are over with them.
func (p *Producer) settle(recs []queued, err error) {
	var over []*delivery
	p.mu.Lock()
	for i := range recs {
		d := recs[i].delivery
		d.remaining--
		if d.err == nil {
			d.err = err
		}
		if d.remaining > 0 {
			continue
		}
		delete(p.pending, d)
		over = append(over, d)
	}
	p.mu.Unlock()
	for _, d := range over {
		p.client.metrics.queueBytes.Sub(float64(d.bytes))
		p.space.Release(min(d.bytes, p.cfg.MaxBufferedBytes))
		if d.onDurable != nil {
			d.onDurable(d.err)
		}
	}
	// Flush returns only after the callbacks have run.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range over {
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

// Flush waits until everything taken before the call is durable or has failed,
// callbacks included, and returns the first failure among it.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	f := &flush{remaining: len(p.pending), done: make(chan struct{})}
	if f.remaining == 0 {
		p.mu.Unlock()
		return nil
	}
	for d := range p.pending {
		d.waiters = append(d.waiters, f)
	}
	for _, q := range p.queues {
		if len(q.recs) > 0 {
			q.hurry = true
			q.signal()
		}
	}
	p.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return fmt.Errorf("flushing: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.err != nil {
		return fmt.Errorf("flushing: %w", f.err)
	}
	return nil
}

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
	err := p.Flush(ctx)
	p.stop()
	p.done.Wait()
	if p.zstd != nil {
		err = errors.Join(err, p.zstd.Close())
	}
	p.client.log.Debug("producer closed", slog.Any("error", err))
	return err
}
