package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/planted"
)

const (
	defaultFetchBytes = 2 << 20
	// maxWait is how long a broker holds a fetch that finds nothing.
	maxWait = 500 * time.Millisecond

	// Fetch versions we can encode and decode. 4 is the oldest that knows
	// transactions, 12 changes the encoding.
	minFetchVersion = 4
	maxFetchVersion = 11
)

// Bounds of what one response may become in memory, beside its last batch.
const (
	maxInflation  = 8
	minFetchBytes = 1 << 20
)

// heldBytes is about what a record takes in memory.
func heldBytes(r *stream.Record) int {
	const record, header = 150, 40
	n := record + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += header + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// FetchConfig bounds a fetcher.
type FetchConfig struct {
	// MaxBytes bounds one response. Zero means 2 MiB. A batch that is larger
	// comes alone.
	MaxBytes int
	// GiveUpAfter is for how long a broker may be gone or a partition without
	// leader before Next returns an error. Zero means 1 minute.
	GiveUpAfter time.Duration
	// Uncommitted brings records as soon as they are written, without waiting for their
	// transaction to end, and those of aborted transactions, too.
	Uncommitted bool
}

// Batch is what one fetch brought.
type Batch struct {
	// Records are committed records in offset order, or with
	// FetchConfig.Uncommitted all records. Their keys, values and
	// headers share one buffer of about FetchConfig.MaxBytes: clone what is
	// kept for long.
	Records []stream.Record
	// Next is the offset to read on from. It can lie beyond the last record
	// where transaction markers, aborted or compacted records were skipped.
	Next int64
	// LogStart is the oldest offset in the log, HighWatermark its end.
	LogStart, HighWatermark int64
}

// Fetcher reads one partition in order. It is not safe for concurrent use.
type Fetcher struct {
	client    *Client
	batches   *batchDecoder
	topic     string
	partition int32
	next      int64
	maxBytes  int
	giveUp    time.Duration
	isolation byte
}

// NewFetcher reads a partition from an offset on.
func (c *Client) NewFetcher(topic string, partition int32, offset int64, cfg FetchConfig) *Fetcher {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = defaultFetchBytes
	}
	if cfg.GiveUpAfter == 0 {
		cfg.GiveUpAfter = time.Minute
	}
	f := &Fetcher{
		client: c, batches: c.batches, topic: topic, partition: partition, next: offset,
		maxBytes: cfg.MaxBytes, giveUp: cfg.GiveUpAfter, isolation: readCommitted,
	}
	if cfg.Uncommitted {
		f.isolation = readUncommitted
	}
	return f
}

