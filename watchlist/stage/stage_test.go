package stage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// panel asks for an allele that is there, one that is not, and a place that no
// read reaches.
const panel = `panel: test
version: 1
rules:
- id: there
  match: {hgvs: "cI:p.Glu118Lys"}
- id: absent
  match: {vcf: "J02459.1:37742:C:T"}
- id: beyond
  match: {vcf: "J02459.1:100:A:G"}
`

const own = "sha256:own"

// fixture is what the tests watch with.
type fixture struct {
	genome    *genome.Genome
	annotator *annotate.Annotator
	watch     *watchlist.Watch
}

func load(t testing.TB) *fixture {
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
	path := filepath.Join(t.TempDir(), "panel.yaml")
	ref := string(g.Contigs[0].Seq[99:100])
	other := map[string]string{"A": "G", "C": "T", "G": "A", "T": "C"}[ref]
	text := strings.Replace(panel, "100:A:G", "100:"+ref+":"+other, 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := watchlist.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	annotator := annotate.New(g, model)
	w, err := watchlist.New(g, annotator, p)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{genome: g, annotator: annotator, watch: w}
}

func (f *fixture) handler(t testing.TB, m *Metrics) stream.Handler {
	return f.handlerOf(t, m, stream.PartitionFor([]byte("lambda"), 4))
}

func (f *fixture) handlerOf(t testing.TB, m *Metrics, partition int32) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), AlertsPartitions: 3, Watch: f.watch, Panels: own, Metrics: m})("watch", partition, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newMetrics() (*Metrics, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	return NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})), reg
}

type testRecord struct{ key, value []byte }

func encode(t testing.TB, key string, rec *streampb.WatchRecord) testRecord {
	t.Helper()
	value, err := stream.EncodeWatch(rec)
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{[]byte(key), value}
}

// variant is a revision of the allele that the panel finds, from a run.
func (f *fixture) variant(t testing.TB, run string, revision uint64, status streampb.CallStatus, alt, depth uint32) testRecord {
	t.Helper()
	contig := f.genome.Contigs[0]
	id, err := vrs.AlleleID(contig.Digest(), contig.Seq, 37_588, "C", "T")
	if err != nil {
		t.Fatal(err)
	}
	a, err := f.annotator.Annotate(contig.Name, 37_589, "C", "T")
	if err != nil {
		t.Fatal(err)
	}
	document, err := event.FromCall(&streampb.Call{
		Run: run, Sample: "lambda", VrsId: id, Contig: contig.Name, Pos: 37_589, Ref: "C", Alt: "T", Revision: revision, Status: status,
		Qual: 40, GenotypeQuality: 40, Genotype: []uint32{1}, Depth: depth, AltForward: alt / 2, AltReverse: alt - alt/2, LastChunkMs: 1_700_000_000_000,
	}, a).JSON()
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, "lambda", &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: document}, Panels: own})
}

// covered is a stretch of the gene, of one depth, in which no read shows a watched allele.
func covered(t testing.TB, run string, start int64, depth uint32, revision uint64, by, of string) testRecord {
	t.Helper()
	return encode(t, "lambda", &streampb.WatchRecord{Body: &streampb.WatchRecord_Coverage{Coverage: &streampb.Coverage{
		Run: run, Sample: "lambda", Contig: "J02459.1", Start: start, End: start + 300, Lengths: []uint32{100, 200}, Depths: []uint32{depth, depth},
		Revision: revision, Panels: of, Counted: true, Shown: unseen(t, start, start+300, depth),
	}}, Panels: by})
}

// unseen is what the panel names in [start, end), which none of depth reads show.
func unseen(t testing.TB, start, end int64, depth uint32) []*streampb.Shown {
	t.Helper()
	var list []*streampb.Shown
	for _, n := range load(t).watch.Named() {
		if pos := int64(n.Pos); pos >= start && pos < end {
			list = append(list, &streampb.Shown{Named: n.Name, Pos: pos + 1, Depth: depth})
		}
	}
	return list
}

func marker(t testing.TB, run, sample string, source, sources uint32, end bool) testRecord {
	t.Helper()
	mk := &streampb.Marker{Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Source: source, Sources: sources}
	value, err := stream.WatchMarker(mk, end, own)
	if err != nil {
		t.Fatal(err)
	}
	return testRecord{stream.MarkerKey(mk, end), value}
}

func records(list ...testRecord) []stream.Record {
	recs := make([]stream.Record, len(list))
	for i, r := range list {
		recs[i] = stream.Record{Topic: "watch", Partition: 1, Offset: int64(i), Key: r.key, Value: r.value}
	}
	return recs
}

