package trace

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/stream"
)

// TestIdentifiers: identifiers are part of the format, as other versions and processes
// have to find the same ones.
func TestIdentifiers(t *testing.T) {
	const run, read = "5a9b2f4e", "0c2a8f3e-1111-4c5d-9f00-1234567890ab"
	place := ReadPlace(run, read)
	for got, want := range map[string]string{
		place.String():                        "00-ef2d309208672a481658aeb819c44d3d-5e9ba5af22ed8213-01",
		place.Child("basecall", "0").String(): "00-ef2d309208672a481658aeb819c44d3d-57db330212c2e260-01",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if place != ReadPlace(run, read) || place == ReadPlace(run+"0", read) || place.Trace != ReadTrace(run, read) {
		t.Error("places of reads")
	}
	// Names that distinguish must not run together.
	if ReadTrace("a", "b\x00c") == ReadTrace("a\x00b", "d") || place.Child("a", "bc") == place.Child("ab", "c") || place.Child("a") == place.Child("a", "") {
		t.Error("names run together")
	}
	if child := place.Child("basecall"); child.Trace != place.Trace || child.Span == place.Span || child != place.Child("basecall") {
		t.Errorf("child %v of %v", child, place)
	}
}

func TestTraceparentIsParsed(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, c := range []struct {
		name, value string
		sampled     bool
		ok          bool
	}{
		{"sampled", good, true, true},
		{"not sampled", good[:54] + "0", false, true},
		{"other flags", good[:53] + "03", true, true},
		{"later version", "cc" + good[2:] + "-what-comes", true, true},
		{"later version as long", "cc" + good[2:], true, true},
		{"version ff", "ff" + good[2:], false, false},
		{"longer in version 0", good + "-x", false, false},
		{"later version run together", "cc" + good[2:] + "x", false, false},
		{"short", good[:54], false, false},
		{"empty", "", false, false},
		{"capitals", strings.ToUpper(good), false, false},
		{"no digits", strings.Replace(good, "0af7", "0xf7", 1), false, false},
		{"no dashes", strings.ReplaceAll(good, "-", "_"), false, false},
		{"zero trace", "00-" + strings.Repeat("0", 32) + good[35:], false, false},
		{"zero span", good[:36] + strings.Repeat("0", 16) + "-01", false, false},
	} {
		got, sampled, err := Parse([]byte(c.value))
		if (err == nil) != c.ok || sampled != c.sampled {
			t.Errorf("%s: %v %v %v", c.name, got, sampled, err)
		}
		if err != nil && (!got.IsZero() || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v with error %v", c.name, got, err)
		}
	}
	c, _, err := Parse([]byte(good))
	if err != nil || c.String() != good {
		t.Errorf("%v written again is %s", err, c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Add([]byte("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-x"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, sampled, err := Parse(value)
		if err != nil {
			if !c.IsZero() || sampled {
				t.Fatalf("%v %v with error %v", c, sampled, err)
			}
			return
		}
		again, yes, err := Parse([]byte(c.String()))
		if err != nil || !yes || again != c {
			t.Fatalf("%v became %v %v %v", c, again, yes, err)
		}
	})
}

func TestHeaders(t *testing.T) {
	c := ReadPlace("run", "read")
	shared := make([]stream.Header, 1, 4)
	shared[0] = stream.Header{Key: "a", Value: []byte("b")}
	one, two := stream.Out{Headers: shared}, stream.Out{Headers: shared}
	Inject(&one, c)
	Inject(&two, c.Child("x"))
	if FromHeaders(one.Headers) != c || FromHeaders(two.Headers) != c.Child("x") || len(shared) != 1 {
		t.Errorf("headers %v and %v", one.Headers, two.Headers)
	}
	// Whose headers these were, as in a dead letter, stays.
	Inject(&one, c.Child("y"))
	if FromHeaders(one.Headers) != c || len(one.Headers) != 2 {
		t.Errorf("headers after another place %v", one.Headers)
	}
	untouched := stream.Out{}
	if Inject(&untouched, Context{}); untouched.Headers != nil {
		t.Error("no place leaves a header")
	}
	for name, value := range map[string]string{"not sampled": c.String()[:53] + "00", "garbage": "garbage"} {
		if got := FromHeaders([]stream.Header{{Key: Header, Value: []byte(value)}}); !got.IsZero() {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSampler: the share is that asked for, a greater share takes what a smaller one
// does, and the bounds are exact.
func TestSampler(t *testing.T) {
	const reads = 20_000
	ratios := []float64{0, 0.01, 0.1, 0.5, 1}
	taken := make([]int, len(ratios))
	for i := range reads {
		before := false
		for k, ratio := range ratios {
			now := New(ratio, nil, nil).Takes("run", fmt.Sprint(i))
			if before && !now {
				t.Fatalf("read %d is taken by a share of %g and not by %g", i, ratios[k-1], ratio)
			}
			if before = now; now {
				taken[k]++
			}
		}
	}
	for k, ratio := range ratios {
		// Five standard deviations of a binomial.
		if off := math.Abs(float64(taken[k]) - reads*ratio); off > 5*math.Sqrt(reads*ratio*(1-ratio)) {
			t.Errorf("a share of %g takes %d of %d", ratio, taken[k], reads)
		}
	}
	if New(math.NaN(), nil, nil).Takes("run", "read") || (*Tracer)(nil).Takes("run", "read") {
		t.Error("nothing takes something")
	}
}

// spans keeps what is recorded.
type spans []*Span

func (s *spans) Record(span *Span) { *s = append(*s, span) }

func TestSpanBounds(t *testing.T) {
	var s Span
	for range MaxEvents + 3 {
		s.Add(Event{Name: "x"})
	}
	for range MaxLinks + 2 {
		s.Link(ReadPlace("r", "x"))
	}
	if len(s.Events) != MaxEvents || s.DroppedEvents != 3 || len(s.Links) != MaxLinks || s.DroppedLinks != 2 {
		t.Errorf("%d events and %d dropped, %d links and %d dropped", len(s.Events), s.DroppedEvents, len(s.Links), s.DroppedLinks)
	}
}

func TestEndIsNotBeforeStart(t *testing.T) {
	var kept spans
	now := time.Unix(100, 0)
	tracer := New(1, &kept, func() time.Time { return now })
	span := tracer.Begin(ReadPlace("r", "x"), "n", Internal)
	now = now.Add(-time.Hour)
	tracer.End(span)
	if len(kept) != 1 || kept[0].End.Before(kept[0].Start) {
		t.Errorf("%+v", kept)
	}
	// Without a tracer, or a trace, nothing happens.
	(*Tracer)(nil).End((*Tracer)(nil).Begin(ReadPlace("r", "x"), "n", Internal))
	tracer.End(tracer.Begin(Context{}, "n", Internal))
	if len(kept) != 1 {
		t.Errorf("%d spans", len(kept))
	}
}

// echo emits a record for each that it handles, or a dead letter.
type echo struct{ replayed, handled int }

func (e *echo) Replay(context.Context, stream.Record) error { e.replayed++; return nil }
func (e *echo) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	e.handled++
	out := stream.Out{Topic: "out", Key: rec.Key, Value: rec.Value, Headers: []stream.Header{{Key: "own"}}}
	if string(rec.Value) == "bad" {
		out = stream.DeadLetter("dlq", rec, "echo", &stream.DecodeError{Code: stream.CodeInvalid, Reason: "bad"})
	}
	return emit.Emit(ctx, []stream.Out{out}, []int64{rec.Offset})
}
func (e *echo) Drain(context.Context) error { return nil }
func (e *echo) Close() error                { return nil }
func (e *echo) State() stream.State         { return nil }

type emitted []stream.Out

func (e *emitted) Emit(_ context.Context, out []stream.Out, _ []int64) error {
	*e = append(*e, out...)
	return nil
}
func (e *emitted) Fail(error) {}

// keeper keeps what it emits with.
type keeper struct {
	stream.Handler
	emit stream.Emitter
}

func (k *keeper) Handle(ctx context.Context, _ stream.Record, emit stream.Emitter) error {
	k.emit = emit
	return emit.Emit(ctx, []stream.Out{{Topic: "at once"}}, nil)
}

// TestWhatIsEmittedLaterIsOfNoSpan: a handler may go on with its emitter in another goroutine.
func TestWhatIsEmittedLaterIsOfNoSpan(t *testing.T) {
	var kept spans
	var out emitted
	inner := new(keeper)
	h, err := Around(New(1, &kept, time.Now), "annotate", func(string, int32, int32) (stream.Handler, error) { return inner, nil })("in", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	rec := stream.Record{Topic: "in", Time: time.Now(), Headers: []stream.Header{{Key: Header, Value: []byte(ReadPlace("run", "read").String())}}}
	if err := h.Handle(t.Context(), rec, &out); err != nil {
		t.Fatal(err)
	}
	if err := inner.emit.Emit(t.Context(), []stream.Out{{Topic: "later"}}, nil); err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || FromHeaders(out[0].Headers) != kept[0].Context || len(out[1].Headers) != 0 {
		t.Errorf("records %+v", out)
	}
	if !slices.Contains(kept[0].Attributes, Int("porestream.records", 1)) {
		t.Errorf("attributes %v", kept[0].Attributes)
	}
}

func TestAround(t *testing.T) {
	var kept spans
	now := time.Unix(100, 0)
	tracer := New(1, &kept, func() time.Time { now = now.Add(time.Second); return now })
	inner := new(echo)
	h, err := Around(tracer, "annotate", func(string, int32, int32) (stream.Handler, error) { return inner, nil })("in", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	place := ReadPlace("run", "read")
	carried := []stream.Header{{Key: Header, Value: []byte(place.String())}}
	live := stream.Record{Topic: "in", Offset: 7, Time: time.Unix(90, 0), Key: []byte("k"), Value: []byte("v"), Headers: carried}
	var out emitted
	handle := func(rec stream.Record) {
		t.Helper()
		if err := h.Handle(t.Context(), rec, &out); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Replay(t.Context(), live); err != nil || len(kept) != 0 {
		t.Fatalf("a replayed record: %v, %d spans", err, len(kept))
	}
	handle(live)
	handle(stream.Record{Topic: "in", Offset: 8, Value: []byte("untraced")})
	if len(kept) != 1 || inner.replayed != 1 || inner.handled != 2 {
		t.Fatalf("%d spans, %+v", len(kept), inner)
	}
	s := kept[0]
	if s.Trace != place.Trace || s.Parent != place.Span || s.Name != "annotate" || s.Kind != Consumer || !s.End.After(s.Start) ||
		!slices.Contains(s.Attributes, Float("porestream.record.age", 11)) || !slices.Contains(s.Attributes, Int("porestream.records", 1)) {
		t.Errorf("span %+v", s)
	}
	if FromHeaders(out[0].Headers) != s.Context || len(out[0].Headers) != 2 || len(out[1].Headers) != 1 {
		t.Errorf("records carry %v and %v", out[0].Headers, out[1].Headers)
	}
	// What comes again has the same span, from wherever in the log.
	again := live
	again.Offset = 99
	if handle(again); kept[1].Context != s.Context {
		t.Errorf("again it is span %v, before %v", kept[1].Context, s.Context)
	}
	// A dead letter stays one that can be sent back, with the place that the record had.
	bad := live
	bad.Value = []byte("bad")
	handle(bad)
	letter := out[len(out)-1]
	parsed, err := stream.ParseDeadLetter(stream.Record{Topic: letter.Topic, Key: letter.Key, Value: letter.Value, Headers: letter.Headers})
	if err != nil || FromHeaders(parsed.Record.Headers) != place {
		t.Errorf("dead letter: %v, %+v", err, parsed)
	}
}

func TestAroundNothing(t *testing.T) {
	inner := new(echo)
	h, err := Around(nil, "annotate", func(string, int32, int32) (stream.Handler, error) { return inner, nil })("in", 0, 1)
	if err != nil || h != stream.Handler(inner) {
		t.Errorf("%v %v", h, err)
	}
}
