package runfolder_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/simulate/runfolder"
)

// What all runs here are of is made once.
var (
	profile = sync.OnceValues(func() (*simulate.Profile, error) { return simulate.OpenProfile("r10.4.1-2pct") })
	lambda  = sync.OnceValues(func() (*simulate.Library, error) {
		g, err := genome.Load(filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
		if err != nil {
			return nil, err
		}
		copies, err := simulate.Haplotypes(g.Contigs[0], nil, 1)
		if err != nil {
			return nil, err
		}
		return simulate.NewLibrary(copies, simulate.ReadsConfig{Depth: 1, Length: 1000, LengthSpread: 0.5, MinLength: 50})
	})
)

// config is a minute of three barcodes of lambda, and reads without one.
func config(t testing.TB) runfolder.Config {
	t.Helper()
	cfg := runfolder.R1041()
	library, err := lambda()
	require.NoError(t, err)
	cfg.Profile, err = profile()
	require.NoError(t, err)
	cfg.Seed, cfg.Channels, cfg.Duration, cfg.Failed = 3, 8, time.Minute, 0.1
	for _, barcode := range []string{"barcode01", "barcode02", "barcode11", ""} {
		cfg.Samples = append(cfg.Samples, runfolder.Sample{Barcode: barcode, Library: library, Share: 1})
	}
	return cfg
}

func newRun(t testing.TB, cfg runfolder.Config) *runfolder.Run {
	t.Helper()
	run, err := runfolder.NewRun(cfg)
	require.NoError(t, err)
	return run
}

// play writes a run and returns the reads in the order in which Written was called for them.
func play(t testing.TB, cfg runfolder.Config, dir string, pace float64) (reads []*runfolder.Read, files map[string][]string) {
	t.Helper()
	run := newRun(t, cfg)
	folder, err := runfolder.NewFolder(dir, run, 20*time.Second, runfolder.FASTQ, runfolder.BAM)
	require.NoError(t, err)
	files = make(map[string][]string)
	p := runfolder.Player{Run: run, Folder: folder, Pace: pace, Written: func(r *runfolder.Read, in []string, _ time.Time) error {
		reads, files[r.ID] = append(reads, r), in
		return nil
	}}
	require.NoError(t, p.Play(t.Context()))
	return reads, files
}

// tree is all that lies in a folder.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	}))
	return all
}

// The folder has every read once in each format, in the file of its barcode, with all that is
// known of it; files are rotated, and what failed lies apart.
func TestFolderHasEveryReadOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cfg := config(t)
	reads, files := play(t, cfg, dir, 0)
	require.Greater(t, len(reads), 80)
	byID := make(map[string]*runfolder.Read)
	for i, r := range reads {
		byID[r.ID] = r
		require.LessOrEqual(t, r.End, cfg.Duration)
		require.True(t, i == 0 || r.End >= reads[i-1].End)
		_, err := simulate.ParseName(r.Origin)
		require.NoError(t, err)
	}
	require.Len(t, byID, len(reads))
	id := newRun(t, cfg).ID()
	rotated, summary := 0, ""
	seen := make(map[string]int)
	for name, text := range tree(t, dir) {
		if strings.HasPrefix(name, "final_summary_") {
			summary = text
			continue
		}
		if strings.HasSuffix(name, "_2.bam") {
			rotated++
		}
		in, err := input.NewReader(strings.NewReader(text), cram.Options{})
		require.NoError(t, err, name)
		for {
			got, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			want := byID[got.ID]
			require.NotNil(t, want, "%s in %s", got.ID, name)
			require.Contains(t, files[got.ID], name)
			seen[got.ID]++
			barcode := want.Barcode
			if barcode == "" {
				barcode = input.Unclassified
			}
			require.Equal(t, []any{want.Sequence, want.Qualities, id, barcode, cfg.Model, "sample", want.Channel},
				[]any{got.Sequence, got.Qualities, got.Run, got.Barcode, got.Model, got.Sample, got.Channel}, name)
			require.Equal(t, cfg.Start.Add(want.Start).Truncate(time.Millisecond), got.Start.UTC())
			require.Equal(t, barcode, filepath.Base(filepath.Dir(name)))
			require.Equal(t, want.Failed, strings.Contains(name, "_fail"+string(filepath.Separator)))
			if strings.HasSuffix(name, ".bam") {
				require.Equal(t, want.Failed, got.Failed)
				require.Equal(t, want.Number, got.Number)
				require.InDelta(t, (want.End - want.Start).Seconds(), got.Duration, 1e-3)
			}
		}
	}
	require.Positive(t, rotated)
	require.Contains(t, summary, "acquisition_run_id="+id+"\n")
	require.Len(t, seen, len(reads))
	for id, n := range seen {
		require.Equal(t, 2, n, id)
	}
}

