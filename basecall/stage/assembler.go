package stage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// part is a stretch of a read's current without a gap.
type part struct {
	first   uint64 // first sample within the read
	samples []int16
}

// assembledRead is a read, or the beginning of one that had to be cut, with the
// offsets of the records it came from.
type assembledRead struct {
	run, id     string
	channel     uint32
	parts       []part
	firstPart   int // number of parts[0] within the read
	offsets     []int64
	lastChunkMS int64 // record time of the newest chunk
	endReason   string
	calibration struct{ offset, scale float32 }

	// The pieces of a read that was cut are worked on side by side, and the
	// offsets of all come with the last: it has to wait for the others. emitted
	// is to be closed when the piece is emitted, unless it is nil; after is
	// what the piece before has there.
	emitted chan struct{}
	after   <-chan struct{}
}

// assembler collects the chunks of one partition into reads.
//
// Problem: chunks of many channels interleave; live readers lose some, restarts
// deliver some twice, and a sequencer may never send a read's last one.
//
// Assumptions: the chunks of a channel arrive in the order in which they were
// sent, because one producer writes them to one partition in order; a sender
// that starts over sends its run again from any earlier read on.
//
// Strategy: a chunk that continues its read is appended; one that repeats
// samples already here is dropped; one that jumps ahead starts a new part, so
// that no base is ever called across a gap. A chunk closes those reads of its
// channel that began before its own: their ends were lost. So a channel has one
// open read, and a second one only while earlier reads are sent again; the first
// is left alone then and goes on where it stopped. A read that outgrows
// maxSamples is cut at a chunk's end, which bounds what it holds and, because it
// looks at nothing but the read, happens at the same place whenever the read is
// assembled again.
//
// It is a pure function of the records added.
type assembler struct {
	maxSamples int
	codec      *vbz.Codec
	open       map[channelKey][]*openRead // in the order in which they began
	held       int                        // samples in open reads
	// done is the read of each channel that was finished last: its last chunk
	// may be delivered twice.
	done map[channelKey]string
}

type channelKey struct {
	run     string
	channel uint32
}

type openRead struct {
	assembledRead
	start   uint64 // when it began on its channel
	number  uint32 // likewise, for recordings that don't tell the time
	next    uint64 // first sample not yet seen
	samples int    // held, that is, since the last cut
}

// begunBy tells whether r had begun when the read of c did.
func (r *openRead) begunBy(c *streampb.SignalChunk) bool {
	return cmp.Or(cmp.Compare(r.start, c.GetReadStart()), cmp.Compare(r.number, c.GetReadNumber())) <= 0
}

// added is what came of a chunk.
type added struct {
	finished  []*assembledRead // in order; usually none or one
	duplicate bool             // the chunk was here before and can be resolved
	gap       uint64           // samples missing before the chunk
	lostEnds  int              // reads that were closed because the next one began
	cut       bool             // a read was cut to bound memory
}

func newAssembler(maxSamples int) *assembler {
	return &assembler{maxSamples: maxSamples, codec: vbz.NewCodec(), open: make(map[channelKey][]*openRead), done: make(map[channelKey]string)}
}

