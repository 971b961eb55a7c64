package annotate

import (
	"bufio"
	"compress/gzip"
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// TestProteinsMatchBiopython compares every coding sequence and its translation with what gffutils and Biopython make
// of the same files (testdata/models/make.py).
func TestProteinsMatchBiopython(t *testing.T) {
	f, err := os.Open("testdata/models/proteins.tsv.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	golden := map[string]map[string][]string{}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		c := strings.Split(sc.Text(), "\t")
		if golden[c[0]] == nil {
			golden[c[0]] = map[string][]string{}
		}
		golden[c[0]][c[1]] = c[2:]
	}
	require.NoError(t, sc.Err())

	lambda := filepath.Join("..", "testdata", "lambda")
	for name, files := range map[string][2]string{
		"lambda":   {filepath.Join(lambda, "reference.fa"), filepath.Join(lambda, "genes.gff3")},
		"sarscov2": {"testdata/models/sarscov2.fa.gz", "testdata/models/sarscov2.gff3.gz"},
		"ecoli":    {"testdata/models/ecoli.fa.gz", "testdata/models/ecoli.gff3.gz"},
		"human":    {"testdata/models/human.fa.gz", "testdata/models/human.gff3.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := genome.Load(files[0])
			require.NoError(t, err)
			var o ModelReader
			if name == "lambda" { // nine of its genes begin with GTG, and the file does not name the genetic code
				o.Codes.Default = 11
			}
			m, err := o.Load(g, files[1])
			require.NoError(t, err)
			require.NotEmpty(t, golden[name])
			seen := 0
			for _, k := range m.contigs {
				for _, tx := range k.transcripts {
					if tx.cds == nil {
						continue
					}
					seen++
					id := tx.protein
					want := golden[name][id]
					require.NotNil(t, want, "no protein %s", id)
					cds := tx.coding()[tx.pad:]
					sum := sha1.Sum(cds)
					require.Equal(t, want[1], hex.EncodeToString(sum[:]), "coding sequence of %s", id)
					require.Equal(t, want[2], tx.proteinSequence(), id)
					require.Equal(t, want[0], itoa(tx.code.table), id)
				}
			}
			require.Equal(t, len(golden[name]), seen)
			for _, f := range m.Faults {
				require.Contains(t, []FaultKind{NamedCode, CutCodon}, f.Kind, f.Examples)
			}
		})
	}
}
