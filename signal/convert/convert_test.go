package convert

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/signal/pod5"
)

const fixtures = "../testdata/"

// run converts and fails the test on an error.
func run(t *testing.T, inputs []string, to string, opts Options) Report {
	t.Helper()
	report, err := Run(t.Context(), inputs, to, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// contents are all that is in a POD5 file, a line for each read.
func contents(t *testing.T, path string) []string {
	t.Helper()
	r, err := pod5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var lines []string
	for b := range r.Batches() {
		reads, err := r.Batch(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, rd := range reads {
			samples, err := r.Samples(&rd, nil)
			if err != nil {
				t.Fatal(err)
			}
			run := *rd.Run
			run.AcquisitionStartTime, run.ProtocolStartTime = run.AcquisitionStartTime.UTC(), run.ProtocolStartTime.UTC()
			rd.Run, rd.Rows = nil, nil
			if rd.EndReason == "" {
				rd.EndReason = "unknown"
			}
			lines = append(lines, fmt.Sprintf("%#v %+v %d samples %x", rd, run, len(samples), digest(samples)))
		}
	}
	return lines
}

func digest(samples []int16) []byte {
	var b []byte
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	h := sha256.Sum256(b)
	return h[:]
}

func sameLines(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d reads, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			at := 0
			for at < min(len(got[i]), len(want[i])) && got[i][at] == want[i][at] {
				at++
			}
			at = max(at-60, 0)
			t.Fatalf("read %d is\n...%.200s\nwant\n...%.200s", i, got[i][at:], want[i][at:])
		}
	}
}

// TestRoundTrip takes POD5 files to BLOW5 and back: not a bit of their content may
// change, and nothing may be reported as lost.
func TestRoundTrip(t *testing.T) {
	files := []string{fixtures + "three_vbz.pod5", fixtures + "three_uncompressed.pod5", invented(t, 3000)}
	if dir := dataFolder(); dir != "" {
		more, err := filepath.Glob(dir + "/formats/*.pod5")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
		files = append(files, dir+"/formats/read5/test.pod5", dir+"/r10/can_reads.pod5")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			dir := t.TempDir()
			there := run(t, []string{file}, dir+"/a.blow5", Options{})
			back := run(t, []string{dir + "/a.blow5"}, dir+"/b.pod5", Options{})
			if len(there.Losses) > 0 || len(back.Losses) > 0 {
				t.Errorf("losses there %+v, back %+v", there.Losses, back.Losses)
			}
			want := contents(t, file)
			sameLines(t, contents(t, dir+"/b.pod5"), want)
			if there.Reads != int64(len(want)) || there.Samples != back.Samples || !slices.Equal(back.Files, []string{dir + "/b.pod5"}) {
				t.Errorf("reports %+v and %+v", there, back)
			}
			run(t, []string{file}, dir+"/c.pod5", Options{})
			sameLines(t, contents(t, dir+"/c.pod5"), want)
			onlyFiles(t, dir, "a.blow5", "b.pod5", "c.pod5")
		})
	}
}

// dataFolder is the folder of larger recordings, if it is there.
func dataFolder() string {
	dir := "../../../shared/data"
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// onlyFiles checks that a folder holds these files and no drafts.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}

// invented writes a POD5 file of reads with values at the edge of what BLOW5 holds.
func invented(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("invented-%d.pod5", n))
	writePOD5(t, path, inventedReads(rand.New(rand.NewPCG(8, uint64(n))), n))
	return path
}

type testRead struct {
	pod5.Read
	samples []int16
}

