package carryover

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
)

// exactTail sums the binomial's terms in numbers of any length.
func exactTail(k, n int, p float64) float64 {
	q := new(big.Float).SetPrec(400).SetFloat64(p)
	r := new(big.Float).SetPrec(400).Sub(big.NewFloat(1), q)
	power := func(x *big.Float, n int) *big.Float {
		y := big.NewFloat(1).SetPrec(400)
		for range n {
			y.Mul(y, x)
		}
		return y
	}
	sum := new(big.Float).SetPrec(400)
	for i := max(0, k); i <= n; i++ {
		term := new(big.Float).SetPrec(400).SetInt(new(big.Int).Binomial(int64(n), int64(i)))
		term.Mul(term, power(q, i)).Mul(term, power(r, n-i))
		sum.Add(sum, term)
	}
	f, _ := sum.Float64()
	return f
}

// TestTailsAreSumsOfExactTerms holds tails to sums of exact terms.
func TestTailsAreSumsOfExactTerms(t *testing.T) {
	for _, n := range []int{1, 2, 7, 40, 300} {
		for _, k := range []int{0, 1, 2, n / 3, n / 2, n - 1, n, n + 1} {
			for _, p := range []float64{0, 1e-6, 0.001, 0.03, 0.4, 0.5, 0.97, 1} {
				require.InDelta(t, exactTail(k, n, p), tail(k, n, p), 1e-11, "%d of %d at %g", k, n, p)
			}
		}
	}
	for _, mean := range []float64{0.1, 1, 5.3, 40, 2000} {
		for _, k := range []int{0, 1, 3, 5, 30, 50, 1900, 2100} {
			// A Poisson number is a binomial one of very many trials.
			require.InDelta(t, tail(k, 1e9, mean/1e9), tailPoisson(k, mean), 1e-6, "%d at %g", k, mean)
		}
	}
}

// TestBoundsAreClopperAndPearsons: at the bound, what was seen or less has the probability that was asked for; where nothing was seen of n, the bound has a
// closed form, and a few are Clopper and Pearson's, by R's binom.test and poisson.test.
func TestBoundsAreClopperAndPearsons(t *testing.T) {
	for _, n := range []int{1, 20, 1000, 1_000_000} {
		require.InEpsilon(t, 1-math.Pow(0.005, 1/float64(n)), upper(0, n, 0.005), 1e-9)
		for _, k := range []int{1, 5, n / 2} {
			if k > 0 && k < n {
				require.InDelta(t, 0.005, 1-tail(k+1, n, upper(k, n, 0.005)), 1e-9, "%d of %d", k, n)
				require.InDelta(t, 0.005, tail(k, n, lower(k, n, 0.005)), 1e-9)
			}
		}
		require.Equal(t, 1.0, upper(n, n, 0.005))
	}
	require.InDelta(t, 0.1128, upper(5, 100, 0.025), 5e-5)
	require.InDelta(t, 0.0164, lower(5, 100, 0.025), 5e-5)
	require.InDelta(t, 11.668, upperPoisson(5, 0.025), 5e-4)
	require.InDelta(t, 3.689, upperPoisson(0, 0.025), 5e-4)
	for _, k := range []int{0, 4, 1000} {
		require.InDelta(t, 0.005, 1-tailPoisson(k+1, upperPoisson(k, 0.005)), 1e-9)
	}
}