// run is a run from two sources with all kinds of records, good and bad.
func (f *fixture) run(t testing.TB) []stream.Record {
	return records(
		marker(t, "run-1", "lambda", 0, 2, false),
		f.variant(t, "run-1", 1, streampb.CallStatus_PROVISIONAL, 4, 5),
		marker(t, "run-1", "lambda", 1, 2, false),
		covered(t, "run-1", 37_500, 8, 1, own, own),
		f.variant(t, "run-1", 2, streampb.CallStatus_STABLE, 18, 20),
		testRecord{[]byte("lambda"), []byte("not ours")},
		encode(t, "lambda", &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: []byte("{")}, Panels: own}),
		encode(t, "lambda", &streampb.WatchRecord{Body: &streampb.WatchRecord_Variant{Variant: []byte(`{"sample":"lambda","revision":1}`)}, Panels: own}),
		covered(t, "run-1", 37_500, 25, 2, own, own),
		marker(t, "run-1", "lambda", 1, 2, true),
		marker(t, "run-1", "lambda", 0, 3, true), // contradicts
		f.variant(t, "run-1", 3, streampb.CallStatus_FINAL, 22, 25),
		marker(t, "run-1", "lambda", 0, 2, true),
		marker(t, "run-1", "lambda", 0, 2, true),
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

