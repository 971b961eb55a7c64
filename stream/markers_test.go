package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/stream/streampb"
)

func markerOf(run, sample string, source, sources uint32) *streampb.Marker {
	return &streampb.Marker{Run: &streampb.Run{Id: run, Sample: sample, SampleRate: 4000}, Source: source, Sources: sources}
}

// slowMarkers is the obvious reference: it remembers all that was said.
type slowMarkers struct {
	known, ends []*streampb.Marker
}

func (s *slowMarkers) ended(run string) bool {
	sources := map[uint32]bool{}
	want := -1
	for _, m := range s.known {
		if m.GetRun().GetId() == run {
			want = int(m.GetSources())
		}
	}
	for _, m := range s.ends {
		if m.GetRun().GetId() == run {
			sources[m.GetSource()] = true
		}
	}
	return len(sources) == want
}

func (s *slowMarkers) runs() []string {
	var ids []string
	for _, m := range s.known {
		ids = append(ids, m.GetRun().GetId())
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (s *slowMarkers) sampleEnded(sample string) bool {
	some := false
	for _, m := range s.known {
		if slices.Contains(m.GetRun().GetSamples(), sample) || len(m.GetRun().GetSamples()) == 0 && m.GetRun().GetSample() == sample {
			some = true
			if !s.ended(m.GetRun().GetId()) {
				return false
			}
		}
	}
	return some
}

// TestMarkersAgainstSets delivers the markers of several runs in random order,
// with repetitions, and compares with sets after each.
func TestMarkersAgainstSets(t *testing.T) {
	type said struct {
		mk  *streampb.Marker
		end bool
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var all []said
		for run := range 1 + rng.IntN(4) {
			sources := uint32(1 + rng.IntN(4))
			sample := fmt.Sprint("sample-", rng.IntN(2))
			samples := [][]string{nil, {"sample-0", "sample-1"}, {"sample-1"}}[rng.IntN(3)]
			for source := range sources {
				mk := markerOf(fmt.Sprint("run-", run), sample, source, sources)
				mk.Run.Samples = samples
				for range 1 + rng.IntN(2) {
					all = append(all, said{mk, false})
				}
				for range 1 + rng.IntN(3) {
					all = append(all, said{mk, true})
				}
			}
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })

		var m Markers
		var slow slowMarkers
		completions := map[string]int{}
		for _, s := range all {
			id, sample := s.mk.GetRun().GetId(), s.mk.GetRun().GetSample()
			wasKnown, wasEnded := slices.Contains(slow.runs(), id), slow.ended(id)
			slow.known = append(slow.known, s.mk)
			if s.end {
				slow.ends = append(slow.ends, s.mk)
				complete, err := m.End(s.mk)
				if err != nil || complete != (!wasEnded && slow.ended(id)) {
					t.Fatalf("seed %d: End(%v) = %v, %v", seed, s.mk, complete, err)
				}
				if complete {
					completions[id]++
				}
			} else if isNew, err := m.Start(s.mk); err != nil || isNew == wasKnown {
				t.Fatalf("seed %d: Start(%v) = %v, %v", seed, s.mk, isNew, err)
			}
			if m.Ended(id) != slow.ended(id) || m.SampleEnded(sample) != slow.sampleEnded(sample) || m.Run(id).GetId() != id {
				t.Fatalf("seed %d: after %v: ended %v, sample ended %v", seed, s, m.Ended(id), m.SampleEnded(sample))
			}
			var open []string
			for _, id := range slow.runs() {
				if !slow.ended(id) {
					open = append(open, id)
				}
			}
			var got []string
			for _, r := range m.Open() {
				got = append(got, r.GetId())
			}
			if !slices.Equal(got, open) {
				t.Fatalf("seed %d: open runs %v, want %v", seed, got, open)
			}
		}
		for _, id := range slow.runs() {
			if completions[id] != 1 {
				t.Fatalf("seed %d: run %s was completed %d times", seed, id, completions[id])
			}
		}
	}
}

func TestSampleOfSeveralRuns(t *testing.T) {
	var m Markers
	step := func(name string, f func(*streampb.Marker) (bool, error), mk *streampb.Marker, want bool) {
		t.Helper()
		if _, err := f(mk); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := m.SampleEnded("lambda"); got != want {
			t.Errorf("after %s the sample has ended: %v, want %v", name, got, want)
		}
	}
	if m.SampleEnded("lambda") || m.Ended("a") || m.Run("a") != nil || m.Open() != nil {
		t.Error("the zero value knows something")
	}
	step("start a", m.Start, markerOf("a", "lambda", 0, 1), false)
	step("start b", m.Start, markerOf("b", "lambda", 0, 2), false)
	step("end a", m.End, markerOf("a", "lambda", 0, 1), false)
	step("end of another sample", m.End, markerOf("x", "phiX", 0, 1), false)
	step("end b 1 of 2", m.End, markerOf("b", "lambda", 1, 2), false)
	step("end b 0 of 2", m.End, markerOf("b", "lambda", 0, 2), true)
	step("start c", m.Start, markerOf("c", "lambda", 0, 1), false)
	step("end c", m.End, markerOf("c", "lambda", 0, 1), true)
	if m.SampleEnded("unknown") {
		t.Error("an unknown sample has ended")
	}
}

func TestContradictingMarkers(t *testing.T) {
	var m Markers
	if _, err := m.Start(markerOf("a", "lambda", 0, 2)); err != nil {
		t.Fatal(err)
	}
	barcoded := markerOf("a", "lambda", 0, 2)
	barcoded.Run.Samples = []string{"lambda_barcode01", "lambda_barcode02"}
	for _, mk := range []*streampb.Marker{markerOf("a", "lambda", 0, 3), markerOf("a", "phiX", 0, 2), barcoded} {
		for name, f := range map[string]func(*streampb.Marker) (bool, error){"Start": m.Start, "End": m.End} {
			if _, err := f(mk); !IsBadRecord(err) {
				t.Errorf("%s(%v): %v, want a bad record", name, mk, err)
			}
		}
	}
	// What was refused left no trace.
	for source := range uint32(2) {
		if complete, err := m.End(markerOf("a", "lambda", source, 2)); err != nil || complete != (source == 1) {
			t.Errorf("end %d: %v, %v", source, complete, err)
		}
	}
}

func TestMarkersKeepNothingOfTheCaller(t *testing.T) {
	var m Markers
	mk := markerOf("a", "lambda", 0, 1)
	if _, err := m.Start(mk); err != nil {
		t.Fatal(err)
	}
	mk.Run.Sample = "changed"
	if got := m.Run("a").GetSample(); got != "lambda" {
		t.Errorf("sample became %q", got)
	}
}

func TestForward(t *testing.T) {
	mk := markerOf("a", "lambda", 0, 1)
	var m Markers
	own := m.Forward(mk, 3, 8)
	if own.GetSource() != 3 || own.GetSources() != 8 || own.GetRun().GetId() != "a" || mk.GetSource() != 0 {
		t.Errorf("forwarded %v of %v", own, mk)
	}
	for name, encode := range map[string]func(*streampb.Marker, bool) ([]byte, error){
		"signal": SignalMarker, "reads": ReadsMarker, "calls": CallsMarker,
	} {
		for _, end := range []bool{false, true} {
			value, err := encode(own, end)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			outs := Broadcast(name, 3, own, end, value)
			if len(outs) != 3 {
				t.Fatalf("%s: %d records", name, len(outs))
			}
			for p, o := range outs {
				if o.Topic != name || o.Partition != int32(p) || string(o.Key) != string(MarkerKey(own, end)) || string(o.Value) != string(value) {
					t.Errorf("%s: record %d is %v", name, p, o)
				}
			}
		}
	}
	for _, p := range []int32{-1, 8} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("partition %d of 8 was accepted", p)
				}
			}()
			m.Forward(mk, p, 8)
		}()
	}
}

