package variant

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

// Reads that show neither the reference nor the allele are a doubt in a diploid sample,
// unless the genotype has another allele that they may show.
func TestNeitherIsADoubt(t *testing.T) {
	others := []*streampb.OtherAllele{{Pos: 50, Ref: "A", Alt: "T"}}
	for _, tc := range []struct {
		name             string
		ploidy           Ploidy
		depth, fwd, back uint32
		others           []*streampb.OtherAllele
		want             bool
	}{
		{"none", Diploid, 40, 0, 0, nil, true},
		{"one in eight", Diploid, 40, 2, 3, nil, true},
		{"more", Diploid, 40, 3, 3, nil, false},
		{"more, on one strand", Diploid, 40, 6, 0, nil, false},
		{"another allele of the genotype", Diploid, 40, 10, 10, others, true},
		{"haploid", Haploid, 40, 6, 6, nil, true},
		{"mixture", Mixture, 40, 6, 6, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			contig := &genome.Contig{Name: "c", Seq: []byte(strings.Repeat("ACGT", 100))}
			r, err := NewRegion(contig, 0, Config{Ploidy: tc.ploidy, Network: &DoseNetwork{}})
			if err != nil {
				t.Fatal(err)
			}
			c := &streampb.Call{
				Pos: 50, Ref: "A", Alt: "C", Qual: 40, GenotypeQuality: 30, Depth: tc.depth,
				RefForward: 5, RefReverse: 5, AltForward: 5, AltReverse: 5,
				OtherForward: tc.fwd, OtherReverse: tc.back, Others: tc.others,
			}
			if got := r.beyondDoubt(c); got != tc.want {
				t.Errorf("beyond doubt: %t, want %t", got, tc.want)
			}
		})
	}
}

