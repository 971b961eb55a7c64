package variant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// depths spells coverage out: the depth of every position that is mentioned.
func depths(t testing.TB, list []*streampb.Coverage) map[int]int {
	t.Helper()
	out := make(map[int]int)
	for _, c := range list {
		at := int(c.GetStart())
		for i, n := range c.GetLengths() {
			for range n {
				if _, twice := out[at]; twice {
					t.Fatalf("position %d is mentioned twice", at)
				}
				out[at] = int(c.GetDepths()[i])
				at++
			}
		}
		if at != int(c.GetEnd()) {
			t.Fatalf("blocks of %v end at %d", c, at)
		}
	}
	return out
}

// finalCoverage applies segments to a fresh region and finalizes it.
func finalCoverage(t testing.TB, s *sample, spans []variant.Span, segments []*streampb.Segment) ([]*streampb.Coverage, []*streampb.Call) {
	t.Helper()
	r := region(t, s.contig, 0, variant.Config{Sample: "s"})
	r.SetTargets(variant.Targets{Spans: spans})
	apply(t, r, segments...)
	calls := finalize(t, r)
	return r.Coverage(), calls
}

// TestCoverageIsTheCallersDepth compares the usable depth with what the caller
// itself gives as the depth of the substitutions that it calls, below its cap and
// above.
func TestCoverageIsTheCallersDepth(t *testing.T) {
	for _, n := range []int{30, 90, 400} {
		s := newSample(t, 31, 6000)
		for pos := 150; pos < 5900; pos += 97 {
			s.edits = append(s.edits, edit{pos, 1, string(other(s.contig.Seq[pos]))})
		}
		segments := s.segments(t, n, 1500, 0, 6000)
		coverage, calls := finalCoverage(t, s, []variant.Span{{Start: 0, End: 6000}}, segments)
		depth := depths(t, coverage)
		compared := 0
		for i, c := range calls {
			lonely := (i == 0 || calls[i-1].GetPos() < c.GetPos()-60) && (i == len(calls)-1 || calls[i+1].GetPos() > c.GetPos()+60)
			if len(c.GetRef()) != 1 || len(c.GetAlt()) != 1 || !lonely {
				continue // evaluated with more than its own window
			}
			compared++
			if got := depth[int(c.GetPos())-1]; got != int(c.GetDepth()) {
				t.Errorf("%d reads: %s has depth %d, the caller says %d", n, name(c), got, c.GetDepth())
			}
		}
		if compared < 40 {
			t.Errorf("%d reads: only %d calls were compared", n, compared)
		}
	}
}

// TestCoverageCountsSpanningReads compares with a count read by read.
func TestCoverageCountsSpanningReads(t *testing.T) {
	s := newSample(t, 32, 5000)
	copy(s.contig.Seq[2500:], "NNNN")
	segments := s.segments(t, 70, 1200, 0, 5000)
	coverage, _ := finalCoverage(t, s, []variant.Span{{Start: 100, End: 120}, {Start: 900, End: 4100}, {Start: 4990, End: 5000}}, segments)
	depth := depths(t, coverage)
	if len(depth) != 20+3200+10 {
		t.Errorf("%d positions are mentioned", len(depth))
	}
	for pos, got := range depth {
		lo, hi := max(0, pos-10), min(5000, pos+11)
		want := 0
		for _, seg := range segments {
			extent, err := align.Check(seg, 5000)
			if err != nil {
				t.Fatal(err)
			}
			if int(seg.GetStart()) <= lo && int(seg.GetStart())+extent.Reference >= hi {
				want++
			}
		}
		if lo < 2504 && hi > 2500 {
			want = 0
		}
		if got != want {
			t.Errorf("depth at %d is %d, %d reads span its window", pos, got, want)
		}
	}
}

// TestLongInsertionsDontCount: a read that the realigner refuses for the bases
// that it has too many is not in the depth.
func TestLongInsertionsDontCount(t *testing.T) {
	s := newSample(t, 33, 3000)
	plain := s.segments(t, 20, 2000, 0, 3000)
	s.edits = []edit{{1500, 0, string(s.contig.Seq[100:190])}}
	with := s.segments(t, 20, 2000, 0, 3000)
	for _, seg := range with {
		seg.ReadId += "-with"
	}
	coverage, _ := finalCoverage(t, s, []variant.Span{{Start: 1400, End: 1600}}, append(plain, with...))
	depth := depths(t, coverage)
	if at, beside := depth[1500], depth[1450]; at > 21 || beside < 35 {
		t.Errorf("depth %d at insertions of 90 bases in half of the reads, %d beside", at, beside)
	}
}

