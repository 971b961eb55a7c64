package stage

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
)

// asking has the panel ask for the methylation of a region, too.
func asking(t testing.TB) *fixture {
	t.Helper()
	f := load(t)
	path := filepath.Join(t.TempDir(), "panel.yaml")
	text := panel[:strings.Index(panel, "- id: absent")] + "- id: region\n  methylation: {region: \"J02459.1:101-600\", is: methylated, code: a}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := watchlist.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.watch, err = watchlist.New(f.genome, f.annotator, p); err != nil {
		t.Fatal(err)
	}
	return f
}

// methylated is a revision of calls at 30 positions of the region, each of some reads.
func methylated(t testing.TB, run, sample string, revision uint64, modified, calls uint32) testRecord {
	m := &streampb.Methylation{Run: run, Sample: sample, Contig: "J02459.1", Start: 0, End: 4096, Code: "a", Revision: revision}
	for i := range uint32(30) {
		m.Places, m.Modified, m.Calls = append(m.Places, 2*(110+i)+i%2), append(m.Modified, modified), append(m.Calls, calls)
	}
	return encode(t, sample, &streampb.WatchRecord{Body: &streampb.WatchRecord_Methylation{Methylation: m}, Panels: own})
}

// methylationEnd is the end of a run of a partition of the methylate stage.
func methylationEnd(t testing.TB, run, sample string, source, sources uint32) testRecord {
	mk := &streampb.Marker{Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Source: source, Sources: sources}
	value, err := stream.MethylationEnd(mk, own)
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{stream.MarkerKey(mk, true), value}
}

// TestMethylation: a rule on methylation is answered while reads come; the run ends for the sample once both stages upstream have ended
// it, whichever is the last, and once.
func TestMethylation(t *testing.T) {
	f := asking(t)
	annotated := marker(t, "run-1", "lambda", 0, 1, true)
	ends := []testRecord{methylationEnd(t, "run-1", "lambda", 1, 2), methylationEnd(t, "run-1", "lambda", 0, 2)}
	for _, order := range [][]testRecord{{annotated, ends[0], ends[1]}, {ends[0], ends[1], annotated}, {ends[1], annotated, ends[0]}} {
		recs := append([]testRecord{marker(t, "run-1", "lambda", 0, 1, false), methylated(t, "run-1", "lambda", 1, 1, 1), methylated(t, "run-1", "lambda", 2, 19, 20)}, order...)
		recs = append(recs, order[2], methylated(t, "run-1", "lambda", 2, 0, 20)) // they come again
		got := said(t, handle(t, f.lawful(t)(), records(recs...)))
		want := []string{
			"2: region of lambda is DETECTED", "5: there of lambda is NOT_CALLABLE", "5: region of lambda is DETECTED",
			"5: end of run-1 0/1 to 0", "5: end of run-1 0/1 to 1", "5: end of run-1 0/1 to 2",
		}
		if !slices.Equal(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// TestMethylationOfOthers: a watch that asks for none passes counts and ends of methylation by.
func TestMethylationOfOthers(t *testing.T) {
	f := load(t)
	recs := records(marker(t, "run-1", "lambda", 0, 1, false), marker(t, "run-1", "lambda", 0, 1, true),
		methylated(t, "run-1", "lambda", 1, 9, 9), methylationEnd(t, "run-1", "lambda", 0, 1))
	for _, e := range handle(t, f.lawful(t)(), recs)[2:] {
		if len(e.outs) > 0 {
			t.Errorf("%d records follow", len(e.outs))
		}
	}
}

// TestMethylationOfBarcodes: a barcode that no sheet lists, of which counts come once the variants of its runs have ended, is not answered for good before the
// counts of all of these have ended.
func TestMethylationOfBarcodes(t *testing.T) {
	f := asking(t)
	runs := map[string]*streampb.Run{}
	for _, id := range []string{"run-1", "run-2"} {
		runs[id] = &streampb.Run{Id: id, Sample: "pool", SampleRate: 4000, Samples: []string{"lambda", "other"}}
	}
	mark := func(run string, encoded func(mk *streampb.Marker) ([]byte, error)) testRecord {
		mk := &streampb.Marker{Run: runs[run], Sources: 1}
		value, err := encoded(mk)
		if err != nil {
			t.Fatal(err)
		}
		return testRecord{stream.MarkerKey(mk, true), value}
	}
	start := func(mk *streampb.Marker) ([]byte, error) { return stream.WatchMarker(mk, false, own) }
	annotated := func(mk *streampb.Marker) ([]byte, error) { return stream.WatchMarker(mk, true, own) }
	counted := func(mk *streampb.Marker) ([]byte, error) { return stream.MethylationEnd(mk, own) }
	got := said(t, handle(t, f.lawful(t)(), records(
		mark("run-1", start), mark("run-2", start), mark("run-1", annotated), mark("run-2", annotated),
		methylated(t, "run-1", "lambda", 1, 1, 1), mark("run-1", counted), methylated(t, "run-2", "lambda", 2, 19, 20), mark("run-2", counted),
	)))
	got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, "end of") })
	want := []string{"6: region of lambda is DETECTED", "7: there of lambda is NOT_CALLABLE", "7: region of lambda is DETECTED"}
	if !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
}

