package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/segmentio/kafka-go/protocol"
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
		if err := tr.Close(ctx); err != nil && !errors.Is(err, ErrFenced) {
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
		assert.EqualValues(t, 3, testutil.ToFloat64(c.metrics.transactions.WithLabelValues(resultCommitted)))
		assert.EqualValues(t, 1, testutil.ToFloat64(c.metrics.transactions.WithLabelValues(resultAborted)))
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

// Whatever request of a transaction is not answered, or does not arrive, the
// transaction takes place once.
func TestLostAnswersChangeNothing(t *testing.T) {
	keys := []protocol.ApiKey{
		protocol.Produce, protocol.AddPartitionsToTxn, protocol.AddOffsetsToTxn, protocol.TxnOffsetCommit,
		protocol.EndTxn, protocol.FindCoordinator, protocol.OffsetFetch,
	}
	streamtest.Each(t, func(t *testing.T, addr string) {
		for _, key := range keys {
			for _, answer := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v answer %v", key, answer), func(t *testing.T) {
					t.Parallel()
					c, network := dialFaulty(t, addr)
					in, out := newTopic(t, c, 1), newTopic(t, c, 2)
					fault := network.add(&networkFault{key: key, answer: answer, left: 2})
					tr := newTransactor(t, c, out, ProducerConfig{})
					for i := range 3 {
						transact(t, tr, out, 0, fmt.Sprint("a", i))
						transact(t, tr, out, 1, fmt.Sprint("b", i))
						require.NoError(t, tr.Commit(t.Context(), offsetsOf(out, in, 0, int64(i), "m")))
						requireCommitted(t, c, out, in, int64(i), "m")
					}
					assert.Equal(t, 2, fault.hits())
					assert.Equal(t, map[int32][]string{0: numbered("a", 0, 3), 1: numbered("b", 0, 3)}, visible(t, c, out))
				})
			}
		}
	})
}

// The answers to InitProducerID are lost: the id is taken all the same, and
// also after an abort, when a new epoch is taken.
func TestLostAnswersToTakingAnID(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		for _, answer := range []bool{true, false} {
			t.Run(fmt.Sprint("answer ", answer), func(t *testing.T) {
				t.Parallel()
				c, network := dialFaulty(t, addr)
				out := newTopic(t, c, 1)
				fault := network.add(&networkFault{key: protocol.InitProducerId, answer: answer, left: 2})
				tr := newTransactor(t, c, out, ProducerConfig{})
				require.Equal(t, 2, fault.hits())
				transact(t, tr, out, 0, "dropped")
				require.NoError(t, tr.Hold(t.Context()))
				fault = network.add(&networkFault{key: protocol.InitProducerId, answer: answer, left: 2})
				require.NoError(t, tr.Abort(t.Context()))
				require.Equal(t, 2, fault.hits())
				transact(t, tr, out, 0, "kept")
				require.NoError(t, tr.Commit(t.Context(), nil))
				assert.Equal(t, []string{"kept"}, visible(t, c, out)[0])
			})
		}
	})
}

// A new holder comes after the commit has been decided and before its answer
// has come, or after the request was lost: the old one is in doubt, and the new
// one sees which it was.
func TestCommitInDoubt(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		for _, arrives := range []bool{true, false} {
			t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
				t.Parallel()
				c, network := dialFaulty(t, addr)
				other := dial(t, addr)
				in, out := newTopic(t, c, 1), newTopic(t, c, 1)
				old := newTransactor(t, c, out, ProducerConfig{})
				require.NoError(t, old.Commit(t.Context(), offsetsOf(out, in, 0, 1, "")))
				transact(t, old, out, 0, "x")
				require.NoError(t, old.Hold(t.Context()))
				transact(t, old, out, 0, "held")
				var young *Transactor
				network.add(&networkFault{key: protocol.EndTxn, answer: arrives, left: 1, then: func() {
					young = newTransactor(t, other, out, ProducerConfig{})
				}})
				err := old.Commit(t.Context(), offsetsOf(out, in, 0, 2, ""))
				require.ErrorIs(t, err, ErrInDoubt)
				require.ErrorIs(t, err, ErrFenced)
				require.ErrorIs(t, old.Abort(t.Context()), ErrInDoubt)
				want, values := int64(1), []string(nil)
				if arrives {
					want, values = 2, []string{"x"}
				}
				requireCommitted(t, other, out, in, want, "")
				assert.Equal(t, values, visible(t, other, out)[0])
				transact(t, young, out, 0, "y")
				require.NoError(t, young.Commit(t.Context(), offsetsOf(out, in, 0, want+1, "")))
				assert.Equal(t, append(values, "y"), visible(t, other, out)[0])
			})
		}
	})
}

