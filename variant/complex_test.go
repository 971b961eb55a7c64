package variant_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vrs"
)

// touching is a random change of a reference at a position, of bases that touch: seq takes the
// place of bases without a base in common at either end.
func touching(rnd *rand.Rand, ref []byte, pos, bases, by int) edit {
	for {
		seq := make([]byte, by)
		for i := range seq {
			seq[i] = "ACGT"[rnd.IntN(4)]
		}
		apart := bases != by
		for i := range seq {
			apart = apart || seq[i] == ref[pos+i]
		}
		if seq[0] != ref[pos] && seq[by-1] != ref[pos+bases-1] && (bases != by || !apart) {
			return edit{pos, bases, string(seq)}
		}
	}
}

// haplotype is a part of a reference with the changes of calls, which don't overlap.
func haplotype(ref []byte, lo, hi int, calls []*streampb.Call) string {
	var out []byte
	at := lo
	for _, c := range calls {
		pos := int(c.GetPos()) - 1
		if pos < at || pos+len(c.GetRef()) > hi {
			continue
		}
		out = append(append(out, ref[at:pos]...), c.GetAlt()...)
		at = pos + len(c.GetRef())
	}
	return string(append(out, ref[at:hi]...))
}

// positions are those of calls, with their alleles.
func positions(calls []*streampb.Call) (out []string) {
	for _, c := range calls {
		out = append(out, fmt.Sprintf("%d %s>%s", c.GetPos(), c.GetRef(), c.GetAlt()))
	}
	return out
}

// passed are the final calls without filters.
func passed(calls []*streampb.Call) []*streampb.Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c *streampb.Call) bool {
		return c.GetStatus() != streampb.CallStatus_FINAL || len(c.GetFilters()) > 0
	})
}

// Changes that touch are called as the haplotype that the reads have: MNPs as one call, with the
// shipped network and without one.
func TestTouchingChangesAreCalledWhole(t *testing.T) {
	network := shippedNetwork(t)
	for _, tt := range []struct {
		name    string
		network variant.Network
		least   int // of 40 that are whole
	}{{"network", network, 40}, {"analytic", nil, 38}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSample(t, 11, 12_000)
			lengths := [][2]int{{2, 2}, {3, 3}, {4, 4}, {5, 5}, {1, 3}, {3, 1}, {2, 7}, {8, 3}, {4, 12}, {14, 5}}
			for i := range 40 {
				l := lengths[i%len(lengths)]
				s.edits = append(s.edits, touching(s.rnd, s.contig.Seq, 500+280*i, l[0], l[1]))
			}
			r := region(t, s.contig, 0, variant.Config{Sample: "s", Network: tt.network, MaxIndelNoise: 1})
			apply(t, r, s.segments(t, 120, 3000, 0, 12_000)...)
			calls := passed(finalize(t, r))
			whole := 0
			for _, e := range s.edits {
				lo, hi := e.pos-60, e.pos+e.del+60
				want := string(s.contig.Seq[lo:e.pos]) + e.seq + string(s.contig.Seq[e.pos+e.del:hi])
				got := haplotype(s.contig.Seq, lo, hi, calls)
				if got != want {
					t.Logf("%d %s>%s: got %s, want %s", e.pos+1, s.contig.Seq[e.pos:e.pos+e.del], e.seq, got, want)
					continue
				}
				whole++
				if e.del == len(e.seq) {
					one := slices.ContainsFunc(calls, func(c *streampb.Call) bool { return int(c.GetPos()) == e.pos+1 && c.GetAlt() == e.seq })
					assert.True(t, one, "%d %s is not one call", e.pos+1, e.seq)
				}
			}
			assert.GreaterOrEqual(t, whole, tt.least)
		})
	}
}

