package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/porestream/porestream/stream"
)

// Produce versions we can encode and decode. 3 is the oldest that knows record
// batches, 9 changes the encoding.
const (
	minProduceVersion = 3
	maxProduceVersion = 8

	acksAll = -1
)

// errBehind fails records because others before them have failed.
var errBehind = errors.New("not written because records before it failed")

// queued is a record on its way into a batch.
type queued struct {
	out      stream.Out
	size     int
	since    time.Time
	delivery *delivery
}

// queue holds the records of one partition and sends them, one batch at a
// time.
type queue struct {
	writer *writer
	topicPartition
	compress bool
	wake     chan struct{} // holds a token when the queue has changed

	// Guarded by the writer's mu.
	recs    []queued
	bytes   int
	hurry   bool // do not linger over what is there
	running bool // a goroutine is in run

	// Owned by run.
	session  *session
	spent    bool // nothing more can be written under session
	sequence int32
	maxBytes int // of a batch; lower than configured once the broker refused
}

// push appends a record and makes sure that a goroutine processes it. The
// writer's mu is held.
func (q *queue) push(r queued) {
	q.recs = append(q.recs, r)
	q.bytes += r.size
	if !q.running {
		q.running = true
		q.writer.start(q)
		return
	}
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run sends batches until there are no more, or until ctx ends; then it fails
// what is left.
func (q *queue) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		recs := q.next(ctx, timer)
		if recs == nil {
			break
		}
		q.deliver(ctx, recs)
	}
	if ctx.Err() == nil {
		return
	}
	q.writer.mu.Lock()
	q.running = false
	recs := q.takeAll()
	q.writer.mu.Unlock()
	q.writer.settle(recs, ErrClosed)
}

