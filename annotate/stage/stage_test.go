package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func lambdaAnnotator(t testing.TB) *annotate.Annotator {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(dir, "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	model, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	if err != nil {
		t.Fatal(err)
	}
	return annotate.New(g, model)
}

func testCall(pos int64, ref, alt string, revision uint64, status streampb.CallStatus) *streampb.Call {
	return &streampb.Call{
		Run: "run-1", Sample: "lambda", VrsId: fmt.Sprintf("ga4gh:VA.%d%s", pos, alt), Contig: "J02459.1", Pos: pos, Ref: ref, Alt: alt,
		Revision: revision, Status: status, Qual: 40, GenotypeQuality: 40, Genotype: []uint32{1}, Depth: 20, AltForward: 10, AltReverse: 9,
		LastChunkMs: 1_700_000_000_000,
	}
}

type testRecord struct {
	key, value []byte
}

func callRecord(t testing.TB, c *streampb.Call) testRecord {
	t.Helper()
	value, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: c}})
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{stream.AlleleKey(c.GetSample(), c.GetVrsId()), value}
}

func markerRecord(t testing.TB, run string, source, sources uint32, end bool) testRecord {
	t.Helper()
	mk := &streampb.Marker{Run: &streampb.Run{Id: run, Sample: "lambda", SampleRate: 4000}, Source: source, Sources: sources}
	value, err := stream.CallsMarker(mk, end)
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{stream.MarkerKey(mk, end), value}
}

func records(list ...testRecord) []stream.Record {
	recs := make([]stream.Record, len(list))
	for i, r := range list {
		recs[i] = stream.Record{Topic: "calls", Partition: 1, Offset: int64(i), Key: r.key, Value: r.value}
	}
	return recs
}

// testRecords are a run from two sources with every status and one bad record.
func testRecords(t testing.TB) []stream.Record {
	return records(
		markerRecord(t, "run-1", 0, 2, false),
		callRecord(t, testCall(37589, "C", "T", 1, streampb.CallStatus_PROVISIONAL)),
		markerRecord(t, "run-1", 1, 2, false),
		callRecord(t, testCall(37589, "C", "T", 2, streampb.CallStatus_STABLE)),
		callRecord(t, testCall(100, "C", "T", 1, streampb.CallStatus_PROVISIONAL)),
		testRecord{[]byte("key"), []byte("not ours")},
		callRecord(t, testCall(100, "C", "T", 2, streampb.CallStatus_RETRACTED)),
		markerRecord(t, "run-1", 1, 2, true),
		markerRecord(t, "run-1", 1, 2, true),
		callRecord(t, testCall(37589, "C", "T", 3, streampb.CallStatus_FINAL)),
		markerRecord(t, "run-1", 0, 2, true),
		markerRecord(t, "run-1", 0, 2, true),
		callRecord(t, testCall(37589, "C", "T", 4, streampb.CallStatus_AMENDED)),
	)
}

type emission struct {
	outs     []stream.Out
	resolved []int64
}

type fakeEmitter struct{ emissions []emission }

func (f *fakeEmitter) Emit(_ context.Context, outs []stream.Out, resolved []int64) error {
	f.emissions = append(f.emissions, emission{outs, resolved})
	return nil
}

func (f *fakeEmitter) Fail(error) {}

