package source

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
)

// reference is for the excerpts: chromosome 1 as several sources name it, and a mitochondrion. The bases are made up.
//
//	pos 1         11        21        31
//	    ACGTTTTTGA CCATGATGAT GGGCACACAC ATTCGA
const reference = ">chr1\nACGTTTTTGACCATGATGATGGGCACACACATTCGA\n>chrM\nGATCACAGGT\n"

// clinvar has what ClinVar's VCF has: contigs without chr, underscores for spaces, commas within a review status,
// bars between conditions, percent-encoding, allele counts of others, and a record without an alternate allele.
const clinvar = `##fileformat=VCFv4.1
##fileDate=2026-11-15
##source=ClinVar
##reference=GRCh38
##ID=<Description="ClinVar Variation ID">
##INFO=<ID=AF_EXAC,Number=1,Type=Float,Description="allele frequencies from ExAC">
##INFO=<ID=ALLELEID,Number=1,Type=Integer,Description="the ClinVar Allele ID">
##INFO=<ID=CLNDN,Number=.,Type=String,Description="ClinVar's preferred disease name">
##INFO=<ID=CLNHGVS,Number=.,Type=String,Description="Top-level genomic HGVS expression.">
##INFO=<ID=CLNREVSTAT,Number=.,Type=String,Description="ClinVar review status">
##INFO=<ID=CLNSIG,Number=.,Type=String,Description="Aggregate germline classification; \"Pathogenic\" and others">
##INFO=<ID=CLNVI,Number=.,Type=String,Description="other databases">
##INFO=<ID=MC,Number=.,Type=String,Description="molecular consequence">
##INFO=<ID=RS,Number=.,Type=String,Description="dbSNP ID">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO
1	2	100	C	A	.	.	AF_EXAC=0.00010;ALLELEID=200;CLNDN=Breast-ovarian_cancer,_familial_1|not_provided;CLNHGVS=NC_000001.11:g.2C>A;CLNREVSTAT=criteria_provided,_multiple_submitters,_no_conflicts;CLNSIG=Pathogenic/Likely_pathogenic;MC=SO:0001583|missense_variant,SO:0001623|5_prime_UTR_variant;RS=123
1	3	101	GT	G	.	.	ALLELEID=201;CLNHGVS=NC_000001.11:g.8del;CLNSIG=Uncertain_significance;CLNVI=a%3Bb%2Cc%3D100%25
1	11	102	C	.	.	.	ALLELEID=202;CLNSIG=Benign
MT	4	103	C	T	.	.	ALLELEID=203;CLNSIG=Benign
NW_009646201.1	83614	104	TC	T	.	.	ALLELEID=204;CLNSIG=Benign
1	24	105	C	<DEL>	.	.	ALLELEID=205;CLNSIG=Pathogenic;END=30
`

func TestClinVar(t *testing.T) {
	g := readGenome(t, reference)
	path, meta := compileText(t, Config{
		Genome: g, Name: "clinvar", Version: "2026-11",
		Fields: []string{"CLNSIG", "CLNREVSTAT", "CLNDN", "CLNHGVS", "MC", "CLNVI", "AF_EXAC", "ALLELEID"},
	}, clinvar)
	require.Equal(t, "2026-11-15", meta.Date)
	require.True(t, meta.Unique)
	require.Equal(t, Counts{Records: 6, Alleles: 3, Spans: 1, Dropped: map[string]int{}, Skipped: map[string]int{
		skipNoAllele: 1, skipContig: 1,
	}}, meta.Counts)
	s, err := Open(path, g)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{`exact 100 {"CLNSIG":"Pathogenic/Likely_pathogenic","CLNREVSTAT":"criteria_provided,_multiple_submitters,_no_conflicts",` +
		`"CLNDN":"Breast-ovarian_cancer,_familial_1|not_provided","CLNHGVS":"NC_000001.11:g.2C>A",` +
		`"MC":"SO:0001583|missense_variant,SO:0001623|5_prime_UTR_variant","AF_EXAC":0.00010,"ALLELEID":200}`},
		find(t, s, g.Contigs[0], 2, "C", "A"))
	require.Empty(t, find(t, s, g.Contigs[0], 2, "C", "T"))
	const deletion = `exact 101 {"CLNSIG":"Uncertain_significance","CLNHGVS":"NC_000001.11:g.8del","CLNVI":"a;b,c=100%","ALLELEID":201}`
	require.Equal(t, []string{deletion}, find(t, s, g.Contigs[0], 7, "TT", "T"), "right-aligned")
	require.Equal(t, []string{deletion}, find(t, s, g.Contigs[0], 8, "T", ""), "without anchor")
	require.Equal(t, []string{`exact 103 {"CLNSIG":"Benign","ALLELEID":203}`}, find(t, s, g.Contigs[1], 4, "C", "T"))
	require.Equal(t, []string{`exact 105 {"CLNSIG":"Pathogenic","ALLELEID":205}`},
		findChange(t, s, annotate.Change{Contig: g.Contigs[0], Start: 24, End: 30, Alt: "<DEL>"}))
	require.Empty(t, findChange(t, s, annotate.Change{Contig: g.Contigs[0], Start: 24, End: 29, Alt: "<DEL>"}))

	entries, err := s.Find(nil, annotate.Change{Contig: g.Contigs[0], Start: 2, End: 4, Ref: "GT", Alt: "G"})
	require.NoError(t, err)
	k, err := entries[0].Known()
	require.NoError(t, err)
	require.Equal(t, "a%3Bb%2Cc%3D100%25", k.Fields[2].Value, "as the source has it")
}

