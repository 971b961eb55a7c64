package streamtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// lib is the folder with the jars of Apache Kafka.
func lib(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(streamtest.LibVariable)
	if dir == "" {
		t.Skipf("%s is not set: see stream/streamtest/kafka/fetch.sh", streamtest.LibVariable)
	}
	return dir
}

// What is acknowledged survives each fault of one node, and every fault ends.
func TestCluster(t *testing.T) {
	c, err := streamtest.StartCluster(t.Context(), streamtest.ClusterConfig{
		ApacheConfig: streamtest.ApacheConfig{Lib: lib(t), Dir: t.TempDir()}, Proxies: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Stop()) })
	require.Len(t, c.Addrs(), 3)
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: c.Addrs(), RequestTimeout: 3 * time.Second})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "t", Partitions: 3}}, 3))
	p, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		assert.NoError(t, p.Close(ctx))
	})
	written := 0
	write := func(t *testing.T) {
		var outs []stream.Out
		for partition := range int32(3) {
			outs = append(outs, stream.Out{Topic: "t", Partition: partition, Value: fmt.Append(nil, written)})
		}
		require.NoError(t, p.Send(t.Context(), outs, nil))
		require.NoError(t, p.Flush(t.Context()))
		written++
	}
	write(t)
	for i, n := range c.Nodes {
		t.Run(fmt.Sprintf("kill %d", n.ID), func(t *testing.T) {
			require.True(t, n.Running())
			require.NoError(t, n.Kill())
			require.False(t, n.Running())
			write(t)
			require.NoError(t, n.Restart(t.Context()))
			require.ErrorContains(t, n.Restart(t.Context()), "it runs")
			write(t)
		})
		if i > 0 {
			continue // one is enough for what follows
		}
		t.Run("pause", func(t *testing.T) {
			require.NoError(t, n.Pause())
			write(t)
			require.NoError(t, n.Resume())
			write(t)
		})
		t.Run("cut and delay", func(t *testing.T) {
			n.Delay(20 * time.Millisecond)
			start := time.Now()
			reach(t, n)
			assert.GreaterOrEqual(t, time.Since(start), 40*time.Millisecond)
			n.Cut()
			_, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{n.Addr}, DialTimeout: 200 * time.Millisecond})
			require.ErrorContains(t, err, "no answer within")
			write(t)
			n.Heal()
			reach(t, n)
		})
	}
	seen := make(map[string]int)
	require.NoError(t, client.Consume(t.Context(), "t", kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(r stream.Record) error {
		seen[fmt.Sprintf("%d/%s", r.Partition, r.Value)]++
		return nil
	}))
	for partition := range 3 {
		for i := range written {
			assert.Equal(t, 1, seen[fmt.Sprintf("%d/%d", partition, i)], "record %d of partition %d", i, partition)
		}
	}
}

// reach connects to one node.
func reach(t *testing.T, n *streamtest.Apache) {
	t.Helper()
	c, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{n.Addr}})
	require.NoError(t, err)
	c.Close()
}

// A broker that is stopped ends with the process that started it, even if that
// is killed and the broker paused.
func TestApacheEndsWithItsProcess(t *testing.T) {
	const variable = "PORESTREAM_STREAMTEST_CHILD"
	if dir := os.Getenv(variable); dir != "" {
		b, err := streamtest.StartApache(t.Context(), streamtest.ApacheConfig{Lib: lib(t), Dir: dir})
		require.NoError(t, err)
		require.NoError(t, b.Pause())
		fmt.Fprintln(os.Stderr, "paused", b.Addr)
		select {}
	}
	lib(t)
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.CommandContext(t.Context(), self, "-test.run", "^TestApacheEndsWithItsProcess$")
	child.Env = append(os.Environ(), variable+"="+t.TempDir())
	said, err := child.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	var addr string
	_, err = fmt.Fscanf(said, "paused %s", &addr)
	require.NoError(t, err)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	streamtest.Eventually(t.Context(), t, "the broker's end", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close() // the kernel accepts for a process that is paused
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}
