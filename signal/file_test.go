package signal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/signal"
)

// readAll returns the reads of a file.
func readAll(path string) ([]*signal.Read, error) {
	f, err := signal.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var reads []*signal.Read
	for {
		rd, err := f.Next()
		if errors.Is(err, io.EOF) {
			return reads, nil
		}
		if err != nil {
			if _, again := f.Next(); !errors.Is(again, err) {
				return nil, fmt.Errorf("the second error differs: %w", again)
			}
			return nil, err
		}
		if len(rd.Samples) != rd.NumSamples {
			return nil, fmt.Errorf("read %s has %d samples, says %d", rd.ID, len(rd.Samples), rd.NumSamples)
		}
		reads = append(reads, rd)
	}
}

func mustReadAll(t *testing.T, path string) []*signal.Read {
	t.Helper()
	reads, err := readAll(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(reads) == 0 {
		t.Fatalf("%s: no reads", path)
	}
	return reads
}

func digest(samples []int16) string {
	raw := make([]byte, 0, 2*len(samples))
	for _, s := range samples {
		raw = append(raw, byte(s), byte(uint16(s)>>8))
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:16]
}

// closeTo compares two floats that went through text or another width.
func closeTo(a, b float32) bool {
	if math.IsNaN(float64(a)) || math.IsNaN(float64(b)) {
		return math.IsNaN(float64(a)) == math.IsNaN(float64(b))
	}
	return math.Abs(float64(a-b)) <= 1e-6*math.Max(1, math.Abs(float64(b)))
}

// TestFilesHoldWhatPod5AndPyslow5Read compares with what ONT's pod5 and the SLOW5 authors' pyslow5 read;
// see testdata/generate.py.
func TestFilesHoldWhatPod5AndPyslow5Read(t *testing.T) {
	data := recordings(t)
	raw, err := os.ReadFile("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][][]string)
	count := make(map[string]int)
	var files []string
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n")[1:] {
		cols := strings.Split(line, "\t")
		if cols[1] == "reads" {
			count[cols[0]] = integer(t, cols[2])
			continue
		}
		if want[cols[0]] == nil {
			files = append(files, cols[0])
		}
		want[cols[0]] = append(want[cols[0]], cols[1:])
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(file, "lambda") {
				t.Skip("sixteen million samples take a while")
			}
			t.Parallel()
			reads := mustReadAll(t, filepath.Join(data, file))
			if len(reads) != count[file] {
				t.Fatalf("%d reads, want %d", len(reads), count[file])
			}
			for i, w := range want[file] {
				rd := reads[i]
				exact := fmt.Sprintln(rd.ID, rd.Run.ID[:min(12, len(rd.Run.ID))], rd.Run.SampleRate, rd.Channel, rd.Well,
					rd.Number, rd.StartSample, rd.NumSamples, digest(rd.Samples), rd.EndReason, rd.MinKNOWEvents)
				golden := fmt.Sprintln(w[0], w[1], integer(t, w[2]), integer(t, w[3]), integer(t, w[4]),
					integer(t, w[5]), integer(t, w[6]), integer(t, w[7]), w[8], w[12], integer(t, w[14]))
				if exact != golden {
					t.Errorf("read %d:\n got %swant %s", i, exact, golden)
				}
				for k, got := range map[int]float32{9: rd.Calibration.Offset, 10: rd.Calibration.Scale, 11: rd.MedianBefore} {
					f, err := strconv.ParseFloat(w[k], 32)
					if err != nil {
						t.Fatal(err)
					}
					if !closeTo(got, float32(f)) {
						t.Errorf("read %s: column %d is %v, want %s", rd.ID, k, got, w[k])
					}
				}
				if w[13] != "-" && rd.EndReasonForced != (w[13] == "1") {
					t.Errorf("read %s: end reason forced is %v", rd.ID, rd.EndReasonForced)
				}
			}
		})
	}
}

