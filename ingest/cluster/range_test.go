package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
)

// TestScansEndWhereAsked: what is searched for is that before an offset, also where the broker sends what lies behind in the same batch.
func TestScansEndWhereAsked(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		topics := stream.NewTopics("scans-")
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}, DialTimeout: 30 * time.Second})
		require.NoError(t, err)
		t.Cleanup(client.Close)
		require.NoError(t, client.EnsureTopics(t.Context(), topics.Settings(1), 0))
		c := New(client, Config{Topics: topics, Prefix: "scans-", TransactionTimeout: 30 * time.Second, MaxBuffered: 1 << 20})
		state := func(part uint32) stream.Out {
			value, err := stream.EncodePushState(&streampb.PushState{Run: "a", Part: part, Device: "bench-1"})
			require.NoError(t, err)
			return stream.Out{Topic: topics.Cursors, Partition: stream.AnyPartition, Key: stream.PushStateKey("a", part), Value: value}
		}
		record := func(value string) stream.Out {
			return stream.Out{Topic: topics.Cursors, Partition: stream.AnyPartition, Key: []byte("a"), Value: []byte(value)}
		}
		w, err := c.Open(t.Context(), "a")
		require.NoError(t, err)
		defer w.Close(t.Context())
		require.NoError(t, w.Send(t.Context(), []stream.Out{state(0), record("older"), record("newer"), state(1)}))
		require.NoError(t, w.Commit(t.Context()))

		value, err := c.newest(t.Context(), topics.Cursors, "a", 0, 2)
		require.NoError(t, err)
		require.Equal(t, "older", string(value))
		value, err = c.newest(t.Context(), topics.Cursors, "a", 2, 2)
		require.NoError(t, err)
		require.Nil(t, value, "nothing lies between an offset and itself")
		states, err := c.scanPushStates(t.Context(), "a", 0, 3)
		require.NoError(t, err)
		require.Len(t, states, 1)
		states, err = c.scanPushStates(t.Context(), "a", 0, 4)
		require.NoError(t, err)
		require.Len(t, states, 2)
	})
}
