package variant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// planted is a sample with a substitution, an insertion, a deletion and a
// homopolymer, far from each other, and how the calls must spell them.
func planted(t testing.TB, seed uint64) (*sample, []string) {
	s := newSample(t, seed, 6000)
	seq := s.contig.Seq
	copy(seq[2000:], "GATTTACAGG")
	copy(seq[3000:], "GCCCCATCAG")
	s.contig = contig(t, string(seq))
	snp := string(other(seq[1000]))
	s.edits = []edit{
		{1000, 1, snp},
		{2006, 0, "GGA"}, // GATTTA GGA CAGG; leftmost after A: GATTT AGG ACAGG
		{3003, 1, ""},    // one C of four
	}
	return s, []string{
		fmt.Sprintf("1001 %c>%s", seq[1000], snp),
		"2005 T>TAGG",
		"3001 GC>G",
	}
}

func TestFinalizeFindsVariants(t *testing.T) {
	for seed := range uint64(3) {
		s, want := planted(t, seed)
		r := region(t, s.contig, 0, variant.Config{Sample: "s"})
		apply(t, r, s.segments(t, 60, 2500, 0, 6000)...)
		calls := finalize(t, r)
		if got := passing(calls); !slices.Equal(got, want) {
			t.Errorf("seed %d: called %q, want %q", seed, got, want)
		}
		for _, c := range calls {
			if c.GetRevision() == 0 || !strings.HasPrefix(c.GetVrsId(), "ga4gh:VA.") || c.GetSample() != "s" || c.GetRun() != "run" ||
				c.GetLastChunkMs() < 1000 || c.GetQual() <= 0 || c.GetQual() > 99 || !slices.Equal(c.GetGenotype(), []uint32{1}) {
				t.Errorf("incomplete call %v", c)
			}
			if n := c.GetRefForward() + c.GetRefReverse() + c.GetAltForward() + c.GetAltReverse(); n > c.GetDepth() {
				t.Errorf("%s: %d reads show an allele, of %d", name(c), n, c.GetDepth())
			}
		}
	}
}

// What is called depends on the set of segments only: not on their order, not on
// duplicates, not on when the region was evaluated or let go of reads.
func TestFinalizeIsAFunctionOfTheSet(t *testing.T) {
	for _, maxDepth := range []int{0, 12} { // with and without a depth cap at work
		s, _ := planted(t, 7)
		s.mismatch, s.gap = 0.06, 0.05 // enough noise for doubtful calls
		segments := s.segments(t, 50, 2000, 0, 6000)
		for i := 10; i < len(segments); i += 9 { // reads of which two parts align, some of them over each other
			segments[i].ReadId, segments[i].Supplementary = segments[i-1].GetReadId(), true
		}
		cfg := variant.Config{MaxDepth: maxDepth, EmitQual: 0.1}
		content := func(calls []*streampb.Call) (out []string) {
			for _, c := range calls {
				if c.GetStatus() == streampb.CallStatus_RETRACTED {
					continue
				}
				c = proto.CloneOf(c)
				c.Revision = 0 // counts what was said before
				b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, string(b))
			}
			return out
		}
		first := region(t, s.contig, 0, cfg)
		apply(t, first, segments...)
		want := content(finalize(t, first))
		if len(want) < 3 {
			t.Fatalf("%d calls leave nothing to compare", len(want))
		}
		rnd := rand.New(rand.NewPCG(1, 1))
		for trial := range 4 {
			order := slices.Concat(segments, segments[:20])
			rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			r := region(t, s.contig, 0, cfg)
			r.SetLimits(400<<trial, 8+5*trial) // batches of other sizes, and reads let go of at other times
			for _, seg := range order {
				apply(t, r, seg)
				if trial > 0 && rnd.IntN(trial) == 0 {
					evaluate(t, r)
				}
			}
			if got := content(finalize(t, r)); !slices.Equal(got, want) {
				t.Fatalf("depth cap %d, trial %d: other calls after shuffling", maxDepth, trial)
			}
		}
	}
}

