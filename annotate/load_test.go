package annotate

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// humanSized writes gene models as Ensembl has them: three transcripts a gene, ten exons each, both strands, no stop
// codon inside, and the genome that they are on.
func humanSized(genes int) (*genome.Genome, []byte) {
	const (
		exon, intron, exons = 150, 150, 10
		span                = exons*(exon+intron) + 600
	)
	var gff bytes.Buffer
	gff.WriteString("##gff-version 3\n")
	for n := range genes {
		at, strand := n*span+300, "+-"[n%2:n%2+1]
		fmt.Fprintf(&gff, "1\tensembl_havana\tgene\t%d\t%d\t.\t%s\t.\tID=gene:ENSG%011d;Name=GENE%d;biotype=protein_coding;description=made up gene %d [Source:HGNC Symbol%%3BAcc:HGNC:%d];gene_id=ENSG%011d;logic_name=ensembl_havana_gene_homo_sapiens;version=3\n", at+1, at+exons*(exon+intron), strand, n, n, n, n, n)
		for v := range 3 {
			id := fmt.Sprintf("ENST%08d%03d", n, v)
			fmt.Fprintf(&gff, "1\tensembl_havana\tmRNA\t%d\t%d\t.\t%s\t.\tID=transcript:%s;Parent=gene:ENSG%011d;Name=GENE%d-20%d;biotype=protein_coding;ccdsid=CCDS%d.1;tag=basic,Ensembl_canonical,MANE_Select;transcript_id=%s;transcript_support_level=1;version=2\n", at+1, at+exons*(exon+intron), strand, id, n, n, v, n, id)
			for x := range exons {
				s := at + x*(exon+intron)
				fmt.Fprintf(&gff, "1\tensembl_havana\texon\t%d\t%d\t.\t%s\t.\tParent=transcript:%s;Name=ENSE%d%d;constitutive=0;ensembl_end_phase=0;ensembl_phase=0;exon_id=ENSE%011d;rank=%d;version=1\n", s+1, s+exon, strand, id, n, x, n, x+1)
				fmt.Fprintf(&gff, "1\tensembl_havana\tCDS\t%d\t%d\t.\t%s\t0\tID=CDS:ENSP%08d%03d;Parent=transcript:%s;protein_id=ENSP%08d%03d;version=2\n", s+1, s+exon, strand, n, v, id, n, v)
			}
		}
	}
	fasta := ">1\n" + strings.Repeat("ATGGCATTCGAACAG", (genes*span+600)/15+1) + "\n"
	g, err := genome.Read(strings.NewReader(fasta))
	if err != nil {
		panic(err)
	}
	return g, gff.Bytes()
}

func TestLoadManyGenes(t *testing.T) {
	g, gff := humanSized(300)
	m, err := ReadModel(bytes.NewReader(gff), g)
	require.NoError(t, err)
	require.Empty(t, m.Warnings())
	require.Equal(t, 900, m.Transcripts())
	views := m.TranscriptsOn("1")
	v := views[len(views)/2]
	require.Len(t, v.CDS, 10)
	require.Len(t, v.CodingSequence(), 1500)
}

// BenchmarkLoadModel reads 20,000 genes with 60,000 transcripts, as many as the protein-coding ones of human have.
func BenchmarkLoadModel(b *testing.B) {
	g, gff := humanSized(20_000)
	b.SetBytes(int64(len(gff)))
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		m, err := ReadModel(bytes.NewReader(gff), g)
		if err != nil || m.Transcripts() != 60_000 {
			b.Fatal(m.Transcripts(), err)
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-kept")
		runtime.KeepAlive(m)
		b.StartTimer()
	}
}
