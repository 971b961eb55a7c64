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
