package rna

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Transfer RNA genes of E. coli K-12 MG1655 (NC_000913.3), with CCA.
const (
	alanine    = "GGGGCTATAGCTCAGCTGGGAGAGCGCCTGCTTTGCACGCAGGAGGTCTGCGGTTCGATCCCGCATAGCTCCACCA"
	leucine    = "GCGAAGGTGGCGGAATTGGTAGACGCGCTAGCTTCAGGTGTTAGTGTCCTTACGGACGTGGGGGTTCAAGTCCCCCCCCTCGCACCA"
	methionine = "CGCGGGGTGGAGCAGCCTGGTAGCTCGTCGGGCTCATAACCCGAAGGTCGTCGGTTCAAATCCGGCCCCCGCAACCA"
)

// amino is enough of the genetic code for those.
func amino(codon string) byte {
	if a, ok := map[string]byte{"GCA": 'A', "CTG": 'L', "ATG": 'M', "TAA": '*'}[codon]; ok {
		return a
	}
	return 'X'
}

func random(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = "ACGT"[r.IntN(4)]
	}
	return out
}

func reversed(s []byte) []byte {
	out := make([]byte, len(s))
	for i, b := range Complemented(encode(s)) {
		out[i] = "ACGTN"[b]
	}
	return out
}

// relative is an RNA with a share of its bases replaced, and a few inserted and left out, in stretches between others that are as they were.
func relative(r *rand.Rand, s string, share float64) []byte {
	var out []byte
	for i := range len(s) {
		switch changing := i/40%2 == 0 && i > 20 && i < len(s)-20; {
		case changing && r.Float64() < 2*share:
			out = append(out, "ACGT"[r.IntN(4)])
		case changing && r.IntN(40) == 0:
			out = append(out, s[i], "ACGT"[r.IntN(4)])
		case changing && r.IntN(40) == 0:
		default:
			out = append(out, s[i])
		}
	}
	return out
}

// planted are known RNAs, and a genome with relatives of them: 16S, 23S and 5S on the one strand, transfer RNA on both.
func planted(t *testing.T) (*Index, []byte, []Gene) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 7))
	small, large, little := string(random(r, 1540)), string(random(r, 2900)), string(random(r, 118))
	x, err := NewIndex([]Known{{Small, small, "a"}, {Large, large, "a"}, {Little, little, "a"}})
	require.NoError(t, err)
	genome := random(r, 4000)
	var truth []Gene
	put := func(seq []byte, g Gene) {
		g.Start, g.End = len(genome), len(genome)+len(seq)
		genome = append(append(genome, seq...), random(r, 200)...)
		truth = append(truth, g)
	}
	put(relative(r, small, .25), Gene{Product: "16S ribosomal RNA"})
	put([]byte(alanine), Gene{Product: "tRNA-Ala", Anticodon: "TGC", Transfer: true})
	put(relative(r, large, .25), Gene{Product: "23S ribosomal RNA"})
	put(relative(r, little, .2), Gene{Product: "5S ribosomal RNA"})
	genome = append(genome, random(r, 3000)...)
	put(reversed([]byte(leucine)), Gene{Product: "tRNA-Leu", Anticodon: "CAG", Transfer: true, Reverse: true})
	put([]byte(methionine), Gene{Product: "tRNA-Met", Anticodon: "CAT", Transfer: true})
	return x, append(genome, random(r, 3000)...), truth
}

// places are genes without what is measured of them.
func places(list []Gene) []Gene {
	out := slices.Clone(list)
	for i := range out {
		out[i].Identity, out[i].Score = 0, 0
	}
	return out
}

