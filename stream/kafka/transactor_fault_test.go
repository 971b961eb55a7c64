package kafka

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

var transactionRequests = []kmsg.Key{
	kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn, kmsg.OffsetFetch, kmsg.FindCoordinator,
}

// Codes that pass by themselves are waited for, whatever request they answer.
func TestTransactionsOutlastPassingErrors(t *testing.T) {
	t.Parallel()
	passing := []*kerr.Error{
		kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions,
		kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.UnstableOffsetCommit, kerr.UnknownTopicOrPartition,
	}
	for _, key := range transactionRequests {
		for _, code := range passing {
			t.Run(fmt.Sprint(key.Name(), " ", code.Message), func(t *testing.T) {
				t.Parallel()
				cluster := streamtest.Kfake(t, kfake.NumBrokers(2))
				c := dial(t, cluster.ListenAddrs()[0])
				in, out := newTopic(t, c, 1), newTopic(t, c, 2)
				f := streamtest.Refuse(cluster, key, code, 3)
				tr := newTransactor(t, c, "id", ProducerConfig{})
				transact(t, tr, out, 0, "a")
				transact(t, tr, out, 1, "b")
				require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", in, 0, 5, "m")))
				requireCommitted(t, c, "g", in, 5, "m")
				assert.Equal(t, 3, f.Hits(), "faults that were met")
				transact(t, tr, out, 0, "c")
				require.NoError(t, tr.Commit(t.Context(), nil))
				assert.Equal(t, map[int32][]string{0: {"a", "c"}, 1: {"b"}}, visible(t, c, out))
			})
		}
	}
}

// Error codes that don't pass make the transaction fail. Every record sent
// before and since gets that error, and none becomes visible. After an abort
// the transactor goes on.
func TestTransactionsFailForGood(t *testing.T) {
	t.Parallel()
	lasting := map[kmsg.Key][]*kerr.Error{
		kmsg.AddPartitionsToTxn: {kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed},
		kmsg.Produce:            {kerr.TopicAuthorizationFailed, kerr.OutOfOrderSequenceNumber, kerr.InvalidRecord, kerr.MessageTooLarge},
		kmsg.AddOffsetsToTxn:    {kerr.GroupAuthorizationFailed},
		kmsg.TxnOffsetCommit:    {kerr.GroupAuthorizationFailed, kerr.OffsetMetadataTooLarge, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress},
		kmsg.EndTxn:             {kerr.TransactionalIDAuthorizationFailed},
	}
	for key, codes := range lasting {
		for _, code := range codes {
			t.Run(fmt.Sprint(key.Name(), " ", code.Message), func(t *testing.T) {
				t.Parallel()
				cluster := streamtest.Kfake(t)
				c := dial(t, cluster.ListenAddrs()[0])
				in, out := newTopic(t, c, 1), newTopic(t, c, 2)
				tr := newTransactor(t, c, "id", ProducerConfig{})
				transact(t, tr, out, 0, "before")
				require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", in, 0, 1, "")))
				f := streamtest.Refuse(cluster, key, code, 1)
				written := make(chan error, 2)
				note := func(err error) { written <- err }
				require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: out, Partition: 0, Value: []byte("x")}, {Topic: out, Partition: 1, Value: []byte("y")}}, note))
				held := tr.Hold(t.Context())
				first := <-written
				assert.Equal(t, held == nil, first == nil, "Hold and the callback say the same: %v, %v", held, first)
				if held == nil {
					require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: out, Value: []byte("z")}}, note))
					err := tr.Commit(t.Context(), offsetsOf("g", in, 0, 2, ""))
					var got kafkago.Error
					require.ErrorAs(t, err, &got)
					assert.EqualValues(t, code.Code, got)
					require.NotErrorIs(t, err, ErrInDoubt)
					require.ErrorIs(t, <-written, ErrAborted, "what waited for the next transaction")
				}
				assert.Equal(t, 1, f.Hits())
				require.ErrorIs(t, tr.Send(t.Context(), []stream.Out{{Topic: out}}, nil), ErrAborted)
				require.ErrorIs(t, tr.Commit(t.Context(), nil), ErrAborted)
				require.NoError(t, tr.Abort(t.Context()))
				requireCommitted(t, c, "g", in, 1, "")
				transact(t, tr, out, 0, "after")
				transact(t, tr, out, 1, "after")
				require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", in, 0, 3, "")))
				assert.Equal(t, map[int32][]string{0: {"before", "after"}, 1: {"after"}}, visible(t, c, out))
				requireCommitted(t, c, "g", in, 3, "")
			})
		}
	}
}

