package genes

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genes/homology"
	"github.com/porestream/porestream/testenv"
)

// TestRelativesShowWhatWasOneGene: of E. coli K-12's ilvG a lost pair of bases has left two parts, of which ilvB and ilvI are the whole relatives. They show that the
// two are one gene, and nothing else does.
func TestRelativesShowWhatWasOneGene(t *testing.T) {
	t.Parallel()
	family, err := homology.Load(filepath.Join("testdata", "relatives.fa"))
	require.NoError(t, err)
	require.Len(t, family, 4)
	first, second, ilvB, ilvI := family[0].Seq, family[1].Seq, family[2].Seq, family[3].Seq
	_, _, others := lambdaGenes(t)
	for _, tt := range []struct {
		name      string
		parts     [][]byte // in the direction of their strand
		relatives [][]byte
		sure      bool
		shown     []bool // by pair
		from, to  int    // of ilvB
	}{
		{"two parts", [][]byte{first, second}, [][]byte{ilvB, ilvI}, false, []bool{true}, 14, 560},
		{"three parts", [][]byte{first[:170], first[175:], second}, [][]byte{ilvB, ilvI}, false, []bool{true, true}, 14, 560},
		{"a short part, which only the others lead to", [][]byte{first[:290], first[291:], second}, [][]byte{ilvB}, false, []bool{true, true}, 14, 560},
		{"a third gene behind them", [][]byte{first, second, others[3].Seq}, [][]byte{ilvB, ilvI}, false, []bool{true, false}, 14, 560},
		{"in the other order", [][]byte{second, first}, [][]byte{ilvB, ilvI}, false, []bool{false}, 0, 0},
		{"twice the same part", [][]byte{first, first}, [][]byte{ilvB, ilvI}, false, []bool{false}, 0, 0},
		{"the relative has another end", [][]byte{first, second}, [][]byte{slices.Concat(ilvB[:334], others[3].Seq)}, false, []bool{false}, 0, 0},
		{"the relative is longer", [][]byte{first, second}, [][]byte{slices.Concat(ilvB, others[3].Seq)}, false, []bool{false}, 0, 0},
		{"only one is a part", [][]byte{first, others[3].Seq}, [][]byte{ilvB, ilvI}, false, []bool{false}, 0, 0},
		{"no relative", [][]byte{first, second}, nil, false, []bool{false}, 0, 0},
		{"their codons are enough", [][]byte{first, second}, nil, true, []bool{true}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			proteins := slices.Clone(others)
			for _, seq := range slices.Concat(tt.relatives, tt.parts) {
				proteins = append(proteins, homology.Protein{Seq: seq})
			}
			rng := rand.New(rand.NewPCG(45, 1))
			for range 3 { // in any order of the genes
				rng.Shuffle(len(proteins), func(i, j int) { proteins[i], proteins[j] = proteins[j], proteins[i] })
				s, splits := besides(proteins, tt.parts, tt.sure)
				rng.Shuffle(len(splits), func(i, j int) { splits[i], splits[j] = splits[j], splits[i] })
				got, err := s.shown(t.Context(), slices.Clone(splits))
				require.NoError(t, err)
				want := 0
				for k, shown := range tt.shown {
					i := slices.IndexFunc(got, func(x split) bool { return x.parts[1].start == 1000*(k+1) })
					require.Equal(t, shown, i >= 0, "pair %d", k)
					if !shown {
						continue
					}
					want++
					if tt.to == 0 {
						require.Nil(t, got[i].whole)
						continue
					}
					require.Equal(t, string(ilvB), string(got[i].whole.hit.Protein.Seq), "the one that is most like them")
					require.InDelta(t, tt.from, got[i].whole.from, 3)
					require.InDelta(t, tt.to, got[i].whole.to, 3)
				}
				require.Len(t, got, want)
			}
		})
	}
}

// besides are splits of parts that follow each other, each of which is one of the proteins.
func besides(proteins []homology.Protein, parts [][]byte, sure bool) (s *self, splits []split) {
	s = &self{proteins: proteins, at: map[spot]int{}}
	taken := map[int]bool{}
	for k, seq := range parts {
		i := slices.IndexFunc(proteins, func(p homology.Protein) bool { return slices.Equal(p.Seq, seq) })
		for taken[i] {
			i += 1 + slices.IndexFunc(proteins[i+1:], func(p homology.Protein) bool { return slices.Equal(p.Seq, seq) })
		}
		taken[i] = true
		at := spot{start: 1000 * k, end: 1000*k + 900}
		s.at[at] = i
		if k > 0 {
			splits = append(splits, split{parts: [2]spot{{start: at.start - 1000, end: at.end - 1000}, at}, fault: Frameshift, sure: sure})
		}
	}
	return s, splits
}

