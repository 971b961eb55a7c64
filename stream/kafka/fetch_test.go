package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// Records of aborted and open transactions are invisible, those around them
// are not. The writer is another client.
func TestAbortedTransactionsAreInvisible(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{})
		writer := func(id string) *kgo.Client {
			w, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID(topic+id), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			require.NoError(t, err)
			t.Cleanup(w.Close)
			return w
		}
		write := func(w *kgo.Client, values ...string) {
			for _, v := range values {
				require.NoError(t, w.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
			}
		}
		end := func(w *kgo.Client, commit kgo.TransactionEndTry) {
			require.NoError(t, w.EndTransaction(t.Context(), commit))
		}
		// The coordinator answers before it writes the markers; without open
		// transactions everything is stable once they are there.
		settled := func() {
			require.Eventually(t, func() bool {
				offsets, err := c.Offsets(t.Context(), topic)
				return err == nil && offsets[0].Stable == offsets[0].End
			}, 30*time.Second, 10*time.Millisecond)
		}
		a, b := writer("a"), writer("b")
		put(t, p, topic, 0, "plain0")
		require.NoError(t, a.BeginTransaction())
		require.NoError(t, b.BeginTransaction())
		write(a, "aborted0", "aborted1")
		write(b, "committed0")
		put(t, p, topic, 0, "plain1")
		write(a, "aborted2")
		end(a, kgo.TryAbort)
		require.NoError(t, a.BeginTransaction())
		write(a, "committed1")
		end(b, kgo.TryCommit)
		end(a, kgo.TryCommit)
		settled()
		require.NoError(t, b.BeginTransaction())
		write(b, "aborted3")
		end(b, kgo.TryAbort)
		settled()
		put(t, p, topic, 0, "plain2")
		want := []string{"plain0", "committed0", "plain1", "committed1", "plain2"}
		assert.Equal(t, want, contents(t, c, topic)[0])

		t.Log("from any offset on, the same records")
		for from := range ends(t, c, topic)[0] {
			got := []string{}
			require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: Position(from), UntilEnd: true}, func(r stream.Record) error {
				got = append(got, string(r.Value))
				assert.GreaterOrEqual(t, r.Offset, from)
				return nil
			}))
			assert.Equal(t, want[len(want)-len(got):], got, "from offset %d", from)
		}

		t.Log("an open transaction holds back what is behind it")
		require.NoError(t, a.BeginTransaction())
		write(a, "open")
		put(t, p, topic, 0, "behind")
		assert.Equal(t, want, contents(t, c, topic)[0])
		end(a, kgo.TryCommit)
		settled()
		assert.Equal(t, append(want, "open", "behind"), contents(t, c, topic)[0])
	})
}

// Compaction leaves gaps in a batch and at its end; reading goes on behind them.
func TestCompactedTopicIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	cluster := streamtest.Kfake(t)
	c := dial(t, cluster.ListenAddrs()[0])
	topic := newTopic(t, c, 1) + "-compacted"
	require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 1, Config: map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}}}, 1))
	p := newProducer(t, c, ProducerConfig{})
	for round := range 5 {
		var outs []stream.Out
		for k := range 10 {
			outs = append(outs, stream.Out{Topic: topic, Key: fmt.Append(nil, k), Value: fmt.Append(nil, round, k)})
		}
		require.NoError(t, p.Send(t.Context(), outs, nil))
		require.NoError(t, p.Flush(t.Context()))
	}
	cluster.Compact()
	newest := make(map[string]string)
	n := 0
	require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
		newest[string(r.Key)] = string(r.Value)
		n++
		return nil
	}))
	assert.Len(t, newest, 10)
	assert.Less(t, n, 50, "something was compacted")
	for k, v := range newest {
		assert.Equal(t, "4 "+k, v)
	}
}

func TestFetchFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.OffsetNotAvailable} {
		t.Run(fault.Message, func(t *testing.T) {
			t.Parallel()
			cluster := streamtest.Kfake(t, kfake.NumBrokers(2))
			c := dial(t, cluster.ListenAddrs()[0])
			topic := newTopic(t, c, 1)
			p := newProducer(t, c, ProducerConfig{})
			put(t, p, topic, 0, "a", "b")
			f := streamtest.Refuse(cluster, kmsg.Fetch, fault, 3)
			assert.Equal(t, []string{"a", "b"}, contents(t, c, topic)[0])
			assert.Equal(t, 3, f.Hits())
		})
	}
	t.Run("refused for good", func(t *testing.T) {
		t.Parallel()
		cluster := streamtest.Kfake(t)
		c := dial(t, cluster.ListenAddrs()[0])
		topic := newTopic(t, c, 1)
		streamtest.Refuse(cluster, kmsg.Fetch, kerr.TopicAuthorizationFailed, 1)
		_, err := c.NewFetcher(topic, 0, 0, FetchConfig{}).Next(t.Context())
		require.ErrorIs(t, err, kafka.TopicAuthorizationFailed)
		require.ErrorContains(t, err, "reading topic "+topic+" partition 0 at offset 0")
	})
	t.Run("gone for long", func(t *testing.T) {
		t.Parallel()
		cluster := streamtest.Kfake(t)
		c := dial(t, cluster.ListenAddrs()[0])
		topic := newTopic(t, c, 1)
		f := streamtest.Refuse(cluster, kmsg.Fetch, kerr.NotLeaderForPartition, -1)
		_, err := c.NewFetcher(topic, 0, 0, FetchConfig{GiveUpAfter: 100 * time.Millisecond}).Next(t.Context())
		require.ErrorIs(t, err, kafka.NotLeaderForPartition)
		assert.Greater(t, f.Hits(), 1)
	})
}