func TestPlantedRNAIsFound(t *testing.T) {
	t.Parallel()
	x, genome, truth := planted(t)
	got := x.Find(genome, false, amino)
	require.Equal(t, truth, places(got))
	for _, g := range got {
		if !g.Transfer {
			require.InDelta(t, .8, g.Identity, .12)
		}
	}
	mirrored := x.Find(reversed(genome), false, amino)
	for i := range mirrored {
		g := &mirrored[i]
		g.Start, g.End, g.Reverse = len(genome)-g.End, len(genome)-g.Start, !g.Reverse
	}
	slices.Reverse(mirrored)
	require.Equal(t, got, mirrored, "the other strand has the same genes, mirrored")
}

func TestRNAOfACircleIsTheSameWhereverItIsCut(t *testing.T) {
	t.Parallel()
	x, genome, truth := planted(t)
	for _, cut := range []int{1, 4700, 5000, 5560, 5750, 7000, 8500, len(genome) - 1} {
		rotated := append(slices.Clone(genome[cut:]), genome[:cut]...)
		got := places(x.Find(rotated, true, amino))
		for i := range got {
			g := &got[i]
			width := g.End - g.Start
			g.Start = (g.Start + cut) % len(genome)
			g.End = g.Start + width
		}
		slices.SortFunc(got, func(a, b Gene) int { return a.Start - b.Start })
		require.Equal(t, truth, got, "cut at %d", cut)
	}
}

func TestRNAIsCutWhereTheSequenceEnds(t *testing.T) {
	t.Parallel()
	x, genome, truth := planted(t)
	large := truth[2]
	got := x.Find(genome[large.Start+900:], false, amino)[0]
	require.Equal(t, Gene{End: large.End - large.Start - 900, Product: large.Product, OpenLow: true}, places([]Gene{got})[0])
	list := x.Find(genome[:large.End-1200], false, amino)
	got = list[len(list)-1]
	require.Equal(t, Gene{Start: large.Start, End: large.End - 1200, Product: large.Product, OpenHigh: true}, places([]Gene{got})[0])
}

func TestWhatIsNoRNAIsNotFound(t *testing.T) {
	t.Parallel()
	x, _, _ := planted(t)
	r := rand.New(rand.NewPCG(1, 2))
	require.Empty(t, x.Find(random(r, 2_000_000), true, amino))
	require.Empty(t, x.Find(nil, true, amino))
	require.Empty(t, x.Find([]byte(alanine)[:70], false, amino), "without the acceptor's other half")
	around := func(s string) []byte { return append(append(random(r, 100), s...), random(r, 100)...) }
	require.Len(t, x.Find(around(alanine), false, amino), 1)
	require.Empty(t, x.Find(around(strings.Replace(alanine, "TTTGCAC", "TTTTAAC", 1)), false, amino), "it would read a stop codon")
	require.Empty(t, x.Find(around("CCCCGAT"+alanine[7:]), false, amino), "its acceptor stem doesn't pair")
	require.Empty(t, x.Find([]byte(strings.Repeat("N", 500)), false, amino))
	require.Len(t, x.Find([]byte(alanine), true, amino), 1, "a circle of its own")
}

// TestRepeatsThatShareWordsAreNoRNA: repeats with spacers between them, as of CRISPR, have many words of a known RNA that has the repeat's bases.
func TestRepeatsThatShareWordsAreNoRNA(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 9))
		known := random(r, 2900)
		x, err := NewIndex([]Known{{Large, string(known), "a"}})
		require.NoError(t, err)
		s := random(r, 3000)
		for range 45 {
			s = append(append(s, known[1000:1036]...), random(r, 36)...)
		}
		require.Empty(t, x.Find(append(s, random(r, 3000)...), false, amino), "seed %d", seed)
	}
}

func TestBlocksDontCutRNA(t *testing.T) {
	t.Parallel()
	x, genome, truth := planted(t)
	r := rand.New(rand.NewPCG(3, 4))
	before := random(r, block-truth[2].Start-700) // the block ends within 23S
	got := places(x.Find(append(before, genome...), false, amino))
	for i := range got {
		got[i].Start, got[i].End = got[i].Start-len(before), got[i].End-len(before)
	}
	require.Equal(t, truth, got)
}

