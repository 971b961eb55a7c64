package annotate

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// dump is everything that a model has, in lines.
func dump(m *Model) string {
	var lines []string
	for _, k := range m.contigs {
		for _, t := range k.transcripts {
			v := t.view()
			code := 0
			if t.code != nil {
				code = t.code.table
			}
			lines = append(lines, fmt.Sprintf("%s %s.%s %s/%s %s %s implicit=%v %v exons=%v cds=%v pad=%d code=%d %v NF=%v,%v %v %v mature=%v circle=%d",
				t.contig.Name, t.id, t.version, t.gene.name.ID, t.gene.name.Symbol, t.biotype, t.protein, t.implicit, t.forward, v.Exons, v.CDS, t.pad,
				code, t.exceptions, t.startNF, t.endNF, t.flags, t.labels, t.mature, k.circle))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestGTFEqualsGFF3 reads the same genes in both formats, as the sources write them.
func TestGTFEqualsGFF3(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ATGGCATGGAAATGACCTTAGCATCATTTCCATGCC", 30)+"\n")
	for _, c := range []struct{ name, gff3, gtf string }{
		{"Ensembl", rows(
			"c gene 1 120 + . ID=gene:ENSG01;Name=ABC;biotype=protein_coding;gene_id=ENSG01;version=5",
			"c mRNA 1 120 + . ID=transcript:ENST01;Parent=gene:ENSG01;Name=ABC-201;biotype=protein_coding;tag=basic,Ensembl_canonical,MANE_Select;transcript_id=ENST01;transcript_support_level=1 (assigned to previous version 3);version=4;ccdsid=CCDS7.1",
			"c exon 1 40 + . Parent=transcript:ENST01;exon_id=ENSE1;version=1", "c CDS 10 40 + 0 ID=CDS:ENSP01;Parent=transcript:ENST01;protein_id=ENSP01;version=2",
			"c exon 61 120 + . Parent=transcript:ENST01;version=1", "c CDS 61 77 + 2 ID=CDS:ENSP01;Parent=transcript:ENST01;protein_id=ENSP01;version=2", "c three_prime_UTR 78 120 + . Parent=transcript:ENST01",
			"c lnc_RNA 200 260 - . ID=transcript:ENST02;Parent=gene:ENSG02;biotype=lncRNA;transcript_id=ENST02;version=1", "c exon 200 260 - . Parent=transcript:ENST02", "c ncRNA_gene 200 260 - . ID=gene:ENSG02;biotype=lncRNA;gene_id=ENSG02"), rows(
			`c gene 1 120 + . gene_id "ENSG01"; gene_version "5"; gene_name "ABC"; gene_biotype "protein_coding";`,
			`c transcript 1 120 + . gene_id "ENSG01"; gene_version "5"; transcript_id "ENST01"; transcript_version "4"; gene_name "ABC"; gene_biotype "protein_coding"; transcript_biotype "protein_coding"; tag "CCDS"; ccds_id "CCDS7.1"; tag "basic"; tag "Ensembl_canonical"; tag "MANE_Select"; transcript_support_level "1 (assigned to previous version 3)";`,
			`c exon 1 40 + . gene_id "ENSG01"; transcript_id "ENST01"; exon_number "1"; exon_version "1";`, `c CDS 10 40 + 0 gene_id "ENSG01"; transcript_id "ENST01"; protein_id "ENSP01"; protein_version "2"; tag "basic";`,
			`c start_codon 10 12 + 0 gene_id "ENSG01"; transcript_id "ENST01";`,
			`c exon 61 120 + . gene_id "ENSG01"; transcript_id "ENST01";`, `c CDS 61 74 + 2 gene_id "ENSG01"; transcript_id "ENST01"; protein_id "ENSP01"; protein_version "2"; tag "basic";`,
			`c stop_codon 75 77 + 0 gene_id "ENSG01"; transcript_id "ENST01";`, `c three_prime_utr 78 120 + . gene_id "ENSG01"; transcript_id "ENST01";`,
			`c gene 200 260 - . gene_id "ENSG02"; gene_biotype "lncRNA";`, `c transcript 200 260 - . gene_id "ENSG02"; transcript_id "ENST02"; transcript_version "1"; gene_biotype "lncRNA"; transcript_biotype "lncRNA";`,
			`c exon 200 260 - . gene_id "ENSG02"; transcript_id "ENST02";`)},
		{"Ensembl, stop codon across an intron, reverse strand", rows(
			"c gene 1 120 - . ID=gene:G;gene_id=G", "c mRNA 1 120 - . ID=transcript:T;Parent=gene:G;biotype=protein_coding;tag=cds_start_NF;transcript_id=T",
			"c exon 61 120 - . Parent=transcript:T", "c CDS 61 110 - 1 ID=CDS:P;Parent=transcript:T;protein_id=P", "c exon 1 40 - . Parent=transcript:T", "c CDS 39 40 - 2 ID=CDS:P;Parent=transcript:T;protein_id=P"), rows(
			`c transcript 1 120 - . gene_id "G"; transcript_id "T"; transcript_biotype "protein_coding"; tag "cds_start_NF";`,
			`c exon 61 120 - . gene_id "G"; transcript_id "T";`, `c CDS 62 110 - 1 gene_id "G"; transcript_id "T"; protein_id "P";`, `c stop_codon 61 61 - 0 gene_id "G"; transcript_id "T";`,
			`c exon 1 40 - . gene_id "G"; transcript_id "T";`, `c stop_codon 39 40 - 2 gene_id "G"; transcript_id "T";`)},
		{"GENCODE, selenocysteine", rows(
			"c gene 1 48 + . ID=ENSG3.1;gene_id=ENSG3.1;gene_type=protein_coding;gene_name=SEL", "c transcript 1 48 + . ID=ENST3.2;Parent=ENSG3.1;gene_id=ENSG3.1;transcript_id=ENST3.2;gene_type=protein_coding;gene_name=SEL;transcript_type=protein_coding;tag=basic,seleno,appris_principal_2",
			"c exon 1 48 + . ID=exon:ENST3.2:1;Parent=ENST3.2;transcript_type=protein_coding", "c CDS 1 45 + 0 ID=CDS:ENST3.2;Parent=ENST3.2;protein_id=ENSP3.2", "c stop_codon_redefined_as_selenocysteine 13 15 + . Parent=ENST3.2"), rows(
			`c gene 1 48 + . gene_id "ENSG3.1"; gene_type "protein_coding"; gene_name "SEL";`, `c transcript 1 48 + . gene_id "ENSG3.1"; transcript_id "ENST3.2"; gene_type "protein_coding"; gene_name "SEL"; transcript_type "protein_coding"; tag "basic"; tag "seleno"; tag "appris_principal_2";`,
			`c exon 1 48 + . gene_id "ENSG3.1"; transcript_id "ENST3.2";`, `c CDS 1 42 + 0 gene_id "ENSG3.1"; transcript_id "ENST3.2"; protein_id "ENSP3.2";`, `c stop_codon 43 45 + 0 gene_id "ENSG3.1"; transcript_id "ENST3.2";`,
			`c Selenocysteine 13 15 + . gene_id "ENSG3.1"; transcript_id "ENST3.2";`)},
		{"NCBI, eukaryote", rows(
			"c gene 1 120 + . ID=gene-ABC;Dbxref=GeneID:1;Name=ABC;gene=ABC;gene_biotype=protein_coding", "c mRNA 1 120 + . ID=rna-NM_1.2;Parent=gene-ABC;Name=NM_1.2;gbkey=mRNA;gene=ABC;tag=MANE Select;transcript_id=NM_1.2",
			"c exon 1 120 + . ID=exon-NM_1.2-1;Parent=rna-NM_1.2;transcript_id=NM_1.2", "c CDS 4 60 + 0 ID=cds-NP_1.1;Parent=rna-NM_1.2;gene=ABC;protein_id=NP_1.1;partial=true;start_range=.,4",
			"c gene 200 290 - . ID=gene-MIR1;Name=MIR1;gene=MIR1;gene_biotype=miRNA", "c primary_transcript 200 290 - . ID=rna-NR_9.1;Parent=gene-MIR1;gene=MIR1;transcript_id=NR_9.1", "c exon 200 290 - . Parent=rna-NR_9.1",
			"c miRNA 210 231 - . ID=rna-MIR1;Parent=rna-NR_9.1;gene=MIR1", "c exon 210 231 - . Parent=rna-MIR1"), rows(
			`c gene 1 120 + . gene_id "ABC"; transcript_id ""; db_xref "GeneID:1"; gene "ABC"; gene_biotype "protein_coding";`, `c transcript 1 120 + . gene_id "ABC"; transcript_id "NM_1.2"; gbkey "mRNA"; gene "ABC"; product "has; a semicolon"; tag "MANE Select"; transcript_biotype "mRNA";`,
			`c exon 1 120 + . gene_id "ABC"; transcript_id "NM_1.2";`, `c CDS 4 57 + 0 gene_id "ABC"; transcript_id "NM_1.2"; gene "ABC"; protein_id "NP_1.1"; partial "true";`, `c stop_codon 58 60 + 0 gene_id "ABC"; transcript_id "NM_1.2";`,
			`c gene 200 290 - . gene_id "MIR1"; transcript_id ""; gene "MIR1"; gene_biotype "miRNA";`, `c transcript 200 290 - . gene_id "MIR1"; transcript_id "NR_9.1"; gene "MIR1"; transcript_biotype "primary_transcript";`, `c exon 200 290 - . gene_id "MIR1"; transcript_id "NR_9.1";`,
			`c transcript 210 231 - . gene_id "MIR1"; transcript_id "unassigned_transcript_7"; gene "MIR1"; transcript_biotype "miRNA";`, `c exon 210 231 - . gene_id "MIR1"; transcript_id "unassigned_transcript_7";`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := ReadModel(strings.NewReader(c.gff3), g)
			require.NoError(t, err)
			got, err := ReadModel(strings.NewReader(c.gtf), g)
			require.NoError(t, err)
			require.Equal(t, dump(want), dump(got))
			require.Equal(t, want.Faults, got.Faults)
			// The rows of GTF may come in any order.
			lines := strings.Split(strings.TrimSpace(c.gtf), "\n")
			slices.Reverse(lines)
			got, err = ReadModel(strings.NewReader(strings.Join(lines, "\n")), g)
			require.NoError(t, err)
			require.Equal(t, dump(want), dump(got))
		})
	}
}

// TestLabels shows which tags are kept.
func TestLabels(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ATGGCATGGAAATGACCTTAGCATCATTTCCATGCC", 3)+"\n")
	m, err := ReadModel(strings.NewReader(rows("c mRNA 1 48 + . ID=transcript:T;version=4;tag=basic,gencode_primary,appris_alternative_2,seleno;transcript_support_level=3;ccdsid=CCDS1.2",
		"c exon 1 48 + . Parent=transcript:T", "c CDS 1 21 + 0 Parent=transcript:T")), g)
	require.NoError(t, err)
	require.Empty(t, m.Warnings())
	tx := m.TranscriptsOn("c")[0].transcript
	require.Equal(t, labels{appris: "A2", tsl: 3, ccds: "CCDS1.2", basic: true, primary: true, seleno: true}, tx.labels)
	require.Equal(t, "4", tx.version)
	require.Equal(t, []exception{{4, 'U'}}, tx.exceptions)
}

// TestRegulation reads the rows of the Ensembl Regulatory Build, by themselves and beside genes.
func TestRegulation(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ATGGCATGGAAATGACCTTAGCATCATTTCCATGCC", 3)+"\n")
	m, err := ReadModel(strings.NewReader(rows("c promoter 11 30 . . ID=promoter:ENSR01;extended_start=1;gene_id=", "c TF_binding_site 21 30 + . ID=TF_binding_site:ENSM02",
		"c regulatory_region 40 50 . . ID=ENSR03;feature_type=CTCF_binding_site", "c enhancer 90 200 . . .")), g)
	require.NoError(t, err)
	k := m.regulation[g.Contig("c")]
	var got []string
	for _, r := range k.regions {
		got = append(got, fmt.Sprint(r.start, r.end, *r.name))
	}
	require.Equal(t, []string{"10 30 {RegulatoryFeature ENSR01 promoter}", "20 30 {MotifFeature ENSM02 TF_binding_site}", "39 50 {RegulatoryFeature ENSR03 CTCF_binding_site}", "89 108 {RegulatoryFeature enhancer_90_200 enhancer}"}, got)
}

// ncbiGTF writes the genes of an NCBI GFF3 without transcripts as NCBI's own GTF has them.
func ncbiGTF(t *testing.T, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	n := 0
	row := func(tx *transcript, kind string, s Span, phase any, attrs string) {
		strand := "+"
		if !tx.forward {
			strand = "-"
		}
		fmt.Fprintf(&b, "%s\tRefSeq\t%s\t%d\t%d\t.\t%s\t%v\tgene_id %q; %s\n", tx.contig.Name, kind, s.Start+1, s.End, strand, phase, tx.gene.name.ID, attrs)
	}
	for _, k := range m.contigs {
		for _, tx := range k.transcripts {
			row(tx, "gene", Span{tx.start, tx.end}, ".", fmt.Sprintf("transcript_id \"\"; gene %q; gene_biotype %q;", tx.gene.name.Symbol, tx.gene.biotype))
			v := tx.view()
			if v.CDS == nil {
				continue
			}
			n++
			attrs := fmt.Sprintf("transcript_id \"unassigned_transcript_%d\"; gene %q; protein_id %q; transl_table \"%d\";", n, tx.gene.name.Symbol, tx.protein, tx.code.table)
			for _, e := range tx.exceptions {
				at := tx.cds[0].start + 3*e.codon
				if !tx.forward {
					at = tx.cds[0].end - 3*e.codon - 3
				}
				attrs += fmt.Sprintf(" transl_except \"(pos:%d..%d,aa:%s)\";", at+1, at+3, threeLetter[e.amino])
			}
			last := len(v.CDS) - 1
			for i, s := range v.CDS {
				stop := s.Span
				if tx.forward && i == last {
					s.End -= 3
					stop.Start = s.End
				} else if !tx.forward && i == 0 {
					s.Start += 3
					stop.End = s.Start
				}
				row(tx, "CDS", s.Span, s.Phase, attrs+` exception "ribosomal slippage";`)
				if stop != v.CDS[i].Span {
					row(tx, "stop_codon", stop, 0, attrs)
				}
			}
		}
	}
	return b.Bytes()
}

// TestGTFOfWholeGenomes reads the coding sequences of real genomes from GTF: lambda, SARS-CoV-2 and E. coli, with
// slippage and selenocysteine.
func TestGTFOfWholeGenomes(t *testing.T) {
	dir := filepath.Join("..", "testdata", "lambda")
	phage, err := genome.Load(filepath.Join(dir, "reference.fa"))
	require.NoError(t, err)
	genes, err := LoadModel(filepath.Join(dir, "genes.gff3"), phage)
	require.NoError(t, err)
	for name, load := range map[string]func(testing.TB) *Annotator{
		"lambda": func(testing.TB) *Annotator { return New(phage, genes) }, "sarscov2": sarscov2, "ecoli": ecoli,
	} {
		t.Run(name, func(t *testing.T) {
			a := load(t)
			m, err := ModelReader{Circular: circularOf(a.model)}.Read(bytes.NewReader(ncbiGTF(t, a.model)), a.genome)
			require.NoError(t, err)
			require.Equal(t, proteins(a.model), proteins(m))
		})
	}
}

func circularOf(m *Model) (names []string) {
	for c, k := range m.contigs {
		if k.circle > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

// proteins are the coding sequences and translations of a model.
func proteins(m *Model) []string {
	var lines []string
	for _, k := range m.contigs {
		for _, t := range k.transcripts {
			if t.cds != nil {
				lines = append(lines, fmt.Sprintf("%s %s %v %s", t.gene.name.ID, t.protein, t.view().CDS, t.proteinSequence()))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// proteinSequence is the translation of the unchanged transcript.
func (t *transcript) proteinSequence() string {
	var b strings.Builder
	for i := 0; t.reference(i) != 0; i++ {
		b.WriteByte(t.reference(i))
	}
	return b.String()
}

func FuzzReadGTF(f *testing.F) {
	f.Add([]byte(rows(`c gene 1 90 + . gene_id "g"; gene_name "n; m";`, `c transcript 1 90 + . gene_id "g"; transcript_id "t"; tag "basic"; tag "seleno";`, `c exon 1 90 + . gene_id "g"; transcript_id "t";`,
		`c CDS 1 12 + 0 gene_id "g"; transcript_id "t";`, `c stop_codon 13 15 + 0 gene_id "g"; transcript_id "t";`, `c Selenocysteine 4 6 + . gene_id "g"; transcript_id "t";`)))
	f.Add([]byte(rows(`c CDS 1 40 - 1 gene_id "g"; transcript_id ""; protein_id "p"; partial "true"`, `c CDS 98 3 + . gene_id "g" transcript_id`)))
	g := readGenome(f, ">c\n"+strings.Repeat("ATGACCGATTAG", 8)+"ACGT\n")
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<14 || len(in) > 1 && in[0] == 0x1f {
			return
		}
		m, err := ModelReader{Circular: []string{"c"}}.Read(bytes.NewReader(in), g)
		if err != nil {
			return
		}
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

// TestMatureMicroRNAs are parts of their precursor in both formats, and no transcripts.
func TestMatureMicroRNAs(t *testing.T) {
	g := readGenome(t, ">c\n"+strings.Repeat("ATGGCATGGAAATGACCTTAGCATCATTTCCATGCC", 3)+"\n")
	for name, in := range map[string]string{
		"NCBI GFF3": rows("c primary_transcript 11 90 - . ID=rna-NR_9.1;transcript_id=NR_9.1", "c exon 11 90 - . Parent=rna-NR_9.1", "c miRNA 21 42 - . ID=rna-M;Parent=rna-NR_9.1", "c exon 21 42 - . Parent=rna-M"),
		"miRBase":   rows("c miRNA_primary_transcript 11 90 - . ID=NR_9.1", "c miRNA 21 42 - . ID=MIMAT1;Derives_from=NR_9.1"),
		"NCBI GTF": rows(`c transcript 11 90 - . gene_id "M"; transcript_id "NR_9.1"; transcript_biotype "primary_transcript";`, `c exon 11 90 - . gene_id "M"; transcript_id "NR_9.1";`,
			`c transcript 21 42 - . gene_id "M"; transcript_id "unassigned_transcript_7"; transcript_biotype "miRNA";`, `c exon 21 42 - . gene_id "M"; transcript_id "unassigned_transcript_7";`),
	} {
		m, err := ReadModel(strings.NewReader(in), g)
		require.NoError(t, err, name)
		require.Empty(t, m.Warnings(), name)
		require.Equal(t, 1, m.Transcripts(), name)
		tx := m.TranscriptsOn("c")[0]
		require.Equal(t, "NR_9.1", tx.ID, name)
		require.Equal(t, []Span{{10, 90}}, tx.Exons, name)
		require.Equal(t, []Span{{20, 42}}, tx.transcript.mature, name)
	}
}
