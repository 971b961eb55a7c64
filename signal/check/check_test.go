package check

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/pod5"
)

const fixtures = "../testdata/"

// check runs a check over files and returns its lines.
func check(t *testing.T, paths ...string) (Counts, []string) {
	t.Helper()
	var lines []string
	counts, err := Files(t.Context(), paths, func(p Problem) {
		if strings.ContainsAny(p.String(), "\n\r") || p.Do == "" || p.What == "" {
			t.Errorf("a problem is %q", p)
		}
		lines = append(lines, p.String())
	})
	if err != nil {
		t.Fatal(err)
	}
	if counts.Problems != int64(len(lines)) || counts.Files != len(paths) {
		t.Errorf("counts %+v for %q", counts, lines)
	}
	return counts, lines
}

// write puts a changed copy of a file into a folder of the test.
func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(fixtures + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoodFiles(t *testing.T) {
	z, err := gzip.NewReader(strings.NewReader(string(read(t, "many.pod5.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	many, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Counts{
		fixtures + "three_vbz.pod5":          {Files: 1, Reads: 3, Samples: 6510},
		fixtures + "three_uncompressed.pod5": {Files: 1, Reads: 3, Samples: 6510},
		fixtures + "three_zlib_svb.blow5":    {Files: 1, Reads: 3, Samples: 6510},
		fixtures + "three_zstd_exzd.blow5":   {Files: 1, Reads: 3, Samples: 6510},
		fixtures + "three_vbz.fast5":         {Files: 1, Reads: 3, Samples: 6510},
		fixtures + "three_gzip.fast5":        {Files: 1, Reads: 3, Samples: 6510},
		write(t, "many.pod5", many):          {Files: 1, Reads: 1010, Samples: 3030},
	} {
		if got, lines := check(t, path); got != want {
			t.Errorf("%s: %+v, want %+v; %q", path, got, want, lines)
		}
	}
}

func TestBadFiles(t *testing.T) {
	pod, blow, fast := read(t, "three_vbz.pod5"), read(t, "three_none_none.blow5"), read(t, "three_vbz.fast5")
	change := func(b []byte, at int, to byte) []byte {
		b = append([]byte(nil), b...)
		b[at] ^= to
		return b
	}
	for name, c := range map[string]struct {
		path  string
		want  string
		reads int64
	}{
		"absent":         {fixtures + "absent.pod5", "no such file", 0},
		"neither":        {write(t, "x.pod5", []byte("hello")), "byte 0: not POD5, BLOW5 or FAST5", 0},
		"cut POD5":       {write(t, "x.pod5", pod[:len(pod)-100]), "pod5 recover", 0},
		"signal of POD5": {write(t, "x.pod5", change(pod, strings.Index(string(pod), "\x28\xb5\x2f\xfd"), 0xff)), "VBZ", 3},
		"cut BLOW5":      {write(t, "x.blow5", blow[:len(blow)-300]), "slow5tools may save", 1},
		"no end":         {write(t, "x.blow5", blow[:len(blow)-5]), "end-of-file marker", 3},
		"record":         {write(t, "x.blow5", badRecord(t, blow)), "read_group", 2},
		"cut FAST5":      {write(t, "x.fast5", fast[:len(fast)-100]), "truncated or still being written: copy the file again", 0},
		"data of FAST5":  {write(t, "x.fast5", change(fast, strings.Index(string(fast), "\x28\xb5\x2f\xfd"), 0xff)), "vbz: zstd", 3},
		"bulk FAST5":     {"../fast5/testdata/bulk.fast5", "bulk FAST5 file", 0},
		"another HDF5":   {"../fast5/testdata/other.fast5", "holds no reads", 0},
		"another filter": {"../fast5/testdata/lzf.fast5", "filter 32000 (lzf), which is not supported", 1},
		"a folder":       {t.TempDir(), "is a folder", 0},
		"empty":          {write(t, "x.blow5", nil), "is empty", 0},
	} {
		counts, lines := check(t, c.path)
		if len(lines) != 1 || !strings.Contains(lines[0], c.want) || !strings.HasPrefix(lines[0], c.path+": ") || counts.Reads != c.reads {
			t.Errorf("%s: %+v %q, want %q", name, counts, lines, c.want)
		}
	}
}

// badRecord breaks the second of three records: its read group doesn't exist.
func badRecord(t *testing.T, file []byte) []byte {
	t.Helper()
	r, err := blow5.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	skip := func(*blow5.Record, int64) error { return nil }
	if err := r.Next(skip); err != nil {
		t.Fatal(err)
	}
	file = append([]byte(nil), file...)
	at := r.Offset() + 8
	at += 2 + int64(binary.LittleEndian.Uint16(file[at:]))
	file[at] = 200
	return file
}

// TestReadsTwice names each pair of files once, however many reads they share.
func TestReadsTwice(t *testing.T) {
	a, b := fixtures+"three_vbz.pod5", fixtures+"three_zlib_svb.blow5"
	counts, lines := check(t, a, b)
	if len(lines) != 1 || !strings.Contains(lines[0], "3 reads, the first of them ") || !strings.Contains(lines[0], "are also in "+a) || counts.Reads != 6 {
		t.Errorf("%+v %q", counts, lines)
	}
}

// TestOddPOD5 writes what can be written but should not be.
func TestOddPOD5(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.pod5")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	scratch, err := os.Create(path + ".scratch")
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	w, err := pod5.NewWriter(out, scratch, pod5.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rd := pod5.Read{Run: &pod5.RunInfo{AcquisitionID: "a", SampleRate: 4000}, CalibrationScale: 1, MedianBefore: float32(math.NaN())}
	for range 2 {
		if err := w.Add(&rd, []int16{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
	}
	rd.ID[0], rd.CalibrationScale = 1, 0
	if err := w.Add(&rd, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, lines := check(t, path)
	if all := strings.Join(lines, "\n"); len(lines) != 2 || !strings.Contains(all, "occurs twice") || !strings.Contains(all, "calibration is 0") {
		t.Errorf("%q", lines)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{fixtures + "three_vbz.pod5", fixtures + "three_zlib_svb.blow5"} {
		if _, err := Files(ctx, []string{path}, func(Problem) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestEveryFlippedByte changes each byte of a small file in turn: a check must
// never fail in any other way than with a line.
func TestEveryFlippedByte(t *testing.T) {
	for _, name := range []string{"three_vbz.pod5", "three_zstd_svb.blow5"} {
		file := read(t, name)
		path := write(t, name, file)
		for at := 0; at < len(file); at += 1 + len(file)/400 {
			file[at] ^= 0x55
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			file[at] ^= 0x55
			check(t, path)
		}
	}
}

// TestOneRunTwice: rows of run infos that have one id and differ are reported.
func TestOneRunTwice(t *testing.T) {
	_, lines := check(t, fixtures+"two_rates.pod5")
	const want = fixtures + `two_rates.pod5: run info table: rows 0 and 1 are both run "0000000000000000000000000000000000000001", but differ in field "sample_rate": two recordings have one id: keep them in files of their own`
	if len(lines) != 1 || lines[0] != want {
		t.Errorf("%q", lines)
	}
}