func handle(t testing.TB, h stream.Handler, recs []stream.Record) []emission {
	t.Helper()
	emit := new(fakeEmitter)
	for i, rec := range recs {
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if len(emit.emissions) != i+1 || !slices.Equal(emit.emissions[i].resolved, []int64{rec.Offset}) {
			t.Fatalf("offset %d: want one emission that resolves it", rec.Offset)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return emit.emissions
}

// said spells emissions: what every record has led to.
func said(t testing.TB, emissions []emission) []string {
	t.Helper()
	var list []string
	for i, e := range emissions {
		for _, o := range e.outs {
			if o.Topic != "alerts" {
				list = append(list, fmt.Sprintf("%d: %s", i, o.Topic))
				continue
			}
			a, end, err := alert.Decode(stream.Record{Topic: o.Topic, Key: o.Key, Value: o.Value, Headers: o.Headers})
			if err != nil {
				t.Fatal(err)
			}
			if end != nil {
				list = append(list, fmt.Sprintf("%d: end of %s %d/%d to %d", i, end.Run, end.Source, end.Sources, o.Partition))
				continue
			}
			list = append(list, fmt.Sprintf("%d: %s of %s is %s", i, a.Rule, a.Sample, a.State))
			if string(o.Key) != a.Key() || o.Partition != stream.AnyPartition {
				t.Errorf("alert %s goes to key %q, partition %d", a.Key(), o.Key, o.Partition)
			}
		}
	}
	return list
}

func TestRunThroughTheStage(t *testing.T) {
	f := load(t)
	m, reg := newMetrics()
	own := stream.PartitionFor([]byte("lambda"), 4)
	got := said(t, handle(t, f.handler(t, m), f.run(t)))
	want := []string{
		"1: there of lambda is SUSPECTED",
		"4: there of lambda is DETECTED",
		"5: dlq", "6: dlq", "7: dlq",
		"8: absent of lambda is NEGATIVE",
		"10: dlq",
		"12: there of lambda is DETECTED", "12: absent of lambda is NEGATIVE", "12: beyond of lambda is NOT_CALLABLE", // final
		fmt.Sprintf("12: end of run-1 %d/4 to 0", own), fmt.Sprintf("12: end of run-1 %d/4 to 1", own), fmt.Sprintf("12: end of run-1 %d/4 to 2", own),
	}
	if !slices.Equal(got, want) {
		t.Errorf("said\n%q\nwant\n%q", got, want)
	}
	for state, want := range map[watchlist.State]float64{watchlist.Detected: 2, watchlist.Suspected: 1, watchlist.Negative: 2, watchlist.NotCallable: 1, watchlist.Pending: 0} {
		if got := testutil.ToFloat64(m.alerts.WithLabelValues(string(state))); got != want {
			t.Errorf("%v alerts of state %s are counted, want %v", got, state, want)
		}
	}
	for code, want := range map[string]float64{stream.CodeForeign: 1, stream.CodePayload: 1, stream.CodeInvalid: 2} {
		if got := testutil.ToFloat64(m.deadLetters.WithLabelValues(Name, code)); got != want {
			t.Errorf("%v dead letters of code %s, want %v", got, code, want)
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "porestream_alert_latency_seconds" {
			if n := family.GetMetric()[0].GetHistogram().GetSampleCount(); n != 2 {
				t.Errorf("%d latencies are counted, want those of the two alerts that follow from reads", n)
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
	f := load(t)
	recs := f.run(t)
	whole := handle(t, f.handler(t, nil), recs)
	for at := range len(recs) + 1 {
		m, reg := newMetrics()
		h := f.handler(t, m)
		for _, rec := range recs[:at] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if metric.GetCounter().GetValue() != 0 || metric.GetHistogram().GetSampleCount() != 0 {
					t.Errorf("replaying counts in %s", family.GetName())
				}
			}
		}
		for i, e := range handle(t, h, recs[at:]) {
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", whole[at+i]); got != want {
				t.Fatalf("restored at %d, record %d gives\n%s\nwant\n%s", at, at+i, got, want)
			}
		}
	}
}

// final folds the emitted alerts: the last alert of every rule, without the members that
// describe its history.
func final(t testing.TB, emissions []emission) map[string]string {
	t.Helper()
	newest := make(map[string]*watchlist.Alert)
	for _, e := range emissions {
		for _, o := range e.outs {
			a, _, err := alert.Decode(stream.Record{Topic: o.Topic, Key: o.Key, Value: o.Value, Headers: o.Headers})
			if err != nil {
				t.Fatal(err)
			}
			if a != nil && o.Topic == "alerts" && alert.Supersedes(a, newest[a.Key()]) {
				newest[a.Key()] = a
			}
		}
	}
	out := make(map[string]string)
	for key, a := range newest {
		a.ID, a.Revision, a.Previous = "", 0, ""
		document, err := a.JSON()
		if err != nil {
			t.Fatal(err)
		}
		out[key] = string(document)
	}
	return out
}

// TestOrderAndRepetitions: in whatever order the partitions upstream bring the
// evidence, and however often, the last alerts are the same; and a record that
// comes again right away brings nothing.
func TestOrderAndRepetitions(t *testing.T) {
	f := load(t)
	evidence := []testRecord{
		f.variant(t, "run-1", 1, streampb.CallStatus_PROVISIONAL, 4, 5), f.variant(t, "run-1", 2, streampb.CallStatus_STABLE, 18, 20),
		f.variant(t, "run-1", 3, streampb.CallStatus_FINAL, 22, 25),
		covered(t, "run-1", 37_500, 8, 1, own, own), covered(t, "run-1", 37_500, 25, 2, own, own),
	}
	whole := func(evidence []testRecord) []emission {
		list := []testRecord{marker(t, "run-1", "lambda", 0, 1, false)}
		list = append(append(list, evidence...), marker(t, "run-1", "lambda", 0, 1, true))
		return handle(t, f.handler(t, nil), records(list...))
	}
	want := final(t, whole(evidence))
	if len(want) != 3 {
		t.Fatalf("final alerts %v", want)
	}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 51))
		order := append(slices.Clone(evidence), evidence[rng.IntN(len(evidence))])
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if got := final(t, whole(order)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: final alerts\n%v\nwant\n%v", seed, got, want)
		}
	}
	var twice []testRecord
	for _, r := range evidence {
		twice = append(twice, r, r)
	}
	if got, want := len(said(t, whole(twice))), len(said(t, whole(evidence))); got != want {
		t.Errorf("records that come twice lead to %d records, once to %d", got, want)
	}
}

