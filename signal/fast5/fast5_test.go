package fast5

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// lines are what the oracle prints of a file, as read here.
func lines(r *Reader) ([]string, error) {
	var out []string
	for i := range r.Len() {
		rd, err := r.Read(i)
		if err != nil {
			return nil, err
		}
		samples, err := r.Samples(rd, nil)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", rd.ID, err)
		}
		var b []byte
		for _, s := range samples {
			b = binary.LittleEndian.AppendUint16(b, uint16(s))
		}
		events := ""
		if rd.Later != nil {
			events = strconv.FormatUint(rd.Later.MinKNOWEvents, 10)
		}
		out = append(out, strings.Join([]string{
			rd.ID, rd.Run.ID, strconv.FormatUint(uint64(rd.Channel), 10), strconv.Itoa(int(rd.Well)), rd.PoreType,
			strconv.FormatUint(uint64(rd.Number), 10), strconv.FormatUint(rd.Start, 10), strconv.FormatUint(rd.Duration, 10), rd.EndReason,
			python(rd.Digitisation), python(rd.Offset), python(rd.Range), python(rd.SampleRate), python(rd.MedianBefore), events,
			strconv.Itoa(len(samples)), digest(b), digest(list(rd.Run.Tracking)), digest(list(rd.Run.Context)),
		}, "\t"))
	}
	return out, nil
}

func list(tags map[string]string) []byte {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, k+"="+tags[k])
	}
	slices.Sort(all)
	return []byte(strings.Join(all, "\n"))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

// python writes a number as Python does.
func python(x float64) string {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.ContainsAny(s, ".nN") {
		s += ".0"
	}
	return s
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer r.Close()
	out, err := lines(r)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func same(t *testing.T, path string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d reads, want %d", path, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: read %d is\n%s\nwant\n%s", path, i, got[i], want[i])
		}
	}
}

// TestFilesHoldWhatH5pyReads reads the files beside the script that made them, with what h5py saw
// in them.
func TestFilesHoldWhatH5pyReads(t *testing.T) {
	table, err := os.ReadFile("testdata/golden.tsv")
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]string)
	for line := range strings.Lines(string(table)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		want[name] = append(want[name], rest)
	}
	if len(want) < 6 {
		t.Fatalf("golden.tsv has %d files", len(want))
	}
	for name, lines := range want {
		path := filepath.Join("testdata", name+".fast5")
		same(t, path, readLines(t, path), lines)
	}
}

// oracle is an interpreter with h5py and ONT's plugin: python3, or the one that
// PORESTREAM_SIGNAL_PYTHON names. Continuous integration always has one.
func oracle(tb testing.TB, args ...string) string {
	tb.Helper()
	python := testenv.Python(tb, "PORESTREAM_SIGNAL_PYTHON", "h5py vbz-h5py-plugin pod5", "h5py", "vbz_h5py_plugin", "pod5")
	cmd := exec.CommandContext(tb.Context(), python, append([]string{"testdata/oracle.py"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("oracle.py %s: %v\n%s", args[0], err, stderr.String())
	}
	return string(out)
}

// TestEveryVariant has h5py write files with every combination of library version,
// layout, index, filter and kind of text, and compares what it reads in them with
// what is read here.
func TestEveryVariant(t *testing.T) {
	dir := t.TempDir()
	oracle(t, "write", "../testdata/three_vbz.pod5", dir)
	files, err := filepath.Glob(dir + "/*.fast5")
	if err != nil || len(files) < 80 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	compare(t, files)
}

// TestRecorded compares real files.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("../../../shared/data/formats/fast5/*.fast5")
	if err != nil || len(files) == 0 {
		t.Skip("../shared/data/formats/fast5 is not there")
	}
	compare(t, files)
}

func compare(t *testing.T, files []string) {
	t.Helper()
	parts := strings.Split(oracle(t, append([]string{"read"}, files...)...), "--\n")
	if len(parts) != len(files)+1 {
		t.Fatalf("%d results for %d files", len(parts)-1, len(files))
	}
	for i, file := range files {
		var want []string
		if parts[i] != "" {
			want = strings.Split(strings.TrimSuffix(parts[i], "\n"), "\n")
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			same(t, filepath.Base(file), readLines(t, file), want)
		})
	}
}
