package annotate

import (
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/vrs"
)

// gene14 codes for MKRGAFLRQQQDWE in two exons. c.1 is base 17, c.24 is base 40, c.25 is base 81, c.45 is base 101.
var gene14 = toy{
	seq: "GGCATTCAGG" + // 1
		"ACTGAC" + "ATGAAACGTGGTGCTTTTTTAAGA" + // exon 1: 11 to 40
		"GTAAGTACCAGACTGACCTG" + "CATCTATCCGTTTCTTTTAG" + // intron: 41 to 80
		"CAGCAGCAGGATTGGGAGTAA" + "GCATTATAGGCC" + // exon 2: 81 to 113
		strings.Repeat("CATG", 1500),
	exons:    [][2]int{{11, 40}, {81, 113}},
	cdsStart: 17,
	cdsEnd:   101,
}

// TestHGVSByHand are descriptions and terms worked out by hand from the nomenclature's rules, on both strands.
func TestHGVSByHand(t *testing.T) {
	mirror := gene14.mirrored()
	forward, reverse := gene14.annotator(t, "+"), mirror.annotator(t, "-")
	for _, c := range []struct {
		name     string
		pos      int
		ref, alt string
		c, p     string
		terms    string
	}{
		{"start lost", 17, "A", "G", "1A>G", "Met1?", "start_lost"},
		{"nonsense", 20, "A", "T", "4A>T", "Lys2Ter", "stop_gained"},
		{"missense", 21, "A", "G", "5A>G", "Lys2Arg", "missense_variant"},
		{"silent", 22, "A", "G", "6A>G", "Lys2=", "synonymous_variant"},
		{"codon deleted", 19, "GAAA", "G", "4_6del", "Lys2del", "inframe_deletion"},
		{"codon inserted", 22, "A", "AGGG", "6_7insGGG", "Lys2_Arg3insGly", "inframe_insertion"},
		{"base of a run deleted, 3' rule", 30, "CT", "C", "20del", "Leu7Ter", "frameshift_variant"},
		{"base of a run doubled, no stop", 30, "C", "CT", "20dup", "Leu7PhefsTer?", "frameshift_variant"},
		{"frameshift", 23, "CG", "C", "8del", "Arg3LeufsTer5", "frameshift_variant"},
		{"repeat shortened", 80, "GCAG", "G", "31_33del", "Gln11del", "inframe_deletion&splice_region_variant"},
		{"repeat extended", 80, "G", "GCAG", "31_33dup", "Gln11dup", "inframe_insertion&splice_region_variant"},
		{"two copies added", 80, "G", "GCAGCAG", "28_33dup", "Gln10_Gln11dup", "inframe_insertion&splice_region_variant"},
		{"two bases replaced", 93, "TG", "CC", "37_38delinsCC", "Trp13Pro", "missense_variant"},
		{"bases replaced by more", 93, "TGG", "CCAACC", "37_39delinsCCAACC", "Trp13delinsProThr", "protein_altering_variant"},
		{"inverted", 22, "AC", "GT", "6_7inv", "Arg3Cys", "missense_variant"},
		{"stop lost", 99, "T", "C", "43T>C", "Ter15GlnextTer3", "stop_lost"},
		{"stop retained", 101, "A", "G", "45A>G", "Ter15=", "stop_retained_variant"},
		{"5' untranslated", 12, "C", "T", "-5C>T", "", "5_prime_UTR_variant"},
		{"3' untranslated", 103, "C", "T", "*2C>T", "", "3_prime_UTR_variant"},
		{"insertion before the start codon", 16, "C", "CG", "-1_1insG", "", "5_prime_UTR_variant"},
		{"donor", 41, "G", "A", "24+1G>A", "", "splice_donor_variant"},
		{"donor region", 43, "A", "C", "24+3A>C", "", "splice_donor_region_variant&intron_variant"},
		{"donor's fifth base", 45, "G", "C", "24+5G>C", "", "splice_donor_5th_base_variant&intron_variant"},
		{"donor's sixth base", 46, "T", "C", "24+6T>C", "", "splice_donor_region_variant&intron_variant"},
		{"eighth base", 48, "C", "T", "24+8C>T", "", "splice_region_variant&intron_variant"},
		{"ninth base", 49, "C", "T", "24+9C>T", "", "intron_variant"},
		{"last exonic base", 40, "A", "C", "24A>C", "Arg8Ser", "missense_variant&splice_region_variant"},
		{"between exon and intron", 40, "A", "AC", "24_24+1insC", "Gln9ProfsTer?", "frameshift_variant&splice_region_variant"},
		{"inside the donor", 41, "G", "GC", "24+1_24+2insC", "", "splice_donor_variant"},
		{"middle of the intron", 60, "G", "A", "24+20G>A", "", "intron_variant"},
		{"past the middle", 61, "C", "A", "25-20C>A", "", "intron_variant"},
		{"polypyrimidine tract", 64, "C", "A", "25-17C>A", "", "splice_polypyrimidine_tract_variant&intron_variant"},
		{"before the tract", 63, "T", "A", "25-18T>A", "", "intron_variant"},
		{"tract and region", 75, "T", "A", "25-6T>A", "", "splice_region_variant&splice_polypyrimidine_tract_variant&intron_variant"},
		{"acceptor", 80, "G", "A", "25-1G>A", "", "splice_acceptor_variant"},
		{"across the donor", 38, "AGAGT", "A", "23_24+2del", "", "splice_donor_variant&coding_sequence_variant"},
		{"intron deleted with its neighbours", 37, gene14.seq[36:83], "A", "22_27del", "Arg8_Gln9del", "splice_acceptor_variant&splice_donor_variant&inframe_deletion&splice_donor_5th_base_variant&splice_polypyrimidine_tract_variant&intron_variant"},
		{"start codon deleted", 16, "CATG", "C", "2_4del", "Met1?", "start_lost&inframe_deletion"},
		{"untranslated and start codon deleted", 14, "GACAT", "G", "-2_2del", "Met1?", "start_lost&5_prime_UTR_variant"},
		{"last codon and stop deleted", 95, "GGAGTAA", "G", "41_*1del", "Glu14AlafsTer3", "stop_lost&inframe_deletion"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := vrs.Edit{Start: c.pos - 1, Ref: c.ref, Alt: c.alt}
			ann := annotateEdit(t, forward, gene14.seq, e, 0, 0)
			checkByHand(t, "+", ann.Consequences[0], c.c, c.p, c.terms)

			n := len(gene14.seq)
			e = vrs.Edit{Start: n - e.End(), Ref: reverseComplement(e.Ref), Alt: reverseComplement(e.Alt)}
			ann = annotateEdit(t, reverse, mirror.seq, e, 0, 0)
			terms := c.terms
			if e.Left([]byte(mirror.seq)) != e.Right([]byte(mirror.seq)) {
				terms = "" // the leftmost place is another one
			}
			checkByHand(t, "-", ann.Consequences[0], c.c, c.p, terms)
		})
	}
}

