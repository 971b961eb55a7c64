package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

func alertRecord(t testing.TB, sample, rule, hash string, revision uint64, state watchlist.State) stream.Record {
	t.Helper()
	a := &watchlist.Alert{
		SchemaVersion: 1, ID: "x", Sample: sample, Panel: watchlist.Source{ID: "panel", Version: "1", Hash: hash}, Rule: rule, Label: "two\twords",
		Scope: watchlist.ScopeRule, State: state, Previous: watchlist.Pending, Revision: revision, Reason: "tested",
	}
	o, err := alert.Record("alerts", a)
	if err != nil {
		t.Fatal(err)
	}
	return stream.Record{Topic: "alerts", Partition: stream.PartitionFor(o.Key, 3), Key: o.Key, Value: o.Value, Headers: o.Headers}
}

// TestAlertFold: whatever the order of the partitions and however often a stretch
// of one is delivered, the state is that of the last records of every key.
func TestAlertFold(t *testing.T) {
	var partitions [3][]stream.Record
	put := func(recs ...stream.Record) {
		for _, rec := range recs {
			partitions[rec.Partition] = append(partitions[rec.Partition], rec)
		}
	}
	for _, sample := range []string{"a", "b"} {
		for rule := range 5 {
			for revision := uint64(1); revision <= 4; revision++ {
				put(alertRecord(t, sample, fmt.Sprint("rule-", rule), "old", revision, watchlist.Suspected))
			}
			put(alertRecord(t, sample, fmt.Sprint("rule-", rule), "new", 1, watchlist.Detected), alertRecord(t, sample, fmt.Sprint("rule-", rule), "new", 2, watchlist.Negative))
		}
	}
	for source := range uint32(2) {
		outs, err := event.RunEndRecords("alerts", 3, &streampb.Marker{Run: &streampb.Run{Id: "run", Sample: "a"}, Source: source, Sources: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range outs {
			put(stream.Record{Topic: "alerts", Partition: o.Partition, Key: o.Key, Value: o.Value, Headers: o.Headers})
		}
	}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 42))
		f := NewAlertFold(3)
		next := [3]int{}
		for !f.Ended("run") {
			p := rng.IntN(3)
			if next[p] == len(partitions[p]) {
				continue
			}
			// A crash sends the last records again, those of the old panel excepted:
			// its process is gone.
			if rng.IntN(4) == 0 {
				back := max(0, next[p]-3)
				for back < next[p] && strings.Contains(string(partitions[p][back].Value), `"old"`) {
					back++
				}
				next[p] = back
			}
			if _, err := f.Add(partitions[p][next[p]]); err != nil {
				t.Fatal(err)
			}
			next[p]++
		}
		if got := f.Samples(); !slices.Equal(got, []string{"a", "b"}) {
			t.Fatalf("seed %d: samples %q", seed, got)
		}
		if got := f.states([]*streampb.Run{{Sample: "a"}, {Sample: "a"}, {Sample: "c"}}); len(got) != 1 || got[watchlist.Negative] != 5 {
			t.Fatalf("seed %d: states %v", seed, got)
		}
		list := f.Alerts("a")
		if len(list) != 5 || len(f.Alerts("nobody")) != 0 {
			t.Fatalf("seed %d: %d alerts", seed, len(list))
		}
		for i, a := range list {
			if a.Rule != fmt.Sprint("rule-", i) || a.Panel.Hash != "new" || a.Revision != 2 || a.State != watchlist.Negative {
				t.Errorf("seed %d: %+v", seed, a)
			}
		}
	}

	f := NewAlertFold(3)
	if a, err := f.Add(alertRecord(t, "a", "r", "h", 2, watchlist.Detected)); err != nil || a == nil {
		t.Errorf("a new alert brings %v, %v", a, err)
	}
	if a, err := f.Add(alertRecord(t, "a", "r", "h", 2, watchlist.Detected)); err != nil || a != nil {
		t.Errorf("the same again brings %v, %v", a, err)
	}
	if a, err := f.Add(variantRecord(t, "a", "chr1", 5, 1, streampb.CallStatus_FINAL)); err != nil || a != nil {
		t.Errorf("a variant brings %v, %v", a, err)
	}
	bad := alertRecord(t, "a", "r", "h", 3, watchlist.Detected)
	bad.Value = bad.Value[1:]
	if _, err := f.Add(bad); err == nil {
		t.Error("a damaged record was accepted")
	}
}

func TestWriteAlerts(t *testing.T) {
	f := NewAlertFold(3)
	for _, rec := range []stream.Record{
		alertRecord(t, "a", "r2", "h", 1, watchlist.NotCallable), alertRecord(t, "a", "r1", "h", 1, watchlist.Detected), alertRecord(t, "b", "r1", "h", 1, watchlist.Detected),
	} {
		if _, err := f.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	r := &Result{Genome: testGenome(t), Runs: []*streampb.Run{{Sample: "a"}, {Sample: "c"}}, Fold: NewFold(3), Alerts: f}
	if err := r.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(dir, "a.alerts.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], "a\tpanel\t1\tr1\t.\tDETECTED\t.\t") || !strings.Contains(lines[2], "\ttwo words\t.\ttested") {
		t.Errorf("table\n%s", table)
	}
	for _, line := range lines {
		if n := strings.Count(line, "\t") + 1; n != len(alertColumns) {
			t.Errorf("%d columns in %q", n, line)
		}
	}
	for name, want := range map[string]int{"a.alerts.json": 2, "c.alerts.json": 0} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var list []watchlist.Alert
		if err := json.Unmarshal(text, &list); err != nil || len(list) != want || bytes.Equal(text, []byte("null\n")) {
			t.Errorf("%s: %d alerts, %v", name, len(list), err)
		}
	}
	r.Alerts = nil
	plain := t.TempDir()
	if err := r.Write(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(plain, "*alerts*"))
	if err != nil || len(left) > 0 {
		t.Errorf("without panels there are %v", left)
	}
}