func TestKnownRNAOfWrongKindsIsRefused(t *testing.T) {
	t.Parallel()
	for _, k := range []Known{{"18S", strings.Repeat("A", 1500), "x"}, {Small, "ACGT", "x"}, {Little, strings.Repeat("A", 1500), "x"}} {
		_, err := NewIndex([]Known{k})
		require.ErrorContains(t, err, "ribosomal RNA of x")
	}
	x, err := NewIndex(nil)
	require.NoError(t, err)
	require.Len(t, x.Find([]byte(strings.Repeat("A", 60)+alanine), false, amino), 1, "transfer RNA needs no other organism's")
}

// TestRepeatsAreNotComparedWithEachOther: a reference of repeats takes time by its length, not by its square. Comparing 300,000
// genes with each other takes minutes.
func TestRepeatsAreNotComparedWithEachOther(t *testing.T) {
	t.Parallel()
	const n, step = 300_000, 87
	var list []Gene
	for i := range n {
		list = append(list, Gene{Start: step * i, End: step*i + len(alanine), Score: 40}, Gene{Start: step*i + 5, End: step*i + 80, Score: float64(30 + i%5)})
	}
	began := time.Now()
	got := apart(list)
	require.Len(t, got, n)
	for i, g := range got {
		require.Equal(t, step*i, g.Start)
	}
	require.Less(t, time.Since(began), 30*time.Second)
	// What overlaps across the stretches that the kept ones are found by, or covers several.
	for at := range 9000 {
		a, b := Gene{Start: at, End: at + 100, Score: 1}, Gene{Start: at + 99, End: at + 5200, Score: 2}
		require.Equal(t, []Gene{b}, apart([]Gene{a, b}))
		b.Start++
		require.Equal(t, []Gene{b, a}, apart([]Gene{a, b}))
	}
}

// TestRNAIsCutByGaps: what a gap has left of ribosomal RNA is found, and goes on within the gap; what is found as a whole isn't cut.
func TestRNAIsCutByGaps(t *testing.T) {
	t.Parallel()
	x, genome, truth := planted(t)
	large := truth[2]
	gap := func(from, to int) []byte {
		return slices.Concat(genome[:from], []byte(strings.Repeat("n", to-from)), genome[to:])
	}
	with := func(genes ...Gene) []Gene { return slices.Concat(truth[:2], genes, truth[3:]) }
	left := Gene{Start: large.Start, End: large.Start + 900, Product: large.Product, OpenHigh: true}
	right := Gene{Start: large.End - 1000, End: large.End, Product: large.Product, OpenLow: true}
	for _, circular := range []bool{false, true} {
		cut := gap(left.End, right.Start)
		require.Equal(t, with(left, right), places(x.Find(cut, circular, amino)))
		mirrored := places(x.Find(reversed(cut), circular, amino))
		for i := range mirrored {
			g := &mirrored[i]
			g.Start, g.End, g.Reverse, g.OpenLow, g.OpenHigh = len(genome)-g.End, len(genome)-g.Start, !g.Reverse, g.OpenHigh, g.OpenLow
		}
		slices.Reverse(mirrored)
		require.Equal(t, with(left, right), mirrored)
		require.Equal(t, truth, places(x.Find(gap(large.Start+1000, large.Start+1100), circular, amino)), "a masked stretch")
		require.Equal(t, truth, places(x.Find(gap(100, 3900), circular, amino)), "a gap elsewhere")
	}
	// A circle is cut within the RNA, and has a gap elsewhere: it is whole, once.
	at := large.Start + 1500
	masked := gap(100, 3900)
	got := places(x.Find(slices.Concat(masked[at:], masked[:at]), true, amino))
	require.Len(t, got, len(truth))
	require.Equal(t, Gene{Start: len(genome) - 1500, End: len(genome) + large.End - at, Product: large.Product}, got[len(got)-1])
}
