package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/cluster"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
)

// TestPushStates: the newest whole state of a run and what is behind it is found,
// however far back it lies, and what was not committed or is another run's is not.
func TestPushStates(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		l := newLab(t, addr, "x")
		c := cluster.New(l.client, cluster.Config{Topics: l.topics, Prefix: l.prefix, TransactionTimeout: 30 * time.Second, MaxBuffered: 1 << 20})
		state := func(run string, part uint32, base, chunks uint64) stream.Out {
			value, err := stream.EncodePushState(&streampb.PushState{Run: run, Part: part, Base: base, Chunks: chunks, Device: "bench-1"})
			require.NoError(t, err)
			return stream.Out{Topic: l.topics.Cursors, Partition: stream.AnyPartition, Key: stream.PushStateKey(run, part), Value: value}
		}
		transact := func(run string, commit bool, outs ...stream.Out) {
			w, err := c.Open(t.Context(), run)
			require.NoError(t, err)
			defer w.Close(t.Context())
			for len(outs) > 0 {
				n := min(len(outs), 500)
				require.NoError(t, w.Send(t.Context(), outs[:n]))
				outs = outs[n:]
			}
			if commit {
				require.NoError(t, w.Commit(t.Context()))
			}
		}
		states, err := c.PushStates(t.Context(), "a")
		require.NoError(t, err)
		require.Empty(t, states)
		transact("a", true, state("a", 0, 5, 5), state("a", 1, 5, 6), state("a", 0, 7, 7), state("a", 1, 7, 9), state("a", 2, 7, 11))
		transact("a", false, state("a", 0, 20, 20))
		var others []stream.Out
		for range 5_000 {
			others = append(others, cursorOf(t, l, "b", 1))
		}
		transact("b", true, append(others, state("b", 0, 1, 1))...)
		// The run's next writer settles what the one before it has left open.
		var w ingest.Writer
		w, err = c.Open(t.Context(), "a")
		require.NoError(t, err)
		defer w.Close(t.Context())
		states, err = c.PushStates(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, states, 3)
		for i, chunks := range []uint64{7, 9, 11} {
			require.Equal(t, chunks, states[i].GetChunks())
			require.EqualValues(t, i, states[i].GetPart())
		}
		cursor, err := c.Cursor(t.Context(), "a", true)
		require.NoError(t, err)
		require.Nil(t, cursor, "a state was taken for a cursor")
	})
}
