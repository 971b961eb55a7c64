package stage

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// truth are the SNPs of the molecules that the tests sequence, 1-based: those of
// testdata/lambda/truth.vcf.
var truth = map[int]byte{37589: 'T', 37742: 'T', 43082: 'A', 45352: 'A'}

func lambda(t testing.TB) *genome.Genome {
	t.Helper()
	g, err := genome.Load(filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// simulate sequences n molecules around the truth, with three mismatches in a
// hundred bases, and returns their segments.
func simulate(t testing.TB, g *genome.Genome, run, sample string, n int, seed uint64) []*streampb.Segment {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 21))
	contig := g.Contigs[0]
	var all []*streampb.Segment
	for i := range n {
		length := 800 + rng.IntN(1600)
		start := 36_500 + rng.IntN(46_500-36_500-length)
		ref := contig.Seq[start : start+length]
		seq := bytes.Clone(ref)
		for pos, alt := range truth {
			if p := pos - 1 - start; p >= 0 && p < length {
				seq[p] = alt
			}
		}
		for j := 1; j < length-1; j++ {
			if rng.IntN(100) < 3 {
				seq[j] = "ACGT"[rng.IntN(4)]
			}
		}
		var ops []align.Op
		for j := range seq {
			kind := align.Match
			if seq[j] != ref[j] {
				kind = align.Mismatch
			}
			if k := len(ops) - 1; k >= 0 && ops[k].Kind == kind {
				ops[k].Len++
			} else {
				ops = append(ops, align.Op{Kind: kind, Len: 1})
			}
		}
		qualities := make([]byte, length)
		for j := range qualities {
			qualities[j] = byte(8 + rng.IntN(15))
		}
		reverse := rng.IntN(2) == 1
		if reverse {
			seq = reverseComplement(seq)
		}
		segments, err := align.Segments(&align.Read{
			Run: run, Sample: sample, ID: fmt.Sprintf("%s-%d-%d", run, seed, i), Seq: seq, Qualities: qualities, LastChunkMs: 1_700_000_000_000 + int64(i),
		}, &align.Alignment{
			Contig: contig.Name, Start: start, End: start + length, QueryEnd: length, Reverse: reverse, MappingQuality: 60, Ops: ops,
		}, contig.Seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, segments...)
	}
	return all
}

func reverseComplement(s []byte) []byte {
	out := make([]byte, len(s))
	for i, b := range s {
		out[len(s)-1-i] = "TGCA"[bytes.IndexByte([]byte("ACGT"), b)]
	}
	return out
}