func checkByHand(t *testing.T, strand string, got Consequence, c, p, terms string) {
	t.Helper()
	if want := "T:c." + c; got.HGVSc != want {
		t.Errorf("%s: HGVSc %s, want %s", strand, got.HGVSc, want)
	}
	want := ""
	if p != "" {
		want = "P:p." + p
	}
	if got.HGVSp != want && terms != "" {
		t.Errorf("%s: HGVSp %s, want %s", strand, got.HGVSp, want)
	}
	if names := termNames(got.Terms); terms != "" && names != sortedTerms(terms) {
		t.Errorf("%s: terms %s, want %s", strand, names, terms)
	}
}

func termNames(ts []Term) string {
	names := make([]string, len(ts))
	for i, t := range ts {
		names[i] = t.Name
	}
	slices.Sort(names)
	return strings.Join(names, "&")
}

func sortedTerms(s string) string {
	names := strings.Split(s, "&")
	slices.Sort(names)
	return strings.Join(names, "&")
}

func TestProteinStyle(t *testing.T) {
	a := gene14.annotator(t, "+").WithProteinStyle(ProteinStyle{Predicted: true, Asterisk: true})
	for _, c := range []struct {
		pos      int
		ref, alt string
		want     string
	}{
		{20, "A", "T", "P:p.(Lys2*)"},
		{21, "A", "G", "P:p.(Lys2Arg)"},
		{99, "T", "C", "P:p.(*15Glnext*3)"},
		{17, "A", "G", "P:p.(Met1?)"},
		{12, "C", "T", ""},
	} {
		ann, err := a.Annotate("c", c.pos, c.ref, c.alt)
		if err != nil || ann.Consequences[0].HGVSp != c.want {
			t.Errorf("%d %s>%s: %+v %v, want %s", c.pos, c.ref, c.alt, ann.Consequences, err, c.want)
		}
	}
}

