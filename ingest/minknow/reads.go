package minknow

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Bounds of what MinKNOW may say.
const (
	maxChannels = 1 << 16
	// maxSample bounds the sample number at which a chunk ends: seven years at
	// 5 kHz.
	maxSample = 1 << 40
	// maxReadID leaves space for the number of a piece. MinKNOW's have 36 bytes.
	maxReadID = 256
)

// How long a channel has to be silent for its read to be over, in halves of the
// longest chunk. A read in progress gives a chunk each time it has grown by one.
const (
	// patienceAll is for when the next stretch of the channel usually shows the
	// end: only losing several chunks in a row hides it.
	patienceAll = 8
	// patienceTaken is for when silence alone shows the end. A lost chunk then
	// ends the read, too, but there it would have been split anyway.
	patienceTaken = 3
)

// calibration turns a channel's levels into picoamperes: (level + offset) * scale.
type calibration struct{ offset, scale float32 }

// readsConfig says what a run's live reads are.
type readsConfig struct {
	run string
	// calibrations are those of the channels from 1 on.
	calibrations []calibration
	// classes are the read classes that are taken.
	classes map[int32]bool
	// filtered says that MinKNOW was asked for reads that begin with these classes
	// only, so there is nothing to be seen between them.
	filtered bool
	// chunk is the length of MinKNOW's chunks in samples, as far as it is known.
	chunk uint64
}

// cause is why signal is missing.
type cause int

const (
	skipped      cause = iota // MinKNOW has not sent it
	disconnected              // it came while there was no connection
	overrun                   // this process was too slow for it
	stopped                   // MinKNOW was asked to send no more of the read
	causes
)

func (c cause) String() string {
	return [...]string{"skipped", "disconnected", "overrun", "stopped"}[c]
}

// loss is what is missing of a channel.
type loss struct {
	// Gaps are stretches without signal, Samples what they are long; of both,
	// those that touch reads that are taken, and the others, in which there was an
	// open pore, or a read of which nothing has come at all.
	Gaps, OtherGaps       uint64
	Samples, OtherSamples [causes]uint64
}

// observer is called with what is missing as soon as that is known.
type observer interface {
	missing(channel uint32, why cause, m missing)
	refused(reason string)
}

// reads turns a run's live reads into chunks of the stream.
//
// Problem: MinKNOW sends chunks of the reads in progress. It marks no last chunk,
// and leaves out chunks when the client or the line is slow.
//
// Assumptions: what comes of a channel comes in order, each stretch (a read, an
// open pore, ...) begins where the one before it ends, and every chunk says where
// its stretch begins.
//
// Strategy: for each channel, remember up to which sample it is known. A chunk
// that begins later shows what is missing in between; a chunk of another stretch
// shows that the read is over, and how long it was. When nothing comes of a
// channel for long by the device's own clock, its read is over, too. A read that
// goes on nevertheless does so as a piece of its own, since signal behind the end
// of a read would be refused downstream.
//
// Consequence: every sample of a channel, from the run's start or else from when
// data first came from the channel, has come or is counted as missing; with
// filtered, only within reads.
type reads struct {
	cfg      readsConfig
	observer observer
	channels []channel // from 1
	losses   []loss    // likewise
	clock    uint64    // the newest sample of the run that is known to have been taken
	chunk    uint64    // the longest chunk
	started  bool      // something has come
	// fromStart says that what came first begins with the run: then all channels
	// are known from there on.
	fromStart bool
	resuming  bool   // nothing has come since there was no connection
	resumed   uint64 // the clock when something came again
	order     []uint32
	samples   []int16
	vbz       []byte
	codec     *vbz.Codec
	out       streampb.SignalChunk
	totals    totals
	fault     error // the newest reason for which a chunk was refused
}

// totals counts what has come.
type totals struct{ Reads, Chunks, Samples, Repeated, Refused, Lost uint64 }

// channel is what is known of a channel.
type channel struct {
	id    string // MinKNOW's, of the newest stretch; empty: nothing has come yet
	name  string // the read's in the stream
	start uint64 // of the read, or of the piece of it
	end   uint64 // up to here the channel is known
	cal   calibration
	count uint32 // chunks of the read
	piece int    // of the stretch that was sent last, from 1; 0: none
	open  bool   // the read's end has not been sent
	away  bool   // there was no connection since the last chunk
	stop  bool   // MinKNOW sends no more of the stretch, as it was asked
}