func segmentValue(t testing.TB, s *streampb.Segment) []byte {
	t.Helper()
	value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Segment{Segment: s}})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func markerValue(t testing.TB, run, sample string, source, sources uint32, end bool) []byte {
	t.Helper()
	value, err := stream.ReadsMarker(&streampb.Marker{
		Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Source: source, Sources: sources,
	}, end)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func records(values [][]byte) []stream.Record {
	recs := make([]stream.Record, len(values))
	for i, v := range values {
		recs[i] = stream.Record{Topic: "reads", Partition: 2, Offset: int64(i), Key: []byte("key"), Value: v}
	}
	return recs
}

// runRecords is one run from two sources, whose records interleave.
func runRecords(t testing.TB, segments []*streampb.Segment) []stream.Record {
	var values [][]byte
	values = append(values, markerValue(t, "run-1", "lambda", 0, 2, false), markerValue(t, "run-1", "lambda", 1, 2, false))
	for i, s := range segments {
		if i == len(segments)*3/4 {
			values = append(values, markerValue(t, "run-1", "lambda", 1, 2, true))
		}
		values = append(values, segmentValue(t, s))
	}
	return records(append(values, markerValue(t, "run-1", "lambda", 0, 2, true)))
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

func (f *fakeEmitter) outs() []stream.Out {
	var outs []stream.Out
	for _, e := range f.emissions {
		outs = append(outs, e.outs...)
	}
	return outs
}

func newHandler(t testing.TB, g *genome.Genome, m *Metrics) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Metrics: m})("reads", 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func handle(t testing.TB, h stream.Handler, recs []stream.Record) *fakeEmitter {
	t.Helper()
	emit := new(fakeEmitter)
	for _, rec := range recs {
		before := len(emit.emissions)
		if err := h.Handle(t.Context(), rec, emit); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		if got := emit.emissions[before:]; len(got) != 1 || !slices.Equal(got[0].resolved, []int64{rec.Offset}) {
			t.Fatalf("offset %d: emissions %v: want one that resolves it", rec.Offset, got)
		}
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return emit
}

// calls decodes the calls among outs.
func calls(t testing.TB, outs []stream.Out) []*streampb.Call {
	t.Helper()
	var list []*streampb.Call
	for _, o := range outs {
		if o.Topic != "calls" {
			continue
		}
		m, err := stream.DecodeCalls(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		if c := m.GetCall(); c != nil {
			if string(o.Key) != "lambda/"+c.GetVrsId() || o.Partition != stream.ContigPartition("lambda", "J02459.1", 3) {
				t.Fatalf("call goes to key %q, partition %d", o.Key, o.Partition)
			}
			list = append(list, c)
		}
	}
	return list
}

// finals lists the final calls without their revision numbers.
func finals(t testing.TB, outs []stream.Out) []string {
	t.Helper()
	var list []string
	for _, c := range calls(t, outs) {
		if c.GetStatus() == streampb.CallStatus_FINAL {
			c.Revision = 0
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(b))
		}
	}
	return list
}

func TestCallsOfARun(t *testing.T) {
	g := lambda(t)
	recs := runRecords(t, simulate(t, g, "run-1", "lambda", 150, 1))
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	outs := handle(t, newHandler(t, g, m), recs).outs()

	found := make(map[int]byte)
	revisions := make(map[string]uint64)
	perStatus := make(map[streampb.CallStatus]int)
	for _, c := range calls(t, outs) {
		if c.GetRevision() != revisions[c.GetVrsId()]+1 {
			t.Errorf("revision %d of %s follows revision %d", c.GetRevision(), c.GetVrsId(), revisions[c.GetVrsId()])
		}
		revisions[c.GetVrsId()] = c.GetRevision()
		perStatus[c.GetStatus()]++
		if c.GetStatus() == streampb.CallStatus_FINAL && len(c.GetFilters()) == 0 {
			found[int(c.GetPos())] = c.GetAlt()[0]
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(truth) {
		t.Errorf("final calls %v, want %v", found, truth)
	}
	if perStatus[streampb.CallStatus_PROVISIONAL] == 0 || perStatus[streampb.CallStatus_STABLE] == 0 {
		t.Errorf("nothing was called while the run went on: %v", perStatus)
	}

	// Markers: the start once, for every partition, before all; the end behind all.
	for p := range 3 {
		for i, o := range map[bool]stream.Out{false: outs[p], true: outs[len(outs)-3+p]} {
			rec, err := stream.DecodeCalls(o.Value)
			if err != nil {
				t.Fatal(err)
			}
			mk := rec.GetRunStart()
			if i {
				mk = rec.GetRunEnd()
			}
			if mk.GetRun().GetId() != "run-1" || mk.GetSource() != 2 || mk.GetSources() != 4 || o.Partition != int32(p) {
				t.Errorf("marker %d: %v", p, rec)
			}
		}
	}
	if markers := len(outs) - len(calls(t, outs)); markers != 6 {
		t.Errorf("%d markers, want 6", markers)
	}

	if got := testutil.ToFloat64(m.segments.WithLabelValues("applied")); got != 150 {
		t.Errorf("%v segments are counted, want 150", got)
	}
	if got := testutil.ToFloat64(m.revisions.WithLabelValues("final")); got != float64(perStatus[streampb.CallStatus_FINAL]) {
		t.Errorf("%v final revisions are counted", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// TestReplayGoesOn: a handler that was restored from the records before an offset
// emits from there on, byte by byte, what one does that never stopped.
func TestReplayGoesOn(t *testing.T) {
	g := lambda(t)
	recs := runRecords(t, simulate(t, g, "run-1", "lambda", 70, 2))
	recs[17].Value = []byte("not ours")
	whole := handle(t, newHandler(t, g, nil), recs).emissions
	for _, at := range []int{0, 2, 40, 54, 55, len(recs) - 1, len(recs)} {
		reg := prometheus.NewRegistry()
		deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})
		m := NewMetrics(reg, deadLetters)
		h := newHandler(t, g, m)
		for _, rec := range recs[:at] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		if n := testutil.ToFloat64(m.segments.WithLabelValues("applied")) + float64(testutil.CollectAndCount(deadLetters)); n != 0 {
			t.Errorf("replaying %d records counts %v of them again", at, n)
		}
		rest := handle(t, h, recs[at:]).emissions
		for i, e := range rest {
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", whole[at+i]); got != want {
				t.Fatalf("restored at %d, record %d gives\n%s\nwant\n%s", at, at+i, got, want)
			}
		}
	}
}

// TestRepetitionsAndOrder: any record again changes nothing, and neither does the
// order in which reads come.
func TestRepetitionsAndOrder(t *testing.T) {
	g := lambda(t)
	segments := simulate(t, g, "run-1", "lambda", 80, 3)
	recs := runRecords(t, segments)
	whole := handle(t, newHandler(t, g, nil), recs).outs()
	want := finals(t, whole)
	if len(want) < len(truth) {
		t.Fatalf("%d final calls", len(want))
	}
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 22))
		var again []stream.Record
		for i, rec := range recs {
			again = append(again, rec)
			for rng.IntN(3) == 0 {
				again = append(again, recs[rng.IntN(i+1)])
			}
		}
		for i := range again {
			again[i].Offset = int64(i)
		}
		if got := handle(t, newHandler(t, g, nil), again).outs(); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", whole) {
			t.Errorf("seed %d: %d records with repetitions, %d without", seed, len(got), len(whole))
		}

		shuffled := slices.Clone(segments)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := finals(t, handle(t, newHandler(t, g, nil), runRecords(t, shuffled)).outs()); !slices.Equal(got, want) {
			t.Errorf("seed %d: other final calls in another order", seed)
		}
	}
}