// Codes that say that the id or the producer is no longer ours end the
// transactor, whatever request they answer.
func TestFencingCodes(t *testing.T) {
	t.Parallel()
	fenced := []*kerr.Error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.InvalidTxnState}
	for _, key := range []kmsg.Key{kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.AddOffsetsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for _, code := range fenced {
			t.Run(fmt.Sprint(key.Name(), " ", code.Message), func(t *testing.T) {
				t.Parallel()
				cluster := streamtest.Kfake(t)
				c := dial(t, cluster.ListenAddrs()[0])
				in, out := newTopic(t, c, 1), newTopic(t, c, 2)
				tr := newTransactor(t, c, "id", ProducerConfig{})
				streamtest.Refuse(cluster, key, code, 1)
				transact(t, tr, out, 0, "x")
				err := tr.Commit(t.Context(), offsetsOf("g", in, 0, 2, ""))
				require.ErrorIs(t, err, ErrFenced)
				require.NotErrorIs(t, err, ErrInDoubt)
				require.ErrorIs(t, tr.Send(t.Context(), []stream.Out{{Topic: out}}, nil), ErrFenced)
				require.ErrorIs(t, tr.Hold(t.Context()), ErrFenced)
				require.ErrorIs(t, tr.Abort(t.Context()), ErrFenced)
				require.NoError(t, tr.Close(t.Context()))
				assert.EqualValues(t, 1, testutil.ToFloat64(c.metrics.fenced))
				next := newTransactor(t, c, "id", ProducerConfig{})
				require.NoError(t, next.Commit(t.Context(), nil))
				assert.Empty(t, visible(t, c, out))
				requireCommitted(t, c, "g", in, -1, "")
			})
		}
	}
}

// Offsets of a generation that has ended are refused, in a transaction and
// outside, and the transaction with them.
func TestStaleGeneration(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 1)
		group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{ID: out, Brokers: []string{addr}, Topics: []string{in}, JoinGroupBackoff: 50 * time.Millisecond})
		require.NoError(t, err)
		defer group.Close()
		gen, err := group.Next(t.Context())
		require.NoError(t, err)
		offsets := func(generation int32, member string, offset int64) *GroupOffsets {
			return &GroupOffsets{Group: out, Generation: generation, Member: member, Topic: in, Offset: offset, Metadata: fmt.Sprint(offset)}
		}
		tr := newTransactor(t, c, out, ProducerConfig{})
		transact(t, tr, out, 0, "a")
		require.NoError(t, tr.Commit(t.Context(), offsets(gen.ID, gen.MemberID, 1)))
		requireCommitted(t, c, out, in, 1, "1")
		require.NoError(t, c.CommitOffsets(t.Context(), *offsets(gen.ID, gen.MemberID, 2)))
		requireCommitted(t, c, out, in, 2, "2")
		for name, stale := range map[string]*GroupOffsets{
			"an old generation": offsets(gen.ID-1, gen.MemberID, 7),
			"no member":         offsets(gen.ID, "somebody else", 8),
		} {
			t.Log(name)
			transact(t, tr, out, 0, "dropped")
			err := tr.Commit(t.Context(), stale)
			require.ErrorIs(t, err, ErrFenced)
			require.ErrorContains(t, err, "generation has ended")
			require.NoError(t, tr.Abort(t.Context()), "the id is still ours")
			require.ErrorIs(t, c.CommitOffsets(t.Context(), *stale), ErrFenced)
		}
		transact(t, tr, out, 0, "b")
		require.NoError(t, tr.Commit(t.Context(), offsets(gen.ID, gen.MemberID, 3)))
		assert.Equal(t, []string{"a", "b"}, visible(t, c, out)[0])
		requireCommitted(t, c, out, in, 3, "3")
	})
}