func integer(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compare finds the first difference between two readings of the same reads. BLOW5
// knows less, so what it doesn't have is left out unless strict.
func compare(a, b []*signal.Read, strict bool) error {
	if len(a) != len(b) {
		return fmt.Errorf("%d and %d reads", len(a), len(b))
	}
	byID := func(p, q *signal.Read) int { return strings.Compare(p.ID, q.ID) }
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, byID)
	slices.SortFunc(b, byID)
	for i := range a {
		p, q := a[i], b[i]
		pk := fmt.Sprintln(p.ID, p.Run.SampleRate, p.Channel, p.Well, p.Number, p.StartSample, p.NumSamples)
		qk := fmt.Sprintln(q.ID, q.Run.SampleRate, q.Channel, q.Well, q.Number, q.StartSample, q.NumSamples)
		switch {
		case pk != qk:
			return fmt.Errorf("read %d: %s and %s", i, pk, qk)
		case !slices.Equal(p.Samples, q.Samples):
			return fmt.Errorf("read %s: samples differ", p.ID)
		case !closeTo(p.Calibration.Offset, q.Calibration.Offset) || !closeTo(p.Calibration.Scale, q.Calibration.Scale):
			return fmt.Errorf("read %s: calibration %v and %v", p.ID, p.Calibration, q.Calibration)
		case !closeTo(p.MedianBefore, q.MedianBefore):
			return fmt.Errorf("read %s: median before %v and %v", p.ID, p.MedianBefore, q.MedianBefore)
		case p.EndReason != q.EndReason || p.EndReasonForced != q.EndReasonForced:
			return fmt.Errorf("read %s: end reason %v (%v) and %v (%v)", p.ID, p.EndReason, p.EndReasonForced, q.EndReason, q.EndReasonForced)
		case strict && fmt.Sprintf("%+v", *p.Run) != fmt.Sprintf("%+v", *q.Run):
			return fmt.Errorf("read %s: runs differ:\n%+v\n%+v", p.ID, *p.Run, *q.Run)
		case strict && p.PoreType != q.PoreType:
			return fmt.Errorf("read %s: pore types %q and %q", p.ID, p.PoreType, q.PoreType)
		}
	}
	return nil
}

func TestSameReadsFromEveryForm(t *testing.T) {
	want := mustReadAll(t, "testdata/three_vbz.pod5")
	if len(want) != 3 || want[0].NumSamples != 4001 || want[2].NumSamples != 9 {
		t.Fatalf("unexpected reads: %+v", want)
	}
	if r := want[1]; r.EndReason != signal.EndUnblockMuxChange || !r.EndReasonForced {
		t.Errorf("read 1 ended with %v, forced %v", r.EndReason, r.EndReasonForced)
	}
	for _, form := range []string{"uncompressed.pod5", "none_none.blow5", "zlib_none.blow5", "zlib_svb.blow5", "zstd_svb.blow5", "none_exzd.blow5", "zstd_exzd.blow5", "vbz.fast5", "gzip.fast5"} {
		got := mustReadAll(t, "testdata/three_"+form)
		if err := compare(want, got, strings.HasSuffix(form, "pod5")); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		if strings.HasSuffix(form, "fast5") {
			p, q := got[0].Run, want[0].Run
			if p != got[2].Run || p.ID != q.ID || !p.StartTime.Equal(q.StartTime) || p.SampleID != q.SampleID || p.FlowCellID != q.FlowCellID || p.Chemistry() != q.Chemistry() {
				t.Errorf("%s: run %+v, want %+v", form, p, q)
			}
		}
		if strings.HasSuffix(form, "blow5") {
			if got[0].Run == got[1].Run || got[0].Run != got[2].Run {
				t.Errorf("%s: read groups and runs don't match", form)
			}
			if got[1].Run.ID != "second-run" || got[0].Run.ID != want[0].Run.ID {
				t.Errorf("%s: runs %q and %q", form, got[0].Run.ID, got[1].Run.ID)
			}
			if !got[0].Run.StartTime.Equal(want[0].Run.StartTime) || got[0].Run.Kit != want[0].Run.Kit {
				t.Errorf("%s: run %+v, want %+v", form, got[0].Run, want[0].Run)
			}
		}
	}
}

