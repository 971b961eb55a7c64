package simulate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/simulate"
)

// The changes back, planted into the new reference, give the old one, and homopolymers
// hold all sites that change one.
func TestReverse(t *testing.T) {
	g := repetitive(t, 30_000)
	spec, err := simulate.ParseSpec("snp=200,indel=200,mnp=50,delins=50,neighbours=100,max=20")
	require.NoError(t, err)
	sites, err := simulate.Plant(g, spec, 1, 3)
	require.NoError(t, err)
	for _, c := range g.Contigs {
		own := ofContig(sites, c.Name)
		h, back, err := simulate.Reverse(c, own)
		require.NoError(t, err)
		require.Len(t, back, len(own))
		planted := &genome.Contig{Name: c.Name, Seq: h.Seq}
		require.Equal(t, string(c.Seq), spelled(planted, back, 0))
		again, err := simulate.Haplotypes(planted, back, 1)
		require.NoError(t, err)
		require.Equal(t, string(c.Seq), string(again[0].Seq))

		within := make([]bool, len(h.Seq))
		intervals := simulate.Homopolymers(c, h, 5)
		for _, v := range intervals {
			for i := v.Start; i < v.End; i++ {
				within[i] = true
			}
		}
		covered := 0
		for _, v := range simulate.Outside(intervals, len(h.Seq)) {
			covered += v.End - v.Start
			require.False(t, within[v.Start])
		}
		for _, in := range within {
			if in {
				covered++
			}
		}
		require.Equal(t, len(h.Seq), covered)
		inHomopolymer := 0
		for _, s := range back {
			if s.Ref[0] != s.Alts[0][0] {
				continue // no indel
			}
			// A change by copies of one base in a run that is 5 and more before or after.
			longer := max(len(s.Ref), len(s.Alts[0]))
			changed := s.Ref[1:] + s.Alts[0][1:]
			if longer == 1 || strings.Trim(changed, changed[:1]) != "" {
				continue
			}
			run := 0
			for i := s.Start + 1; i < len(h.Seq) && h.Seq[i] == changed[0]; i++ {
				run++
			}
			if max(run, run+len(s.Alts[0])-len(s.Ref)) >= 5 {
				inHomopolymer++
				require.True(t, within[s.Start], "%v", s)
			}
		}
		require.Positive(t, inHomopolymer)
	}
}