// gnomad has alleles in one record, values per allele, per allele with the reference, and per genotype, numbers in all
// spellings, flags, and filters.
var gnomad = vcfText([]string{
	"AC A Integer", "AN 1 Integer", "AF A Float", "AF_grpmax A Float", "nhomalt A Integer", "faf95 A Float",
	"AD R Integer", "GQ G Integer", "lcr 0 Flag", "vep . String", "hist . Integer",
},
	"chr1 3 rs9 G A,T . PASS AC=3,0;AN=152000;AF=1.97368e-05,0;AF_grpmax=0.000073,.;AD=10,3,1;GQ=1,2,3,4,5,6;hist=1,.,3",
	"chr1 15 . G A,GATGATGAT,* . AC0;AS_VQSR AC=0,1,2;AN=152000;AF=0.00000e+00,6.57895e-06,1.3e-5;lcr;vep=A|missense_variant,A|intron_variant",
	"chr1 24 . CA C . . AF=0.5,0.5;nhomalt=7",
	"chr1 28 . C G,T . . AD=1;AF=nan,1e-310",
)

func TestGnomADFieldsAreCompiled(t *testing.T) {
	g := readGenome(t, reference)
	path, meta := compileText(t, Config{Genome: g, Name: "gnomad", Version: "4.1", Fields: []string{
		"FILTER", "AC", "AN", "AF", "AF_grpmax", "nhomalt", "AD", "GQ", "lcr", "vep", "hist",
	}}, gnomad)
	require.Equal(t, map[string]int{"AF": 1, "AD": 2}, meta.Counts.Dropped)
	require.Equal(t, map[string]int{skipNoAllele: 1}, meta.Counts.Skipped)
	s, err := Open(path, g)
	require.NoError(t, err)
	defer s.Close()
	for _, c := range []struct {
		pos            int
		ref, alt, want string
	}{
		{3, "G", "A", `exact rs9 {"FILTER":"PASS","AC":3,"AN":152000,"AF":1.97368e-05,"AF_grpmax":0.000073,"AD":[10,3],"GQ":[1,2,3],"hist":[1,null,3]}`},
		{3, "G", "T", `exact rs9 {"FILTER":"PASS","AC":0,"AN":152000,"AF":0,"AD":[10,1],"GQ":[1,4,6],"hist":[1,null,3]}`},
		{15, "G", "A", `exact  {"FILTER":"AC0;AS_VQSR","AC":0,"AN":152000,"AF":0.00000e+00,"lcr":true,"vep":"A|missense_variant,A|intron_variant"}`},
		{16, "A", "ATGATGATA", `exact  {"FILTER":"AC0;AS_VQSR","AC":1,"AN":152000,"AF":6.57895e-06,"lcr":true,"vep":"A|missense_variant,A|intron_variant"}`},
		{24, "CA", "C", `exact  {"nhomalt":7}`},
		{28, "C", "G", `exact  {"AF":"nan"}`},
		{28, "C", "T", `exact  {"AF":1e-310}`},
	} {
		require.Equal(t, []string{c.want}, find(t, s, g.Contigs[0], c.pos, c.ref, c.alt), "%+v", c)
	}
}

