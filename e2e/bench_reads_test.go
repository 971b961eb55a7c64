package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/testenv"
)

// simulatedBAM writes reads of lambda as MinKNOW does, without barcodes, in one BAM file.
func simulatedBAM(b testing.TB, duration string) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "run")
	res := pore(b, "simulate", "folder", "--ref", lambda("reference.fa"), "--profile", "r10.4.1-2pct", "--barcoded", "0", "--failing", "0", "--rotate", "0", "--format", "bam",
		"--pace", "max", "--duration", duration, "--circular", "--sample", "lambda", "--out", dir)
	require.Zero(b, res.code, res.stderr)
	files, err := filepath.Glob(filepath.Join(dir, "bam_pass", "*.bam"))
	require.NoError(b, err)
	require.Len(b, files, 1)
	return files[0]
}

// readBAM is what is in a file of called reads.
func readBAM(b testing.TB, path string) (reads []*input.Read, bases int) {
	b.Helper()
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	in, err := input.NewReader(f, cram.Options{})
	require.NoError(b, err)
	for {
		r, err := in.Next()
		if errors.Is(err, io.EOF) {
			return reads, bases
		}
		require.NoError(b, err)
		reads = append(reads, r)
		bases += len(r.Sequence)
	}
}

// used is what a process that has ended took of processors and, at most, of memory in bytes.
func used(s *service) (cpu time.Duration, peak int64) {
	cpu = s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
	if usage, ok := s.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		peak = usage.Maxrss << 10
	}
	return cpu, peak
}

// bareMinimap2 has libminimap2 alone align reads on all cores, and says what that took.
func bareMinimap2(b testing.TB, reads []*input.Read) (wall, cpu time.Duration) {
	b.Helper()
	g, err := genome.Load(lambda("reference.fa"))
	require.NoError(b, err)
	index, err := minimap.NewIndex(g, minimap.Config{})
	require.NoError(b, err)
	defer index.Close()
	var next atomic.Int64
	var group sync.WaitGroup
	began, before := time.Now(), testenv.ProcessorTime(b)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			a := index.NewAligner()
			defer a.Close()
			for i := next.Add(1) - 1; i < int64(len(reads)); i = next.Add(1) - 1 {
				if _, err := a.Map(reads[i].ID, reads[i].Sequence); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	return time.Since(began), testenv.ProcessorTime(b) - before
}

// awaitEnd waits until each partition of a topic has its marker of a run's end, by what is
// there of it: the marker is the last record.
func awaitEnd(ctx context.Context, b testing.TB, client *kafka.Client, topic string, end func(stream.Record) (bool, error)) {
	b.Helper()
	partitions, err := client.Partitions(ctx, topic)
	require.NoError(b, err)
	seen := make(map[int32]bool)
	done := errors.New("all have ended")
	err = client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
		ended, err := end(rec)
		if err != nil {
			return err
		}
		if ended {
			seen[rec.Partition] = true
		}
		if len(seen) == partitions {
			return done
		}
		return nil
	})
	require.ErrorIs(b, err, done, "%v", context.Cause(ctx))
}

// BenchmarkCalledReads is the way of called reads from a BAM file to committed records, and
// from there to committed alignments beside libminimap2 alone on the same reads and cores:
// bases by the processor time of ingest and of the processor, their starts included. The
// broker is in the benchmark's own process.
func BenchmarkCalledReads(b *testing.B) {
	path := simulatedBAM(b, "5m")
	reads, bases := readBAM(b, path)
	addr := broker(b)
	client := connect(b.Context(), b, addr)
	var ingestCPU, alignCPU, alignWall, bareCPU, bareWall time.Duration
	n := 0
	for b.Loop() {
		n++
		prefix := fmt.Sprintf("bench%d-", n)
		topics := stream.NewTopics(prefix)
		require.NoError(b, client.EnsureTopics(b.Context(), topics.Settings(3), 1))
		ctx, cancel := context.WithCancelCause(b.Context())
		ingest := start(b, cancel, "ingest", "reads", "--brokers", addr, "--topic-prefix", prefix, "--journal", b.TempDir(), "--listen", "127.0.0.1:0", path)
		ingest.ended(b)
		cpu, _ := used(ingest)
		ingestCPU += cpu

		wall, bare := bareMinimap2(b, reads)
		bareWall, bareCPU = bareWall+wall, bareCPU+bare

		began := time.Now()
		processor := start(b, cancel, "processor", "--brokers", addr, "--topic-prefix", prefix, "--ref", lambda("reference.fa"), "--stages", "align", "--listen", "127.0.0.1:0", "--no-page")
		awaitEnd(ctx, b, client, topics.Reads, func(rec stream.Record) (bool, error) {
			m, err := stream.DecodeReads(rec.Value)
			return m.GetRunEnd() != nil, err
		})
		alignWall += time.Since(began)
		processor.stop(b)
		cpu, _ = used(processor)
		alignCPU += cpu
		cancel(nil)
	}
	total := float64(bases) * float64(n)
	b.ReportMetric(total/ingestCPU.Seconds(), "ingest-bases/core-s")
	b.ReportMetric(total/alignCPU.Seconds(), "align-bases/core-s")
	b.ReportMetric(total/bareCPU.Seconds(), "minimap2-bases/core-s")
	b.ReportMetric(bareCPU.Seconds()/alignCPU.Seconds(), "of-minimap2-by-CPU")
	b.ReportMetric(bareWall.Seconds()/alignWall.Seconds(), "of-minimap2")
}
