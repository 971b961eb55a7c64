package annotate

import (
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// pickModel has two genes that overlap: A with three transcripts, A2 being MANE Select, and B with one that is not
// coding.
func pickModel(t *testing.T) *Annotator {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + strings.Repeat("ACGTTGCATC", 60) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	const gff = `c	x	gene	101	400	.	+	.	ID=gene:A;Name=GA;biotype=protein_coding
c	x	mRNA	101	400	.	+	.	ID=transcript:A1;Parent=gene:A;biotype=protein_coding;tag=appris_principal_1;transcript_support_level=1
c	x	exon	101	400	.	+	.	Parent=transcript:A1
c	x	CDS	131	310	.	+	0	ID=CDS:P1;Parent=transcript:A1
c	x	mRNA	101	400	.	+	.	ID=transcript:A2;Parent=gene:A;biotype=protein_coding;tag=MANE_Select
c	x	exon	101	200	.	+	.	Parent=transcript:A2
c	x	exon	301	400	.	+	.	Parent=transcript:A2
c	x	CDS	131	190	.	+	0	ID=CDS:P2;Parent=transcript:A2
c	x	mRNA	101	400	.	+	.	ID=transcript:A3;Parent=gene:A;biotype=nonsense_mediated_decay
c	x	exon	101	400	.	+	.	Parent=transcript:A3
c	x	CDS	131	340	.	+	0	ID=CDS:P3;Parent=transcript:A3
c	x	gene	201	450	.	+	.	ID=gene:B;Name=GB;biotype=lncRNA
c	x	lnc_RNA	201	450	.	+	.	ID=transcript:B1;Parent=gene:B;biotype=lncRNA
c	x	exon	201	450	.	+	.	Parent=transcript:B1
`
	m, err := ReadModel(strings.NewReader(gff), g)
	if err != nil {
		t.Fatal(err)
	}
	for _, tx := range m.contigs[g.Contigs[0]].transcripts {
		if tx.id == "A3" {
			tx.labels.ccds = "CCDS1"
		}
	}
	return New(g, m)
}

// TestPick follows VEP's options on a record with two alternate alleles: at base 250 A2 has an intron, A1 and A3 coding
// sequence, B1 an exon.
func TestPick(t *testing.T) {
	base := pickModel(t)
	ref := string(base.genome.Contigs[0].At(249))
	alts := []string{complementOf(ref), ref + "AC"} // a substitution and a frameshift
	for _, c := range []struct {
		name   string
		mode   PickMode
		order  string
		kept   []string // features of each allele
		marked []string
	}{
		{"default", FlagPickAllele, "", []string{"A1 A3 B1 A2", "A1 A3 B1 A2"}, []string{"A2", "A2"}},
		{"flag_pick", FlagPick, "", []string{"A1 A3 B1 A2", "A1 A3 B1 A2"}, []string{"A2", ""}},
		{"flag_pick_allele_gene", FlagPickAlleleGene, "", []string{"A1 A3 B1 A2", "A1 A3 B1 A2"}, []string{"B1 A2", "B1 A2"}},
		{"pick", PickRecord, "", []string{"A2", ""}, []string{"A2", ""}},
		{"pick by rank", PickRecord, "rank", []string{"", "A1"}, []string{"", "A1"}},
		{"pick_allele", PickAllele, "", []string{"A2", "A2"}, []string{"A2", "A2"}},
		{"pick_allele by APPRIS", PickAllele, "appris,rank", []string{"A1", "A1"}, []string{"A1", "A1"}},
		{"pick_allele by support", PickAllele, "tsl", []string{"A1", "A1"}, []string{"A1", "A1"}},
		{"pick_allele by CCDS", PickAllele, "ccds", []string{"A3", "A3"}, []string{"A3", "A3"}},
		{"pick_allele by length", PickAllele, "length", []string{"B1", "B1"}, []string{"B1", "B1"}},
		{"per_gene", PickGene, "", []string{"B1 A2", ""}, []string{"B1 A2", ""}},
		{"per_gene by rank", PickGene, "rank", []string{"B1", "A1"}, []string{"B1", "A1"}},
		{"pick_allele_gene", PickAlleleGene, "", []string{"B1 A2", "B1 A2"}, []string{"B1 A2", "B1 A2"}},
		{"most_severe", MostSevereOnly, "", []string{"", "frameshift_variant"}, []string{"", "frameshift_variant"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Pick{Mode: c.mode}
			if c.order != "" {
				var err error
				if p.Order, err = ParsePickOrder(c.order); err != nil {
					t.Fatal(err)
				}
			}
			var kept, marked []string
			for _, allele := range annotateSite(t, base.WithPick(p), Site{Contig: "c", Pos: 250, Ref: ref, Alts: alts}) {
				var k, m []string
				for _, x := range allele.Annotation.Consequences {
					name := x.Terms[0].Name
					if x.Feature != nil {
						name = x.Feature.ID
					}
					k = append(k, name)
					if x.Pick {
						m = append(m, name)
					}
				}
				kept, marked = append(kept, strings.Join(k, " ")), append(marked, strings.Join(m, " "))
			}
			if !slices.Equal(kept, c.kept) || !slices.Equal(marked, c.marked) {
				t.Errorf("kept %q, marked %q; want %q, %q", kept, marked, c.kept, c.marked)
			}
		})
	}
}

func TestParsePickOrder(t *testing.T) {
	if got, err := ParsePickOrder("rank, canonical"); err != nil || !slices.Equal(got, []PickCriterion{ByRank, ByCanonical}) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"", "rank,", "rank,rank", "best"} {
		if got, err := ParsePickOrder(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}