func TestOutsideTranscripts(t *testing.T) {
	a := gene14.annotator(t, "+")
	for _, c := range []struct {
		pos      int
		term     string
		distance int
	}{
		{5, "upstream_gene_variant", 6},
		{10, "upstream_gene_variant", 1},
		{114, "downstream_gene_variant", 1},
		{5113, "downstream_gene_variant", 5000},
		{5114, "intergenic_variant", 0},
	} {
		ref := gene14.seq[c.pos-1 : c.pos]
		alt := "A"
		if ref == alt {
			alt = "C"
		}
		ann, err := a.Annotate("c", c.pos, ref, alt)
		if err != nil {
			t.Fatal(err)
		}
		got := ann.Consequences[0]
		if ann.MostSevere.Term != c.term || got.Distance != c.distance || got.HGVSc != "" {
			t.Errorf("%d: %+v, want %s at %d", c.pos, got, c.term, c.distance)
		}
	}
	far := a.WithDistance(0, 10)
	if ann, err := far.Annotate("c", 123, gene14.seq[122:123], "N"); err != nil || ann.MostSevere.Term != "downstream_gene_variant" {
		t.Errorf("%+v %v", ann, err)
	}
	if ann, err := far.Annotate("c", 10, "G", "A"); err != nil || ann.MostSevere.Term != "intergenic_variant" {
		t.Errorf("%+v %v", ann, err)
	}
}

func TestWithoutGenes(t *testing.T) {
	a := New(readGenome(t, ">c\nACGT\n"), nil)
	ann, err := a.Annotate("c", 2, "C", "T")
	if err != nil || ann.MostSevere.Term != "intergenic_variant" || ann.HGVSg != "c:g.2C>T" || len(ann.Consequences) != 1 {
		t.Errorf("%+v %v", ann, err)
	}
}

func TestTranscriptAblation(t *testing.T) {
	a := gene14.annotator(t, "+")
	ann, err := a.Annotate("c", 5, gene14.seq[4:150], gene14.seq[4:5])
	if err != nil {
		t.Fatal(err)
	}
	if got := ann.Consequences[0]; termNames(got.Terms) != "transcript_ablation" || got.Impact != High || got.HGVSc != "" {
		t.Errorf("%+v", got)
	}
}

func TestAnnotateRefuses(t *testing.T) {
	a := gene14.annotator(t, "+")
	for _, c := range []struct {
		contig   string
		pos      int
		ref, alt string
		want     string
	}{
		{"x", 1, "G", "A", `contig "x" is not in the reference`},
		{"c", 1, "A", "C", "REF is A, but the reference has G there"},
		{"c", 0, "G", "A", "reaches outside the contig"},
		{"c", 7000, "G", "A", "reaches outside the contig"},
		{"c", 1, "G", "G", "REF and ALT are equal"},
		{"c", 1, "G", "<DEL>", "not a sequence"},
		{"c", 1, "G", "*", "not a sequence"},
		{"c", 1, "G", "G[c:9[", "not a sequence"},
	} {
		if _, err := a.Annotate(c.contig, c.pos, c.ref, c.alt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
