package variant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vrs"
)

// denying is a network that believes in nothing.
type denying struct{}

func (denying) Score(dst, examples []float32) ([]float32, error) {
	for range len(examples) / variant.ExampleSize {
		dst = append(dst, -1e-4, -20, -10, -1e-4, -20, -10)
		for range variant.Scores - variant.ScoreLength {
			dst = append(dst, -10)
		}
	}
	return dst, nil
}

func (denying) Fingerprint() string { return "denying" }

// named is a panel's name for one allele.
func named(name string, pos int, ref, alt string) variant.Named {
	return variant.Named{Name: name, Pos: pos, Alleles: []vrs.Edit{{Start: pos, Ref: ref, Alt: alt}}}
}

// shownBy is what the final coverage of a region says of reads, by name or by allele.
func shownBy(t testing.TB, s *sample, cfg variant.Config, targets variant.Targets, segments []*streampb.Segment) (map[string]*streampb.Shown, []*streampb.Call) {
	t.Helper()
	r := region(t, s.contig, 0, cfg)
	r.SetTargets(targets)
	apply(t, r, segments...)
	calls := finalize(t, r)
	out := make(map[string]*streampb.Shown)
	for _, c := range r.Coverage() {
		require.True(t, c.GetCounted())
		for _, k := range c.GetShown() {
			key := k.GetNamed()
			if key == "" {
				key = fmt.Sprintf("%d %s>%s", k.GetPos(), k.GetRef(), k.GetAlt())
			}
			require.Nil(t, out[key], "%s comes twice", key)
			require.LessOrEqual(t, k.GetForward()+k.GetReverse(), k.GetDepth())
			require.True(t, k.GetPos() > c.GetStart() && k.GetPos() <= c.GetEnd() || k.GetNamed() == "", "%v of %d-%d", k, c.GetStart(), c.GetEnd())
			out[key] = k
		}
	}
	return out, calls
}

// events is a sample with an event of each kind, their names, and alleles that are like them and are not there.
func events(t testing.TB, seed uint64) (s *sample, there, like []variant.Named) {
	s = newSample(t, seed, 9000)
	seq := s.contig.Seq
	copy(seq[1000:], "GATTGGGCAT")      // GGG>AAC
	copy(seq[2000:], "TCGACTGACTAGT")   // an SNP, C>G
	copy(seq[3000:], "GACCCCCTAGTCATG") // one C of five is lost
	copy(seq[4000:], "GTCATCATCATCAGT") // one CAT more
	copy(seq[5000:], "GATCTTAGCATGACG") // TTAGC>CA
	s.contig = contig(t, string(seq))
	s.edits = []edit{{1004, 3, "AAC"}, {2004, 1, "G"}, {3002, 1, ""}, {4002, 0, "CAT"}, {5004, 5, "CA"}}
	there = []variant.Named{
		named("MNP", 1004, "GGG", "AAC"), named("atom", 1006, "G", "C"), named("SNP", 2004, "C", "G"),
		named("deletion", 3001, "AC", "A"), named("the same on the right", 3006, "C", ""), named("insertion", 4001, "T", "TCAT"),
		named("delins", 5004, "TTAGC", "CA"),
		{Name: "codon", Pos: 2003, Alleles: []vrs.Edit{{Start: 2003, Ref: "ACT", Alt: "AGT"}, {Start: 2003, Ref: "ACT", Alt: "TCT"}}},
	}
	like = []variant.Named{
		named("another base", 1004, "G", "T"), named("two of three", 1004, "GGG", "AAG"), named("one more", 1004, "GGGC", "AACT"),
		named("two lost", 3001, "ACC", "A"), named("one gained", 3001, "A", "AC"), named("two more", 4001, "T", "TCATCAT"), named("one less", 4001, "TCAT", "T"),
		named("long insertion", 6000, "", string(seq[7015:7135])), named("other deletion", 6500, string(seq[6500:6503]), ""),
		{Name: "another codon", Pos: 2003, Alleles: []vrs.Edit{{Start: 2003, Ref: "ACT", Alt: "AGA"}, {Start: 2003, Ref: "ACT", Alt: "TCT"}}},
	}
	return s, there, like
}

