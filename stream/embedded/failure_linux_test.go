package embedded

import (
	"context"
	"io/fs"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// fillDisk lets no file of the process become longer than a topic's log in a broker's folder is now, until
// the function is called that it returns.
func fillDisk(t *testing.T, dir, topic string) (release func()) {
	t.Helper()
	longest := int64(0)
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "log"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, topic) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			longest = max(longest, info.Size())
		}
		return err
	}))
	require.Positive(t, longest)
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	signal.Ignore(syscall.SIGXFSZ) // writes fail then, and the process goes on
	release = func() {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		signal.Reset(syscall.SIGXFSZ)
	}
	t.Cleanup(release)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(longest), Max: before.Max}))
	return release
}

// TestFullDisk: nobody gets an answer that a record is in the log which isn't, and the broker says that it has
// failed. Sent again, the record would be answered as a repetition.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	b := open(t, Config{DataDir: dir})
	require.NoError(t, b.Err())
	c := dial(t, b)
	require.NoError(t, c.EnsureTopics(t.Context(), stream.NewTopics("").Settings(1), 1))
	p, err := kafka.NewProducer(t.Context(), c, kafka.ProducerConfig{DeliveryTimeout: time.Second})
	require.NoError(t, err)
	send := func(value string) <-chan error {
		done := make(chan error, 1)
		require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: "signal", Key: []byte("k"), Value: []byte(value)}}, func(err error) { done <- err }))
		return done
	}
	first := strings.Repeat("first ", 100)
	require.NoError(t, <-send(first))
	release := fillDisk(t, dir, "signal")
	require.ErrorContains(t, <-send("second"), "not acknowledged within 1s", "it is not in the log")
	<-b.Failed()
	release() // what comes now could be written
	require.ErrorContains(t, b.Err(), "embedded broker: its log in "+dir+" can't be written, and records would be lost: persist batch signal-0: ")
	require.ErrorContains(t, b.Err(), syscall.EFBIG.Error())
	closing, stop := context.WithCancel(t.Context())
	stop()
	_ = p.Close(closing)
	c.Close()
	require.NoError(t, b.Close())

	c = dial(t, open(t, Config{DataDir: dir}))
	var got []string
	require.NoError(t, c.Consume(t.Context(), "signal", kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(r stream.Record) error {
		got = append(got, string(r.Value))
		return nil
	}))
	require.Equal(t, []string{first}, got)
}
