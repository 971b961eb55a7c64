package variant_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// spelledBy reports whether calls, each put on the haplotypes that its genotype allows, spell two
// haplotypes of a part of a reference.
func spelledBy(ref []byte, lo, hi int, calls []*streampb.Call, first, second string) bool {
	if len(calls) > 10 {
		return false
	}
	for sides := range 1 << len(calls) {
		var on [2][]*streampb.Call
		overlap := false
		for i, c := range calls {
			for side := range on {
				if !homozygous(c) && sides>>i&1 != side {
					continue
				}
				if n := len(on[side]); n > 0 {
					last := on[side][n-1]
					overlap = overlap || replaces(last)[1] > replaces(c)[0]
				}
				on[side] = append(on[side], c)
			}
		}
		if !overlap && trimmed(ref, lo, hi, on[0]) == first && trimmed(ref, lo, hi, on[1]) == second {
			return true
		}
	}
	return false
}

// trimmed is a part of a reference with the changes of calls, less the base that an insertion or a
// deletion is spelled with.
func trimmed(ref []byte, lo, hi int, calls []*streampb.Call) string {
	var out []byte
	at := lo
	for _, c := range calls {
		r := replaces(c)
		out = append(append(out, ref[at:r[0]]...), c.GetAlt()[r[0]-int(c.GetPos())+1:]...)
		at = r[1]
	}
	return string(append(out, ref[at:hi]...))
}

// replaces are the bases of the reference that a call replaces, without padding.
func replaces(c *streampb.Call) [2]int {
	from, to := int(c.GetPos())-1, int(c.GetPos())-1+len(c.GetRef())
	if len(c.GetRef()) != len(c.GetAlt()) && c.GetRef()[0] == c.GetAlt()[0] {
		from++
	}
	return [2]int{from, to}
}

func homozygous(c *streampb.Call) bool {
	g := c.GetGenotype()
	return len(g) == 2 && g[0] == 1 && g[1] == 1
}

// drawn is a random event of a kind that replaces bases from a position on.
func drawn(rnd *rand.Rand, ref []byte, kind string, pos int) edit {
	switch kind {
	case "SNP":
		return edit{pos, 1, string(other(ref[pos]))}
	case "MNP":
		n := 2 + rnd.IntN(4)
		return touching(rnd, ref, pos, n, n)
	case "insertion":
		e := edit{pos: pos}
		for range 1 + rnd.IntN(8) {
			e.seq += string("ACGT"[rnd.IntN(4)])
		}
		return e
	case "deletion":
		return edit{pos: pos, del: 1 + rnd.IntN(8)}
	}
	n, by := 1+rnd.IntN(10), 1+rnd.IntN(10)
	if n == by {
		by++
	}
	return touching(rnd, ref, pos, n, by)
}