// TestReadsLikeCarryOverAreFound: which reads can't be distinguished from carry-over, and by what.
func TestReadsLikeCarryOverAreFound(t *testing.T) {
	water := func(alt, depth int) Control {
		return Control{Name: "water", Kind: NoTemplate, Reads: Reads{Alt: alt, Depth: depth}}
	}
	wild := func(alt, depth int) Control {
		return Control{Name: "wild", Kind: Negative, Reads: Reads{Alt: alt, Depth: depth}}
	}
	silent := Control{Name: "silent", Kind: NoTemplate, Silent: true}
	for _, tt := range []struct {
		name     string
		own      Reads
		others   int
		controls []Control
		want     bool
		basis    Basis
	}{
		{"its own, and nobody else's", Reads{Alt: 30, Depth: 100}, 0, []Control{water(0, 0)}, false, NoSource},
		{"a few reads beside a neighbour full of them, the water empty", Reads{Alt: 3, Depth: 400}, 4000, []Control{water(0, 0)}, true, Hopping},
		{"more than an empty control lets in", Reads{Alt: 40, Depth: 400}, 4000, []Control{water(0, 0)}, false, Hopping},
		{"the same beside a control that is full of it", Reads{Alt: 40, Depth: 400}, 4000, []Control{water(40, 40)}, true, Contamination},
		{"two empty controls bound more narrowly", Reads{Alt: 9, Depth: 400}, 4000, []Control{water(0, 0), water(0, 0)}, false, Hopping},
		{"one doesn't", Reads{Alt: 9, Depth: 400}, 4000, []Control{water(0, 0)}, true, Hopping},
		{"in the water alone", Reads{Alt: 8, Depth: 500}, 0, []Control{water(4, 4)}, true, Contamination},
		{"far more than in the water", Reads{Alt: 400, Depth: 500}, 0, []Control{water(4, 4)}, false, Contamination},
		{"as large a share as in the wild type", Reads{Alt: 20, Depth: 400}, 0, []Control{wild(10, 200)}, true, Contamination},
		{"a larger one", Reads{Alt: 80, Depth: 400}, 0, []Control{wild(10, 200)}, false, Contamination},
		{"no read of the wild type", Reads{Alt: 3, Depth: 400}, 4000, []Control{wild(0, 0)}, false, NotCovered},
		{"the wild type has it", Reads{Alt: 3, Depth: 400}, 4000, []Control{wild(90, 200)}, false, OwnAllele},
		{"no read of the wild type, but there is water", Reads{Alt: 3, Depth: 400}, 4000, []Control{wild(0, 0), water(0, 0)}, true, Hopping},
		{"called, but not by its bases", Reads{Alt: 0, Depth: 400}, 4000, []Control{water(1, 1)}, false, NotCounted},
		{"only the wild type has it, and the water is empty", Reads{Alt: 4, Depth: 400}, 0, []Control{wild(90, 200), water(0, 0)}, true, Hopping},
		{"more than the wild type gives", Reads{Alt: 30, Depth: 400}, 0, []Control{wild(90, 200), water(0, 0)}, false, Hopping},
		{"of the wild type few reads were looked at", Reads{Alt: 20, Depth: 100}, 10000, []Control{{Name: "wild", Kind: Negative, Reads: Reads{Depth: 120, Left: 9880}}}, true, Hopping},
		{"of the wild type all were", Reads{Alt: 20, Depth: 100}, 10000, []Control{{Name: "wild", Kind: Negative, Reads: Reads{Depth: 10000}}}, false, Hopping},
		{"of all few were", Reads{Alt: 20, Depth: 120, Left: 9880}, 10000, []Control{{Name: "wild", Kind: Negative, Reads: Reads{Depth: 120, Left: 9880}}}, false, Hopping},
		{"all have it", Reads{Alt: 100, Depth: 100}, 9400, []Control{water(2, 3)}, false, Contamination},
		{"a few reads in all, all with a neighbour's allele", Reads{Alt: 5, Depth: 5}, 9400, []Control{water(2, 3)}, true, Contamination},
		{"few reads beside an empty control that may not have been sequenced", Reads{Alt: 3, Depth: 400}, 4000, []Control{silent}, true, SilentControl},
		{"many", Reads{Alt: 40, Depth: 400}, 4000, []Control{silent}, false, SilentControl},
		{"nobody else's, beside such a control", Reads{Alt: 30, Depth: 100}, 0, []Control{silent}, false, SilentControl},
		{"another control bounds it, and only that", Reads{Alt: 9, Depth: 400}, 4000, []Control{silent, water(0, 7)}, true, Hopping},
		{"no other control that does is there", Reads{Alt: 3, Depth: 400}, 4000, []Control{silent, wild(0, 0)}, true, SilentControl},
	} {
		j := Assess(tt.own, tt.others, tt.controls)
		require.Equal(t, tt.want, j.Explained, tt.name)
		require.Equal(t, tt.basis, j.Basis, tt.name)
		require.True(t, j.Share >= 0 && j.Share <= 1, tt.name)
	}
}

