package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDescriptionsAsPeopleWriteThem holds spellings that are no normal form to what they mean by biocommons hgvs;
// testdata/hgvs/make_written.py made them, and mutalyzer's grammar takes them all.
func TestDescriptionsAsPeopleWriteThem(t *testing.T) {
	dir := filepath.Join("testdata", "hgvs")
	n := readNormalizer(t, filepath.Join(dir, "genes.fa.gz"), filepath.Join(dir, "genes.gff3.gz"))
	seq := string(n.a.genome.Contigs[0].Flat())
	text, err := os.ReadFile(filepath.Join(dir, "written.tsv"))
	require.NoError(t, err)
	denotes := func(g string) string {
		_, change, _ := strings.Cut(g, ":g.")
		list, err := pieces(seq, change)
		require.NoError(t, err)
		return molecule(seq, list)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, f, 4, line)
		kind, in, grammar, want := f[0], f[1], f[2], f[3]
		require.Equal(t, "yes", grammar, in)
		kinds[kind]++
		got, err := n.Normalize(in)
		if message, refused := strings.CutPrefix(want, "!"); refused {
			require.ErrorContains(t, err, message, "%s: %s", kind, in)
			continue
		}
		require.NoError(t, err, "%s: %s", kind, in)
		again, err := n.Normalize(got.Description)
		require.NoError(t, err, "%s: %s is %s", kind, in, got.Description)
		require.Equal(t, got, again, "%s: %s is %s", kind, in, got.Description)
		if strings.HasSuffix(got.Genomic, "]") && !strings.HasSuffix(want, "]") { // biocommons has no repeats
			require.Equal(t, denotes(want), denotes(got.Genomic), "%s: %s is %s, want %s", kind, in, got.Genomic, want)
			continue
		}
		if strings.Count(got.Genomic, "_") > strings.Count(want, "_") { // nor ranges that are copied
			_, change, _ := strings.Cut(got.Genomic, ":g.")
			require.Equal(t, denotes(want), withCopies(t, seq, change), "%s: %s is %s, want %s", kind, in, got.Genomic, want)
			continue
		}
		require.Equal(t, want, got.Genomic, "%s: %s is %s", kind, in, got.Description)
	}
	require.Len(t, kinds, 22)
}
