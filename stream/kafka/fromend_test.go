package kafka

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// A group that begins at the end handles what is written while it is there: at once,
// while the transaction is open, and nothing of what was written before, whatever it
// had committed.
func TestFromEnd(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		j := newJournal()
		var live atomic.Int64
		cfg := impatient(GroupConfig{Group: in, Topics: []string{in}, Delivery: AtLeastOnce, Producer: p, FromEnd: true,
			Fetch: FetchConfig{Uncommitted: true}, OnAssigned: func(_, n int) { live.Store(int64(n)) },
			NewHandler: func(topic string, partition, _ int32) (stream.Handler, error) {
				return &echo{journal: j, life: j.begin(topic, partition), out: in + "-none",
					handle: func(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
						return emit.Emit(ctx, nil, []int64{rec.Offset})
					}}, nil
			}})
		start := func() *running {
			m := startMember(t, c, cfg)
			streamtest.Eventually(t.Context(), t, "the partition", func() bool { return live.Load() == 1 })
			return m
		}
		put(t, p, in, 0, "before0", "before1")
		m := start()
		tx, err := NewTransactor(t.Context(), c, in, ProducerConfig{})
		require.NoError(t, err)
		require.NoError(t, tx.Send(t.Context(), []stream.Out{{Topic: in, Value: []byte("open")}}, nil))
		streamtest.Eventually(t.Context(), t, "what is not committed", func() bool { return j.distinct() == 1 })
		require.NoError(t, tx.Abort(t.Context()))
		put(t, p, in, 0, "while")
		streamtest.Eventually(t.Context(), t, "what came", func() bool { return j.distinct() == 2 })
		m.end(t)
		require.NoError(t, tx.Close(t.Context()))

		put(t, p, in, 0, "between0", "between1")
		m = start()
		put(t, p, in, 0, "after")
		streamtest.Eventually(t.Context(), t, "what came", func() bool { return j.distinct() == 3 })
		m.end(t)
		assert.Equal(t, []string{"after", "open", "while"}, slices.Sorted(maps.Keys(j.handled)))
		for _, l := range j.lives {
			assert.Empty(t, l.replayed)
		}
		assert.Equal(t, ends(t, c, in), committed(t, c, in, in, 1), "how far the group is shows all the same")
	})
}
