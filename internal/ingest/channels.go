package ingest

import (
	"slices"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// What a channel does, as [Channels] tells it: the letters of stream.ChannelLetters.
const (
	channelStrand     = 's'
	channelPore       = 'p'
	channelUnblocking = 'u'
	channelInactive   = 'i'
)

// Channels is what the channels of a run do, as the chunks tell that were taken of
// them: a chunk is a strand in the pore, the end of a read an open pore, and of a
// channel without any nothing is known.
type Channels struct {
	Run    string
	States []byte // a letter per channel, that of channel 1 first
	// Reads and Samples are those taken by this process.
	Reads, Samples uint64
	Ended          bool
}

const (
	// maxCells bounds the runs whose channels are remembered.
	maxCells = 16
	// maxChannel is above what any flow cell has.
	maxChannel = 8192
)

// cell is the channels of a run, which may be new. mu is held.
func (t *tally) cell(run string) *Channels {
	c := t.cells[run]
	if c == nil {
		if len(t.order) >= maxCells {
			delete(t.cells, t.order[0])
			t.order = t.order[1:]
		}
		c = &Channels{Run: run}
		t.cells[run], t.order = c, append(t.order, run)
	}
	return c
}

func (c *Channels) chunk(chunk *streampb.SignalChunk) {
	c.Samples += uint64(chunk.GetSampleCount())
	state := byte(channelStrand)
	if chunk.GetEndOfRead() {
		c.Reads++
		if state = channelPore; chunk.GetEndReason() == signal.EndDataServiceUnblockMuxChange.String() {
			state = channelUnblocking
		}
	}
	c.set(chunk.GetChannel(), state)
}

func (c *Channels) set(channel uint32, state byte) {
	if channel < 1 || channel > maxChannel {
		return
	}
	for len(c.States) < int(channel) {
		c.States = append(c.States, channelInactive)
	}
	c.States[channel-1] = state
}

// Channels are those of the runs that were under way lately.
func (m *Metrics) Channels() []Channels {
	if m == nil {
		return nil
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	out := make([]Channels, 0, len(m.tally.order))
	for _, run := range m.tally.order {
		c := *m.tally.cells[run]
		c.States = slices.Clone(c.States)
		out = append(out, c)
	}
	return out
}

// endRun notes that nothing more comes of a run.
func (m *Metrics) endRun(run string) {
	if m == nil {
		return
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	if c := m.tally.cells[run]; c != nil {
		c.Ended = true
	}
}
