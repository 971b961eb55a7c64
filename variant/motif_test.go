package variant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
)

// misreadMotifs is a sample whose reads of one strand get three motifs wrong, and which has real substitutions
// besides, every second of them where a motif could have made it.
func misreadMotifs(t testing.TB, seed uint64, length int) (s *sample, real map[string]bool) {
	t.Helper()
	s = newSample(t, seed, length)
	s.mismatch, s.gap = 0.008, 0.006
	for _, m := range []struct {
		motif string
		at    int
		shows byte
		share float64
	}{{"GATC", 1, 'G', 0.6}, {"CCWGG", 1, 'T', 0.6}, {"TGCAY", 3, 'G', 0.6}} {
		s.misreadMotif(m.motif, m.at, m.shows, m.share)
	}
	real = make(map[string]bool)
	for pos := 200; pos < length-200; pos += 500 {
		at, alt := pos, other(s.contig.Seq[pos])
		if pos/500%2 == 0 {
			for p := pos; p < pos+300; p++ { // both strands show what the forward one would by mistake
				if m, ok := s.misread[0][p]; ok {
					at, alt = p, m.shows
					break
				}
			}
		}
		s.edits = append(s.edits, edit{at, 1, string(alt)})
		real[fmt.Sprintf("%d %c>%c", at+1, s.contig.Seq[at], alt)] = true
	}
	return s, real
}

// motifOnly reports whether nothing but the motif speaks against a call.
func motifOnly(c *streampb.Call) bool {
	return len(c.GetFilters()) == 1 && c.GetFilters()[0] == "MotifArtifact"
}

// Of the alleles that one strand's errors at motifs would have had called, at least 95 in 100 are marked, with the
// motif's name; no real one is, where it lies in a motif neither.
func TestMotifArtefactsAreMarked(t *testing.T) {
	samples := uint64(1)
	if testenv.All() {
		samples = 14 // more than a thousand real substitutions
	}
	marked, missed, found, all := 0, 0, 0, 0
	names := make(map[string]int)
	for seed := range samples {
		s, real := misreadMotifs(t, 31+1000*seed, 45_000)
		all += len(real)
		r := region(t, s.contig, 0, variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: shippedNetwork(t)})
		apply(t, r, s.segments(t, 450, 3000, 0, 45_000)...)
		for _, c := range finalize(t, r) {
			filtered := slices.Contains(c.GetFilters(), "MotifArtifact")
			assert.Equal(t, filtered, c.GetMotif() != nil, name(c))
			switch {
			case real[name(c)]:
				assert.False(t, filtered, "%s is real: %v", name(c), c)
				found++
			case filtered:
				names[fmt.Sprint(c.GetMotif().GetMotif(), c.GetMotif().GetBase(), c.GetMotif().GetShows())]++
				assert.LessOrEqual(t, c.GetMotif().GetAffected(), c.GetMotif().GetSites())
				if motifOnly(c) {
					marked++
				}
			case len(c.GetFilters()) == 0:
				missed++
			}
		}
	}
	t.Logf("%d artefacts marked, %d called, %d of %d real ones found: %v", marked, missed, found, all, names)
	assert.Greater(t, marked, 20)
	assert.GreaterOrEqual(t, marked, 19*missed, "called in spite of the guard")
	assert.Greater(t, found, all*9/10)
	for _, motif := range []string{"GATC2G", "CCWGG2T", "TGCAY4G"} {
		assert.Positive(t, names[motif], "%s: %v", motif, names)
	}
}

// Without errors of a motif nothing is marked, however strands differ by chance at low depth.
func TestNoMotifWithoutOne(t *testing.T) {
	s, _ := misreadMotifs(t, 32, 20_000)
	s.misread = [2]map[int]misread{}
	for _, reads := range []int{40, 160} {
		r := region(t, s.contig, 0, variant.Config{Ploidy: variant.Mixture, Network: shippedNetwork(t)})
		apply(t, r, s.segments(t, reads, 3000, 0, 20_000)...)
		for _, c := range finalize(t, r) {
			assert.NotContains(t, c.GetFilters(), "MotifArtifact", name(c))
		}
	}
}

