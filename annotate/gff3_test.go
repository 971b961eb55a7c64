package annotate

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

func readGenome(t testing.TB, fasta string) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(fasta))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// rows writes GFF3 lines of space-separated columns.
func rows(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		if strings.HasPrefix(l, "#") {
			b.WriteString(l + "\n")
			continue
		}
		f := strings.Fields(l)
		b.WriteString(f[0] + "\tx\t" + strings.Join(f[1:4], "\t") + "\t.\t" + strings.Join(f[4:6], "\t") + "\t" + strings.Join(f[6:], " ") + "\n")
	}
	return b.String()
}

// TestGFF3Styles reads one gene as different sources write it.
func TestGFF3Styles(t *testing.T) {
	const fasta = ">c\nCCATGGCTTGGAAATAACC\n" // MAWK at 3 to 17
	g := readGenome(t, fasta)
	ncbi := rows("c region 1 19 + . ID=c:1..19;Is_circular=true", "c gene 3 17 + . ID=gene-b1;Name=abc;gene_biotype=protein_coding",
		"c CDS 3 17 + 0 ID=cds-NP_1.1;Parent=gene-b1;protein_id=NP_1.1;transl_table=11")
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(ncbi)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, in, id, gene, biotype, hgvsc, hgvsp string }{
		{"Ensembl", rows("c gene 1 19 + . ID=gene:G1;Name=abc;biotype=protein_coding", "c mRNA 1 19 + . ID=transcript:T1;Parent=gene:G1;biotype=protein_coding",
			"c exon 1 19 + . Parent=transcript:T1", "c CDS 3 17 + 0 ID=CDS:P1;Parent=transcript:T1;protein_id=P1"),
			"T1", "G1", "protein_coding", "T1:c.4G>A", "P1:p.Ala2Thr"},
		{"Ensembl, children first", rows("c CDS 3 17 + 0 ID=CDS:P1;Parent=transcript:T1", "c exon 1 19 + . Parent=transcript:T1",
			"c mRNA 1 19 + . ID=transcript:T1;Parent=gene:G1;biotype=nonsense_mediated_decay", "c gene 1 19 + . ID=gene:G1;Name=abc"),
			"T1", "G1", "nonsense_mediated_decay", "T1:c.4G>A", "P1:p.Ala2Thr"},
		{"Ensembl, versions", rows("c gene 1 19 + . ID=gene:G1;Name=abc;version=3", "c mRNA 1 19 + . ID=transcript:T1;Parent=gene:G1;transcript_id=T1;version=2",
			"c exon 1 19 + . Parent=transcript:T1;version=1", "c CDS 3 17 + 0 ID=CDS:P1;Parent=transcript:T1;protein_id=P1;version=4"),
			"T1", "G1", "protein_coding", "T1.2:c.4G>A", "P1.4:p.Ala2Thr"},
		{"NCBI eukaryote", rows("c gene 1 19 + . ID=gene-abc;Name=abc;gene=abc;gene_biotype=protein_coding", "c mRNA 1 19 + . ID=rna-NM_1.2;Parent=gene-abc;transcript_id=NM_1.2;tag=MANE%20Select",
			"c exon 1 19 + . ID=exon-NM_1.2-1;Parent=rna-NM_1.2", "c CDS 3 17 + 0 ID=cds-NP_1.1;Parent=rna-NM_1.2;protein_id=NP_1.1"),
			"NM_1.2", "abc", "protein_coding", "NM_1.2:c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"NCBI prokaryote", ncbi, "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"gzip", zipped.String(), "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"CDS alone", rows("c CDS 3 17 + 0 ID=X_1;Name=abc"), "X_1", "X_1", "protein_coding", "c(X_1):c.4G>A", "X_1:p.Ala2Thr"},
		{"no exon rows but UTRs", rows("c gene 1 19 + . ID=g1;Name=abc", "c mRNA 1 19 + . ID=t1;Parent=g1", "c five_prime_UTR 1 2 + . Parent=t1", "c CDS 3 17 + 0 ID=p1;Parent=t1"),
			"t1", "g1", "protein_coding", "t1:c.4G>A", "p1:p.Ala2Thr"},
		{"sequences at the end", ncbi + "##FASTA\n" + fasta, "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"Prokka", rows("##sequence-region c 1 19", "c CDS 3 17 + 0 ID=X_1;gene=abc;inference=ab initio prediction:Prodigal:002006;locus_tag=X_1;product=MAWK synthase"), "X_1", "X_1", "protein_coding", "c(X_1):c.4G>A", "X_1:p.Ala2Thr"},
		{"Prokka, RNA without exons", rows("c tRNA 1 19 + . ID=X_2;Name=abc;locus_tag=X_2;product=tRNA-Ala(tgc)"), "X_2", "X_2", "tRNA", "X_2:n.6G>A", ""},
		{"Bakta", rows("c region 1 19 + . ID=c;Name=c;Is_circular=true", "c gene 3 17 + . ID=X_3_gene;Name=abc;locus_tag=X_3", "c CDS 3 17 + 0 ID=X_3;Name=MAWK;locus_tag=X_3;Parent=X_3_gene"), "X_3", "X_3_gene", "protein_coding", "c(X_3):c.4G>A", "X_3:p.Ala2Thr"},
		{"pseudogene without parts", rows("c pseudogene 1 19 + . ID=gene-r;Name=abc;gene_biotype=pseudogene;pseudo=true"), "r", "r", "pseudogene", "c(r):n.6G>A", ""},
		{"not coding", rows("c gene 1 19 + . ID=gene-r;Name=abc;gene_biotype=tRNA", "c tRNA 1 19 + . ID=rna-r;Parent=gene-r", "c exon 1 19 + . Parent=rna-r"), "r", "r", "tRNA", "r:n.6G>A", ""},
		{"pseudogene", rows("c pseudogene 1 19 + . ID=gene-r;Name=abc;gene_biotype=pseudogene;pseudo=true", "c CDS 3 17 + 0 ID=cds-r;Parent=gene-r;pseudo=true"), "r", "r", "pseudogene", "c(r):n.4G>A", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ReadModel(strings.NewReader(c.in), g)
			if err != nil {
				t.Fatal(err)
			}
			ann, err := New(g, m).Annotate("c", 6, "G", "A")
			if err != nil {
				t.Fatal(err)
			}
			got := ann.Consequences[0]
			if got.Feature == nil || got.Feature.ID != c.id || got.Gene.ID != c.gene || got.Gene.Symbol != "abc" || got.Feature.Biotype != c.biotype {
				t.Fatalf("%+v %+v", got.Feature, got.Gene)
			}
			if got.HGVSc != c.hgvsc || got.HGVSp != c.hgvsp {
				t.Errorf("%s %s, want %s %s", got.HGVSc, got.HGVSp, c.hgvsc, c.hgvsp)
			}
		})
	}
}

