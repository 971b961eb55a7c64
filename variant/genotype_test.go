package variant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
)

// diploid is a sample of two haplotypes, and how its calls must be spelled.
func diploid(t testing.TB, seed uint64) (haplotypes [2]*sample, want []string) {
	s := newSample(t, seed, 12_000)
	seq := s.contig.Seq
	copy(seq[3000:], "GATTTACAGG")
	copy(seq[4000:], "GCATCATCATCATG")
	copy(seq[6000:], "GACCGTACGTTACG")
	copy(seq[7000:], "CAAAG")
	copy(seq[8000:], "GATCGATTACAGGCTTAC")
	s.contig = contig(t, string(seq))
	others := func(pos int) (string, string) { // two other bases than the reference's
		a := other(seq[pos])
		for _, b := range []byte("ACGT") {
			if b != a && b != seq[pos] {
				return string(a), string(b)
			}
		}
		panic("unreachable")
	}
	het, _ := others(1000)
	hom, _ := others(2000)
	multi1, multi2 := others(5000)
	haplotypes[0] = s
	other := *s
	haplotypes[1] = &other
	haplotypes[0].edits = []edit{
		{1000, 1, het}, {2000, 1, hom}, {3006, 0, "GGA"}, {4002, 3, ""}, {5000, 1, multi1}, {6002, 1, "T"}, {7001, 1, ""}, {8004, 4, ""},
	}
	haplotypes[1].edits = []edit{
		{2000, 1, hom}, {4002, 3, ""}, {5000, 1, multi2}, {6005, 1, "A"}, {7001, 2, ""}, {8006, 1, "C"},
	}
	base := func(pos int) string { return string(seq[pos]) }
	want = []string{
		fmt.Sprintf("1001 %s>%s 0/1", base(1000), het),
		fmt.Sprintf("2001 %s>%s 1/1", base(2000), hom),
		"3005 T>TAGG 0/1",
		"4001 GCAT>G 1/1",
		fmt.Sprintf("5001 %s>%s 1/2", base(5000), multi1),
		fmt.Sprintf("5001 %s>%s 1/2", base(5000), multi2),
		"6003 C>T 0/1", // on the one haplotype
		"6006 T>A 0/1", // and, three bases on, the other
		"7001 CA>C 1/2",
		"7001 CAA>C 1/2",
		"8004 CGATT>C 1/2",
		"8007 T>C 1/2", // lies in what the other haplotype lacks
	}
	slices.Sort(want)
	return haplotypes, want
}

// reads simulates n reads of each haplotype.
func reads(t testing.TB, haplotypes [2]*sample, n int) []*streampb.Segment {
	t.Helper()
	var out []*streampb.Segment
	for h, s := range haplotypes {
		for i, seg := range s.segments(t, n, 3000, 0, len(s.contig.Seq)) {
			seg.ReadId = fmt.Sprintf("haplotype-%d-%d", h, i)
			out = append(out, seg)
		}
	}
	return out
}

// genotyped are the names and genotypes, whatever the haplotypes, of final calls
// without filters, sorted.
func genotyped(calls []*streampb.Call) []string {
	var out []string
	for _, c := range calls {
		if c.GetStatus() == streampb.CallStatus_FINAL && len(c.GetFilters()) == 0 {
			out = append(out, name(c)+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Sorted(slices.Values(c.GetGenotype()))), " ", "/"), "[]"))
		}
	}
	slices.Sort(out)
	return out
}

func TestDiploidGenotypes(t *testing.T) {
	for seed := range uint64(3) {
		haplotypes, want := diploid(t, seed)
		r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: &variant.DoseNetwork{}})
		apply(t, r, reads(t, haplotypes, 75)...)
		calls := finalize(t, r)
		if got := genotyped(calls); !slices.Equal(got, want) {
			t.Errorf("seed %d: called\n%q, want\n%q", seed, got, want)
		}
		called := make(map[string]*streampb.Call)
		for _, c := range calls {
			called[name(c)] = c
		}
		for _, c := range calls {
			if len(c.GetPhredLikelihoods()) != 3 || slices.Min(c.GetPhredLikelihoods()) != 0 || float64(c.GetGenotypeQuality()) > c.GetQual()+0.5 {
				t.Errorf("%s: QUAL %g, GQ %d, PL %v", name(c), c.GetQual(), c.GetGenotypeQuality(), c.GetPhredLikelihoods())
			}
			if n := len(c.GetOthers()); (n == 1) != slices.Contains(c.GetGenotype(), 2) {
				t.Errorf("%s: genotype %v with %d other alleles", name(c), c.GetGenotype(), n)
			}
			for _, o := range c.GetOthers() { // which names this one
				back := called[fmt.Sprintf("%d %s>%s", o.GetPos(), o.GetRef(), o.GetAlt())].GetOthers()
				if len(back) != 1 || back[0].GetPos() != c.GetPos() || back[0].GetRef() != c.GetRef() || back[0].GetAlt() != c.GetAlt() {
					t.Errorf("%s names %v, which names %v", name(c), o, back)
				}
				if c.GetOtherForward()+c.GetOtherReverse() < c.GetDepth()/4 {
					t.Errorf("%s: %d of %d reads show the other allele", name(c), c.GetOtherForward()+c.GetOtherReverse(), c.GetDepth())
				}
			}
		}
	}
}

