package kafka

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestRecordsArriveInOrderPerPartition(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 3)
		p := newProducer(t, c, ProducerConfig{MaxBatchBytes: 2048, Zstd: []string{topic}})
		want := make(map[int32][]string)
		for i := range 500 {
			partition := int32(i % 3)
			v := fmt.Sprintf("%d-%0*d", partition, 1+i%200, i)
			want[partition] = append(want[partition], v)
			require.NoError(t, p.Send(t.Context(), []stream.Out{{
				Topic: topic, Partition: partition, Key: []byte("key"), Value: []byte(v), Time: time.UnixMilli(1_700_000_000_000 + int64(i)),
				Headers: []stream.Header{{Key: "n", Value: []byte{byte(i)}}, {Key: "nothing"}},
			}}, nil))
		}
		require.NoError(t, p.Flush(t.Context()))
		assert.Equal(t, want, contents(t, c, topic))
		n := 0
		require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
			n++
			assert.Equal(t, "key", string(r.Key))
			require.Len(t, r.Headers, 2)
			assert.Equal(t, "n", r.Headers[0].Key)
			assert.Equal(t, 1_700_000_000_000+int64(r.Headers[0].Value[0]), r.Time.UnixMilli()-256*((r.Time.UnixMilli()-1_700_000_000_000)/256))
			assert.Nil(t, r.Headers[1].Value)
			return nil
		}))
		assert.Equal(t, 500, n)
	})
}

// A record with a time of the future, such as one that waited while the clock was wrong, is
// written with the time of now: Kafka refuses what is more than an hour ahead.
func TestNoRecordIsOfTheFuture(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Value: []byte("x"), Time: time.Now().Add(3 * time.Hour)}}, nil))
		require.NoError(t, p.Flush(t.Context()))
		n := 0
		require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
			n++
			assert.False(t, r.Time.After(time.Now()))
			return nil
		}))
		assert.Equal(t, 1, n)
	})
}

// A broker refuses records whose time is too far from its clock (error 32), and that is reported as a problem of clocks.
func TestTimesFarFromTheBrokersClockAreRefused(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		if strings.HasSuffix(t.Name(), "/kfake") {
			t.Skip("kfake takes records of any time")
		}
		c := dial(t, addr)
		topic := newTopic(t, c, 1) + ".narrow"
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 1, Config: map[string]string{"message.timestamp.before.max.ms": "60000"}}}, 1))
		err := produceAt(t, c, topic, []byte("v"), time.Now().Add(-time.Hour))
		require.True(t, IsClock(err), "%v", err)
		require.Contains(t, Advice(err), "check this machine's clock")
		require.NoError(t, produceAt(t, c, topic, []byte("v"), time.Now()))
	})
}

// A write that was applied and answered with a time-out is sent again, and must
// be in the log once.
func TestRetriesDoNotDouble(t *testing.T) {
	t.Parallel()
	faults := map[string]*kerr.Error{
		"timed out after it was applied":     kerr.RequestTimedOut,
		"failed in a way it has no code for": kerr.UnknownServerError,
		"too few replicas, applied":          kerr.NotEnoughReplicasAfterAppend,
		"leader moved":                       kerr.NotLeaderForPartition,
		"leader election":                    kerr.LeaderNotAvailable,
		"coordinator loading":                kerr.CoordinatorLoadInProgress,
		"coordinator not available":          kerr.CoordinatorNotAvailable,
		"not coordinator":                    kerr.NotCoordinator,
		"damaged on the way":                 kerr.CorruptMessage,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t)
			c := dial(t, cluster.ListenAddrs()[0])
			topic := newTopic(t, c, 1)
			p := newProducer(t, c, ProducerConfig{})
			put(t, p, topic, 0, "before")
			f := streamtest.Refuse(cluster, kmsg.Produce, fault, 3)
			put(t, p, topic, 0, "once")
			put(t, p, topic, 0, "after")
			assert.Equal(t, 3, f.Hits(), "faults that were met")
			assert.Equal(t, []string{"before", "once", "after"}, contents(t, c, topic)[0])
			assert.EqualValues(t, 3, cluster.PartitionInfo(topic, 0).HighWatermark)
		})
	}
}

// Once a batch can't be delivered under its sequence number, what is queued
// behind it fails as well, and the partition goes on under a new producer id.
func TestLostSessionFailsWhatIsQueuedAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, fault := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.ProducerFenced} {
		t.Run(fault.Message, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t)
			c := dial(t, cluster.ListenAddrs()[0])
			topic := newTopic(t, c, 2)
			p := newProducer(t, c, ProducerConfig{Linger: time.Hour})
			put(t, p, topic, 0, "a0")
			cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Partitions: []int32{0}, Err: fault})
			results := make(chan error, 2)
			send := func(partition int32, v string) {
				require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Partition: partition, Value: []byte(v)}}, func(err error) { results <- err }))
			}
			send(0, "lost")
			send(1, "b0")
			require.ErrorContains(t, p.Flush(t.Context()), "partition 0")
			first, second := <-results, <-results
			assert.True(t, (first == nil) != (second == nil), "one of the partitions fails: %v, %v", first, second)
			put(t, p, topic, 0, "a1", "a2")
			put(t, p, topic, 1, "b1")
			assert.Equal(t, map[int32][]string{0: {"a0", "a1", "a2"}, 1: {"b0", "b1"}}, contents(t, c, topic))
		})
	}
}

func TestLeadersMoveUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t, kfake.NumBrokers(3))
	c := dial(t, cluster.ListenAddrs()[0])
	topic := newTopic(t, c, 4)
	p := newProducer(t, c, ProducerConfig{Linger: -1})
	want := make(map[int32][]string)
	for i := range 200 {
		if i%20 == 0 {
			cluster.ShufflePartitionLeaders()
		}
		partition, v := int32(i%4), fmt.Sprint(i)
		want[partition] = append(want[partition], v)
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Partition: partition, Value: []byte(v)}}, nil))
		if i%10 == 0 {
			require.NoError(t, p.Flush(t.Context()))
		}
	}
	require.NoError(t, p.Flush(t.Context()))
	cluster.ShufflePartitionLeaders()
	assert.Equal(t, want, contents(t, c, topic))
}

// TestKeysArePlacedAsByJavaClients compares with kafka-go's own balancer for
// topics that Java clients write to as well.
func TestKeysArePlacedAsByJavaClients(t *testing.T) {
	balancer := kafkago.Murmur2Balancer{}
	for n := 1; n < 40; n++ {
		partitions := make([]int, n)
		for i := range partitions {
			partitions[i] = i
		}
		for i := range 200 {
			key := []byte(strings.Repeat("k", i%7) + fmt.Sprint(i))
			assert.EqualValues(t, balancer.Balance(kafkago.Message{Key: key}, partitions...), keyPartition(key, int32(n)), "key %q of %d partitions", key, n)
		}
	}
	assert.EqualValues(t, 0, keyPartition(nil, 7))
}

func TestOversizedRecordIsRefusedAtOnce(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 1)
		small := topic + "-small"
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: small, Partitions: 1, Config: map[string]string{"max.message.bytes": "20000"}}}, 1))
		p := newProducer(t, c, ProducerConfig{})

		t.Log("larger than the producer allows: Send refuses it")
		err := p.Send(t.Context(), []stream.Out{{Topic: topic, Value: make([]byte, 2<<20)}}, nil)
		var large *RecordTooLargeError
		require.ErrorAs(t, err, &large)
		assert.Equal(t, topic, large.Topic)

		t.Log("larger than the topic allows: only that record fails")
		errs := make(chan error, 3)
		for _, size := range []int{9000, 30000, 9000} {
			require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: small, Key: []byte("k"), Value: bytes.Repeat([]byte{1}, size)}}, func(err error) { errs <- err }))
		}
		require.Error(t, p.Flush(t.Context()))
		assert.NoError(t, <-errs)
		require.ErrorAs(t, <-errs, &large)
		assert.Equal(t, small, large.Topic)
		assert.NoError(t, <-errs)

		t.Log("a batch larger than the topic allows is split")
		put(t, p, small, 0, string(make([]byte, 9000)), string(make([]byte, 9001)), string(make([]byte, 9002)))
		var sizes []int
		for _, v := range contents(t, c, small)[0] {
			sizes = append(sizes, len(v))
		}
		assert.Equal(t, []int{9000, 9000, 9000, 9001, 9002}, sizes)

		_, err = c.Partitions(t.Context(), "no-such-topic")
		require.ErrorContains(t, err, "topic no-such-topic does not exist")
		require.ErrorContains(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Partition: 9}}, nil), "there is no partition 9")
	})
}

func TestCloseFailsWhatCanNotBeWritten(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t)
	c := dial(t, cluster.ListenAddrs()[0])
	topic := newTopic(t, c, 1)
	p := newProducer(t, c, ProducerConfig{})
	put(t, p, topic, 0, "x")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
	result := make(chan error, 1)
	require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: topic, Value: []byte("y")}}, func(err error) { result <- err }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Close(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, <-result, ErrClosed)
	require.ErrorIs(t, p.Send(t.Context(), []stream.Out{{Topic: topic}}, nil), ErrClosed)
	require.NoError(t, p.Close(t.Context()))
}

func TestConcurrentSendersAreAllAnswered(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 4)
		p := newProducer(t, c, ProducerConfig{MaxBufferedBytes: 64 << 10, MaxBatchBytes: 8 << 10})
		var senders sync.WaitGroup
		var durable atomic.Int64
		for s := range 8 {
			senders.Go(func() {
				for i := range 50 {
					outs := make([]stream.Out, 1+i%5)
					for j := range outs {
						outs[j] = stream.Out{Topic: topic, Partition: stream.AnyPartition, Key: fmt.Append(nil, s, i, j), Value: make([]byte, 700)}
					}
					n := int64(len(outs))
					if err := p.Send(t.Context(), outs, func(err error) {
						if err == nil {
							durable.Add(n)
						}
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		require.NoError(t, p.Flush(t.Context()))
		total := 0
		for _, v := range contents(t, c, topic) {
			total += len(v)
		}
		assert.EqualValues(t, 8*50*3, total)
		assert.EqualValues(t, total, durable.Load())
	})
}
