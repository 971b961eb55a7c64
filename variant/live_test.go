package variant_test

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// watcher folds revisions as a consumer does, and checks what every stream of
// revisions must keep.
type watcher struct {
	t         *testing.T
	current   map[string]*streampb.Call // by VRS id
	revisions int
}

func (w *watcher) see(calls []*streampb.Call) {
	w.t.Helper()
	if w.current == nil {
		w.current = make(map[string]*streampb.Call)
	}
	for _, c := range calls {
		w.revisions++
		before := w.current[c.GetVrsId()]
		if c.GetRevision() != before.GetRevision()+1 {
			w.t.Errorf("%s: revision %d after %d", name(c), c.GetRevision(), before.GetRevision())
		}
		if c.GetStatus() == streampb.CallStatus_RETRACTED {
			if before == nil || before.GetStatus() == streampb.CallStatus_RETRACTED {
				w.t.Errorf("%s: retracted what wasn't there", name(c))
			}
			if c.GetReason() == "" {
				w.t.Errorf("%s: retracted without a reason", name(c))
			}
		}
		w.current[c.GetVrsId()] = c
	}
}

// alive are the alleles that are not retracted, and their statuses.
func (w *watcher) alive() map[string]streampb.CallStatus {
	out := make(map[string]streampb.CallStatus)
	for _, c := range w.current {
		if c.GetStatus() != streampb.CallStatus_RETRACTED {
			out[name(c)] = c.GetStatus()
		}
	}
	return out
}

// A call appears as provisional, becomes stable, and is final at the end, in few
// revisions.
func TestEvaluateLifeOfACall(t *testing.T) {
	s := newSample(t, 11, 4000)
	s.edits = []edit{{2000, 1, string(other(s.contig.Seq[2000]))}}
	r := region(t, s.contig, 0, variant.Config{})
	w := &watcher{t: t}
	var statuses []streampb.CallStatus
	for _, seg := range s.segments(t, 60, 2500, 0, 4000) {
		apply(t, r, seg)
		calls := evaluate(t, r)
		w.see(calls)
		for _, c := range calls {
			if c.GetPos() == 2001 && (len(statuses) == 0 || statuses[len(statuses)-1] != c.GetStatus()) {
				statuses = append(statuses, c.GetStatus())
			}
		}
	}
	if want := []streampb.CallStatus{streampb.CallStatus_PROVISIONAL, streampb.CallStatus_STABLE}; !slices.Equal(statuses, want) {
		t.Errorf("statuses %v, want %v", statuses, want)
	}
	if w.revisions > 8 {
		t.Errorf("%d revisions for 60 reads", w.revisions)
	}
	w.see(finalize(t, r))
	if got := w.alive(); len(got) != 1 || got["2001 "+string(s.contig.Seq[2000])+">"+string(other(s.contig.Seq[2000]))] != streampb.CallStatus_FINAL {
		t.Errorf("at the end: %v", got)
	}
	if again := finalize(t, r); len(again) != 0 {
		t.Errorf("finalizing again says %v", again)
	}
}

// When later reads speak for the reference, a published call is taken back.
func TestEvaluateRetracts(t *testing.T) {
	s := newSample(t, 12, 3000)
	plain := *s
	plain.edits = nil
	s.edits = []edit{{1500, 1, string(other(s.contig.Seq[1500]))}}
	carriers := s.segments(t, 12, 2000, 0, 3000)
	others := plain.segments(t, 60, 2000, 0, 3000)
	for i, seg := range others {
		seg.ReadId = "plain" + seg.ReadId
		seg.LastChunkMs = int64(5000 + i)
	}
	r := region(t, s.contig, 0, variant.Config{})
	w := &watcher{t: t}
	feed := func(segments []*streampb.Segment) {
		for _, seg := range segments {
			apply(t, r, seg)
			w.see(evaluate(t, r))
		}
	}
	feed(carriers)
	if len(w.alive()) != 1 {
		t.Fatalf("after the carriers: %v", w.alive())
	}
	feed(others)
	if len(w.alive()) != 0 {
		t.Errorf("after five times as many others: %v", w.alive())
	}
	w.see(finalize(t, r))
	if len(w.alive()) != 0 {
		t.Errorf("final: %v", w.alive())
	}
}