// Two events over the same bases, one on each haplotype of a diploid sample, are called as the
// haplotypes that the reads have, at 30x, whatever the events are.
func TestOverlappingEventsOfTwoHaplotypes(t *testing.T) {
	network := shippedNetwork(t)
	for i, tt := range []struct{ first, second string }{
		{"MNP", "SNP"}, {"MNP", "MNP"}, {"MNP", "insertion"}, {"MNP", "deletion"}, {"MNP", "delins"},
		{"delins", "SNP"}, {"delins", "insertion"}, {"delins", "deletion"}, {"delins", "delins"},
	} {
		t.Run(tt.first+" and "+tt.second, func(t *testing.T) {
			a := newSample(t, uint64(300+i), 13_000)
			ref := a.contig.Seq
			b := &sample{rnd: rand.New(rand.NewPCG(uint64(i), 9)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
			for pos := 2500; pos < 10_500; pos += 200 {
				x := drawn(a.rnd, ref, tt.first, pos)
				y := drawn(a.rnd, ref, tt.second, pos+a.rnd.IntN(x.del))
				if a.rnd.IntN(2) == 0 {
					x, y = y, x
				}
				a.edits, b.edits = append(a.edits, x), append(b.edits, y)
			}
			r := region(t, a.contig, 0, variant.Config{Ploidy: variant.Diploid, Network: network})
			apply(t, r, a.segments(t, 65, 3000, 0, 13_000)...)
			for i, s := range b.segments(t, 65, 3000, 0, 13_000) {
				s.ReadId = fmt.Sprintf("second-%d", i)
				apply(t, r, s)
			}
			calls := passed(finalize(t, r))
			whole := 0
			for n, x := range a.edits {
				y := b.edits[n]
				lo, hi := min(x.pos, y.pos)-60, max(x.pos+x.del, y.pos+y.del)+60
				with := func(e edit) string { return string(ref[lo:e.pos]) + e.seq + string(ref[e.pos+e.del:hi]) }
				var near []*streampb.Call
				for _, c := range calls {
					if int(c.GetPos()) > lo && int(c.GetPos())+len(c.GetRef()) < hi {
						near = append(near, c)
					}
				}
				if spelledBy(ref, lo, hi, near, with(x), with(y)) {
					whole++
					continue
				}
				say := func(e edit) string { return fmt.Sprintf("%d %s>%s", e.pos+1, ref[e.pos:e.pos+e.del], e.seq) }
				t.Logf("%s and %s in %s: called %v", say(x), say(y), ref[lo+40:hi-40], positions(near))
			}
			assert.GreaterOrEqual(t, whole, len(a.edits)-1, "of %d", len(a.edits))
		})
	}
}

// overlappingEvents are reads, in a random order, of a diploid sample whose haplotypes have different events over the same bases.
func overlappingEvents(t *testing.T) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	a := newSample(t, 500, 3000)
	b := &sample{rnd: rand.New(rand.NewPCG(500, 9)), contig: a.contig, mismatch: a.mismatch, gap: a.gap}
	for n, kinds := range [][2]string{{"MNP", "SNP"}, {"MNP", "MNP"}, {"MNP", "deletion"}, {"delins", "MNP"}, {"delins", "insertion"}, {"delins", "delins"}} {
		x := drawn(a.rnd, a.contig.Seq, kinds[0], 900+200*n)
		a.edits = append(a.edits, x)
		b.edits = append(b.edits, drawn(a.rnd, a.contig.Seq, kinds[1], x.pos+a.rnd.IntN(x.del)))
	}
	out := a.segments(t, 15, 2800, 0, 3000)
	for i, s := range b.segments(t, 15, 2800, 0, 3000) {
		s.ReadId = fmt.Sprintf("second-%d", i)
		out = append(out, s)
	}
	a.rnd.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return a.contig, out
}

// TestEventsAcrossAChangeOfPloidy: a stretch with another ploidy may begin within an event, whichever of its changes
// reads show best.
func TestEventsAcrossAChangeOfPloidy(t *testing.T) {
	for _, tt := range []struct{ outside, inside variant.Ploidy }{
		{variant.Diploid, variant.Mixture}, {variant.Mixture, variant.Diploid}, {variant.Haploid, variant.Diploid}, {variant.Diploid, variant.Haploid},
	} {
		t.Run(fmt.Sprintf("%s, then %s", tt.outside, tt.inside), func(t *testing.T) {
			s := newSample(t, 400, 8000)
			var stretches []variant.PloidySpan
			for pos := 2500; pos < 5500; pos += 200 {
				s.edits = append(s.edits, touching(s.rnd, s.contig.Seq, pos, 4, 4))
				stretches = append(stretches, variant.PloidySpan{Span: variant.Span{Start: pos + 2, End: pos + 100}, Ploidy: tt.inside})
			}
			r := region(t, s.contig, 0, variant.Config{
				Ploidy: tt.outside, Ploidies: variant.Ploidies{s.contig.Name: stretches}, Network: &variant.DoseNetwork{},
			})
			apply(t, r, s.segments(t, 80, 3000, 0, 8000)...)
			calls := passed(finalize(t, r))
			whole := 0
			for _, e := range s.edits {
				for _, c := range calls {
					if int(c.GetPos()) == e.pos+1 && c.GetAlt() == e.seq {
						whole++
					}
				}
			}
			assert.GreaterOrEqual(t, whole, len(s.edits)-2, "of %d: %v", len(s.edits), positions(calls))
		})
	}
}
