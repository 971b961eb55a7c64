package ingest

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

func TestChannels(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	chunk := func(run string, channel uint32, end bool, reason signal.EndReason) {
		c := &streampb.SignalChunk{Run: run, Channel: channel, ReadId: "r", SampleCount: 10, EndOfRead: end}
		if end {
			c.EndReason = reason.String()
		}
		m.chunk(c)
	}
	chunk("a", 2, false, 0)
	chunk("a", 4, true, signal.EndSignalPositive)
	chunk("a", 5, true, signal.EndDataServiceUnblockMuxChange)
	chunk("b", 1, false, 0)
	chunk("b", 1<<30, false, 0) // no flow cell has it
	m.endRun("b")
	require.Equal(t, []Channels{
		{Run: "a", States: []byte("isipu"), Reads: 2, Samples: 30},
		{Run: "b", States: []byte("s"), Samples: 20, Ended: true},
	}, m.Channels())
	chunk("a", 4, false, 0)
	require.Equal(t, "isisu", string(m.Channels()[0].States))
	for i := range 3 * maxCells {
		chunk(string(rune('c'+i)), 1, false, 0)
	}
	require.Len(t, m.Channels(), maxCells)
	require.Nil(t, (*Metrics)(nil).Channels())
}

// What a sequencer says counts for the channels that it has spoken of, until it says
// nothing more.
func TestChannelsOfASequencer(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	for channel := range uint32(3) {
		m.chunk(&streampb.SignalChunk{Run: "a", Channel: channel + 1, ReadId: "r", SampleCount: 10})
	}
	reported := []byte{'a', 0, 'n', 0, 't'}
	m.SetStates("a", reported)
	reported[0] = 'x' // it is the caller's
	require.Equal(t, []Channels{{Run: "a", States: []byte("asnit"), Sequencer: true, Samples: 30}}, m.Channels())
	m.chunk(&streampb.SignalChunk{Run: "a", Channel: 1, ReadId: "r", SampleCount: 10, EndOfRead: true})
	require.Equal(t, "asnit", string(m.Channels()[0].States))
	m.SetStates("a", nil)
	require.Equal(t, []Channels{{Run: "a", States: []byte("pss"), Reads: 1, Samples: 40}}, m.Channels())

	m.SetStates("b", make([]byte, 1<<20))
	require.Empty(t, m.Channels()[1].States)
	m.SetStates("c", nil)
	require.Len(t, m.Channels(), 2, "nothing is known of it")
	(*Metrics)(nil).SetStates("a", reported)
}
