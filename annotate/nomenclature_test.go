package annotate

import (
	"strings"
	"testing"
)

// borders is a gene whose exons meet their introns as the nomenclature's examples have it, with introns in both
// untranslated regions. It codes for MADDSLEQVL.
//
//	exon 1  c.-15_-6  GGCATTCAGC
//	exon 2  c.-5_12   CATCC ATGGCTGACGAT   then gta…cag: c.12 is a T, and so is c.13 (c.3921dup of the nomenclature)
//	exon 3  c.13_24   TCACTGGAACAG         then gta: c.24 is a G, and so is c.24+1 (c.1704+1dup)
//	exon 4  c.25_*5   GTTTTATGA CCTTA      behind …ag: c.25 is a G, and so is c.25-1 (c.1813dup)
//	exon 5  c.*6_*13  TTGCATGG
var borders = func() toy {
	g := toy{seq: "ACGTACGTAC"}
	for i, s := range []string{
		"GGCATTCAGC", "GTAAGTCCAGTCTGACCTCAG", "CATCCATGGCTGACGAT", "GTACCAGACTGACCTGCATCCAG", "TCACTGGAACAG",
		"GTAAGCCTTATTCATTTACAG", "GTTTTATGACCTTA", "GTATGTCCGCAG", "TTGCATGG",
	} {
		if i%2 == 0 {
			g.exons = append(g.exons, [2]int{len(g.seq) + 1, len(g.seq) + len(s)})
		}
		g.seq += s
	}
	g.seq += strings.Repeat("CATG", 10)
	g.cdsStart, g.cdsEnd = g.exons[1][0]+5, g.exons[3][0]+8
	return g
}()

// TestNomenclatureBorders are the nomenclature's rules for the borders of exons, and its numbering of introns.
func TestNomenclatureBorders(t *testing.T) {
	forward := NewNormalizer(borders.annotator(t, "+"), ProteinStyle{Predicted: true})
	reverse := NewNormalizer(borders.mirrored().annotator(t, "-"), ProteinStyle{Predicted: true})
	for _, c := range []struct{ input, want, protein string }{
		// Not from exon to exon.
		{"T:c.12dup", "T:c.12dup", "P:p.(Ser5PhefsTer?)"},
		{"T:c.12del", "T:c.12del", "P:p.(Ser5HisfsTer?)"},
		{"T:c.13del", "T:c.13del", "P:p.(Ser5HisfsTer?)"},
		// From the exon into the intron, and from the intron into the exon.
		{"T:c.24dup", "T:c.24+1dup", "P:p.?"},
		{"T:c.24_24+1insG", "T:c.24+1dup", "P:p.?"},
		{"T:c.24del", "T:c.24+1del", "P:p.?"},
		{"T:c.25-1dup", "T:c.25dup", "P:p.(Val9GlyfsTer?)"},
		{"T:c.25-1_25insG", "T:c.25dup", "P:p.(Val9GlyfsTer?)"},
		{"T:c.25-1del", "T:c.25del", "P:p.(Val9PhefsTer?)"},
		// Across a border.
		{"T:c.23_24+3dup", "T:c.24+1_24+5dup", "P:p.?"},
		{"T:c.22_24+2del", "T:c.22_24+2del", "P:p.?"},
		{"T:c.12+1_13-1del", "T:c.12+1_13-1del", "P:p.?"},
		{"T:c.13_24del", "T:c.13_24del", "P:p.(Ser5_Gln8del)"},
		// An odd intron's middle base belongs to the exon before it; of an even one each half.
		{"T:c.-6+11T>A", "T:c.-6+11T>A", "P:p.(=)"},
		{"T:c.-5-11T>A", "T:c.-6+11T>A", "P:p.(=)"},
		{"T:c.-6+12C>A", "T:c.-5-10C>A", "P:p.(=)"},
		{"T:c.-6+1G>A", "T:c.-6+1G>A", "P:p.?"},
		{"T:c.*5+6T>A", "T:c.*5+6T>A", "P:p.(=)"},
		{"T:c.*5+7C>A", "T:c.*6-6C>A", "P:p.(=)"},
		{"T:c.*6-7T>A", "T:c.*5+6T>A", "P:p.(=)"},
		{"T:c.12+12A>C", "T:c.12+12A>C", "P:p.(=)"},
		{"T:c.13-12A>C", "T:c.12+12A>C", "P:p.(=)"},
		// The untranslated regions, without c.0.
		{"T:c.-1_1insG", "T:c.-1_1insG", "P:p.(=)"},
		{"T:c.-15G>A", "T:c.-15G>A", "P:p.(=)"},
		{"T:c.*13G>A", "T:c.*13G>A", "P:p.(=)"},
		{"T:c.33_*1insC", "T:c.*2dup", "P:p.(=)"},
		{"T:c.-16G>A", "", ""},
		{"T:c.*14G>A", "", ""},
		{"T:n.10G>A", "", ""},
		{"T:n.10C>A", "T:n.10C>A", ""},
		{"T:n.10+11T>A", "T:n.10+11T>A", "P:p.(=)"},
		{"T:n.16A>G", "T:n.16A>G", "P:p.(Met1?)"},
		// Units of any length are counted outside the coding sequence, and in it those that keep the reading frame.
		{"T:c.*6T[5]", "T:c.*6_*7T[5]", "P:p.(=)"},
		{"T:c.*7_*8insTTT", "T:c.*6_*7T[5]", "P:p.(=)"},
		{"T:c.*7T[4]", "T:c.*6_*7T[5]", "P:p.(=)"},
		{"T:c.12+4C[5]", "T:c.12+4_12+5C[5]", ""},
		{"T:c.3G[5]", "T:c.4_5insGGG", "P:p.(Met1_Ala2insGly)"},
		{"T:c.3_4G[5]", "T:c.4_5insGGG", "P:p.(Met1_Ala2insGly)"},
		{"T:c.7GAC[3]", "T:c.9_11CGA[3]", "P:p.(Asp3_Asp4dup)"},
		// Whole exons, from intron to intron: as if the others were spliced as before. The last bases of an intron must be there.
		{"T:c.12+10_24+10del", "T:c.12+11_24+11del", "P:p.(Ser5_Gln8del)"},
		{"T:c.12+3_25-3del", "T:c.12+4_25-2del", "P:p.(Ser5_Gln8del)"},
		{"T:c.12+1_24+10del", "T:c.12+1_24+10del", "P:p.?"},
		{"T:c.12+10_25-2del", "T:c.12+10_25-2del", "P:p.?"},
		{"T:c.12+10_24+10dup", "T:c.12+11_24+11dup", "P:p.(Ser5_Gln8dup)"},
		{"T:c.13-1_24+10dup", "T:c.13-1_24+10dup", "P:p.(Ser5_Gln8dup)"}, // stands as well at 13-2_24+9
		{"T:c.13-1_24+5dup", "T:c.13-1_24+5dup", "P:p.?"},
		{"T:c.-6+10_12+10del", "T:c.-6+11_12+11del", "P:p.?"},
		{"T:c.-6+10_12+10dup", "T:c.-6+11_12+11dup", "P:p.?"},
		{"T:c.24+10_*5+5del", "T:c.24+10_*5+5del", "P:p.?"},
		// The ends of the sequence by their names: the transcript's, or the contig's.
		{"T:c.pterdel", "T:c.-14del", "P:p.(=)"},
		{"T:c.*12_qterdel", "T:c.*12_*13del", "P:p.(=)"},
		{"T:c.33_*1inspter_-13", "T:c.33_*1insGGC", "P:p.(=)"},
		{"T:n.pter_4inv", "T:n.1_4inv", "P:p.(=)"},
	} {
		for strand, n := range map[string]*Normalizer{"+": forward, "-": reverse} {
			got, err := n.Normalize(c.input)
			switch {
			case c.want == "":
				if err == nil {
					t.Errorf("%s: %s is taken: %+v", strand, c.input, got)
				}
			case err != nil:
				t.Errorf("%s: %s: %v", strand, c.input, err)
			case got.Description != c.want || got.Protein != c.protein:
				t.Errorf("%s: %s: have %s %s, want %s %s", strand, c.input, got.Description, got.Protein, c.want, c.protein)
			}
		}
	}
}

