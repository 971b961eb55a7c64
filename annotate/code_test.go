package annotate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGeneticCodes(t *testing.T) {
	var c GeneticCodes
	require.NoError(t, c.Set("11,MT=2"))
	require.NoError(t, c.Set("chr=with=sign=5"))
	require.Equal(t, "11,MT=2,chr=with=sign=5", c.String())
	for _, bad := range []string{"", "x", "7", "MT=", "MT=8", "1,,2"} {
		require.ErrorContains(t, new(GeneticCodes).Set(bad), "is not the number of one of NCBI's genetic codes", bad)
	}
	for _, x := range []struct {
		codes, contig string
		table         int
		named         bool
	}{
		{"", "chr1", 1, false}, {"", "MT", 2, true}, {"", "chrM", 2, true}, {"", "Mito", 3, true}, {"", "Pt", 11, true},
		{"11", "chr1", 11, false}, {"11", "MT", 11, false}, {"MT=5", "MT", 5, false}, {"11,MT=5", "MT", 5, false}, {"MT=5", "chr1", 1, false},
	} {
		var c GeneticCodes
		if x.codes != "" {
			require.NoError(t, c.Set(x.codes))
		}
		table, named := c.of(x.contig)
		require.Equal(t, x.table, table, x)
		require.Equal(t, x.named, named, x)
	}
}

// TestOwnCodeGoesFirst has a row that says its code where the options say another.
func TestOwnCodeGoesFirst(t *testing.T) {
	g := readGenome(t, ">MT\nATGGCTTGAAGATAA\n")
	for attributes, want := range map[string]string{"": "MAWR*", ";transl_table=2": "MAW**", ";transl_table=5": "MAWS*", ";transl_table=1": "MA*R*"} {
		m, err := ModelReader{Codes: GeneticCodes{Contig: map[string]int{"MT": 4}}}.Read(strings.NewReader(rows("MT CDS 1 15 + 0 ID=p"+attributes)), g)
		require.NoError(t, err)
		require.Equal(t, want, m.TranscriptsOn("MT")[0].transcript.proteinSequence(), attributes)
	}
}
