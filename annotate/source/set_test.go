package source

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// release compiles release n of a source with a record for each allele of a position: the value is n everywhere.
func release(t testing.TB, g *genome.Genome, name string, n int, path string) {
	t.Helper()
	var lines []string
	for pos := 1; pos <= 20; pos++ {
		lines = append(lines, fmt.Sprintf("a %d id%d A C,G,T . . N=%d", pos, n, n))
	}
	in := filepath.Join(t.TempDir(), "in.vcf")
	require.NoError(t, os.WriteFile(in, []byte(vcfText([]string{"N 1 Integer"}, lines...)), 0o600))
	_, err := Compile(t.Context(), Config{Genome: g, Name: name, Version: fmt.Sprint(n)}, in, path)
	require.NoError(t, err)
}

// TestSwapDuringLookups replaces both of two sources again and again while readers ask for variants: what one variant
// gets is whole and of one generation, and generations never go back.
func TestSwapDuringLookups(t *testing.T) {
	g := readGenome(t, ">a\n"+strings.Repeat("A", 20)+"\n")
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "x.pss"), filepath.Join(dir, "y.pss")}
	const releases = 30
	prepared := make([][2]string, releases)
	for n := range releases {
		for i, name := range []string{"x", "y"} {
			prepared[n][i] = filepath.Join(dir, fmt.Sprintf("%s.%d", name, n))
			release(t, g, name, n, prepared[n][i])
		}
	}
	install := func(n int) {
		for i := range paths {
			require.NoError(t, os.Rename(prepared[n][i], paths[i]))
		}
	}
	install(0)
	set, err := OpenSet(g, paths...)
	require.NoError(t, err)

	var stop atomic.Bool
	var asked atomic.Int64
	var readers sync.WaitGroup
	for reader := range 4 {
		readers.Go(func() {
			last := ""
			for i := reader; !stop.Load(); i++ {
				c := annotate.Change{Contig: g.Contigs[0], Start: i % 20, End: i%20 + 1, Ref: "A", Alt: "CGT"[i%3 : i%3+1]}
				known, err := set.AppendKnown(nil, c)
				if err != nil || len(known) != 2 {
					t.Errorf("%d entries, error %v", len(known), err)
					return
				}
				x, y := known[0], known[1]
				if x.Source != "x" || y.Source != "y" || x.Version != y.Version || x.ID != "id"+x.Version || y.ID != x.ID ||
					x.Fields[0].Value != x.Version || y.Fields[0].Value != x.Version || x.Date != "2026-11-01" {
					t.Errorf("a mixed record: %+v %+v", x, y)
					return
				}
				if len(x.Version) < len(last) || len(x.Version) == len(last) && x.Version < last {
					t.Errorf("version %s after %s", x.Version, last)
					return
				}
				last = x.Version
				asked.Add(1)
			}
		})
	}
	stores := map[*Store]bool{}
	for n := 1; n < releases; n++ {
		for before := asked.Load(); asked.Load() < before+100 && !t.Failed(); {
		}
		for _, s := range set.current.Load().stores {
			stores[s] = true
		}
		install(n)
		changed, err := set.Reload()
		require.NoError(t, err)
		require.True(t, changed)
		changed, err = set.Reload()
		require.NoError(t, err)
		require.False(t, changed, "nothing was replaced")
	}
	stop.Store(true)
	readers.Wait()
	require.Len(t, stores, 2*(releases-1))
	for s := range stores {
		require.Zero(t, s.refs.Load(), "an old file is still mapped")
	}
	require.Equal(t, fmt.Sprint(releases-1), set.Describe()[0].Version)
	last := set.current.Load().stores[0]
	require.NoError(t, set.Close())
	require.NoError(t, set.Close())
	require.Zero(t, last.refs.Load())
	_, err = set.AppendKnown(nil, annotate.Change{Contig: g.Contigs[0], Start: 0, End: 1, Ref: "A", Alt: "C"})
	require.ErrorContains(t, err, "the sources are closed")
	_, err = set.Reload()
	require.ErrorContains(t, err, "the sources are closed")
}

// TestReloadKeeps replaces a source by what can't be used: the one before stays.
func TestReloadKeeps(t *testing.T) {
	g := readGenome(t, ">a\n"+strings.Repeat("A", 20)+"\n")
	dir := t.TempDir()
	x, y := filepath.Join(dir, "x.pss"), filepath.Join(dir, "y.pss")
	release(t, g, "x", 1, x)
	release(t, g, "y", 1, y)
	_, err := OpenSet(g, x, x)
	require.ErrorContains(t, err, "are both named x")
	set, err := OpenSet(g, x, y)
	require.NoError(t, err)
	defer set.Close()
	kept := set.current.Load().stores[0]

	replace := func(data []byte) {
		fresh := filepath.Join(dir, "fresh")
		require.NoError(t, os.WriteFile(fresh, data, 0o600))
		require.NoError(t, os.Rename(fresh, y))
	}
	whole, err := os.ReadFile(y)
	require.NoError(t, err)
	for _, bad := range [][]byte{nil, []byte("text"), whole[:len(whole)/2]} {
		replace(bad)
		_, err = set.Reload()
		require.ErrorContains(t, err, y)
		require.Equal(t, "1", set.Describe()[1].Version)
	}
	require.NoError(t, os.Remove(y))
	_, err = set.Reload()
	require.ErrorContains(t, err, y)
	require.Equal(t, int64(1), kept.refs.Load())

	release(t, g, "y", 2, y)
	changed, err := set.Reload()
	require.NoError(t, err)
	require.True(t, changed)
	require.Same(t, kept, set.current.Load().stores[0], "what did not change stays open")
	require.Equal(t, "2", set.Describe()[1].Version)
}

// TestWrittenInPlace cuts a mapped file off, as cp over it does: an error for who asks, not the end of the process.
func TestWrittenInPlace(t *testing.T) {
	g := readGenome(t, ">a\n"+strings.Repeat("A", 20)+"\n")
	path := filepath.Join(t.TempDir(), "x.pss")
	release(t, g, "x", 1, path)
	set, err := OpenSet(g, path)
	require.NoError(t, err)
	defer set.Close()
	require.NoError(t, os.Truncate(path, 0))
	_, err = set.AppendKnown(nil, annotate.Change{Contig: g.Contigs[0], Start: 0, End: 1, Ref: "A", Alt: "C"})
	require.ErrorIs(t, err, ErrDamaged)
}

// signal is a log handler that signals each message.
type signal struct{ messages chan string }

func (s *signal) Write(p []byte) (int, error) {
	s.messages <- string(p)
	return len(p), nil
}

func TestWatch(t *testing.T) {
	g := readGenome(t, ">a\n"+strings.Repeat("A", 20)+"\n")
	path := filepath.Join(t.TempDir(), "x.pss")
	release(t, g, "x", 1, path)
	set, err := OpenSet(g, path)
	require.NoError(t, err)
	defer set.Close()
	s := &signal{messages: make(chan string, 100)}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { set.Watch(ctx, 1, slog.New(slog.NewTextHandler(s, nil))) })
	release(t, g, "x", 2, path)
	require.Contains(t, <-s.messages, "version=2")
	bad := path + ".bad"
	require.NoError(t, os.WriteFile(bad, []byte("text"), 0o600))
	require.NoError(t, os.Rename(bad, path))
	require.Contains(t, <-s.messages, "not a compiled source")
	release(t, g, "x", 3, path)
	require.Contains(t, <-s.messages, "version=3")
}