// What has been written of a file that grows can be read at once.
func TestGrowingFilesShowEachRead(t *testing.T) {
	dir := t.TempDir()
	run := newRun(t, config(t))
	folder, err := runfolder.NewFolder(dir, run, 0, runfolder.FASTQ, runfolder.BAM)
	require.NoError(t, err)
	open := make(map[string]*input.Growing)
	for range 40 {
		r, more, err := run.Next()
		require.NoError(t, err)
		require.True(t, more)
		paths, err := folder.Write(r)
		require.NoError(t, err)
		for _, name := range paths {
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			require.NoError(t, err)
			g := open[path]
			if g == nil {
				g, err = input.OpenGrowing(path, info.Size(), cram.Options{})
				require.NoError(t, err)
				defer g.Close()
				open[path] = g
			}
			g.Extend(info.Size())
			got, err := g.Next()
			require.NoError(t, err, name)
			require.Equal(t, r.ID, got.ID)
		}
	}
	require.NoError(t, folder.Close())
	_, err = runfolder.NewFolder(dir, run, 0, runfolder.FASTQ)
	require.ErrorContains(t, err, "the folder is not empty")
}

// The files of a run are the same at any pace, and a read is written when it ends.
func TestPaceChangesNoByte(t *testing.T) {
	dir := t.TempDir()
	cfg := config(t)
	cfg.Duration = 20 * time.Second
	play(t, cfg, filepath.Join(dir, "max"), 0)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		reads, _ := play(t, cfg, filepath.Join(dir, "paced"), 4)
		require.Equal(t, reads[len(reads)-1].End/4, time.Since(began))
	})
	want := tree(t, filepath.Join(dir, "max"))
	require.Greater(t, len(want), 10)
	require.Equal(t, want, tree(t, filepath.Join(dir, "paced")))
}

// A run that is interrupted leaves whole files and no summary.
func TestInterruptedRunHasNoSummary(t *testing.T) {
	dir := t.TempDir()
	run := newRun(t, config(t))
	folder, err := runfolder.NewFolder(dir, run, time.Second, runfolder.FASTQ)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	p := runfolder.Player{Run: run, Folder: folder, Written: func(*runfolder.Read, []string, time.Time) error {
		if n++; n == 10 {
			cancel()
		}
		return nil
	}}
	require.ErrorIs(t, p.Play(ctx), context.Canceled)
	read := 0
	for name, text := range tree(t, dir) {
		require.NotContains(t, name, "final_summary")
		in, err := input.NewReader(strings.NewReader(text), cram.Options{})
		require.NoError(t, err)
		for {
			_, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			read++
		}
	}
	require.Equal(t, 10, read)
}

func TestRunRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*runfolder.Config){
		"no sample":                        func(c *runfolder.Config) { c.Samples = nil },
		"no profile":                       func(c *runfolder.Config) { c.Profile = nil },
		"0 channels":                       func(c *runfolder.Config) { c.Channels = 0 },
		"a speed of":                       func(c *runfolder.Config) { c.Speed = 0 },
		"a capture every":                  func(c *runfolder.Config) { c.Capture = 0 },
		"a duration of":                    func(c *runfolder.Config) { c.Duration = 0 },
		"a least length of 0":              func(c *runfolder.Config) { c.MinLength = 0 },
		"a share of failed reads of 1":     func(c *runfolder.Config) { c.Failed = 1 },
		`sample "barcode01": a share of 0`: func(c *runfolder.Config) { c.Samples[0].Share = 0 },
	} {
		cfg := config(t)
		spoil(&cfg)
		_, err := runfolder.NewRun(cfg)
		require.ErrorContains(t, err, want)
	}
}
