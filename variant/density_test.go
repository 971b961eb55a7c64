package variant_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// variedEvery is a sample with a substitution every so many bases from a place on, and its
// reads without errors.
func variedEvery(t *testing.T, length, from, to, every int) (*sample, []*streampb.Segment) {
	t.Helper()
	s := newSample(t, 31, length)
	s.mismatch, s.gap = 0, 0
	for pos := from; pos < to; pos += every {
		s.edits = append(s.edits, edit{pos, 1, string(other(s.contig.Seq[pos]))})
	}
	return s, s.segments(t, 8*length/2000, 2000, 0, length)
}

// What a network holds likely is likelier where there are many variants around, and less so
// where there are few, in haploid places, at the end.
func TestDensity(t *testing.T) {
	const length = 40_960
	for _, tc := range []struct {
		name            string
		from, to, every int
		ploidy          variant.Ploidy
		want            [2]float64 // QUAL of a call in the middle, of which the network says 11
	}{
		// One in 100 bases is ten times what is usual; at the ends of the contig there are fewer tiles to
		// estimate it from.
		{"dense", 50, length - 50, 100, variant.Haploid, [2]float64{19, 21}},
		{"usual", 500, length - 50, 1000, variant.Haploid, [2]float64{10, 11.5}},
		{"rare", length / 2, length/2 + 1, 1000, variant.Haploid, [2]float64{7.5, 7.52}},
		{"in one tile", 20_500, 21_400, 30, variant.Haploid, [2]float64{7.5, 7.52}},
		{"diploid", 50, length - 50, 100, variant.Diploid, [2]float64{11, 11}},
		{"mixture", 50, length - 50, 100, variant.Mixture, [2]float64{11, 11}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, segments := variedEvery(t, length, tc.from, tc.to, tc.every)
			cfg := variant.Config{Ploidy: tc.ploidy, Network: &script{qual: []float64{11}}}
			r := region(t, s.contig, 0, cfg)
			apply(t, r, segments...)
			if live := evaluate(t, r); len(live) != 0 { // 11 is below what is shown
				t.Errorf("shown while reads arrive: %v", live[0])
			}
			calls := finalize(t, r)
			at := slices.IndexFunc(calls, func(c *streampb.Call) bool { return c.GetPos() > length/2 })
			if at < 0 {
				t.Fatalf("%d calls, none in the second half", len(calls))
			}
			if got := calls[at].GetQual(); got < tc.want[0] || got > tc.want[1] {
				t.Errorf("QUAL %g, not within %v", got, tc.want)
			}
		})
	}
}

// What is called in a target doesn't depend on the targets.
func TestDensityOfTargets(t *testing.T) {
	s, segments := variedEvery(t, 81_920, 50, 60_000, 100)
	cfg := variant.Config{Network: &script{qual: []float64{11}}}
	whole := region(t, s.contig, 0, cfg)
	apply(t, whole, segments...)
	all := finalize(t, whole)
	for _, spans := range [][]variant.Span{{{Start: 5000, End: 5100}}, {{Start: 100, End: 200}, {Start: 59_000, End: 70_000}}} {
		t.Run(fmt.Sprint(spans), func(t *testing.T) {
			r := region(t, s.contig, 0, cfg)
			apply(t, r, segments...)
			r.Restrict(spans)
			got := finalize(t, r)
			within := 0
			for _, c := range got {
				if !slices.ContainsFunc(all, func(o *streampb.Call) bool { return proto.Equal(c, o) }) {
					t.Errorf("%v isn't called of the whole region", c)
				}
			}
			for _, c := range all {
				for _, span := range spans {
					if at := int(c.GetPos()) - 1; at >= span.Start && at < span.End {
						within++
						if !slices.ContainsFunc(got, func(o *streampb.Call) bool { return proto.Equal(c, o) }) {
							t.Errorf("%v isn't called", c)
						}
					}
				}
			}
			if within == 0 {
				t.Error("nothing to compare")
			}
		})
	}
}

// What odds follow from which density.
func TestOddsFollowFromDensity(t *testing.T) {
	const tile = 1024
	db := func(odds float64) float64 { return 10 / math.Ln10 * odds }
	for _, tc := range []struct {
		name  string
		tiles []variant.Density
		want  [2]float64 // dB, of SNPs and indels
	}{
		{"nothing around", nil, [2]float64{}},
		{"no variants", slices.Repeat([]variant.Density{{Bases: tile}}, 32), [2]float64{-3.98, -3.98}},
		// (4 * 32 + 4.096) / (36 * 1024) = 3.583e-3 of 1e-3.
		{"four SNPs per tile", slices.Repeat([]variant.Density{{Calls: [2]int{4, 0}, Bases: tile}}, 32), [2]float64{5.553, -3.98}},
		// (2 * 32 + 0.8192) / (36 * 1024) = 1.758e-3 of 2e-4.
		{"two indels per tile", slices.Repeat([]variant.Density{{Calls: [2]int{0, 2}, Bases: tile}}, 32), [2]float64{-3.98, 9.448}},
		{"one tile", []variant.Density{{Calls: [2]int{1, 1}, Bases: tile}}, [2]float64{-0.02, 2.5}},
		{"another sequence", slices.Repeat([]variant.Density{{Calls: [2]int{300, 300}, Bases: tile}}, 32), [2]float64{17.21, 24.2}},
	} {
		got := variant.Dense(tc.tiles)
		for i := range got {
			if math.Abs(db(got[i])-tc.want[i]) > 0.02 {
				t.Errorf("%s: %.3f dB for kind %d, want %g", tc.name, db(got[i]), i, tc.want[i])
			}
		}
	}
}