// TestEndStatus: of several sources the worst counts, and one that was given up
// and comes back is passed on again, once.
func TestEndStatus(t *testing.T) {
	const none, normal, timeout, aborted = streampb.EndStatus_END_STATUS_UNSPECIFIED, streampb.EndStatus_END_STATUS_NORMAL,
		streampb.EndStatus_END_STATUS_TIMEOUT, streampb.EndStatus_END_STATUS_ABORTED
	var m Markers
	for i, step := range []struct {
		source uint32
		status streampb.EndStatus
		news   bool
		want   streampb.EndStatus
	}{
		{0, timeout, false, none},
		{1, none, true, timeout}, // an earlier version's: it knew no other end
		{1, normal, false, timeout},
		{0, timeout, false, timeout},
		{0, normal, true, normal},
		{0, normal, false, normal},
		{1, aborted, true, aborted},
	} {
		mk := markerOf("a", "lambda", step.source, 2)
		mk.EndStatus = step.status
		news, err := m.End(mk)
		if err != nil || news != step.news || m.EndStatus("a") != step.want {
			t.Errorf("step %d: news %v, status %v, %v; want %v, %v", i, news, m.EndStatus("a"), err, step.news, step.want)
		}
		if got := m.Forward(mk, 0, 1).GetEndStatus(); got != step.want {
			t.Errorf("step %d: passed on as %v, want %v", i, got, step.want)
		}
	}
	if got := m.EndStatus("unknown"); got != none {
		t.Errorf("an unknown run ended: %v", got)
	}
}