// TestCarriedOverAllelesAreMarked: of alleles all of whose reads are carried over, at most one in a hundred isn't marked, whatever the
// rate; and an allele with reads of its own beyond them is marked the less the more these are.
func TestCarriedOverAllelesAreMarked(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 8))
	binomial := func(n int, p float64) (k int) {
		for range n {
			if rnd.Float64() < p {
				k++
			}
		}
		return k
	}
	const trials = 4000
	for _, tt := range []struct {
		name   string
		enough int // reads of its own beyond those carried over, that aren't explained
		draw   func() (own Reads, others int, controls []Control)
	}{
		{"hopping at 1 in 1,000", 200, func() (Reads, int, []Control) {
			k, x := binomial(2000, 1e-3), binomial(2000, 1e-3)
			return Reads{Alt: x, Depth: 300}, 2000, []Control{{Name: "c", Kind: NoTemplate, Reads: Reads{Alt: k, Depth: k}}}
		}},
		{"hopping at 2 %", 200, func() (Reads, int, []Control) {
			k, x := binomial(500, 0.02), binomial(500, 0.02)
			return Reads{Alt: x, Depth: 300}, 500, []Control{{Name: "c", Kind: Negative, Reads: Reads{Alt: k, Depth: 200}}}
		}},
		{"a share of 3 % of a negative control", 200, func() (Reads, int, []Control) {
			return Reads{Alt: binomial(400, 0.03), Depth: 400}, 0, []Control{{Name: "c", Kind: Negative, Reads: Reads{Alt: binomial(100, 0.03), Depth: 100}}}
		}},
		{"hopping at 1 in 1,000, of whose reads few are looked at", 2000, func() (Reads, int, []Control) {
			k, x := binomial(20000, 1e-3*0.02), binomial(20000, 1e-3)
			return Reads{Alt: x, Depth: 120}, 20000, []Control{{Name: "c", Kind: Negative, Reads: Reads{Alt: k, Depth: 120, Left: 5880}}}
		}},
		{"ten reads in each well", 200, func() (Reads, int, []Control) {
			k := binomial(1000, 0.01)
			return Reads{Alt: binomial(1000, 0.01), Depth: 500}, 0, []Control{{Name: "c", Kind: NoTemplate, Reads: Reads{Alt: k, Depth: k}}}
		}},
	} {
		escaped, seen := 0, 0
		for range trials {
			own, others, controls := tt.draw()
			if own.Alt == 0 || others == 0 && controls[0].Alt == 0 {
				continue // nothing to mark, or nobody shows where it comes from
			}
			seen++
			if j := Assess(own, others, controls); !j.Explained {
				escaped++
			}
			more := own
			more.Alt, more.Depth = own.Alt+tt.enough, own.Depth+tt.enough
			require.False(t, Assess(more, others, controls).Explained, "%s: %v", tt.name, more)
		}
		require.Greater(t, seen, trials/2, tt.name)
		require.LessOrEqual(t, float64(escaped), Alpha*float64(seen), tt.name)
	}
}

// TestAssessIsMonotone: more reads of others or of a control never make less of carry-over, and more of its own never more.
func TestAssessIsMonotone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		own := Reads{Alt: 1 + rnd.IntN(60), Depth: 100 + rnd.IntN(500)}
		others, k := rnd.IntN(3000), rnd.IntN(20)
		at := func(own Reads, others, k int) Assessment {
			return Assess(own, others, []Control{{Name: "c", Kind: NoTemplate, Reads: Reads{Alt: k, Depth: k}}})
		}
		j := at(own, others, k)
		require.GreaterOrEqual(t, at(own, others, k+1).Expected, j.Expected)
		fewer := own
		fewer.Alt--
		if own.Alt > 1 && j.Explained {
			require.True(t, at(fewer, others, k).Explained, "%v %d %d", own, others, k)
		}
	}
}

