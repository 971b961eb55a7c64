package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// recordingVariable names another recording of lambda to measure with than the
// shipped one.
const recordingVariable = "PORESTREAM_RECORDING"

func recording() string {
	if path := os.Getenv(recordingVariable); path != "" {
		return path
	}
	return lambda("reads.pod5")
}

// broker starts a broker: an Apache Kafka where its jars are, else the embedded one.
func broker(b *testing.B) string {
	b.Helper()
	if lib := os.Getenv(streamtest.LibVariable); lib != "" {
		apache, err := streamtest.StartApache(b.Context(), streamtest.ApacheConfig{Lib: lib, Dir: b.TempDir()})
		require.NoError(b, err)
		b.Cleanup(func() { apache.Stop() })
		return apache.Addr
	}
	kfake, err := embedded.Start(embedded.Config{DataDir: filepath.Join(b.TempDir(), "broker")})
	require.NoError(b, err)
	b.Cleanup(func() { kfake.Close() })
	return kfake.Addr()
}

// timed runs pore and returns how long it took by the clock and on the processor.
func timed(b *testing.B, args ...string) (wall, cpu time.Duration) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), filepath.Join(bin, "pore"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("pore %v: %v\n%s", args, err, stderr.String())
	}
	return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// BenchmarkWholePath compares the whole path, from a recording through Kafka to
// annotated variants, with the offline engine, which only basecalls: samples per
// second of one by those of the other, in turns on the same recording. The
// broker, embedded, is among what is measured.
func BenchmarkWholePath(b *testing.B) {
	for _, delivery := range []string{"exactly-once", "at-least-once"} {
		b.Run(delivery, func(b *testing.B) {
			var engineWall, engineCPU, pathWall, pathCPU time.Duration
			engine := func() {
				wall, cpu := timed(b, "basecall", "--device", "cpu", "--format", "fastq", recording())
				engineWall, engineCPU = engineWall+wall, engineCPU+cpu
			}
			path := func() {
				wall, cpu := timed(b, "run", "--device", "cpu", "--delivery", delivery, "--out", b.TempDir(),
					"--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), recording())
				pathWall, pathCPU = pathWall+wall, pathCPU+cpu
			}
			n := 0
			for b.Loop() {
				// Who goes first changes, as machines slow down when they get warm.
				if n++; n%2 == 1 {
					engine()
					path()
				} else {
					path()
					engine()
				}
			}
			b.ReportMetric(engineWall.Seconds()/pathWall.Seconds(), "of-the-engine")
			b.ReportMetric(engineCPU.Seconds()/pathCPU.Seconds(), "of-the-engine-by-CPU")
			b.ReportMetric(pathWall.Seconds()/float64(n), "path-s")
			b.ReportMetric(engineWall.Seconds()/float64(n), "engine-s")
		})
	}
}

// BenchmarkRestore kills a processor that has just worked a recording off at full
// speed, with all of it in one partition, and measures how long the next one takes
// from the assignment of that partition of each stage until it is live: its
// snapshot and what came behind it, through the broker.
func BenchmarkRestore(b *testing.B) {
	addr := broker(b)
	ctx, cancel := context.WithCancelCause(b.Context())
	defer cancel(nil)
	client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{addr}})
	require.NoError(b, err)
	defer client.Close()
	require.NoError(b, client.EnsureTopics(ctx, stream.NewTopics("").Settings(1), 1))
	processor := func() (*service, string) {
		listen := freeAddress(b)
		return start(b, cancel, "processor", "--brokers", addr, "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"),
			"--session-timeout", "10s", "--drain-timeout", "5s", "--listen", listen), "http://" + listen + "/metrics"
	}
	kill := func(s *service) {
		require.NoError(b, s.cmd.Process.Kill())
		<-s.exited
	}
	first, _ := processor()
	start(b, cancel, "ingest", "--brokers", addr, "--listen", "127.0.0.1:0", recording()).ended(b)
	follow(ctx, b, client, nil)
	kill(first)

	const stages = 3
	longest, replayed := 0.0, 0.0
	for b.Loop() {
		next, url := processor()
		for metric(url, "porestream_stream_restore_duration_seconds_count") < stages {
			select {
			case <-ctx.Done():
				b.Fatal(context.Cause(ctx))
			case <-time.After(20 * time.Millisecond):
			}
		}
		longest = max(longest, metric(url, "porestream_stream_restore_duration_seconds_sum"))
		replayed = max(replayed, metric(url, "porestream_stream_replayed_records_total"))
		kill(next)
	}
	b.ReportMetric(longest, "restore-s")
	b.ReportMetric(replayed, "replayed")
}