// TestTwoRunsOfOneSample: the sample is answered once both have ended, also when
// one of them says nothing, and late reads are said to be so.
func TestTwoRunsOfOneSample(t *testing.T) {
	f := load(t)
	h := f.handler(t, nil)
	list := []testRecord{
		marker(t, "run-1", "lambda", 0, 1, false),
		marker(t, "run-2", "lambda", 0, 1, false),
		covered(t, "run-1", 37_500, 10, 1, own, own),
		marker(t, "run-1", "lambda", 0, 1, true),
		covered(t, "run-2", 37_500, 25, 2, own, own),
		marker(t, "run-2", "lambda", 0, 1, true),
		covered(t, "run-2", 37_500, 31, 3, own, own),
		marker(t, "run-2", "lambda", 0, 1, true),
	}
	got := said(t, handle(t, h, records(list...)))
	var alerts []string
	for _, s := range got {
		if !strings.Contains(s, "end of") {
			alerts = append(alerts, s)
		}
	}
	if len(alerts) < 5 || alerts[0] != "4: there of lambda is NEGATIVE" {
		t.Fatalf("said %q", got)
	}
	for _, s := range alerts {
		if strings.HasPrefix(s, "3:") || strings.HasPrefix(s, "2:") {
			t.Errorf("%s, while a run goes on", s)
		}
	}
	if !slices.Contains(alerts, "5: beyond of lambda is NOT_CALLABLE") {
		t.Errorf("the end of both runs leaves %q", alerts)
	}

	// A run that no record is about keeps the sample open too.
	silent := []testRecord{
		marker(t, "run-1", "lambda", 0, 1, false), marker(t, "run-2", "lambda", 0, 1, false),
		covered(t, "run-1", 37_500, 10, 1, own, own), marker(t, "run-1", "lambda", 0, 1, true),
	}
	h = f.handler(t, nil)
	if got := said(t, handle(t, h, records(silent...))); len(got) != 3 {
		t.Errorf("while a silent run goes on: %q", got)
	}
	if got := said(t, handle(t, h, records(marker(t, "run-2", "lambda", 0, 1, true)))); len(got) != 3+3 {
		t.Errorf("the end of a silent run: %q", got)
	}
}

// TestSampleWithoutReads: it has no records, so every rule is NOT_CALLABLE, and
// the partition to which they would belong says so, no other.
func TestSampleWithoutReads(t *testing.T) {
	f := load(t)
	answered := 0
	for partition := range int32(4) {
		got := said(t, handle(t, f.handlerOf(t, nil, partition), records(marker(t, "run-9", "water", 0, 1, false), marker(t, "run-9", "water", 0, 1, true))))
		alerts := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.Contains(s, "of water is NOT_CALLABLE") })
		if len(got)-len(alerts) != 3 {
			t.Errorf("partition %d: %q", partition, got)
		}
		if answered += len(alerts); len(alerts) > 0 && partition != stream.PartitionFor([]byte("water"), 4) {
			t.Errorf("partition %d answers", partition)
		}
	}
	if answered != 3 {
		t.Errorf("%d answers, want one for each rule", answered)
	}
}

// TestSamplesOfARun: every sample that a sheet lists is answered, also one without
// reads; of barcodes that no sheet lists only those with records.
func TestSamplesOfARun(t *testing.T) {
	f := load(t)
	samples := []string{"lambda", "nobody", "water"}
	mk := func(end, listed bool) testRecord {
		m := &streampb.Marker{Run: &streampb.Run{Id: "run-1", Sample: "pool", SampleRate: 4000, Samples: samples, SamplesListed: listed}, Sources: 1}
		value, err := stream.WatchMarker(m, end, own)
		if err != nil {
			t.Fatal(err)
		}
		return testRecord{stream.MarkerKey(m, end), value}
	}
	for listed, want := range map[bool][]string{true: samples, false: {"lambda"}} {
		answered := make(map[string]int)
		for partition := range int32(4) {
			list := []testRecord{mk(false, listed)}
			if partition == stream.PartitionFor([]byte("lambda"), 4) {
				list = append(list, covered(t, "run-1", 37_500, 30, 1, own, own))
			}
			for _, s := range said(t, handle(t, f.handlerOf(t, nil, partition), records(append(list, mk(true, listed))...))) {
				if _, rest, ok := strings.Cut(s, " of "); ok {
					if sample, _, ok := strings.Cut(rest, " is "); ok {
						answered[sample]++
					}
				}
			}
		}
		if got := slices.Sorted(maps.Keys(answered)); !slices.Equal(got, want) {
			t.Errorf("listed %v: answered %v, want %v", listed, answered, want)
		}
	}
}

// TestOtherPanels: thresholds and counts for other panels are no evidence,
// neither live nor replayed, and no ground to say that something is absent.
func TestOtherPanels(t *testing.T) {
	f := load(t)
	foreign := f.variant(t, "run-1", 1, streampb.CallStatus_STABLE, 18, 20)
	m, err := stream.DecodeWatch(foreign.value)
	if err != nil {
		t.Fatal(err)
	}
	m.Panels = "sha256:other"
	recs := records(
		marker(t, "run-1", "lambda", 0, 1, false), encode(t, "lambda", m),
		covered(t, "run-1", 37_500, 40, 1, "sha256:other", own), covered(t, "run-1", 37_500, 40, 1, own, "sha256:other"),
		marker(t, "run-1", "lambda", 0, 1, true),
	)
	metrics, _ := newMetrics()
	got := said(t, handle(t, f.handler(t, metrics), recs))
	want := []string{"4: there of lambda is NOT_CALLABLE", "4: absent of lambda is NOT_CALLABLE", "4: beyond of lambda is NOT_CALLABLE"}
	if !slices.Equal(got[:len(got)-3], want) {
		t.Errorf("said %q, want %q and the run's end", got, want)
	}
	if n := testutil.ToFloat64(metrics.others); n != 3 {
		t.Errorf("%v records are counted, want 3", n)
	}
}