func inventedReads(r *rand.Rand, n int) (reads []testRead) {
	runs := []*pod5.RunInfo{
		{AcquisitionID: "first", SampleRate: 5000, ADCMax: 2047, ADCMin: -2048, AcquisitionStartTime: time.UnixMilli(1_700_000_000_456), TrackingID: map[string]string{"empty": "", "dot": "."}},
		{AcquisitionID: "sec/ond", SampleRate: 4000, ContextTags: map[string]string{"sample_id": "another"}, SampleID: "this"},
	}
	level := func() float32 {
		return []float32{float32(math.NaN()), 0, -1, math.MaxFloat32, math.SmallestNonzeroFloat32, 200 * r.Float32()}[r.IntN(6)]
	}
	for range n {
		rd := testRead{Read: pod5.Read{
			Run: runs[r.IntN(2)], Channel: r.Uint32N(20), Well: uint8(r.IntN(255)), PoreType: []string{"not_set", "", "R10.4.1"}[r.IntN(3)],
			Number: r.Uint32N(math.MaxInt32), Start: r.Uint64() - 1, EndReason: []string{"unknown", "paused", "of_tomorrow"}[r.IntN(3)],
			EndReasonForced: r.IntN(2) == 0, CalibrationOffset: level(), CalibrationScale: level(), MedianBefore: level(),
			OpenPoreLevel: level(), ExpectedOpenPoreLevel: level(), SelectedReadLevel: level(), MinKNOWEvents: r.Uint64() - 1,
			ReadsSinceMuxChange: r.Uint32() - 1, TimeSinceMuxChange: level(),
			TrackedScaling: pod5.Scaling{Shift: level(), Scale: level()}, PredictedScaling: pod5.Scaling{Shift: level(), Scale: level()},
		}, samples: make([]int16, r.IntN(60))}
		for math.IsNaN(float64(rd.CalibrationOffset)) || math.IsNaN(float64(rd.CalibrationScale)) {
			rd.CalibrationOffset, rd.CalibrationScale = level(), level()
		}
		for i := range rd.samples {
			rd.samples[i] = int16(r.Uint32())
		}
		for i := range rd.ID {
			rd.ID[i] = byte(r.Uint32())
		}
		reads = append(reads, rd)
	}
	return reads
}

