package genome

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSynonyms: contigs are known by all names that a table has for them, whatever kind of table
// it is, and whichever of the names the reference has.
func TestSynonyms(t *testing.T) {
	const report = "# Assembly name:  GRCh38.p14\r\n#\r\n" +
		"# Sequence-Name\tSequence-Role\tAssigned-Molecule\tAssigned-Molecule-Location/Type\tGenBank-Accn\tRelationship\tRefSeq-Accn\tAssembly-Unit\tSequence-Length\tUCSC-style-name\r\n" +
		"1\tassembled-molecule\t1\tChromosome\tCM000663.2\t=\tNC_000001.11\tPrimary Assembly\t248956422\tchr1\r\n" +
		"HSCHR1_CTG1_UNLOCALIZED\tunlocalized-scaffold\t1\tChromosome\tKI270706.1\t=\tNT_187361.1\tPrimary Assembly\t175055\tchr1_KI270706v1_random\r\n" +
		"HSCHRUN_RANDOM_9\tunplaced-scaffold\tna\tna\tGL000009.2\t=\tna\tPrimary Assembly\t201709\tna\r\n" +
		"MT\tassembled-molecule\tMT\tMitochondrion\tJ01415.2\t=\tNC_012920.1\tnon-nuclear\t16569\tchrM\r\n"
	const old = "#alias\tchrom\tsource\n1\tchr1\tensembl\nCM000663.2\tchr1\tgenbank,refseq\nNC_000001.11\tchr1\trefseq\nKI270706.1\tchr1_KI270706v1_random\tensembl,genbank\nMT\tchrM\tensembl\nJ01415.2\tchrM\trefseq\n"
	const hub = "# ucsc\tassembly\tgenbank\tncbi\trefseq\nchr1\t1\tCM000663.2\t1\tNC_000001.11\nchr1_KI270706v1_random\tHSCHR1_CTG1_UNLOCALIZED\tKI270706.1\tHSCHR1_CTG1_UNLOCALIZED\t\nchrM\tMT\tJ01415.2\tMT\tNC_012920.1\n"
	const plain = "\ufeffchr1\t1\n1\tCM000663.2\nchr1_KI270706v1_random KI270706.1\n\nMT\tchrM\nchrM\tJ01415.2\nother\tunknown\n"
	for name, table := range map[string]string{"assembly report": report, "chromAlias": old, "chromAlias of a hub": hub, "pairs": plain} {
		for _, reference := range [][]string{
			{"1", "KI270706.1", "MT"}, {"chr1", "chr1_KI270706v1_random", "chrM"}, {"CM000663.2", "KI270706.1", "J01415.2"},
		} {
			g, err := Read(strings.NewReader(">" + strings.Join(reference, "\nA\n>") + "\nA\n"))
			require.NoError(t, err)
			require.NoError(t, g.AddSynonyms(strings.NewReader(table)), name)
			for i, synonyms := range [][]string{{"1", "chr1", "CM000663.2"}, {"KI270706.1", "chr1_KI270706v1_random"}, {"MT", "chrM", "J01415.2"}} {
				for _, synonym := range synonyms {
					require.Same(t, g.Contigs[i], g.Contig(synonym), "%s: %s of %v", name, synonym, reference)
					require.Equal(t, i, g.Rank(synonym))
				}
			}
			require.Nil(t, g.Contig("other"))
			require.Nil(t, g.Contig("ensembl"))
			require.Nil(t, g.Contig("na"))
			require.Equal(t, 3, g.Rank("other"))
			require.Equal(t, reference, g.Names())
		}
	}
	g, err := Read(strings.NewReader(">chr1\nA\n>chr2\nA\n"))
	require.NoError(t, err)
	for _, tt := range []struct{ table, says string }{
		{"chr1\t1\n2\n", "line 2: it has one column"},
		{"chr1\t1\n2\tchr2\n1\t2\n", "line 3: chr1 and chr2 are two contigs of the reference, and the table makes them one"},
		{"1\tchr1\tensembl\n2\tchr2\tensembl\n", "line 2: chr2 and chr1 are two contigs"},
		{"a\tb\n", "none of its names (a, b) is a contig of the reference (chr1, chr2)"},
		{"", "none of its names"},
	} {
		require.ErrorContains(t, g.AddSynonyms(strings.NewReader(tt.table)), tt.says)
	}
	path := filepath.Join(t.TempDir(), "names.tsv")
	require.NoError(t, os.WriteFile(path, []byte("1\n"), 0o600))
	require.ErrorContains(t, g.LoadSynonyms(path), path+": line 1: it has one column")
	require.ErrorContains(t, g.LoadSynonyms(path+"x"), "no such file")
}

// FuzzSynonyms: whatever a table holds, each of its names is one contig's or none's, and those
// of a row are the same one's.
func FuzzSynonyms(f *testing.F) {
	f.Add("a\t1\n1\tx\n")
	f.Add("#alias\tchrom\tsource\n1\ta\tens\n")
	f.Add("# Sequence-Name\tSequence-Role\tAssigned-Molecule\nx\tassembled-molecule\ta\n")
	f.Fuzz(func(t *testing.T, table string) {
		g, err := Read(strings.NewReader(">a\nA\n>b\nA\n"))
		require.NoError(t, err)
		if g.AddSynonyms(strings.NewReader(table)) != nil {
			return
		}
		require.Same(t, g.Contigs[0], g.Contig("a"))
		require.Same(t, g.Contigs[1], g.Contig("b"))
		if strings.Contains(table, "#") {
			return
		}
		for line := range strings.Lines(strings.TrimPrefix(table, "\ufeff")) {
			row := strings.Split(strings.TrimRight(strings.TrimSuffix(line, "\n"), "\r"), "\t")
			for _, name := range row[1:] {
				if first := strings.TrimSpace(row[0]); isName(first) && isName(strings.TrimSpace(name)) {
					require.Equal(t, g.Contig(first), g.Contig(strings.TrimSpace(name)), "%q", line)
				}
			}
		}
	})
}
