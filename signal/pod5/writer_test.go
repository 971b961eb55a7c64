package pod5

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// writeFile writes reads to a file in memory, and checks that their samples are left as they are.
func writeFile(tb testing.TB, opts WriterOptions, reads []Read, samples [][]int16) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := newTestWriter(tb, &out, opts)
	for i := range reads {
		before := slices.Clone(samples[i])
		if err := w.Add(&reads[i], samples[i]); err != nil {
			tb.Fatal(err)
		}
		if !slices.Equal(before, samples[i]) {
			tb.Fatalf("read %d: its samples were changed", i)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func newTestWriter(tb testing.TB, out io.Writer, opts WriterOptions) *Writer {
	tb.Helper()
	scratch, err := os.Create(filepath.Join(tb.TempDir(), "scratch"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { scratch.Close() })
	w, err := NewWriter(out, scratch, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// sameReads compares all but where signal lies. NaNs are equal.
func sameReads(tb testing.TB, got, want []Read) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d reads, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if d := g.Run.Difference(w.Run); d != "" {
			tb.Fatalf("read %d: run info differs in %s", i, d)
		}
		g.Rows, w.Rows, g.Run, w.Run = nil, nil, nil, nil
		if fmt.Sprintf("%#v", g) != fmt.Sprintf("%#v", w) {
			tb.Fatalf("read %d is\n%#v\nwant\n%#v", i, g, w)
		}
	}
}

// randomReads invents n reads of three runs; some are longer than a row.
func randomReads(r *rand.Rand, n int) (reads []Read, samples [][]int16) {
	var runs []*RunInfo
	for i := range 3 {
		runs = append(runs, &RunInfo{
			AcquisitionID: fmt.Sprintf("run-%d", i), AcquisitionStartTime: time.UnixMilli(1_700_000_000_123 + int64(i)).UTC(),
			ProtocolStartTime: time.UnixMilli(0).UTC(),
			ADCMax:            int16(r.IntN(1 << 15)), ADCMin: int16(-r.IntN(1 << 15)), SampleRate: uint16(1 + r.IntN(math.MaxUint16)),
			SampleID: "sämple", Software: fmt.Sprint("s ", i), SystemType: "",
			ContextTags: map[string]string{"a": "", "b": "2"}, TrackingID: map[string]string{},
		})
	}
	level := func() float32 {
		if r.IntN(4) == 0 {
			return float32(math.NaN())
		}
		return r.Float32() * 300
	}
	for i := range n {
		length := r.IntN(2000)
		switch i % 50 {
		case 0:
			length = 0
		case 1:
			length = 2*chunkSamples + r.IntN(3) - 1
		}
		s := make([]int16, length)
		for k := range s {
			s[k] = int16(r.Uint32() >> r.IntN(16))
		}
		rd := Read{
			Run: runs[r.IntN(3)], Channel: uint32(1 + r.IntN(1<<17)), Well: uint8(r.IntN(256)), PoreType: fmt.Sprint("type", r.IntN(3)),
			Number: r.Uint32(), Start: r.Uint64(), Samples: uint64(length), EndReason: []string{"unknown", "signal_positive", "odd"}[r.IntN(3)],
			EndReasonForced: r.IntN(2) == 0, CalibrationOffset: r.Float32(), CalibrationScale: r.Float32(),
			MedianBefore: level(), OpenPoreLevel: level(), ExpectedOpenPoreLevel: level(), SelectedReadLevel: level(),
			MinKNOWEvents: r.Uint64(), ReadsSinceMuxChange: r.Uint32(), TimeSinceMuxChange: level(),
			TrackedScaling: Scaling{level(), level()}, PredictedScaling: Scaling{level(), level()},
		}
		for k := range rd.ID {
			rd.ID[k] = byte(r.Uint32())
		}
		reads, samples = append(reads, rd), append(samples, s)
	}
	return reads, samples
}

// TestWriterRoundTrip writes invented reads and reads them back.
func TestWriterRoundTrip(t *testing.T) {
	for _, c := range []struct {
		reads        int
		uncompressed bool
	}{{0, false}, {1, false}, {100, true}, {1000, false}, {2345, false}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			want, samples := randomReads(rand.New(rand.NewPCG(1, uint64(c.reads))), c.reads)
			r, err := NewReader(writeFile(t, WriterOptions{Software: "test 1", Uncompressed: c.uncompressed}, want, samples))
			if err != nil {
				t.Fatal(err)
			}
			if r.Software() != "test 1" || r.Version() != formatVersion {
				t.Errorf("written by %q %q", r.Software(), r.Version())
			}
			got, gotSamples, err := drain(r)
			if err != nil {
				t.Fatal(err)
			}
			sameReads(t, got, want)
			for i := range samples {
				if !slices.Equal(gotSamples[i], samples[i]) {
					t.Fatalf("samples of read %d differ", i)
				}
			}
		})
	}
}

// TestWriterGolden holds the writer to its bytes: a change of them must be meant.
func TestWriterGolden(t *testing.T) {
	r, err := NewReader(fixture(t, "three_vbz.pod5"))
	if err != nil {
		t.Fatal(err)
	}
	reads, samples, err := drain(r)
	if err != nil {
		t.Fatal(err)
	}
	got := writeFile(t, WriterOptions{Software: "golden", Identifier: [16]byte{1, 2, 3}}, reads, samples)
	const path = "testdata/written.pod5"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the written file differs from %s: with UPDATE_GOLDEN=1 the test writes it anew; check it with the pod5 package then", path)
	}
}

