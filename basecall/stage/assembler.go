package stage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

const (
	// buckets divide the channels for snapshots: one that is idle is not written
	// again, and none is so large that writing it takes much memory.
	buckets = 64
	// maxChannels bounds the channels of a partition; the largest flow cells have
	// three thousand.
	maxChannels = 1 << 16
	// maxOpen bounds the reads of a channel that are open at a time. Usually it is
	// one, and another while a sender starts over.
	maxOpen = 4
	// maxFinished bounds the finished reads of a channel that are remembered.
	maxFinished = 4
	// What an open read and a chunk of it take in memory besides the samples, and
	// what is called of a sample: bases, qualities and moves, as they grow.
	readBytes, chunkBytes, calledBytes = 256, 64, 1
)

// assembler collects the chunks of one partition into reads.
//
// Problem: chunks of many channels interleave; live readers lose some, restarts
// deliver some twice or late, a sequencer may never send a read's last one, and
// what a broken sender says contradicts itself.
//
// Assumptions: a read's chunks come before those of the channel's next read,
// apart from what is delivered twice.
//
// Strategy: an open read is a set of chunks, so their order doesn't matter. What
// is here already is dropped, after a check that it is the same. A read is
// finished by its last chunk, by a chunk of a read that began later on its
// channel, because its own end was lost, or by the end of its run. Gaps remain
// where chunks are missing then, and no base is ever called across one. So a
// channel has one open read, and another only while a sender that starts over
// sends earlier reads. The newest finished reads of a channel are remembered, to
// distinguish what is delivered twice from what comes too late.
//
// A read that outgrows maxSamples is cut at a chunk's end; and when all open
// reads together take more than maxBytes, the one that takes most is.
//
// Consequence: docs/attach/signal-order.md lists what becomes of every disorder. What
// is held is a function of the records added, and so is when reads are finished
// and cut: no clock, and no work in flight, has a say.
type assembler struct {
	maxSamples int
	maxBytes   int
	buckets    [buckets]bucket
	channels   int
	held       int // bytes that open reads take
	// owners holds the channel of every read that is open or remembered.
	owners  map[readKey]uint32
	codec   *vbz.Codec
	scratch []int16
}

type bucket struct {
	version  uint64
	channels map[channelKey]*channel
}

type channelKey struct {
	run     string
	channel uint32
}

func (k channelKey) compare(other channelKey) int {
	return cmp.Or(strings.Compare(k.run, other.run), cmp.Compare(k.channel, other.channel))
}

func (k channelKey) bucket() int {
	const prime = 16777619 // FNV-1a
	h := uint32(2166136261)
	for i := range len(k.run) {
		h = (h ^ uint32(k.run[i])) * prime
	}
	for shift := 0; shift < 32; shift += 8 {
		h = (h ^ k.channel>>shift&0xff) * prime
	}
	return int(h % buckets)
}

type readKey struct{ run, id string }

// channel is what is known of a channel of a run.
type channel struct {
	open     []*openRead    // in the order in which they began
	finished []finishedRead // the newest, in the order in which they were finished
}

// openRead is a read whose end has not come. What is below floor has been cut
// off and called.
type openRead struct {
	identity
	floor       uint64
	firstPart   int
	chunks      []chunk // none lies within another: they ascend by first and by end
	past        past
	samples     int // of chunks
	bytes       int // that it takes
	lastChunkMS int64
}

// finishedRead is what is remembered of a read.
type finishedRead struct {
	identity
	total uint64 // where it ended
	ended bool   // with its last chunk
	past  past
}

// begunBy reports whether r had begun when the read of another chunk did.
func (r *openRead) begunBy(other identity) bool {
	return cmp.Or(cmp.Compare(r.start, other.start), cmp.Compare(r.number, other.number)) <= 0
}

// end is where the read ends as far as it is here.
func (r *openRead) end() uint64 {
	if n := len(r.chunks); n > 0 {
		return max(r.floor, r.chunks[n-1].end())
	}
	return r.floor
}

// added is what came of a chunk.
type added struct {
	finished  []*assembledRead // in order; usually none or one
	grown     *assembledRead   // the read that the chunk added samples to, if it is still open
	duplicate bool             // the chunk was here before
	lostEnds  int              // reads that were closed without their last chunk
	cuts      int              // reads that were cut to bound memory
}