// What an old holder writes reaches the broker after a new one has come: with
// the old epoch it is refused, within a transaction or before one.
func TestZombies(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 2)
		act := map[string]func(t *testing.T, zombie *Transactor) error{
			"produces in an open transaction": func(t *testing.T, zombie *Transactor) error {
				transact(t, zombie, out, 0, "zombie")
				return zombie.Hold(t.Context())
			},
			"adds a partition": func(t *testing.T, zombie *Transactor) error {
				transact(t, zombie, out, 1, "zombie")
				return zombie.Hold(t.Context())
			},
			"commits offsets": func(t *testing.T, zombie *Transactor) error {
				return zombie.Commit(t.Context(), offsetsOf(out, in, 0, 99, "zombie"))
			},
			"commits": func(t *testing.T, zombie *Transactor) error { return zombie.Commit(t.Context(), nil) },
			"aborts":  func(t *testing.T, zombie *Transactor) error { return zombie.Abort(t.Context()) },
		}
		for name, act := range act {
			t.Log(name)
			zombie := newTransactor(t, c, out, ProducerConfig{Linger: -1})
			transact(t, zombie, out, 0, "dropped")
			require.NoError(t, zombie.Hold(t.Context()))
			zombie.letGo() // so that it goes on writing into the same transaction
			holder := newTransactor(t, c, out, ProducerConfig{})
			transact(t, holder, out, 0, name)
			require.NoError(t, holder.Hold(t.Context()))
			require.ErrorIs(t, act(t, zombie), ErrFenced)
			require.NoError(t, holder.Commit(t.Context(), offsetsOf(out, in, 0, 1, name)))
			requireCommitted(t, c, out, in, 1, name)
		}
		got := visible(t, c, out)
		assert.Empty(t, got[1])
		assert.Len(t, got[0], len(act))
		assert.NotContains(t, got[0], "zombie")
		assert.NotContains(t, got[0], "dropped")
	})
}

func TestTransactionTimeoutIsExplained(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, err := NewTransactor(t.Context(), c, "patient", ProducerConfig{TransactionTimeout: 24 * time.Hour})
		require.ErrorContains(t, err, "taking transactional id patient: the transaction timeout of 24h0m0s is more than the broker's transaction.max.timeout.ms allows")
		_, err = NewTransactor(t.Context(), c, "hasty", ProducerConfig{TransactionTimeout: -1})
		require.ErrorContains(t, err, "transaction timeout -1ns is too short")
		_, err = NewTransactor(t.Context(), c, "", ProducerConfig{})
		require.ErrorContains(t, err, "it is empty")
	})
}

// Brokers that can't fence as it takes are refused; their committed offsets are
// read as they are.
func TestOldBrokers(t *testing.T) {
	t.Parallel()
	for _, broker := range []struct {
		name         string
		versions     *kversion.Versions
		transactions bool
	}{
		{"2.4", kversion.V2_4_0(), false},
		{"2.5", kversion.V2_5_0(), true},
	} {
		t.Run(broker.name, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t, kfake.MaxVersions(broker.versions))
			c := dial(t, cluster.ListenAddrs()[0])
			in, out := newTopic(t, c, 1), newTopic(t, c, 1)
			requireCommitted(t, c, "g", in, -1, "")
			require.NoError(t, c.CommitOffsets(t.Context(), *offsetsOf("g", in, 0, 4, "four")))
			requireCommitted(t, c, "g", in, 4, "four")
			tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{})
			if !broker.transactions {
				require.ErrorContains(t, err, "transactions need Kafka 2.5 or later: the broker knows InitProducerId up to version")
				return
			}
			require.NoError(t, err)
			transact(t, tr, out, 0, "x")
			require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", in, 0, 5, "five")))
			requireCommitted(t, c, "g", in, 5, "five")
			require.NoError(t, tr.Close(t.Context()))
		})
	}
}

