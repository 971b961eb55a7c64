package annotate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// structuralModel has, on a contig of 2000 bases, a coding gene with exons 301-400, 501-600 and 701-800 whose coding
// sequence is 351-751 on the forward strand, its mirror image on the reverse strand of a second contig, and a gene
// that is not coding.
func structuralModel(t testing.TB) *Annotator {
	t.Helper()
	seq := []byte(strings.Repeat("ACGTTGCATC", 200))
	copy(seq[350:], "ATG")
	copy(seq[748:], "TAA")
	g, err := genome.Read(strings.NewReader(">c\n" + string(seq) + "\n>d\n" + reverseComplement(string(seq)) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadModel(strings.NewReader(structuralGFF3()), g)
	if err != nil {
		t.Fatal(err)
	}
	return New(g, m).WithDistance(50, 50)
}

// structuralGFF3 are the genes of structuralModel.
func structuralGFF3() string {
	var b strings.Builder
	row := func(contig, kind string, start, end int, strand, attributes string) {
		if contig == "d" {
			start, end = 2001-end, 2001-start
		}
		fmt.Fprintf(&b, "%s\tx\t%s\t%d\t%d\t.\t%s\t.\t%s\n", contig, kind, start, end, strand, attributes)
	}
	for contig, strand := range map[string]string{"c": "+", "d": "-"} {
		row(contig, "gene", 301, 800, strand, "ID=gene:G"+contig+";Name=G"+contig+";biotype=protein_coding")
		row(contig, "mRNA", 301, 800, strand, "ID=transcript:T"+contig+";Parent=gene:G"+contig+";biotype=protein_coding")
		for _, x := range [][2]int{{301, 400}, {501, 600}, {701, 800}} {
			row(contig, "exon", x[0], x[1], strand, "Parent=transcript:T"+contig)
		}
		for _, x := range [][2]int{{351, 400}, {501, 600}, {701, 751}} {
			row(contig, "CDS", x[0], x[1], strand, "ID=CDS:P"+contig+";Parent=transcript:T"+contig)
		}
		row(contig, "gene", 1101, 1200, strand, "ID=gene:N"+contig+";biotype=lncRNA")
		row(contig, "lnc_RNA", 1101, 1200, strand, "ID=transcript:N"+contig+";Parent=gene:N"+contig+";biotype=lncRNA")
		row(contig, "exon", 1101, 1200, strand, "Parent=transcript:N"+contig)
	}
	return b.String()
}

// termsOn are the names of the terms for a feature.
func termsOn(ann *Annotation, id string) string {
	for _, c := range ann.Consequences {
		if c.Feature != nil && c.Feature.ID == id || c.Feature == nil && id == "" {
			var names []string
			for _, t := range c.Terms {
				names = append(names, t.Name)
			}
			return strings.Join(names, "&")
		}
	}
	return ""
}

func TestStructuralConsequences(t *testing.T) {
	a := structuralModel(t)
	for _, c := range []struct {
		name, alt   string
		first, last int // bases concerned, 1-based, on contig c; an insertion comes after first
		want        string
	}{
		{"whole gene deleted", "<DEL>", 290, 810, "transcript_ablation"},
		{"no copies", "<CN0>", 290, 810, "transcript_ablation"},
		{"whole gene doubled", "<DUP>", 290, 810, "transcript_amplification"},
		{"whole gene in tandem", "<DUP:TANDEM>", 301, 800, "transcript_amplification"},
		{"three copies", "<CN=3>", 301, 800, "transcript_amplification"},
		{"whole gene inverted", "<INV>", 290, 810, "coding_transcript_variant"},
		{"copy number of the whole gene", "<CNV>", 290, 810, "coding_transcript_variant"},
		{"first exon deleted", "<DEL>", 250, 450, "splice_donor_variant&start_lost&feature_truncation&splice_donor_5th_base_variant&coding_sequence_variant&5_prime_UTR_variant&intron_variant"},
		{"last exon deleted", "<DEL>", 650, 850, "splice_acceptor_variant&stop_lost&feature_truncation&splice_polypyrimidine_tract_variant&coding_sequence_variant&3_prime_UTR_variant&intron_variant"},
		{"part of an exon, in frame", "<DEL>", 520, 549, "feature_truncation&inframe_deletion"},
		{"part of an exon, out of frame", "<DEL:ME:ALU>", 520, 550, "frameshift_variant&feature_truncation"},
		{"an intron's middle", "<DEL>", 430, 450, "feature_truncation&intron_variant"},
		{"5' untranslated region", "<DEL>", 310, 320, "feature_truncation&5_prime_UTR_variant"},
		{"part of an exon doubled", "<DUP>", 520, 549, "feature_elongation&coding_sequence_variant"},
		{"end of the gene doubled", "<DUP>", 650, 850, "splice_acceptor_variant&splice_polypyrimidine_tract_variant&coding_sequence_variant&3_prime_UTR_variant&intron_variant"},
		{"insertion into an exon", "<INS>", 520, 0, "feature_elongation&coding_sequence_variant"},
		{"mobile element in an intron", "<INS:ME:L1>", 440, 0, "feature_elongation&intron_variant"},
		{"insertion upstream", "<INS>", 280, 0, "upstream_gene_variant"},
		{"deletion downstream", "<DEL>", 820, 840, "downstream_gene_variant"},
		{"inversion of a coding piece", "<INV>", 520, 549, "coding_sequence_variant"},
		{"inversion of the start", "<INV>", 340, 360, "start_lost&coding_sequence_variant&5_prime_UTR_variant"},
		{"break in an intron", "G[d:5[", 440, 0, "feature_truncation&intron_variant"},
		{"break in an exon", "]d:5]G", 520, 0, "feature_truncation&coding_sequence_variant"},
		{"single break", ".G", 520, 0, "feature_truncation&coding_sequence_variant"},
		{"subtype not known", "<DEL:WHATEVER>", 430, 450, "feature_truncation&intron_variant"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Site{Contig: "c", Pos: c.first - 1, Ref: "N", Alts: []string{c.alt}, End: c.last}
			if c.last == 0 {
				s.Pos = c.first
			}
			if c.alt[0] == ']' || c.alt[0] == '.' {
				s.Pos++
			}
			got := annotateSite(t, a, s)[0]
			if got.Unsupported != nil || termsOn(&got.Annotation, "Tc") != c.want {
				t.Errorf("%v %v\nwant %s", termsOn(&got.Annotation, "Tc"), got.Unsupported, c.want)
			}
			if strings.ContainsAny(c.alt, "[].") {
				return
			}
			// The same on the other strand. A sequence inserted after a base comes before the base that is its mirror
			// image.
			m := Site{Contig: "d", Pos: 2000 - c.last, Ref: "N", Alts: s.Alts, Lengths: []int{c.first - c.last - 1}}
			if c.last == 0 {
				m.Pos = 2000 - c.first
			}
			if mirrored := annotateSite(t, a, m)[0]; termsOn(&mirrored.Annotation, "Td") != c.want {
				t.Errorf("on the reverse strand: %v %v\nwant %s", termsOn(&mirrored.Annotation, "Td"), mirrored.Unsupported, c.want)
			}
		})
	}
}

func annotateSite(t *testing.T, a *Annotator, s Site) []Allele {
	t.Helper()
	alleles, err := a.AnnotateSite(nil, &s)
	if err != nil {
		t.Fatal(err)
	}
	if len(alleles) != len(s.Alts) {
		t.Fatalf("%d alleles for %v", len(alleles), s.Alts)
	}
	return alleles
}

// TestMixedAlleles has one record with alleles of all sorts: each is evaluated on its own, in their order.
func TestMixedAlleles(t *testing.T) {
	a := structuralModel(t)
	ref := string(a.genome.Contig("c").At(519))
	alts := []string{complementOf(ref), "*", "<DEL>", "<*>", "<FOO>", ref + "A", "<NON_REF>"}
	got := annotateSite(t, a, Site{Contig: "c", Pos: 520, Ref: ref, Alts: alts, End: 531, Lengths: []int{0, 0, -11}})
	var names, unsupported []string
	for _, g := range got {
		name := ""
		if len(g.Annotation.Consequences) > 0 {
			name = g.Annotation.Consequences[0].Allele + ":" + g.Annotation.MostSevere.Term
		}
		names = append(names, name)
		if g.Unsupported != nil {
			if !errors.Is(g.Unsupported, ErrUnsupportedAllele) {
				t.Errorf("%s: %v is not ErrUnsupportedAllele", g.Alt, g.Unsupported)
			}
			unsupported = append(unsupported, g.Alt)
		}
	}
	if want := []string{complementOf(ref) + ":", "", "deletion:frameshift_variant", "", "<FOO>:sequence_variant", ref + "A:frameshift_variant", ""}; !slices.EqualFunc(names, want, strings.HasPrefix) {
		t.Errorf("got  %q\nwant %q", names, want)
	}
	if want := []string{"*", "<*>", "<FOO>", "<NON_REF>"}; !slices.Equal(unsupported, want) {
		t.Errorf("unsupported %q, want %q", unsupported, want)
	}
	if g := got[2].Annotation.HGVSg; !strings.HasPrefix(g, "c:g.52") || !strings.HasSuffix(g, "del") {
		t.Errorf("HGVSg %q of a deletion", g)
	}
}

func complementOf(base string) string { return string(complement[base[0]]) }

func TestStructuralRefusals(t *testing.T) {
	a := structuralModel(t)
	for _, c := range []struct {
		site Site
		want string
	}{
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"<DEL>"}}, "neither END nor SVLEN"},
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"<CNV:TR>"}}, "<CNV:TR> has neither END nor SVLEN"},
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"<DEL>"}, End: 9}, "before it begins"},
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"<DUP>"}, End: 2001}, "outside the contig"},
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"<INS:"}}, "neither a sequence nor symbolic"},
		{Site{Contig: "c", Pos: 10, Ref: "N", Alts: []string{"*"}}, "another record"},
	} {
		got := annotateSite(t, a, c.site)[0]
		if got.Unsupported == nil || !strings.Contains(got.Unsupported.Error(), c.want) || len(got.Annotation.Consequences) > 0 {
			t.Errorf("%+v: %v, want %q", c.site, got.Unsupported, c.want)
		}
	}
	for _, s := range []Site{
		{Contig: "x", Pos: 10, Ref: "N", Alts: []string{"<DEL>"}, End: 20},
		{Contig: "c", Pos: 2001, Ref: "N", Alts: []string{"<DEL>"}, End: 2010},
		{Contig: "c", Pos: 351, Ref: "C", Alts: []string{"<DEL>"}, End: 360},
	} {
		if _, err := a.AnnotateSite(nil, &s); err == nil || errors.Is(err, ErrUnsupportedAllele) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