// FuzzNormalize: whatever a description says, it has a normal form that stays as it is, or an error.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{
		"T:c.12dup", "T:c.[12del;24_25-1insACG]", "T:c.-6+11T>A", "c:g.5_9inv", "c(T):n.3_9delins5_8inv", "T:c.13CAT[3]", "T:c.4_6[9]",
		"c:o.1_2insA", "c:m.1>CA", "c:m.[1>CA;5del]", "T:c.1_33delinsA[5]", "TOY:c.33_*1insTAA", "c:m.10A>C(;)12del", "T:c.[1A>G];[=]", "T:c.33_34insT",
		"T:c.pter_-13del", "c:g.20_qterinv", "c(T):c.*3_*4ins12_13", "c(T):c.-20_qterdelinspter_5", "T:c.*6T[5]", "T:c.12+4_12+5C[7]",
	} {
		f.Add(s)
	}
	normalizers := []*Normalizer{
		NewNormalizer(borders.annotator(f, "+"), ProteinStyle{Predicted: true}),
		NewNormalizer(borders.mirrored().annotator(f, "-"), ProteinStyle{Predicted: true}),
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Count(s, "[") > 20 || len(s) > 200 {
			return // large sequences take time and show nothing
		}
		for _, n := range normalizers {
			got, err := n.Normalize(s)
			if err != nil {
				continue
			}
			again, err := n.Normalize(got.Description)
			if err != nil || again.Description != got.Description || lociOf(again) != lociOf(got) {
				t.Fatalf("%q has the normal form %s, which gives %+v %v", s, got.Description, again, err)
			}
		}
	})
}

func BenchmarkNormalize(b *testing.B) {
	n := NewNormalizer(borders.annotator(b, "+"), ProteinStyle{Predicted: true})
	for _, s := range []string{"T:c.5C>T", "T:c.24dup", "c:g.60_70delinsACGT", "T:c.[5C>T;25del]"} {
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.Normalize(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
