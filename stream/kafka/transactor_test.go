package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

func newTransactor(t testing.TB, c *Client, id string, cfg ProducerConfig) *Transactor {
	t.Helper()
	tr, err := NewTransactor(t.Context(), c, id, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := tr.Close(ctx); err != nil {
			t.Logf("closing the transactor: %v", err)
		}
	})
	return tr
}

// transact sends values to a partition without waiting for them.
func transact(t testing.TB, tr *Transactor, topic string, partition int32, values ...string) {
	t.Helper()
	for _, v := range values {
		require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: topic, Partition: partition, Key: []byte("k"), Value: []byte(v)}}, nil))
	}
}

func offsetsOf(group, topic string, partition int32, offset int64, metadata string) *GroupOffsets {
	return &GroupOffsets{Group: group, Generation: -1, Topic: topic, Partition: partition, Offset: offset, Metadata: metadata}
}

func requireCommitted(t testing.TB, c *Client, group, topic string, offset int64, metadata string) {
	t.Helper()
	gotOffset, gotMetadata, err := c.CommittedOffset(t.Context(), group, topic, 0)
	require.NoError(t, err)
	assert.Equal(t, offset, gotOffset)
	assert.Equal(t, metadata, gotMetadata)
}

// visible reads what is committed in a topic once no transaction is open in it:
// a broker shows a transaction a moment after it has answered the commit.
func visible(t testing.TB, c *Client, topic string) map[int32][]string {
	t.Helper()
	streamtest.Eventually(t.Context(), t, "the end of all transactions", func() bool {
		bounds, err := c.Offsets(t.Context(), topic)
		require.NoError(t, err)
		for _, b := range bounds {
			if b.Stable != b.End {
				return false
			}
		}
		return true
	})
	return contents(t, c, topic)
}

func TestTransactionsAreAllOrNothing(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 3)
		tr := newTransactor(t, c, out, ProducerConfig{Zstd: []string{out}})
		requireCommitted(t, c, out, in, -1, "")

		transact(t, tr, out, 0, "a0", "a1")
		transact(t, tr, out, 1, "b0")
		require.NoError(t, tr.Hold(t.Context()))
		transact(t, tr, out, 0, "a2") // belongs to the next
		assert.Empty(t, contents(t, c, out), "written, not committed")
		require.NoError(t, tr.Commit(t.Context(), offsetsOf(out, in, 0, 7, "seven")))
		assert.Equal(t, map[int32][]string{0: {"a0", "a1"}, 1: {"b0"}}, visible(t, c, out))
		requireCommitted(t, c, out, in, 7, "seven")

		t.Log("an abort takes all back, and it goes on")
		transact(t, tr, out, 2, "c0")
		require.NoError(t, tr.Hold(t.Context()))
		require.NoError(t, tr.Abort(t.Context()))
		transact(t, tr, out, 0, "a3")
		transact(t, tr, out, 2, "c1")
		require.NoError(t, tr.Commit(t.Context(), offsetsOf(out, in, 0, 9, "")))
		assert.Equal(t, map[int32][]string{0: {"a0", "a1", "a3"}, 1: {"b0"}, 2: {"c1"}}, visible(t, c, out))
		requireCommitted(t, c, out, in, 9, "")

		t.Log("offsets alone, and nothing at all")
		require.NoError(t, tr.Commit(t.Context(), offsetsOf(out, in, 0, 10, "ten")))
		requireCommitted(t, c, out, in, 10, "ten")
		require.NoError(t, tr.Commit(t.Context(), nil))
		require.NoError(t, tr.Abort(t.Context()))
	})
}

func TestASecondHolderFences(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 2)
		old := newTransactor(t, c, out, ProducerConfig{})
		transact(t, old, out, 0, "kept")
		require.NoError(t, old.Commit(t.Context(), offsetsOf(out, in, 0, 1, "")))
		transact(t, old, out, 0, "dropped")
		require.NoError(t, old.Hold(t.Context()))

		young := newTransactor(t, c, out, ProducerConfig{})
		require.ErrorIs(t, old.Commit(t.Context(), offsetsOf(out, in, 0, 2, "")), ErrFenced)
		require.ErrorIs(t, old.Send(t.Context(), []stream.Out{{Topic: out}}, nil), ErrFenced)
		require.ErrorIs(t, old.Abort(t.Context()), ErrFenced)
		transact(t, young, out, 0, "new")
		require.NoError(t, young.Commit(t.Context(), offsetsOf(out, in, 0, 5, "")))

		t.Log("a batch of one that has been fenced is refused")
		young2 := newTransactor(t, c, out, ProducerConfig{})
		written := make(chan error, 1)
		require.NoError(t, young.Send(t.Context(), []stream.Out{{Topic: out, Value: []byte("zombie")}}, func(err error) { written <- err }))
		require.ErrorIs(t, young.Hold(t.Context()), ErrFenced)
		require.Error(t, <-written)
		require.NoError(t, young2.Commit(t.Context(), nil))
		assert.Equal(t, map[int32][]string{0: {"kept", "new"}}, visible(t, c, out))
		requireCommitted(t, c, out, in, 5, "")
	})
}