// What was published of reads before their end, of whatever part of them, however often,
// and of reads that turn out to lie elsewhere, is evidence as long as it is there, and
// leaves no trace in what is final.
func TestReadsThatGoOnLeaveNoTrace(t *testing.T) {
	survey := variant.SurveyConfig{Blocks: true, Callable: true, MinDepth: 4}
	spans := []variant.Span{{900, 1100}, {2000, 4200}}
	final := func(r *variant.Region) string {
		var said []string
		r.Coverage() // what was said before the end
		for _, c := range finalize(t, r) {
			if c.GetStatus() != streampb.CallStatus_RETRACTED {
				c.Revision = 0
				said = append(said, c.String())
			}
		}
		for _, c := range r.Coverage() {
			c.Revision = 0
			said = append(said, c.String())
		}
		found, revision, ok := r.Reference(survey)
		return fmt.Sprint(said, found, revision, ok, r.Segments())
	}
	for seed := range uint64(6) {
		s, _ := planted(t, seed)
		s.mismatch, s.gap = 0.06, 0.05
		cfg := variant.Config{MaxDepth: []int{0, 8, 14}[seed%3], EmitQual: 0.1}
		segments := s.segments(t, 50, 2000, 0, 6000)
		elsewhere := s.segments(t, 10, 3000, 0, 6000)
		for _, e := range elsewhere {
			e.ReadId += " elsewhere"
		}
		plain := region(t, s.contig, 0, cfg)
		plain.SetTargets(variant.Targets{Spans: spans})
		apply(t, plain, segments...)
		want := final(plain)

		rnd := rand.New(rand.NewPCG(seed, 5))
		r := region(t, s.contig, 0, cfg)
		r.SetTargets(variant.Targets{Spans: spans})
		r.SetLimits(1<<(8+seed), 10)
		others := s.segments(t, len(segments), 1500, 0, 6000) // of which no final one comes
		for i, seg := range segments {
			for n := range rnd.IntN(4) {
				part := partialOf(others[(i+n)%len(others)], n+1)
				part.ReadId = seg.GetReadId()
				apply(t, r, part)
				if n > 0 {
					apply(t, r, partialOf(seg, n+1))
				}
				evaluate(t, r)
			}
			apply(t, r, partialOf(elsewhere[i%len(elsewhere)], 1+i/len(elsewhere)))
			if e := elsewhere[rnd.IntN(len(elsewhere))]; rnd.IntN(3) == 0 && !r.Withdraw(e.GetRun(), e.GetReadId()) && i == len(segments)-1 {
				t.Errorf("seed %d: nothing to withdraw", seed)
			}
			apply(t, r, seg)
			evaluate(t, r)
		}
		if got := final(r); got != want {
			t.Errorf("seed %d: with reads that go on it ends with\n%s\nwant\n%s", seed, got, want)
		}
		// What comes behind the end is no evidence.
		apply(t, r, partialOf(elsewhere[0], 40))
		if late, _ := r.Evaluate(); len(late) > 0 {
			t.Errorf("seed %d: a read that goes on amends what is final: %v", seed, late)
		}
	}
}

// A read that goes on counts once: a newer part of it takes the place of the older,
// and its end that of all.
func TestAReadThatGoesOnCountsOnce(t *testing.T) {
	s := newSample(t, 1, 3000)
	seg := s.segments(t, 1, 2000, 0, 3000)[0]
	r := region(t, s.contig, 0, variant.Config{})
	depth := func() (sum uint32) {
		for _, d := range r.Depth(1) {
			sum += d
		}
		return sum
	}
	apply(t, r, partialOf(seg, 1))
	once := depth()
	if once == 0 {
		t.Fatal("a read that goes on is no evidence")
	}
	second := partialOf(seg, 2)
	supplementary := partialOf(seg, 2)
	supplementary.Supplementary = true
	apply(t, r, second, supplementary, second)
	if got := depth(); got != 2*once {
		t.Errorf("depth %d of a read's two segments, %d of one", got, once)
	}
	if changed, err := r.Apply(partialOf(seg, 1)); err != nil || changed {
		t.Errorf("what was replaced comes again: changed %v, %v", changed, err)
	}
	low := partialOf(seg, 3)
	low.MappingQuality = 1
	if changed, err := r.Apply(low); err != nil || !changed || depth() != 0 {
		t.Errorf("a read that has become ambiguous: changed %v, %v, depth %d", changed, err, depth())
	}
	apply(t, r, partialOf(seg, 4), seg)
	if got := depth(); got != once || r.Segments() != 1 {
		t.Errorf("depth %d, %d segments of a read that has ended; depth %d before", got, r.Segments(), once)
	}
	if r.Withdraw(seg.GetRun(), seg.GetReadId()) {
		t.Error("a read that has ended was withdrawn")
	}
}

func TestApplyTwiceChangesNothing(t *testing.T) {
	s := newSample(t, 1, 3000)
	seg := s.segments(t, 1, 2000, 0, 3000)[0]
	r := region(t, s.contig, 0, variant.Config{})
	for i, want := range []bool{true, false} {
		changed, err := r.Apply(seg)
		if err != nil || changed != want {
			t.Errorf("time %d: changed %v, %v", i+1, changed, err)
		}
	}
	// Another part of the read, or a supplementary alignment, is another segment.
	part, supp := proto.CloneOf(seg), proto.CloneOf(seg)
	part.Part = 1
	supp.Supplementary = true
	for _, other := range []*streampb.Segment{part, supp} {
		if changed, err := r.Apply(other); err != nil || !changed {
			t.Errorf("another segment: changed %v, %v", changed, err)
		}
	}
	low := proto.CloneOf(seg)
	low.ReadId, low.MappingQuality = "low", 4
	for i, want := range []bool{true, false} {
		if changed, err := r.Apply(low); err != nil || changed != want {
			t.Errorf("mapping quality 4, time %d: changed %v, %v", i+1, changed, err)
		}
	}
	if r.Segments() != 4 {
		t.Errorf("%d segments", r.Segments())
	}
}

