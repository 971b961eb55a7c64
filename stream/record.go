package stream

import (
	"context"
	"time"
)

// Header is one Kafka record header.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record read from a topic.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// AnyPartition in [Out.Partition] asks for the partition that the key hashes to.
const AnyPartition int32 = -1

// Out is one record to be written.
type Out struct {
	Topic     string
	Partition int32 // AnyPartition: chosen by Key
	Key       []byte
	Value     []byte
	Headers   []Header
	Time      time.Time // zero: the moment of sending
}

// Emitter takes what a handler has produced.
type Emitter interface {
	// Emit writes out, in order per partition, and once all of it is durable
	// marks the input offsets in resolved as dealt with. The committed offset
	// of the input partition is the lowest offset not yet resolved. Where
	// delivery is exactly once, out and resolved are committed together: what
	// follows from a record has to be emitted in the call that resolves it, or a
	// crash between two calls makes the first appear again. Emit blocks
	// while too much is in flight and returns when ctx ends or the partition is
	// lost; it may return before out is durable. Safe for concurrent use.
	Emit(ctx context.Context, out []Out, resolved []int64) error
	// Fail ends the worker's generation with err, as if Handle had returned it:
	// for handlers that work in goroutines of their own. Only the first counts.
	Fail(err error)
}

// Handler is one stage's logic for one input partition. Its methods are called
// from one goroutine; a handler may emit from goroutines of its own until Close
// returns.
type Handler interface {
	// Replay folds in a record that is dealt with. Nothing is
	// emitted for it: its effects are already downstream. It leaves the handler in
	// the state that Handle would have left it in.
	Replay(ctx context.Context, rec Record) error
	// Handle processes a live record. Its offset must sooner or later be passed
	// to emit.Emit as resolved. An error ends the worker's generation and the
	// record will be delivered again, unless the error is [Permanent]; bad input is
	// no error but a dead letter.
	Handle(ctx context.Context, rec Record, emit Emitter) error
	// Drain waits until everything that follows from the records handled so far
	// has been emitted, or until ctx ends. After nil the handler may be handed
	// more records, with another Emitter.
	Drain(ctx context.Context) error
	// Close drops work in flight and releases what the handler holds. It is
	// called once, last, whether or not Drain was.
	Close() error
	// State is the handler's state, for snapshots; nil if it keeps nothing from
	// one record to the next.
	State() State
}

// Permanent wraps a [Handler]'s error that comes of every delivery of the record, as of
// settings that forbid it: the group ends with it instead of trying again.
type Permanent struct{ Err error }

func (p *Permanent) Error() string { return p.Err.Error() }

// Unwrap returns what is wrapped.
func (p *Permanent) Unwrap() error { return p.Err }

// NewHandler makes the handler of an assigned partition. partitions is the
// number of partitions of the input topic.
type NewHandler func(topic string, partition, partitions int32) (Handler, error)