func TestSameReadsFromLargerFiles(t *testing.T) {
	data := recordings(t)
	for _, tc := range []struct {
		files  []string
		strict bool
	}{
		{[]string{"formats/writer_v0.pod5", "formats/writer_v1.pod5", "formats/writer_v2.pod5", "formats/writer_v3.pod5"}, true},
		{[]string{"formats/read5/test.pod5", "formats/read5/test.blow5"}, false},
		{[]string{"formats/blow5/one_fast5_exp_1_lossless.blow5", "formats/blow5/one_fast5_exp_1_lossless_gzip.blow5", "formats/blow5/aux_array_exp_lossless.blow5"}, false},
		{[]string{"ecoli-r9/reads.pod5", "ecoli-r9/reads.blow5"}, false},
		{[]string{"lambda-r9/reads.pod5", "lambda-r9/reads.blow5"}, false},
	} {
		t.Run(tc.files[0], func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(tc.files[0], "lambda") {
				t.Skip("sixteen million samples take a while")
			}
			t.Parallel()
			want := mustReadAll(t, filepath.Join(data, tc.files[0]))
			for _, other := range tc.files[1:] {
				if err := compare(want, mustReadAll(t, filepath.Join(data, other)), tc.strict); err != nil {
					t.Errorf("%s and %s: %v", tc.files[0], other, err)
				}
			}
		})
	}
}

