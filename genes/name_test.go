package genes

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genes/homology"
	"github.com/porestream/porestream/genome"
)

// lambdaGenes are the genes of phage lambda by its sequence alone, and its proteins as they are annotated.
func lambdaGenes(t *testing.T) ([]Contig, *Result, []homology.Protein) {
	t.Helper()
	folder := filepath.Join("..", "testdata", "lambda")
	g, err := genome.Load(filepath.Join(folder, "reference.fa"))
	require.NoError(t, err)
	contigs := []Contig{{Name: g.Contigs[0].Name, Seq: g.Contigs[0].Seq}}
	r, err := Find(t.Context(), contigs, Options{})
	require.NoError(t, err)
	known, err := homology.Load(filepath.Join(folder, "genes.gff3") + "," + filepath.Join(folder, "reference.fa"))
	require.NoError(t, err)
	return contigs, r, known
}

// TestName names lambda's genes after its annotation: each that ends where an annotated one does has its name.
func TestName(t *testing.T) {
	t.Parallel()
	contigs, r, known := lambdaGenes(t)
	index, err := homology.NewIndex(known)
	require.NoError(t, err)
	require.NoError(t, r.Name(t.Context(), contigs, &Naming{Known: index, Identity: .5, Coverage: .8, Terms: func(p *homology.Protein) []string {
		return []string{"GO:0000002", "GO:0000001", "GO:0000002"}
	}}))
	require.Greater(t, r.Named, 55)
	found := map[int]string{}
	for i := range r.Genes {
		g := &r.Genes[i]
		if s := g.Similar; s != nil {
			require.GreaterOrEqual(t, s.Identity, .5)
			require.GreaterOrEqual(t, min(s.QueryCoverage, s.Coverage), .8)
			require.Equal(t, []string{"GO:0000001", "GO:0000002"}, s.Terms)
			if stop := g.End; !g.Reverse {
				found[stop] = s.Symbol
			}
		}
	}
	for stop, want := range map[int]string{736: "nu1", 2636: "A", 18903: "J", 38241: "cro", 45509: "S"} {
		require.Equal(t, want, found[stop])
	}
	var gff, proteins bytes.Buffer
	require.NoError(t, WriteGFF3(&gff, contigs, r))
	require.Contains(t, gff.String(), ";inference=ab initio prediction:Porestream,similar to AA sequence:genes.gff3:lambdap01;similar_to=lambdap01;"+
		"identity=100.0;query_coverage=100.0;subject_coverage=100.0;")
	require.Contains(t, gff.String(), ";Ontology_term=GO:0000001,GO:0000002\n")
	require.NoError(t, WriteProteins(&proteins, contigs, r))
	written, err := homology.Read(&proteins, "x", nil)
	require.NoError(t, err)
	require.Len(t, written, len(r.Genes))
	require.Equal(t, string(known[0].Seq), string(written[0].Seq))

	// What nothing is like stays without a name, and names are taken away by naming anew.
	other, err := homology.NewIndex([]homology.Protein{{ID: "x", Gene: "x", Seq: []byte(strings.Repeat("MKVLAAGIT", 30))}})
	require.NoError(t, err)
	require.NoError(t, r.Name(t.Context(), contigs, &Naming{Known: other, Identity: .5, Coverage: .8}))
	require.Zero(t, r.Named)
	gff.Reset()
	require.NoError(t, WriteGFF3(&gff, contigs, r))
	require.NotContains(t, gff.String(), "inference")
}

// TestSymbolsAreForTheMostSimilar: of two genes that are like one known protein, the less similar one gets the product alone.
func TestSymbolsAreForTheMostSimilar(t *testing.T) {
	t.Parallel()
	contigs, r, known := lambdaGenes(t)
	i := 0
	for known[i].Gene != "J" {
		i++
	}
	j := known[i]
	half := len(j.Seq) / 2
	j.Product = "tail; a=b"
	seq := contigs[0].Seq[15505-1 : 18903]
	changed := bytes.Clone(seq)
	for at := 30; at+3 < half; at += 30 {
		copy(changed[at:], "GCA") // alanines
	}
	twice := []Contig{{Name: "two", Seq: append(append(bytes.Clone(changed), make([]byte, 100)...), seq...)}}
	result := &Result{Code: r.Code, Genes: []Gene{{Start: 0, End: len(seq)}, {Start: len(seq) + 100, End: 2*len(seq) + 100}}}
	index, err := homology.NewIndex([]homology.Protein{j})
	require.NoError(t, err)
	require.NoError(t, result.Name(t.Context(), twice, &Naming{Known: index, Identity: .5, Coverage: .8}))
	require.Empty(t, result.Genes[0].Similar.Symbol)
	require.Equal(t, "J", result.Genes[1].Similar.Symbol)
	var out bytes.Buffer
	require.NoError(t, WriteGFF3(&out, twice, result))
	require.Equal(t, 4, strings.Count(out.String(), ";product=tail%3B a%3Db"))
	require.Contains(t, out.String(), "Name=PORE_00001;")
	require.Contains(t, out.String(), "Name=J;")
}