// TestFinalCoverageIsAFunctionOfTheSet: whatever the order of reads and however
// often one comes, and whatever was said on the way.
func TestFinalCoverageIsAFunctionOfTheSet(t *testing.T) {
	s := newSample(t, 34, 4000)
	segments := s.segments(t, 250, 1000, 0, 4000)
	spans := []variant.Span{{Start: 500, End: 700}, {Start: 600, End: 3000}, {Start: 3500, End: 3501}, {Start: 10, End: 10}}
	newest := func(seed uint64) map[string]string {
		rnd := rand.New(rand.NewPCG(seed, 35))
		order := slices.Clone(segments)
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		r := region(t, s.contig, 0, variant.Config{Sample: "s"})
		r.SetTargets(variant.Targets{Spans: spans})
		revisions := make(map[int64]uint64)
		out := make(map[string]string)
		take := func(final bool) {
			for _, c := range r.Coverage() {
				if c.GetRevision() != revisions[c.GetStart()]+1 || c.GetFinal() != final || c.GetRun() != "run" || c.GetSample() != "s" || c.GetContig() != "chr" {
					t.Errorf("seed %d: %v after revision %d", seed, c, revisions[c.GetStart()])
				}
				revisions[c.GetStart()] = c.GetRevision()
				c.Revision = 0
				out[fmt.Sprint(c.GetStart())] = fmt.Sprint(c)
			}
		}
		for i, seg := range order {
			apply(t, r, seg)
			if i%5 == 0 {
				apply(t, r, order[rnd.IntN(i+1)])
			}
			evaluate(t, r)
			take(false)
		}
		if said := revisions[600]; said > 0 {
			t.Errorf("a stretch begins where only a target does, at 600")
		}
		if said := revisions[1024]; said < 5 || said > 40 {
			t.Errorf("seed %d: %d revisions for 250 reads", seed, said)
		}
		finalize(t, r)
		take(true)
		if finalize(t, r); len(r.Coverage()) > 0 {
			t.Errorf("seed %d: finalizing again says something new", seed)
		}
		return out
	}
	want := newest(0)
	if len(want) != 4 { // three tiles and a lonely position
		t.Errorf("stretches %v", slices.Sorted(func(yield func(string) bool) {
			for k := range want {
				yield(k)
			}
		}))
	}
	for seed := uint64(1); seed < 4; seed++ {
		for start, got := range newest(seed) {
			if got != want[start] {
				t.Errorf("seed %d: stretch at %s is\n%s\nwant\n%s", seed, start, got, want[start])
			}
		}
	}
}

// TestCoverageOfLateReads: reads after the end bring new final revisions.
func TestCoverageOfLateReads(t *testing.T) {
	s := newSample(t, 36, 2000)
	segments := s.segments(t, 40, 1500, 0, 2000)
	r := region(t, s.contig, 0, variant.Config{Sample: "s"})
	r.SetTargets(variant.Targets{Spans: []variant.Span{{Start: 990, End: 1000}}})
	apply(t, r, segments[:20]...)
	finalize(t, r)
	before := r.Coverage()
	apply(t, r, segments[20:]...)
	evaluate(t, r)
	finalize(t, r)
	after := r.Coverage()
	last := after[len(after)-1]
	if len(before) != 1 || !last.GetFinal() || last.GetRevision() <= before[0].GetRevision() {
		t.Fatalf("%v, then %v", before, after)
	}
	all, _ := finalCoverage(t, s, []variant.Span{{Start: 990, End: 1000}}, segments)
	last.Revision = all[0].Revision
	if !proto.Equal(last, all[0]) {
		t.Errorf("%v, all reads at once give %v", last, all[0])
	}
}

// TestCoverageOfNeighbouringRegions: every region speaks of its core alone, and
// of nothing where no read lies.
func TestCoverageOfNeighbouringRegions(t *testing.T) {
	s := newSample(t, 37, align.RegionWidth+5000)
	segments := s.segments(t, 12, 3000, align.RegionWidth-3000, align.RegionWidth+3000)
	spans := []variant.Span{{Start: align.RegionWidth - 200, End: align.RegionWidth + 300}, {Start: 0, End: 10}}
	seen := make(map[int]int)
	for index := range 2 {
		r := region(t, s.contig, index, variant.Config{Sample: "s"})
		r.SetTargets(variant.Targets{Spans: spans})
		for _, seg := range segments {
			if int(seg.GetRegion()) == index {
				apply(t, r, seg)
			}
		}
		finalize(t, r)
		lo, hi := align.RegionBounds(index, len(s.contig.Seq))
		for pos, d := range depths(t, r.Coverage()) {
			if pos < lo || pos >= hi {
				t.Errorf("region %d speaks of %d", index, pos)
			}
			seen[pos] = d
		}
	}
	if len(seen) != 500 {
		t.Errorf("%d positions are mentioned, want the 500 with reads", len(seen))
	}
	if a, b := seen[align.RegionWidth-1], seen[align.RegionWidth]; a == 0 || a != b {
		t.Errorf("depth %d before the border, %d behind: the same reads span both", a, b)
	}
}

func TestUnwatchedRegionIsSilent(t *testing.T) {
	s := newSample(t, 38, 2000)
	r := region(t, s.contig, 0, variant.Config{})
	apply(t, r, s.segments(t, 20, 1500, 0, 2000)...)
	evaluate(t, r)
	finalize(t, r)
	if c := r.Coverage(); len(c) > 0 {
		t.Errorf("%v", c)
	}
}

// BenchmarkWatched is what watching costs: evaluation after every segment with
// and without targets everywhere.
func BenchmarkWatched(b *testing.B) {
	s := newSample(b, 39, 20_000)
	segments := s.segments(b, 200, 5000, 0, 20_000)
	for name, spans := range map[string][]variant.Span{"nothing": nil, "everything": {{Start: 0, End: 20_000}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := region(b, s.contig, 0, variant.Config{})
				r.SetTargets(variant.Targets{Spans: spans})
				for _, seg := range segments {
					apply(b, r, seg)
					evaluate(b, r)
					r.Coverage()
				}
			}
			b.ReportMetric(float64(b.N*len(segments))/b.Elapsed().Seconds(), "segments/s")
		})
	}
}
