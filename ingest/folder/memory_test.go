package folder

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// live is what the heap and the stacks hold that is in use, in bytes.
func live() int64 {
	runtime.GC()
	runtime.GC() // what finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestKnownReadsTakeNoMemory holds the set of a run's reads to what docs/attach/folders.md says of it: beyond the reads that
// are kept in memory it has a key of 16 bytes for each page of 256, and less than 2 kB for each file on disk.
func TestKnownReadsTakeNoMemory(t *testing.T) {
	const (
		limit = 1 << 14
		n     = 4 * limit
		more  = 9 * n
	)
	s := newSeen(t.TempDir(), limit)
	defer s.close()
	fill := func(from, to int) int64 {
		for i := from; i < to; i++ {
			require.NoError(t, s.add(fmt.Sprint("read-", i), uint32(i)))
		}
		return live()
	}
	few := fill(0, n)
	many := fill(n, 10*n)
	t.Logf("%.3f bytes a read", float64(many-few)/more)
	require.Less(t, many-few, int64(more*16/pageKeys+more/limit*2<<10))
	for i := range 10 * n {
		if i%97 > 0 {
			continue
		}
		known, sum, err := s.has(fmt.Sprint("read-", i))
		require.NoError(t, err)
		require.True(t, known)
		require.EqualValues(t, i, sum)
	}
	known, _, err := s.has("another")
	require.NoError(t, err)
	require.False(t, known)
}

// countingFeed is a feed that keeps nothing.
type countingFeed struct {
	at    ingest.Position
	reads int
}

func (f *countingFeed) Position() ingest.Position                           { return f.at }
func (*countingFeed) ChunkSamples() int                                     { return testChunk }
func (*countingFeed) Partitions() int32                                     { return testPartitions }
func (*countingFeed) Flush(context.Context) error                           { return nil }
func (*countingFeed) End(context.Context) error                             { return nil }
func (*countingFeed) Put(context.Context, *signal.Read, []int16, int) error { return nil }
func (f *countingFeed) PutCalled(_ context.Context, _ *ingest.Called) error { f.reads++; return nil }
func (f *countingFeed) sink(ctx context.Context, run *streampb.Run, fn func(context.Context, Feed) error) error {
	if err := f.at.Begin(run, testChunk, testPartitions); err != nil {
		return err
	}
	return fn(ctx, f)
}

// TestMoreReadsTakeNoMoreMemory reads folders of gzipped FASTQ, of N files and of ten times as many, found all at
// once. While they are read and afterwards memory is that of the files that are read by turns; a file that was read
// to its end takes less than 4 kB, and a read what the set of known reads has for those that are not on disk yet.
func TestMoreReadsTakeNoMoreMemory(t *testing.T) {
	const (
		readsOfFile = 300 // more than a batch
		files       = 20
		ofFile      = 4 << 10
		ofRead      = 56
		// byTurns is for the files that are read by turns, what is decompressed ahead of each and its window.
		byTurns = (maxUnderWay + newestTurns) * 160 << 10
	)
	var few, many [2]int64
	few[0], few[1] = readFolder(t, files, readsOfFile)
	many[0], many[1] = readFolder(t, 10*files, readsOfFile)
	t.Logf("%d and %d files of %d reads: %d and %d kB while they are read, %d and %d kB after", files, 10*files, readsOfFile,
		few[0]>>10, many[0]>>10, few[1]>>10, many[1]>>10)
	const more = 9 * files * (ofFile + ofRead*readsOfFile)
	require.Less(t, many[0]-few[0], int64(byTurns+more), "while they are read")
	require.Less(t, many[1]-few[1], int64(more), "afterwards")
}

// readFolder returns how much memory is taken while the files are read, at most, and afterwards.
func readFolder(t *testing.T, files, reads int) (most, after int64) {
	t.Helper()
	v := &world{t: t, dir: t.TempDir(), journal: t.TempDir(), now: time.Unix(1e9, 0)}
	rng := rand.New(rand.NewPCG(1, 1))
	bases, quality := make([]byte, 400), strings.Repeat("5", 400)
	for n := range files {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		require.NoError(t, err)
		for i := range reads {
			for k := range bases {
				bases[k] = "ACGT"[rng.IntN(4)]
			}
			_, err := fmt.Fprintf(z, "@read-%d-%d runid=r\n%s\n+\n%s\n", n, i, bases, quality)
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		v.write(filepath.Join(v.dir, "fastq_pass", fmt.Sprintf("x_%d.fastq.gz", n)), b.Bytes())
	}
	feed := new(countingFeed)
	v.cfg = Config{Dirs: []string{v.dir}, Files: &ReadFiles{Roots: []string{v.dir}}, Journal: v.journal, Topic: "called", Sink: feed.sink}
	before := live()
	require.NoError(t, v.start())
	l, err := list(v.cfg.Dirs, v.cfg.Files)
	require.NoError(t, err)
	v.w.take(l, v.now)
	for more := true; more; {
		more, err = v.w.poll(v.ctx, v.now)
		require.NoError(t, err)
		most = max(most, live()-before)
	}
	require.Equal(t, files*reads, feed.reads)
	after = live() - before
	v.stop()
	return most, after
}

// TestFilesUnderWayAlwaysHaveTheirTurn: files under way and the newest always have their turn, and a few of the others.
func TestFilesUnderWayAlwaysHaveTheirTurn(t *testing.T) {
	var due []*tracked
	for range 100 {
		due = append(due, new(tracked))
	}
	now, later := turns(due[:maxUnderWay])
	require.Len(t, now, maxUnderWay)
	require.False(t, later)
	now, later = turns(due)
	require.True(t, later)
	require.Len(t, now, maxUnderWay)
	require.Same(t, due[0], now[0])
	require.Same(t, due[99], now[maxUnderWay-1])
	for _, f := range due[20:60] {
		f.more = true
	}
	now, later = turns(due)
	require.True(t, later)
	require.Len(t, now, 40+newestTurns)
	for _, f := range due {
		f.more = false
	}
	for range 100 { // each has its turn in the end
		if now, later = turns(due); !later {
			return
		}
		due = due[len(now)/2:]
	}
	t.Fatal("files wait for ever")
}