// Coordinators move from broker to broker all the while.
func TestCoordinatorsMove(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t, kfake.NumBrokers(3))
	c := dial(t, cluster.ListenAddrs()[0])
	in, out := newTopic(t, c, 1), newTopic(t, c, 4)
	tr := newTransactor(t, c, "id", ProducerConfig{Linger: -1})
	want := make(map[int32][]string)
	for i := range 60 {
		partition, v := int32(i%4), fmt.Sprint(i)
		transact(t, tr, out, partition, v)
		if i%2 == 0 {
			cluster.RehashCoordinators()
		}
		require.NoError(t, tr.Hold(t.Context()))
		if i%3 == 0 {
			cluster.RehashCoordinators()
			cluster.ShufflePartitionLeaders()
		}
		if i%5 == 4 {
			require.NoError(t, tr.Abort(t.Context()))
			continue
		}
		require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", in, 0, int64(i), "")))
		want[partition] = append(want[partition], v)
		requireCommitted(t, c, "g", in, int64(i), "")
	}
	assert.Equal(t, want, visible(t, c, out))
}

// A batch that can't be delivered in time fails the transaction, and not
// before; partitions whose turn comes later don't wait as long again.
func TestUndeliverableBatchFailsTheTransaction(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn} {
		t.Run(key.Name(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
				tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{DeliveryTimeout: 10 * time.Second})
				require.NoError(t, err)
				f := streamtest.Refuse(cluster, key, kerr.NotLeaderForPartition, -1)
				if key == kmsg.AddPartitionsToTxn {
					f.Remove()
					f = streamtest.Refuse(cluster, key, kerr.ConcurrentTransactions, -1) // a storm of them
				}
				began := time.Now()
				failed := make(chan error, 2) // each partition has a goroutine that says so
				for partition := range int32(2) {
					require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: "out", Partition: partition, Value: []byte("x")}}, func(err error) { failed <- err }))
					time.Sleep(100 * time.Millisecond) // so that it is not in the same request
				}
				err = tr.Hold(t.Context())
				require.ErrorIs(t, err, ErrAborted)
				require.NotErrorIs(t, err, ErrFenced)
				assert.InDelta(t, 10, time.Since(began).Seconds(), 3)
				for range 2 {
					assert.Error(t, <-failed)
				}
				f.Remove()
				require.NoError(t, tr.Abort(t.Context()))
				transact(t, tr, "out", 0, "y")
				require.NoError(t, tr.Commit(t.Context(), nil))
				assert.Equal(t, map[int32][]string{0: {"y"}}, visible(t, c, "out"))
				require.NoError(t, tr.Close(t.Context()))
			})
		})
	}
}

// A transaction that stays open longer than its timeout is aborted by the
// broker, and the transactor learns that it was.
func TestTransactionOutlastsItsTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
		tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{TransactionTimeout: 20 * time.Second})
		require.NoError(t, err)
		transact(t, tr, "out", 0, "x")
		require.NoError(t, tr.Hold(t.Context()))
		time.Sleep(30 * time.Second) // virtual
		err = tr.Commit(t.Context(), offsetsOf("g", "in", 0, 1, ""))
		require.ErrorIs(t, err, ErrFenced)
		require.ErrorContains(t, err, "outlasted its timeout")
		assert.Empty(t, visible(t, c, "out"))
		require.NoError(t, tr.Close(t.Context()))
		assert.EqualValues(t, 1, testutil.ToFloat64(c.metrics.transactions.WithLabelValues(resultFenced)))
	})
}