// How far changes may be apart to be one call is a setting; what they spell together is not.
func TestMNPDistance(t *testing.T) {
	s := newSample(t, 5, 6000)
	ref := s.contig.Seq
	change := func(pos int) edit { return edit{pos, 1, string(other(ref[pos]))} }
	s.edits = []edit{change(2000), change(2001), change(2003), change(4000), change(4008)}
	segments := s.segments(t, 80, 3000, 0, 6000)
	for _, tt := range []struct {
		distance int
		want     []int // positions of calls, 1-based
	}{
		{0, []int{2001, 4001, 4009}},
		{1, []int{2001, 2004, 4001, 4009}},
		{8, []int{2001, 4001}},
		{-1, []int{2001, 2002, 2004, 4001, 4009}},
	} {
		r := region(t, s.contig, 0, variant.Config{Network: shippedNetwork(t), MNPDistance: tt.distance})
		apply(t, r, segments...)
		calls := passed(finalize(t, r))
		var got []int
		for _, c := range calls {
			got = append(got, int(c.GetPos()))
		}
		assert.Equal(t, tt.want, got, "distance %d", tt.distance)
		spelled := string(ref[1990:2000]) + s.edits[0].seq + s.edits[1].seq + string(ref[2002]) + s.edits[2].seq + string(ref[2004:2010])
		assert.Equal(t, spelled, haplotype(ref, 1990, 2010, calls), "distance %d", tt.distance)
		if tt.distance == -1 {
			for _, c := range calls {
				assert.Len(t, (vrs.Edit{Ref: c.GetRef(), Alt: c.GetAlt()}).Atoms(), 1)
			}
		}
	}
}

// Whatever the order in which twelve reads come, what a consumer holds of two bases that changed
// together is one event in the end, with the same bytes, and no half of it is left behind.
func TestAnEventOfTwelveReadsInAnyOrder(t *testing.T) {
	s := newSample(t, 8, 4000)
	s.edits = []edit{touching(s.rnd, s.contig.Seq, 2000, 2, 2)}
	s.gap = 0.002
	segments := s.segments(t, 12, 3000, 300, 3700)
	network := shippedNetwork(t)
	var want string
	for seed := range uint64(60) {
		r := region(t, s.contig, 0, variant.Config{Sample: "s", Network: network})
		held := make(map[string]*streampb.Call)
		take := func(calls []*streampb.Call) {
			for _, c := range calls {
				held[name(c)] = c
				if c.GetStatus() == streampb.CallStatus_RETRACTED {
					delete(held, name(c))
				}
			}
		}
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(segments)) {
			apply(t, r, segments[i])
			take(evaluate(t, r))
		}
		final := finalize(t, r)
		take(final)
		got := ""
		for _, c := range passed(final) {
			got += fmt.Sprintln(name(c), c.GetQual(), c.GetDepth(), c.GetAltForward(), c.GetAltReverse(), c.GetVrsId())
		}
		if want == "" {
			want = got
			require.Contains(t, got, fmt.Sprintf("2001 %s>%s", s.contig.Seq[2000:2002], s.edits[0].seq))
		}
		require.Equal(t, want, got, "order %d", seed)
		for n := range held {
			require.Contains(t, want, n, "order %d leaves %s behind", seed, n)
		}
	}
}

// doubter is a network that holds no allele likely, with a QUAL of 2 whatever reads show.
type doubter struct{}

func (doubter) Fingerprint() string { return "doubter" }

func (doubter) Score(dst, examples []float32) ([]float32, error) {
	absent, present := float32(math.Log(0.63)), float32(math.Log(0.185))
	for range len(examples) / variant.ExampleSize {
		scores := [variant.Scores]float32{absent, present, present, absent, present, present}
		for i := variant.ScoreLength; i < len(scores); i++ {
			scores[i] = -float32(math.Log(float64(variant.Scores - variant.ScoreLength)))
		}
		dst = append(dst, scores[:]...)
	}
	return dst, nil
}