// add takes the chunk of the record at offset. ms is the record's time. An
// error means that the samples can't be decoded and the chunk was not taken.
func (a *assembler) add(c *streampb.SignalChunk, offset, ms int64) (added, error) {
	var res added
	key := channelKey{c.GetRun(), c.GetChannel()}
	if a.done[key] == c.GetReadId() {
		res.duplicate = true
		return res, nil
	}
	var r *openRead
	for _, o := range a.open[key] {
		if o.id == c.GetReadId() {
			r = o
		}
	}
	if r != nil && !c.GetEndOfRead() && c.GetFirstSample()+uint64(c.GetSampleCount()) <= r.next {
		res.duplicate = true
		return res, nil
	}
	samples, err := a.codec.Decode(nil, c.GetVbz(), int(c.GetSampleCount()))
	if err != nil {
		return res, &stream.DecodeError{Code: stream.CodePayload, Reason: fmt.Sprintf("read %s, chunk %d: %v", c.GetReadId(), c.GetNumber(), err)}
	}
	for i := 0; i < len(a.open[key]); {
		o := a.open[key][i]
		if o == r || !o.begunBy(c) {
			i++
			continue
		}
		res.lostEnds++
		res.finished = append(res.finished, a.finish(key, o, ""))
	}
	if r == nil {
		r = &openRead{
			assembledRead: assembledRead{run: c.GetRun(), id: c.GetReadId(), channel: c.GetChannel()},
			start:         c.GetReadStart(), number: c.GetReadNumber(),
		}
		// What is left began later.
		a.open[key] = slices.Insert(a.open[key], 0, r)
	}
	r.calibration.offset, r.calibration.scale = c.GetCalibrationOffset(), c.GetCalibrationScale()
	r.offsets = append(r.offsets, offset)
	r.lastChunkMS = max(r.lastChunkMS, ms)
	res.gap = a.append(r, c.GetFirstSample(), samples)
	if c.GetEndOfRead() {
		res.finished = append(res.finished, a.finish(key, r, c.GetEndReason()))
		return res, nil
	}
	if r.samples > a.maxSamples {
		res.finished, res.cut = append(res.finished, a.cut(r)), true
	}
	return res, nil
}

// append adds samples that begin at first and returns how many are missing
// before them. Those seen before are left out.
func (a *assembler) append(r *openRead, first uint64, samples []int16) (gap uint64) {
	if first < r.next {
		skip := min(r.next-first, uint64(len(samples)))
		samples = samples[skip:]
		first += skip
	}
	if len(samples) == 0 {
		return 0
	}
	if first > r.next || len(r.parts) == 0 {
		gap = first - r.next
		r.parts = append(r.parts, part{first: first})
	}
	last := &r.parts[len(r.parts)-1]
	last.samples = append(last.samples, samples...)
	r.next = first + uint64(len(samples))
	r.samples += len(samples)
	a.held += len(samples)
	return gap
}

// finish takes an open read out.
func (a *assembler) finish(key channelKey, r *openRead, reason string) *assembledRead {
	a.open[key] = slices.DeleteFunc(a.open[key], func(o *openRead) bool { return o == r })
	if len(a.open[key]) == 0 {
		delete(a.open, key)
	}
	a.done[key] = r.id
	a.held -= r.samples
	r.endReason = reason
	return &r.assembledRead
}

// cut takes out what is here of a read and leaves the read open for more. The
// offsets stay with the open read: were they committed, a restart would take
// the whole read for finished.
func (a *assembler) cut(r *openRead) *assembledRead {
	head := r.assembledRead
	head.offsets = nil
	head.emitted = make(chan struct{})
	r.after = head.emitted
	r.firstPart += len(r.parts)
	r.parts = nil
	a.held -= r.samples
	r.samples = 0
	return &head
}

// finishRun takes out every open read of a run, by channel.
func (a *assembler) finishRun(run string) []*assembledRead {
	var keys []channelKey
	for key := range a.open {
		if key.run == run {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y channelKey) int { return cmp.Compare(x.channel, y.channel) })
	var reads []*assembledRead
	for _, key := range keys {
		for _, r := range slices.Clone(a.open[key]) {
			reads = append(reads, a.finish(key, r, ""))
		}
	}
	a.forgetRun(run)
	return reads
}

// forgetRun drops what is known of a run's finished reads.
func (a *assembler) forgetRun(run string) {
	for key := range a.done {
		if key.run == run {
			delete(a.done, key)
		}
	}
}

// skip notes a chunk from before the committed offset. Offsets are committed
// only up to the first chunk of the oldest read that is open, so its read is
// finished, unless the chunk was bad: then the read may only just begin.
func (a *assembler) skip(c *streampb.SignalChunk) {
	key := channelKey{c.GetRun(), c.GetChannel()}
	if a.done[key] == c.GetReadId() {
		return
	}
	if _, err := a.codec.Decode(nil, c.GetVbz(), int(c.GetSampleCount())); err == nil {
		a.done[key] = c.GetReadId()
	}
}