// next waits for a batch that is full, has lingered, or is hurried; nil when
// there is nothing to wait for or when ctx ends.
func (q *queue) next(ctx context.Context, timer *time.Timer) []queued {
	for {
		recs, wait := q.cut(time.Now())
		if recs != nil || wait == 0 {
			return recs
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// cut takes a batch if one is due, or says for how long to wait; if that is 0,
// the queue is empty and run has to end.
func (q *queue) cut(now time.Time) ([]queued, time.Duration) {
	w := q.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(q.recs) == 0 {
		q.hurry, q.running = false, false
		return nil, 0
	}
	lingered := now.Sub(q.recs[0].since)
	full := q.bytes+batchHeaderBytes >= q.maxBytes || len(q.recs) >= maxBatchRecords
	if !full && !q.hurry && lingered < w.cfg.Linger {
		return nil, w.cfg.Linger - lingered
	}
	n, size := 0, batchHeaderBytes
	for n < len(q.recs) && n < maxBatchRecords && (n == 0 || size+q.recs[n].size <= q.maxBytes) {
		size += q.recs[n].size
		n++
	}
	recs := q.recs[:n:n]
	q.recs = q.recs[n:]
	if len(q.recs) == 0 {
		q.recs = nil // lets go of what is sent
	}
	q.bytes -= size - batchHeaderBytes
	return recs, 0
}

// takeAll empties the queue. The writer's mu is held.
func (q *queue) takeAll() []queued {
	recs := q.recs
	q.recs, q.bytes = nil, 0
	return recs
}

// deliver writes a batch and settles its records. It returns false once the
// partition has been given up, and then nothing after recs may be written.
func (q *queue) deliver(ctx context.Context, recs []queued) bool {
	w := q.writer
	err := q.write(ctx, recs)
	switch {
	case err == nil:
		q.sequence += int32(len(recs)) // wraps around as the broker's does
		if q.sequence < 0 {
			q.sequence &= 1<<31 - 1
		}
		bytes := 0
		for i := range recs {
			bytes += len(recs[i].out.Key) + len(recs[i].out.Value)
		}
		w.client.metrics.moved(q.topic, directionOut, len(recs), bytes)
		w.settle(recs, nil)
	case tooLarge(err) && len(recs) > 1:
		// The topic allows less than we are configured for. Nothing was
		// written, so the halves go out under the same sequence numbers.
		half := len(recs) / 2
		size := batchHeaderBytes
		for i := range recs {
			size += recs[i].size
		}
		q.maxBytes = size / 2
		if !q.deliver(ctx, recs[:half]) {
			w.settle(recs[half:], errBehind)
			return false
		}
		return q.deliver(ctx, recs[half:])
	case tooLarge(err):
		// Nothing was written and the sequence goes on: only this record fails.
		err = fmt.Errorf("writing: %w", &RecordTooLargeError{Topic: q.topic, Bytes: recs[0].size + batchHeaderBytes})
		w.discipline.lost(err)
		w.settle(recs, err)
	default:
		q.giveUp(ctx, recs, fmt.Errorf("writing to topic %s partition %d: %w", q.topic, q.partition, err))
		return false
	}
	return true
}

// giveUp fails a batch and all that is queued behind it. What comes later goes
// out under another session.
func (q *queue) giveUp(ctx context.Context, recs []queued, err error) {
	w := q.writer
	if ctx.Err() == nil {
		level := slog.LevelWarn
		if IsClock(err) {
			level = slog.LevelDebug // as long as the clock is wrong; who sends says so once
		}
		w.client.log.Log(ctx, level, "giving up records", slog.String("topic", q.topic), slog.Int("partition", int(q.partition)),
			slog.Int("records", len(recs)), slog.Any("error", err))
	}
	q.spent = true
	// Taken before anybody hears of the failure: what is sent in answer to it
	// is not behind it.
	w.mu.Lock()
	behind := q.takeAll()
	w.mu.Unlock()
	w.discipline.lost(err)
	w.settle(recs, err)
	w.settle(behind, fmt.Errorf("%w: %w", errBehind, err))
}

func tooLarge(err error) bool {
	return errors.Is(err, kafka.MessageSizeTooLarge) || errors.Is(err, kafka.RecordListTooLarge)
}

// write sends one batch until it is acknowledged. The bytes stay the same from
// try to try, sequence included: that is what lets the broker drop repetitions.
func (q *queue) write(ctx context.Context, recs []queued) error {
	w := q.writer
	s, err := w.discipline.admit(ctx, q)
	if err != nil {
		return err
	}
	if s != q.session {
		q.session, q.sequence, q.spent = s, 0, false
	}
	outs := make([]stream.Out, len(recs))
	for i := range recs {
		outs[i] = recs[i].out
	}
	var enc *zstd.Encoder
	if q.compress {
		if enc, err = w.client.compressor(); err != nil {
			return err
		}
	}
	buf, _ := w.client.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	batch := encodeBatch(*buf, outs, batchIdentity{
		producerID: s.id, producerEpoch: s.epoch, baseSequence: q.sequence, transactional: w.transactionalID != "",
	}, enc)
	tries, err := q.untilAcknowledged(ctx, batch)
	// A try that was given up may still be sending the bytes: only those of a
	// first try are free again.
	if err == nil && tries == 1 && enc == nil {
		*buf = batch
		w.client.buffers.Put(buf)
	}
	return err
}

// untilAcknowledged sends the bytes of a batch until they are acknowledged, and says how often it did.
func (q *queue) untilAcknowledged(ctx context.Context, batch []byte) (tries int, err error) {
	w := q.writer
	pause := newBackoff(w.cfg.DeliveryTimeout)
	for {
		err := q.once(ctx, batch)
		tries++
		switch {
		case err == nil, errors.Is(err, kafka.DuplicateSequenceNumber): // written by an earlier try
			return tries, nil
		case ctx.Err() != nil:
			return tries, errors.Join(ErrClosed, err)
		case classify(err) != retriable:
			return tries, err
		}
		wait := pause.NextBackOff()
		if wait == pause.Stop {
			return tries, fmt.Errorf("not acknowledged within %v: %w", w.cfg.DeliveryTimeout, err)
		}
		w.client.metrics.retries.WithLabelValues("produce").Inc()
		if tries == 4 {
			w.client.log.Warn("writing is held up", slog.String("topic", q.topic),
				slog.String("partition", strconv.Itoa(int(q.partition))), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return tries, errors.Join(ErrClosed, err)
		case <-w.discipline.halted():
			return tries, fmt.Errorf("%w: %w", ErrAborted, err)
		case <-time.After(wait):
		}
	}
}

// once sends the batch to the partition's leader. Where that turns out to be
// another, it leaves the client knowing the new one.
func (q *queue) once(ctx context.Context, batch []byte) error {
	c := q.writer.client
	leader, known, err := c.leader(ctx, q.topic, q.partition)
	if err == nil {
		if err = q.request(ctx, leader, batch); err == nil {
			return nil
		}
	}
	if known != nil && ctx.Err() == nil && classify(err) == retriable {
		// What counts is the first error; a failing refresh shows again.
		if _, refreshErr := c.refresh(ctx, q.topic, known); refreshErr != nil {
			c.log.Debug("refreshing topic", slog.String("topic", q.topic), slog.Any("error", refreshErr))
		}
	}
	return err
}

func (q *queue) request(ctx context.Context, leader int32, batch []byte) error {
	c := q.writer.client
	timeout := c.cfg.RequestTimeout * 3 / 4 // leaves time for the answer
	code, err := exchange(ctx, c, leader, protocol.Produce, func(rw io.ReadWriter, version int16) (kafka.Error, error) {
		version = min(version, maxProduceVersion)
		if version < minProduceVersion {
			return 0, kafka.UnsupportedVersion
		}
		if _, err := rw.Write(encodeProduce(version, c.cfg.ClientID, q.writer.transactionalID, q.topicPartition, timeout, len(batch))); err != nil {
			return 0, err
		}
		if _, err := rw.Write(batch); err != nil {
			return 0, err
		}
		body, err := readFrame(rw)
		if err != nil {
			return 0, err
		}
		return decodeProduce(body, q.topicPartition)
	})
	if err != nil {
		return err
	}
	if code != 0 {
		return code
	}
	return nil
}

// encodeProduce encodes a request up to where the batch follows.
func encodeProduce(version int16, clientID, transactionalID string, tp topicPartition, timeout time.Duration, batchBytes int) []byte {
	be := binary.BigEndian
	b := appendRequestHeader(make([]byte, 0, 128), protocol.Produce, version, clientID)
	if transactionalID == "" {
		b = be.AppendUint16(b, ^uint16(0)) // null
	} else {
		b = appendString(b, transactionalID)
	}
	acks := int16(acksAll)
	b = be.AppendUint16(b, uint16(acks))
	b = be.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = be.AppendUint32(b, 1)
	b = appendString(b, tp.topic)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, uint32(tp.partition))
	b = be.AppendUint32(b, uint32(batchBytes))
	finishRequest(b, batchBytes)
	return b
}

// decodeProduce reads the response to a request for one partition; what
// follows the error code differs between versions and is not needed.
func decodeProduce(body []byte, tp topicPartition) (kafka.Error, error) {
	d := decoder{b: body}
	topics := d.count(6)
	name := d.string()
	partitions := d.count(6)
	index := d.int32()
	code := kafka.Error(d.int16())
	if d.err != nil {
		return 0, fmt.Errorf("reading produce response: %w", d.err)
	}
	if topics != 1 || partitions != 1 || name != tp.topic || index != tp.partition {
		return 0, fmt.Errorf("reading produce response: it is not about topic %s partition %d", tp.topic, tp.partition)
	}
	return code, nil
}
