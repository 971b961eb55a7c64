package push

import (
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/porestream/porestream/push/pushpb"
)

// Bounds of what a chunk may say.
const (
	maxClock = 1 << 56 // a read's start, in samples: 500,000 years at 5 kHz
	maxRead  = 1 << 40 // a chunk's place in its read, as on the signal topic
	maxName  = 512     // bytes of a read's id, as on the signal topic
)

// order decides which chunk of a run may come next.
//
// Problem: a device sends chunks again after a disconnection, and devices have
// bugs; nothing may be doubled, and nothing may be missing without being counted.
// Assumptions: the device numbers the run's chunks and keeps those that are not
// acknowledged. Strategy: chunks are taken in the order of their numbers, those
// below the next one are repetitions; within a channel, each chunk must begin
// where the one before ended, or say what is missing. Consequences: the state is a
// few words for each channel. ledger.go keeps it in Kafka, so that it is not lost
// with the process; of a run begun by a server that kept no such state, the first
// chunk of each channel is believed after a restart.
type order struct {
	limits   Limits
	next     uint64 // number of the chunk that is taken next
	resumed  bool   // channels that are not known may have sent before
	channels map[uint32]*channel
	open     map[string]uint32 // the channel of each read that has no end yet
}

// channel is what a channel has sent.
type channel struct {
	read   read
	open   bool   // the read has no end yet
	number uint32 // of the read's next chunk
	end    uint64 // the read's first sample behind its last chunk
}

// read is what all chunks of a read have in common.
type read struct {
	id            string
	start         uint64
	number, well  uint32
	offset, scale float32
}

func readOf(c *pushpb.Chunk) read {
	return read{
		id: c.GetReadId(), start: c.GetReadStart(), number: c.GetReadNumber(), well: c.GetWell(),
		offset: c.GetCalibrationOffset(), scale: c.GetCalibrationScale(),
	}
}

// loss is what a device says that it has lost before a chunk.
type loss struct {
	samples uint64
	ends    int // of reads
}

// newOrder begins with chunk next. What came before it, if anything, is not known.
func newOrder(limits Limits, next uint64) *order {
	return &order{
		limits: limits, next: next, resumed: next > 0,
		channels: make(map[uint32]*channel), open: make(map[string]uint32),
	}
}

// clone is a copy that goes on for itself.
func (o *order) clone() *order {
	c := &order{limits: o.limits, next: o.next, resumed: o.resumed, channels: make(map[uint32]*channel, len(o.channels)), open: maps.Clone(o.open)}
	for n, ch := range o.channels {
		was := *ch
		c.channels[n] = &was
	}
	return c
}

// reopen finds the open reads among the channels.
func (o *order) reopen() {
	clear(o.open)
	for n, ch := range o.channels {
		if ch.open {
			o.open[ch.read.id] = n
		}
	}
}

// repeated reports whether a chunk has been taken before.
func (o *order) repeated(c *pushpb.Chunk) bool { return c.GetSequence() < o.next }

// check reports whether a chunk may be taken next, and what is lost before it. It
// changes nothing.
func (o *order) check(c *pushpb.Chunk) (loss, *refusal) {
	if c.GetSequence() != o.next {
		return loss{}, refuse(pushpb.Reason_REASON_OUT_OF_SEQUENCE, "chunk %d where %d is next: chunks are numbered in steps of one", c.GetSequence(), o.next).
			with("next", strconv.FormatUint(o.next, 10))
	}
	if r := o.sound(c); r != nil {
		return loss{}, r
	}
	ch := o.channels[c.GetChannel()]
	if ch != nil && ch.read.id == c.GetReadId() {
		return ch.goesOn(c)
	}
	return o.begins(ch, c)
}

// sound checks a chunk by itself, without what came before it.
func (o *order) sound(c *pushpb.Chunk) *refusal {
	id := c.GetReadId()
	switch {
	case id == "" || len(id) > maxName || strings.ContainsFunc(id, unicode.IsControl):
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "read id %.100q: it has 1 to %d bytes and no control character", id, maxName)
	case len(c.GetEndReason()) > maxName:
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q ends for a reason of %d bytes, the limit is %d", id, len(c.GetEndReason()), maxName)
	case uint64(c.GetSampleCount()) > o.limits.ChunkSamples:
		return refuse(pushpb.Reason_REASON_TOO_BIG, "a chunk of read %q has %d samples, the limit is %d: send shorter chunks", id, c.GetSampleCount(), o.limits.ChunkSamples)
	case c.GetReadStart() > maxClock || c.GetFirstSample() > maxRead:
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q begins at sample %d and its chunk at %d behind that: that is more than a clock shows", id, c.GetReadStart(), c.GetFirstSample())
	case !finite(c.GetCalibrationOffset()) || !finite(c.GetCalibrationScale()):
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q has a calibration that is no number", id)
	case c.GetSampleCount() == 0 && !c.GetEndOfRead():
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "a chunk in the middle of read %q has no samples", id)
	case c.GetSkipped() > c.GetFirstSample():
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "a chunk of read %q begins at its sample %d and says that %d before it are lost", id, c.GetFirstSample(), c.GetSkipped())
	}
	return nil
}

func finite(f float32) bool { return !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) }

