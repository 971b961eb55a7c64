package annotate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestView(t *testing.T) {
	g := readGenome(t, ">c\nCCTTATTTAACCAGCCATCC\n") // MAK* on the reverse strand at 4 to 18, an intron of CC at 11 to 12
	m, err := ReadModel(strings.NewReader(rows("c gene 1 20 - . ID=g;Name=abc", "c mRNA 2 20 - . ID=t;Parent=g",
		"c exon 2 10 - . Parent=t", "c exon 13 20 - . Parent=t", "c CDS 13 18 - 0 ID=p;Parent=t;transl_table=11", "c CDS 5 10 - 0 ID=p;Parent=t")), g)
	require.NoError(t, err)
	require.Empty(t, m.TranscriptsOn("d"))
	views := m.TranscriptsOn("c")
	require.Len(t, views, 1)
	v := &views[0]
	require.Equal(t, []Span{{1, 10}, {12, 20}}, v.Exons)
	require.Equal(t, []CodingSpan{{Span{4, 10}, 0}, {Span{12, 18}, 0}}, v.CDS)
	require.Equal(t, "t abc p protein_coding", v.ID+" "+v.Gene.Symbol+" "+v.Protein+" "+v.Biotype)
	require.False(t, v.Forward)
	require.Equal(t, 11, v.GeneticCode)
	require.Equal(t, "ATGGCTTTAAAT", string(v.CodingSequence()))
	require.Equal(t, byte('W'), v.Amino('T', 'G', 'G'))
	require.True(t, v.IsStart('G', 'T', 'G'))
	require.Zero(t, v.Exception(1))
}