// TestCombine: reads of each run are assessed by the run's own controls. Those of one run alone change nothing; where several runs have some, alleles that are carried over in
// all of them are still marked but for 1 in 100, one that one run shows far beyond is not, and runs without a bound say nothing.
func TestCombine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 3))
	water := func(alt int) []Control {
		return []Control{{Name: "water", Kind: NoTemplate, Reads: Reads{Alt: alt, Depth: alt + 1}}}
	}
	none := Assess(Reads{Depth: 50}, 100, water(1))
	uncovered := Assess(Reads{Alt: 20, Depth: 50}, 100, []Control{{Name: "wild", Kind: Negative}})
	escaped, seen := 0, 0
	for range 4000 {
		var runs []Assessment
		carried := 0
		for range 1 + rnd.IntN(3) {
			others, rate := 500+rnd.IntN(2000), 0.001+0.01*rnd.Float64()
			draw := func() (k int) {
				for range others {
					if rnd.Float64() < rate {
						k++
					}
				}
				return k
			}
			x := draw()
			carried += x
			runs = append(runs, Assess(Reads{Alt: x, Depth: 300}, others, water(draw())))
		}
		if carried == 0 {
			continue
		}
		seen++
		j, most := Combine(runs)
		require.Equal(t, runs[most].Control, j.Control)
		if !j.Explained {
			escaped++
		}
		require.Equal(t, carried, j.Own)
		if len(runs) == 1 {
			require.Equal(t, runs[0], j)
		}
		more := append(slices.Clone(runs), none, uncovered)
		rnd.Shuffle(len(more), func(a, b int) { more[a], more[b] = more[b], more[a] })
		again, _ := Combine(more)
		require.Equal(t, j.Explained, again.Explained)
		require.InDelta(t, j.Share, again.Share, 1e-12)
		genuine := Assess(Reads{Alt: 250, Depth: 300}, 2000, water(2))
		beyond, _ := Combine(append(runs, genuine))
		require.False(t, beyond.Explained)
	}
	require.LessOrEqual(t, float64(escaped), Alpha*float64(seen))
	j, most := Combine([]Assessment{none, uncovered})
	require.Equal(t, uncovered, j)
	require.Equal(t, 1, most)
	j, _ = Combine([]Assessment{none})
	require.Equal(t, none, j)
}

// TestAllelesAreAssessedHoweverSpelled: an allele is assessed by all samples' reads at it, however it is spelled, in any order of input.
func TestAllelesAreAssessedHoweverSpelled(t *testing.T) {
	snv, spelled, gap := vrs.Edit{Start: 10, Ref: "A", Alt: "G"}, vrs.Edit{Start: 9, Ref: "CA", Alt: "CG"}, vrs.Edit{Start: 3, Ref: "AC", Alt: "A"}
	controls, err := Controls{"barcode03": NoTemplate}.Among([]string{"run_barcode01", "run_barcode02", "run_barcode03"}, "the run")
	require.NoError(t, err)
	require.Equal(t, Controls{"run_barcode03": NoTemplate}, controls)
	fill := func(order []int) *Table {
		table := NewTable(controls, []string{"run_barcode03", "run_barcode02", "run_barcode01"})
		for _, i := range order {
			table.Add("c", []vrs.Edit{snv, gap, spelled}[i])
		}
		require.Len(t, table.Alleles()["c"], 2)
		table.Count("run_barcode01", "c", 0, []Reads{{Depth: 90}, {Alt: 90, Depth: 90}})
		table.Count("run_barcode02", "c", 0, []Reads{{Depth: 90}})
		table.Count("run_barcode02", "c", 1, []Reads{{Alt: 2, Depth: 90}})
		return table
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		table := fill(order)
		require.True(t, table.Assess("run_barcode02", "c", snv).Explained)
		require.Equal(t, table.Assess("run_barcode02", "c", snv), table.Assess("run_barcode02", "c", spelled))
		require.False(t, table.Assess("run_barcode01", "c", spelled).Explained)
		require.Equal(t, NotCounted, table.Assess("run_barcode01", "c", gap).Basis)
		require.Nil(t, table.Assess("run_barcode01", "c", vrs.Edit{Start: 10, Ref: "A", Alt: "T"}))
		require.False(t, table.Assesses("run_barcode03"))
	}
	_, err = Controls{"x": Negative}.Among([]string{"a", "b"}, "run 7")
	require.EqualError(t, err, "control x is not among the samples of run 7, which are a, b")
	// A control of which no read lies at any allele bounds nothing, until one does.
	table := fill([]int{0, 1, 2})
	require.Equal(t, []string{"run_barcode03"}, table.Silent())
	require.Equal(t, SilentControl, table.Assess("run_barcode02", "c", snv).Basis)
	table.Count("run_barcode03", "c", 0, []Reads{{Depth: 1}})
	require.Empty(t, table.Silent())
	require.Equal(t, Hopping, table.Assess("run_barcode02", "c", snv).Basis)
	_, err = Controls{"a": Negative}.Among([]string{"a"}, "run 7")
	require.EqualError(t, err, "all samples of run 7 are controls: there is nothing that they could bound")
}