func newAssembler(maxSamples, maxBytes int) *assembler {
	return &assembler{maxSamples: maxSamples, maxBytes: maxBytes, codec: vbz.NewCodec(), owners: make(map[readKey]uint32)}
}

func refuse(code, format string, args ...any) error {
	return &stream.DecodeError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// add takes a chunk. ms is its record's time. An error means that it is a bad
// record, of which no trace is left.
func (a *assembler) add(c *streampb.SignalChunk, ms int64) (added, error) {
	key := channelKey{c.GetRun(), c.GetChannel()}
	b := key.bucket()
	ch := a.buckets[b].channels[key]
	news, err := a.unpack(c)
	if err != nil {
		return added{}, err
	}
	r, what, err := a.classify(key, ch, c, news)
	if err != nil || what == isDuplicate {
		return added{duplicate: what == isDuplicate}, err
	}
	if ch == nil {
		if a.channels >= maxChannels {
			return added{}, refuse(stream.CodeInvalid, "read %s is on channel %d, and %d channels are known already", c.GetReadId(), c.GetChannel(), maxChannels)
		}
		ch = new(channel)
		if a.buckets[b].channels == nil {
			a.buckets[b].channels = make(map[channelKey]*channel)
		}
		a.buckets[b].channels[key] = ch
		a.channels++
	}
	a.buckets[b].version++
	var res added
	id := identityOf(c)
	for _, o := range slices.Clone(ch.open) {
		if o != r && o.begunBy(id) {
			res.lostEnds++
			res.finished = append(res.finished, a.finish(key, ch, o, nil))
		}
	}
	if r == nil {
		if len(ch.open) == maxOpen {
			res.lostEnds++
			res.finished = append(res.finished, a.finish(key, ch, ch.open[maxOpen-1], nil))
		}
		r = &openRead{identity: id, bytes: readBytes}
		a.held += readBytes
		a.owners[readKey{key.run, r.id}] = key.channel
		ch.open = slices.Insert(ch.open, 0, r) // what is left began later
	}
	r.lastChunkMS = max(r.lastChunkMS, ms)
	a.keep(r, news)
	if c.GetEndOfRead() {
		res.finished = append(res.finished, a.finish(key, ch, r, c))
		return res, nil
	}
	if r.samples > a.maxSamples {
		res.finished = append(res.finished, a.cut(key, r))
		res.cuts++
	}
	for a.held > a.maxBytes {
		piece := a.cutLargest()
		if piece == nil {
			break
		}
		res.finished = append(res.finished, piece)
		res.cuts++
	}
	res.grown = r.assembled(key)
	return res, nil
}

func identityOf(c *streampb.SignalChunk) identity {
	return identity{
		id: c.GetReadId(), start: c.GetReadStart(), number: c.GetReadNumber(),
		offset: c.GetCalibrationOffset(), scale: c.GetCalibrationScale(),
	}
}

// unpack checks that the samples of a chunk can be had; they lie in a.scratch
// until the next call.
func (a *assembler) unpack(c *streampb.SignalChunk) (chunk, error) {
	var err error
	if a.scratch, err = a.codec.Decode(a.scratch[:0], c.GetVbz(), int(c.GetSampleCount())); err != nil {
		return chunk{}, refuse(stream.CodePayload, "read %s, chunk %d: %v", c.GetReadId(), c.GetNumber(), err)
	}
	return chunk{span: span{first: c.GetFirstSample(), count: c.GetSampleCount(), sum: checksum(a.scratch)}, vbz: c.GetVbz()}, nil
}

// classify classifies a chunk by what came before, and finds its read if that is
// open. A contradiction or a chunk that comes too late is an error.
func (a *assembler) classify(key channelKey, ch *channel, c *streampb.SignalChunk, news chunk) (*openRead, verdict, error) {
	owner, known := a.owners[readKey{key.run, c.GetReadId()}]
	if !known {
		return nil, isNew, nil
	}
	if owner != key.channel {
		return nil, isConflict, refuse(stream.CodeConflict, "read %s is on channel %d here and was on channel %d", c.GetReadId(), key.channel, owner)
	}
	id := identityOf(c)
	for _, r := range ch.open {
		if r.id == id.id {
			what, err := a.classifyOpen(r, id, c, news)
			return r, what, err
		}
	}
	i := slices.IndexFunc(ch.finished, func(f finishedRead) bool { return f.id == id.id })
	what, err := ch.finished[i].classify(id, c, news)
	return nil, what, err
}

func (a *assembler) classifyOpen(r *openRead, id identity, c *streampb.SignalChunk, news chunk) (verdict, error) {
	if r.identity != id {
		return isConflict, differs(r.identity, id)
	}
	if end := r.end(); c.GetEndOfRead() && news.end() < end {
		return isConflict, refuse(stream.CodeConflict, "read %s ends at sample %d here, and samples up to %d have come", r.id, news.end(), end)
	}
	if news.end() <= r.floor && (news.count > 0 || news.end() < r.floor) {
		what := r.past.classify(news.span)
		if c.GetEndOfRead() && what != isConflict {
			return isNew, nil // ends where it was cut
		}
		return what, verdictError(what, r.id, news.span)
	}
	if same, err := a.agrees(r, news); err != nil {
		return isConflict, err
	} else if !same {
		return isConflict, verdictError(isConflict, r.id, news.span)
	}
	if !c.GetEndOfRead() && covers(r, news.span) {
		return isDuplicate, nil
	}
	return isNew, nil
}

func (f *finishedRead) classify(id identity, c *streampb.SignalChunk, news chunk) (verdict, error) {
	switch {
	case f.identity != id:
		return isConflict, differs(f.identity, id)
	case f.ended && c.GetEndOfRead() && news.end() != f.total:
		return isConflict, refuse(stream.CodeConflict, "read %s ends at sample %d here and ended at %d", f.id, news.end(), f.total)
	case news.end() > f.total:
		return isLate, refuse(stream.CodeLate, "samples %d to %d of read %s come after it was finished with %d", news.first, news.end(), f.id, f.total)
	}
	what := f.past.classify(news.span)
	return what, verdictError(what, f.id, news.span)
}

// differs says in what a chunk contradicts its read.
func differs(had, has identity) error {
	what, before, now := "calibration", fmt.Sprint(had.offset, had.scale), fmt.Sprint(has.offset, has.scale)
	if had.start != has.start {
		what, before, now = "start", fmt.Sprint(had.start), fmt.Sprint(has.start)
	} else if had.number != has.number {
		what, before, now = "number", fmt.Sprint(had.number), fmt.Sprint(has.number)
	}
	return refuse(stream.CodeConflict, "read %s has %s %s here and had %s", has.id, what, now, before)
}

func verdictError(what verdict, id string, s span) error {
	switch what {
	case isConflict:
		return refuse(stream.CodeConflict, "samples %d to %d of read %s are not what they were", s.first, s.end(), id)
	case isLate:
		return refuse(stream.CodeLate, "samples %d to %d of read %s come after it was called without them", s.first, s.end(), id)
	default:
		return nil
	}
}

// agrees compares the samples of a chunk, which are in a.scratch, with those
// that are here of the same place.
func (a *assembler) agrees(r *openRead, news chunk) (bool, error) {
	var had []int16
	for _, c := range r.chunks {
		from, to := max(c.first, news.first), min(c.end(), news.end())
		if from >= to {
			continue
		}
		if c.first == news.first && c.count == news.count {
			if c.sum != news.sum {
				return false, nil
			}
			continue
		}
		var err error
		if had, err = a.codec.Decode(had[:0], c.vbz, int(c.count)); err != nil {
			return false, fmt.Errorf("unpacking samples from %d of read %s: %w", c.first, r.id, err)
		}
		if !slices.Equal(had[from-c.first:to-c.first], a.scratch[from-news.first:to-news.first]) {
			return false, nil
		}
	}
	return true, nil
}

// covers reports whether all of s is here.
func covers(r *openRead, s span) bool {
	next := max(s.first, r.floor)
	for _, c := range r.chunks {
		if c.first <= next {
			next = max(next, c.end())
		}
	}
	return next >= s.end()
}

// keep puts a chunk in its place, unless it holds nothing new.
func (a *assembler) keep(r *openRead, c chunk) {
	if c.count == 0 || covers(r, c.span) {
		return
	}
	// One that lies within the new one is no longer of use; so ends ascend too.
	r.chunks = slices.DeleteFunc(r.chunks, func(old chunk) bool {
		within := old.first >= c.first && old.end() <= c.end()
		if within {
			a.account(r, -int(old.count), -old.bytes())
		}
		return within
	})
	i, _ := slices.BinarySearchFunc(r.chunks, c.first, func(old chunk, first uint64) int { return cmp.Compare(old.first, first) })
	r.chunks = slices.Insert(r.chunks, i, c)
	a.account(r, int(c.count), c.bytes())
}

// bytes is what a chunk takes in memory.
func (c *chunk) bytes() int { return len(c.vbz) + chunkBytes + int(c.count)*calledBytes }

func (a *assembler) account(r *openRead, samples, bytes int) {
	r.samples += samples
	r.bytes += bytes
	a.held += bytes
}

// assembled is what is here of an open read.
func (r *openRead) assembled(key channelKey) *assembledRead {
	return &assembledRead{
		identity: r.identity, run: key.run, channel: key.channel,
		firstPart: r.firstPart, floor: r.floor, total: r.end(), chunks: r.chunks, lastChunkMS: r.lastChunkMS,
	}
}

// finish takes an open read out. last is its last chunk, nil if that is lost.
func (a *assembler) finish(key channelKey, ch *channel, r *openRead, last *streampb.SignalChunk) *assembledRead {
	ch.open = slices.DeleteFunc(ch.open, func(o *openRead) bool { return o == r })
	a.held -= r.bytes
	read := r.assembled(key)
	if last != nil {
		read.total = max(read.total, last.GetFirstSample()+uint64(last.GetSampleCount()))
		read.endReason = last.GetEndReason()
	}
	r.past.remember(r.chunks)
	ch.finished = append(ch.finished, finishedRead{identity: r.identity, total: read.total, ended: last != nil, past: r.past})
	if len(ch.finished) > maxFinished {
		delete(a.owners, readKey{key.run, ch.finished[0].id})
		ch.finished = slices.Delete(ch.finished, 0, 1)
	}
	return read
}

// cut takes out what is here of a read and leaves the read open for more.
func (a *assembler) cut(key channelKey, r *openRead) *assembledRead {
	piece := r.assembled(key)
	r.firstPart += len(piece.stretches())
	r.floor = piece.total
	r.past.remember(r.chunks)
	a.account(r, -r.samples, readBytes-r.bytes)
	r.chunks = nil
	return piece
}

// cutLargest cuts the read that takes the most memory; of several the first. It
// returns nil when no read has anything to cut.
func (a *assembler) cutLargest() *assembledRead {
	var largest *openRead
	var at channelKey
	for i := range a.buckets {
		for key, ch := range a.buckets[i].channels {
			for _, r := range ch.open {
				if len(r.chunks) == 0 {
					continue
				}
				if largest == nil || cmp.Or(cmp.Compare(largest.bytes, r.bytes), key.compare(at)) < 0 {
					largest, at = r, key
				}
			}
		}
	}
	if largest == nil {
		return nil
	}
	a.buckets[at.bucket()].version++
	return a.cut(at, largest)
}

// openReads counts the reads that are open.
func (a *assembler) openReads() int {
	n := 0
	for i := range a.buckets {
		for _, ch := range a.buckets[i].channels {
			n += len(ch.open)
		}
	}
	return n
}

// finishRun takes out every open read of a run, by channel, and forgets the run.
func (a *assembler) finishRun(run string) []*assembledRead {
	var keys []channelKey
	for i := range a.buckets {
		for key := range a.buckets[i].channels {
			if key.run == run {
				keys = append(keys, key)
			}
		}
	}
	slices.SortFunc(keys, channelKey.compare)
	var reads []*assembledRead
	for _, key := range keys {
		b := &a.buckets[key.bucket()]
		ch := b.channels[key]
		for _, r := range slices.Clone(ch.open) {
			reads = append(reads, a.finish(key, ch, r, nil))
		}
		for _, f := range ch.finished {
			delete(a.owners, readKey{run, f.id})
		}
		delete(b.channels, key)
		b.version++
		a.channels--
	}
	return reads
}