// Motifs that are known to be modified need not be found: one with a gap, and one of eight letters with another, are marked
// once they are named, and only then; real alleles aren't, and where reads get nothing wrong nothing is.
func TestKnownMotifs(t *testing.T) {
	const length = 24_000
	plain := func() *sample {
		s := newSample(t, 42, length)
		s.mismatch, s.gap = 0.008, 0.006
		return s
	}
	s := plain()
	sites := s.misreadMotif("GCCNNNNNGGC", 2, 'T', 0.6) + s.misreadMotif("GACNNNNNTGAY", 1, 'G', 0.6)
	require.Positive(t, sites)
	real := map[string]bool{}
	for pos := 1000; pos < length-1000; pos += 1000 {
		for p := pos; p < pos+900; p++ {
			if m, ok := s.misread[0][p]; ok { // what the motif would make, on both strands
				s.edits = append(s.edits, edit{p, 1, string(m.shows)})
				real[fmt.Sprintf("%d %c>%c", p+1, s.contig.Seq[p], m.shows)] = true
				break
			}
		}
	}
	require.NotEmpty(t, real)
	segments := s.segments(t, 140, 3000, 0, length)
	call := func(segments []*streampb.Segment, motifs ...string) []*streampb.Call {
		r := region(t, s.contig, 0, variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: shippedNetwork(t), ModifiedMotifs: motifs})
		apply(t, r, segments...)
		return finalize(t, r)
	}
	wrong := func(calls []*streampb.Call) (marked, passed int) {
		for _, c := range calls {
			_, err := stream.EncodeCalls(&streampb.CallRecord{Body: &streampb.CallRecord_Call{Call: c}})
			require.NoError(t, err, "what is called can be written, however long its motif is")
			switch {
			case real[name(c)]:
				assert.Empty(t, c.GetFilters(), "%s is real", name(c))
			case motifOnly(c):
				marked++
			case len(c.GetFilters()) == 0:
				passed++
			}
		}
		return marked, passed
	}
	_, before := wrong(call(segments))
	marked, after := wrong(call(segments, "GCCNNNNNGGC", "GACNNNNNTGAY", "GATC"))
	t.Logf("%d sites: %d called without the motifs, with them %d and %d marked", sites, before, after, marked)
	assert.GreaterOrEqual(t, before, 3)
	assert.GreaterOrEqual(t, marked, before-before/10)
	assert.LessOrEqual(t, after, before/10)

	clean := plain()
	for _, c := range call(clean.segments(t, 140, 3000, 0, length), "GCCNNNNNGGC", "GACNNNNNTGAY", "GATC") {
		assert.NotContains(t, c.GetFilters(), "MotifArtifact", name(c))
	}
}

// A motif that can't be one of a modification is refused.
func TestKnownMotifsFaults(t *testing.T) {
	for _, tt := range []struct{ motif, want string }{
		{"GAXC", `modified motif "GAXC": 'X' is no letter of IUPAC's for bases`},
		{"NNRN", `modified motif "NNRN": want at most 32 letters, and two of A, C, G and T among them`},
		{strings.Repeat("A", 33), "want at most 32 letters"},
		{"", `modified motif ""`},
	} {
		assert.ErrorContains(t, variant.Config{ModifiedMotifs: []string{tt.motif}}.Validate(), tt.want)
	}
	assert.ErrorContains(t, variant.Config{ModifiedMotifs: make([]string, 65)}.Validate(), "65 modified motifs: want at most 64")
}

// What is marked at the end is a function of the set of reads: any order, whatever was published while they
// came, whether only a part is evaluated, and whether the state was put away and restored meanwhile.
func TestMotifsDependOnTheSetOfReads(t *testing.T) {
	s, _ := misreadMotifs(t, 33, 12_000)
	for _, known := range [][]string{nil, {"GATC", "GCCNNNNNGGC"}} {
		motifsDependOnTheSetOfReads(t, s, known)
	}
}

