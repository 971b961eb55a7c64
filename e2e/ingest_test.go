package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// ingesting is a running ingest.
type ingesting struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
}

func startIngest(t *testing.T, broker, prefix string, args ...string) *ingesting {
	t.Helper()
	p := &ingesting{stderr: new(bytes.Buffer)}
	p.cmd = exec.Command(filepath.Join(bin, "ingest"), append([]string{
		"--brokers", broker, "--topic-prefix", prefix, "--partitions", "3", "--listen", "127.0.0.1:0", lambda("reads.pod5"),
	}, args...)...)
	p.cmd.Stderr = p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// awaitSignal waits for more records on the signal topic than there are.
func awaitSignal(t *testing.T, client *kafka.Client, topic string) {
	t.Helper()
	records := func() (n int64) {
		offsets, err := client.Offsets(t.Context(), topic)
		require.NoError(t, err)
		for _, o := range offsets {
			n += o.Stable
		}
		return n
	}
	before := records()
	streamtest.Eventually(t.Context(), t, "signal", func() bool { return records() > before+100 })
}

// committed waits until what was committed on a topic can be read: a commit is
// decided before all of its markers are written.
func committed(t *testing.T, client *kafka.Client, topic string) {
	t.Helper()
	streamtest.Eventually(t.Context(), t, "the end of the last transaction", func() bool {
		offsets, err := client.Offsets(t.Context(), topic)
		require.NoError(t, err)
		for _, o := range offsets {
			if o.Stable < o.End {
				return false
			}
		}
		return true
	})
}

// committedSignal is the signal topic, by partition.
func committedSignal(t *testing.T, client *kafka.Client, topic string) [3][]string {
	t.Helper()
	committed(t, client, topic)
	var out [3][]string
	err := client.Consume(t.Context(), topic, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		out[rec.Partition] = append(out[rec.Partition], string(rec.Key)+"="+string(rec.Value))
		return nil
	})
	require.NoError(t, err)
	return out
}

// TestIngestKilled kills ingest again and again, and starts a second one beside
// it: the signal topic is the one of an ingest that nothing happens to.
func TestIngestKilled(t *testing.T) {
	t.Parallel()
	streamtest.Each(t, func(t *testing.T, broker string) {
		client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{broker}})
		require.NoError(t, err)
		defer client.Close()
		topic := stream.NewTopics("killed-").Signal
		require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("killed-").Settings(3), 1))
		whole := startIngest(t, broker, "whole-")
		require.NoError(t, whole.cmd.Wait(), whole.stderr)
		spool := filepath.Join(t.TempDir(), "spool")
		for range 3 {
			p := startIngest(t, broker, "killed-", "--pace", "200", "--spool", spool)
			awaitSignal(t, client, topic)
			require.NoError(t, p.cmd.Process.Kill())
			require.Error(t, p.cmd.Wait())
		}
		older := startIngest(t, broker, "killed-", "--pace", "20", "--spool", spool)
		awaitSignal(t, client, topic)
		second := startIngest(t, broker, "killed-")
		require.NoError(t, second.cmd.Wait(), second.stderr)
		require.Error(t, older.cmd.Wait())
		require.Equal(t, 1, older.cmd.ProcessState.ExitCode(), older.stderr)
		lines := strings.Split(strings.TrimSpace(older.stderr.String()), "\n")
		require.Contains(t, lines[len(lines)-1], "ingest: run f7c95112c35c42bc2983752717adc93133266cdf: another ingest process has taken over the run")
		require.Contains(t, second.stderr.String(), "going on where an earlier ingest stopped")
		want := committedSignal(t, client, stream.NewTopics("whole-").Signal)
		require.NotEmpty(t, want[0])
		got := committedSignal(t, client, topic)
		for i := range want {
			require.Len(t, got[i], len(want[i]), "partition %d", i)
			require.True(t, strings.Join(got[i], "") == strings.Join(want[i], ""), "partition %d has other records", i)
		}

		again := startIngest(t, broker, "killed-")
		require.NoError(t, again.cmd.Wait(), again.stderr)
		require.Contains(t, again.stderr.String(), "the run is in Kafka to its end: nothing is sent")
		require.Equal(t, got, committedSignal(t, client, topic))
		left, err := os.ReadDir(spool)
		require.NoError(t, err)
		require.LessOrEqual(t, len(left), 2)
	})
}