func TestWriterRefuses(t *testing.T) {
	good := func() (Read, *RunInfo) {
		run := &RunInfo{AcquisitionID: "a", SampleRate: 4000}
		return Read{Run: run, CalibrationScale: 1}, run
	}
	for name, c := range map[string]struct {
		change func(*Read, *RunInfo)
		want   string
	}{
		"scale":      {func(r *Read, _ *RunInfo) { r.CalibrationScale = float32(math.Inf(1)) }, "calibration scale"},
		"no run":     {func(r *Read, _ *RunInfo) { r.Run = nil }, "run_info"},
		"rate":       {func(_ *Read, run *RunInfo) { run.SampleRate = 0 }, "sample_rate"},
		"tab":        {func(_ *Read, run *RunInfo) { run.SampleID = "a\tb" }, `"sample_id" holds a tab`},
		"tag":        {func(_ *Read, run *RunInfo) { run.TrackingID = map[string]string{"k": "\xff"} }, `"tracking_id" has an entry "k" that is not UTF-8`},
		"pore type":  {func(r *Read, _ *RunInfo) { r.PoreType = "a\nb" }, "pore_type"},
		"end reason": {func(r *Read, _ *RunInfo) { r.EndReason = "\x00" }, "end_reason"},
	} {
		rd, run := good()
		c.change(&rd, run)
		w := newTestWriter(t, io.Discard, WriterOptions{})
		err := w.Add(&rd, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if again := w.Close(); !reflect.DeepEqual(again, err) {
			t.Errorf("%s: Close after a failure gave %v", name, again)
		}
	}
	w := newTestWriter(t, io.Discard, WriterOptions{})
	rd, run := good()
	other := *run
	other.SampleID = "x"
	if err := w.Add(&rd, nil); err != nil {
		t.Fatal(err)
	}
	rd.Run = &other
	if err := w.Add(&rd, nil); err == nil || !strings.Contains(err.Error(), `"sample_id" differs`) {
		t.Errorf("a run described in two ways: %v", err)
	}
}

// TestWriterReportsDisk has the output fail at every byte it might.
func TestWriterReportsDisk(t *testing.T) {
	reads, samples := randomReads(rand.New(rand.NewPCG(3, 3)), 3)
	whole := len(writeFile(t, WriterOptions{}, reads, samples))
	for space := 0; space < whole; space += 1 + whole/40 {
		w := newTestWriter(t, &fullDisk{space}, WriterOptions{})
		var err error
		for i := range reads {
			if err = w.Add(&reads[i], samples[i]); err != nil {
				break
			}
		}
		if err == nil {
			err = w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "no space") {
			t.Fatalf("with room for %d of %d bytes: %v", space, whole, err)
		}
	}
}

// fullDisk takes some bytes and no more.
type fullDisk struct{ space int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.space {
		return 0, fmt.Errorf("no space left on device")
	}
	d.space -= len(b)
	return len(b), nil
}

func BenchmarkWriter(b *testing.B) {
	reads, samples := randomReads(rand.New(rand.NewPCG(3, 3)), 200)
	total := 0
	for _, s := range samples {
		total += len(s)
	}
	for b.Loop() {
		writeFile(b, WriterOptions{}, reads, samples)
	}
	b.ReportMetric(float64(total)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
