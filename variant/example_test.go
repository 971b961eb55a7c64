package variant_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// example is a candidate with what a network is given about it.
type example struct {
	variant.Candidate
	values []float32
}

func (x *example) plane(p int) []float32 {
	return x.values[p*variant.ExampleColumns:][:variant.ExampleColumns]
}

func examples(t testing.TB, r *variant.Region) []example {
	t.Helper()
	var out []example
	err := r.Examples(func(c variant.Candidate, values []float32) error {
		if len(values) != variant.ExampleSize {
			t.Fatalf("%d values", len(values))
		}
		for i, v := range values {
			if !(v >= -8 && v <= 8) {
				t.Errorf("%d %s>%s: value %d is %g", c.Pos, c.Ref, c.Alt, i, v)
			}
		}
		out = append(out, example{c, slices.Clone(values)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What reads show around planted variants is in their examples' planes.
func TestExamplesShowTheReads(t *testing.T) {
	s, want := planted(t, 5)
	r := region(t, s.contig, 0, variant.Config{})
	apply(t, r, s.segments(t, 60, 2500, 0, 6000)...)
	seq := s.contig.Seq
	found := 0
	for _, x := range examples(t, r) {
		if !slices.Contains(want, fmt.Sprintf("%d %s>%s", x.Pos, x.Ref, x.Alt)) {
			continue
		}
		found++
		for col := range variant.ExampleColumns {
			base := strings.IndexByte("ACGT", seq[x.Pos-1-16+col])
			for b := range 4 {
				if got := x.plane(35 + b)[col]; got != map[bool]float32{true: 1}[b == base] {
					t.Errorf("%d: reference plane %d, column %d: %g", x.Pos, b, col, got)
				}
			}
		}
		alt := float32(x.AltReads[0]+x.AltReads[1]) / float32(x.Depth)
		// The share of reads that show, where it was planted, what was planted.
		share := func(p, col int) float32 { return x.plane(p)[col] + x.plane(p + 7)[col] }
		var got float32
		switch {
		case len(x.Ref) == len(x.Alt):
			got = share(strings.Index("ACGT", x.Alt), 16)
			if x.plane(39 + strings.Index("ACGT", x.Alt))[16] != 1 {
				t.Errorf("%d: the allele's base is missing", x.Pos)
			}
		case len(x.Alt) > len(x.Ref):
			got = (share(5, 15) + share(5, 16) + share(5, 17) + share(5, 18) + share(5, 19)) / 3
			if x.plane(39)[17] != 1 || x.plane(41)[18] != 1 || x.plane(41)[19] != 1 {
				t.Errorf("%d: the inserted AGG is missing", x.Pos)
			}
			if x.Run != 1 {
				t.Errorf("%d: in a homopolymer of %d", x.Pos, x.Run)
			}
		default:
			got = share(4, 17) + share(4, 18) + share(4, 19) + share(4, 20)
			if x.plane(43)[17] != 1 || x.plane(43)[18] != 0 {
				t.Errorf("%d: the deleted base is missing", x.Pos)
			}
			if x.Run != 4 || x.Unit != 1 || x.Copies != 4 || x.Start != 3001 || x.End != 3005 {
				t.Errorf("%d: in a homopolymer of %d, %d times %d bases, %d-%d", x.Pos, x.Run, x.Copies, x.Unit, x.Start, x.End)
			}
		}
		if alt < 0.9 || got < 0.85 || got > 1.3 {
			t.Errorf("%d %s>%s: %.2f of the reads support it, %.2f show it in the planes", x.Pos, x.Ref, x.Alt, alt, got)
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d variants are candidates", found, len(want))
	}
}

// Examples depend on the set of segments only.
func TestExamplesAreAFunctionOfTheSet(t *testing.T) {
	s, _ := planted(t, 8)
	s.mismatch, s.gap = 0.06, 0.05
	segments := s.segments(t, 40, 2000, 0, 6000)
	for _, cfg := range []variant.Config{{}, {Ploidy: variant.Diploid, MaxDepth: 10, MinDepth: 4}, {Ploidy: variant.Mixture}} {
		build := func(segments []*streampb.Segment) []example {
			r := region(t, s.contig, 0, cfg)
			apply(t, r, segments...)
			return examples(t, r)
		}
		want := build(segments)
		rnd := rand.New(rand.NewPCG(1, 1))
		order := slices.Concat(segments, segments[:20])
		rnd.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		same := slices.EqualFunc(build(order), want, func(a, b example) bool {
			return a.Candidate == b.Candidate && slices.Equal(a.values, b.values)
		})
		if len(want) < 10 || !same {
			t.Errorf("ploidy %s: of %d examples, shuffled segments make others", cfg.Ploidy, len(want))
		}
	}
}

func TestExamplesPassErrorsOn(t *testing.T) {
	s, _ := planted(t, 5)
	r := region(t, s.contig, 0, variant.Config{})
	apply(t, r, s.segments(t, 20, 2500, 0, 6000)...)
	full, calls := errors.New("disk full"), 0
	err := r.Examples(func(variant.Candidate, []float32) error {
		calls++
		return full
	})
	if !errors.Is(err, full) || calls != 1 || !strings.Contains(err.Error(), "example of chr:") {
		t.Errorf("after %d calls: %v", calls, err)
	}
}

// A long insertion is a candidate although hardly two of the noisy reads show the
// same bases.
func TestLongInsertionOfNoisyReads(t *testing.T) {
	s := newSample(t, 31, 3000)
	s.mismatch, s.gap = 0.09, 0.09
	seq := s.contig.Seq
	copy(seq[1490:], "GACTGACTTGCAGTCATGCA")
	s.contig = contig(t, string(seq))
	s.edits = []edit{{1500, 0, "CCATAGGCTTCAGATTGGACTA"}}
	r := region(t, s.contig, 0, variant.Config{})
	apply(t, r, s.segments(t, 40, 2900, 0, 3000)...)
	if got := examples(t, r); !slices.ContainsFunc(got, func(x example) bool {
		return x.Pos == 1500 && x.Ref == "G" && x.Alt == "GCCATAGGCTTCAGATTGGACTA" && x.AltReads[0]+x.AltReads[1] > 30
	}) {
		for _, x := range got {
			if x.Pos > 1480 && x.Pos < 1520 {
				t.Log(x.Candidate)
			}
		}
		t.Error("the insertion is no candidate")
	}
}