// TestEveryFileReadsOrIsRefused: no file may crash, and an error is one line that
// begins with the file's name. z2, aux_field_wrong_type and
// primary_field_wrong_type carry the names of broken FAST5 files, but the
// converter mended them: ONT's reader and ours read them alike (TestFilesHoldWhatPod5AndPyslow5Read).
func TestEveryFileReadsOrIsRefused(t *testing.T) {
	data := filepath.Join(recordings(t), "formats")
	refused := map[string]string{
		"broken-pod5/empty_pod5.pod5":            "byte 0: not POD5, BLOW5 or FAST5",
		"broken-pod5/not_a_pod5.pod5":            "byte 0: not POD5, BLOW5 or FAST5",
		"broken-pod5/missing_primary_field.pod5": `reads table: field "calibration_offset" is missing`,
		"broken-pod5/newline_in_field.pod5":      `reads table: field name "median_befor\n" holds a line break`,
		"broken-pod5/tab_in_field.pod5":          `reads table: field name "median\tbefore" holds a tab`,
		"broken-pod5/newline_in_attrib.pod5":     `run info table: batch 0: row 0: field "protocol_name" holds a line break`,
		"broken-pod5/tab_in_attrib.pod5":         `run info table: batch 0: row 0: field "tracking_id" has a key that holds a tab ("operating\tsystem")`,
	}
	files, reads := 0, 0
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		name, _ := filepath.Rel(data, path)
		all, err := readAll(path)
		reads += len(all)
		want, bad := refused[filepath.ToSlash(name)]
		switch {
		case !bad && err != nil:
			t.Errorf("%s was refused: %v", name, err)
		case bad && err == nil:
			t.Errorf("%s was read, want an error with %q", name, want)
		case bad && !strings.HasPrefix(err.Error(), path+": "+want):
			t.Errorf("%s: error %q, want it to go on with %q", name, err, want)
		case bad && strings.ContainsAny(err.Error(), "\n\t"):
			t.Errorf("%s: error is not one clean line: %q", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < len(refused) || reads == 0 {
		t.Errorf("only %d files with %d reads", files, reads)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct{ path, want string }{
		{filepath.Join(dir, "absent.pod5"), "no such file or directory"},
		{dir, "is a folder, not a file"},
		{os.DevNull, "is not a regular file"},
		{write("empty.pod5", ""), "is empty"},
		{write("text.pod5", "read_id\tsignal\n"), `byte 0: not POD5, BLOW5 or FAST5 (the file begins with "read_id\tsignal\n")`},
		{write("text.slow5", "#slow5_version\t0.2.0\n"), "SLOW5 text is not supported"},
		{write("short.fast5", "\x89HDF\r\n\x1a\n\x00\x00\x00"), "superblock: byte 9: 4 bytes are needed, but only 2 are there: the file is truncated"},
		{write("short.pod5", "\x8bPOD\r\n\x1a\n"), "byte 8: the file ends before any table: it is truncated or still being written"},
		{write("short.blow5", "BLOW5\x01\x00\x02\x00"), "byte 9: the file ends inside its head: it is truncated"},
	} {
		f, err := signal.Open(tc.path)
		if err == nil {
			f.Close()
			t.Errorf("%s was opened", tc.path)
			continue
		}
		if !strings.HasPrefix(err.Error(), tc.path+": "+tc.want) {
			t.Errorf("error %q, want it to be %q", err, tc.path+": "+tc.want)
		}
	}
}

// TestDamageIsOneLineThatNamesTheFile cuts files short everywhere and flips bits all over. What is cut is
// refused; what is flipped is refused or read, as neither format has checksums, but
// never crashes, and every error is one line that names the file.
func TestDamageIsOneLineThatNamesTheFile(t *testing.T) {
	for _, name := range []string{"three_vbz.pod5", "three_uncompressed.pod5", "three_none_none.blow5", "three_zlib_svb.blow5", "three_zstd_svb.blow5", "three_none_exzd.blow5", "three_vbz.fast5", "three_gzip.fast5"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good, err := os.ReadFile("testdata/" + name)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), name)
			try := func(content []byte) error {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := readAll(path)
				if err != nil && (!strings.HasPrefix(err.Error(), path+": ") || strings.ContainsAny(err.Error(), "\r\n")) {
					t.Fatalf("error is not one line that names the file: %q", err)
				}
				return err
			}
			if err := try(good); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < len(good); n += 1 + len(good)/40 {
				if try(good[:n]) == nil {
					t.Errorf("cut at byte %d of %d, it was still read", n, len(good))
				}
			}
			// HDF5 files may be longer than they say.
			if try(append(slices.Clone(good), 0)) == nil && filepath.Ext(name) != ".fast5" {
				t.Error("with a byte appended, it was still read")
			}
			for i := 0; i < len(good); i += 1 + len(good)/120 {
				bad := slices.Clone(good)
				bad[i] ^= 1 << (i % 8)
				_ = try(bad)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	touch := func(parts ...string) string {
		path := filepath.Join(append([]string{dir}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b := touch("run", "b.pod5")
	a := touch("run", "sub", "a.blow5")
	upper := touch("run", "C.POD5")
	touch("run", "notes.txt")
	other := touch("other.dat")
	only := touch("only", "x.fast5")
	touch("none", "x.txt")
	in := func(name string) string { return filepath.Join(dir, name) }
	link := in("link")
	if err := os.Symlink(in("run"), link); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		paths []string
		want  []string
		err   string
	}{
		{paths: []string{in("run")}, want: []string{upper, b, a}},
		{paths: []string{link}, want: []string{filepath.Join(link, "C.POD5"), filepath.Join(link, "b.pod5"), filepath.Join(link, "sub", "a.blow5")}},
		{paths: []string{other, in("run"), b}, want: []string{other, upper, b, a}},
		{paths: nil, err: "no recording given"},
		{paths: []string{in("absent")}, err: in("absent") + ": no such file or directory"},
		{paths: []string{in("none")}, err: in("none") + ": holds no *.pod5, *.blow5 or *.fast5 file"},
		{paths: []string{in("only")}, want: []string{only}},
	} {
		got, err := signal.Expand(tc.paths)
		switch {
		case tc.err != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.err)):
			t.Errorf("Expand(%v) gave error %v, want %q", tc.paths, err, tc.err)
		case tc.err == "" && (err != nil || !slices.Equal(got, tc.want)):
			t.Errorf("Expand(%v) = %v, %v, want %v", tc.paths, got, err, tc.want)
		}
	}
}

func TestAfterClose(t *testing.T) {
	f, err := signal.Open("testdata/three_vbz.pod5")
	if err != nil {
		t.Fatal(err)
	}
	rd, err := f.Next()
	if err != nil {
		t.Fatal(err)
	}
	before := digest(rd.Samples)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Next(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Next after Close gave %v", err)
	}
	if digest(rd.Samples) != before || rd.Run.ID == "" {
		t.Error("a read changed when its file was closed")
	}
}

func BenchmarkReadAll(b *testing.B) {
	data := recordings(b)
	for _, name := range []string{"lambda-r9/reads.pod5", "lambda-r9/reads.blow5"} {
		b.Run(filepath.Ext(name)[1:], func(b *testing.B) {
			b.ReportAllocs()
			var samples int64
			for b.Loop() {
				samples = 0
				f, err := signal.Open(filepath.Join(data, name))
				if err != nil {
					b.Fatal(err)
				}
				for {
					rd, err := f.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					samples += int64(rd.NumSamples)
				}
				f.Close()
			}
			b.SetBytes(2 * samples)
			b.ReportMetric(float64(samples)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
		})
	}
}