func TestDeadLetter(t *testing.T) {
	rec := Record{
		Topic: "signal", Partition: 5, Offset: 1 << 40, Key: []byte("run/1"), Value: []byte{0, 1, 2},
		Headers: []Header{{Key: "trace", Value: []byte("abc")}},
	}
	headers := func(o Out) map[string]string {
		m := make(map[string]string)
		for _, h := range o.Headers {
			m[h.Key] = string(h.Value)
		}
		return m
	}
	o := DeadLetter("dlq", rec, "basecall", decodeErrorf(CodeChecksum, "damaged"))
	if o.Topic != "dlq" || o.Partition != AnyPartition || string(o.Key) != "run/1" || string(o.Value) != "\x00\x01\x02" {
		t.Errorf("dead letter %+v", o)
	}
	want := map[string]string{
		"trace": "abc", HeaderStage: "basecall", HeaderCode: "checksum", HeaderReason: "checksum: damaged",
		HeaderTopic: "signal", HeaderPartition: "5", HeaderOffset: "1099511627776",
	}
	got := headers(o)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("header %s is %q, want %q", k, got[k], v)
		}
	}
	if len(o.Headers) != len(want) {
		t.Errorf("headers %v, want %v", got, want)
	}
	if len(rec.Headers) != 1 {
		t.Error("the record's own headers were changed")
	}
	if code := headers(DeadLetter("dlq", rec, "variant", errors.New("any")))[HeaderCode]; code != CodeInvalid {
		t.Errorf("code of an error without one: %q", code)
	}

	// Whatever a broker took, the dead letter fits a broker too.
	huge := Record{
		Topic: "signal", Key: make([]byte, 1<<20), Value: make([]byte, 2<<20),
		Headers: []Header{{Key: "h", Value: make([]byte, 1<<20)}},
	}
	o = DeadLetter("dlq", huge, "basecall", decodeErrorf(CodeForeign, "%0100000d", 1))
	size := len(o.Key) + len(o.Value)
	for _, h := range o.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if size > 1<<20-8<<10 {
		t.Errorf("dead letter of %d bytes", size)
	}
	if got := headers(o)[HeaderCut]; got != "value,key,headers" {
		t.Errorf("cut: %q", got)
	}
}

// TestControlsOfMarkers: a run has the controls that any of its sources names, in any order; and it awaits carry-over, as does another run of one of its samples.
func TestControlsOfMarkers(t *testing.T) {
	named := func(run, sample string, source uint32, controls ...string) *streampb.Marker {
		mk := markerOf(run, sample, source, 2)
		mk.Run.Samples = []string{"a", "w", "x"}
		for i := 0; i < len(controls); i += 2 {
			mk.Run.Controls = append(mk.Run.Controls, &streampb.Control{Sample: controls[i], Kind: controls[i+1]})
		}
		return mk
	}
	one, other := named("r", "r", 0, "w", "no_template_control"), named("r", "r", 1, "w", "negative_control", "x", "negative_control")
	for _, order := range [][]*streampb.Marker{{one, other}, {other, one}} {
		var m Markers
		for _, mk := range order {
			if _, err := m.End(mk); err != nil {
				t.Fatal(err)
			}
		}
		for _, mk := range order {
			if got := fmt.Sprint(m.Forward(mk, 0, 1).GetRun().GetControls()); strings.ReplaceAll(got, "  ", " ") != `[sample:"w" kind:"negative_control" sample:"x" kind:"negative_control"]` {
				t.Errorf("controls %s", got)
			}
		}
		if len(one.GetRun().GetControls()) != 1 {
			t.Error("a marker was changed")
		}
	}
	var m Markers
	for _, mk := range []*streampb.Marker{markerOf("more", "a", 0, 1), markerOf("apart", "c", 0, 1), named("bare", "bare", 0)} {
		if _, err := m.Start(mk); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"more", "apart", "bare", "r"} {
		if m.AwaitsCarryOver(id) {
			t.Errorf("%s awaits carry-over, and no run has controls", id)
		}
	}
	if _, err := m.Start(one); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"r": true, "more": true, "bare": true, "apart": false} {
		if m.AwaitsCarryOver(id) != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
}
