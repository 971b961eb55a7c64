package processor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// TestProcessorStoppedWhileItStarts ends in order, as one that is stopped later does.
func TestProcessorStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: streamtest.Kfake(t).ListenAddrs()})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	p := New(client, new(Engines), Config{Topics: stream.NewTopics("")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Run(ctx))
}