func writePOD5(t *testing.T, path string, reads []testRead) {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	scratch, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	w, err := pod5.NewWriter(out, scratch, pod5.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range reads {
		if err := w.Add(&reads[i].Read, reads[i].samples); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// records are all that is in a BLOW5 file but the order of its fields and groups.
func records(t *testing.T, path string) []string {
	t.Helper()
	r, err := blow5.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var lines []string
	for {
		err := r.Next(func(rec *blow5.Record, _ int64) error {
			samples, err := rec.AppendSamples(nil)
			var aux []string
			for i, f := range rec.Fields() {
				v := rec.AuxAt(i)
				s, _ := v.Text()
				u, _ := v.Uint()
				x, _ := v.Float()
				list, _ := v.Ints()
				aux = append(aux, fmt.Sprintf("%s:%v %q %d %v %v", f.Name, v.Present(), s, u, x, list))
			}
			slices.Sort(aux)
			lines = append(lines, fmt.Sprintf("%s %v %v %v %v %v %v %d samples %x", rec.ReadID, rec.Digitisation, rec.Offset, rec.Range, rec.SamplingRate, aux, r.Header().Groups[rec.ReadGroup], len(samples), digest(samples)))
			return err
		})
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBLOW5Stays rewrites BLOW5 files of every compression as BLOW5.
func TestBLOW5Stays(t *testing.T) {
	files, err := filepath.Glob(fixtures + "*.blow5")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	if dir := dataFolder(); dir != "" {
		more, err := filepath.Glob(dir + "/formats/blow5/*.blow5")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		to := filepath.Join(t.TempDir(), "out.blow5")
		report := run(t, []string{file}, to, Options{})
		if len(report.Losses) > 0 {
			t.Errorf("%s: losses %+v", file, report.Losses)
		}
		sameLines(t, records(t, to), records(t, file))
	}
}

// TestLosses converts what the target has no place for.
func TestLosses(t *testing.T) {
	fields := func(l []Loss) (names []string) {
		for _, l := range l {
			names = append(names, fmt.Sprintf("%s %d", l.Field, l.Reads))
		}
		return names
	}
	dir := t.TempDir()
	f, err := os.Create(dir + "/in.blow5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var aux []blow5.Field
	for _, a := range [][2]string{{"start_mux", "uint16_t"}, {"read_number", "int32_t"}, {"median_before", "double"}, {"mine", "float"}, {"unused", "int8_t*"}} {
		field, err := blow5.NewField(a[0], a[1])
		if err != nil {
			t.Fatal(err)
		}
		aux = append(aux, field)
	}
	w, err := blow5.NewWriter(f, []map[string]string{{"run_id": "r"}}, aux)
	if err != nil {
		t.Fatal(err)
	}
	well, _ := aux[0].Uint(256)
	median, _ := aux[2].Float(0.1)
	mine, _ := aux[3].Float(1)
	for i, rec := range []blow5.Record{
		{Digitisation: 2048, Range: 512, Offset: 3},
		{Digitisation: 8192, Range: 1467.61, Offset: 0.1},
	} {
		rec.ReadID, rec.SamplingRate = fmt.Sprintf("00000000-0000-0000-0000-%012d", i), 4000
		values := make([]blow5.Value, len(aux))
		if i == 1 {
			values = []blow5.Value{well, {}, median, mine, {}}
		}
		if err := w.Add(&rec, values, []int16{1, 2}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	report := run(t, []string{f.Name()}, dir+"/out.pod5", Options{})
	if got, want := fields(report.Losses), []string{"digitisation 1", "median_before 1", "mine 1", "offset 1", "range 1", "start_mux 1"}; !slices.Equal(got, want) {
		t.Errorf("losses to POD5 are %q, want %q", got, want)
	}

	reads := inventedReads(rand.New(rand.NewPCG(1, 1)), 3)
	reads[0].Well, reads[1].Number, reads[2].Start = math.MaxUint8, math.MaxUint32, math.MaxUint64
	writePOD5(t, dir+"/in.pod5", reads)
	report = run(t, []string{dir + "/in.pod5"}, dir+"/out.blow5", Options{})
	if got, want := fields(report.Losses), []string{"read_number 1", "start_mux 1", "start_time 1"}; !slices.Equal(got, want) {
		t.Errorf("losses to BLOW5 are %q, want %q", got, want)
	}
}

// TestMergeAndSplit merges files of both formats and divides the result again.
func TestMergeAndSplit(t *testing.T) {
	dir := t.TempDir()
	reads := inventedReads(rand.New(rand.NewPCG(3, 4)), 250)
	writePOD5(t, dir+"/a.pod5", reads[:100])
	writePOD5(t, dir+"/b.pod5", reads[100:])
	writePOD5(t, dir+"/all.pod5", reads)
	run(t, []string{dir + "/b.pod5"}, dir+"/b.blow5", Options{})
	want := contents(t, dir+"/all.pod5")
	for _, b := range []string{"/b.pod5", "/b.blow5"} {
		for _, format := range []Format{POD5, BLOW5} {
			to := dir + "/merged" + filepath.Ext(b) + "." + string(format)
			run(t, []string{dir + "/a.pod5", dir + b}, to, Options{})
			if format == BLOW5 {
				run(t, []string{to}, to+".pod5", Options{})
				to += ".pod5"
			}
			sameLines(t, contents(t, to), want)
		}
	}
	for name, c := range map[string]struct {
		split Split
		files int
		same  func(a, b testRead) bool
	}{
		"run":     {Split{Run: true}, 2, func(a, b testRead) bool { return a.Run == b.Run }},
		"channel": {Split{Channel: true}, 20, func(a, b testRead) bool { return a.Channel == b.Channel }},
		"reads":   {Split{Reads: 60}, 5, nil},
	} {
		for _, format := range []Format{POD5, BLOW5} {
			t.Run(name+" "+string(format), func(t *testing.T) {
				out := t.TempDir() + "/new/folder"
				report := run(t, []string{dir + "/a.pod5", dir + "/b.blow5"}, out, Options{Format: format, Split: c.split})
				if len(report.Files) != c.files || report.Reads != 250 {
					t.Fatalf("%+v", report)
				}
				var all []string
				for _, f := range report.Files {
					if format == BLOW5 {
						run(t, []string{f}, f+".pod5", Options{})
						f += ".pod5"
					}
					part := contents(t, f)
					if name == "reads" && len(part) > 60 {
						t.Errorf("%s holds %d reads", f, len(part))
					}
					if c.same != nil {
						first := index(want, part[0])
						for _, line := range part {
							if !c.same(reads[first], reads[index(want, line)]) {
								t.Fatalf("%s holds reads that don't belong together", f)
							}
						}
					}
					all = append(all, part...)
				}
				slices.Sort(all)
				sameLines(t, all, slices.Sorted(slices.Values(want)))
			})
		}
	}
}

func index(lines []string, line string) int { return slices.Index(lines, line) }

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	reads := inventedReads(rand.New(rand.NewPCG(3, 4)), 4)
	writePOD5(t, dir+"/a.pod5", reads[:2])
	writePOD5(t, dir+"/twice.pod5", reads[1:])
	other := slices.Clone(reads[:2])
	for i := range other {
		changed := *other[i].Run
		other[i].ID[0]++
		changed.FlowCellID = "another " + changed.AcquisitionID
		other[i].Run = &changed
	}
	writePOD5(t, dir+"/other.pod5", other)
	if err := os.WriteFile(dir+"/broken.pod5", []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(fixtures + "three_zstd_svb.blow5")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/cut.blow5", whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		in   []string
		to   string
		opts Options
	}{
		"file already exists; --force": {[]string{"a.pod5"}, "other.pod5", Options{}},
		"is a folder":                  {[]string{"a.pod5"}, "", Options{Format: POD5, Force: true}},
		"format to write is not clear": {[]string{"a.pod5"}, "x.fast5", Options{}},
		"twice.pod5: read ":            {[]string{"a.pod5", "twice.pod5"}, "x.pod5", Options{}},
		`field "flow_cell_id" is not`:  {[]string{"a.pod5", "other.pod5"}, "x.pod5", Options{}},
		"broken.pod5: byte 0":          {[]string{"a.pod5", "broken.pod5"}, "x.pod5", Options{}},
		"cut.blow5: byte":              {[]string{"cut.blow5"}, "x.blow5", Options{}},
		"no such file":                 {[]string{"a.pod5"}, "absent/x.pod5", Options{}},
		"absent.pod5: no such":         {[]string{"absent.pod5"}, "x.pod5", Options{}},
	} {
		var in []string
		for _, f := range c.in {
			in = append(in, filepath.Join(dir, f))
		}
		_, err := Run(t.Context(), in, filepath.Join(dir, c.to), c.opts)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	onlyFiles(t, dir, "a.pod5", "twice.pod5", "other.pod5", "broken.pod5", "cut.blow5")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, []string{dir + "/a.pod5"}, dir+"/x.pod5", Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled conversion gave %v", err)
	}
}

// TestNamesThatAreNoUUID go from BLOW5 to BLOW5 only.
func TestNamesThatAreNoUUID(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(dir + "/in.blow5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := blow5.NewWriter(f, []map[string]string{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(&blow5.Record{ReadID: "mine", Digitisation: 1, SamplingRate: 4000}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), []string{f.Name()}, dir+"/x.pod5", Options{}); err == nil || !strings.Contains(err.Error(), `read "mine": POD5 names reads by UUID`) {
		t.Error(err)
	}
	if report := run(t, []string{f.Name()}, dir+"/x.blow5", Options{}); report.Reads != 1 {
		t.Errorf("%+v", report)
	}
}

// TestNeverOverwrites has a file appear under the name while the conversion runs.
func TestNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	to := dir + "/x.pod5"
	_, err := Run(t.Context(), []string{fixtures + "three_vbz.pod5"}, to, Options{Progress: func(done, total int64) {
		if done == total {
			if err := os.WriteFile(to, []byte("theirs"), 0o600); err != nil {
				t.Error(err)
			}
		}
	}})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("the conversion ended with %v", err)
	}
	if b, err := os.ReadFile(to); err != nil || string(b) != "theirs" {
		t.Errorf("the other's file holds %q, %v", b, err)
	}
	onlyFiles(t, dir, "x.pod5")
	run(t, []string{fixtures + "three_vbz.pod5"}, to, Options{Force: true})
	sameLines(t, contents(t, to), contents(t, fixtures+"three_vbz.pod5"))
	// A file may be replaced by what is made of it.
	run(t, []string{to}, to, Options{Force: true})
	sameLines(t, contents(t, to), contents(t, fixtures+"three_vbz.pod5"))
	onlyFiles(t, dir, "x.pod5")
}

// TestOneRunAtTwoRates: BLOW5 has a read group for each rate of one run id, and POD5, in which it would
// stay as it was, is refused.
func TestOneRunAtTwoRates(t *testing.T) {
	dir := t.TempDir()
	run(t, []string{"../testdata/two_rates.pod5"}, dir+"/out.blow5", Options{})
	r, err := blow5.Open(dir + "/out.blow5")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var rates []float64
	for err == nil {
		err = r.Next(func(rec *blow5.Record, _ int64) error {
			rates = append(rates, float64(rec.ReadGroup), rec.SamplingRate)
			return nil
		})
	}
	if !errors.Is(err, io.EOF) || !slices.Equal(rates, []float64{0, 4000, 1, 5000}) {
		t.Errorf("%v, %v", rates, err)
	}
	_, err = Run(t.Context(), []string{"../testdata/two_rates.pod5"}, dir+"/out.pod5", Options{})
	if err == nil || !strings.Contains(err.Error(), `field "sample_rate" is not what`) {
		t.Error(err)
	}
}