// Reads that come after the end amend what was final, and a second Finalize says
// exactly what one Finalize over all reads says.
func TestAmended(t *testing.T) {
	s := newSample(t, 13, 4000)
	s.edits = []edit{{1000, 1, string(other(s.contig.Seq[1000]))}, {2000, 3, ""}, {3000, 1, string(other(s.contig.Seq[3000]))}}
	cfg := variant.Config{MaxIndelNoise: 1e-3} // filters the indel
	segments := s.segments(t, 60, 2000, 0, 4000)
	w := &watcher{t: t}
	r := region(t, s.contig, 0, cfg)
	apply(t, r, segments[:20]...)
	w.see(finalize(t, r))
	for _, seg := range segments[20:] {
		apply(t, r, seg)
		late := evaluate(t, r)
		for _, c := range late {
			if c.GetStatus() != streampb.CallStatus_AMENDED || c.GetReason() == "" {
				t.Errorf("after the end: %v", c)
			}
		}
		w.see(late)
	}
	w.see(finalize(t, r))

	once := region(t, s.contig, 0, cfg)
	apply(t, once, segments...)
	want := finalize(t, once)
	for _, c := range want {
		got := proto.CloneOf(w.current[c.GetVrsId()])
		if got == nil {
			t.Errorf("%s is missing", name(c))
			continue
		}
		got.Revision, got.Status, got.Reason = c.GetRevision(), c.GetStatus(), c.GetReason()
		if !proto.Equal(got, c) {
			t.Errorf("amended to\n%v, all at once\n%v", got, c)
		}
	}
	filtered := slices.ContainsFunc(want, func(c *streampb.Call) bool { return slices.Contains(c.GetFilters(), "NoisyIndel") })
	if len(want) != 3 || !filtered {
		t.Errorf("%d calls, one filtered: %v", len(want), filtered)
	}
	if len(w.alive()) != len(want) {
		t.Errorf("%d calls, all at once %d", len(w.alive()), len(want))
	}
}

// The same sequence of segments makes the same sequence of revisions.
func TestEvaluateIsDeterministic(t *testing.T) {
	s, _ := planted(t, 14)
	s.mismatch, s.gap = 0.06, 0.03
	segments := s.segments(t, 50, 2000, 0, 6000)
	run := func() (out []*streampb.Call) {
		r := region(t, s.contig, 0, variant.Config{})
		for _, seg := range segments {
			apply(t, r, seg)
			out = append(out, evaluate(t, r)...)
		}
		return append(out, finalize(t, r)...)
	}
	first, second := run(), run()
	if len(first) < 5 || !slices.EqualFunc(first, second, func(a, b *streampb.Call) bool { return proto.Equal(a, b) }) {
		t.Errorf("%d revisions, then %d others", len(first), len(second))
	}
}

// script is a network that holds an allele likely, or not, by turns.
type script struct {
	qual       []float64 // by evaluation
	evaluation int
}

func (s *script) Score(dst, examples []float32) ([]float32, error) {
	absent := -s.qual[s.evaluation] / 10 * math.Ln10
	for range len(examples) / variant.ExampleSize {
		for _, l := range []float64{absent, -200, math.Log1p(-math.Exp(absent)), absent, -200, math.Log1p(-math.Exp(absent))} {
			dst = append(dst, float32(l))
		}
		for range variant.Scores - variant.ScoreLength {
			dst = append(dst, -1)
		}
	}
	return dst, nil
}

func (s *script) Fingerprint() string { return "script" }

