package annotate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// Two genes as each of the dialects has them: PLUS of three exons and MINUS of two on the other strand.
const (
	plusExons   = "1001-1150,1351-1470,1671-1810"
	plusCDS     = "1051-1150,1351-1470,1671-1750"
	minusExons  = "3311-3500,3651-3780"
	minusCDS    = "3351-3500,3651-3740"
	plusFirst   = "1051-1150" // a shorter protein of the same gene
	bothCoding  = "protein_coding"
	dialectsDir = "testdata/dialects"
)

// said are the transcripts of a model: gene, symbol, transcript, protein, biotype, strand, exons, CDS.
func said(m *Model) []string {
	var out []string
	text := func(spans []Span) string {
		s := make([]string, len(spans))
		for i, x := range spans {
			s[i] = fmt.Sprintf("%d-%d", x.Start+1, x.End)
		}
		return strings.Join(s, ",")
	}
	for v := range m.All() {
		var cds []Span
		for _, c := range v.CDS {
			cds = append(cds, c.Span)
		}
		strand := "-"
		if v.Forward {
			strand = "+"
		}
		out = append(out, strings.Join([]string{v.Gene.ID, v.Gene.Symbol, v.ID, v.Protein, v.Biotype, strand, text(v.Exons), text(cds)}, " "))
	}
	slices.Sort(out)
	return out
}

