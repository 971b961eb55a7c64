package homology

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/align.tsv
var aligned string

// TestAlignAsBiopython holds scores to those of Biopython 1.88's aligner (testdata/align.py).
func TestAlignAsBiopython(t *testing.T) {
	t.Parallel()
	var w Workspace
	for line := range strings.Lines(aligned) {
		column := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, column, 3)
		want, err := strconv.Atoi(column[2])
		require.NoError(t, err)
		a, b := encode(nil, []byte(column[0])), encode(nil, []byte(column[1]))
		got := w.align(a, b, 0, len(a)+len(b))
		require.Equal(t, want, got.score, line)
		require.Equal(t, got.score, w.align(b, a, 0, len(a)+len(b)).score, "the other way round")
		require.Equal(t, want, rescored(t, a, b, got), line)
	}
}

// rescored is the score of the best global alignment of what a local one aligns: the same, if its ends are right.
func rescored(t *testing.T, a, b []byte, got alignment) int {
	t.Helper()
	if got.score == 0 {
		return 0
	}
	require.True(t, 0 <= got.fromA && got.fromA < got.toA && got.toA <= len(a), got)
	require.True(t, 0 <= got.fromB && got.fromB < got.toB && got.toB <= len(b), got)
	require.LessOrEqual(t, got.identical, got.columns)
	require.GreaterOrEqual(t, got.columns, max(got.toA-got.fromA, got.toB-got.fromB))
	return global(a[got.fromA:got.toA], b[got.fromB:got.toB])
}

// global is the best score of an alignment from end to end: Gotoh's three tables, as in the paper.
func global(a, b []byte) int {
	m, x, y := table(a, b), table(a, b), table(a, b)
	m[0][0] = 0
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i > 0 && j > 0 {
				m[i][j] = max(m[i-1][j-1], x[i-1][j-1], y[i-1][j-1]) + int(blosum62[a[i-1]][b[j-1]])
			}
			if i > 0 {
				x[i][j] = max(max(m[i-1][j], y[i-1][j])-gapOpen-gapExtend, x[i-1][j]-gapExtend)
			}
			if j > 0 {
				y[i][j] = max(max(m[i][j-1], x[i][j-1])-gapOpen-gapExtend, y[i][j-1]-gapExtend)
			}
		}
	}
	n, k := len(a), len(b)
	return max(m[n][k], x[n][k], y[n][k])
}

func table(a, b []byte) [][]int {
	out := make([][]int, len(a)+1)
	for i := range out {
		out[i] = make([]int, len(b)+1)
		for j := range out[i] {
			out[i][j] = least
		}
	}
	return out
}

// TestBand: a band that holds the alignment doesn't change it, whatever the workspace held before.
func TestBand(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var used Workspace
	for range 300 {
		a := random(rng, 20+rng.IntN(200))
		b := changed(rng, a, .2, .01)
		shift := rng.IntN(40)
		b = append(random(rng, shift), b...)
		wide := new(Workspace).align(a, b, shift, len(a)+len(b))
		band := used.align(a, b, shift, halfBand)
		require.LessOrEqual(t, band.score, wide.score)
		if moved := (wide.toB - wide.fromB) - (wide.toA - wide.fromA); moved > -8 && moved < 8 && wide.fromB-wide.fromA == shift {
			require.Equal(t, wide, band)
		}
	}
	require.Equal(t, alignment{}, used.align(nil, nil, 0, halfBand))
	require.Equal(t, alignment{}, used.align([]byte{0}, []byte{0}, 1000, halfBand), "outside the band")
	require.Equal(t, alignment{}, used.align([]byte{0}, []byte{0}, -1000, halfBand), "outside the band")
}

func random(rng *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.IntN(amino))
	}
	return out
}

func changed(rng *rand.Rand, a []byte, rate, gaps float64) []byte {
	var out []byte
	for _, r := range a {
		if rng.Float64() < gaps {
			out = append(out, random(rng, 1+rng.IntN(4))...)
		}
		if rng.Float64() < gaps {
			continue
		}
		if rng.Float64() < rate {
			r = byte(rng.IntN(amino))
		}
		out = append(out, r)
	}
	return out
}

// TestLocate: the best place is that of all pairs, whichever of part and text is the longer one and wherever they meet.
func TestLocate(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 12))
	var w Workspace
	for range 200 {
		shared := random(rng, 20+rng.IntN(60))
		part := slices.Concat(random(rng, rng.IntN(90)), shared, random(rng, rng.IntN(90)))
		text := slices.Concat(random(rng, rng.IntN(90)), changed(rng, shared, .1, .02), random(rng, rng.IntN(90)))
		want := w.align(part, text, 0, len(part)+len(text))
		got, found := Locate(lettersOf(part), lettersOf(text), 1e9, &w)
		require.True(t, found)
		require.Equal(t, Place{want.fromA, want.toA, want.fromB, want.toB, float64(want.identical) / float64(want.columns), want.score}, got)
	}
}

func lettersOf(encoded []byte) []byte {
	out := make([]byte, len(encoded))
	for i, r := range encoded {
		out[i] = letters[r]
	}
	return out
}