// dbsnp has RefSeq's accessions and several identifiers of an allele.
var dbsnp = vcfText([]string{"RS 1 Integer", "FREQ . String", "NSM 0 Flag", "COMMON 0 Flag"},
	"NC_000001.11 23 rs1 G A,C,T . . RS=1;FREQ=1000Genomes:0.99,0.01,.,.|TOPMED:1,0,0,0;NSM;COMMON",
	"NC_000001.11 24 rs2 CAC C . . RS=2",
	"NC_000001.11 29 rs3 ACA A . . RS=3",
	"NC_012920.1 1 rs4 G GA . . RS=4",
)

func TestDbSNPIsCompiledByRsNumber(t *testing.T) {
	g := readGenome(t, reference)
	s := openText(t, Config{Genome: g, Name: "dbsnp", Version: "157"}, dbsnp)
	require.Equal(t, "2026-11-01", s.Meta.Date)
	require.False(t, s.Meta.Unique)
	require.Equal(t, []string{`exact rs1 {"RS":1,"FREQ":"1000Genomes:0.99,0.01,.,.|TOPMED:1,0,0,0","NSM":true,"COMMON":true}`},
		find(t, s, g.Contigs[0], 23, "G", "C"))
	require.Equal(t, []string{`exact rs2 {"RS":2}`, `exact rs3 {"RS":3}`}, find(t, s, g.Contigs[0], 26, "CAC", "C"), "one change, two spellings")
	require.Equal(t, []string{`exact rs4 {"RS":4}`}, find(t, s, g.Contigs[1], 2, "", "A"), "between G and A")
	require.Equal(t, []string{`exact rs4 {"RS":4}`}, find(t, s, g.Contigs[1], 2, "A", "AA"))
}

// An allele of several bases is found as a whole, if a source has it so, and base by base: ClinVar and dbSNP have both.
func TestAnAlleleOfSeveralBasesIsFoundByItsAtomsToo(t *testing.T) {
	g := readGenome(t, ">NC_045512.2\nACGTTAGGGGAACGTATTTTGCA\n")
	s := openText(t, Config{Genome: g, Name: "dbsnp", Version: "1"}, vcfText([]string{"RS 1 Integer"},
		"NC_045512.2 7 rs1 G A . . RS=1",
		"NC_045512.2 8 rs2 G A . . RS=2",
		"NC_045512.2 9 rs3 G C,T . . RS=3",
		"NC_045512.2 7 rs4 GGG AAC . . RS=4",
		"NC_045512.2 19 rs5 TT T . . RS=5",
		"NC_045512.2 21 rs6 G C . . RS=6",
		"NC_045512.2 6 rs7 AGGG A . . RS=7",
	))
	for _, c := range []struct {
		name     string
		pos      int
		ref, alt string
		want     []string
	}{
		{"whole and atoms", 7, "GGG", "AAC", []string{`exact rs4 {"RS":4}`, `atom rs1 {"RS":1}`, `atom rs2 {"RS":2}`, `atom rs3 {"RS":3}`}},
		{"padded", 6, "AGGGG", "AAACG", []string{`exact rs4 {"RS":4}`, `atom rs1 {"RS":1}`, `atom rs2 {"RS":2}`, `atom rs3 {"RS":3}`}},
		{"atoms alone", 7, "GG", "AA", []string{`atom rs1 {"RS":1}`, `atom rs2 {"RS":2}`}},
		{"an unchanged base between", 7, "GGG", "AGT", []string{`atom rs1 {"RS":1}`, `atom rs3 {"RS":3}`}},
		{"a deletion in a run and a SNP behind it", 20, "TG", "C", []string{`atom rs5 {"RS":5}`, `atom rs6 {"RS":6}`}},
		{"a SNP is no part of itself", 7, "G", "A", []string{`exact rs1 {"RS":1}`}},
	} {
		require.Equal(t, c.want, find(t, s, g.Contigs[0], c.pos, c.ref, c.alt), c.name)
	}
}

func TestBEDIntervalsAreCompiled(t *testing.T) {
	g := readGenome(t, reference)
	text := "browser position chr1\ntrack name=x\n#comment\nchr1\t2\t8\thomopolymer T\t960\t+\t5,;=%\r\n1\t0\t36\tall\t.\t.\n\nchrM\t3\t3\tpoint\nchrUn\t0\t5\n"
	path, meta := compileText(t, Config{Genome: g, Name: "bed", Version: "1", Kind: "bed", Fields: []string{"score=5:Integer", "strand=6", "note=7"}}, text)
	require.Equal(t, map[string]int{skipContig: 1}, meta.Counts.Skipped)
	s, err := Open(path, g)
	require.NoError(t, err)
	defer s.Close()
	all := `overlap all {}`
	require.Equal(t, []string{all, `overlap homopolymer T {"score":960,"strand":"+","note":"5,;=%"}`}, find(t, s, g.Contigs[0], 8, "T", "A"))
	require.Equal(t, []string{all}, find(t, s, g.Contigs[0], 9, "G", "A"))
	require.Equal(t, []string{`overlap point {}`}, find(t, s, g.Contigs[1], 3, "TC", "A"))

	set, err := OpenSet(g, path)
	require.NoError(t, err)
	defer set.Close()
	known, err := set.AppendKnown(nil, annotate.Change{Contig: g.Contigs[1], Start: 2, End: 4, Ref: "TC", Alt: "A"})
	require.NoError(t, err)
	require.Equal(t, "chrM:3-4", known[0].Place)
}

