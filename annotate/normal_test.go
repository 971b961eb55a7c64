package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// lociOf joins loci as pore hgvs does.
func lociOf(n Normal) string {
	s := make([]string, len(n.Loci))
	for i, l := range n.Loci {
		s[i] = l.String()
	}
	return strings.Join(s, ";")
}

// readNormalizer reads a genome and its genes; a name ending in .gz is decompressed by the readers.
func readNormalizer(tb testing.TB, fasta, gff string) *Normalizer {
	tb.Helper()
	g, err := genome.Load(fasta)
	if err != nil {
		tb.Fatal(err)
	}
	g = g.Packed()
	f, err := os.Open(gff)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	m, err := ReadModel(f, g)
	if err != nil {
		tb.Fatal(err)
	}
	return NewNormalizer(New(g, m), ProteinStyle{Predicted: true})
}

// TestNormalizeRules are the nomenclature's rules on a gene of two exons, worked out by hand, on both strands. Its
// transcript is T, its protein P, its gene TOY; see gene14.
func TestNormalizeRules(t *testing.T) {
	forward := NewNormalizer(gene14.annotator(t, "+"), ProteinStyle{Predicted: true})
	reverse := NewNormalizer(gene14.mirrored().annotator(t, "-"), ProteinStyle{Predicted: true})
	for _, c := range []struct{ input, c, g, p, vcf string }{
		// Substitution.
		{"T:c.5A>G", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T:c.5a>g", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"c(T):c.5A>G", "c(T):c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T.7:c.5A>G", "T.7:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T(TOY):c.5A>G", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"TOY:c.5A>G", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"P:c.5A>G", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"c:c.5A>G", "c(T):c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"c(G):c.5A>G", "c(T):c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"transcript:T:c.5A>G", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T:c.6A>G", "T:c.6A>G", "c:g.22A>G", "P:p.(Lys2=)", "c:22:A:G"},
		{"T:c.4A>T", "T:c.4A>T", "c:g.20A>T", "P:p.(Lys2Ter)", "c:20:A:T"},
		{"T:c.1A>G", "T:c.1A>G", "c:g.17A>G", "P:p.(Met1?)", "c:17:A:G"},
		{"T:c.43T>C", "T:c.43T>C", "c:g.99T>C", "P:p.(Ter15GlnextTer3)", "c:99:T:C"},
		{"T:c.-5C>T", "T:c.-5C>T", "c:g.12C>T", "P:p.(=)", "c:12:C:T"},
		{"T:c.*2C>T", "T:c.*2C>T", "c:g.103C>T", "P:p.(=)", "c:103:C:T"},
		{"T:c.5delinsG", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T:c.5A>A", "T:c.5=", "c:g.21=", "P:p.(Lys2=)", ""},
		{"T:c.41_*1del", "T:c.41_*1del", "c:g.97_102del", "P:p.(Glu14AlafsTer3)", ""},
		{"T:c.45_*1delinsCC", "T:c.45_*1delinsCC", "c:g.101_102delinsCC", "P:p.(Ter15TyrextTer3)", ""},
		{"T:c.42_43insAT", "T:c.42_43insAT", "c:g.98_99insAT", "P:p.(Ter15IleextTer?)", ""},
		// Introns: from the nearest exon, the middle base of an odd number to the exon before.
		{"T:c.24+1G>A", "T:c.24+1G>A", "c:g.41G>A", "P:p.?", "c:41:G:A"},
		{"T:c.25-1G>A", "T:c.25-1G>A", "c:g.80G>A", "P:p.?", "c:80:G:A"},
		{"T:c.24+9C>T", "T:c.24+9C>T", "c:g.49C>T", "P:p.(=)", "c:49:C:T"},
		{"T:c.24+21C>T", "T:c.25-20C>T", "c:g.61C>T", "P:p.(=)", "c:61:C:T"},
		{"T:c.25-40G>A", "T:c.24+1G>A", "c:g.41G>A", "P:p.?", "c:41:G:A"},
		// Deletion, and the 3' rule.
		{"T:c.4_6del", "T:c.4_6del", "c:g.20_22del", "P:p.(Lys2del)", "c:19:GAAA:G"},
		{"T:c.15del", "T:c.20del", "c:g.36del", "P:p.(Leu7Ter)", ""},
		{"T:c.15delT", "T:c.20del", "c:g.36del", "P:p.(Leu7Ter)", ""},
		{"T:c.15del1", "T:c.20del", "c:g.36del", "P:p.(Leu7Ter)", ""},
		{"T:c.16_17delTT", "T:c.19_20del", "c:g.35_36del", "P:p.(Leu7LysfsTer?)", ""},
		{"T:c.8del", "T:c.8del", "c:g.24del", "P:p.(Arg3LeufsTer5)", ""},
		{"T:c.23_24+2del", "T:c.23_24+2del", "c:g.39_42del", "P:p.?", ""},
		{"T:c.25_27del", "T:c.31_33del", "c:g.87_89del", "P:p.(Gln11del)", ""},
		{"T:c.25_27delCAG", "T:c.31_33del", "c:g.87_89del", "P:p.(Gln11del)", ""},
		{"T:c.22_27del", "T:c.22_27del", "c:g.38_83del", "P:p.(Arg8_Gln9del)", ""},
		{"T:c.22_27delAGACAG", "T:c.22_27del", "c:g.38_83del", "P:p.(Arg8_Gln9del)", ""},
		// Duplication rather than insertion.
		{"T:c.15dup", "T:c.20dup", "c:g.36dup", "P:p.(Leu7PhefsTer?)", ""},
		{"T:c.19_20insT", "T:c.20dup", "c:g.36dup", "P:p.(Leu7PhefsTer?)", ""},
		{"T:c.14_15insT", "T:c.20dup", "c:g.36dup", "P:p.(Leu7PhefsTer?)", ""},
		{"T:c.25_27dup", "T:c.31_33dup", "c:g.87_89dup", "P:p.(Gln11dup)", ""},
		{"T:c.33_34insGCA", "T:c.34_35insCAG", "c:g.90_91insCAG", "P:p.(Gln11_Asp12insAla)", ""},
		{"T:c.33_34insCAGCAG", "T:c.28_33dup", "c:g.84_89dup", "P:p.(Gln10_Gln11dup)", ""},
		{"T:c.24_24+1insC", "T:c.24_24+1insC", "c:g.40_41insC", "P:p.(Gln9ProfsTer?)", ""},
		// Insertion.
		{"T:c.6_7insGGG", "T:c.6_7insGGG", "c:g.22_23insGGG", "P:p.(Lys2_Arg3insGly)", "c:22:A:AGGG"},
		{"T:c.6_7ins[G;GG]", "T:c.6_7insGGG", "c:g.22_23insGGG", "P:p.(Lys2_Arg3insGly)", ""},
		{"T:c.6_7insG[3]", "T:c.6_7insGGG", "c:g.22_23insGGG", "P:p.(Lys2_Arg3insGly)", ""},
		{"T:c.6_7insN[3]", "T:c.6_7insNNN", "c:g.22_23insNNN", "P:p.?", ""},
		{"T:c.6_7ins22_24", "T:c.6_7insAGA", "c:g.22_23insAGA", "P:p.(Arg3dup)", ""},
		{"T:c.6_7ins22_24inv", "T:c.6_7insTCT", "c:g.22_23insTCT", "P:p.(Lys2_Arg3insSer)", ""},
		{"T:c.6_7ins23_26", "T:c.6_7insGACA", "c:g.22_23insGACA", "P:p.(Arg3AspfsTer?)", ""},
		// Deletion-insertion.
		{"T:c.37_38delinsCC", "T:c.37_38delinsCC", "c:g.93_94delinsCC", "P:p.(Trp13Pro)", "c:93:TG:CC"},
		{"T:c.37_38delTGinsCC", "T:c.37_38delinsCC", "c:g.93_94delinsCC", "P:p.(Trp13Pro)", "c:93:TG:CC"},
		{"T:c.36_39delinsTCCG", "T:c.37_38delinsCC", "c:g.93_94delinsCC", "P:p.(Trp13Pro)", "c:93:TG:CC"},
		{"T:c.37_39delinsCCAACC", "T:c.37_39delinsCCAACC", "c:g.93_95delinsCCAACC", "P:p.(Trp13delinsProThr)", ""},
		{"T:c.37_38con5_6", "T:c.37_38delinsAA", "c:g.93_94delinsAA", "P:p.(Trp13Lys)", ""},
		{"T:c.37_39delinsTGG", "T:c.37_39=", "c:g.93_95=", "P:p.(Trp13=)", ""},
		// Inversion.
		{"T:c.6_7inv", "T:c.6_7inv", "c:g.22_23inv", "P:p.(Arg3Cys)", "c:22:AC:GT"},
		{"T:c.6_7delinsGT", "T:c.6_7inv", "c:g.22_23inv", "P:p.(Arg3Cys)", "c:22:AC:GT"},
		{"T:c.6inv", "T:c.6A>T", "c:g.22A>T", "P:p.(Lys2Asn)", "c:22:A:T"},
		{"T:c.7_8inv", "T:c.7_8=", "c:g.23_24=", "P:p.(Arg3=)", ""},
		{"T:c.5_8inv", "T:c.5_8inv", "c:g.21_24inv", "P:p.(Lys2_Arg3delinsThrPhe)", ""},
		{"T:c.6_9inv", "T:c.6_9=", "c:g.22_25=", "P:p.(Lys2_Arg3=)", ""},
		// Repeats.
		{"T:c.25CAG[4]", "T:c.31_33dup", "c:g.87_89dup", "P:p.(Gln11dup)", ""},
		{"T:c.25_33CAG[2]", "T:c.31_33del", "c:g.87_89del", "P:p.(Gln11del)", ""},
		{"T:c.25_27[3]", "T:c.25_33=", "c:g.81_89=", "P:p.(Gln9_Gln11=)", ""},
		{"T:c.25CAG[1]", "T:c.28_33del", "c:g.84_89del", "P:p.(Gln10_Gln11del)", ""},
		{"T:c.25_27CAG[1]", "T:c.25_27=", "c:g.81_83=", "P:p.(Gln9=)", ""},
		{"T:c.25_27CAG[2]", "T:c.31_33dup", "c:g.87_89dup", "P:p.(Gln11dup)", ""},
		{"T:c.25_30CAG[1]", "T:c.31_33del", "c:g.87_89del", "P:p.(Gln11del)", ""},
		{"T:c.25_33CAG[2]CAA[1]", "T:c.33G>A", "c:g.89G>A", "P:p.(Gln11=)", ""},
		// Not changed.
		{"T:c.5=", "T:c.5=", "c:g.21=", "P:p.(Lys2=)", ""},
		{"T:c.5A=", "T:c.5=", "c:g.21=", "P:p.(Lys2=)", ""},
		{"T:c.4_6=", "T:c.4_6=", "c:g.20_22=", "P:p.(Lys2=)", ""},
		{"T:c.=", "T:c.=", "c:g.=", "P:p.(=)", ""},
		// Alleles.
		{"T:c.[5A>G]", "T:c.5A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T:c.[5A>G;43T>C]", "T:c.[5A>G;43T>C]", "c:g.[21A>G;99T>C]", "P:p.[(Lys2Arg;Ter15GlnextTer3)]", "c:21:A:G;c:99:T:C"},
		{"T:c.[43T>C;5A>G]", "T:c.[5A>G;43T>C]", "c:g.[21A>G;99T>C]", "P:p.[(Lys2Arg;Ter15GlnextTer3)]", "c:21:A:G;c:99:T:C"},
		{"T:c.[5A>G];[43T>C]", "T:c.[5A>G];[43T>C]", "c:g.[21A>G];[99T>C]", "P:p.[(Lys2Arg)];[(Ter15GlnextTer3)]", "c:21:A:G;c:99:T:C"},
		{"T:c.5A>G(;)43T>C", "T:c.5A>G(;)43T>C", "c:g.21A>G(;)99T>C", "P:p.(Lys2Arg)(;)(Ter15GlnextTer3)", "c:21:A:G;c:99:T:C"},
		{"T:c.[5A>G];[5=]", "T:c.[5A>G];[5=]", "c:g.[21A>G];[21=]", "P:p.[(Lys2Arg)];[(Lys2=)]", "c:21:A:G"},
		{"T:c.[5A>G;6A>C]", "T:c.5_6delinsGC", "c:g.21_22delinsGC", "P:p.(Lys2Ser)", "c:21:AA:GC"},
		{"T:c.[4A>G;6A>C]", "T:c.4_6delinsGAC", "c:g.20_22delinsGAC", "P:p.(Lys2Asp)", "c:20:AAA:GAC"},
		{"T:c.[6A>C;8G>A]", "T:c.[6A>C;8G>A]", "c:g.[22A>C;24G>A]", "P:p.(Lys2_Arg3delinsAsnHis)", "c:22:A:C;c:24:G:A"},
		{"T:c.[1A>G;5A>G]", "T:c.[1A>G;5A>G]", "c:g.[17A>G;21A>G]", "P:p.(Met1?)", "c:17:A:G;c:21:A:G"},
		{"c:g.[17A>T;19G>C]", "c:g.[17A>T;19G>C]", "c:g.[17A>T;19G>C]", "P:p.(Met1?)", "c:17:A:T;c:19:G:C"},
		{"c:g.[20A>G;22A>C]", "c:g.[20A>G;22A>C]", "c:g.[20A>G;22A>C]", "P:p.(Lys2Asp)", "c:20:A:G;c:22:A:C"},
		// A reading frame that is restored: the consequence of both together.
		{"T:c.[8del;14_15insG]", "T:c.[8del;14_15insG]", "c:g.[24del;30_31insG]", "P:p.(Arg3_Ala5delinsLeuValArg)", ""},
		// n. counts from the first base of the transcript.
		{"T:n.11A>G", "T:n.11A>G", "c:g.21A>G", "P:p.(Lys2Arg)", "c:21:A:G"},
		{"T:n.30+1G>A", "T:n.30+1G>A", "c:g.41G>A", "P:p.?", "c:41:G:A"},
	} {
		got, err := forward.Normalize(c.input)
		if err != nil {
			t.Errorf("%s: %v", c.input, err)
			continue
		}
		if got.Description != c.c || got.Genomic != c.g || got.Protein != c.p || c.vcf != "" && lociOf(got) != c.vcf {
			t.Errorf("%s:\nhave %s %s %s %s\nwant %s %s %s %s", c.input, got.Description, got.Genomic, got.Protein, lociOf(got), c.c, c.g, c.p, c.vcf)
		}
		if strings.HasPrefix(c.input, "c:") {
			continue // means another place on the other strand
		}
		mirrored, err := reverse.Normalize(c.input)
		if err != nil {
			t.Errorf("-: %s: %v", c.input, err)
			continue
		}
		if mirrored.Description != c.c || mirrored.Protein != c.p {
			t.Errorf("-: %s: have %s %s, want %s %s", c.input, mirrored.Description, mirrored.Protein, c.c, c.p)
		}
		again, err := forward.Normalize(got.Description)
		if err != nil || again.Description != got.Description || lociOf(again) != lociOf(got) {
			t.Errorf("%s: its normal form %s gives %+v, %v", c.input, got.Description, again, err)
		}
	}
}

// TestNormalizeRefuses: descriptions that can't be resolved give the reason.
func TestNormalizeRefuses(t *testing.T) {
	n := NewNormalizer(gene14.annotator(t, "+"), ProteinStyle{})
	for _, c := range [][2]string{
		{"T:c.5C>G", "5C>G says C, but the reference has A there"},
		{"c:g.21C>G", "21C>G says C, but the reference has A there"},
		{"T:c.4_6delAAC", "4_6delAAC says AAC, but the reference has AAA there"},
		{"T:c.4_6del4", "says 4 bases, but 4_6 has 3 bases"},
		{"T:c.4_6dupAA", "says 2 bases, but 4_6 has 3 bases"},
		{"T:c.46A>G", "position 46 lies outside the coding sequence of T, which has 45 bases"},
		{"T:c.-7A>G", "position -7 lies outside transcript T"},
		{"T:c.*13A>G", "position *13 lies outside transcript T"},
		{"T:n.64A>G", "position 64 lies outside transcript T, which has 63 bases"},
		{"c:g.6114A>G", "position 6114 lies outside c, which has 6113 bases"},
		{"T:c.20+1G>A", "20 is not the edge of an exon of T"},
		{"T:c.24-1G>A", "24 is not the edge of an exon of T"},
		{"T:c.24+41G>A", "lies outside the intron, which has 40 bases"},
		{"T:c.*12+1G>A", "no intron is beside *12"},
		{"T:c.6_4del", "range 6_4 is inverted"},
		{"T:c.7_6insA", "range 7_6 is inverted"},
		{"T:c.6_8insA", "neighbouring positions, which those of 6_8 are not"},
		{"T:c.6insA", "an insertion stands between two neighbouring positions, not at 6"},
		{"T:c.24_25insA", "an intron lies between the positions of 24_25"},
		{"T:c.(4_6)del", "uncertain position (4_6)"},
		{"T:c.(4_6)_(9_10)del", "uncertain position (4_6)_(9_10)"},
		{"T:c.24+?_25-?del", "uncertain position 24+?_25-?"},
		{"T:c.(5_6)insG", "uncertain position (5_6)"},
		{"T:c.[4_6del;5A>G]", "changes in the same brackets overlap"},
		{"T:c.[5A>G;=]", "= is about the whole sequence"},
		{"T:c.5A>R", "R stands for several bases"},
		{"T:c.5_6insNRY", "R stands for several bases"},
		{"T:c.25CAT[3]", "the reference has no CAT there"},
		{"T:c.25_27CAT[3]", "the reference has CAG there, which is not made of CAT"},
		{"T:c.25_33CAT[3]", "which is not made of CAT"},
		{"T:c.25CAG[2]CAA[1]", "a repeat of several units needs the range"},
		{"T:c.4_6A[2000000]", "too long"},
		{"T:c.6_7insA[2000000]", "too long"},
		{"T2:c.5A>G", `transcript "T2" is unknown`},
		{"c(T2):c.5A>G", `transcript "T2" is unknown`},
		{"c:n.5A>G", "c is a contig: n. needs a transcript"},
		{"T:g.5A>G", "T is not a contig"},
		{"d:g.5A>G", `reference sequence "d" is unknown: the reference has c`},
		{"c(T):g.5A>G", "takes no transcript"},
		{"T(OTHER):c.5A>G", `T is not of "OTHER": its gene is TOY`},
		{"T:c.6_7ins[d:g.1_2]", `reference sequence "d" is unknown`},
		{"T:c.6_7ins60_61", "inserted 60_61: position 60 lies outside"},
		{"T:p.Lys2Arg", "p. describes a protein"},
	} {
		if got, err := n.Normalize(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %+v, error %v, want %q in it", c[0], got, err, c[1])
		}
	}
}

// TestSARSCoV2 are the mutations by which the first lineages are known, and descriptions by all names of a gene that
// has no transcript.
func TestSARSCoV2(t *testing.T) {
	dir := filepath.Join("..", "testdata", "sarscov2")
	n := readNormalizer(t, filepath.Join(dir, "reference.fa.gz"), filepath.Join(dir, "genes.gff3"))
	const v = "NC_045512.2"
	for _, c := range []struct{ input, description, g, p, vcf string }{
		{v + ":g.23403A>G", v + ":g.23403A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{v + ":g.14408C>T", v + ":g.14408C>T", v + ":g.14408C>T", "YP_009724389.1:p.(Pro4715Leu)", v + ":14408:C:T"},
		{v + ":g.3037C>T", v + ":g.3037C>T", v + ":g.3037C>T", "YP_009724389.1:p.(Phe924=)", v + ":3037:C:T"},
		{v + ":g.241C>T", v + ":g.241C>T", v + ":g.241C>T", "", v + ":241:C:T"},
		{v + "(S):c.1841A>G", v + "(YP_009724390.1):c.1841A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{"S:c.1841A>G", v + "(YP_009724390.1):c.1841A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{"YP_009724390.1:c.1841A>G", v + "(YP_009724390.1):c.1841A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{"YP_009724390:c.1841A>G", v + "(YP_009724390.1):c.1841A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{v + "(gene-S):c.1841A>G", v + "(YP_009724390.1):c.1841A>G", v + ":g.23403A>G", "YP_009724390.1:p.(Asp614Gly)", v + ":23403:A:G"},
		{v + "(ORF1ab):c.14144C>T", v + "(YP_009724389.1):c.14144C>T", v + ":g.14408C>T", "YP_009724389.1:p.(Pro4715Leu)", v + ":14408:C:T"},
		{v + "(ORF1a):c.2772C>T", v + "(YP_009725295.1):c.2772C>T", v + ":g.3037C>T", "YP_009725295.1:p.(Phe924=)", v + ":3037:C:T"},
		{v + "(ORF1ab):c.-25C>T", v + "(YP_009724389.1):c.-25C>T", v + ":g.241C>T", "YP_009724389.1:p.(=)", v + ":241:C:T"},
		{"N:c.*10_*12del", v + "(YP_009724397.2):c.*10_*12del", v + ":g.29543_29545del", "YP_009724397.2:p.(=)", v + ":29542:AGAC:A"},
		// The base that the slipping ribosome reads twice is c.13203 and c.13204.
		{"ORF1ab:c.13203C>T", v + "(YP_009724389.1):c.13203C>T", v + ":g.13468C>T", "YP_009724389.1:p.(Arg4402Trp)", v + ":13468:C:T"},
		{"ORF1ab:c.13204C>T", v + "(YP_009724389.1):c.13203C>T", v + ":g.13468C>T", "YP_009724389.1:p.(Arg4402Trp)", v + ":13468:C:T"},
		{v + ":g.21765_21770del", v + ":g.21766_21771del", v + ":g.21766_21771del", "YP_009724390.1:p.(His69_Val70del)", v + ":21764:ATACATG:A"},
		{v + ":g.28881_28883delinsAAC", v + ":g.28881_28883delinsAAC", v + ":g.28881_28883delinsAAC", "YP_009724397.2:p.(Arg203_Gly204delinsLysArg)", v + ":28881:GGG:AAC"},
		{v + ":g.[28881G>A;28882G>A;28883G>C]", v + ":g.28881_28883delinsAAC", v + ":g.28881_28883delinsAAC", "YP_009724397.2:p.(Arg203_Gly204delinsLysArg)", v + ":28881:GGG:AAC"},
		{
			v + ":g.[241C>T;3037C>T;14408C>T;23403A>G]", v + ":g.[241C>T;3037C>T;14408C>T;23403A>G]", v + ":g.[241C>T;3037C>T;14408C>T;23403A>G]",
			"YP_009724389.1:p.[(Phe924=;Pro4715Leu)];YP_009724390.1:p.(Asp614Gly)",
			v + ":241:C:T;" + v + ":3037:C:T;" + v + ":14408:C:T;" + v + ":23403:A:G",
		},
		{v + ":g.29903del", v + ":g.29903del", v + ":g.29903del", "", v + ":29870:CA:C"},
		{v + ":g.1_2insA", v + ":g.1dup", v + ":g.1dup", "", v + ":1:A:AA"},
	} {
		got, err := n.Normalize(c.input)
		if err != nil {
			t.Errorf("%s: %v", c.input, err)
			continue
		}
		if got.Description != c.description || got.Genomic != c.g || got.Protein != c.p || lociOf(got) != c.vcf {
			t.Errorf("%s:\nhave %s %s %s %s\nwant %s %s %s %s", c.input, got.Description, got.Genomic, got.Protein, lociOf(got), c.description, c.g, c.p, c.vcf)
		}
	}
	if _, err := n.Normalize("ORF1ab:c.13202_13205del"); err == nil || !strings.Contains(err.Error(), "the ribosome slips") {
		t.Errorf("across the slippage: %v", err)
	}
	if _, err := n.Normalize("S:c.3823A>G"); err == nil || !strings.Contains(err.Error(), "outside the coding sequence") {
		t.Errorf("behind the stop codon: %v", err)
	}
}

// TestLambdaHGVS are the four differences of the sequenced strain of lambda.
func TestLambdaHGVS(t *testing.T) {
	dir := filepath.Join("..", "testdata", "lambda")
	n := readNormalizer(t, filepath.Join(dir, "reference.fa"), filepath.Join(dir, "genes.gff3"))
	for _, c := range [][4]string{
		{"cI:c.352G>A", "lambdap88:c.352G>A", "J02459.1:g.37589C>T", "lambdap88:p.(Glu118Lys)"},
		{"cI:c.199G>A", "lambdap88:c.199G>A", "J02459.1:g.37742C>T", "lambdap88:p.(Ala67Thr)"},
		{"lambdap69:c.43G>A", "lambdap69:c.43G>A", "J02459.1:g.43082G>A", "lambdap69:p.(Ala15Thr)"},
		{"S:c.167G>A", "lambdap74:c.167G>A", "J02459.1:g.45352G>A", "lambdap74:p.(Trp56Ter)"},
	} {
		got, err := n.Normalize(c[0])
		if err != nil || got.Description != c[1] || got.Genomic != c[2] || got.Protein != c[3] {
			t.Errorf("%s: %+v %v", c[0], got, err)
		}
		back, err := n.Normalize(c[2])
		if err != nil || back.Protein != c[3] {
			t.Errorf("%s: %+v %v", c[2], back, err)
		}
	}
}

// TestVersionedTranscript: a version that the gene model separates from the name must be the one asked for.
func TestVersionedTranscript(t *testing.T) {
	g := readGenome(t, ">c\n"+gene14.seq+"\n")
	m, err := ReadModel(strings.NewReader(`c	x	gene	11	40	.	+	.	ID=gene:G;Name=TOY;biotype=protein_coding
c	x	mRNA	11	40	.	+	.	ID=transcript:ENST1;Parent=gene:G;biotype=protein_coding;version=3
c	x	exon	11	40	.	+	.	Parent=transcript:ENST1
c	x	CDS	17	40	.	+	0	ID=CDS:ENSP1;Parent=transcript:ENST1;protein_id=ENSP1
c	x	mRNA	11	40	.	+	.	ID=transcript:ENST2;Parent=gene:G;biotype=protein_coding;version=1
c	x	exon	11	40	.	+	.	Parent=transcript:ENST2
c	x	CDS	20	40	.	+	0	ID=CDS:ENSP2;Parent=transcript:ENST2;protein_id=ENSP2
`), g)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNormalizer(New(g, m), ProteinStyle{})
	for _, c := range [][2]string{
		{"ENST1.3:c.5A>G", "ENST1.3:c.5A>G"},
		{"ENST1:c.5A>G", "ENST1.3:c.5A>G"},
		{"c(ENST1):c.5A>G", "c(ENST1.3):c.5A>G"},
		{"c(ENST1.3):c.5A>G", "c(ENST1.3):c.5A>G"},
		{"ENST1.2:c.5A>G", "error: the gene model has ENST1.3 and not ENST1.2"},
		{"TOY:c.5A>G", "error: TOY has 2 transcripts, say which: c(ENST1), c(ENST2)"},
		{"ENSP2:c.2A>G", "ENST2.1:c.2A>G"},
	} {
		got, err := n.Normalize(c[0])
		if want, isError := strings.CutPrefix(c[1], "error: "); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v %v, want %s", c[0], got, err, want)
			}
		} else if err != nil || got.Description != c[1] || got.Genomic != "c:g.21A>G" {
			t.Errorf("%s: %+v %v, want %s", c[0], got, err, c[1])
		}
	}
}

// TestGenesByNumber: HGNC's number of a gene selects its one coding transcript, with the prefix once, twice or without.
func TestGenesByNumber(t *testing.T) {
	g := readGenome(t, ">c\n"+gene14.seq+"\n")
	for _, written := range []string{"HGNC:10683", "HGNC:HGNC:10683"} {
		m, err := ReadModel(strings.NewReader(rows(
			"c gene 11 40 + . ID=gene-TOY;Name=TOY;Dbxref=GeneID:6392,"+written,
			"c mRNA 11 40 + . ID=rna-NM_1.1;Parent=gene-TOY;transcript_id=NM_1.1",
			"c exon 11 40 + . ID=e;Parent=rna-NM_1.1",
			"c CDS 17 40 + 0 ID=cds-NP_1.1;Parent=rna-NM_1.1;protein_id=NP_1.1",
		)), g)
		if err != nil {
			t.Fatal(err)
		}
		n := NewNormalizer(New(g, m), ProteinStyle{})
		for _, selector := range []string{"HGNC:10683", "10683", "GeneID:6392", "TOY"} {
			got, err := n.Normalize("c(" + selector + "):c.5A>G")
			if err != nil || got.Description != "c(NM_1.1):c.5A>G" {
				t.Errorf("%s of %s: %+v %v", selector, written, got, err)
			}
		}
		if got, err := n.Normalize("c(6392):c.5A>G"); err == nil || !strings.Contains(err.Error(), `transcript "6392" is unknown`) {
			t.Errorf("a number of no gene of HGNC: %+v %v", got, err)
		}
	}
}

// TestTranscriptsAsContigs: RefSeq's record of a transcript has its rows under the name of the gene; the contig's name is the
// transcript's.
func TestTranscriptsAsContigs(t *testing.T) {
	g := readGenome(t, ">NR_900001.1\nGGCATTCAGCCATCCATGGCTG\n>NC_900001.1\nGGCATTCAGCCATCCATGGCTG\n")
	m, err := ReadModel(strings.NewReader(rows(
		"NR_900001.1 region 1 22 + . ID=r;gbkey=Src;mol_type=transcribed%20RNA",
		"NR_900001.1 gene 1 22 + . ID=gene-MADE-AS1;Name=MADE-AS1",
		"NR_900001.1 exon 1 9 + . ID=id-1;Parent=gene-MADE-AS1",
		"NR_900001.1 exon 10 22 + . ID=id-2;Parent=gene-MADE-AS1",
		"NR_900001.1 lnc_RNA 1 22 + . ID=rna-MADE-AS1;Parent=gene-MADE-AS1",
		"NR_900001.1 exon 1 22 + . ID=exon-1;Parent=rna-MADE-AS1",
		"NC_900001.1 gene 1 22 + . ID=gene-MADE2;Name=MADE2",
		"NC_900001.1 lnc_RNA 1 22 + . ID=rna-MADE2;Parent=gene-MADE2",
		"NC_900001.1 exon 1 22 + . ID=exon-2;Parent=rna-MADE2",
	)), g)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNormalizer(New(g, m), ProteinStyle{})
	for _, c := range [][2]string{
		{"NR_900001.1:n.10del", "NR_900001.1:n.11del"},
		{"NR_900001.1:n.pter_2del", "NR_900001.1:n.1_2del"},
		{"MADE-AS1:n.5T>A", "NR_900001.1:n.5T>A"},
		{"NR_900001.1:g.10del", "error: NR_900001.1 is a transcript: g. counts along a genome"},
		{"NC_900001.1:g.10del", "NC_900001.1:g.11del"},
		{"NC_900001.1:n.10del", "error: NC_900001.1 is a contig: n. needs a transcript"},
		{"NC_900001.1(MADE2):n.10del", "NC_900001.1(MADE2):n.11del"},
		{"NC_900001.1:g.5_6insNR_900001.1:n.7", "NC_900001.1:g.5_6insC"},
		{"NC_900001.1:g.5_6ins[NR_900001.1:n.7_8;A]", "NC_900001.1:g.5_6insCAA"},
		{"NC_900001.1:g.5_6insNR_900001.1:7_8", "error: column 21: no coordinate type behind the name of the inserted sequence"},
		{"NC_900001.1:g.5_6ins7", "error: a number of unknown bases (7)"},
	} {
		got, err := n.Normalize(c[0])
		if want, isError := strings.CutPrefix(c[1], "error: "); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v %v, want %s", c[0], got, err, want)
			}
		} else if err != nil || got.Description != c[1] {
			t.Errorf("%s: %+v %v, want %s", c[0], got, err, c[1])
		}
	}
}