// TestSearch finds relatives of known proteins with what was planted, in any order of the known ones.
func TestSearch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var known []Protein
	for i := range 400 {
		known = append(known, Protein{ID: fmt.Sprint(i), Seq: lettersOf(random(rng, 40+rng.IntN(400)))})
	}
	known = append(known, Protein{ID: "none"}, Protein{ID: "x", Seq: []byte(strings.Repeat("X", 50))})
	x, err := NewIndex(known)
	require.NoError(t, err)
	shuffled := append([]Protein(nil), known...)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	y, err := NewIndex(shuffled)
	require.NoError(t, err)
	var w Workspace
	for i := range 400 {
		whole := encode(nil, known[i].Seq)
		query := lettersOf(changed(rng, whole, float64(i%3)/10, float64(i%3)/200))
		hits := x.Search(query, 1e-6, &w)
		require.NotEmpty(t, hits)
		h := hits[0]
		require.Equal(t, known[i].ID, h.Protein.ID)
		require.Greater(t, h.Identity, .5)
		require.LessOrEqual(t, h.Expect, 1e-6)
		other := y.Search(query, 1e-6, &w)
		require.Equal(t, h.Protein.ID, other[0].Protein.ID)
		require.Equal(t, i, h.Number)
		h.Protein, other[0].Protein, h.Number, other[0].Number = nil, nil, 0, 0
		require.Equal(t, h, other[0])
	}
	h := x.Search(known[7].Seq[10:20+len(known[7].Seq)/2], 1e-6, &w)[0]
	require.Equal(t, known[7].ID, h.Protein.ID)
	require.InDelta(t, 1, h.Identity, 0)
	require.Equal(t, []int{10, 20 + len(known[7].Seq)/2}, []int{h.Start, h.End})
	require.InDelta(t, float64(h.End-h.Start)/float64(len(known[7].Seq)), h.Coverage, 1e-12)
	for _, none := range []string{"", "MKV", "XXXXXXXXXX", strings.Repeat("W", 100)} {
		require.Empty(t, x.Search([]byte(none), 1e-6, &w), none)
	}
	require.Empty(t, x.Search(lettersOf(random(rng, 300)), 1e-6, &w))
}

// TestRemoteRelativesAreFound: the first part of E. coli's ilvG has half of its residues in common with ilvB and with ilvI, and few words.
func TestRemoteRelativesAreFound(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 12))
	family, err := Load(filepath.Join("..", "testdata", "relatives.fa"))
	require.NoError(t, err)
	for range 2000 {
		family = append(family, Protein{ID: "other", Seq: lettersOf(random(rng, 100+rng.IntN(500)))})
	}
	rng.Shuffle(len(family), func(i, j int) { family[i], family[j] = family[j], family[i] })
	part := slices.IndexFunc(family, func(p Protein) bool { return p.ID == "ilvG.1" })
	remote, err := NewRemoteIndex(family)
	require.NoError(t, err)
	var w Workspace
	hits := remote.Remote(part, 0, MostResidues, 1e-3, &w)
	require.Len(t, hits, 2)
	for i, id := range []string{"ilvB", "ilvI"} {
		require.Equal(t, id, hits[i].Protein.ID)
		require.InDelta(t, .5, hits[i].Identity, .03)
		require.Greater(t, hits[i].QueryCoverage, .95)
		require.Less(t, hits[i].Expect, 1e-80)
	}
	require.Len(t, remote.Remote(part, 563, MostResidues, 1e-3, &w), 1)
	require.Empty(t, remote.Remote(part, 0, 561, 1e-3, &w))
	near, err := NewIndex(family)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(near.Relatives(part, .08, 1e-3, &w), func(h Hit) bool { return h.Protein.ID == "ilvB" }), "it has too few words in common")
	require.Equal(t, hits[:1], slices.DeleteFunc(remote.Search(family[part].Seq, 1e-3, &w), func(h Hit) bool { return h.Number == part })[:1])
}

func BenchmarkRemote(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	var known []Protein
	for range 5000 {
		known = append(known, Protein{Seq: lettersOf(random(rng, 300))})
	}
	x, err := NewRemoteIndex(known)
	require.NoError(b, err)
	var w Workspace
	b.ReportAllocs()
	for b.Loop() {
		x.Remote(100, 0, MostResidues, 1e-3, &w)
	}
}

func BenchmarkSearch(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	var known []Protein
	for range 5000 {
		known = append(known, Protein{Seq: lettersOf(random(rng, 300))})
	}
	x, err := NewIndex(known)
	require.NoError(b, err)
	query := lettersOf(changed(rng, encode(nil, known[100].Seq), .2, .005))
	var w Workspace
	b.ReportAllocs()
	for b.Loop() {
		x.Search(query, 1e-6, &w)
	}
}

func BenchmarkAlign(b *testing.B) {
	rng := rand.New(rand.NewPCG(7, 8))
	p := random(rng, 300)
	q := changed(rng, p, .3, .005)
	var w Workspace
	b.SetBytes(int64(len(p) * (2*halfBand + 1))) // cells
	b.ReportAllocs()
	for b.Loop() {
		w.align(p, q, 0, halfBand)
	}
}