func TestColumnsOfTablesAreCompiled(t *testing.T) {
	g := readGenome(t, reference)
	// As AlphaMissense: comments, then a header with #.
	s := openText(t, Config{
		Genome: g, Name: "am", Version: "1", Fields: []string{"am_pathogenicity:Float", "class=am_class"},
		Columns: map[string]string{"chrom": "CHROM", "pos": "POS", "ref": "REF", "alt": "ALT"},
	}, "# Copyright\n#CHROM\tPOS\tREF\tALT\tgenome\tam_pathogenicity\tam_class\nchr1\t3\tG\tA\thg38\t0.2937\tlikely_benign\nchr1\t3\tG\tC\thg38\t.\tlikely_benign\n")
	require.Equal(t, []string{`exact  {"am_pathogenicity":0.2937,"class":"likely_benign"}`}, find(t, s, g.Contigs[0], 3, "G", "A"))
	require.Equal(t, []string{`exact  {"class":"likely_benign"}`}, find(t, s, g.Contigs[0], 3, "G", "C"))
	// Numbers for columns, intervals, no header.
	s = openText(t, Config{
		Genome: g, Name: "i", Version: "1", Kind: "tsv", Fields: []string{"gene=4"},
		Columns: map[string]string{"chrom": "1", "start": "2", "end": "3", "id": "4"},
	}, "1\t9\t12\tG 1\n")
	require.Equal(t, []string{`overlap G 1 {"gene":"G 1"}`}, find(t, s, g.Contigs[0], 10, "A", "T"))
	// All columns that are left.
	s = openText(t, Config{
		Genome: g, Name: "i", Version: "1", Kind: "tsv", Columns: map[string]string{"chrom": "c", "pos": "p"},
	}, "c\tp\tx\ty\n1\t9\t1\t2\n")
	require.Equal(t, []string{`overlap  {"x":"1","y":"2"}`}, find(t, s, g.Contigs[0], 9, "G", "T"))
}