// What is STABLE has been beyond doubt for some reads, and is taken back when two
// evaluations, one after the other, disown it.
func TestStableIsTakenBackByTwoEvaluations(t *testing.T) {
	const shown, stable, gone = "PROVISIONAL", "STABLE", "RETRACTED"
	for _, tc := range []struct {
		name string
		qual []float64 // by evaluation, at depths 9, 12, 15, 18, 22, 27 and 33
		want []string  // "" where nothing is said
	}{
		{"sure at once", []float64{40, 40, 40, 40}, []string{shown, "", stable, ""}},
		{"a doubtful look", []float64{40, 19, 40, 40, 40}, []string{shown, "", "", stable, ""}},
		{"disowned for a moment", []float64{40, 40, 40, 4, 40, 4, 40}, []string{shown, "", stable, "", "", "", stable}}, // twice as deep
		{"disowned", []float64{40, 40, 40, 4, 1, 40}, []string{shown, "", stable, "", gone, shown}},
		{"provisional", []float64{40, 40, 4, 40}, []string{shown, "", gone, shown}},
		{"below the bar", []float64{19, 19, 20, 11, 9}, []string{"", "", shown, "", gone}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSample(t, 15, 1000)
			s.mismatch, s.gap = 0, 0
			s.edits = []edit{{500, 1, string(other(s.contig.Seq[500]))}}
			scorer := &script{qual: tc.qual}
			r := region(t, s.contig, 0, variant.Config{Network: scorer, StableReads: 5})
			segments := s.segments(t, 200, 900, 0, 1000)
			covering := segments[:0]
			for _, seg := range segments {
				if seg.GetStart() < 400 && seg.GetStart()+900 > 600 {
					covering = append(covering, seg)
				}
			}
			w := &watcher{t: t}
			depth := 0
			for i, want := range tc.want {
				scorer.evaluation = i
				next := []int{9, 12, 15, 18, 22, 27, 33}[i]
				apply(t, r, covering[depth:next]...)
				depth = next
				calls := evaluate(t, r)
				w.see(calls)
				got := ""
				for _, c := range calls {
					got += c.GetStatus().String()
				}
				if got != want {
					t.Fatalf("look %d, of QUAL %g: %q, want %q", i, tc.qual[i], got, want)
				}
			}
		})
	}
}

// A substitution that half of the reads of a haploid sample show is filtered, unless a
// network is sure of it, and one of a diploid sample isn't.
func TestLowFraction(t *testing.T) {
	s := newSample(t, 16, 1000)
	s.mismatch, s.gap = 0, 0
	plain := *s
	s.edits = []edit{{500, 1, string(other(s.contig.Seq[500]))}}
	with, without := s.segments(t, 20, 900, 0, 1000), plain.segments(t, 20, 900, 0, 1000)
	for _, seg := range without {
		seg.ReadId = "plain" + seg.ReadId
	}
	for _, tc := range []struct {
		ploidy   variant.Ploidy
		qual     float64
		carriers int
		fraction bool
	}{{variant.Haploid, 17, 13, true}, {variant.Haploid, 19, 10, false}, {variant.Haploid, 17, 15, false}, {variant.Diploid, 17, 10, false}} {
		r := region(t, s.contig, 0, variant.Config{Ploidy: tc.ploidy, Network: &script{qual: []float64{tc.qual}}})
		apply(t, r, with[:tc.carriers]...)
		apply(t, r, without[tc.carriers:]...)
		calls := finalize(t, r)
		if len(calls) != 1 {
			t.Fatalf("ploidy %s: %v", tc.ploidy, calls)
		}
		if got := slices.Contains(calls[0].GetFilters(), "LowFraction"); got != tc.fraction {
			t.Errorf("ploidy %s, QUAL %g, %d of 20 reads: filters %v", tc.ploidy, tc.qual, tc.carriers, calls[0].GetFilters())
		}
	}
}