// emit takes a chunk of the stream, valid until it returns, and reports whether
// there was space for it.
type emit func(*streampb.SignalChunk) (bool, error)

func newReads(cfg readsConfig, o observer) *reads {
	n := len(cfg.calibrations) + 1
	return &reads{cfg: cfg, observer: o, channels: make([]channel, n), losses: make([]loss, n), chunk: cfg.chunk, codec: vbz.NewCodec()}
}

// reconfigure takes over what a position says of its run after a new connection:
// calibrations count for reads that begin from then on.
func (r *reads) reconfigure(cfg readsConfig) error {
	if len(cfg.calibrations) != len(r.cfg.calibrations) {
		return &PermanentError{"metadata", fmt.Errorf("run %s: the flow cell had %d channels, and now it has %d", r.cfg.run, len(r.cfg.calibrations), len(cfg.calibrations))}
	}
	r.cfg = cfg
	r.chunk = max(r.chunk, cfg.chunk)
	return nil
}

// take takes a response and emits what follows from it. What contradicts itself
// or what came before is refused and counted; an error is emit's.
func (r *reads) take(m *minknowpb.GetLiveReadsResponse, to emit) error {
	if !r.started && len(m.GetChannels()) > 0 {
		r.started, r.fromStart = true, !r.cfg.filtered && beginsRun(m)
	}
	r.order = r.order[:0]
	for number := range m.GetChannels() {
		r.order = append(r.order, number)
	}
	slices.Sort(r.order)
	for _, number := range r.order {
		c := m.GetChannels()[number]
		if reason, err := r.check(number, c); err != nil {
			r.refuse(reason, err)
			continue
		}
		if err := r.add(number, c, to); err != nil {
			return err
		}
	}
	if s := m.GetSamplesSinceStart(); s < maxSample {
		r.clock = max(r.clock, s)
	}
	if r.resuming {
		r.resuming, r.resumed = false, r.clock
	}
	return r.expire(r.clock, to)
}

// beginsRun reports whether a response has the first sample of a run.
func beginsRun(m *minknowpb.GetLiveReadsResponse) bool {
	for _, c := range m.GetChannels() {
		if c.GetChunkStartSample() == 0 {
			return true
		}
	}
	return false
}

// quiet notes that nothing has come of any channel for a number of samples, though
// the connection is there.
func (r *reads) quiet(samples uint64, to emit) error { return r.expire(r.clock+samples, to) }

// reconnected notes that there was no connection. Reads that were open have time
// again, from the first response on, to show that they go on.
func (r *reads) reconnected() {
	r.resuming = true
	for i := range r.channels {
		r.channels[i].away = true
	}
}

// end ends all reads: the run is over.
func (r *reads) end(to emit) error {
	for i := range r.channels {
		if err := r.close(uint32(i), &r.channels[i], r.channels[i].end, signal.EndUnknown, to); err != nil {
			return err
		}
	}
	return nil
}

func (r *reads) refuse(reason string, err error) {
	r.fault = err
	r.totals.Refused++
	r.observer.refused(reason)
}

// check returns what is wrong with a chunk.
func (r *reads) check(number uint32, c *minknowpb.GetLiveReadsResponse_ReadData) (reason string, err error) {
	start, end := c.GetChunkStartSample(), c.GetChunkStartSample()+c.GetChunkLength()
	switch {
	case number == 0 || int(number) >= len(r.channels):
		return "message", fmt.Errorf("signal of channel %d, and the flow cell has %d", number, len(r.channels)-1)
	case len(c.GetId()) == 0 || len(c.GetId()) > maxReadID || !utf8.ValidString(c.GetId()):
		return "message", fmt.Errorf("a read of channel %d with an id of %d bytes", number, len(c.GetId()))
	case c.GetChunkLength() == 0 || c.GetChunkLength() > maxSample || start > maxSample || end > maxSample:
		return "message", fmt.Errorf("read %s: a chunk of %d samples from sample %d on", c.GetId(), c.GetChunkLength(), start)
	case c.GetStartSample() > start:
		return "message", fmt.Errorf("read %s: a chunk from sample %d on of a read that begins with sample %d", c.GetId(), start, c.GetStartSample())
	case len(c.GetRawData()) != 0 && uint64(len(c.GetRawData())) != 2*c.GetChunkLength():
		return "message", fmt.Errorf("read %s: %d bytes of signal for %d samples", c.GetId(), len(c.GetRawData()), c.GetChunkLength())
	}
	if ch := &r.channels[number]; ch.id != "" && ch.id != c.GetId() && end <= ch.end {
		return "clock", fmt.Errorf("the device's clock has gone back: on channel %d, read %s gives samples %d to %d, and another one up to sample %d was there before", number, c.GetId(), start, end-1, ch.end-1)
	}
	return "", nil
}