// TestTranslation covers genetic codes, starts that are not ATG, selenocysteine and incomplete ends.
func TestTranslation(t *testing.T) {
	for _, c := range []struct {
		name, seq, attributes, phase string
		pos                          int
		alt                          string
		term, p                      string
	}{
		{"GTG is methionine at the start", "GTGGCTTGGTAA", "transl_table=11", "0", 1, "A", "start_retained_variant", "Met1="},
		{"GTG lost", "GTGGCTTGGTAA", "transl_table=11", "0", 2, "A", "start_lost", "Met1?"},
		{"GTG is valine elsewhere", "ATGGTGTGGTAA", "transl_table=11", "0", 4, "A", "missense_variant", "Val2Met"},
		{"CTG is no start in place of ATG", "ATGGCTTGGTAA", "", "0", 1, "C", "start_lost", "Met1?"},
		{"TGA is tryptophan in Mycoplasma", "ATGGCTTGATAA", "transl_table=4", "0", 9, "G", "synonymous_variant", "Trp3="},
		{"TGA is a stop elsewhere", "ATGGCTTGGTAA", "transl_table=11", "0", 9, "A", "stop_gained", "Trp3Ter"},
		{"AGA is a stop in vertebrate mitochondria", "ATGGCTAGTTAA", "transl_table=2", "0", 9, "A", "stop_gained", "Ser3Ter"},
		{"selenocysteine", "ATGTGAGCTTAA", "transl_except=(pos:4..6%2Caa:Sec)", "0", 5, "C", "missense_variant", "Sec2Ser"},
		{"no start codon", "ACCGCTTGGTAA", "", "0", 1, "G", "missense_variant", "Thr1Ala"},
		{"incomplete start", "TGGCTTGGTAA", "", "2", 3, "A", "missense_variant", "Ala2Thr"},
		{"incomplete first codon", "TGGCTTGGTAA", "", "2", 1, "A", "coding_sequence_variant", ""},
		{"incomplete last codon", "ATGGCTTGGTA", "", "0", 11, "G", "incomplete_terminal_codon_variant", ""},
		{"stop in the middle of the sequence", "ATGGCTTGGTAA", "", "0", 8, "A", "stop_gained", "Trp3Ter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := readGenome(t, ">c\n"+c.seq+"\n")
			in := rows("c gene 1 "+itoa(len(c.seq))+" + . ID=g;Name=abc", "c CDS 1 "+itoa(len(c.seq))+" + "+c.phase+" ID=p;Parent=g;"+c.attributes)
			m, err := ReadModel(strings.NewReader(in), g)
			if err != nil {
				t.Fatal(err)
			}
			ann, err := New(g, m).Annotate("c", c.pos, c.seq[c.pos-1:c.pos], c.alt)
			if err != nil {
				t.Fatal(err)
			}
			_, p, _ := strings.Cut(ann.Consequences[0].HGVSp, ":p.")
			if ann.MostSevere.Term != c.term || p != c.p {
				t.Errorf("%s %s, want %s %s", ann.MostSevere.Term, p, c.term, c.p)
			}
		})
	}
}