// In a mixture an allele of a tenth of the molecules is there beside the
// reference, and one of all molecules alone.
func TestMixture(t *testing.T) {
	s := newSample(t, 21, 4000)
	minor, fixed := string(other(s.contig.Seq[1500])), string(other(s.contig.Seq[2500]))
	s.mismatch, s.gap = 0.005, 0.002
	rest := *s
	s.edits = []edit{{1500, 1, minor}, {2500, 1, fixed}}
	rest.edits = []edit{{2500, 1, fixed}}
	segments := slices.Concat(s.segments(t, 15, 3900, 0, 4000), rest.segments(t, 85, 3900, 0, 4000))
	for i, seg := range segments {
		seg.ReadId = fmt.Sprint("read-", i)
	}
	r := region(t, s.contig, 0, variant.Config{Ploidy: variant.Mixture, Network: &variant.DoseNetwork{}})
	apply(t, r, segments...)
	seen := false
	for _, x := range examples(t, r) {
		scalars := x.values[variant.ExamplePlanes*variant.ExampleColumns:]
		if x.Pos == 1501 && x.Alt == minor {
			seen = scalars[59] > 0.1 && scalars[59] < 0.2 && scalars[60] > 0.8
		}
	}
	if !seen {
		t.Error("the share of the minor allele isn't in its example")
	}
	want := fmt.Sprintf("2501 %c>%s 1/1", s.contig.Seq[2500], fixed)
	if got := genotyped(finalize(t, r)); !slices.Contains(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
}

// content is calls as bytes, without what depends on what was said before.
func content(t testing.TB, calls []*streampb.Call) (out []string) {
	t.Helper()
	for _, c := range calls {
		if c.GetStatus() == streampb.CallStatus_RETRACTED {
			continue
		}
		c = proto.CloneOf(c)
		c.Revision, c.Reason = 0, ""
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// With a network too, what is called depends on the set of segments only.
func TestGenotypesAreAFunctionOfTheSet(t *testing.T) {
	haplotypes, _ := diploid(t, 4)
	for _, s := range haplotypes {
		s.mismatch, s.gap = 0.05, 0.04
	}
	segments := reads(t, haplotypes, 40)
	for _, cfg := range []variant.Config{{Ploidy: variant.Diploid}, {Ploidy: variant.Diploid, MaxDepth: 14}, {}, {Ploidy: variant.Mixture, MaxDepth: 20}} {
		cfg.Network, cfg.EmitQual, cfg.MinQual = &variant.DoseNetwork{}, 0.1, 5
		first := region(t, haplotypes[0].contig, 0, cfg)
		apply(t, first, segments...)
		want := content(t, finalize(t, first))
		if len(want) < 3 {
			t.Fatalf("%d calls leave nothing to compare", len(want))
		}
		rnd := rand.New(rand.NewPCG(1, 1))
		for trial := range 3 {
			if trial == 1 && !testenv.All() && (cfg.Ploidy != variant.Diploid || cfg.MaxDepth != 0) {
				continue // evaluates behind each read, which takes the longest, for one of the settings
			}
			order := slices.Concat(segments, segments[:20])
			rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			r := region(t, haplotypes[0].contig, 0, cfg)
			w := &watcher{t: t}
			for _, seg := range order {
				apply(t, r, seg)
				if trial > 0 && rnd.IntN(trial) == 0 {
					w.see(evaluate(t, r))
				}
			}
			final := finalize(t, r)
			w.see(final)
			if got := content(t, final); !slices.Equal(got, want) {
				t.Fatalf("ploidy %s, depth cap %d, trial %d: other calls after shuffling", cfg.Ploidy, cfg.MaxDepth, trial)
			}
			if len(w.alive()) != len(want) {
				t.Errorf("a consumer ends with %d calls of %d", len(w.alive()), len(want))
			}
		}
	}
}

// A network that fails leaves the region as it was: what is said later is what
// would have been said.
func TestNetworkFails(t *testing.T) {
	haplotypes, _ := diploid(t, 6)
	segments := reads(t, haplotypes, 30)
	down := errors.New("device is gone")
	sound, failing := &variant.DoseNetwork{}, &variant.DoseNetwork{}
	build := func(n variant.Network) *variant.Region {
		r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: n})
		r.SetTargets(variant.Targets{Spans: []variant.Span{{Start: 500, End: 9000}}})
		return r
	}
	state := func(r *variant.Region) string {
		b, err := r.AppendState(nil)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want, got := build(sound), build(failing)
	failures := 0
	for _, seg := range segments {
		apply(t, want, seg)
		apply(t, got, seg)
		before, version := state(got), got.StateVersion()
		failing.Err = down
		if _, err := got.Evaluate(); err != nil {
			failures++
			if !errors.Is(err, down) || state(got) != before || got.StateVersion() != version {
				t.Fatalf("%v, and the state has changed: %v", err, state(got) != before)
			}
		}
		failing.Err = nil
		if !slices.EqualFunc(evaluate(t, want), evaluate(t, got), func(a, b *streampb.Call) bool { return proto.Equal(a, b) }) {
			t.Fatal("other revisions after a failure")
		}
	}
	failing.Err = down
	before := state(got)
	if _, err := got.Finalize(); !errors.Is(err, down) || state(got) != before {
		t.Fatalf("finalizing: %v, and the state has changed: %v", err, state(got) != before)
	}
	failing.Err = nil
	if !slices.EqualFunc(finalize(t, want), finalize(t, got), func(a, b *streampb.Call) bool { return proto.Equal(a, b) }) {
		t.Error("other final calls after a failure")
	}
	if !slices.EqualFunc(want.Coverage(), got.Coverage(), func(a, b *streampb.Coverage) bool { return proto.Equal(a, b) }) {
		t.Error("another coverage after a failure")
	}
	if failures < 10 {
		t.Errorf("%d failures", failures)
	}
	if state(want) != state(got) {
		t.Error("another state at the end")
	}
}

// All alleles of all tiles that are due go to the network together.
func TestFewQuestions(t *testing.T) {
	haplotypes, _ := diploid(t, 6)
	n := &variant.DoseNetwork{}
	r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: n})
	apply(t, r, reads(t, haplotypes, 30)...)
	if finalize(t, r); n.Calls.Load() != 1 {
		t.Errorf("the network was asked %d times about 12 tiles", n.Calls.Load())
	}
}