// add takes a sound chunk.
func (r *reads) add(number uint32, c *minknowpb.GetLiveReadsResponse_ReadData, to emit) error {
	ch := &r.channels[number]
	start, end := c.GetChunkStartSample(), c.GetChunkStartSample()+c.GetChunkLength()
	data := c.GetRawData()
	if ch.id == c.GetId() {
		if end <= ch.end {
			r.totals.Repeated++
			return nil
		}
		if start < ch.end {
			if len(data) > 0 {
				data = data[2*(ch.end-start):]
			}
			start = ch.end
		}
	}
	r.clock = max(r.clock, end)
	r.chunk = max(r.chunk, c.GetChunkLength())

	taken := r.taken(c)
	if ch.id != c.GetId() {
		if err := r.change(number, ch, c, taken, to); err != nil {
			return err
		}
	} else if start > ch.end {
		r.count(number, r.why(ch), pick(ch.open || taken, start-ch.end))
	}
	ch.end, ch.away = end, false
	if len(data) == 0 {
		r.count(number, overrun, pick(ch.open || taken, end-start))
		return nil
	}
	if !ch.open && !taken {
		return nil
	}
	if !ch.open {
		r.open(number, ch, c)
	}
	return r.emit(number, ch, start, data, to)
}

// change goes on to another stretch of a channel.
func (r *reads) change(number uint32, ch *channel, c *minknowpb.GetLiveReadsResponse_ReadData, taken bool, to emit) error {
	from, start := c.GetStartSample(), c.GetChunkStartSample()
	total, reason := ch.end, signal.EndUnknown
	if ch.id != "" || r.fromStart { // or what lies before the first chunk is none of our business
		edge := max(from, ch.end)
		var m missing
		switch {
		case r.cfg.filtered:
		case edge > ch.end:
			// The end of the stretch before, or others of which nothing has come.
			m, total = pick(ch.open, edge-ch.end), edge
		default:
			reason = endReason(c.GetPreviousReadEndReason())
		}
		if start > edge {
			front := pick(taken, start-edge)
			m.in, m.other = m.in+front.in, m.other+front.other
		}
		r.count(number, r.why(ch), m)
	}
	if ch.stop {
		total = ch.end // nothing was lost
	}
	if err := r.close(number, ch, total, reason, to); err != nil {
		return err
	}
	ch.id, ch.piece, ch.start, ch.stop = c.GetId(), 0, from, false
	return nil
}

// missing splits samples into those of reads that are taken and others.
type missing struct{ in, other uint64 }

func pick(taken bool, samples uint64) missing {
	if taken {
		return missing{in: samples}
	}
	return missing{other: samples}
}

// inPore implements [inPore].
func (r *reads) inPore(number uint32, read string) (id string, is bool) {
	if number == 0 || int(number) >= len(r.channels) {
		return "", false
	}
	ch := &r.channels[number]
	return ch.id, ch.open && ch.name == read
}

// stopped notes that MinKNOW sends no more of a read.
func (r *reads) stopped(number uint32, read string) {
	if _, is := r.inPore(number, read); is {
		r.channels[number].stop = true
	}
}

func (r *reads) why(ch *channel) cause {
	if ch.stop {
		return stopped
	}
	if ch.away {
		return disconnected
	}
	return skipped
}

// count notes that signal is missing in one stretch.
func (r *reads) count(number uint32, why cause, m missing) {
	l := &r.losses[number]
	switch {
	case m.in > 0:
		l.Gaps++
	case m.other > 0:
		l.OtherGaps++
	default:
		return
	}
	l.Samples[why] += m.in
	l.OtherSamples[why] += m.other
	r.observer.missing(number, why, m)
}

// taken reports whether a chunk is of a read that is taken.
func (r *reads) taken(c *minknowpb.GetLiveReadsResponse_ReadData) bool {
	if r.cfg.filtered {
		return true
	}
	for _, class := range c.GetChunkClassifications() {
		if r.cfg.classes[class] {
			return true
		}
	}
	return false
}