// An idle transactor outlives its transaction timeout many times, since
// nothing is open at the broker, and has no goroutine.
func TestIdleTransactorsCostNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
		var transactors []*Transactor
		for i := range 48 {
			tr, err := NewTransactor(t.Context(), c, fmt.Sprint("id", i), ProducerConfig{})
			require.NoError(t, err)
			transact(t, tr, "out", 0, fmt.Sprint(i))
			require.NoError(t, tr.Commit(t.Context(), nil))
			transactors = append(transactors, tr)
		}
		synctest.Wait()
		for _, tr := range transactors {
			for _, q := range tr.queues {
				assert.False(t, q.running)
			}
		}
		time.Sleep(time.Hour) // virtual
		for i, tr := range transactors {
			transact(t, tr, "out", 1, fmt.Sprint(i))
			require.NoError(t, tr.Commit(t.Context(), nil))
			require.NoError(t, tr.Close(t.Context()))
		}
		assert.Len(t, visible(t, c, "out")[1], 48)
	})
}

// The broker is away between the flush and the commit, for less and for more
// than is tried.
func TestBrokerIsAwayBeforeTheCommit(t *testing.T) {
	for _, away := range []time.Duration{20 * time.Second, 5 * time.Minute} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network kfake.VirtualNetwork
				cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(network.Listen), kfake.SeedTopics(1, "in", "out"))
				require.NoError(t, err)
				defer cluster.Close()
				shaky := &cuttable{network: &network}
				c, err := Connect(t.Context(), Config{Brokers: cluster.ListenAddrs(), Dial: shaky.dial})
				require.NoError(t, err)
				defer c.Close()
				tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{})
				require.NoError(t, err)
				transact(t, tr, "out", 0, "x")
				require.NoError(t, tr.Hold(t.Context()))
				shaky.cut(true)
				back := time.AfterFunc(away, func() { shaky.cut(false) })
				defer back.Stop()
				err = tr.Commit(t.Context(), offsetsOf("g", "in", 0, 1, ""))
				if away < time.Minute {
					require.NoError(t, err)
					requireCommitted(t, c, "g", "in", 1, "")
					require.NoError(t, tr.Close(t.Context()))
					return
				}
				// Nothing has reached the coordinator, so there is no doubt.
				require.ErrorContains(t, err, "offsets of group g")
				require.NotErrorIs(t, err, ErrInDoubt)
				require.Error(t, tr.Abort(t.Context()))
				time.Sleep(away) // virtual
				next, err := NewTransactor(t.Context(), c, "id", ProducerConfig{})
				require.NoError(t, err)
				requireCommitted(t, c, "g", "in", -1, "")
				assert.Empty(t, visible(t, c, "out"))
				require.NoError(t, next.Close(t.Context()))
				require.NoError(t, tr.Close(t.Context()))
			})
		})
	}
}

// A transactor is closed while its commit waits for a broker that never
// answers.
func TestCloseDoesNotWaitForACommit(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
		tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{})
		require.NoError(t, err)
		transact(t, tr, "out", 0, "x")
		streamtest.Refuse(cluster, kmsg.EndTxn, kerr.CoordinatorLoadInProgress, -1)
		committed := make(chan error)
		go func() { committed <- tr.Commit(t.Context(), nil) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, tr.Close(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, tr.Send(t.Context(), []stream.Out{{Topic: "out"}}, nil), ErrClosed)
		require.ErrorIs(t, <-committed, ErrInDoubt)
	})
}

// A group's offsets are pending in a transaction of another: they are waited
// for.
func TestCommittedOffsetWaitsForTransactions(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		in, out := newTopic(t, c, 1), newTopic(t, c, 1)
		tr := newTransactor(t, c, out, ProducerConfig{})
		require.NoError(t, tr.Commit(t.Context(), offsetsOf(out, in, 0, 1, "")))
		s := tr.session
		require.NoError(t, tr.wire.addOffsets(t.Context(), s, out))
		require.NoError(t, tr.wire.commitOffsets(t.Context(), s, offsetsOf(out, in, 0, 2, "two")))
		got := make(chan int64, 1)
		go func() {
			offset, _, err := c.CommittedOffset(t.Context(), out, in, 0)
			assert.NoError(t, err)
			got <- offset
		}()
		streamtest.Eventually(t.Context(), t, "a refusal", func() bool {
			return testutil.ToFloat64(c.metrics.retries.WithLabelValues("fetching committed offsets")) >= 2
		})
		assert.Empty(t, got)
		_, err := tr.wire.end(t.Context(), s, true)
		require.NoError(t, err)
		assert.EqualValues(t, 2, <-got)
	})
}