// TestMethylationAfterOtherPanels: a run that ended under panels that asked for no methylation doesn't keep its sample's next one from its answers.
func TestMethylationAfterOtherPanels(t *testing.T) {
	f := asking(t)
	old := func(source uint32, end bool) testRecord {
		mk := &streampb.Marker{Run: &streampb.Run{Id: "run-0", Sample: "lambda", SampleRate: 4000}, Source: source, Sources: 2}
		value, err := stream.WatchMarker(mk, end, "sha256:old")
		if err != nil {
			t.Fatal(err)
		}
		return testRecord{stream.MarkerKey(mk, end), value}
	}
	recs := records(
		old(0, false), old(0, true), old(1, true), marker(t, "run-1", "lambda", 0, 1, false), methylated(t, "run-1", "lambda", 1, 19, 20),
		marker(t, "run-1", "lambda", 0, 1, true), methylationEnd(t, "run-1", "lambda", 0, 1),
	)
	got := said(t, handle(t, f.lawful(t)(), recs))
	for _, want := range []string{"2: end of run-0 0/1 to 0", "6: region of lambda is DETECTED", "6: end of run-1 0/1 to 0"} {
		if !slices.Contains(got, want) {
			t.Errorf("said %q, without %q", got, want)
		}
	}
	statetest.Law(t, f.lawful(t), recs, 6, 1)
}

// TestMethylationLaw: a handler that is lost and restored anywhere says what one says that isn't, and for any order of the records of
// two stages the same at the end.
func TestMethylationLaw(t *testing.T) {
	f := asking(t)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 105))
		var want map[string]string
		for round := range 3 {
			var lists [][]testRecord
			for _, run := range []string{"run-1", "run-2"} {
				var counts []testRecord
				for i := range uint32(12) {
					counts = append(counts, methylated(t, run, "lambda", uint64(4*i)+uint64(len(lists))+1, 4*i+uint32(len(lists)), 5*i+2))
				}
				shuffled := slices.Clone(counts)
				rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				lists = append(lists,
					append(shuffled, methylationEnd(t, run, "lambda", 0, 1)),
					f.random(t, rand.New(rand.NewPCG(seed, 106)), run, "lambda", 10))
			}
			recs := records(weave(rng, lists...)...)
			statetest.Law(t, f.lawful(t), recs, 6, seed)
			last := final(t, handle(t, f.lawful(t)(), recs))
			if round == 0 {
				want = last
			}
			const key = "lambda/test/region/"
			if last[key] != want[key] || last[key] == "" {
				t.Errorf("seed %d: at the end\n%s\nwant\n%s", seed, last[key], want[key])
			}
		}
	}
}

// TestCountsThatDontEnd: a run that waits a minute for the end of counts, as where a processor counts without the panel, is reported, once, with the
// partitions that are missing.
func TestCountsThatDontEnd(t *testing.T) {
	f := asking(t)
	var log bytes.Buffer
	h, err := New(Config{
		Topics: stream.NewTopics(""), AlertsPartitions: 3, Watch: f.watch, Panels: own, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})("watch", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	tick := func(of time.Duration) {
		for until := now.Add(of); now.Before(until); now = now.Add(2 * time.Second) {
			if err := h.(stream.Ticker).Tick(t.Context(), now, new(statetest.Recorder)); err != nil {
				t.Fatal(err)
			}
		}
	}
	handle(t, h, records(marker(t, "run-1", "lambda", 0, 1, false), marker(t, "run-1", "lambda", 0, 1, true), methylationEnd(t, "run-1", "lambda", 1, 3)))
	tick(time.Minute)
	if log.Len() > 0 {
		t.Errorf("it is reported at once: %s", &log)
	}
	tick(3 * time.Minute)
	if n := strings.Count(log.String(), "final answers wait"); n != 1 || !strings.Contains(log.String(), "[0 2]") {
		t.Errorf("reported %d times: %s", n, &log)
	}
}