// open begins a read in the stream, or its next piece if its end was sent too
// early.
func (r *reads) open(number uint32, ch *channel, c *minknowpb.GetLiveReadsResponse_ReadData) {
	ch.piece++
	ch.name = c.GetId()
	if ch.piece > 1 {
		ch.name += "_" + strconv.Itoa(ch.piece) // its start was set when the piece before was closed
	}
	ch.open, ch.count, ch.cal = true, 0, r.cfg.calibrations[number-1]
	r.totals.Reads++
}

// emit sends the signal of a chunk, in pieces if it is a very long one.
func (r *reads) emit(number uint32, ch *channel, start uint64, data []byte, to emit) error {
	for len(data) > 0 {
		part := data[:min(len(data), 2*stream.MaxChunkSamples)]
		data = data[len(part):]
		r.samples = r.samples[:0]
		for i := 0; i < len(part); i += 2 {
			r.samples = append(r.samples, int16(binary.LittleEndian.Uint16(part[i:])))
		}
		r.describe(number, ch, start)
		r.out.SampleCount = uint32(len(r.samples))
		start += uint64(len(r.samples))
		if err := r.send(ch, to); err != nil {
			return err
		}
	}
	return nil
}

// close sends the end of a channel's read, which is at a sample of the run.
func (r *reads) close(number uint32, ch *channel, end uint64, reason signal.EndReason, to emit) error {
	if !ch.open {
		return nil
	}
	r.samples = r.samples[:0]
	r.describe(number, ch, end)
	r.out.EndOfRead, r.out.EndReason = true, reason.String()
	ch.open, ch.start = false, end
	return r.send(ch, to)
}

// describe fills in what every chunk says of its read, and where it begins.
func (r *reads) describe(number uint32, ch *channel, start uint64) {
	r.out.Reset()
	r.out.Run, r.out.Channel, r.out.ReadId, r.out.ReadStart = r.cfg.run, number, ch.name, ch.start
	r.out.Number, r.out.FirstSample = ch.count, start-ch.start
	r.out.CalibrationOffset, r.out.CalibrationScale = ch.cal.offset, ch.cal.scale
}

func (r *reads) send(ch *channel, to emit) error {
	r.vbz = r.codec.Encode(r.vbz[:0], r.samples)
	r.out.Vbz = r.vbz
	ch.count++
	taken, err := to(&r.out)
	if err != nil {
		return err
	}
	if !taken {
		r.totals.Lost += uint64(r.out.GetSampleCount())
		return nil
	}
	r.totals.Chunks++
	r.totals.Samples += uint64(r.out.GetSampleCount())
	return nil
}

// expire ends the reads of which nothing has come for too long, by the device's
// clock.
func (r *reads) expire(clock uint64, to emit) error {
	patience := uint64(patienceAll)
	if r.cfg.filtered {
		patience = patienceTaken
	}
	patience = patience * r.chunk / 2
	for i := range r.channels {
		ch := &r.channels[i]
		if !ch.open || ch.away && r.resuming {
			continue
		}
		last := ch.end
		if ch.away {
			last = max(last, r.resumed)
		}
		if clock < last+patience {
			continue
		}
		if err := r.close(uint32(i), ch, ch.end, signal.EndUnknown, to); err != nil {
			return err
		}
	}
	return nil
}

// endReason is the stream's name for why a read has ended.
func endReason(e minknowpb.ReadEndReason) signal.EndReason {
	switch e {
	case minknowpb.ReadEndReason_Partial:
		return signal.EndPartial
	case minknowpb.ReadEndReason_MuxChange:
		return signal.EndMuxChange
	case minknowpb.ReadEndReason_UnblockMuxChange:
		return signal.EndUnblockMuxChange
	case minknowpb.ReadEndReason_SignalPositive:
		return signal.EndSignalPositive
	case minknowpb.ReadEndReason_SignalNegative:
		return signal.EndSignalNegative
	case minknowpb.ReadEndReason_DataServiceUnblockMuxChange:
		return signal.EndDataServiceUnblockMuxChange
	case minknowpb.ReadEndReason_AnalysisConfigChange:
		return signal.EndAnalysisConfigChange
	case minknowpb.ReadEndReason_DeviceDataError:
		return signal.EndDeviceDataError
	case minknowpb.ReadEndReason_ApiRequest:
		return signal.EndAPIRequest
	case minknowpb.ReadEndReason_Paused:
		return signal.EndPaused
	}
	return signal.EndUnknown
}
