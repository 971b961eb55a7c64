package genes

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// TestSlippage finds ORF1ab of a coronavirus, on either strand, and has the annotator read it as RefSeq's.
func TestSlippage(t *testing.T) {
	t.Parallel()
	c := contigOf(t, filepath.Join("..", "testdata", "sarscov2", "reference.fa.gz"))
	n := len(c.Seq)
	of := func(c Contig) (r *Result, slips []Gene) {
		r = find(t, Options{}, c)
		for _, g := range r.Genes {
			if g.Slips {
				slips = append(slips, g)
			}
		}
		return r, slips
	}
	whole, slips := of(c)
	require.Len(t, slips, 1)
	require.Equal(t, []int{265, 13467, 21555}, []int{slips[0].Start, slips[0].Joint, slips[0].End})
	_, mirrored := of(Contig{Name: c.Name, Seq: reverseComplement(c.Seq)})
	require.Len(t, mirrored, 1)
	require.True(t, mirrored[0].Reverse)
	require.Equal(t, []int{n - 21555, n - 1 - 13467, n - 265}, []int{mirrored[0].Start, mirrored[0].Joint, mirrored[0].End})

	// Of three long genes, too few to decide the code by binding sites, the slip does; without it nothing does.
	r, slips := of(Contig{Name: c.Name, Seq: c.Seq[:25_400]})
	require.Len(t, slips, 1)
	require.Equal(t, standard, r.Code)
	require.Len(t, r.Genes, 3)
	r, slips = of(Contig{Name: c.Name, Seq: c.Seq[14_000:25_400]})
	require.Empty(t, slips)
	require.Equal(t, bacterial, r.Code)

	var text bytes.Buffer
	require.NoError(t, WriteGFF3(&text, []Contig{c}, whole))
	require.Equal(t, 2, strings.Count(text.String(), "exception=ribosomal slippage"))
	g, err := genome.Read(strings.NewReader(">" + c.Name + "\n" + string(c.Seq) + "\n"))
	require.NoError(t, err)
	m, err := annotate.ReadModel(&text, g)
	require.NoError(t, err)
	require.Empty(t, m.Warnings())
	// 14408C>T of the first wave: P323L of the polymerase, behind the slip.
	got, err := annotate.New(g, m).Annotate(c.Name, 14408, "C", "T")
	require.NoError(t, err)
	require.Equal(t, "missense_variant", got.MostSevere.Term)
	require.Contains(t, got.Consequences[0].HGVSp, "p.Pro4715Leu")
}

// TestLongGenesOfRetrovirusesAreFound: of HIV-1 (NC_001802.1) gag, gag-pol by slippage, env, and nef, which in this strain has a stop within.
func TestLongGenesOfRetrovirusesAreFound(t *testing.T) {
	t.Parallel()
	c := contigOf(t, filepath.Join("testdata", "hiv1.fa.gz"))
	for _, reverse := range []bool{false, true} {
		n := len(c.Seq)
		if reverse {
			c.Seq = reverseComplement(c.Seq)
		}
		r := find(t, Options{}, c)
		require.Equal(t, standard, r.Code)
		var got [][3]int
		for _, g := range r.Genes {
			require.Equal(t, reverse, g.Reverse)
			start, end, joint := g.Start, g.End, g.Joint
			if reverse {
				start, end = n-end, n-start
				if g.Slips {
					joint = n - 1 - joint
				}
			}
			got = append(got, [3]int{start, joint, end})
		}
		require.ElementsMatch(t, [][3]int{{335, 0, 1838}, {335, 1636, 4642}, {5770, 0, 8341}, {8342, 0, 8714}}, got)
	}
}