// An allele that nine tenths of fifteen reads and more carry, of both strands, is not filtered,
// whatever a network holds of it, but for what the header names: lengths of homopolymers, and
// with reads that often have gaps, single bases more or fewer.
func TestWhatNearlyAllReadsCarryPasses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		network variant.Network
		ploidy  variant.Ploidy
		gap     float64
		named   []string
	}{
		{"shipped network", shippedNetwork(t), variant.Haploid, 0.02, []string{"Homopolymer"}},
		{"a network that doubts all", doubter{}, variant.Haploid, 0.01, []string{"Homopolymer"}},
		{"the same, reads with gaps", doubter{}, variant.Haploid, 0.06, []string{"Homopolymer", "NoisyIndel"}},
		{"a network that doubts all, two copies", doubter{}, variant.Diploid, 0.01, []string{"Homopolymer"}},
		{"a network that doubts all, a mixture", doubter{}, variant.Mixture, 0.01, []string{"Homopolymer"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(4) {
				s := newSample(t, 100+seed, 20_000)
				s.mismatch, s.gap = 0.03, tt.gap
				for i := range 90 {
					pos := 400 + 210*i
					bases, by := 1+s.rnd.IntN(4), 1+s.rnd.IntN(4)
					switch i % 3 {
					case 0:
						s.edits = append(s.edits, touching(s.rnd, s.contig.Seq, pos, bases, by))
					case 1:
						s.edits = append(s.edits, edit{pos, 1, string(other(s.contig.Seq[pos]))}, edit{pos + 2 + s.rnd.IntN(9), 1, ""})
					default:
						s.edits = append(s.edits, edit{pos, 0, string(other(s.contig.Seq[pos])) + "ACGT"[:by]})
					}
				}
				r := region(t, s.contig, 0, variant.Config{Ploidy: tt.ploidy, Network: tt.network})
				apply(t, r, s.segments(t, 200, 3000, 0, 20_000)...)
				carried := 0
				for _, c := range finalize(t, r) {
					forward, reverse := c.GetAltForward(), c.GetAltReverse()
					if c.GetDepth() < 15 || float64(forward+reverse) < 0.9*float64(c.GetDepth()) || min(forward, reverse) == 0 {
						continue
					}
					carried++
					for _, f := range c.GetFilters() {
						assert.Contains(t, tt.named, f, "seed %d: %s, %d and %d of %d reads", seed, name(c), forward, reverse, c.GetDepth())
					}
				}
				require.Greater(t, carried, 50, "seed %d", seed)
			}
		})
	}
}