// What is sent while a transactor is held keeps its order and takes its space.
func TestHeldRecordsKeepOrderAndSpace(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
		space := NewSpace(1000)
		tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{Space: space})
		require.NoError(t, err)
		other, err := NewTransactor(t.Context(), c, "other", ProducerConfig{Space: space})
		require.NoError(t, err)
		require.NoError(t, tr.Hold(t.Context()))
		outs := []stream.Out{{Topic: "out", Value: []byte("0")}}
		require.NoError(t, tr.Send(t.Context(), outs, nil))
		outs[0].Value = []byte("1") // the slice is the caller's again
		require.NoError(t, tr.Send(t.Context(), outs, nil))
		require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: "out", Value: make([]byte, 800)}}, nil))
		sent := make(chan error, 1)
		go func() {
			sent <- other.Send(t.Context(), []stream.Out{{Topic: "out", Partition: 1, Value: make([]byte, 200)}}, nil)
		}()
		synctest.Wait()
		assert.Empty(t, sent, "the space is used up by the other")
		require.NoError(t, tr.Commit(t.Context(), nil))
		require.NoError(t, <-sent)
		transact(t, tr, "out", 0, "3")
		require.NoError(t, tr.Commit(t.Context(), nil))
		require.NoError(t, other.Commit(t.Context(), nil))
		got := visible(t, c, "out")
		assert.Equal(t, []string{"0", "1", string(make([]byte, 800)), "3"}, got[0])
		assert.Len(t, got[1], 1)
		require.NoError(t, tr.Close(t.Context()))
		require.NoError(t, other.Close(t.Context()))
		assert.True(t, space.free.TryAcquire(1000), "all space is free again")
		assert.Zero(t, testutil.ToFloat64(c.metrics.queueBytes))
	})
}

// A Send that waits for space while the transaction is aborted belongs to what
// is aborted.
func TestSendThatWaitsIsAborted(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *kfake.Cluster, c *Client, _ *Producer) {
		tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{MaxBufferedBytes: 1000})
		require.NoError(t, err)
		require.NoError(t, tr.Hold(t.Context()))
		failed := make(chan error, 1)
		require.NoError(t, tr.Send(t.Context(), []stream.Out{{Topic: "out", Value: make([]byte, 900)}}, func(err error) { failed <- err }))
		sent := make(chan error, 1)
		go func() { sent <- tr.Send(t.Context(), []stream.Out{{Topic: "out", Value: make([]byte, 900)}}, nil) }()
		synctest.Wait()
		require.NoError(t, tr.Abort(t.Context()))
		require.ErrorIs(t, <-failed, ErrAborted)
		require.ErrorIs(t, <-sent, ErrAborted)
		transact(t, tr, "out", 0, "x")
		require.NoError(t, tr.Commit(t.Context(), nil))
		assert.Equal(t, []string{"x"}, visible(t, c, "out")[0])
		require.NoError(t, tr.Close(t.Context()))
		assert.Zero(t, testutil.ToFloat64(c.metrics.queueBytes))
	})
}

// Partitions that have records at the same time are added in one request.
func TestPartitionsAreAddedTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, cluster *kfake.Cluster, c *Client, _ *Producer) {
		added := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Observe: true, Count: -1})
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "wide", Partitions: 20}}, 1))
		tr, err := NewTransactor(t.Context(), c, "id", ProducerConfig{})
		require.NoError(t, err)
		for round := range 2 {
			var outs []stream.Out
			for p := range int32(20) {
				outs = append(outs, stream.Out{Topic: "wide", Partition: p, Value: []byte("x")})
			}
			require.NoError(t, tr.Send(t.Context(), outs, nil))
			require.NoError(t, tr.Commit(t.Context(), nil))
			assert.Equal(t, round+1, added.Hits())
		}
		require.NoError(t, tr.Close(t.Context()))
	})
}
