package annotate

import (
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// regulatoryGFF3 has a promoter, within it a binding site, and a precursor of a microRNA with one mature one.
const regulatoryGFF3 = `c	Regulatory_Build	promoter	101	200	.	.	.	ID=promoter:ENSR1
c	Regulatory_Build	TF_binding_site	141	150	.	+	.	ID=TF_binding_site:ENSM1
c	x	gene	301	400	.	+	.	ID=gene-MIR1;Name=MIR1;gene_biotype=miRNA
c	x	primary_transcript	301	400	.	+	.	ID=rna-NR1;Parent=gene-MIR1;transcript_id=NR1
c	x	exon	301	400	.	+	.	Parent=rna-NR1
c	x	miRNA	321	342	.	+	.	ID=rna-MIR1;Parent=rna-NR1
c	x	exon	321	342	.	+	.	Parent=rna-MIR1
`

// regulatorySeq is a sequence without repeats at the places of the tests.
var regulatorySeq = strings.Repeat("AGTCCGTAACTTGGCTAGATCGCATACGGTTACAGCTTGACCTGATTCGAAGCCTTA", 11)[:600]

func regulatoryModel(t *testing.T) *Annotator {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + regulatorySeq + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadModel(strings.NewReader(regulatoryGFF3), g)
	if err != nil {
		t.Fatal(err)
	}
	return New(g, m).WithDistance(0, 0)
}

func TestRegulatoryConsequences(t *testing.T) {
	a := regulatoryModel(t)
	for _, c := range []struct {
		name     string
		pos, end int
		change   string
		want     map[string]string // by feature; "" is none
	}{
		{"in the promoter", 121, 0, "substitution", map[string]string{"ENSR1": "regulatory_region_variant", "": "intergenic_variant"}},
		{"in the binding site", 142, 0, "substitution", map[string]string{"ENSM1": "TF_binding_site_variant", "ENSR1": "regulatory_region_variant", "": "intergenic_variant"}},
		{"insertion before the binding site", 140, 0, "insertion", map[string]string{"ENSM1": "", "ENSR1": "regulatory_region_variant"}},
		{"insertion in the binding site", 145, 0, "insertion", map[string]string{"ENSM1": "TF_binding_site_variant"}},
		{"sequence of the binding site deleted", 140, 150, "deletion", map[string]string{"ENSM1": "TFBS_ablation&TF_binding_site_variant", "ENSR1": "regulatory_region_variant"}},
		{"promoter deleted", 90, 210, "<DEL>", map[string]string{"ENSM1": "TFBS_ablation&TF_binding_site_variant", "ENSR1": "regulatory_region_ablation&regulatory_region_variant", "": "intergenic_variant"}},
		{"promoter doubled", 90, 210, "<DUP>", map[string]string{"ENSM1": "TFBS_amplification&TF_binding_site_variant", "ENSR1": "regulatory_region_amplification&regulatory_region_variant"}},
		{"part of the promoter doubled", 130, 210, "<DUP>", map[string]string{"ENSM1": "TFBS_amplification&TF_binding_site_variant", "ENSR1": "regulatory_region_variant"}},
		{"mature microRNA", 321, 0, "substitution", map[string]string{"NR1": "mature_miRNA_variant"}},
		{"rest of the precursor", 320, 0, "substitution", map[string]string{"NR1": "non_coding_transcript_exon_variant"}},
		{"part of a microRNA deleted", 330, 335, "<DEL>", map[string]string{"NR1": "mature_miRNA_variant"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref := regulatorySeq[c.pos-1 : c.pos]
			alt := c.change
			switch c.change {
			case "substitution":
				alt = complementOf(ref)
			case "insertion":
				alt = ref + complementOf(ref) + ref + complementOf(regulatorySeq[c.pos:c.pos+1])
			case "deletion":
				ref, alt = regulatorySeq[c.pos-1:c.end], ref
			}
			got := annotateSite(t, a, Site{Contig: "c", Pos: c.pos, End: c.end, Ref: ref, Alts: []string{alt}})[0]
			if got.Unsupported != nil {
				t.Fatal(got.Unsupported)
			}
			for feature, want := range c.want {
				if terms := termsOn(&got.Annotation, feature); terms != want {
					t.Errorf("%s: %q, want %q", feature, terms, want)
				}
			}
		})
	}
	got := annotateSite(t, a, Site{Contig: "c", Pos: 142, Ref: regulatorySeq[141:142], Alts: []string{complementOf(regulatorySeq[141:142])}})[0].Annotation
	if first := got.Consequences[0]; first.Gene != nil || first.Feature.Type != "MotifFeature" || got.MostSevere.Term != "TF_binding_site_variant" || got.MostSevere.Transcript != "ENSM1" {
		t.Errorf("%+v %+v", got.MostSevere, first)
	}
}