// TestDepthAloneIsNoGround: coverage by a processor from before reads were counted makes no rule NEGATIVE.
func TestDepthAloneIsNoGround(t *testing.T) {
	f := load(t)
	old := covered(t, "run-1", 37_500, 40, 1, own, own)
	m, err := stream.DecodeWatch(old.value)
	if err != nil {
		t.Fatal(err)
	}
	m.GetCoverage().Counted, m.GetCoverage().Shown = false, nil
	for _, tt := range []struct {
		depth testRecord
		want  string
	}{{old, "NEGATIVE"}, {encode(t, "lambda", m), "NOT_CALLABLE"}} {
		recs := records(marker(t, "run-1", "lambda", 0, 1, false), tt.depth, marker(t, "run-1", "lambda", 0, 1, true))
		got := said(t, handle(t, f.handler(t, nil), recs))
		if want := "2: absent of lambda is " + tt.want; !slices.Contains(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

func BenchmarkHandleCoverage(b *testing.B) {
	f := load(b)
	h := f.handler(b, nil)
	rec := records(covered(b, "run-1", 37_500, 25, 1, own, own))[0]
	emit := new(fakeEmitter)
	b.SetBytes(int64(len(rec.Value)))
	b.ReportAllocs()
	for b.Loop() {
		emit.emissions = emit.emissions[:0]
		if err := h.Handle(b.Context(), rec, emit); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzHandle: whatever a checked envelope holds, a record is handled or refused,
// and the run still comes to its answers.
func FuzzHandle(f *testing.F) {
	fix := load(f)
	for _, rec := range fix.run(f) {
		if m, err := stream.DecodeWatch(rec.Value); err == nil && m.GetVariant() != nil {
			f.Add(m.GetVariant(), int64(37_500), int64(300), uint32(25))
		}
	}
	contig := `{"sample":"lambda","revision":2,"status":"STABLE","variant":{"vrs_id":"x","contig":%q,"pos":%d,"ref":%q,"alt":%q},"call":{"depth":4,"alt_forward":9}}`
	f.Add(fmt.Appendf(nil, contig, "J02459.1", 37_589, "C", "T"), int64(0), int64(1), uint32(0))
	f.Add(fmt.Appendf(nil, contig, "J02459.1", 99_999, "C", "T"), int64(48_400), int64(1000), uint32(1<<31))
	f.Add(fmt.Appendf(nil, contig, "elsewhere", -7, "", ""), int64(1), int64(1<<20), uint32(3))
	f.Fuzz(func(t *testing.T, document []byte, start, length int64, depth uint32) {
		list := []testRecord{marker(t, "run-1", "lambda", 0, 1, false)}
		for _, rec := range []*streampb.WatchRecord{
			{Body: &streampb.WatchRecord_Variant{Variant: document}, Panels: own},
			{Body: &streampb.WatchRecord_Coverage{Coverage: &streampb.Coverage{
				Sample: "lambda", Contig: "J02459.1", Start: start, End: start + length, Lengths: []uint32{uint32(length)}, Depths: []uint32{depth}, Revision: 1, Panels: own,
				Counted: true, Shown: []*streampb.Shown{
					{Named: "cI:p.Glu118Lys", Pos: 37_587, Forward: depth / 3, Depth: depth}, {Pos: start, Ref: "A", Alt: "C", Reverse: depth / 2, Depth: depth},
				},
			}}, Panels: own},
		} {
			if value, err := stream.EncodeWatch(rec); err == nil {
				list = append(list, testRecord{[]byte("lambda"), value})
			}
		}
		list = append(list, marker(t, "run-1", "lambda", 0, 1, true))
		got := final(t, handle(t, fix.handler(t, nil), records(list...)))
		for _, rule := range []string{"there", "absent", "beyond"} {
			found := false
			for key := range got {
				found = found || strings.HasPrefix(key, "lambda/test/"+rule+"/")
			}
			if !found {
				t.Errorf("rule %s has no answer: %v", rule, got)
			}
		}
	})
}