func newHandler(t testing.TB, a Annotator, m *Metrics) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: a, Metrics: m})("calls", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func handle(t testing.TB, h stream.Handler, recs []stream.Record) []emission {
	t.Helper()
	emit := new(fakeEmitter)
	for _, rec := range recs {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
	}
	for i, e := range emit.emissions {
		if len(emit.emissions) != len(recs) || !slices.Equal(e.resolved, []int64{recs[i].Offset}) {
			t.Fatalf("%d records give %d emissions; %d resolves %v", len(recs), len(emit.emissions), i, e.resolved)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return emit.emissions
}

// read decodes what was published, as a consumer would.
func read(t testing.TB, o stream.Out) (*event.Variant, *event.RunEnd) {
	t.Helper()
	if o.Topic != "variants" {
		return nil, nil
	}
	v, end, err := event.Decode(stream.Record{Topic: o.Topic, Key: o.Key, Value: o.Value, Headers: o.Headers})
	if err != nil {
		t.Fatal(err)
	}
	return v, end
}

func TestRunThroughTheStage(t *testing.T) {
	reg := prometheus.NewRegistry()
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})
	m := NewMetrics(reg, deadLetters)
	recs := testRecords(t)
	emissions := handle(t, newHandler(t, lambdaAnnotator(t), m), recs)

	var got []string
	for i, e := range emissions {
		for _, o := range e.outs {
			v, end := read(t, o)
			switch {
			case v != nil:
				got = append(got, fmt.Sprintf("%d: %d rev %d %s %s %s", i, v.Allele.Pos, v.Revision, v.Status, v.Annotation.MostSevere.Term, v.ProteinChange()))
				if o.Partition != stream.AnyPartition || string(o.Key) != string(recs[i].Key) {
					t.Errorf("record %d is published with key %q to partition %d", i, o.Key, o.Partition)
				}
			case end != nil:
				got = append(got, fmt.Sprintf("%d: end of %s %d/%d to %d", i, end.Run, end.Source, end.Sources, o.Partition))
			default:
				got = append(got, fmt.Sprintf("%d: %s", i, o.Topic))
			}
		}
	}
	missense := "missense_variant p.Glu118Lys"
	want := []string{
		"1: 37589 rev 1 PROVISIONAL " + missense,
		"3: 37589 rev 2 STABLE " + missense,
		"4: 100 rev 1 PROVISIONAL upstream_gene_variant ",
		"5: dlq",
		"6: 100 rev 2 RETRACTED upstream_gene_variant ",
		"9: 37589 rev 3 FINAL " + missense,
		"10: end of run-1 1/2 to 0", "10: end of run-1 1/2 to 1", "10: end of run-1 1/2 to 2",
		"12: 37589 rev 4 AMENDED " + missense,
	}
	if !slices.Equal(got, want) {
		t.Errorf("published\n%q\nwant\n%q", got, want)
	}
	if got := testutil.ToFloat64(m.variants.WithLabelValues("MODERATE")); got != 4 {
		t.Errorf("%v revisions of moderate impact are counted, want 4", got)
	}
	if got := testutil.ToFloat64(deadLetters.WithLabelValues(Name, stream.CodeForeign)); got != 1 {
		t.Errorf("%v dead letters are counted, want 1", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "porestream_end_to_end_latency_seconds" {
			if n := f.GetMetric()[0].GetHistogram().GetSampleCount(); n != 5 {
				t.Errorf("%d latencies are counted, want 5: all but the final revision's", n)
			}
		}
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// TestReplayGoesOn: restored at any offset, the handler emits from there on what
// one does that never stopped.
func TestReplayGoesOn(t *testing.T) {
	a := lambdaAnnotator(t)
	recs := testRecords(t)
	whole := handle(t, newHandler(t, a, nil), recs)
	for at := range len(recs) + 1 {
		reg := prometheus.NewRegistry()
		m := NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
		h := newHandler(t, a, m)
		for _, rec := range recs[:at] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				if metric.GetCounter().GetValue() != 0 || metric.GetHistogram().GetSampleCount() != 0 {
					t.Errorf("replaying counts in %s", f.GetName())
				}
			}
		}
		if n := testutil.CollectAndCount(m.deadLetters); n != 0 {
			t.Errorf("replaying counts %d codes of dead letters", n)
		}
		for i, e := range handle(t, h, recs[at:]) {
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", whole[at+i]); got != want {
				t.Fatalf("restored at %d, record %d gives\n%s\nwant\n%s", at, at+i, got, want)
			}
		}
	}
}

type brokenAnnotator struct{}

func (brokenAnnotator) Annotate(string, int, string, string) (annotate.Annotation, error) {
	return annotate.Annotation{}, errors.New("no such contig")
}

// TestCallsAreNeverHeldBack: a call that can't be annotated is published with
// the reason.
func TestCallsAreNeverHeldBack(t *testing.T) {
	e := handle(t, newHandler(t, brokenAnnotator{}, nil), records(callRecord(t, testCall(100, "C", "T", 1, streampb.CallStatus_PROVISIONAL))))
	v, _ := read(t, e[0].outs[0])
	if v == nil || v.AnnotationError != "no such contig" || v.Allele.Pos != 100 {
		t.Errorf("published %+v", v)
	}
}

func TestContradictingMarkers(t *testing.T) {
	recs := records(
		markerRecord(t, "run-1", 0, 2, false), markerRecord(t, "run-1", 0, 3, false), markerRecord(t, "run-1", 2, 3, true),
		markerRecord(t, "run-1", 0, 2, true), markerRecord(t, "run-1", 1, 2, true),
	)
	for _, restored := range []int{0, 3} {
		h := newHandler(t, brokenAnnotator{}, nil)
		for _, rec := range recs[:restored] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		emissions := handle(t, h, recs[restored:])
		for i, e := range emissions {
			want := map[int]int{1: 1, 2: 1, 4: 3}[i+restored] // two dead letters, three markers
			if len(e.outs) != want {
				t.Errorf("restored at %d: record %d gives %d records, want %d", restored, i+restored, len(e.outs), want)
			}
		}
	}
}

func BenchmarkHandleCall(b *testing.B) {
	a := lambdaAnnotator(b)
	h := newHandler(b, a, nil)
	revisions := make([]testRecord, 1000)
	for i := range revisions {
		revisions[i] = callRecord(b, testCall(37589, "C", "T", uint64(i+1), streampb.CallStatus_PROVISIONAL))
	}
	recs := records(revisions...)
	emit := new(fakeEmitter)
	b.SetBytes(int64(len(recs[0].Value)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(recs) { // from the first revision again
			i, h = 0, newHandler(b, a, nil)
		}
		rec := recs[i]
		emit.emissions = emit.emissions[:0]
		if err := h.Handle(b.Context(), rec, emit); err != nil {
			b.Fatal(err)
		}
	}
}
