package annotate

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// TestVEP116 holds consequences to those of Ensembl VEP 116.0 (testdata/vep116). Away from the ends of coding sequences the two
// say the same, but for a new stop codon within an insertion, which VEP calls otherwise. At the ends definitions differ
// in the ways that docs/files/consequences.md lists; how often is bounded, so that a change shows.
func TestVEP116(t *testing.T) {
	dir := filepath.Join("testdata", "vep116")
	g, err := genome.Load(filepath.Join(dir, "ref.fa.gz"))
	require.NoError(t, err)
	m, err := LoadModel(filepath.Join(dir, "genes.gff3.gz"), g)
	require.NoError(t, err)
	a := New(g, m).WithDistance(0, 0)
	name := g.Contigs[0].Name
	coding := map[string]*transcript{}
	for _, tx := range m.contigs[g.Contigs[0]].transcripts {
		coding[tx.id] = tx
	}
	f, err := os.Open(filepath.Join(dir, "vep.tsv.gz"))
	require.NoError(t, err)
	defer f.Close()
	gz, err := gzip.NewReader(f)
	require.NoError(t, err)

	inside, ends, differ, stops, more := 0, 0, 0, 0, 0
	sc := bufio.NewScanner(gz)
	for sc.Scan() {
		row := strings.Split(sc.Text(), "\t")
		pos, err := strconv.Atoi(row[0])
		require.NoError(t, err)
		ann, err := a.Annotate(name, pos, row[1], row[2])
		require.NoError(t, err)
		said := map[string]string{}
		for _, c := range ann.Consequences {
			if c.Feature != nil {
				var terms []string
				for _, term := range c.Terms {
					terms = append(terms, term.Name)
				}
				slices.Sort(terms)
				said[c.Feature.ID] = strings.Join(terms, "&")
			}
		}
		for entry := range strings.SplitSeq(row[3], ",") {
			id, want, ok := strings.Cut(entry, "=")
			if !ok {
				continue // between genes
			}
			tx := coding[id]
			require.NotNil(t, tx, id)
			if atEnd(tx, pos-1, pos-1+len(row[1])) {
				ends++
				if said[id] != want {
					differ++
				}
				continue
			}
			inside++
			if got := said[id]; got != want {
				require.Contains(t, got, "stop_gained", "%s:%d %s>%s %s: VEP has %s", name, pos, row[1], row[2], id, want)
				require.Greater(t, len(row[2]), len(row[1]))
				stops++
			}
		}
		for id := range said {
			if !strings.Contains(","+row[3], ","+id+"=") {
				// A deletion behind a gene that can also be written into its last codon: VEP goes by how it is written.
				require.Equal(t, coding[id].cdsEnd, pos, "%s:%d %s>%s %s", name, pos, row[1], row[2], id)
				more++
			}
		}
	}
	require.NoError(t, sc.Err())
	require.Greater(t, inside, 2400)
	require.Greater(t, ends, 700)
	require.LessOrEqual(t, differ, 202)
	require.LessOrEqual(t, stops, 5)
	require.LessOrEqual(t, more, 4)
}

// atEnd reports whether a change of the bases [from,to) lies within nine bases of an end of a coding sequence.
func atEnd(tx *transcript, from, to int) bool {
	const near = 9
	return from < tx.cdsStart+near || to > tx.cdsEnd-near
}
