package stage

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// wide is lambda and two contigs that nobody has sequenced, of several regions and with
// stretches of N.
func wide(t testing.TB) *genome.Genome {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	var fasta bytes.Buffer
	fmt.Fprintf(&fasta, ">J02459.1\n%s\n", lambda(t).Contigs[0].Seq)
	for _, c := range []struct {
		name   string
		length int
	}{{"empty", 2_100_000}, {"short", 5000}} {
		seq := make([]byte, c.length)
		for i := range seq {
			seq[i] = "ACGT"[rng.IntN(4)]
		}
		copy(seq[4000:], strings.Repeat("N", 500))
		fmt.Fprintf(&fasta, ">%s\n%s\n", c.name, seq)
	}
	g, err := genome.Read(&fasta)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newestReferences is what outs report of places without a variant: the newest revision of each key.
func newestReferences(t testing.TB, outs []stream.Out) map[string]*streampb.Reference {
	t.Helper()
	newest := make(map[string]*streampb.Reference)
	for i, m := range decode(t, outs) {
		if r := m.GetReference(); r != nil && r.GetRevision() > newest[string(outs[i].Key)].GetRevision() {
			newest[string(outs[i].Key)] = r
		}
	}
	return newest
}

// TestEveryPositionIsReported: over any number of partitions, each position of the
// reference is in one block or a call, and in one callable span, at the end; a marker that
// comes again says nothing new, and a late read only of its own region.
func TestEveryPositionIsReported(t *testing.T) {
	g := wide(t)
	segments := simulate(t, g, "run-1", "lambda", 80, 3)
	for i, s := range segments {
		if i%5 == 0 {
			s.MappingQuality = 2
		}
	}
	late := segments[len(segments)-1]
	segments = segments[:len(segments)-1]
	var first map[string]string
	for _, partitions := range []int32{1, 3} {
		var outs, again, amended []stream.Out
		owners := 0
		for p := range partitions {
			h, err := New(Config{
				Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Survey: variant.SurveyConfig{Blocks: true, Callable: true},
			})("reads", p, partitions)
			if err != nil {
				t.Fatal(err)
			}
			owner := stream.PartitionFor(stream.RegionKey("lambda", "J02459.1", 0), partitions) == p
			var own []*streampb.Segment
			if owner {
				own = segments
				owners++
			}
			values := runValues(t, "run-1", "lambda", own)
			outs = append(outs, handle(t, h, records(values)).outs()...)
			again = append(again, handle(t, h, records(values[len(values)-1:])).outs()...)
			if owner {
				amended = handle(t, h, records([][]byte{segmentValue(t, late), values[len(values)-1]})).outs()
			}
		}
		if owners != 1 {
			t.Fatalf("%d owners of a region", owners)
		}
		newest := newestReferences(t, outs)
		said := make(map[string]string)
		for key, r := range newest {
			said[key] = r.String()
		}
		if first == nil {
			first = said
		} else if !maps.Equal(first, said) {
			t.Errorf("over %d partitions something else is told", partitions)
		}
		checkCover(t, g, newest, finalSpans(t, outs))
		if n := len(newestReferences(t, again)); n != 0 {
			t.Errorf("a marker that comes again tells of %d stretches", n)
		}
		more := newestReferences(t, amended)
		for key, r := range more {
			if r.GetContig() != "J02459.1" || r.GetRevision() <= newest[key].GetRevision() {
				t.Errorf("a late read makes %s:%d of revision %d, before %d", r.GetContig(), r.GetStart(), r.GetRevision(), newest[key].GetRevision())
			}
		}
		if want := (len(g.Contigs[0].Seq) + stretchWidth - 1) / stretchWidth; len(more) != want {
			t.Errorf("a late read makes %d stretches be told of, want the %d of its region", len(more), want)
		}
	}
}

// finalSpans are the REF spans of final calls by contig.
func finalSpans(t testing.TB, outs []stream.Out) map[string][]variant.Span {
	t.Helper()
	spans := make(map[string][]variant.Span)
	for _, m := range decode(t, outs) {
		if c := m.GetCall(); c.GetStatus() == streampb.CallStatus_FINAL {
			spans[c.GetContig()] = append(spans[c.GetContig()], variant.Span{Start: int(c.GetPos()) - 1, End: int(c.GetPos()) - 1 + len(c.GetRef())})
		}
	}
	return spans
}

// checkCover checks that blocks and calls, and callable spans, cover every contig once.
func checkCover(t testing.TB, g *genome.Genome, references map[string]*streampb.Reference, calls map[string][]variant.Span) {
	t.Helper()
	for _, c := range g.Contigs {
		blocks, callable := make([]uint8, len(c.Seq)), make([]uint8, len(c.Seq))
		mark := func(cover []uint8, start, end int) {
			for i := start; i < end; i++ {
				cover[i]++
			}
			if start/align.RegionWidth != (end-1)/align.RegionWidth {
				t.Errorf("%s:%d-%d crosses a region's end", c.Name, start, end)
			}
		}
		for _, s := range variant.Union(calls[c.Name]) {
			mark(blocks, s.Start, s.End)
		}
		for _, r := range references {
			if r.GetContig() != c.Name {
				continue
			}
			for _, b := range r.GetBlocks() {
				mark(blocks, int(b.GetStart()), int(b.GetEnd()))
			}
			for _, s := range r.GetCallable() {
				mark(callable, int(s.GetStart()), int(s.GetEnd()))
			}
		}
		for what, cover := range map[string][]uint8{"blocks": blocks, "callable spans": callable} {
			if i := slices.IndexFunc(cover, func(n uint8) bool { return n != 1 }); i >= 0 {
				t.Errorf("%s:%d is in %d %s", c.Name, i, cover[i], what)
			}
		}
	}
}

// TestFollowedStretches: while a run goes on, the stretches with followed positions are reported at milestones alone, provisionally, and what is reported at the end
// is what it is without.
func TestFollowedStretches(t *testing.T) {
	g := wide(t)
	values := runValues(t, "run-1", "lambda", simulate(t, g, "run-1", "lambda", 80, 3))
	report := func(followed map[string][]int) (provisional []*streampb.Reference, final map[string]string) {
		h, err := New(Config{
			Topics: stream.NewTopics(""), CallsPartitions: 3, Genome: g, Survey: variant.SurveyConfig{Blocks: true}, Followed: followed,
		})("reads", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		final = make(map[string]string)
		outs := handle(t, h, records(values)).outs()
		for i, m := range decode(t, outs) {
			switch r := m.GetReference(); {
			case r == nil:
			case r.GetProvisional():
				if len(final) > 0 {
					t.Errorf("%s:%d is provisional behind the end", r.GetContig(), r.GetStart())
				}
				provisional = append(provisional, r)
			default:
				final[string(outs[i].Key)] = r.String()
			}
		}
		return provisional, final
	}
	none, want := report(nil)
	some, got := report(map[string][]int{"J02459.1": {37588, 37600, 41000}, "nowhere": {5}, "short": {100, 1 << 30}})
	if len(none) != 0 || !maps.Equal(want, got) {
		t.Errorf("%d provisional records without followed positions; the end is the same: %v", len(none), maps.Equal(want, got))
	}
	type revision struct {
		start  int64
		number uint64
	}
	seen := make(map[revision]bool)
	for _, r := range some {
		own := revision{r.GetStart(), r.GetRevision()}
		if r.GetContig() != "J02459.1" || r.GetStart() != 36864 && r.GetStart() != 40960 || len(r.GetCallable()) > 0 || len(r.GetBlocks()) == 0 || seen[own] || !isMilestone(int(r.GetRevision())) {
			t.Errorf("provisional record %v", r)
		}
		if n := len(r.GetBlocks()); n > 0 && r.GetBlocks()[n-1].GetEnd() > r.GetEnd() {
			t.Errorf("a provisional block of %d to %d goes on to %d, in the stretch behind", r.GetStart(), r.GetEnd(), r.GetBlocks()[n-1].GetEnd())
		}
		seen[own] = true
	}
	if len(some) < 5 {
		t.Errorf("%d provisional records", len(some))
	}
	for n, want := range map[int]bool{1: true, 7: true, 8: true, 9: false, 10: true, 11: false, 14: true, 15: false, 16: true, 18: false, 20: true, 1 << 20: true} {
		if isMilestone(n) != want {
			t.Errorf("%d segments are a milestone: %v", n, !want)
		}
	}
}
