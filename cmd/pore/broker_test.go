package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// startedBroker runs pore broker and returns the address that it prints, and what stops it.
func startedBroker(t *testing.T, dir string) (addr string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, printed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		cmd := command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(printed)
		cmd.SetArgs([]string{"broker", "--listen", "127.0.0.1:0", "--data", dir})
		err := cmd.ExecuteContext(ctx)
		printed.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "no address: %v", lines.Err())
	_, rest, _ := strings.Cut(lines.Text(), "Kafka broker on ")
	addr, _, found := strings.Cut(rest, ",")
	require.True(t, found, lines.Text())
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return addr, func() {
		cancel()
		assert.NoError(t, <-ended)
	}
}

func TestBrokerGoesOnWithItsLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	connect := func(addr string) *kafka.Client {
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{addr}})
		require.NoError(t, err)
		return client
	}
	addr, stop := startedBroker(t, dir)
	client := connect(addr)
	require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(3), 1))
	client.Close()

	r := pore(t, "broker", "--listen", addr, "--data", t.TempDir())
	require.ErrorContains(t, r.err, "address already in use: something listens there already, a broker perhaps; name another port with --listen, or 0 for a free one")
	r = pore(t, "broker", "--listen", "127.0.0.1:0", "--data", dir)
	require.ErrorContains(t, r.err, "is in use by another broker")
	stop()

	addr, stop = startedBroker(t, dir)
	defer stop()
	client = connect(addr)
	defer client.Close()
	n, err := client.Partitions(t.Context(), "signal")
	require.NoError(t, err)
	assert.Equal(t, 3, n)
}
