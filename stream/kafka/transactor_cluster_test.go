package kafka

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
)

// Brokers of a real cluster are killed, paused and restarted between the flush
// of a transaction and its end: the commit goes through, once.
func TestTransactionsSurviveTheirCoordinator(t *testing.T) {
	t.Parallel()
	lib := os.Getenv(streamtest.LibVariable)
	if lib == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	cluster, err := streamtest.StartCluster(t.Context(), streamtest.ClusterConfig{ApacheConfig: streamtest.ApacheConfig{Lib: lib, Dir: t.TempDir()}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Stop()) })
	network := new(faultyNetwork)
	c, err := Connect(t.Context(), Config{Brokers: cluster.Addrs(), RequestTimeout: 3 * time.Second, Dial: network.dial})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for _, topic := range []string{"in", "out"} {
		require.NoError(t, c.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 3}}, 3))
	}
	var want []string
	// commit commits one record and what befalls the coordinator before that.
	commit := func(t *testing.T, befall func(coordinator *streamtest.Apache)) {
		tr := newTransactor(t, c, "id", ProducerConfig{})
		v := fmt.Sprint(len(want))
		transact(t, tr, "out", 0, v)
		require.NoError(t, tr.Hold(t.Context()))
		broker, err := c.coordinator(t.Context(), tr.wire.self())
		require.NoError(t, err)
		befall(cluster.Nodes[broker-1])
		require.NoError(t, tr.Commit(t.Context(), offsetsOf("g", "in", 0, int64(len(want)), v)))
		requireCommitted(t, c, "g", "in", int64(len(want)), v)
		want = append(want, v)
		assert.Equal(t, want, visible(t, c, "out")[0])
	}
	commit(t, func(*streamtest.Apache) {})
	t.Run("killed before the commit", func(t *testing.T) {
		commit(t, func(n *streamtest.Apache) {
			require.NoError(t, n.Kill())
			t.Cleanup(func() { require.NoError(t, n.Restart(context.WithoutCancel(t.Context()))) })
		})
	})
	t.Run("killed after the decision", func(t *testing.T) {
		commit(t, func(n *streamtest.Apache) {
			f := network.add(&networkFault{key: protocol.EndTxn, answer: true, left: 1, then: func() { assert.NoError(t, n.Kill()) }})
			t.Cleanup(func() {
				assert.Equal(t, 1, f.hits())
				require.NoError(t, n.Restart(context.WithoutCancel(t.Context())))
			})
		})
	})
	t.Run("paused", func(t *testing.T) {
		commit(t, func(n *streamtest.Apache) {
			require.NoError(t, n.Pause())
			t.Cleanup(func() { require.NoError(t, n.Resume()) })
		})
	})
	t.Run("all restarted", func(t *testing.T) {
		restarted := make(chan error, len(cluster.Nodes))
		commit(t, func(*streamtest.Apache) {
			for _, n := range cluster.Nodes {
				require.NoError(t, n.Kill())
			}
			for _, n := range cluster.Nodes {
				go func() { restarted <- n.Restart(t.Context()) }()
			}
		})
		for range cluster.Nodes {
			require.NoError(t, <-restarted)
		}
	})
	commit(t, func(*streamtest.Apache) {})
}

// librdkafka, through kcat, reads the same committed records as we do, with
// transactions committed, aborted and open.
func TestKcatReadsTheSame(t *testing.T) {
	kcat := findKcat(t)
	streamtest.Each(t, func(t *testing.T, addr string) {
		c := dial(t, addr)
		out := newTopic(t, c, 3)
		rng := rand.New(rand.NewPCG(7, 7))
		transactors := []*Transactor{
			newTransactor(t, c, out+"-1", ProducerConfig{}),
			newTransactor(t, c, out+"-2", ProducerConfig{Zstd: []string{out}}),
		}
		committed, total := 0, 0
		for i := range 60 {
			tr, n := transactors[rng.IntN(2)], 1+rng.IntN(5)
			for j := range n {
				transact(t, tr, out, int32(rng.IntN(3)), fmt.Sprint(i, ".", j))
			}
			total += n
			if rng.IntN(3) == 0 {
				require.NoError(t, tr.Hold(t.Context())) // so that there is something to abort
				require.NoError(t, tr.Abort(t.Context()))
				continue
			}
			require.NoError(t, tr.Commit(t.Context(), nil))
			committed += n
		}
		want := visible(t, c, out)
		transact(t, transactors[0], out, 0, "open")
		require.NoError(t, transactors[0].Hold(t.Context()))
		total++
		read := func(isolation string) map[int32][]string {
			cmd := exec.CommandContext(t.Context(), kcat, "-b", addr, "-t", out, "-C", "-e", "-q", "-o", "beginning", "-f", "%p %s\n", "-X", "isolation.level="+isolation)
			cmd.Stderr = os.Stderr
			text, err := cmd.Output()
			require.NoError(t, err)
			got := make(map[int32][]string)
			for line := range bytes.Lines(text) {
				var partition int32
				var v string
				_, err := fmt.Sscanf(string(line), "%d %s", &partition, &v)
				require.NoError(t, err, "%q", line)
				got[partition] = append(got[partition], v)
			}
			return got
		}
		count := func(records map[int32][]string) int {
			n := 0
			for _, values := range records {
				n += len(values)
			}
			return n
		}
		assert.Equal(t, want, read("read_committed"))
		assert.Equal(t, want, contents(t, c, out))
		assert.Equal(t, committed, count(want))
		all := read("read_uncommitted")
		assert.Equal(t, total, count(all), "what was aborted is in the log")
		assert.True(t, slices.ContainsFunc(all[0], func(v string) bool { return strings.Contains(v, "open") }))
	})
}