func itoa(n int) string { return position(n-1, n) }

func FuzzReadGFF3(f *testing.F) {
	f.Add([]byte(rows("c gene 1 90 + . ID=g", "c mRNA 1 90 + . ID=t;Parent=g", "c exon 1 20 + . Parent=t", "c CDS 4 12 + 0 ID=p;Parent=t")))
	f.Add([]byte(rows("c gene 1 90 - . ID=g", "c CDS 1 40 - 1 ID=p;Parent=g;transl_table=11", "c CDS 40 60 - 2 ID=p;Parent=g")))
	f.Add([]byte(rows("##sequence-region c 1 100", "c pseudogene 1 9 . . ID=g", "c exon 2 5 ? . Parent=g")))
	g := readGenome(f, ">c\n"+strings.Repeat("ATGACCGATTAG", 8)+"ACGT\n")
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<14 || len(in) > 1 && in[0] == 0x1f {
			return
		}
		m, err := ReadModel(bytes.NewReader(in), g)
		if err != nil {
			return
		}
		// Whatever was read, every variant of it can be annotated.
		a := New(g, m)
		seq := string(g.Contigs[0].Flat())
		for i := range seq {
			for _, e := range [][2]string{{seq[i : i+1], "N"}, {seq[i:min(i+4, len(seq))], seq[i : i+1]}, {seq[i : i+1], seq[i:i+1] + "TG"}, {seq[i:], "A"}} {
				if e[0] == e[1] {
					continue
				}
				if _, err := a.Annotate("c", i+1, e[0], e[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Blanks at line ends, blank lines, carriage returns and a byte-order mark change nothing.
func TestBlanksInGeneModels(t *testing.T) {
	g := readGenome(t, ">c\nCCATGGCTTGGAAATAACC\n")
	clean := rows("c gene 1 19 + . ID=g1;Name=abc", "c mRNA 1 19 + . ID=t1;Parent=g1", "c exon 1 19 + . Parent=t1", "c CDS 3 17 + 0 ID=p1;Parent=t1")
	want, err := ReadModel(strings.NewReader(clean), g)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"blanks":           strings.ReplaceAll(clean, "\n", "  \n") + " \n\t\n",
		"returns":          strings.ReplaceAll(clean, "\n", " \r\n"),
		"byte-order mark":  "\xef\xbb\xbf" + clean,
		"a tab at the end": strings.ReplaceAll(clean, "\n", "\t\n"),
	} {
		m, err := ReadModel(strings.NewReader(in), g)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(m.Warnings()) > 0 || dump(m) != dump(want) {
			t.Errorf("%s: %q %s", name, m.Warnings(), dump(m))
		}
	}
}

// TestPlacesAreNoTranscripts: what else lies under a gene, such as the site of a poly(A) tail, does not hide that its
// contig is a transcript.
func TestPlacesAreNoTranscripts(t *testing.T) {
	g := readGenome(t, ">NM_1.2\nAAATGAAACCCTAAGG\n")
	m, err := ReadModel(strings.NewReader("NM_1.2\tx\tregion\t1\t16\t.\t+\t.\tID=r;mol_type=mRNA\nNM_1.2\tx\tgene\t1\t16\t.\t+\t.\tID=gene-A;Name=A\n"+
		"NM_1.2\tx\tCDS\t3\t14\t.\t+\t0\tID=cds-NP_1.1;Parent=gene-A;protein_id=NP_1.1\nNM_1.2\tx\tpolyA_site\t16\t16\t.\t+\t.\tID=id-A;Parent=gene-A\n"), g)
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewNormalizer(New(g, m), ProteinStyle{Predicted: true}).Normalize("NM_1.2:c.4A>G")
	if err != nil || got.Description != "NM_1.2:c.4A>G" || got.Genomic != "NM_1.2:n.6A>G" || got.Protein != "NP_1.1:p.(Lys2Glu)" {
		t.Errorf("%+v %v", got, err)
	}
}