// Of a diploid sample changes beside each other are one event where a haplotype has both, and
// apart where each haplotype has one or one is on both.
func TestTouchingChangesOfTwoHaplotypes(t *testing.T) {
	network := shippedNetwork(t)
	for _, tt := range []struct {
		name string
		// Changes of the first and of the second haplotype, from position 3000 on: bases that
		// are other ones.
		first, second []int
		want          []string // genotypes of calls by position
	}{
		{"both on one", []int{0, 1}, nil, []string{"3001+2 0/1"}},
		{"both on both", []int{0, 1}, []int{0, 1}, []string{"3001+2 1/1"}},
		{"one on each", []int{0}, []int{1}, []string{"3001+1 0/1", "3002+1 0/1"}},
		{"one on both", []int{0, 1}, []int{1}, []string{"3001+1 0/1", "3002+1 1/1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newSample(t, 21, 6000)
			b := &sample{rnd: rand.New(rand.NewPCG(22, 0)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
			for _, i := range tt.first {
				a.edits = append(a.edits, edit{3000 + i, 1, string(other(a.contig.Seq[3000+i]))})
			}
			for _, i := range tt.second {
				b.edits = append(b.edits, edit{3000 + i, 1, string(other(a.contig.Seq[3000+i]))})
			}
			r := region(t, a.contig, 0, variant.Config{Ploidy: variant.Diploid, Network: network})
			apply(t, r, a.segments(t, 40, 2500, 600, 5400)...)
			for i, s := range b.segments(t, 40, 2500, 600, 5400) {
				s.ReadId = fmt.Sprintf("second-%d", i)
				apply(t, r, s)
			}
			var got []string
			for _, c := range passed(finalize(t, r)) {
				g := slices.Sorted(slices.Values(c.GetGenotype()))
				got = append(got, fmt.Sprintf("%d+%d %d/%d", c.GetPos(), len(c.GetRef()), g[0], g[1]))
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// An event of a haplotype that has another change a few bases away is called once, wherever the
// one cluster of alleles ends and the next begins, before it or behind it.
func TestEachChangeIsCalledOnce(t *testing.T) {
	network := shippedNetwork(t)
	for distance := 8; distance <= 15; distance++ {
		a := newSample(t, uint64(distance), 12_000)
		b := &sample{rnd: rand.New(rand.NewPCG(22, 0)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
		ref := a.contig.Seq
		two := func(pos int) edit { return edit{pos, 2, string(other(ref[pos])) + string(other(ref[pos+1]))} }
		for i := range 16 {
			pos, own := 1500+560*i, a
			if i%2 == 1 {
				own = b
			}
			indel := edit{pos + distance, 0, string(other(ref[pos+distance])) + string(other(ref[pos+distance-1]))}
			if i%4 > 1 {
				indel = edit{pos + distance, 2, ""}
			}
			if i%8 < 4 {
				own.edits = append(own.edits, two(pos), indel)
			} else { // the indel first
				indel.pos = pos
				own.edits = append(own.edits, indel, two(pos+indel.del+distance))
			}
		}
		r := region(t, a.contig, 0, variant.Config{Ploidy: variant.Diploid, Network: network})
		apply(t, r, a.segments(t, 80, 4000, 0, 12_000)...)
		for i, s := range b.segments(t, 80, 4000, 0, 12_000) {
			s.ReadId = fmt.Sprintf("second-%d", i)
			apply(t, r, s)
		}
		calls := passed(finalize(t, r))
		for i, c := range calls {
			g := slices.Sorted(slices.Values(c.GetGenotype()))
			assert.Equal(t, []uint32{0, 1}, g, "distance %d: %d %s>%s", distance, c.GetPos(), c.GetRef(), c.GetAlt())
			if i > 0 {
				assert.NotEqual(t, calls[i-1].GetVrsId(), c.GetVrsId(), "distance %d: %d %s>%s is called twice", distance, c.GetPos(), c.GetRef(), c.GetAlt())
			}
		}
		if len(calls) != 32 {
			t.Errorf("distance %d: %d calls, not 32: %v", distance, len(calls), positions(calls))
		}
	}
}

// What the bounds of a cluster leave out is counted, by the bound, and counted once.
func TestWhatBoundsLeaveOutIsCounted(t *testing.T) {
	a := newSample(t, 31, 6000)
	ref := a.contig.Seq
	segments := func(changes, apart int) []*streampb.Segment {
		var out []*streampb.Segment
		for i := range changes { // a haplotype for each change, of a mixture
			own := &sample{rnd: rand.New(rand.NewPCG(uint64(i), 32)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
			own.edits = []edit{{3000 + apart*i, 1, string(other(ref[3000+apart*i]))}}
			for _, s := range own.segments(t, 10, 4000, 500, 5500) {
				s.ReadId = fmt.Sprintf("%d-%s", i, s.ReadId)
				out = append(out, s)
			}
		}
		return out
	}
	for _, tt := range []struct {
		changes int
		counted func(variant.LeftOut) bool
	}{
		{2, func(n variant.LeftOut) bool { return n == variant.LeftOut{} }},
		{8, func(n variant.LeftOut) bool { return n.Combinations > 0 && n.Alleles == 0 }},
		{16, func(n variant.LeftOut) bool { return n.Combinations > 0 && n.Alleles > 0 }},
	} {
		r := region(t, a.contig, 0, variant.Config{Ploidy: variant.Mixture, MinAlleleFraction: 0.03, Network: &variant.DoseNetwork{}})
		apply(t, r, segments(tt.changes, 5)...)
		finalize(t, r)
		n := r.TakeLeftOut()
		assert.True(t, tt.counted(n), "%d changes: %+v", tt.changes, n)
		assert.Zero(t, r.TakeLeftOut(), "%d changes", tt.changes)
	}
}