// TestReadsThatShowWhatIsNamed: of a mixture of reads with events and without, those with them are counted, by strand, and
// hardly any for what is only like them; whatever is called.
func TestReadsThatShowWhatIsNamed(t *testing.T) {
	for seed := range uint64(3) {
		s, there, like := events(t, 50+seed)
		without := *s
		without.edits = nil
		targets := variant.Targets{Spans: []variant.Span{{Start: 0, End: 9000}}, Named: slices.Concat(there, like)}
		for _, share := range []int{0, 1, 2, 3} { // thirds of the reads
			var segments []*streampb.Segment
			carrying := make(map[string]bool)
			for _, seg := range s.segments(t, 40*share, 3000, 0, 9000) {
				seg.ReadId += "-with"
				carrying[seg.ReadId] = true
				segments = append(segments, seg)
			}
			segments = append(segments, without.segments(t, 120-40*share, 3000, 0, 9000)...)
			shown, _ := shownBy(t, s, variant.Config{Network: denying{}}, targets, segments)
			for _, n := range slices.Concat(there, like) {
				k := shown[n.Name]
				require.NotNil(t, k, n.Name)
				require.EqualValues(t, n.Pos+1, k.GetPos())
				var all, with [2]int // reads that span it
				for _, seg := range segments {
					extent, err := align.Check(seg, 9000)
					require.NoError(t, err)
					start, end := int(seg.GetStart()), int(seg.GetStart())+extent.Reference
					if start > n.Pos-25 || end < n.Pos+25+len(n.Alleles[0].Ref) {
						continue
					}
					strand := 0
					if seg.GetReverse() {
						strand = 1
					}
					all[strand]++
					if carrying[seg.GetReadId()] && slices.ContainsFunc(there, func(o variant.Named) bool { return o.Name == n.Name }) {
						with[strand]++
					}
				}
				require.InDelta(t, all[0]+all[1], k.GetDepth(), 0.2*float64(all[0]+all[1])+2, "depth of %s", n.Name)
				for strand, got := range []uint32{k.GetForward(), k.GetReverse()} {
					require.InDelta(t, with[strand], got, 0.15*float64(all[strand])+3, "%s, %d thirds, strand %d of depth %d", n.Name, share, strand, k.GetDepth())
				}
			}
		}
	}
}

// TestReadsThatShowLongChanges: of alleles too long to be realigned the reads count that have most of them.
func TestReadsThatShowLongChanges(t *testing.T) {
	s := newSample(t, 70, 9000)
	without := *s
	s.edits = []edit{{7015, 150, ""}, {7400, 0, strings.Repeat("GATTACAGGCTTAACGCTTAGCAT", 6)}}
	targets := variant.Targets{Spans: []variant.Span{{Start: 6900, End: 7500}}, Named: []variant.Named{
		named("deletion", 7015, string(s.contig.Seq[7015:7165]), ""), named("insertion", 7400, "", s.edits[1].seq),
		named("other deletion", 7200, string(s.contig.Seq[7200:7350]), ""), named("other insertion", 7300, "", s.edits[1].seq),
	}}
	segments := s.segments(t, 30, 3000, 5500, 9000) // all span all of it
	for _, seg := range without.segments(t, 50, 3000, 5500, 9000) {
		seg.ReadId += "-without"
		segments = append(segments, seg)
	}
	shown, _ := shownBy(t, s, variant.Config{Network: denying{}}, targets, segments)
	for name, want := range map[string]uint32{"deletion": 30, "insertion": 30, "other deletion": 0, "other insertion": 0} {
		require.EqualValues(t, 80, shown[name].GetDepth(), name)
		require.EqualValues(t, want, shown[name].GetForward()+shown[name].GetReverse(), name)
	}
}

// diluted are n reads of a sample of which a fifth have none of its edits: too few carry them for the caller to believe in
// them whatever a network says.
func diluted(t testing.TB, s *sample, n, length int) []*streampb.Segment {
	t.Helper()
	without := *s
	without.edits = nil
	segments := s.segments(t, n*4/5, length, 0, len(s.contig.Seq))
	for _, seg := range without.segments(t, n/5, length, 0, len(s.contig.Seq)) {
		seg.ReadId += "-without"
		segments = append(segments, seg)
	}
	return segments
}

// TestUncalledAllelesAreReported: an allele that most reads show and nobody has called is reported, and no longer
// once a call stands that explains it.
func TestUncalledAllelesAreReported(t *testing.T) {
	s, _, _ := events(t, 60)
	targets := variant.Targets{Spans: []variant.Span{{Start: 900, End: 6900}}}
	shown, calls := shownBy(t, s, variant.Config{Network: denying{}}, targets, diluted(t, s, 120, 3000))
	require.Empty(t, calls)
	for _, name := range []string{"1005 G>A", "1006 G>A", "1007 G>C", "2005 C>G", "3002 AC>A", "4001 G>GTCA"} {
		k := shown[name]
		require.NotNil(t, k, "%s among %v", name, shown)
		require.Greater(t, float64(k.GetForward()+k.GetReverse()), 0.65*float64(k.GetDepth()), name)
		delete(shown, name)
	}
	for name := range shown { // the delins, as aligners spread it
		var pos int
		_, err := fmt.Sscanf(name, "%d", &pos)
		require.NoError(t, err)
		require.True(t, pos > 5000 && pos < 5012, name)
	}
	require.NotEmpty(t, shown)

	segments := s.segments(t, 90, 3000, 0, 9000)
	for _, atomized := range []int{0, -1} {
		shown, calls = shownBy(t, s, variant.Config{MNPDistance: atomized}, targets, segments)
		require.Subset(t, passing(calls), []string{"2005 C>G", "3002 AC>A", "4001 G>GTCA"})
		require.Empty(t, shown, "with %v", passing(calls))
	}
	s.edits = nil
	shown, calls = shownBy(t, s, variant.Config{}, targets, s.segments(t, 90, 3000, 0, 9000))
	require.Empty(t, shown)
	require.Empty(t, calls)
}