// TestReadsThatGoOn: what is published of reads before their end, and withdrawn, is
// received while the run goes on, and changes nothing that is final.
func TestReadsThatGoOn(t *testing.T) {
	g := lambda(t)
	segments := simulate(t, g, "run-1", "lambda", 80, 3)
	want := finals(t, handle(t, newHandler(t, g, nil), runRecords(t, segments)).outs())
	values := [][]byte{markerValue(t, "run-1", "lambda", 0, 1, false)}
	add := func(s *streampb.Segment, partial uint32) {
		s = proto.CloneOf(s)
		s.Partial = partial
		if partial == 0 {
			values = append(values, segmentValue(t, s))
			return
		}
		value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Partial{Partial: s}})
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, value)
	}
	for i, s := range segments {
		add(s, 1)
		if i%3 == 0 {
			add(segments[(i+40)%len(segments)], 1) // of which the end has come, or comes later
		}
		add(s, 2)
		stray := proto.CloneOf(s)
		stray.ReadId += " elsewhere"
		add(stray, 1)
		if i%2 == 0 {
			w, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_Withdrawal{Withdrawal: &streampb.Withdrawal{
				Run: "run-1", Sample: "lambda", ReadId: stray.GetReadId(), Contig: s.GetContig(), Region: s.GetRegion(),
			}}})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, w)
		}
		add(s, 0)
	}
	values = append(values, markerValue(t, "run-1", "lambda", 0, 1, true))
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	outs := handle(t, newHandler(t, g, m), records(values)).outs()
	if got := finals(t, outs); !slices.Equal(got, want) {
		t.Errorf("other final calls with reads that go on:\n%q, want\n%q", got, want)
	}
	if got := testutil.ToFloat64(m.segments.WithLabelValues("partial")); got < 200 {
		t.Errorf("%v segments of reads that go on were counted", got)
	}
	if got := testutil.ToFloat64(m.segments.WithLabelValues("applied")); got != float64(len(segments)) {
		t.Errorf("%v segments were applied, of %d", got, len(segments))
	}
	statetest.Law(t, func() stream.Handler { return newHandler(t, g, nil) }, records(values), 6, 9)
}