// The dialects of GTF and GFF3, each as the program named writes it, give the transcripts that the rows say and no others.
func TestDialects(t *testing.T) {
	g, err := genome.Load(filepath.Join(dialectsDir, "ref.fa"))
	require.NoError(t, err)
	// pair has both genes with untranslated ends, coding both without.
	pair := func(names ...string) []string {
		return []string{
			strings.Join(append(slices.Clone(names[:4]), bothCoding, "+", plusExons, plusCDS), " "),
			strings.Join(append(slices.Clone(names[4:]), bothCoding, "-", minusExons, minusCDS), " "),
		}
	}
	coding := func(names ...string) []string {
		return []string{
			strings.Join(append(slices.Clone(names[:4]), bothCoding, "+", plusCDS, plusCDS), " "),
			strings.Join(append(slices.Clone(names[4:]), bothCoding, "-", minusCDS, minusCDS), " "),
		}
	}
	ensembl := pair("G1", "PLUS", "T1", "P1.1", "G2", "MINUS", "T2", "P2.1")
	gencode := pair("G1.1", "PLUS", "T1.1", "P1.1", "G2.1", "MINUS", "T2.1", "P2.1")
	ncbi := pair("PLUS", "PLUS", "NM_1.1", "NP_1.1", "MINUS", "MINUS", "NM_2.1", "NP_2.1")
	agat := pair("G1", "PLUS", "T1", "T1", "G2", "MINUS", "T2", "T2")
	augustus := coding("g1", "", "g1.t1", "g1.t1", "g2", "", "g2.t1", "g2.t1")
	virus := append(coding("gp1", "PLUS", "YP_1.1", "YP_1.1", "gp2", "MINUS", "YP_2.1", "YP_2.1"),
		strings.Join([]string{"gp1", "PLUS", "YP_9.1", "YP_9.1", bothCoding, "+", plusFirst, plusFirst}, " "))
	listed := map[string]bool{}
	for _, c := range []struct {
		file string
		want []string
		warn string // the expected warning; "" if none
	}{
		{"ensembl.gtf", ensembl, ""},
		{"ensembl.gff3", ensembl, ""},
		{"gencode.gtf", gencode, ""},
		{"gencode.gff3", pair("G1.1", "PLUS", "T1.1", "P1.1", "G2.1", "MINUS", "T2.1", "P2.1"), ""},
		{"ncbi.gtf", ncbi, ""},
		{"ncbi.gff3", ncbi, ""},
		{"refseqgene.gff3", ncbi, ""},
		{"ncbi-2020.gtf", virus, "has 100 bases, not a multiple of three"},
		{"ncbi-unassigned.gtf", virus, "has 100 bases, not a multiple of three"},
		{"braker.gtf", augustus, ""},
		{"augustus.gtf", augustus, ""},
		{"augustus.gff3", coding("g1", "", "g1.t1", "g1.t1.cds", "g2", "", "g2.t1", "g2.t1.cds"), ""},
		{"helixer.gff3", []string{
			"Test_species_chr1_000001  Test_species_chr1_000001.1 Test_species_chr1_000001.1 protein_coding + " + plusExons + " " + plusCDS,
			"Test_species_chr1_000002  Test_species_chr1_000002.1 Test_species_chr1_000002.1 protein_coding - " + minusExons + " " + minusCDS,
		}, ""},
		{"tiberius.gff3", coding("gene_000001", "", "gene_000001.t1", "gene_000001.t1", "gene_000002", "", "gene_000002.t1", "gene_000002.t1"), ""},
		{"tiberius.gtf", augustus, ""},
		{"stringtie.gtf", []string{
			"STRG.1  STRG.1.1  transcript + " + plusExons + " ", "STRG.2  STRG.2.1  transcript - " + minusExons + " ",
		}, ""},
		{"agat.gtf", pair("G1", "PLUS", "T1", "P1", "G2", "MINUS", "T2", "P2"), ""},
		{"agat-0.3.gtf", pair("G1", "PLUS", "T1", "P1", "G2", "MINUS", "T2", "P2"), ""},
		{"single-quotes.gtf", pair("G1", "PLUS", "T1", "P1", "G2", "MINUS", "T2", "P2"), ""},
		{"no-quotes.gtf", pair("G1", "PLUS", "T1", "P1", "G2", "MINUS", "T2", "P2"), ""},
		{"equals-signs.gtf", agat, ""},
		{"tair10.gff3", pair("AT1G01010", "AT1G01010", "AT1G01010.1", "AT1G01010.1", "AT1G02010", "AT1G02010", "AT1G02010.1", "AT1G02010.1"), ""},
		{"araport11.gtf", pair("AT1G01010", "PLUS;PLUSA", "AT1G01010.1", "AT1G01010.1", "AT1G02010", "MINUS;MINUSA", "AT1G02010.1", "AT1G02010.1"), ""},
	} {
		listed[c.file] = true
		t.Run(c.file, func(t *testing.T) {
			m, err := LoadModel(filepath.Join(dialectsDir, c.file), g)
			require.NoError(t, err)
			slices.Sort(c.want)
			require.Equal(t, c.want, said(m))
			if c.warn == "" {
				require.Empty(t, m.Warnings())
			} else {
				require.Len(t, m.Warnings(), 1)
				require.Contains(t, m.Warnings()[0], c.warn)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(dialectsDir, "*.g*"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, listed[filepath.Base(f)], "%s is in no row of the table", f)
	}
}

// A transcript_id of GTF counts within its gene_id; rows without a gene_id are of the transcript's gene, whichever comes
// first.
func TestTranscriptsAreNamedByTheirGeneToo(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("GCA", 60)+"\n")
	for name, in := range map[string]string{
		"same transcript_id in two genes": rows(`c exon 1 30 + . gene_id "a"; transcript_id "1";`, `c exon 61 90 - . gene_id "b"; transcript_id "1";`),
		"numbers without quotes":          rows(`c exon 1 30 + . gene_id a; transcript_id 1`, `c exon 61 90 - . gene_id b; transcript_id 1`),
	} {
		m, err := ReadModel(strings.NewReader(in), g)
		require.NoError(t, err, name)
		require.Equal(t, []string{"a  1  transcript + 1-30 ", "b  1  transcript - 61-90 "}, strings.Split(strings.ReplaceAll(strings.Join(said(m), "\n"), " exon ", " transcript "), "\n"), name)
	}
	lines := []string{`c exon 1 30 + . transcript_id "t";`, `c exon 61 90 + . gene_id "a"; transcript_id "t";`, `c exon 121 150 + . transcript_id "t";`, `c exon 1 9 + . transcript_id "u";`}
	for range 2 {
		m, err := ReadModel(strings.NewReader(rows(lines...)), g)
		require.NoError(t, err)
		var genes []string
		for v := range m.All() {
			genes = append(genes, fmt.Sprintf("%s %s %d", v.Gene.ID, v.ID, len(v.Exons)))
		}
		slices.Sort(genes)
		require.Equal(t, []string{"a t 3", "u u 1"}, genes)
		slices.Reverse(lines)
	}
}

// Rows of unknown types have no effect: the model with them equals the model without them.
func TestUnknownRowsOfGTFAreIgnored(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("GCA", 60)+"\n")
	own := []string{`c CDS 1 30 + 0 gene_id "a"; transcript_id "t";`, `c exon 1 30 + . gene_id "a"; transcript_id "t";`}
	want, err := ReadModel(strings.NewReader(rows(own...)), g)
	require.NoError(t, err)
	for _, kind := range []string{"intron", "initial", "internal", "terminal", "single", "tss", "tts", "inter", "5'-UTR", "inter_CNS", "intron_CNS", "similarity", "Kozak"} {
		row := "c " + kind + ` 1 30 + . gene_id "a"; transcript_id "t";`
		for _, in := range [][]string{append([]string{row}, own...), append(slices.Clone(own), row)} {
			m, err := ReadModel(strings.NewReader(rows(in...)), g)
			require.NoError(t, err, kind)
			require.Equal(t, said(want), said(m), kind)
		}
	}
}

// Where each contig is a transcript, as in RefSeq's transcripts with their GFF3, the contig is what c. counts along.
func TestContigsThatAreTranscripts(t *testing.T) {
	const fasta = ">NM_000001.2\nGGCCATGGCTTGGAAATAACCTTTT\n" // MAWK at 5 to 19
	g := readGenome(t, fasta)
	gene := "NM_000001.2 gene 1 25 + . ID=gene-ABC;Name=ABC;gene=ABC"
	exons := []string{"NM_000001.2 exon 1 10 + . ID=id-1;Parent=gene-ABC;number=1", "NM_000001.2 exon 11 25 + . ID=id-2;Parent=gene-ABC;number=2"}
	cds := "NM_000001.2 CDS 5 19 + 0 ID=cds-NP_000001.1;Parent=gene-ABC;protein_id=NP_000001.1;gene=ABC"
	for name, in := range map[string]string{
		"CDS under the gene": rows(append([]string{"##sequence-region NM_000001.2 1 25", gene, cds}, exons...)...),
		"CDS alone":          rows(strings.Replace(cds, "Parent=gene-ABC;", "", 1)),
		"its own transcript": rows(gene, "NM_000001.2 mRNA 1 25 + . ID=rna-1;Parent=gene-ABC;transcript_id=NM_000001.2",
			"NM_000001.2 exon 1 25 + . Parent=rna-1", strings.Replace(cds, "Parent=gene-ABC", "Parent=rna-1", 1)),
	} {
		m, err := ReadModel(strings.NewReader(in), g)
		require.NoError(t, err, name)
		require.Equal(t, 1, m.Transcripts(), name)
		n := NewNormalizer(New(g, m), ProteinStyle{Predicted: true})
		for in, want := range map[string][3]string{
			"NM_000001.2:c.4del":        {"NM_000001.2:c.4del", "NP_000001.1:p.(Ala2LeufsTer?)", "NM_000001.2:6:TG:T"},
			"NM_000001.2(ABC):c.4del":   {"NM_000001.2:c.4del", "", ""},
			"NM_000001:c.7T>C":          {"NM_000001.2:c.7T>C", "NP_000001.1:p.(Trp3Arg)", "NM_000001.2:11:T:C"},
			"ABC:c.-4del":               {"NM_000001.2:c.-3del", "", ""},
			"NM_000001.2:c.*6T>A":       {"NM_000001.2:c.*6T>A", "", "NM_000001.2:25:T:A"},
			"NM_000001.2:c.10_12delAAA": {"NM_000001.2:c.10_12del", "NP_000001.1:p.(Lys4del)", ""},
			"NM_000001.2:n.5A>G":        {"NM_000001.2:n.5A>G", "NP_000001.1:p.(Met1?)", "NM_000001.2:5:A:G"},
		} {
			got, err := n.Normalize(in)
			require.NoError(t, err, "%s: %s", name, in)
			require.Equal(t, want[0], got.Description, "%s: %s", name, in)
			if want[1] != "" {
				require.Equal(t, want[1], got.Protein, "%s: %s", name, in)
			}
			if want[2] != "" {
				require.Equal(t, want[2], got.Loci[0].String(), "%s: %s", name, in)
			}
		}
		_, err = n.Normalize("NM_000001.2:c.*7T>A")
		require.ErrorContains(t, err, "lies outside transcript NM_000001.2", name)
	}
	// A genome's contig stays one.
	g = readGenome(t, strings.ReplaceAll(fasta, "NM_000001.2", "NC_000001.2"))
	m, err := ReadModel(strings.NewReader(strings.ReplaceAll(rows(gene, cds), "NM_000001.2", "NC_000001.2")), g)
	require.NoError(t, err)
	_, err = NewNormalizer(New(g, m), ProteinStyle{}).Normalize("NC_000001.2:c.4del")
	require.ErrorContains(t, err, "is a contig")
}
