package genes

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// splitGenome is a genome that is long enough to teach its starts, some of whose genes are broken by a base less or by a stop, each near its middle.
func splitGenome(t *testing.T) (letters []byte, whole, split []Known) {
	t.Helper()
	letters, planted := simulated(90, 700)
	require.Greater(t, len(letters), short)
	a := Annotated{Contig: Contig{Seq: letters}, Genes: planted}
	return a.broken(rand.New(rand.NewPCG(3, 4)))
}

// TestSplitGenesAreFoundByTheirCodons: of genes that are broken without anything that they are like, an eighth at least is reported as pseudogenes, on either strand, and
// hardly one of the others is.
func TestSplitGenesAreFoundByTheirCodons(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	letters, whole, split := splitGenome(t)
	r := find(t, Options{Code: 11}, Contig{Name: "a", Seq: letters})
	reported := func(k Known) bool {
		return slices.ContainsFunc(r.Pseudogenes, func(p Pseudogene) bool {
			return p.Reverse == k.Reverse && 10*(min(p.End, k.End)-max(p.Start, k.Start)) >= 9*(k.End-k.Start) && p.Known == nil && p.Fragments > 1
		})
	}
	right := 0
	for _, k := range split {
		if reported(k) {
			right++
		}
	}
	require.GreaterOrEqual(t, right, len(split)/8, "of %d", len(split))
	require.LessOrEqual(t, len(r.Pseudogenes), right+5)
	lost := 0
	for _, k := range whole {
		if reported(k) {
			lost++
		}
	}
	require.LessOrEqual(t, lost, 3, "of %d", len(whole))
	for _, p := range r.Pseudogenes {
		require.Subset(t, []Fault{Frameshift, InternalStop}, p.Faults)
		require.False(t, slices.ContainsFunc(r.Genes, func(g Gene) bool { return g.Reverse == p.Reverse && g.Start >= p.Start && g.End <= p.End }))
	}
	var out bytes.Buffer
	require.NoError(t, WriteGFF3(&out, []Contig{{Name: "a", Seq: letters}}, r))
	require.Regexp(t, `\tpseudogene\t.*;pseudo=true;Note=frameshifted;fragments=2;inference=ab initio prediction:Porestream\n`, out.String())

	mirrored := find(t, Options{Code: 11}, Contig{Name: "a", Seq: reverseComplement(letters)})
	require.Len(t, mirrored.Pseudogenes, len(r.Pseudogenes))
	for i, p := range mirrored.Pseudogenes {
		other := r.Pseudogenes[len(r.Pseudogenes)-1-i]
		require.Equal(t, []int{len(letters) - other.End, len(letters) - other.Start}, []int{p.Start, p.End})
		require.NotEqual(t, other.Reverse, p.Reverse)
	}

	// Two copies of a split gene are two genes that belong together, such as those of an insertion sequence.
	i := slices.IndexFunc(split, reported)
	k := split[i]
	twice := slices.Concat(letters, letters[k.Start-40:k.End+40])
	r = find(t, Options{Code: 11}, Contig{Name: "a", Seq: twice})
	require.False(t, reported(k))
	for from, shift := range []int{0, len(letters) - (k.Start - 40)} {
		n := 0
		for _, g := range r.Genes {
			if g.Start >= k.Start+shift-40 && g.End <= k.End+shift+40 {
				n++
			}
		}
		require.Equal(t, 2, n, "copy %d", from)
	}
}

// TestPartsOfLongerGenesAreFoundWithoutProteins: a copy of a part of a gene of the same genome, with a base less, is a pseudogene; a whole copy isn't, and known
// proteins that it is as long as keep it.
func TestPartsOfLongerGenesAreFoundWithoutProteins(t *testing.T) {
	testenv.CalculatesLong(t)
	t.Parallel()
	contigs, _, _ := lambdaGenes(t)
	seq := contigs[0].Seq
	const begin, end = 10542 - 1, 13103 // of gene H
	rng := rand.New(rand.NewPCG(5, 6))
	spacer := func() (s []byte) {
		for range 250 {
			s = append(s, "ACGT"[rng.IntN(4)])
		}
		return append(s, "TAATTAATTAA"...)
	}
	broken := slices.Concat(seq[begin-30:begin+900], seq[begin+901:begin+1500])
	for _, tt := range []struct {
		name     string
		copy     []byte
		reported bool
	}{{"part with a base less", broken, true}, {"whole", seq[begin-30 : end], false}} {
		for _, reverse := range []bool{false, true} {
			c := Contig{Name: "c", Seq: slices.Concat(seq, spacer(), tt.copy, spacer())}
			if reverse {
				c.Seq = reverseComplement(c.Seq)
			}
			r := find(t, Options{Code: 11}, c)
			if !tt.reported {
				require.Empty(t, r.Pseudogenes)
				continue
			}
			require.Len(t, r.Pseudogenes, 1)
			p := r.Pseudogenes[0]
			require.True(t, p.Own)
			require.Equal(t, reverse, p.Reverse)
			require.Contains(t, p.Faults, Frameshift)
			require.InDelta(t, 1, p.Identity, .01)
			i := slices.IndexFunc(r.Genes, func(g Gene) bool { return g.End-g.Start == end-begin })
			require.GreaterOrEqual(t, i, 0)
			require.Equal(t, identifier(i+1), p.Known.ID)
			var out bytes.Buffer
			require.NoError(t, WriteGFF3(&out, []Contig{c}, r))
			require.Contains(t, out.String(), ";inference=ab initio prediction:Porestream;similar_to="+p.Known.ID+";identity=")
			require.Equal(t, 1, strings.Count(out.String(), "\tpseudogene\t"))
		}
	}
}