// mute is a network that says too little, or nonsense.
type mute struct{ scores []float32 }

func (m mute) Score(dst, _ []float32) ([]float32, error) { return append(dst, m.scores...), nil }
func (m mute) Fingerprint() string                       { return "mute" }

func TestNetworkTalksNonsense(t *testing.T) {
	haplotypes, _ := diploid(t, 6)
	segments := reads(t, haplotypes, 10)
	positive := slices.Repeat([]float32{0.5}, 1<<16)
	for _, tc := range []struct {
		scores []float32
		want   string
	}{
		{nil, "gave 0 values, not 39 for each"},
		{positive, "values, not 39 for each"},
	} {
		r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: mute{tc.scores}})
		apply(t, r, segments...)
		if _, err := r.Finalize(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
		n := len(examples(t, r))
		r = region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: mute{positive[:n*variant.Scores]}})
		apply(t, r, segments...)
		if _, err := r.Finalize(); err == nil || !strings.Contains(err.Error(), "is 0.5, which is no log probability") {
			t.Error(err)
		}
	}
}

// Without a network diploid regions show examples, but can't call.
func TestDiploidNeedsANetwork(t *testing.T) {
	haplotypes, _ := diploid(t, 6)
	r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid})
	apply(t, r, reads(t, haplotypes, 20)...)
	if len(examples(t, r)) < 8 {
		t.Error("no examples")
	}
	for _, err := range []error{second(r.Evaluate()), second(r.Finalize())} {
		if err == nil || !strings.Contains(err.Error(), "without a network only haploid") {
			t.Error(err)
		}
	}
}

func second(_ []*streampb.Call, err error) error { return err }

// When reads of the second haplotype come, a homozygous call becomes a heterozygous
// one: the next revision of the same allele, with a reason.
func TestGenotypeIsRevised(t *testing.T) {
	haplotypes, _ := diploid(t, 9)
	segments := reads(t, haplotypes, 60)
	r := region(t, haplotypes[0].contig, 0, variant.Config{Ploidy: variant.Diploid, Network: &variant.DoseNetwork{}})
	w := &watcher{t: t}
	var said []string
	for _, seg := range segments { // those of one haplotype first
		apply(t, r, seg)
		calls := evaluate(t, r)
		w.see(calls)
		for _, c := range calls {
			if c.GetPos() == 1001 && c.GetStatus() != streampb.CallStatus_RETRACTED {
				said = append(said, fmt.Sprint(c.GetGenotype(), c.GetStatus(), c.GetReason()))
			}
		}
	}
	w.see(finalize(t, r))
	if !strings.HasPrefix(said[0], "[1 1]PROVISIONAL") && !strings.HasPrefix(said[0], "[1 1] PROVISIONAL") {
		t.Errorf("first: %s", said[0])
	}
	if !slices.ContainsFunc(said, func(s string) bool {
		return strings.HasPrefix(s, "[0 1]") && strings.Contains(s, "PROVISIONAL") && strings.HasSuffix(s, "genotype was 1/1")
	}) {
		t.Errorf("said %q", said)
	}
}