// TestRecordsOfExplainedAllelesAreMarked: a record has the filter if one of its alleles is explained, and a field's value for each.
func TestRecordsOfExplainedAllelesAreMarked(t *testing.T) {
	rec := &vcf.Record{Chrom: "c", Pos: 4, Ref: "A", Alt: []string{"C", "<*>", "G"}, Filter: []string{"PASS"}}
	assessments := map[int]*Assessment{
		0: {Explained: true, Share: 0.81234, Basis: Hopping, Control: "a,b", Reads: Reads{Alt: 3, Depth: 7}},
		2: {Basis: NotCovered, Control: "a,b", Reads: Reads{Alt: 0, Depth: 0}},
	}
	Mark(rec, func(alt int) *Assessment { return assessments[alt] })
	require.Equal(t, "c\t4\t.\tA\tC,<*>,G\t0\tCarryOver\tCO_SHARE=0.812,.,.;CO_BASIS=hopping,.,not_covered;CO_CONTROL=a%2Cb,.,a%2Cb;CO_AD=3,.,0;CO_DP=7,.,0\n", string(rec.AppendLine(nil)))
	plain := &vcf.Record{Chrom: "c", Pos: 4, Ref: "A", Alt: []string{"<*>"}, Filter: []string{"LowQual"}}
	Mark(plain, func(int) *Assessment { return nil })
	require.False(t, strings.Contains(string(plain.AppendLine(nil)), "CO_"))
	again := &vcf.Record{Chrom: "c", Pos: 4, Ref: "A", Alt: []string{"C"}, Filter: []string{"CarryOver"}}
	again.Info.Set("CO_SHARE", "1.000")
	Mark(again, func(int) *Assessment { return assessments[2] })
	require.Equal(t, "c\t4\t.\tA\tC\t0\tPASS\tCO_SHARE=.;CO_BASIS=not_covered;CO_CONTROL=a%2Cb;CO_AD=0;CO_DP=0\n", string(again.AppendLine(nil)), "an earlier mark goes")
	failed := &vcf.Record{Chrom: "c", Pos: 4, Ref: "A", Alt: []string{"C"}, Filter: []string{"LowQual"}}
	Mark(failed, func(int) *Assessment { return assessments[0] })
	require.Equal(t, []string{"LowQual", "CarryOver"}, failed.Filter)
}

// BenchmarkAssess assesses an allele in each sample of a plate of 96, two of which are controls.
func BenchmarkAssess(b *testing.B) {
	controls := Controls{"water": NoTemplate, "wild": Negative}
	samples := []string{"water", "wild"}
	for i := range 94 {
		samples = append(samples, fmt.Sprint("barcode", i))
	}
	allele := vrs.Edit{Start: 10, Ref: "A", Alt: "G"}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		table := NewTable(controls, samples)
		table.Add("c", allele)
		for i, sample := range samples {
			table.Count(sample, "c", 0, []Reads{{Alt: (i + n) % 60, Depth: 200 + i}})
		}
		for _, sample := range samples[2:] {
			table.Assess(sample, "c", allele)
		}
	}
}