// goesOn checks a chunk of the channel's newest read.
func (ch *channel) goesOn(c *pushpb.Chunk) (loss, *refusal) {
	id, first := c.GetReadId(), c.GetFirstSample()
	switch {
	case !ch.open:
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q has ended, and there is more of it", id)
	case readOf(c) != ch.read:
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "chunk %d of read %q has another start, number, well or calibration than the one before", c.GetNumber(), id)
	case c.GetPreviousLost():
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q goes on and says that the end of the read before is lost", id)
	case first < ch.end:
		return loss{}, refuse(pushpb.Reason_REASON_CLOCK_BACKWARDS, "channel %d goes back: a chunk of read %q begins at its sample %d, and %d have come", c.GetChannel(), id, first, ch.end)
	case first-ch.end != c.GetSkipped():
		return loss{}, refuse(pushpb.Reason_REASON_GAP, "read %q has come to its sample %d, and the next chunk begins at %d: set skipped if %d samples are lost", id, ch.end, first, first-ch.end)
	case c.GetNumber() < ch.number || c.GetNumber() > ch.number && c.GetSkipped() == 0:
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "chunk %d of read %q where %d is next", c.GetNumber(), id, ch.number)
	}
	return loss{samples: c.GetSkipped()}, nil
}

// begins checks the first chunk of a read; ch is nil if its channel is not known.
func (o *order) begins(ch *channel, c *pushpb.Chunk) (loss, *refusal) {
	id, n := c.GetReadId(), c.GetChannel()
	if other, open := o.open[id]; open {
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q is open on channel %d, and a chunk of it comes from channel %d", id, other, n)
	}
	if ch == nil {
		switch {
		case o.limits.Channels > 0 && int64(len(o.channels)) >= o.limits.Channels:
			return loss{}, refuse(pushpb.Reason_REASON_OVER_QUOTA, "channel %d would be one more than the %d that the device may have in a run", n, o.limits.Channels)
		case o.limits.OpenReads > 0 && int64(len(o.open)) >= o.limits.OpenReads:
			return loss{}, o.tooManyReads(id)
		case o.resumed:
			return lossOf(c), nil
		}
		return loss{samples: c.GetSkipped()}, whole(c)
	}
	if c.GetReadStart()+c.GetFirstSample() < ch.read.start+ch.end {
		return loss{}, refuse(pushpb.Reason_REASON_CLOCK_BACKWARDS, "channel %d goes back: read %q begins at sample %d of its clock, and %d have passed", n, id, c.GetReadStart()+c.GetFirstSample(), ch.read.start+ch.end)
	}
	if ch.open != c.GetPreviousLost() {
		if ch.open {
			return loss{}, refuse(pushpb.Reason_REASON_GAP, "channel %d has begun read %q, and read %q has no end: set previous_lost if its end is lost", n, id, ch.read.id)
		}
		return loss{}, refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q says that the end of the read before is lost, and read %q has ended", id, ch.read.id)
	}
	if !ch.open && o.limits.OpenReads > 0 && int64(len(o.open)) >= o.limits.OpenReads {
		return loss{}, o.tooManyReads(id)
	}
	return lossOf(c), whole(c)
}

func (o *order) tooManyReads(id string) *refusal {
	return refuse(pushpb.Reason_REASON_OVER_QUOTA, "read %q would be one more than the %d that the device may have open", id, o.limits.OpenReads)
}

// whole refuses a chunk that begins a read, but neither is its first nor says what is lost.
func whole(c *pushpb.Chunk) *refusal {
	switch {
	case c.GetFirstSample() != c.GetSkipped():
		return refuse(pushpb.Reason_REASON_GAP, "read %q begins with its sample %d: set skipped if what is before is lost", c.GetReadId(), c.GetFirstSample())
	case c.GetNumber() > 0 && c.GetSkipped() == 0:
		return refuse(pushpb.Reason_REASON_BAD_CHUNK, "read %q begins with its chunk %d", c.GetReadId(), c.GetNumber())
	}
	return nil
}

func lossOf(c *pushpb.Chunk) loss {
	l := loss{samples: c.GetSkipped()}
	if c.GetPreviousLost() {
		l.ends = 1
	}
	return l
}

// take notes a chunk that was checked and has been taken.
func (o *order) take(c *pushpb.Chunk) {
	o.next = c.GetSequence() + 1
	ch := o.channels[c.GetChannel()]
	if ch == nil {
		ch = new(channel)
		o.channels[c.GetChannel()] = ch
	}
	if ch.open && ch.read.id != c.GetReadId() {
		delete(o.open, ch.read.id)
		ch.open = false
	}
	if !ch.open {
		ch.read, ch.open = readOf(c), true
		o.open[ch.read.id] = c.GetChannel()
	}
	ch.number, ch.end = c.GetNumber()+1, c.GetFirstSample()+uint64(c.GetSampleCount())
	if c.GetEndOfRead() {
		delete(o.open, ch.read.id)
		ch.open = false
	}
}

// end reports whether the run may end, and how many reads lose their ends then.
func (o *order) end(e *pushpb.End) (loss, *refusal) {
	if e.GetChunks() != o.next {
		return loss{}, refuse(pushpb.Reason_REASON_OUT_OF_SEQUENCE, "the run ends behind %d chunks, and %d have come", e.GetChunks(), o.next).
			with("next", strconv.FormatUint(o.next, 10))
	}
	if len(o.open) > 0 && !e.GetUnfinished() {
		return loss{}, refuse(pushpb.Reason_REASON_GAP, "the run ends, and %d reads have no end: set unfinished if their ends are lost", len(o.open))
	}
	return loss{ends: len(o.open)}, nil
}