func motifsDependOnTheSetOfReads(t *testing.T, s *sample, known []string) {
	cfg := variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: shippedNetwork(t), ModifiedMotifs: known}
	segments := s.segments(t, 120, 3000, 0, 12_000)
	one := region(t, s.contig, 0, cfg)
	apply(t, one, segments...)
	want := finalize(t, one)
	require.True(t, slices.ContainsFunc(want, func(c *streampb.Call) bool { return c.GetMotif() != nil }))

	rng := rand.New(rand.NewPCG(34, 0))
	rng.Shuffle(len(segments), func(i, j int) { segments[i], segments[j] = segments[j], segments[i] })
	two := region(t, s.contig, 0, cfg)
	seen := &watcher{t: t}
	for i, seg := range segments {
		apply(t, two, seg)
		seen.see(evaluate(t, two))
		if i == 70 {
			p := partsOf(t, two)
			two = restore(t, s.contig, cfg, nil, p, 1<<20, rng)
			require.True(t, partsOf(t, two).equal(p))
		}
	}
	got := finalize(t, two)
	seen.see(got)
	got = slices.DeleteFunc(got, func(c *streampb.Call) bool { return c.GetStatus() == streampb.CallStatus_RETRACTED })
	same := func(a, b *streampb.Call) bool {
		a, b = proto.CloneOf(a), proto.CloneOf(b)
		a.Revision, b.Revision, a.Reason, b.Reason = 0, 0, "", ""
		return proto.Equal(a, b)
	}
	require.True(t, slices.EqualFunc(want, got, same))

	learnt := region(t, s.contig, 0, variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: shippedNetwork(t)})
	for i, seg := range segments {
		apply(t, learnt, seg)
		evaluate(t, learnt)
		if i == 90 { // the motifs are known from here on
			motifs, leftOut, err := variant.Config{}.NewKnownMotifs(append([]string{"NNRN"}, known...))
			require.NoError(t, err)
			require.Equal(t, []string{"NNRN"}, leftOut)
			learnt.UseMotifs(motifs)
			learnt.ForgetMotifs()
		}
	}
	got = slices.DeleteFunc(finalize(t, learnt), func(c *streampb.Call) bool { return c.GetStatus() == streampb.CallStatus_RETRACTED })
	require.True(t, slices.EqualFunc(want, got, same))

	part := region(t, s.contig, 0, cfg)
	part.Restrict([]variant.Span{{Start: 4000, End: 4200}})
	apply(t, part, segments...)
	for _, c := range finalize(t, part) {
		i := slices.IndexFunc(want, func(o *streampb.Call) bool { return name(o) == name(c) })
		require.GreaterOrEqual(t, i, 0, name(c))
		require.Equal(t, want[i].GetFilters(), c.GetFilters(), name(c))
		require.True(t, proto.Equal(want[i].GetMotif(), c.GetMotif()), name(c))
	}
}

// While reads come, what was shown of a motif before it was known goes, with the reason, and is not shown again.
func TestMotifArtefactsAreTakenBack(t *testing.T) {
	s, real := misreadMotifs(t, 35, 12_000)
	r := region(t, s.contig, 0, variant.Config{Sample: "s", Ploidy: variant.Mixture, Network: shippedNetwork(t)})
	seen := &watcher{t: t}
	for _, seg := range s.segments(t, 160, 3000, 0, 12_000) {
		apply(t, r, seg)
		for _, c := range evaluate(t, r) {
			seen.see([]*streampb.Call{c})
			if c.GetMotif() != nil && c.GetStatus() != streampb.CallStatus_RETRACTED {
				assert.False(t, motifOnly(c), "%s was shown as passed by all but its motif", name(c))
			}
		}
	}
	shown := 0
	for called := range seen.alive() {
		if !real[called] {
			shown++
		}
	}
	assert.LessOrEqual(t, shown, len(real)/20)
}

// BenchmarkMotifs is what the guard costs a region of a megabase at 30x that has reason to search for
// motifs.
func BenchmarkMotifs(b *testing.B) {
	s := newSample(b, 36, 1_000_000)
	s.mismatch, s.gap = 0.008, 0.006
	r := region(b, s.contig, 0, variant.Config{})
	apply(b, r, s.segments(b, 3000, 10_000, 0, 1_000_000)...)
	b.ReportAllocs()
	for b.Loop() {
		r.FindMotifs()
	}
}