// A coordinator that answers nothing for longer than is tried: the commit is in
// doubt, and the next transactor settles it.
func TestCommitIsGivenUp(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		for _, arrives := range []bool{true, false} {
			t.Run(fmt.Sprint("arrives ", arrives), func(t *testing.T) {
				t.Parallel()
				c, network := dialFaulty(t, addr)
				in, out := newTopic(t, c, 1), newTopic(t, c, 1)
				tr := newTransactor(t, c, out, ProducerConfig{DeliveryTimeout: 100 * time.Millisecond})
				transact(t, tr, out, 0, "x")
				network.add(&networkFault{key: protocol.EndTxn, answer: arrives, left: 50})
				err := tr.Commit(t.Context(), offsetsOf(out, in, 0, 2, ""))
				require.ErrorIs(t, err, ErrInDoubt)
				require.NotErrorIs(t, err, ErrFenced)
				require.ErrorIs(t, tr.Send(t.Context(), []stream.Out{{Topic: out}}, nil), ErrInDoubt)
				network.stop()
				next := newTransactor(t, c, out, ProducerConfig{})
				want, values := int64(-1), []string(nil)
				if arrives {
					want, values = 2, []string{"x"}
				}
				requireCommitted(t, c, out, in, want, "")
				assert.Equal(t, values, visible(t, c, out)[0])
				require.NoError(t, next.Commit(t.Context(), nil))
			})
		}
	})
}

// The context of a commit ends while its answer is under way.
func TestCommitIsInterrupted(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c, network := dialFaulty(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 1)
		tr := newTransactor(t, c, out, ProducerConfig{})
		transact(t, tr, out, 0, "x")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		network.add(&networkFault{key: protocol.EndTxn, answer: true, left: 50, then: cancel})
		require.ErrorIs(t, tr.Commit(ctx, offsetsOf(out, in, 0, 2, "")), ErrInDoubt)
		network.stop()
		newTransactor(t, c, out, ProducerConfig{})
		requireCommitted(t, c, out, in, 2, "")
		assert.Equal(t, []string{"x"}, visible(t, c, out)[0])
	})
}

// As many transactors as a process has partitions share a client and a small
// space, each with senders that don't stop for its commits. Every transaction
// is whole and in order.
func TestManyTransactorsAtOnce(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		const transactors, rounds, wide = 24, 20, 3
		c := dial(t, addr)
		in, out := newTopic(t, c, transactors), newTopic(t, c, wide*transactors)
		space := NewSpace(64 << 10)
		var work sync.WaitGroup
		for i := range int32(transactors) {
			tr := newTransactor(t, c, fmt.Sprint(out, "/", i), ProducerConfig{Space: space})
			var sending sync.WaitGroup
			done := make(chan struct{})
			for lane := range int32(wide) {
				sending.Go(func() {
					for n := range rounds * 5 {
						outs := []stream.Out{{Topic: out, Partition: i*wide + lane, Value: fmt.Append(nil, n)}}
						if err := tr.Send(t.Context(), outs, nil); err != nil {
							t.Error(err)
						}
					}
				})
			}
			go func() {
				sending.Wait()
				close(done)
			}()
			work.Go(func() {
				for n, last := int64(1), false; !last; n++ {
					select {
					case <-done:
						last = true
					default:
					}
					if err := tr.Commit(t.Context(), &GroupOffsets{Group: out, Generation: -1, Topic: in, Partition: i, Offset: n}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		work.Wait()
		got := visible(t, c, out)
		for partition := range int32(wide * transactors) {
			assert.Equal(t, numbered("", 0, rounds*5), got[partition], "partition %d", partition)
		}
		assert.True(t, space.free.TryAcquire(64<<10), "all space is free again")
	})
}

// A new holder takes the id while the old one commits. Who comes first is
// chance; that both agree about it is not.
func TestTakingAnIDRacesWithACommit(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c, other := dial(t, addr), dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 1)
		holder := newTransactor(t, c, out, ProducerConfig{Linger: -1})
		var want []string
		offset := int64(-1)
		for i := range int64(25) {
			transact(t, holder, out, 0, fmt.Sprint(i))
			require.NoError(t, holder.Hold(t.Context()))
			committing := make(chan error, 1)
			go func(old *Transactor) {
				committing <- old.Commit(t.Context(), offsetsOf(out, in, 0, i, ""))
			}(holder)
			holder = newTransactor(t, other, out, ProducerConfig{Linger: -1})
			at, _, err := other.CommittedOffset(t.Context(), out, in, 0)
			require.NoError(t, err)
			switch err := <-committing; {
			case err == nil:
				require.Equal(t, i, at)
			case !errors.Is(err, ErrInDoubt):
				require.ErrorIs(t, err, ErrFenced)
				require.Equal(t, offset, at)
			}
			if at == i {
				want = append(want, fmt.Sprint(i))
			}
			offset = at
		}
		assert.Equal(t, want, visible(t, c, out)[0])
	})
}
