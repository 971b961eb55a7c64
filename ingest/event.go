package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/trace"
)

// event is one step of a run on its way to Kafka: its announcement, a chunk, or
// its end. stream/FORMAT.md describes how events are counted and named.
type event struct {
	// after is the run's progress with this event, so its number is
	// after.next-1.
	after progress
	// at is when the event came in, and the time of its records.
	at      time.Time
	samples int
	outs    []stream.Out
	traced  *tracedChunk // nil unless it is a chunk of a traced read
}

// number is the event's place in its run, from 0.
func (e *event) number() uint64 { return e.after.next - 1 }

// eventOverhead is about what an event takes besides its bytes.
const eventOverhead = 256

// size is the memory that the event takes, in bytes.
func (e *event) size() int64 {
	n := eventOverhead * (1 + len(e.outs)/2)
	for i := range e.outs {
		n += len(e.outs[i].Key) + len(e.outs[i].Value)
	}
	return int64(n)
}

// progress says how many events of a run there have been, and which.
type progress struct {
	next   uint64 // number of the event that follows
	digest [stream.CursorDigestLen]byte
	ended  bool
}

// add counts an event. Chunks of a read but the first follow from it, and have
// no identity of their own.
func (p *progress) add(identity []byte) {
	p.next++
	if len(identity) == 0 {
		return
	}
	h := sha256.New()
	h.Write(p.digest[:])
	h.Write(identity)
	h.Sum(p.digest[:0])
}

// Flags of an event in the spool: it is its run's last; it is a chunk of a traced read,
// which is named behind the records.
const (
	flagEnded  = 1
	flagTraced = 2
)

// appendEvent appends an event as the spool keeps it. Its number is the
// spool's to keep.
func appendEvent(dst []byte, e *event) []byte {
	var flags byte
	if e.after.ended {
		flags |= flagEnded
	}
	if e.traced != nil {
		flags |= flagTraced
	}
	dst = append(dst, flags)
	dst = append(dst, e.after.digest[:]...)
	dst = binary.AppendVarint(dst, e.at.UnixMicro())
	dst = binary.AppendUvarint(dst, uint64(e.samples))
	dst = binary.AppendUvarint(dst, uint64(len(e.outs)))
	for i := range e.outs {
		o := &e.outs[i]
		dst = appendBytes(dst, o.Topic)
		dst = binary.AppendUvarint(dst, uint64(o.Partition+1))
		dst = appendBytes(dst, o.Key)
		dst = appendBytes(dst, o.Value)
	}
	if t := e.traced; t != nil {
		dst = appendBytes(dst, t.run)
		dst = appendBytes(dst, t.read)
		dst = binary.AppendUvarint(dst, uint64(t.number)<<1|uint64(bit(t.last)))
	}
	return dst
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// Bounds of what a spooled event may say.
const (
	maxEventSamples = stream.MaxChunkSamples
	maxEventOuts    = 200_000 // a marker for every partition
)

// parseEvent reads what appendEvent wrote. The event's bytes lie in b.
func parseEvent(b []byte, number uint64) (event, error) {
	d := eventDecoder{b: b}
	e := event{after: progress{next: number + 1}}
	flags := d.take(1)
	copy(e.after.digest[:], d.take(stream.CursorDigestLen))
	if d.err == nil {
		e.after.ended = flags[0]&flagEnded != 0
		if flags[0]&^(flagEnded|flagTraced) != 0 {
			d.err = fmt.Errorf("unknown flags %#x", flags[0])
		}
	}
	e.at = time.UnixMicro(d.varint())
	e.samples = int(d.uvarint(maxEventSamples))
	// A record takes four bytes at least.
	n := d.uvarint(min(maxEventOuts, uint64(len(d.b)/4)))
	e.outs = make([]stream.Out, n)
	for i := range e.outs {
		o := &e.outs[i]
		o.Topic = string(d.bytes())
		o.Partition = int32(d.uvarint(1<<31-1)) - 1
		o.Key, o.Value = d.bytes(), d.bytes()
		o.Time = e.at
	}
	if d.err == nil && flags[0]&flagTraced != 0 {
		d.traced(&e)
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return event{}, fmt.Errorf("reading event %d of the spool: %w", number, d.err)
	}
	return e, nil
}

// eventDecoder reads the parts of an event; after an error it gives zeros.
type eventDecoder struct {
	b   []byte
	err error
}

var errShortEvent = errors.New("it ends early")

func (d *eventDecoder) take(n uint64) []byte {
	if d.err == nil && n > uint64(len(d.b)) {
		d.err = errShortEvent
	}
	if d.err != nil {
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *eventDecoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err == nil && (n <= 0 || v > limit) {
		d.err = fmt.Errorf("number %d where at most %d are possible", v, limit)
	}
	if d.err != nil {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *eventDecoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if d.err == nil && n <= 0 {
		d.err = errShortEvent
	}
	if d.err != nil {
		return 0
	}
	d.b = d.b[n:]
	return v
}

// traced reads whose chunk it is, and has the record carry its place in the trace
// again.
func (d *eventDecoder) traced(e *event) {
	run, read := string(d.bytes()), string(d.bytes())
	n := d.uvarint(1<<33 - 1)
	if d.err == nil && (len(e.outs) != 1 || run == "" || read == "") {
		d.err = errors.New("a traced read without a chunk or a name")
	}
	if d.err == nil {
		e.traced = newTracedChunk(run, read, uint32(n>>1), n&1 == 1)
		trace.Inject(&e.outs[0], e.traced.place)
	}
}

func (d *eventDecoder) bytes() []byte {
	return slices.Clip(d.take(d.uvarint(uint64(len(d.b)))))
}