// TestTwoRunsOfOneSample: calls are final once both have ended, and what comes
// after that amends them.
func TestTwoRunsOfOneSample(t *testing.T) {
	g := lambda(t)
	first, second := simulate(t, g, "run-1", "lambda", 60, 4), simulate(t, g, "run-2", "lambda", 60, 5)
	var values [][]byte
	add := func(v ...[]byte) { values = append(values, v...) }
	add(markerValue(t, "run-1", "lambda", 0, 1, false), markerValue(t, "run-2", "lambda", 0, 1, false))
	for i := range first {
		add(segmentValue(t, first[i]))
		if i < 30 {
			add(segmentValue(t, second[i]))
		}
	}
	add(markerValue(t, "run-1", "lambda", 0, 1, true))
	firstEnd := len(values)
	for _, s := range second[30:50] {
		add(segmentValue(t, s))
	}
	add(markerValue(t, "run-2", "lambda", 0, 1, true))
	bothEnd := len(values)
	for _, s := range second[50:] {
		add(segmentValue(t, s))
	}
	add(markerValue(t, "run-2", "lambda", 0, 1, true))

	h := newHandler(t, g, nil)
	recs := records(values)
	before := handle(t, h, recs[:bothEnd-1]).emissions
	for i, e := range before {
		for _, c := range calls(t, e.outs) {
			if c.GetStatus() == streampb.CallStatus_FINAL || c.GetStatus() == streampb.CallStatus_AMENDED {
				t.Errorf("record %d: %v while a run of the sample goes on", i, c)
			}
		}
	}
	if got := len(before[firstEnd-1].outs); got != 3 {
		t.Errorf("the first run's end gives %d records, want its markers alone", got)
	}
	if got := finals(t, handle(t, h, recs[bothEnd-1:bothEnd]).outs()); len(got) < len(truth) {
		t.Errorf("%d final calls once both have ended", len(got))
	}
	late := handle(t, h, recs[bothEnd:]).emissions
	amended := make(map[int]*streampb.Call)
	for _, c := range calls(t, late[len(late)-1].outs) {
		if c.GetStatus() != streampb.CallStatus_AMENDED && c.GetStatus() != streampb.CallStatus_RETRACTED || c.GetReason() == "" {
			t.Errorf("after the end: %v", c)
		}
		amended[int(c.GetPos())] = c
	}

	if len(amended) < len(truth) {
		t.Errorf("reads after the end amend %d calls", len(amended))
	}

	// All reads at once give the same evidence.
	var all [][]byte
	all = append(all, markerValue(t, "run-1", "lambda", 0, 1, false))
	for _, s := range slices.Concat(first, second) {
		all = append(all, segmentValue(t, s))
	}
	all = append(all, markerValue(t, "run-1", "lambda", 0, 1, true))
	for _, c := range calls(t, handle(t, newHandler(t, g, nil), records(all)).outs()) {
		a := amended[int(c.GetPos())]
		if c.GetStatus() != streampb.CallStatus_FINAL || truth[int(c.GetPos())] == 0 || a == nil {
			continue // unchanged since, or not one of the truth
		}
		if a.GetDepth() != c.GetDepth() || a.GetQual() != c.GetQual() {
			t.Errorf("amended to %v, at once %v", a, c)
		}
		delete(amended, int(c.GetPos()))
	}
}

