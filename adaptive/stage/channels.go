package stage

import (
	"cmp"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/stream/streampb"
)

// maxChannels bounds the channels of a partition; the largest flow cells have three
// thousand.
const maxChannels = 1 << 16

// channels are the reads in progress of a partition. It is pure.
type channels struct {
	schedule adaptive.Schedule
	all      map[channelKey]*channel
}

type channelKey struct {
	run     string
	channel uint32
}

// channel is the newest read of a channel.
type channel struct {
	key           channelKey
	id            string
	start         uint64
	number        uint32
	offset, scale float32
	read          *adaptive.Read
	fate          fate
}

// fate is what becomes of a read.
type fate int

const (
	fateOpen        fate = iota // not known yet
	fateDecided                 // it has its decision
	fateEnded                   // it ended before
	fateMissed                  // too much of its beginning is missing
	fateControl                 // its channel is left alone
	fateUnsupported             // the model was made for another sample rate
	fateMemory                  // there was no memory left for it
	fates
)

func (f fate) String() string {
	return [...]string{"open", "decided", "ended", "missed", "control", "unsupported", "memory"}[f]
}

func newChannels(s adaptive.Schedule) *channels {
	return &channels{schedule: s, all: make(map[channelKey]*channel)}
}

// of finds the channel of a chunk, and reports whether the chunk begins a read there.
// A chunk of a read that is past has no channel, nor has one of a channel too many.
func (c *channels) of(chunk *streampb.SignalChunk) (ch *channel, begins bool) {
	key := channelKey{chunk.GetRun(), chunk.GetChannel()}
	ch = c.all[key]
	switch {
	case ch == nil && len(c.all) >= maxChannels:
		return nil, false
	case ch == nil:
		ch = &channel{key: key}
		c.all[key] = ch
		return ch, true
	case ch.id == chunk.GetReadId():
		return ch, false
	case cmp.Or(cmp.Compare(chunk.GetReadStart(), ch.start), cmp.Compare(chunk.GetReadNumber(), ch.number)) < 0:
		return nil, false // delivered again
	}
	return ch, true
}

// begin goes on to the read of a chunk.
func (c *channels) begin(ch *channel, chunk *streampb.SignalChunk) {
	*ch = channel{
		key: ch.key, id: chunk.GetReadId(), start: chunk.GetReadStart(), number: chunk.GetReadNumber(),
		offset: chunk.GetCalibrationOffset(), scale: chunk.GetCalibrationScale(), read: adaptive.NewRead(c.schedule),
	}
}

// forget takes out the channels of a run.
func (c *channels) forget(run string) (out []*channel) {
	for key, ch := range c.all {
		if key.run == run {
			out = append(out, ch)
			delete(c.all, key)
		}
	}
	return out
}
