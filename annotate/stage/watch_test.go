package stage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func coverageRecord(t testing.TB, start int64, revision uint64) testRecord {
	t.Helper()
	c := &streampb.Coverage{
		Run: "run-1", Sample: "lambda", Contig: "J02459.1", Start: start, End: start + 10, Lengths: []uint32{10}, Depths: []uint32{20}, Revision: revision, Panels: "upstream",
	}
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Coverage{Coverage: c}})
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{stream.CoverageKey("lambda", "J02459.1", start), value}
}

// watchedRecords are testRecords with coverage among them.
func watchedRecords(t testing.TB) []stream.Record {
	plain := testRecords(t)
	list := make([]testRecord, 0, len(plain)+2)
	for _, r := range plain {
		list = append(list, testRecord{r.Key, r.Value})
	}
	list = slices.Insert(list, 4, coverageRecord(t, 37_580, 1))
	return records(slices.Insert(list, 10, coverageRecord(t, 37_580, 2))...)
}

func watching(t testing.TB) stream.Handler {
	t.Helper()
	h, err := New(Config{
		Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: lambdaAnnotator(t),
		Watch: &Watch{Partitions: 2, Panels: "own", Concerns: func(v *event.Variant) bool { return v.Annotation.MostSevere.Gene == "cI" }},
	})("calls", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestWatch: variants that concern a rule, coverage and markers are passed on, with
// the fingerprint of this process's panels, and the published events stay the same.
func TestWatch(t *testing.T) {
	recs := watchedRecords(t)
	emissions := handle(t, watching(t), recs)
	var got []string
	for i, e := range emissions {
		for _, o := range e.outs {
			if o.Topic != "watch" {
				continue
			}
			m, err := stream.DecodeWatch(o.Value)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%d: ", i)
			switch body := m.GetBody().(type) {
			case *streampb.WatchRecord_RunStart:
				what += fmt.Sprintf("start %d/%d to %d", body.RunStart.GetSource(), body.RunStart.GetSources(), o.Partition)
			case *streampb.WatchRecord_RunEnd:
				what += fmt.Sprintf("end %d/%d to %d", body.RunEnd.GetSource(), body.RunEnd.GetSources(), o.Partition)
			case *streampb.WatchRecord_Coverage:
				what += fmt.Sprintf("coverage rev %d of %s", body.Coverage.GetRevision(), body.Coverage.GetPanels())
			case *streampb.WatchRecord_Variant:
				published := e.outs[0]
				if string(body.Variant) != string(published.Value) || published.Topic != "variants" {
					t.Errorf("record %d: told of\n%s\npublished is\n%s", i, body.Variant, published.Value)
				}
				what += "variant"
			}
			got = append(got, what)
			if marker := stream.IsMarkerKey(o.Key); m.GetPanels() != "own" || !marker && (string(o.Key) != "lambda" || o.Partition != stream.AnyPartition) {
				t.Errorf("%s: panels %q, key %q, partition %d", what, m.GetPanels(), o.Key, o.Partition)
			}
		}
	}
	want := []string{
		"0: start 1/2 to 0", "0: start 1/2 to 1", "1: variant", "3: variant", "4: coverage rev 1 of upstream",
		"10: coverage rev 2 of upstream", "11: variant", "12: end 1/2 to 0", "12: end 1/2 to 1", "14: variant",
	}
	if !slices.Equal(got, want) {
		t.Errorf("passed on\n%q\nwant\n%q", got, want)
	}

	// Without panels nothing of it is there, and the rest is the same.
	var watched, plain []stream.Out
	for _, e := range emissions {
		watched = append(watched, slices.DeleteFunc(e.outs, func(o stream.Out) bool { return o.Topic == "watch" })...)
	}
	for _, e := range handle(t, newHandler(t, lambdaAnnotator(t), nil), recs) {
		plain = append(plain, e.outs...)
	}
	if fmt.Sprintf("%+v", watched) != fmt.Sprintf("%+v", plain) {
		t.Error("watching changes what is published")
	}
}

// TestWatchReplayGoesOn: restored at any offset, the handler passes on from there
// what one does that never stopped.
func TestWatchReplayGoesOn(t *testing.T) {
	recs := watchedRecords(t)
	whole := handle(t, watching(t), recs)
	for at := range len(recs) + 1 {
		h := watching(t)
		for _, rec := range recs[:at] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		for i, e := range handle(t, h, recs[at:]) {
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", whole[at+i]); got != want {
				t.Fatalf("restored at %d, record %d gives\n%s\nwant\n%s", at, at+i, got, want)
			}
		}
	}
}
