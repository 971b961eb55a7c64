package ingest

import (
	"slices"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// What a channel does, as [Channels] holds it: the letters of stream.ChannelLetters.
const (
	channelStrand     = 's'
	channelPore       = 'p'
	channelUnblocking = 'u'
	channelInactive   = 'i'
)

// Channels is what the channels of a run do. Where the sequencer reports it, that counts.
// Otherwise it follows from the chunks that were taken: a chunk is a strand in the pore,
// the end of a read an open pore, and of a channel without any nothing is known.
type Channels struct {
	Run    string
	States []byte // a letter per channel, that of channel 1 first
	// Sequencer says that States are the sequencer's own account.
	Sequencer bool
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

// cell is what is known of the channels of a run.
type cell struct {
	Channels
	// own are the sequencer's letters, 0 for a channel of which it has said nothing; nil:
	// it says nothing.
	own []byte
}

// channels are the channels as they are reported.
func (c *cell) channels() Channels {
	out := c.Channels
	out.States = slices.Clone(c.States)
	if c.own == nil {
		return out
	}
	out.Sequencer = true
	for i, letter := range c.own {
		if letter != 0 {
			out.set(uint32(i)+1, letter)
		}
	}
	return out
}

// cell is the channels of a run, which may be new. mu is held.
func (t *tally) cell(run string) *cell {
	c := t.cells[run]
	if c == nil {
		if len(t.order) >= maxCells {
			delete(t.cells, t.order[0])
			t.order = t.order[1:]
		}
		c = &cell{Channels: Channels{Run: run}}
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
		out = append(out, m.tally.cells[run].channels())
	}
	return out
}

// SetStates takes what a sequencer says that the channels of a run do: a letter for
// each from channel 1 on, 0 where it has said nothing. nil: it says nothing, or no more,
// and what follows from the chunks counts.
func (m *Metrics) SetStates(run string, letters []byte) {
	if m == nil {
		return
	}
	m.tally.mu.Lock()
	defer m.tally.mu.Unlock()
	if letters == nil {
		if c := m.tally.cells[run]; c != nil {
			c.own = nil
		}
		return
	}
	m.tally.cell(run).own = slices.Clone(letters[:min(len(letters), maxChannel)])
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