// TestSamplesOfARun: a run that was taken apart by barcodes ends for all of its samples,
// and a sample only when all runs that may have reads of it have.
func TestSamplesOfARun(t *testing.T) {
	g := lambda(t)
	mk := func(run string, end bool, samples ...string) []byte {
		value, err := stream.ReadsMarker(&streampb.Marker{Run: &streampb.Run{Id: run, Sample: "pool", SampleRate: 4000, Samples: samples}, Sources: 1}, end)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	values := [][]byte{mk("run-1", false, "lambda", "other"), mk("run-2", false, "lambda")}
	for _, s := range simulate(t, g, "run-1", "lambda", 80, 4) {
		values = append(values, segmentValue(t, s))
	}
	values = append(values, mk("run-1", true, "lambda", "other"))
	h := newHandler(t, g, nil)
	outs := handle(t, h, records(values)).outs()
	if got := finals(t, outs); len(got) != 0 {
		t.Errorf("%d final calls while a run with the sample goes on", len(got))
	}
	last := handle(t, h, records([][]byte{mk("run-2", true, "lambda")})).outs()
	if got := finals(t, last); len(got) < len(truth) {
		t.Errorf("%d final calls once both runs have ended", len(got))
	}
	m, err := stream.DecodeCalls(last[len(last)-1].Value)
	if err != nil || !slices.Equal(m.GetRunEnd().GetRun().GetSamples(), []string{"lambda"}) {
		t.Errorf("the end is passed on as %v, %v", m, err)
	}
}

func TestDeadLetters(t *testing.T) {
	g := lambda(t)
	good := simulate(t, g, "run-1", "lambda", 1, 6)[0]
	edit := func(f func(*streampb.Segment)) []byte {
		s := proto.CloneOf(good)
		f(s)
		return segmentValue(t, s)
	}
	recs := records([][]byte{
		markerValue(t, "run-1", "lambda", 0, 2, false),
		edit(func(s *streampb.Segment) { s.Contig = "chr1" }),
		edit(func(s *streampb.Segment) { s.Region = 1 }),
		edit(func(s *streampb.Segment) { s.Region = 1<<32 - 1 }),
		edit(func(s *streampb.Segment) { s.Start = 48_500 }),
		edit(func(s *streampb.Segment) { s.Start = -1 }),
		edit(func(s *streampb.Segment) { s.Ops = s.Ops[:len(s.Ops)-1] }),
		edit(func(s *streampb.Segment) { s.Ops = nil }),
		edit(func(s *streampb.Segment) { s.Qualities = s.Qualities[1:] }),
		edit(func(s *streampb.Segment) { s.Bases = append(slices.Clone(s.Bases), 'A') }),
		markerValue(t, "run-1", "other", 0, 2, false),
		markerValue(t, "run-1", "lambda", 0, 3, true),
		[]byte("not ours"),
	})
	deadLetters := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"})
	h := newHandler(t, g, NewMetrics(prometheus.NewRegistry(), deadLetters))
	emissions := handle(t, h, recs).emissions
	for i, e := range emissions[1:] {
		code := stream.CodeInvalid
		if i == len(emissions)-2 {
			code = stream.CodeForeign
		}
		if len(e.outs) != 1 || e.outs[0].Topic != "dlq" {
			t.Errorf("record %d gives %v, want a dead letter", i+1, e.outs)
			continue
		}
		headers := make(map[string]string)
		for _, h := range e.outs[0].Headers {
			headers[h.Key] = string(h.Value)
		}
		if headers[stream.HeaderStage] != Name || headers[stream.HeaderCode] != code || headers[stream.HeaderOffset] != fmt.Sprint(i+1) {
			t.Errorf("record %d: headers %v", i+1, headers)
		}
	}
	if got := testutil.ToFloat64(deadLetters.WithLabelValues(Name, stream.CodeInvalid)); got != float64(len(recs)-2) {
		t.Errorf("%v invalid records are counted, want %d", got, len(recs)-2)
	}
	// None of it is in the state.
	if got := h.(worker).handler.markers.Ended("run-1"); got {
		t.Error("a marker that was refused ended the run")
	}
	outs := handle(t, h, records([][]byte{markerValue(t, "run-1", "lambda", 0, 2, true), markerValue(t, "run-1", "lambda", 1, 2, true)})).outs()
	if len(outs) != 3 {
		t.Errorf("the run ends with %d records, want the markers alone", len(outs))
	}
}

// watching is a handler that reports the coverage of two targets, one of which
// no read reaches.
func watching(t testing.TB, g *genome.Genome, m *Metrics) stream.Handler {
	t.Helper()
	h, err := New(Config{
		Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Metrics: m, Panels: "sha256:1",
		Targets: map[string]variant.Targets{"J02459.1": {Spans: []variant.Span{{Start: 37_500, End: 38_000}, {Start: 100, End: 200}}}},
	})("reads", 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// coverageOf decodes the coverage among outs.
func coverageOf(t testing.TB, outs []stream.Out) []*streampb.Coverage {
	t.Helper()
	var list []*streampb.Coverage
	for _, o := range outs {
		if o.Topic != "calls" {
			continue
		}
		m, err := stream.DecodeCalls(o.Value)
		if err != nil {
			t.Fatal(err)
		}
		if c := m.GetCoverage(); c != nil {
			if want := fmt.Sprintf("lambda/J02459.1/%d", c.GetStart()); string(o.Key) != want || o.Partition != stream.ContigPartition("lambda", "J02459.1", 3) {
				t.Fatalf("coverage goes to key %q, partition %d", o.Key, o.Partition)
			}
			list = append(list, c)
		}
	}
	return list
}

// TestCoverageOfARun: the coverage of targets is reported while the run goes on
// and at its end, before the calls and the markers, and watching changes no call.
func TestCoverageOfARun(t *testing.T) {
	g := lambda(t)
	recs := runRecords(t, simulate(t, g, "run-1", "lambda", 150, 1))
	m := NewMetrics(prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
	emissions := handle(t, watching(t, g, m), recs).emissions
	all := (&fakeEmitter{emissions}).outs()
	list := coverageOf(t, all)
	stretches := make(map[string]uint64)
	for i, c := range list {
		name := fmt.Sprintf("%d-%d", c.GetStart(), c.GetEnd())
		if c.GetRevision() != stretches[name]+1 || c.GetPanels() != "sha256:1" || c.GetRun() != "run-1" || c.GetFinal() != (i >= len(list)-2) {
			t.Errorf("coverage %d: %v", i, c)
		}
		stretches[name] = c.GetRevision()
	}
	if len(stretches) != 2 || stretches["37500-37888"] < 4 || stretches["37888-38000"] < 4 {
		t.Errorf("revisions of stretches: %v", stretches)
	}
	if n := testutil.ToFloat64(m.coverages); n != float64(len(list)) {
		t.Errorf("%v revisions are counted of %d", n, len(list))
	}
	last := emissions[len(emissions)-1].outs
	if got := coverageOf(t, last[:2]); len(got) != 2 {
		t.Errorf("the run's end begins with %v", last[:2])
	}
	without := handle(t, newHandler(t, g, nil), recs).outs()
	others := slices.DeleteFunc(all, func(o stream.Out) bool {
		rec, err := stream.DecodeCalls(o.Value)
		return err == nil && rec.GetCoverage() != nil
	})
	if fmt.Sprintf("%+v", others) != fmt.Sprintf("%+v", without) {
		t.Error("watching changes what else is emitted")
	}
}

// TestCoverageReplayAndOrder: restored anywhere the handler goes on with the same
// coverage; in any order and with repetitions the last is the same.
func TestCoverageReplayAndOrder(t *testing.T) {
	g := lambda(t)
	segments := simulate(t, g, "run-1", "lambda", 70, 2)
	recs := runRecords(t, segments)
	whole := handle(t, watching(t, g, nil), recs).emissions
	for _, at := range []int{0, 2, 30, len(recs) - 1, len(recs)} {
		reg := prometheus.NewRegistry()
		m := NewMetrics(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dead_total", Help: "x"}, []string{"stage", "code"}))
		h := watching(t, g, m)
		for _, rec := range recs[:at] {
			if err := h.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		if n := testutil.ToFloat64(m.coverages); n != 0 {
			t.Errorf("replaying counts %v revisions", n)
		}
		for i, e := range handle(t, h, recs[at:]).emissions {
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", whole[at+i]); got != want {
				t.Fatalf("restored at %d, record %d gives\n%s\nwant\n%s", at, at+i, got, want)
			}
		}
	}
	last := func(emissions []emission) string {
		list := coverageOf(t, emissions[len(emissions)-1].outs)
		for _, c := range list {
			c.Revision = 0
		}
		return fmt.Sprint(list)
	}
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 23))
		order := append(slices.Clone(segments), segments[:10]...)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if got, want := last(handle(t, watching(t, g, nil), runRecords(t, order)).emissions), last(whole); got != want {
			t.Errorf("seed %d: final coverage\n%s\nwant\n%s", seed, got, want)
		}
	}
}

// TestCoverageOfTwoRuns: the coverage of a sample is final once both runs have
// ended, and counts the reads of both.
func TestCoverageOfTwoRuns(t *testing.T) {
	g := lambda(t)
	values := [][]byte{markerValue(t, "run-1", "lambda", 0, 1, false), markerValue(t, "run-2", "lambda", 0, 1, false)}
	for i, run := range []string{"run-1", "run-2"} {
		for _, s := range simulate(t, g, run, "lambda", 50, uint64(8+i)) {
			values = append(values, segmentValue(t, s))
		}
		values = append(values, markerValue(t, run, "lambda", 0, 1, true))
	}
	emissions := handle(t, watching(t, g, nil), records(values)).emissions
	deepest := func(list []*streampb.Coverage) uint32 {
		var d uint32
		for _, c := range list {
			d = max(d, slices.Max(c.GetDepths()))
		}
		return d
	}
	firstEnd, bothEnd := 2+50, len(emissions)-1
	if got := coverageOf(t, emissions[firstEnd].outs); len(got) != 0 {
		t.Errorf("the first run's end gives %v", got)
	}
	early, final := coverageOf(t, (&fakeEmitter{emissions[:firstEnd]}).outs()), coverageOf(t, emissions[bothEnd].outs)
	if len(final) != 2 || !final[0].GetFinal() || deepest(final) < deepest(early)*3/2 {
		t.Errorf("depth %d after one run, %v after both", deepest(early), final)
	}
}

func BenchmarkHandleSegment(b *testing.B) {
	g := lambda(b)
	recs := runRecords(b, simulate(b, g, "run-1", "lambda", 200, 7))
	b.ReportAllocs()
	for b.Loop() {
		handle(b, newHandler(b, g, nil), recs)
	}
	b.ReportMetric(float64(b.N*200)/b.Elapsed().Seconds(), "segments/s")
}
