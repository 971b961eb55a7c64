package embedded

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

func open(t *testing.T, cfg Config) *Broker {
	t.Helper()
	b, err := Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func dial(t *testing.T, b *Broker) *kafka.Client {
	t.Helper()
	c, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{b.Addr()}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestLogOutlivesTheBroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	topics := stream.NewTopics("").Settings(2)
	for round := range 3 {
		b := open(t, Config{DataDir: dir})
		c := dial(t, b)
		require.NoError(t, c.EnsureTopics(t.Context(), topics, 1))
		p, err := kafka.NewProducer(t.Context(), c, kafka.ProducerConfig{})
		require.NoError(t, err)
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: "signal", Partition: 1, Key: []byte("k"), Value: []byte{byte(round)}}}, nil))
		require.NoError(t, p.Close(t.Context()))
		var got []byte
		require.NoError(t, c.Consume(t.Context(), "signal", kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(r stream.Record) error {
			assert.EqualValues(t, len(got), r.Offset)
			got = append(got, r.Value...)
			return nil
		}))
		assert.Equal(t, []byte{0, 1, 2}[:round+1], got)
		c.Close()
		require.NoError(t, b.Close())
		require.NoError(t, b.Close(), "closing again")
	}
}

func TestNothingIsCreatedByAsking(t *testing.T) {
	c := dial(t, open(t, Config{DataDir: t.TempDir()}))
	_, err := c.Partitions(t.Context(), "signal")
	require.ErrorContains(t, err, "topic signal does not exist")
}

func TestStartRefuses(t *testing.T) {
	used := filepath.Join(t.TempDir(), "used")
	b := open(t, Config{DataDir: used})
	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "reads.pod5"), nil, 0o600))
	file := filepath.Join(foreign, "reads.pod5")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	tests := map[string]struct {
		cfg     Config
		wantErr string
	}{
		"no folder":            {Config{}, "no data folder"},
		"folder in use":        {Config{DataDir: used}, "data folder " + used + " is in use by another broker"},
		"folder of others":     {Config{DataDir: foreign}, "holds files that are not a broker's"},
		"a file":               {Config{DataDir: file}, "not a directory"},
		"open to all":          {Config{DataDir: t.TempDir(), Listen: "0.0.0.0:0"}, "not a loopback address"},
		"open to all, by name": {Config{DataDir: t.TempDir(), Listen: ":9092"}, "not a loopback address"},
		"no port":              {Config{DataDir: t.TempDir(), Listen: "127.0.0.1"}, "want host:port"},
		"port taken":           {Config{DataDir: t.TempDir(), Listen: taken.Addr().String()}, "address already in use"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Start(tc.cfg)
			require.ErrorContains(t, err, "starting embedded broker: ")
			require.ErrorContains(t, err, tc.wantErr)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
	dial(t, b)
}

// A folder that was refused or given up is free again.
func TestFolderIsReleased(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(Config{DataDir: dir, Listen: "127.0.0.1:99999"})
	require.Error(t, err)
	require.NoError(t, open(t, Config{DataDir: dir}).Close())
	open(t, Config{DataDir: dir})
}

func TestBrokenLogIsNamed(t *testing.T) {
	dir := t.TempDir()
	b := open(t, Config{DataDir: dir})
	c := dial(t, b)
	require.NoError(t, c.EnsureTopics(t.Context(), stream.NewTopics("").Settings(1), 1))
	c.Close()
	require.NoError(t, b.Close())
	broken := 0
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "log"), func(path string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".json" {
			broken++
			return os.WriteFile(path, []byte("{{"), 0o600)
		}
		return err
	}))
	require.Positive(t, broken)
	_, err := Start(Config{DataDir: dir})
	require.ErrorContains(t, err, "opening the log in "+dir)
	require.ErrorContains(t, err, "to begin anew, remove that folder")
}

func TestQuietAtInfo(t *testing.T) {
	var log bytes.Buffer
	b := open(t, Config{DataDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := dial(t, b)
	require.NoError(t, c.EnsureTopics(t.Context(), stream.NewTopics("").Settings(1), 1))
	c.Close()
	require.NoError(t, b.Close())
	assert.Empty(t, log.String())
}