func TestApplyRefuses(t *testing.T) {
	s := newSample(t, 1, 3000)
	seg := s.segments(t, 1, 2000, 0, 3000)[0]
	for _, tc := range []struct {
		name   string
		change func(*streampb.Segment)
		want   string
	}{
		{"other contig", func(s *streampb.Segment) { s.Contig = "x" }, "belongs to region 0 of x"},
		{"other region", func(s *streampb.Segment) { s.Region = 1 }, "belongs to region 1"},
		{"beyond the contig", func(s *streampb.Segment) { s.Start = 2000 }, "outside region"},
		{"bases missing", func(s *streampb.Segment) { s.Bases = s.Bases[1:] }, "bases"},
		{"no read id", func(s *streampb.Segment) { s.ReadId = "" }, "no read id"},
		{"operations cut", func(s *streampb.Segment) { s.Ops = []byte{0x80} }, "truncated"},
	} {
		bad := proto.CloneOf(seg)
		tc.change(bad)
		r := region(t, s.contig, 0, variant.Config{})
		if _, err := r.Apply(bad); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if r.Segments() != 0 || len(finalize(t, r)) != 0 {
			t.Errorf("%s left a trace", tc.name)
		}
	}
}

// A base that most reads of one strand show, and no read of the other, is no
// variant however deep the coverage.
func TestStrandOnlySignalDoesNotPass(t *testing.T) {
	for _, share := range []float64{0.6, 0.8, 1} {
		s := newSample(t, 3, 4000)
		s.systematic = map[int]float64{2000: share}
		r := region(t, s.contig, 0, variant.Config{})
		apply(t, r, s.segments(t, 150, 2500, 0, 4000)...)
		if got := passing(finalize(t, r)); len(got) != 0 {
			t.Errorf("%.0f %% of the reverse reads: passed %q", 100*share, got)
		}
	}
}

// Only the region whose core holds the position says so, and it sees the whole
// allele.
func TestBordersOwnership(t *testing.T) {
	border := align.RegionWidth
	s := newSample(t, 4, border+4000)
	seq := s.contig.Seq
	copy(seq[border-6:], "GATATATATATC") // the repeat starts before the border and ends behind it
	s.contig = contig(t, string(seq))
	s.edits = []edit{
		{border - 40, 1, string(other(seq[border-40]))},
		{border + 1, 2, ""}, // a unit; leftmost at border-5
		{border + 60, 1, string(other(seq[border+60]))},
	}
	regions := []*variant.Region{region(t, s.contig, 0, variant.Config{}), region(t, s.contig, 1, variant.Config{})}
	for _, seg := range s.segments(t, 50, 3000, border-3500, border+3500) {
		apply(t, regions[seg.GetRegion()], seg)
	}
	want := [][]string{
		{fmt.Sprintf("%d %c>%c", border-39, seq[border-40], other(seq[border-40])), fmt.Sprintf("%d GAT>G", border-5)},
		{fmt.Sprintf("%d %c>%c", border+61, seq[border+60], other(seq[border+60]))},
	}
	for i, r := range regions {
		if got := passing(finalize(t, r)); !slices.Equal(got, want[i]) {
			t.Errorf("region %d: %q, want %q", i, got, want[i])
		}
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		cfg  variant.Config
		want string
	}{
		{variant.Config{}, ""},
		{variant.Config{Ploidy: variant.Diploid}, "ploidy 2: without a network only haploid"},
		{variant.Config{Ploidy: 3}, "ploidy 3: want 1, 2 or mixture"},
		{variant.Config{MinAlleleFraction: 0.6}, "least allele fraction 0.6"},
		{variant.Config{MinDepth: 500}, "MinDepth (500) <= MaxDepth (120)"},
		{variant.Config{MinQual: 3}, "EmitQual (5) <= MinQual (3)"},
		{variant.Config{SNPRate: 0.7}, "SNPRate (0.7)"},
	} {
		err := tc.cfg.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v, want %q", tc.cfg, err, tc.want)
		}
	}
	if _, err := variant.NewRegion(contig(t, "ACGT"), 1, variant.Config{}); err == nil {
		t.Error("a region beyond the contig was opened")
	}
}
