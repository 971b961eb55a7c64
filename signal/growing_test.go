package signal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const unfinishedID = "ad29d727-46a3-4517-bfc0-41679919a131"

// growingFile reads a file that a test lets grow.
type growingFile struct {
	t     *testing.T
	path  string
	place Place
	got   []string // reads with their samples
}

func fileSize(path string) (int64, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Size(), true
}

// read reads what is new. If a read is returned twice, the caller's place was wrong.
func (g *growingFile) read() error {
	g.t.Helper()
	size, ok := fileSize(g.path)
	if !ok {
		g.t.Fatal("no file")
	}
	f, err := OpenGrowing(g.path, size, func(name string) (int64, bool) { return fileSize(filepath.Join(filepath.Dir(g.path), name)) }, g.place)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		rd, samples, err := f.Next()
		if err != nil {
			place, placeErr := f.Place()
			if placeErr != nil {
				g.t.Fatal(placeErr)
			}
			g.place = place
			return err
		}
		all, err := samples(nil)
		if err != nil {
			g.t.Fatal(err)
		}
		s := fmt.Sprint(rd.ID, rd.Run.ID, rd.Channel, rd.StartSample, all)
		if !slices.Contains(g.got, s) {
			g.got = append(g.got, s)
		}
	}
}

// whole reads a finished file as always.
func whole(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		rd, err := f.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(rd.ID, rd.Run.ID, rd.Channel, rd.StartSample, rd.Samples))
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func part(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/unfinished/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGrowingPOD5 plays what ONT's library does to a folder, up to the finished
// file.
func TestGrowingPOD5(t *testing.T) {
	dir := t.TempDir()
	g := &growingFile{t: t, path: filepath.Join(dir, "x.pod5.tmp")}
	stages := strings.Split(strings.TrimSpace(string(part(t, "stages.tsv"))), "\n")[1:]
	for _, line := range stages {
		var n, s, r, i int
		if _, err := fmt.Sscan(line, &n, &s, &r, &i); err != nil {
			t.Fatal(err)
		}
		write(t, g.path, part(t, "signal.part")[:s])
		write(t, filepath.Join(dir, "."+unfinishedID+".tmp-reads"), part(t, "reads.part")[:r])
		write(t, filepath.Join(dir, "."+unfinishedID+".tmp-run-info"), part(t, "runs.part")[:i])
		if err := g.read(); !errors.Is(err, ErrUnfinished) {
			t.Fatalf("after %d reads: %v, want ErrUnfinished", n, err)
		}
	}
	if len(g.got) != 20 || g.place.Batch != 4 {
		t.Errorf("%d reads before the end, up to %+v; want 20, four batches", len(g.got), g.place)
	}
	for _, suffix := range []string{".tmp-reads", ".tmp-run-info"} {
		if err := os.Remove(filepath.Join(dir, "."+unfinishedID+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.read(); !errors.Is(err, ErrUnfinished) {
		t.Errorf("while the writer puts the tables together: %v", err)
	}
	final := filepath.Join(dir, "x.pod5")
	write(t, final, part(t, "finished.pod5"))
	g.path = final
	if err := g.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if want := whole(t, final); !slices.Equal(g.got, want) {
		t.Errorf("%d reads, want those %d of the finished file", len(g.got), len(want))
	}
}

func TestGrowingBLOW5(t *testing.T) {
	file, err := os.ReadFile("testdata/three_zstd_svb.blow5")
	if err != nil {
		t.Fatal(err)
	}
	g := &growingFile{t: t, path: filepath.Join(t.TempDir(), "x.blow5")}
	for n := 0; n < len(file); n += 113 {
		write(t, g.path, file[:n])
		if err := g.read(); !errors.Is(err, ErrUnfinished) && n > 0 {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	write(t, g.path, file)
	if err := g.read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if want := whole(t, g.path); len(want) != 3 || !slices.Equal(g.got, want) {
		t.Errorf("%d reads, want %d", len(g.got), len(want))
	}
}

// TestGrowingFAST5 lets a file come piece by piece, as by copying: nothing of it is
// read before it is whole. One in which reads are added is read again.
func TestGrowingFAST5(t *testing.T) {
	for _, name := range []string{"three_vbz.fast5", "three_gzip.fast5"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		g := &growingFile{t: t, path: filepath.Join(t.TempDir(), "x.fast5")}
		for n := 1; n < len(file); n += 113 {
			write(t, g.path, file[:n])
			if err := g.read(); !errors.Is(err, ErrUnfinished) || len(g.got) > 0 {
				t.Fatalf("%s: %d bytes: %v, %d reads", name, n, err, len(g.got))
			}
		}
		write(t, g.path, file)
		if err := g.read(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: at the end: %v", name, err)
		}
		if want := whole(t, g.path); len(want) != 3 || !slices.Equal(g.got, want) || g.place.Batch != 3 {
			t.Errorf("%s: %d reads, want %d; place %+v", name, len(g.got), len(want), g.place)
		}
		// Another file at the same path.
		more, err := os.ReadFile("fast5/testdata/multi_dense.fast5")
		if err != nil {
			t.Fatal(err)
		}
		write(t, g.path, more)
		if err := g.read(); !errors.Is(err, io.EOF) || len(g.got) != 3+12 {
			t.Errorf("%s: replaced: %v, %d reads", name, err, len(g.got))
		}
	}
}

func TestGrowingRefuses(t *testing.T) {
	dir := t.TempDir()
	none := func(string) (int64, bool) { return 0, false }
	text := filepath.Join(dir, "x.pod5")
	write(t, text, []byte("not signal at all"))
	if _, err := OpenGrowing(text, 17, none, Place{}); err == nil || err.Error() != text+`: byte 0: not POD5, BLOW5 or FAST5 (the file begins with "not signal at al")` {
		t.Errorf("%v", err)
	}
	if _, err := OpenGrowing(filepath.Join(dir, "absent.blow5"), 17, none, Place{}); err == nil || !strings.Contains(err.Error(), "absent.blow5: no such file") {
		t.Errorf("%v", err)
	}
	write(t, text, make([]byte, 4096)) // reserved, not written
	if _, err := OpenGrowing(text, 4096, none, Place{}); !errors.Is(err, ErrUnfinished) {
		t.Errorf("%v", err)
	}
	write(t, text, part(t, "signal.part"))
	if _, err := OpenGrowing(text, 9152, none, Place{}); !errors.Is(err, ErrUnfinished) {
		t.Errorf("without the files beside it: %v", err)
	}
}

// TestGrowingReplaced reads a path again after another file has replaced the first.
func TestGrowingReplaced(t *testing.T) {
	for _, names := range [][2]string{
		{"testdata/three_zlib_svb.blow5", "testdata/three_none_none.blow5"},
		{"testdata/three_vbz.pod5", "testdata/unfinished/finished.pod5"},
	} {
		g := &growingFile{t: t, path: filepath.Join(t.TempDir(), "x")}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, g.path, b)
			g.got = nil
			if err := g.read(); !errors.Is(err, io.EOF) {
				t.Fatalf("%s: %v", name, err)
			}
			if want := whole(t, g.path); !slices.Equal(g.got, want) {
				t.Errorf("%s: %d reads, want %d", name, len(g.got), len(want))
			}
		}
	}
}