// evaluated says what follows from evaluations of the first tile of a region, one after the other.
func evaluated(t *testing.T, cfg Config, evaluations ...[]*streampb.Call) (said [][]string) {
	t.Helper()
	contig := &genome.Contig{Name: "c", Seq: []byte(strings.Repeat("ACGT", 100))}
	cfg.Network = &DoseNetwork{}
	r, err := NewRegion(contig, 0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, calls := range evaluations {
		var own []string
		for _, c := range r.live(0, calls) {
			own = append(own, strings.TrimSpace(fmt.Sprintf("%s %d %s>%s %s", c.GetStatus(), c.GetPos(), c.GetRef(), c.GetAlt(), c.GetReason())))
		}
		said = append(said, own)
	}
	return said
}

// found is a heterozygous call that many reads show.
func found(pos int64, ref, alt string, depth uint32, qual float64) *streampb.Call {
	n := depth / 4
	return &streampb.Call{
		Pos: pos, Ref: ref, Alt: alt, Qual: qual, GenotypeQuality: uint32(qual), Genotype: []uint32{0, 1}, Depth: depth,
		RefForward: n, RefReverse: n, AltForward: n, AltReverse: n,
	}
}

// An allele is replaced by what is shown in its place alone. By something that is too doubtful to be
// shown a STABLE one isn't taken back at once.
func TestReplacedByWhatIsShown(t *testing.T) {
	snp := func(depth uint32) []*streampb.Call { return []*streampb.Call{found(50, "C", "A", depth, 40)} }
	event := func(qual float64) []*streampb.Call { return []*streampb.Call{found(49, "ACG", "TAT", 36, qual)} }
	for _, tt := range []struct {
		name string
		qual float64
		want [][]string
	}{
		{"shown", 40, [][]string{{"RETRACTED 50 C>A replaced by 49 ACG>TAT", "PROVISIONAL 49 ACG>TAT"}, nil}},
		{"not shown", 20, [][]string{nil, {"RETRACTED 50 C>A reads no longer support it"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := evaluated(t, Config{Ploidy: Diploid}, snp(16), snp(32), event(tt.qual), event(tt.qual))
			want := append([][]string{{"PROVISIONAL 50 C>A"}, {"STABLE 50 C>A"}}, tt.want...)
			if !reflect.DeepEqual(said, want) {
				t.Errorf("said %q, want %q", said, want)
			}
		})
	}
}

// Calls that would be one event on one haplotype are not STABLE beside each other.
func TestCallsThatTouchAreNotStable(t *testing.T) {
	others := []*streampb.OtherAllele{{Pos: 51, Ref: "G", Alt: "C"}}
	for _, tt := range []struct {
		name   string
		at     int64
		others []*streampb.OtherAllele
		cfg    Config
		want   bool
	}{
		{"side by side", 51, nil, Config{}, false},
		{"one base between", 52, nil, Config{}, false},
		{"two bases between", 53, nil, Config{}, true},
		{"before", 48, nil, Config{}, false},
		{"farther is still an event", 53, nil, Config{MNPDistance: 3}, false},
		{"each change is an allele of its own", 51, nil, Config{MNPDistance: -1}, true},
		{"on the other haplotype", 51, others, Config{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Ploidy = Diploid
			both := func(depth uint32) []*streampb.Call {
				c := found(50, "C", "A", depth, 40)
				c.Others = tt.others
				return []*streampb.Call{c, found(tt.at, string("ACGT"[(tt.at-1)%4]), "N", depth, 40)}
			}
			said := evaluated(t, tt.cfg, both(16), both(31), both(61))
			stable := slices.Contains(slices.Concat(said...), "STABLE 50 C>A")
			if stable != tt.want {
				t.Errorf("said %q; STABLE: %t, want %t", said, stable, tt.want)
			}
		})
	}
}

// An event of a diploid sample that few of the reads show is not shown while more are coming.
func TestEventsAreBorneOut(t *testing.T) {
	others := []*streampb.OtherAllele{{Pos: 50, Ref: "C", Alt: "T"}}
	for _, tt := range []struct {
		name            string
		ploidy          Ploidy
		ref, alt        string
		genotype        []uint32
		refs, alts, rem uint32 // of 20 reads
		others          []*streampb.OtherAllele
		want            bool
	}{
		{"half of the reads", Diploid, "C", "TTAT", []uint32{1, 1}, 0, 10, 0, nil, true},
		{"fewer", Diploid, "C", "TTAT", []uint32{1, 1}, 0, 9, 0, nil, false},
		{"the reference isn't of the genotype", Diploid, "C", "TTAT", []uint32{1, 1}, 9, 9, 0, nil, false},
		{"one copy", Diploid, "CG", "TA", []uint32{0, 1}, 5, 5, 0, nil, true},
		{"one copy, most show neither", Diploid, "CG", "TA", []uint32{0, 1}, 2, 3, 15, nil, false},
		{"the other allele", Diploid, "CG", "TA", []uint32{1, 2}, 0, 4, 6, others, true},
		{"the other allele alone", Diploid, "CG", "TA", []uint32{1, 2}, 0, 1, 19, others, false},
		{"a substitution", Diploid, "C", "T", []uint32{1, 1}, 0, 3, 0, nil, true},
		{"a deletion", Diploid, "CGT", "C", []uint32{0, 1}, 1, 3, 0, nil, true},
		{"haploid", Haploid, "CG", "TA", []uint32{1}, 0, 3, 0, nil, true},
		{"mixture", Mixture, "CG", "TA", []uint32{0, 1}, 0, 3, 0, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := found(50, tt.ref, tt.alt, 20, 40)
			c.Genotype, c.Others = tt.genotype, tt.others
			c.RefForward, c.RefReverse, c.AltForward, c.AltReverse = tt.refs, 0, tt.alts, 0
			c.OtherForward, c.OtherReverse = tt.rem, 0
			said := evaluated(t, Config{Ploidy: tt.ploidy}, []*streampb.Call{c})
			if got := len(said[0]) == 1; got != tt.want {
				t.Errorf("said %q; shown: %t, want %t", said, got, tt.want)
			}
		})
	}
}
