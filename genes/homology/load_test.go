package homology

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

const (
	cdsGenome = ">chr a genome\nGGATGGCTTGCTAAGGTTAAGCGGCCATGG\n" // ATGGCTTGCTAA from 3, ATGGCCGCTTAA on the other strand from 17 to 28
	ncbiRows  = "chr\tx\tgene\t3\t14\t.\t+\t.\tID=gene-b1;Name=abcD;gene=abcD\n" +
		"chr\tx\tCDS\t3\t14\t.\t+\t0\tID=cds-P1;Parent=gene-b1;Dbxref=GeneID:1;Ontology_term=GO:0003677,GO:0005524;gene=abcD;product=a%3B thing;protein_id=P1.1;transl_table=11\n" +
		"chr\tx\tpseudogene\t3\t14\t.\t+\t.\tID=gene-b2;pseudo=true\nchr\tx\tCDS\t3\t14\t.\t+\t0\tID=cds-P2;Parent=gene-b2;pseudo=true\n"
	ensemblRows = "chr\tx\tgene\t17\t28\t.\t-\t.\tID=gene:b3;Name=efgH;description=other thing\n" +
		"chr\tx\tmRNA\t17\t28\t.\t-\t.\tID=transcript:t3;Parent=gene:b3\nchr\tx\tCDS\t17\t28\t.\t-\t0\tID=CDS:P3;Parent=transcript:t3;protein_id=P3\n"
)

