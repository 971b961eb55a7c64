package cli

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestTopicPrefix has a prefix that Kafka would refuse in a topic's name refused before anything is sent.
func TestTopicPrefix(t *testing.T) {
	t.Parallel()
	for prefix, good := range map[string]bool{
		"": true, "lab1.": true, "A_b-c.": true, strings.Repeat("x", longestPrefix): true,
		"a b": false, "lab/": false, "labör-": false, "a,b": false, strings.Repeat("x", longestPrefix+1): false,
	} {
		var f KafkaFlags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(flags)
		require.NoError(t, flags.Parse([]string{"--brokers", "kafka:9092", "--topic-prefix", prefix}))
		_, err := f.Config(slog.New(slog.DiscardHandler), nil)
		if good {
			require.NoError(t, err, prefix)
			continue
		}
		require.ErrorContains(t, err, "--topic-prefix")
		require.True(t, isUsage(err))
	}
}
