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

func TestReadGFF3Refuses(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ACGT", 25)+"\n>d\nAC\n")
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "the file is empty"},
		{"nothing", "##gff-version 3\n", "no gene, exon or CDS"},
		{"columns", "c\tx\tgene\t1\t9\n", "line 1: 5 columns, want 9"},
		{"FASTA", ">c\nACGT\n", "no gene, exon or CDS"},
		{"GTF", "c\tx\texon\t1\t9\t.\t+\t.\tgene_id \"g\"; transcript_id \"t\";\n", "line 1: this is GTF"},
		{"start", rows("c exon 0 9 + . Parent=t"), `line 1: exon: start "0"`},
		{"end", rows("c exon 5 4 + . Parent=t"), `line 1: exon: end "4"`},
		{"strand", rows("c exon 1 4 x . Parent=t"), `line 1: exon: strand "x"`},
		{"phase", rows("c CDS 1 4 + 3 Parent=t"), `line 1: CDS: phase "3"`},
		{"parent", rows("##gff-version 3", "c exon 1 4 + . Parent=t"), `line 2: exon has the parent "t", which no row describes`},
		{"other genome", rows("x gene 1 9 + . ID=g", "x CDS 1 9 + 0 Parent=g"), "no contig in common: the gene model has x, the reference has c, d"},
		{"contig's length", rows("##sequence-region c 1 99", "c gene 1 9 + . ID=g"), `line 1: ##sequence-region: contig "c" ends at 99, but the reference has 100 bases`},
		{"beyond the contig", rows("c gene 1 99 + . ID=g", "c CDS 90 101 + 0 Parent=g"), `line 2: CDS ends at 101, but contig "c" of the reference has 100 bases`},
		{"genetic code", rows("c gene 1 9 + . ID=g", "c CDS 1 9 + 0 Parent=g;transl_table=7"), "line 2: transl_table 7 is not one of NCBI's"},
		{"genetic code's number", rows("c gene 1 9 + . ID=g", "c CDS 1 9 + 0 Parent=g;transl_table=x"), `line 2: transl_table "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := ReadGFF3(strings.NewReader(c.in), g); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := (GFF3{GeneticCode: 7}).Read(strings.NewReader(""), g); err == nil || !strings.Contains(err.Error(), "genetic code 7") {
		t.Errorf("genetic code: %v", err)
	}
	if _, err := LoadGFF3("testdata/none.gff3", g); err == nil || !strings.Contains(err.Error(), "none.gff3") {
		t.Errorf("missing file: %v", err)
	}
}

// TestReadGFF3Warns lists what is left out or repaired, with a word about each.
func TestReadGFF3Warns(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ACGT", 25)+"\n")
	for _, c := range []struct {
		name, in, want string
		transcripts    int
	}{
		{"overlapping exons", rows("c gene 1 90 + . ID=g", "c mRNA 1 90 + . ID=t;Parent=g", "c exon 1 20 + . Parent=t", "c exon 15 40 + . Parent=t"), "overlapping exons (1-20 and 15-40)", 0},
		{"CDS outside exons", rows("c gene 1 90 + . ID=g", "c mRNA 1 90 + . ID=t;Parent=g", "c exon 1 20 + . Parent=t", "c CDS 15 40 + 0 Parent=t"), "outside its exons", 0},
		{"strands", rows("c gene 1 90 + . ID=g", "c CDS 1 9 + 0 ID=p;Parent=g", "c CDS 15 20 - 0 ID=p;Parent=g"), "trans-splicing is not supported", 0},
		{"no strand", rows("c gene 1 90 . . ID=g", "c exon 1 9 . . Parent=g"), "has no strand", 0},
		{"phase", rows("c gene 1 90 + . ID=g", "c mRNA 1 90 + . ID=t;Parent=g", "c CDS 1 10 + 0 Parent=t", "c CDS 40 50 + 0 Parent=t"), "has phase 0 where the bases before it give 2", 1},
		{"unknown contig", rows("c gene 1 90 + . ID=g", "c CDS 1 9 + 0 Parent=g", "x gene 1 9 + . ID=h", "x CDS 1 9 + 0 Parent=h"), `contig "x" is not in the reference: its 2 rows`, 1},
		{"twice", rows("c gene 1 90 + . ID=g", "c gene 1 90 + . ID=g", "c CDS 1 9 + 0 Parent=g"), `"g" is described twice`, 1},
		{"across the origin", rows("c region 1 100 + . ID=r;Is_circular=true", "c gene 95 105 + . ID=g", "c CDS 95 105 + 0 Parent=g"), "crosses the origin", 1},
		{"translation exception", rows("c gene 1 90 + . ID=g", "c CDS 1 9 + 0 Parent=g;transl_except=(pos:4..6%2Caa:Foo)"), "is not understood", 1},
		{"clean", rows("c gene 1 90 + . ID=g", "c CDS 1 9 + 0 Parent=g"), "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ReadGFF3(strings.NewReader(c.in), g)
			if err != nil {
				t.Fatal(err)
			}
			if m.Transcripts() != c.transcripts {
				t.Errorf("%d transcripts, want %d", m.Transcripts(), c.transcripts)
			}
			if got := strings.Join(m.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("warnings %q, want %q", got, c.want)
			}
		})
	}
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
		{"NCBI eukaryote", rows("c gene 1 19 + . ID=gene-abc;Name=abc;gene=abc;gene_biotype=protein_coding", "c mRNA 1 19 + . ID=rna-NM_1.2;Parent=gene-abc;transcript_id=NM_1.2;tag=MANE%20Select",
			"c exon 1 19 + . ID=exon-NM_1.2-1;Parent=rna-NM_1.2", "c CDS 3 17 + 0 ID=cds-NP_1.1;Parent=rna-NM_1.2;protein_id=NP_1.1"),
			"NM_1.2", "abc", "protein_coding", "NM_1.2:c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"NCBI prokaryote", ncbi, "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"gzip", zipped.String(), "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"CDS alone", rows("c CDS 3 17 + 0 ID=X_1;Name=abc"), "X_1", "X_1", "protein_coding", "c(X_1):c.4G>A", "X_1:p.Ala2Thr"},
		{"no exon rows but UTRs", rows("c gene 1 19 + . ID=g1;Name=abc", "c mRNA 1 19 + . ID=t1;Parent=g1", "c five_prime_UTR 1 2 + . Parent=t1", "c CDS 3 17 + 0 ID=p1;Parent=t1"),
			"t1", "g1", "protein_coding", "t1:c.4G>A", "p1:p.Ala2Thr"},
		{"sequences at the end", ncbi + "##FASTA\n" + fasta, "NP_1.1", "b1", "protein_coding", "c(NP_1.1):c.4G>A", "NP_1.1:p.Ala2Thr"},
		{"not coding", rows("c gene 1 19 + . ID=gene-r;Name=abc;gene_biotype=tRNA", "c tRNA 1 19 + . ID=rna-r;Parent=gene-r", "c exon 1 19 + . Parent=rna-r"), "r", "r", "tRNA", "r:n.6G>A", ""},
		{"pseudogene", rows("c pseudogene 1 19 + . ID=gene-r;Name=abc;gene_biotype=pseudogene;pseudo=true", "c CDS 3 17 + 0 ID=cds-r;Parent=gene-r;pseudo=true"), "r", "r", "pseudogene", "c(r):n.4G>A", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := ReadGFF3(strings.NewReader(c.in), g)
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
			m, err := ReadGFF3(strings.NewReader(in), g)
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
		m, err := ReadGFF3(bytes.NewReader(in), g)
		if err != nil {
			return
		}
		// Whatever was read, every variant of it can be annotated.
		a := New(g, m)
		seq := string(g.Contigs[0].Seq)
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