func TestOffsetThatIsGone(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 2)
		p := newProducer(t, c, ProducerConfig{})
		put(t, p, topic, 1, "a", "b", "c")
		_, err := c.NewFetcher(topic, 1, 7, FetchConfig{}).Next(t.Context())
		var gone *OffsetError
		require.ErrorAs(t, err, &gone)
		assert.Equal(t, OffsetError{Topic: topic, Partition: 1, Offset: 7, Start: 0, End: 3}, *gone)
		assert.Equal(t, fmt.Sprintf("topic %s partition 1: offset 7 is not in the log, which holds 0 to 3", topic), err.Error())
	})
}

func TestConsume(t *testing.T) {
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 3)
		p := newProducer(t, c, ProducerConfig{})
		for partition := range int32(3) {
			put(t, p, topic, partition, numbered(fmt.Sprint(partition, "-"), 0, 5)...)
		}
		from := func(at Position) (n int) {
			require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: at, UntilEnd: true}, func(stream.Record) error { n++; return nil }))
			return n
		}
		assert.Equal(t, 15, from(FromStart))
		assert.Equal(t, 6, from(3))
		assert.Equal(t, 0, from(FromEnd))
		assert.Equal(t, 0, from(99))

		t.Log("it follows the topic, and ends with the context")
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan string)
		done := make(chan error)
		go func() {
			done <- c.Consume(ctx, topic, ConsumeOptions{From: 4}, func(r stream.Record) error {
				select {
				case seen <- string(r.Value):
				case <-ctx.Done():
				}
				return nil
			})
		}()
		for range 3 {
			assert.True(t, strings.HasSuffix(<-seen, "-4"))
		}
		put(t, p, topic, 1, "new")
		assert.Equal(t, "new", <-seen)
		cancel()
		require.NoError(t, <-done)

		t.Log("the function's error comes back as it is")
		boom := errors.New("boom")
		require.Equal(t, boom, c.Consume(t.Context(), topic, ConsumeOptions{From: FromStart}, func(stream.Record) error { return boom }))
		require.ErrorContains(t, c.Consume(t.Context(), "no-such-topic", ConsumeOptions{}, nil), "topic no-such-topic does not exist")
	})
}

// findKcat finds kcat, which gives a second opinion through librdkafka; in CI
// it has to be there.
func findKcat(t *testing.T) string {
	t.Helper()
	kcat, err := exec.LookPath("kcat")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("a second opinion needs kcat: %v", err)
	} else if err != nil {
		t.Skip("kcat is not installed (Debian: apt-get install kcat)")
	}
	return kcat
}

// A second implementation of the protocol reads what we write.
func TestKcatReadsWhatWeWrite(t *testing.T) {
	kcat := findKcat(t)
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		topic := newTopic(t, c, 1)
		p := newProducer(t, c, ProducerConfig{Zstd: []string{topic + "-z"}})
		for _, name := range []string{topic, topic + "-z"} {
			require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: name, Partitions: 1}}, 1))
			require.NoError(t, p.Send(t.Context(), []stream.Out{
				{Topic: name, Key: []byte("k1"), Value: []byte("v1"), Headers: []stream.Header{{Key: "h", Value: []byte("x")}}},
				{Topic: name, Key: []byte("k2"), Value: []byte("v2")},
			}, nil))
			require.NoError(t, p.Flush(t.Context()))
			out, err := exec.CommandContext(t.Context(), kcat, "-C", "-b", addr, "-t", name, "-o", "beginning", "-e", "-q", "-X", "check.crcs=true", "-f", `%o %k=%s %h\n`).CombinedOutput()
			if err != nil && strings.Contains(string(out), "zstd") {
				t.Logf("this librdkafka has no zstd: %s", out)
				continue
			}
			require.NoError(t, err, "%s", out)
			assert.Equal(t, "0 k1=v1 h=x\n1 k2=v2 \n", string(out))
		}
	})
}
