package stage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/trace"
	"github.com/porestream/porestream/variant"
)

type recordedSpans []*trace.Span

func (r *recordedSpans) Record(s *trace.Span) { *r = append(*r, s) }

// place is where the segment of a read belongs: below its basecall span.
func place(s *streampb.Segment) trace.Context {
	return trace.ReadPlace(s.GetRun(), s.GetReadId()).Child("basecall", "0")
}

// TestRevisionsAreTraced: of reads of which some are traced, every revision that follows
// from a segment while one of them lies or has waited over its place belongs to such a
// read's trace; the records are otherwise those of a stage that traces nothing.
func TestRevisionsAreTraced(t *testing.T) {
	g := lambda(t)
	segments := simulate(t, g, "run-1", "lambda", 120, 3)
	recs := runRecords(t, segments)
	traced := func(s *streampb.Segment) bool { return trace.New(0.3, nil, nil).Takes(s.GetRun(), s.GetReadId()) }
	var kept recordedSpans
	now := time.Unix(100, 0)
	fold := func(tracer *trace.Tracer) (outs [][]stream.Out) {
		h, err := New(Config{Topics: stream.NewTopics(""), CallsPartitions: 2, Genome: g, Variant: variant.Config{}, Tracer: tracer})("reads", 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		folder := h.(worker).Folder
		for _, rec := range recs {
			if m, err := stream.DecodeReads(rec.Value); err == nil && m.GetSegment() != nil && traced(m.GetSegment()) {
				rec.Headers = []stream.Header{{Key: trace.Header, Value: []byte(place(m.GetSegment()).String())}}
			}
			o, err := folder.Fold(rec)
			if err != nil {
				t.Fatal(err)
			}
			outs = append(outs, o)
		}
		return outs
	}
	plain := fold(nil)
	if len(kept) != 0 {
		t.Fatal("spans without a tracer")
	}
	outs := fold(trace.New(0, &kept, func() time.Time { now = now.Add(time.Millisecond); return now }))

	spans := make(map[trace.Context]*trace.Span)
	for _, s := range kept {
		if spans[s.Context] != nil {
			t.Fatalf("span %s %v came twice", s.Name, s.Context)
		}
		spans[s.Context] = s
	}
	revisions := 0
	waiting := make(map[string]bool) // traced reads that no revision over them has followed from
	bySegment := make(map[string]*streampb.Segment)
	for i, rec := range recs {
		m, _ := stream.DecodeReads(rec.Value)
		seg := m.GetSegment()
		if seg != nil && traced(seg) {
			waiting[seg.GetReadId()], bySegment[seg.GetReadId()] = true, seg
		}
		var over []string // what the revisions release
		for k, o := range outs[i] {
			if string(o.Value) != string(plain[i][k].Value) || string(o.Key) != string(plain[i][k].Key) || o.Partition != plain[i][k].Partition {
				t.Fatalf("record %d differs with traces", i)
			}
			call := decodeCall(t, o)
			got := trace.FromHeaders(o.Headers)
			if seg == nil {
				if len(o.Headers) > 0 {
					t.Errorf("what follows from a marker carries %v", o.Headers)
				}
				continue
			}
			lies := func(id string) bool {
				start, end := bounds(bySegment[id])
				return start < call.GetPos() && call.GetPos() <= end
			}
			any := traced(seg)
			for id := range waiting {
				if lies(id) {
					any = true
					over = append(over, id)
				}
			}
			if got.IsZero() == any {
				t.Errorf("revision %d of %s carries %v, though traced reads lie there: %v", call.GetRevision(), call.GetVrsId(), got, any)
			}
			if got.IsZero() {
				continue
			}
			revisions++
			evaluate := spans[got]
			if evaluate == nil || evaluate.Name != "evaluate" {
				t.Fatalf("a call carries %v, of which there is no span", got)
			}
			above := spans[trace.Context{Trace: got.Trace, Span: evaluate.Parent}]
			if above == nil || above.Name != Name {
				t.Fatalf("above %v is %v", got, above)
			}
			if !slices.ContainsFunc(evaluate.Events, func(e trace.Event) bool {
				return slices.Contains(e.Attributes, trace.String("porestream.allele", call.GetVrsId())) && slices.Contains(e.Attributes, trace.Int("porestream.revision", call.GetRevision()))
			}) {
				t.Errorf("%v doesn't tell of revision %d of %s", got, call.GetRevision(), call.GetVrsId())
			}
		}
		for _, id := range over {
			delete(waiting, id)
		}
	}
	links := 0
	for _, s := range kept {
		links += len(s.Links)
		for _, l := range s.Links {
			if spans[l] == nil || spans[l].Name != Name || l.Trace == s.Trace {
				t.Errorf("%s is linked to %v", s.Name, l)
			}
		}
	}
	if revisions == 0 || links == 0 {
		t.Errorf("%d revisions carry a place, %d links", revisions, links)
	}
}

func decodeCall(t *testing.T, o stream.Out) *streampb.Call {
	t.Helper()
	m, err := stream.DecodeCalls(o.Value)
	if err != nil {
		t.Fatal(err)
	}
	return m.GetCall()
}

// TestReplayedSegmentsMakeNoSpans: a worker that takes a partition over makes no spans
// of what was done before.
func TestReplayedSegmentsMakeNoSpans(t *testing.T) {
	g := lambda(t)
	var kept recordedSpans
	h, err := New(Config{Topics: stream.NewTopics(""), CallsPartitions: 2, Genome: g, Tracer: trace.New(1, &kept, time.Now)})("reads", 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	folder := h.(worker).Folder
	segments := simulate(t, g, "run-1", "lambda", 10, 3)
	for i, s := range segments {
		rec := stream.Record{Topic: "reads", Offset: int64(i), Value: segmentValue(t, s), Headers: []stream.Header{{Key: trace.Header, Value: []byte(place(s).String())}}}
		if err := folder.Refold(rec); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) != 0 {
		t.Fatalf("%d spans", len(kept))
	}
	// One that was applied has a span that says so, and leads to nothing.
	rec := stream.Record{Topic: "reads", Offset: 99, Value: segmentValue(t, segments[0]), Headers: []stream.Header{{Key: trace.Header, Value: []byte(place(segments[0]).String())}}}
	if outs, err := folder.Fold(rec); err != nil || len(outs) != 0 || len(kept) != 1 || kept[0].Name != Name || kept[0].Parent != place(segments[0]).Span {
		t.Errorf("again: %v, %d records, spans %+v", err, len(outs), kept)
	}
}

// TestWaitingReadsAreBounded: memory for traces is bounded, and what is taken is given back.
func TestWaitingReadsAreBounded(t *testing.T) {
	s := newSpans(trace.New(1, new(recordedSpans), time.Now))
	seg := &streampb.Segment{Start: 100, Ops: []byte{50 << 3 & 0x7f, 3}}
	start, end := bounds(&streampb.Segment{Start: 100, Ops: appendOp(nil, 0, 50)})
	if start != 100 || end != 150 {
		t.Fatalf("bounds %d to %d", start, end)
	}
	seg.Ops = appendOp(nil, 0, 50)
	for region := range maxWaiting {
		for range 3 {
			s.wait(regionKey{"s", "c", uint32(region)}, trace.ReadPlace("r", fmt.Sprint(region)), seg)
		}
	}
	if s.held > maxWaiting {
		t.Errorf("%d reads wait", s.held)
	}
	one := regionKey{"s", "c", 0}
	for range 2 * maxWaitingRegion {
		s.wait(one, trace.ReadPlace("r", "x"), seg)
	}
	if len(s.waiting[one]) > maxWaitingRegion {
		t.Errorf("%d reads wait in a region", len(s.waiting[one]))
	}
	for region := range maxWaiting {
		s.release(regionKey{"s", "c", uint32(region)}, &streampb.Call{Pos: 120})
	}
	if s.held != 0 || len(s.waiting) != 0 {
		t.Errorf("%d reads wait in %d regions", s.held, len(s.waiting))
	}
}

func appendOp(b []byte, kind, n uint64) []byte {
	v := n<<3 | kind
	for v >= 0x80 {
		b, v = append(b, byte(v)|0x80), v>>7
	}
	return append(b, byte(v))
}