// TestNeighboursAreShownByRelativesOfTheirOwn: of two broken genes that follow each other each is shown by its own relative, and the longer doesn't hide the shorter.
func TestNeighboursAreShownByRelativesOfTheirOwn(t *testing.T) {
	t.Parallel()
	family, err := homology.Load(filepath.Join("testdata", "relatives.fa"))
	require.NoError(t, err)
	_, _, proteins := lambdaGenes(t)
	longest := slices.MaxFunc(proteins, func(a, b homology.Protein) int { return len(a.Seq) - len(b.Seq) }).Seq
	middle := len(longest) / 2
	parts := [][]byte{longest[:middle], longest[middle:], family[0].Seq, family[1].Seq}
	proteins = append(proteins, family[2], family[3])
	for _, seq := range parts {
		proteins = append(proteins, homology.Protein{Seq: seq})
	}
	s, splits := besides(proteins, parts, false)
	got, err := s.shown(t.Context(), splits)
	require.NoError(t, err)
	require.Len(t, got, 2, "the neighbours of the two are none")
	require.Equal(t, string(longest), string(got[0].whole.hit.Protein.Seq))
	require.Equal(t, string(family[2].Seq), string(got[1].whole.hit.Protein.Seq))
}

// TestRelativesShowMoreBrokenGenes: in a genome that has whole relatives of its broken genes, of whose residues a third are others, more of these are found than by
// codons alone, on either strand; none of the relatives is lost, and hardly another gene.
func TestRelativesShowMoreBrokenGenes(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	original, planted := simulated(90, 700)
	a := Annotated{Contig: Contig{Seq: original}, Genes: planted}
	letters, whole, split := a.broken(rand.New(rand.NewPCG(3, 4)))
	rng := rand.New(rand.NewPCG(45, 2))
	random := func(n int) (s []byte) {
		for range n {
			s = append(s, "ACGT"[rng.IntN(4)])
		}
		return s
	}
	with := slices.Clone(letters)
	var relatives []Known
	slices.SortFunc(planted, func(a, b Known) int { return a.Start - b.Start })
	forward := planted[slices.IndexFunc(planted, func(k Known) bool { return !k.Reverse })]
	for i, k := range planted {
		if i%breakEvery != 0 || k.End-k.Start < breakLength {
			continue
		}
		gene := slices.Clone(original[k.Start:k.End])
		if k.Reverse {
			gene = reverseComplement(gene)
		}
		for at := 3; at < len(gene)-3; at += 3 {
			if rng.IntN(3) == 0 { // another one of its codons
				copy(gene[at:at+3], original[forward.Start+3*(1+rng.IntN(50)):][:3])
			}
		}
		with = append(append(with, random(60)...), "AGGAGG"...)
		with = append(with, random(6)...)
		relatives = append(relatives, Known{Start: len(with), End: len(with) + len(gene)})
		with = append(append(with, gene...), random(60)...)
	}
	require.Len(t, relatives, len(split))
	found := func(r *Result, own bool) (n int) {
		for _, k := range split {
			if slices.ContainsFunc(r.Pseudogenes, func(p Pseudogene) bool {
				return p.Reverse == k.Reverse && p.Own == own && p.Fragments > 1 && 10*(min(p.End, k.End)-max(p.Start, k.Start)) >= 9*(k.End-k.Start)
			}) {
				n++
			}
		}
		return n
	}
	codons := find(t, Options{Code: 11}, Contig{Name: "a", Seq: letters})
	require.Zero(t, found(codons, true))
	r := find(t, Options{Code: 11}, Contig{Name: "a", Seq: with})
	t.Logf("of %d broken genes codons show %d, with relatives %d and %d", len(split), found(codons, false), found(r, false), found(r, true))
	require.GreaterOrEqual(t, found(r, true), 5)
	lost := func(list []Known) (n int) {
		for _, k := range list {
			if slices.ContainsFunc(r.Pseudogenes, func(p Pseudogene) bool { return p.Start < k.End && k.Start < p.End && p.Reverse == k.Reverse }) {
				n++
			}
		}
		return n
	}
	require.Zero(t, lost(relatives))
	require.LessOrEqual(t, lost(whole), 3, "of %d", len(whole))
	for _, p := range r.Pseudogenes {
		if p.Own {
			require.Greater(t, p.Identity, .5)
			require.GreaterOrEqual(t, p.Coverage, wholeCoverage)
		}
	}
	mirrored := find(t, Options{Code: 11}, Contig{Name: "a", Seq: reverseComplement(with)})
	require.Len(t, mirrored.Pseudogenes, len(r.Pseudogenes))
	for i, p := range mirrored.Pseudogenes {
		other := r.Pseudogenes[len(r.Pseudogenes)-1-i]
		require.Equal(t, []int{len(with) - other.End, len(with) - other.Start}, []int{p.Start, p.End})
		require.Equal(t, other.Own, p.Own)
	}
}