func TestCompileRefuses(t *testing.T) {
	g := readGenome(t, reference)
	alleles := map[string]string{"chrom": "1", "pos": "2", "ref": "3", "alt": "4"}
	for _, c := range []struct {
		name string
		cfg  Config
		text string
		want string
	}{
		{"kind", Config{}, "x\ty\n", "say what it is with --kind"},
		{"empty", Config{Kind: "vcf"}, "", "the file is empty: not VCF"},
		{"no records", Config{}, vcfText(nil), "no records"},
		{"bad line", Config{}, vcfText(nil, "1 x . A C . . ."), `line 4: POS "x" is not a position`},
		{"another reference", Config{}, vcfText(nil, "1 1 . C A . . .", "1 2 . C A . . ."), "1 of 2 alleles have another reference base"},
		{"no contig", Config{}, vcfText(nil, "2 1 . C A . . .", "3 1 . C A . . ."), "none of its contigs (2, 3) is in the reference (chr1, chrM): give their other names with --contig-synonyms"},
		{"no field", Config{Fields: []string{"AF"}}, vcfText([]string{"AC A Integer"}, "1 1 . A C . . ."), `the header declares no INFO field "AF"; it has AC`},
		{"field twice", Config{Fields: []string{"AC", "AC"}}, vcfText([]string{"AC A Integer"}, "1 1 . A C . . ."), `field "AC" is named twice`},
		{"name", Config{Name: "my source"}, vcfText(nil, "1 1 . A C . . ."), `source name "my source"`},
		{"date", Config{Date: "yesterday"}, vcfText(nil, "1 1 . A C . . ."), `date "yesterday": want YYYY-MM-DD`},
		{"match", Config{Matches: []annotate.Match{"near"}}, vcfText(nil, "1 1 . A C . . ."), `match "near"`},
		{"bed", Config{Kind: "bed"}, "chr1\t5\t3\n", `line 1: "5" to "3" is not an interval`},
		{"short bed", Config{Kind: "bed"}, "chr1\t1\t2\nchr1\t5\n", "line 2: 2 columns, want at least chrom, start and end"},
		{"empty bed", Config{Kind: "bed"}, "# nothing\n", "no intervals"},
		{"bed column", Config{Kind: "bed", Fields: []string{"x"}}, "chr1\t1\t2\n", `field x: column "x": want a number from 1`},
		{"no columns", Config{Kind: "tsv"}, "1\t2\n", "needs --columns chrom="},
		{"role", Config{Kind: "tsv", Columns: map[string]string{"chromosome": "1"}}, "1\t2\n", `column "chromosome": want some of chrom`},
		{"no column", Config{Kind: "tsv", Columns: map[string]string{"chrom": "CHROM", "pos": "2"}}, "c\tp\n1\t2\n", `no column "CHROM"; the header has c, p`},
		{"short line", Config{Kind: "tsv", Columns: alleles}, "1\t2\tC\tA\n1\t2\tC\n", "line 2: 3 columns, want at least 4"},
		{"type", Config{Kind: "tsv", Columns: alleles, Fields: []string{"x=5:Float"}}, "1\t2\tC\tA\tlow\n", `line 1: column 5: "low" is not of the type Float`},
		{"unknown type", Config{Kind: "tsv", Columns: alleles, Fields: []string{"x=5:float"}}, "1\t2\tC\tA\t1\n", `field x has the type "float"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := c.cfg
			cfg.Genome, cfg.Version = g, "1"
			if cfg.Name == "" {
				cfg.Name = "s"
			}
			dir := t.TempDir()
			in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out.pss")
			require.NoError(t, os.WriteFile(in, []byte(c.text), 0o600))
			_, err := Compile(t.Context(), cfg, in, out)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, in)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1, "something stays behind")
		})
	}
}

func TestSynonyms(t *testing.T) {
	g := readGenome(t, reference)
	require.NoError(t, g.AddSynonyms(strings.NewReader("# UCSC\nCM000663.2\tchr1\n\nJ01415.2 chrM\n")))
	s := openText(t, Config{Genome: g, Name: "s", Version: "1"}, vcfText(nil, "CM000663.2 1 a A C . . .", "J01415.2 1 b G C . . ."))
	require.Equal(t, []string{"exact a {}"}, find(t, s, g.Contigs[0], 1, "A", "C"))
	require.Equal(t, []string{"exact b {}"}, find(t, s, g.Contigs[1], 1, "G", "C"))
}

func TestContigsAreFoundByNamesOfOthers(t *testing.T) {
	for _, c := range []struct{ reference, name, want string }{
		{"chr1", "1", "chr1"}, {"1", "chr1", "1"}, {"1", "NC_000001.11", "1"}, {"chrX", "NC_000023.11", "chrX"},
		{"chrY", "NC_000024.10", "chrY"}, {"NC_000001.11", "chr1", "NC_000001.11"}, {"NC_000023.11", "X", "NC_000023.11"},
		{"chrM", "MT", "chrM"}, {"MT", "chrM", "MT"}, {"M", "NC_012920.1", "M"}, {"NC_012920.1", "chrM", "NC_012920.1"},
		{"chr2", "1", ""}, {"chr1", "NC_000002.12", ""}, {"chr25", "NC_000025.1", ""}, {"NC_000001.11", "chr11", ""},
	} {
		g := readGenome(t, ">"+c.reference+"\nA\n")
		got := ""
		if i := newNames(g).find(c.name); i >= 0 {
			got = g.Contigs[i].Name
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
}

func TestMembersOfGzipAreReadAsOne(t *testing.T) {
	g := readGenome(t, reference)
	var b bytes.Buffer
	for _, part := range []string{clinvar[:300], clinvar[300:]} { // members, as bgzip writes
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	cfg := Config{Genome: g, Name: "s", Version: "1"}
	zipped, _ := compileText(t, cfg, b.String())
	text, _ := compileText(t, cfg, clinvar)
	a, err := Open(zipped, g)
	require.NoError(t, err)
	defer a.Close()
	c, err := Open(text, g)
	require.NoError(t, err)
	defer c.Close()
	require.NotEqual(t, a.Meta.InputSHA256, c.Meta.InputSHA256)
	a.Meta.InputSHA256 = c.Meta.InputSHA256
	require.Equal(t, a.Meta, c.Meta)
}
