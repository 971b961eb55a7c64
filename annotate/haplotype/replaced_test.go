package haplotype

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What replaces bases by more or fewer ones makes the protein that the literature has for it, alone and with a neighbour;
// bcftools csq has 746ELREATS>746S for the first.
func TestReplacedBasesAreTranslatedAsTheyAre(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "events")
	fa, err := os.ReadFile(filepath.Join(dir, "reference.fa"))
	require.NoError(t, err)
	gff, err := os.ReadFile(filepath.Join(dir, "genes.gff3"))
	require.NoError(t, err)
	genes := load(t, fa, gff, DefaultCode)
	for _, c := range []struct {
		name, contig string
		variants     []Variant
		want         string
	}{
		{"EGFR c.2237_2255delinsT", "EGFR_exon19", []Variant{{3137, "AATTAAGAGAAGCAACATC", "T"}}, "inframe_deletion 746ELREATS>746V"},
		{"EGFR c.2239_2248delinsC", "EGFR_exon19", []Variant{{3139, "TTAAGAGAAG", "C"}}, "inframe_deletion 747LREA>747P"},
		{"EGFR c.2238_2248delinsGC", "EGFR_exon19", []Variant{{3138, "ATTAAGAGAAG", "GC"}}, "inframe_deletion 746ELREA>746EP"},
		{"HIV-1 RT T69SSS", "HXB2_pol", []Variant{{2002, "ACT", "TCTTCCTCC"}}, "inframe_insertion 69T>69SSS"},
		{"HIV-1 RT, one base more in codon 215 and one lost in 216", "HXB2_pol", []Variant{{2441, "C", "TT"}, {2443, "AC", "A"}}, "missense 215TT>215IQ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			effects, err := genes.Effects(c.contig, c.variants, 0)
			require.NoError(t, err)
			require.Len(t, effects[0], 1)
			require.Equal(t, c.want, effects[0][0].Terms.Names()[0]+" "+effects[0][0].AminoAcids)
		})
	}
}