// TestHalfOfAnEventDoesNotExplainTheOther: where a caller that is made to believe in deletions alone calls
// one, the base that is changed beside it is reported.
func TestHalfOfAnEventDoesNotExplainTheOther(t *testing.T) {
	s := newSample(t, 61, 4000)
	copy(s.contig.Seq[2000:], "GATCCAGTTCAGACT")
	s.contig = contig(t, string(s.contig.Seq))
	s.edits = []edit{{2004, 2, ""}, {2011, 1, "T"}} // a deletion, and a base that is five from it
	network := &partial{}
	shown, calls := shownBy(t, s, variant.Config{Network: network}, variant.Targets{Spans: []variant.Span{{Start: 1990, End: 2030}}}, diluted(t, s, 90, 2500))
	var called []string
	for _, c := range calls {
		called = append(called, name(c))
	}
	require.Len(t, called, 1)
	require.Greater(t, len(calls[0].GetRef()), 1, called)
	var names []string
	for n, k := range shown {
		names = append(names, n)
		require.Greater(t, float64(k.GetForward()+k.GetReverse()), 0.6*float64(k.GetDepth()), n)
	}
	require.Equal(t, []string{"2012 G>T"}, names)
}

// partial is a network that believes in what is no substitution.
type partial struct{}

func (*partial) Score(dst, examples []float32) ([]float32, error) {
	for ; len(examples) > 0; examples = examples[variant.ExampleSize:] {
		yes := variant.IsIndelExample(examples[:variant.ExampleSize])
		for range 2 {
			if yes {
				dst = append(dst, -12, -20, -1e-5)
			} else {
				dst = append(dst, -1e-5, -20, -12)
			}
		}
		for range variant.Scores - variant.ScoreLength {
			dst = append(dst, -10)
		}
	}
	return dst, nil
}

func (*partial) Fingerprint() string { return "partial" }

// TestShownIsAFunctionOfTheSet: the bytes of the last coverage do not depend on the order of reads, on how
// often one comes, or on when the region was evaluated, let go of reads, or was restored; calls that stand
// included.
func TestShownIsAFunctionOfTheSet(t *testing.T) {
	s, there, like := events(t, 62)
	without := *s
	without.edits = nil
	segments := s.segments(t, 110, 2500, 0, 9000)
	for _, seg := range without.segments(t, 60, 2500, 0, 9000) {
		seg.ReadId += "-without"
		segments = append(segments, seg)
	}
	targets := variant.Targets{Spans: []variant.Span{{Start: 900, End: 3100}, {Start: 3900, End: 7200}}, Named: slices.Concat(there, like)}
	for _, cfg := range []variant.Config{{Sample: "s"}, {Sample: "s", Network: denying{}}, {Sample: "s", Ploidy: variant.Diploid, Network: &variant.DoseNetwork{}}} {
		var want []string
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, 63))
			order := slices.Clone(segments)
			rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			shuffled := targets
			shuffled.Named = slices.Clone(targets.Named)
			rnd.Shuffle(len(shuffled.Named), func(i, j int) {
				shuffled.Named[i], shuffled.Named[j] = shuffled.Named[j], shuffled.Named[i]
			})
			r := region(t, s.contig, 0, cfg)
			r.SetTargets(shuffled)
			every := []int{1, 7, 1000, 3}[seed]
			newest := make(map[int64]*streampb.Coverage)
			take := func() {
				for _, c := range r.Coverage() {
					require.Equal(t, newest[c.GetStart()].GetRevision()+1, c.GetRevision())
					newest[c.GetStart()] = c
				}
			}
			for i, seg := range order {
				apply(t, r, seg)
				if rnd.IntN(6) == 0 {
					apply(t, r, order[rnd.IntN(i+1)])
				}
				if i%every == 0 {
					evaluate(t, r)
					take()
				}
				if i == len(order)/2 {
					p := partsOf(t, r)
					x, err := variant.NewRestorer(s.contig, 0, cfg, shuffled)
					require.NoError(t, err)
					require.NoError(t, x.State([]byte(p.state)))
					for batch, b := range p.reads {
						require.NoError(t, x.Reads(batch, []byte(b)))
					}
					r, err = x.Region()
					require.NoError(t, err)
				}
			}
			finalize(t, r)
			take()
			var got []string
			for _, c := range newest {
				require.LessOrEqual(t, c.GetRevision(), uint64(60))
				c.Revision = 0
				b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
				require.NoError(t, err)
				got = append(got, string(b))
			}
			slices.Sort(got)
			if seed == 0 {
				want = got
				require.True(t, slices.ContainsFunc(got, func(b string) bool { return strings.Contains(b, "delins") }))
			}
			require.Equal(t, want, got, "seed %d", seed)
		}
	}
}
