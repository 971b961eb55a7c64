package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/chaos/load/sequencer"
	"github.com/porestream/porestream/chaos/load/tally"
)

// TestMain lets the program that is tested be its own broker and stage.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "broker" || os.Args[1] == "stage") {
		main()
	}
	os.Exit(m.Run())
}

// TestLoad is a short load at a higher pace: 64 channels for 20 s in 4 s. All that is
// given fits where it may wait, so that a busy machine loses nothing either.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs ingest")
	}
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", bin, "../../cmd/ingest").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cfg := &config{
		channels: 64, rate: 5000, chunk: 800 * time.Millisecond, length: 20 * time.Second, pace: 5, patience: time.Hour, partitions: 3,
		recording: filepath.Join("..", "..", "testdata", "lambda", "reads.pod5"), bin: bin, out: t.TempDir(),
	}
	r, err := run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if faults := r.faults(); len(faults) > 0 {
		t.Error(strings.Join(faults, "\n"))
	}
	if n := r.decoded.Cell.Samples(); n != 64*20*5000 {
		t.Errorf("%d samples were decoded", n)
	}
	var text bytes.Buffer
	r.print(&text)
	if !strings.Contains(text.String(), "6.4 M samples, the same as given on 64 of 64 channels") {
		t.Error(text.String())
	}
}

// TestFaults: a promise that isn't held is reported.
func TestFaults(t *testing.T) {
	cell := func() tally.Cell {
		c := make(tally.Cell, 2)
		c.Add(1, []byte{1, 0})
		c.Add(2, []byte{2, 0})
		return c
	}
	const level = 50 << 20
	steady, growing := make([]int64, 60), make([]int64, 60)
	for i := range steady {
		steady[i] = level
		growing[i] = level + int64(i)<<20
	}
	for _, tt := range []struct {
		name   string
		change func(*report)
		want   string
	}{
		{"nothing", func(*report) {}, ""},
		{"left out", func(r *report) { r.given.Skipped = 7 }, "7 samples were left out"},
		{"lost", func(r *report) { r.decoded.Cell[1] = tally.Channel{} }, "channel 2: 1 samples were given, and 0 have come"},
		{"twice", func(r *report) { r.decoded.Cell.Add(1, []byte{1, 0}) }, "channel 1: 1 samples were given, and 2 have come"},
		{"memory", func(r *report) { r.ingest.resident = growing }, "ingest: resident memory from"},
		{"too short to be judged", func(r *report) { r.ingest.resident = growing[:10] }, ""},
	} {
		r := &report{ingest: &process{name: "ingest", observations: observations{resident: steady}}, given: sequencer.Report{Given: cell()}, decoded: decoded{Cell: cell()}}
		tt.change(r)
		if got := strings.Join(r.faults(), "; "); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestObservations(t *testing.T) {
	began := time.Now()
	o := observations{first: usage{began, time.Second}, last: usage{began.Add(10 * time.Second), 6 * time.Second}}
	if c := o.cores(); c != 0.5 {
		t.Errorf("%v cores, want 0.5", c)
	}
	for i := range 30 {
		held := int64(100 << 20)
		if i >= 10 {
			held += int64(i) << 20
		}
		o.resident = append(o.resident, held)
	}
	if s := o.slope(time.Second) / (1 << 20); s < 59.9 || s > 60.1 {
		t.Errorf("%v MiB a minute, want 60", s)
	}
	if s := (&observations{resident: []int64{1}}).slope(time.Second); s != 0 {
		t.Errorf("a single look has a slope of %v", s)
	}
}

func TestPercentile(t *testing.T) {
	d := decoded{Ages: make([]int, 100)}
	if d.percentile(0.5) != 0 {
		t.Error("no chunk has an age")
	}
	d.Ages[4], d.Ages[9], d.Ages[99] = 50, 49, 1
	for share, want := range map[float64]time.Duration{0.5: 50 * time.Millisecond, 0.99: 100 * time.Millisecond, 1: time.Second} {
		if got := d.percentile(share); got != want {
			t.Errorf("%v of the chunks are within %v, want %v", share, got, want)
		}
	}
}
