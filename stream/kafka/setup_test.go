package kafka

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

func TestMain(m *testing.M) {
	if size := os.Getenv(brokerVariable); size != "" {
		n, err := strconv.Atoi(size)
		if err == nil {
			err = serveBenchmark(n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(streamtest.Main(m))
}

func dial(t testing.TB, addr string) *Client {
	t.Helper()
	c, err := Connect(t.Context(), Config{Brokers: []string{addr}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

var names atomic.Int64

// newTopic makes a topic with a name of the test's own.
func newTopic(t testing.TB, c *Client, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", strings.ToLower(strings.NewReplacer("/", ".", " ", "-", "_", "-", "#", "-").Replace(t.Name())), names.Add(1))
	require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: name, Partitions: partitions}}, 1))
	return name
}

func newProducer(t testing.TB, c *Client, cfg ProducerConfig) *Producer {
	t.Helper()
	p, err := NewProducer(t.Context(), c, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Logf("closing the producer: %v", err)
		}
	})
	return p
}

// put writes values to a partition and waits until they are durable.
func put(t testing.TB, p *Producer, topic string, partition int32, values ...string) {
	t.Helper()
	outs := make([]stream.Out, len(values))
	for i, v := range values {
		outs[i] = stream.Out{Topic: topic, Partition: partition, Key: []byte("k"), Value: []byte(v)}
	}
	require.NoError(t, p.Send(t.Context(), outs, nil))
	require.NoError(t, p.Flush(t.Context()))
}

// contents reads what is committed in a topic, by partition.
func contents(t testing.TB, c *Client, topic string) map[int32][]string {
	t.Helper()
	got := make(map[int32][]string)
	require.NoError(t, c.Consume(t.Context(), topic, ConsumeOptions{From: FromStart, UntilEnd: true}, func(r stream.Record) error {
		got[r.Partition] = append(got[r.Partition], string(r.Value))
		return nil
	}))
	return got
}

// numbered returns prefix0, prefix1, ...
func numbered(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(prefix, i))
	}
	return out
}