func TestRead(t *testing.T) {
	t.Parallel()
	genbank := "LOCUS       AB 30 bp DNA linear\nVERSION     AB.1\nFEATURES    x\n     CDS             3..14\n                     /gene=\"abcD\"\n" +
		"                     /protein_id=\"P1.1\"\n                     /product=\"a thing\"\n                     /db_xref=\"GO:0003677\"\n" +
		"                     /transl_table=11\n     CDS             3..14\n                     /pseudo\n" +
		"     CDS             1..9\n                     /locus_tag=\"L2\"\n                     /translation=\"MKV\"\n" +
		"ORIGIN\n        1 ggatggcttg ctaaggttaa gcggccatgg\n//\n"
	abcD := Protein{ID: "P1.1", Gene: "abcD", Product: "a thing", Terms: []string{"GO:0003677"}, Seq: []byte("MAC")}
	fromNCBI := Protein{ID: "P1.1", Gene: "abcD", Product: "a; thing", Terms: []string{"GO:0003677", "GO:0005524"}, Seq: []byte("MAC")}
	efgH := Protein{ID: "P3", Gene: "efgH", Product: "other thing", Seq: []byte("MAA")}
	for _, tt := range []struct {
		name, text string
		sequences  map[string][]byte
		want       []Protein
	}{
		{name: "UniProt", text: ">sp|P0A7V0|RS2_ECOLI Small ribosomal subunit protein uS2 OS=Escherichia coli (strain K12) OX=83333 GN=rpsB PE=1 SV=2\nMATVS\nMRD\n", want: []Protein{{ID: "P0A7V0", Gene: "rpsB", Product: "Small ribosomal subunit protein uS2", Seq: []byte("MATVSMRD")}}},
		{name: "UniProt without gene", text: ">tr|A0A|A_B Thing OS=x OX=1\nMK\n", want: []Protein{{ID: "A0A", Product: "Thing", Seq: []byte("MK")}}},
		{name: "NCBI", text: ">WP_1.1 MULTISPECIES: DNA polymerase [putative] [Escherichia]\nMKE*\n", want: []Protein{{ID: "WP_1.1", Product: "DNA polymerase [putative]", Seq: []byte("MKE*")}}},
		{name: "NCBI's coding sequences", text: ">lcl|NC_1_prot_NP_1.1_1 [gene=thrL] [locus_tag=b1] [protein=thr leader [x]] [protein_id=NP_1.1] [location=1..9]\nMKE\n", want: []Protein{{ID: "NP_1.1", Gene: "thrL", Product: "thr leader [x]", Seq: []byte("MKE")}}},
		{name: "Ensembl", text: ">AAC1 pep chromosome:x:1:2:3:1 gene:b1 transcript:AAC1 gene_symbol:thrL description:thr leader [Source:x]\nMKE\n", want: []Protein{{ID: "AAC1", Gene: "thrL", Product: "thr leader", Seq: []byte("MKE")}}},
		{name: "Prokka", text: ">X1 1.1.1.1~~~abcD~~~thing~~~COG1\nMKE\n", want: []Protein{{ID: "X1", Gene: "abcD", Product: "thing", Seq: []byte("MKE")}}},
		{name: "bare", text: "\n>X1\r\nmke\r\n>X2\n", want: []Protein{{ID: "X1", Seq: []byte("mke")}, {ID: "X2"}}},
		{name: "GenBank", text: genbank, want: []Protein{abcD, {ID: "L2", Seq: []byte("MKV")}}},
		{name: "GFF3 with its genome", text: "##gff-version 3\n" + ncbiRows + ensemblRows + "##FASTA\n" + cdsGenome, want: []Protein{fromNCBI, efgH}},
		{name: "GFF3 beside its genome", text: ncbiRows, sequences: map[string][]byte{"chr": []byte("GGATGGCTTGCTAAGGTTAAGCGGCCATGG")}, want: []Protein{fromNCBI}},
		{name: "in two parts across the origin", text: "##gff\nc\tx\tCDS\t1\t3\t.\t+\t0\tID=a;locus_tag=L\nc\tx\tCDS\t4\t15\t.\t+\t0\tID=a;locus_tag=L\n", sequences: map[string][]byte{"c": []byte("ATGAAAGGGTGA")}, want: []Protein{{ID: "L", Seq: []byte("MKG*M")}}},
		{name: "in rows on both strands", text: "##gff\nc\tx\tCDS\t1\t3\t.\t+\t0\tID=a;locus_tag=L\nc\tx\tCDS\t4\t9\t.\t-\t0\tID=a;locus_tag=L\nc\tx\tCDS\t1\t6\t.\t+\t0\tID=b;locus_tag=M\n", sequences: map[string][]byte{"c": []byte("ATGAAAGGGTGA")}, want: []Protein{{ID: "M", Seq: []byte("MK")}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Read(strings.NewReader(tt.text), "file", tt.sequences)
			require.NoError(t, err)
			for i := range tt.want {
				tt.want[i].Source = "file"
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// TestAcrossTheOrigin: a coding sequence of three exons on a circle is the same protein wherever the circle is cut, on both strands, in GFF3's rows in
// any order, counted on behind the origin or anew, and in both forms of GenBank's location.
func TestAcrossTheOrigin(t *testing.T) {
	t.Parallel()
	const circle = "CCCCCCATGAAACCCGGGTTTCCCTGGTAACCCCCCCCCC"
	exons := [][2]int{{6, 12}, {15, 21}, {24, 30}}
	const want = "MKGFW"
	n := len(circle)
	for cut := range n {
		for _, reverse := range []bool{false, true} {
			seq := circle[cut:] + circle[:cut]
			var whole, split [][2]int // as they are read on the strand that is written
			for _, e := range exons {
				start := (e[0] - cut + n) % n
				end := start + e[1] - e[0]
				if reverse {
					start, end = ((n-end)%n+n)%n, ((n-end)%n+n)%n+end-start
				}
				whole = append(whole, [2]int{start, end})
			}
			strand := "+"
			if reverse {
				slices.Reverse(whole)
				other := []byte(seq)
				genome.ReverseComplement(other)
				strand, seq = "-", string(other)
			}
			for _, e := range whole {
				if e[1] <= n {
					split = append(split, e)
				} else {
					split = append(split, [2]int{e[0], n}, [2]int{0, e[1] - n})
				}
			}
			counted := slices.Clone(whole)
			for i := range counted {
				if i > 0 && counted[i][0] < counted[i-1][0] {
					counted[i][0], counted[i][1] = counted[i][0]+n, counted[i][1]+n
				}
			}
			for name, parts := range map[string][][2]int{"whole": whole, "split": split, "counted on": counted} {
				rows := make([]string, len(parts))
				for i, p := range parts {
					rows[i] = fmt.Sprintf("c\tx\tCDS\t%d\t%d\t.\t%s\t0\tID=a;locus_tag=L\n", p[0]+1, p[1], strand)
				}
				for range 2 {
					slices.Reverse(rows)
					text := "##gff-version 3\nc\tx\tregion\t1\t40\t.\t+\t.\tID=c;Is_circular=true\n" + strings.Join(rows, "") + "##FASTA\n>c\n" + seq + "\n"
					got, err := Read(strings.NewReader(text), "x", nil)
					require.NoError(t, err)
					// Where the circle is cut between exons, rows don't show which of them is the first unless they are counted on.
					between := slices.ContainsFunc([][2]int{{12, 15}, {21, 24}}, func(i [2]int) bool { return i[0] <= cut && cut <= i[1] })
					if !between {
						require.Equal(t, want, string(got[0].Seq), "%s %d %s\n%s", name, cut, strand, text)
					}
				}
			}
			spans := make([]string, len(split))
			for i, p := range split {
				spans[i] = fmt.Sprintf("%d..%d", p[0]+1, p[1])
			}
			locations := []string{"join(" + strings.Join(spans, ",") + ")"}
			if reverse {
				locations[0] = "complement(" + locations[0] + ")"
				for i := range spans {
					spans[i] = "complement(" + spans[i] + ")"
				}
				slices.Reverse(spans)
				locations = append(locations, "join("+strings.Join(spans, ",")+")")
			}
			for _, location := range locations {
				text := "LOCUS       a 40 bp DNA circular\nFEATURES\n     CDS             " + location + "\n                     /locus_tag=\"L\"\nORIGIN\n        1 " + seq + "\n//\n"
				got, err := Read(strings.NewReader(text), "x", nil)
				require.NoError(t, err)
				require.Equal(t, want, string(got[0].Seq), location)
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"neither FASTA of proteins, nor a GenBank file, nor GFF3": "hello\n",
		"its letters are bases":                                   ">a\nACGTACGTNN\n",
		"line 2: '1' is no residue":                               ">a\nMK1\n",
		"line 3: a protein without a name":                        ">a\nMK\n>\nMK\n",
		"no protein is in it":                                     "##gff-version 3\n",
		"add the genome behind a comma":                           "##gff-version 3\n" + ncbiRows,
		`sequence "chr" is not in the FASTA`:                      "##gff-version 3\n" + ncbiRows + "##FASTA\n>other\nACGT\n",
		"bases 3 to 14 are not in its sequence of 2":              "##gff-version 3\n" + ncbiRows + "##FASTA\n>chr\nAC\n",
		"its FASTA section":                                       "##gff-version 3\n" + ncbiRows + "##FASTA\nx\n",
		"line 2: 3 columns":                                       "##gff-version 3\na\tb\tc\n",
		`line 2: start "0" is no position`:                        "##gff-version 3\nc\tx\tCDS\t0\t9\t.\t+\t0\tID=a\n",
		`line 2: end "1" is no position`:                          "##gff-version 3\nc\tx\tCDS\t3\t1\t.\t+\t0\tID=a\n",
		`line 2: phase "3"`:                                       "##gff-version 3\nc\tx\tCDS\t3\t9\t.\t+\t3\tID=a\n",
		"genetic code 7":                                          "##gff-version 3\nc\tx\tCDS\t1\t3\t.\t+\t0\tID=a;transl_table=7\n##FASTA\n>c\nATG\n",
		`transl_table "x" is no number`:                           "##gff-version 3\nc\tx\tCDS\t1\t3\t.\t+\t0\tID=a;transl_table=x\n##FASTA\n>c\nATG\n",
		"the file is cut":                                         "LOCUS a\n",
	} {
		_, err := Read(strings.NewReader(text), "file", nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := Read(strings.NewReader("##gff-version 3\n"+strings.Repeat("x", maxRow+1)), "file", nil)
	require.ErrorContains(t, err, "line 2: the line is too long")
	_, err = Read(strings.NewReader(">a\nMKV\n"), "file", map[string][]byte{})
	require.ErrorContains(t, err, "before the comma, GFF3 is wanted")
	_, err = Load(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "no such file")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	gff, fasta, comma := write("a.gff3", ncbiRows), write("a.fa", cdsGenome), write("b,c.faa", ">p\nMKV\n")
	got, err := Load(gff+","+fasta, comma)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, []string{"a.gff3", "b,c.faa"}, []string{got[0].Source, got[1].Source})
	_, err = Load(gff + ",none.fa")
	require.ErrorContains(t, err, "none.fa")
}

func FuzzRead(f *testing.F) {
	f.Add(">sp|A|B c OS=d GN=e\nMKV\n")
	f.Add("##gff-version 3\n" + ncbiRows + ensemblRows + "##FASTA\n" + cdsGenome)
	f.Add("LOCUS a\nFEATURES x\n     CDS             join(1..2,4..5)\n                     /gene=\"a\"\nORIGIN\n 1 acgta\n//\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Read(strings.NewReader(text), "x", nil)
		if err != nil {
			return
		}
		require.NotEmpty(t, list)
		for _, p := range list {
			require.NotEmpty(t, p.ID)
		}
	})
}