// Next waits for records, but no longer than half a second while the broker
// answers: a batch without records means that none came. It rides out leader
// changes and short outages. An offset that is not in the log is an
// [*OffsetError].
func (f *Fetcher) Next(ctx context.Context) (Batch, error) {
	pause := newBackoff(f.giveUp)
	for {
		batch, err := f.once(ctx)
		if err == nil {
			f.next = batch.Next
			return batch, nil
		}
		if ctx.Err() != nil {
			return Batch{}, context.Cause(ctx)
		}
		var gone *OffsetError
		if errors.As(err, &gone) {
			return Batch{}, f.bounds(ctx, gone)
		}
		wait := pause.NextBackOff()
		if classify(err) != retriable || wait == pause.Stop {
			return Batch{}, fmt.Errorf("reading topic %s partition %d at offset %d: %w", f.topic, f.partition, f.next, err)
		}
		f.client.metrics.retries.WithLabelValues("fetch").Inc()
		f.client.log.Debug("retrying", slog.String("operation", "fetch"), slog.String("topic", f.topic),
			slog.Int("partition", int(f.partition)), slog.Any("error", err))
		select {
		case <-ctx.Done():
			return Batch{}, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// bounds adds the log's bounds to an error about an offset, if they can be had.
func (f *Fetcher) bounds(ctx context.Context, e *OffsetError) error {
	if offsets, err := f.client.Offsets(ctx, f.topic); err == nil && int(f.partition) < len(offsets) {
		e.Start, e.End = offsets[f.partition].Start, offsets[f.partition].End
	}
	return e
}

// once makes one request. Where the leader turns out to be another, it leaves
// the client knowing the new one.
func (f *Fetcher) once(ctx context.Context) (Batch, error) {
	leader, known, err := f.client.leader(ctx, f.topic, f.partition)
	if err == nil {
		var res fetched
		res, err = f.request(ctx, leader)
		if err == nil {
			return f.decode(res)
		}
	}
	var gone *OffsetError
	if known != nil && !errors.As(err, &gone) && ctx.Err() == nil && classify(err) == retriable {
		if _, refreshErr := f.client.refresh(ctx, f.topic, known); refreshErr != nil {
			return Batch{}, refreshErr
		}
	}
	return Batch{}, err
}

// fetched is a partition's part of a fetch response.
type fetched struct {
	code                            kafka.Error
	highWatermark, stable, logStart int64
	aborted                         []abortedTransaction
	records                         []byte
}

// abortedTransaction says that a producer's transaction that begins at first
// was aborted.
type abortedTransaction struct{ producerID, first int64 }

func (f *Fetcher) request(ctx context.Context, leader int32) (fetched, error) {
	next := f.next // the exchange may outlive this call
	res, err := exchange(ctx, f.client, leader, protocol.Fetch, func(rw io.ReadWriter, version int16) (fetched, error) {
		version = min(version, maxFetchVersion)
		if version < minFetchVersion {
			return fetched{}, kafka.UnsupportedVersion
		}
		if _, err := rw.Write(f.encode(version, next)); err != nil {
			return fetched{}, err
		}
		body, err := readFrame(rw)
		if err != nil {
			return fetched{}, err
		}
		return decodeFetch(body, version, f.topic, f.partition)
	})
	if err != nil {
		return fetched{}, err
	}
	switch res.code {
	case 0:
		return res, nil
	case kafka.OffsetOutOfRange:
		return fetched{}, &OffsetError{Topic: f.topic, Partition: f.partition, Offset: next, Start: -1, End: -1}
	default:
		return fetched{}, res.code
	}
}

func (f *Fetcher) encode(version int16, offset int64) []byte {
	be := binary.BigEndian
	b := appendRequestHeader(make([]byte, 0, 128), protocol.Fetch, version, f.client.cfg.ClientID)
	b = be.AppendUint32(b, ^uint32(0)) // replica: none
	b = be.AppendUint32(b, uint32(maxWait.Milliseconds()))
	b = be.AppendUint32(b, 1) // min bytes
	// The one partition's limit is what counts: kfake leaves out the list of
	// aborted transactions when it is this one that it meets.
	b = be.AppendUint32(b, math.MaxInt32)
	b = append(b, f.isolation)
	if version >= 7 { // no fetch session
		b = be.AppendUint32(b, 0)
		b = be.AppendUint32(b, ^uint32(0))
	}
	b = be.AppendUint32(b, 1)
	b = appendString(b, f.topic)
	b = be.AppendUint32(b, 1)
	b = be.AppendUint32(b, uint32(f.partition))
	if version >= 9 {
		b = be.AppendUint32(b, ^uint32(0)) // leader epoch: not checked
	}
	b = be.AppendUint64(b, uint64(offset))
	if version >= 5 {
		b = be.AppendUint64(b, ^uint64(0)) // log start: for followers
	}
	b = be.AppendUint32(b, uint32(f.maxBytes))
	if version >= 7 {
		b = be.AppendUint32(b, 0) // no forgotten topics
	}
	if version >= 11 {
		b = appendString(b, "") // no rack
	}
	finishRequest(b, 0)
	return b
}

// decodeFetch reads the response to a fetch of one partition.
func decodeFetch(body []byte, version int16, topic string, partition int32) (fetched, error) {
	d := decoder{b: body}
	d.int32() // throttle time
	if version >= 7 {
		if code := kafka.Error(d.int16()); code != 0 && d.err == nil {
			return fetched{}, code
		}
		d.int32() // session
	}
	for range d.count(6) {
		name := d.string()
		for range d.count(30) {
			var res fetched
			index := d.int32()
			res.code = kafka.Error(d.int16())
			res.highWatermark = d.int64()
			res.stable = d.int64()
			if version >= 5 {
				res.logStart = d.int64()
			}
			for range d.count(16) {
				res.aborted = append(res.aborted, abortedTransaction{d.int64(), d.int64()})
			}
			if version >= 11 {
				d.int32() // preferred replica: none, as no rack was named
			}
			res.records = d.bytes()
			if d.err != nil {
				break
			}
			if name == topic && index == partition {
				return res, nil
			}
		}
	}
	if d.err != nil {
		return fetched{}, fmt.Errorf("reading fetch response: %w", d.err)
	}
	return fetched{}, fmt.Errorf("reading fetch response: it is not about topic %s partition %d", topic, partition)
}

// decode turns a response into records, leaving out what transactions have
// aborted.
//
// The broker lists the aborted transactions of the fetched range by producer
// and first offset. A producer's records are dropped from there on until its
// abort marker.
func (f *Fetcher) decode(res fetched) (Batch, error) {
	out := Batch{Next: f.next, LogStart: res.logStart, HighWatermark: res.highWatermark}
	slices.SortFunc(res.aborted, func(a, b abortedTransaction) int { return cmp.Compare(a.first, b.first) })
	aborting := make(map[int64]bool)
	set := res.records
	inflated := 0
	// The response is bounded, what its compressed batches hold is not: the rest
	// is fetched again.
	for len(set) > 0 && inflated <= maxInflation*max(f.maxBytes, minFetchBytes) {
		h, records, rest, ok, err := splitBatch(set)
		if err != nil {
			return Batch{}, err
		}
		if !ok {
			break
		}
		set = rest
		for len(res.aborted) > 0 && res.aborted[0].first <= h.lastOffset {
			aborting[res.aborted[0].producerID] = true
			res.aborted = res.aborted[1:]
		}
		switch {
		case h.control():
			if f.batches.isAbort(h, records) {
				delete(aborting, h.producerID)
			}
		case h.transactional() && aborting[h.producerID] && !planted.Is(planted.IgnoreAbort):
		default:
			before := len(out.Records)
			if out.Records, err = f.batches.records(out.Records, h, records, f.topic, f.partition, f.next); err != nil {
				return Batch{}, err
			}
			for i := range out.Records[before:] {
				inflated += heldBytes(&out.Records[before+i])
			}
		}
		out.Next = max(out.Next, h.lastOffset+1)
	}
	if len(res.records) > 0 && out.Next == f.next {
		return Batch{}, fmt.Errorf("a response of %d bytes holds no complete batch", len(res.records))
	}
	return out, nil
}
