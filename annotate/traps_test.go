package annotate

import (
	"strings"
	"testing"
)

// TestKnownTraps are cases that other annotators are known to have got wrong, on the gene of structuralModel.
func TestKnownTraps(t *testing.T) {
	a := structuralModel(t)
	seq := string(a.genome.Contig("c").Flat())
	changed := func(from, to int, places ...int) (ref, alt string) { // 1-based bases from to to, those at places exchanged
		b := []byte(seq[from-1 : to])
		for _, p := range places {
			b[p-from] = complement[b[p-from]]
		}
		return seq[from-1 : to], string(b)
	}
	annotate := func(t *testing.T, pos int, ref, alt string) string {
		t.Helper()
		ann, err := a.Annotate("c", pos, ref, alt)
		if err != nil {
			t.Fatal(err)
		}
		return termsOn(&ann, "Tc")
	}

	t.Run("each changed stretch counts for splice terms", func(t *testing.T) {
		// The last base of an exon and the twelfth of the intron: the later one must not hide the earlier one.
		ref, alt := changed(400, 412, 400, 412)
		if got := annotate(t, 400, ref, alt); got != "splice_region_variant&coding_sequence_variant&intron_variant" {
			t.Error(got)
		}
		// What stays the same between them is not concerned: neither the donor site nor its fifth base.
		if got := annotate(t, 400, ref, alt); strings.Contains(got, "donor") {
			t.Error(got)
		}
	})
	t.Run("an insertion that shifts the frame and has a stop", func(t *testing.T) {
		// Ten bases are no inframe_insertion, and nothing of the stop codon is retained.
		if got := annotate(t, 356, seq[355:356], seq[355:356]+"TAACCCCCCC"); got != "stop_gained&frameshift_variant" {
			t.Error(got)
		}
	})
	t.Run("a start codon is not both lost and kept", func(t *testing.T) {
		for from := 345; from <= 356; from++ {
			for n := range 7 {
				for _, inserted := range []string{"", "A", "AT", "ATG", "ATGATG", "CATG", "GATGA"} {
					ref := seq[from-1 : from+n]
					if ref == ref[:1]+inserted {
						continue
					}
					got := annotate(t, from, ref, ref[:1]+inserted)
					if strings.Contains(got, "start_lost") && strings.Contains(got, "start_retained") {
						t.Errorf("%d %s>%s: %s", from, ref, ref[:1]+inserted, got)
					}
				}
			}
		}
	})
	t.Run("a base before a donor site that the site has too", func(t *testing.T) {
		// With a G on either side of the exon's edge, the loss of one leaves the splice site as it is, whichever of the two
		// the record names.
		b := []byte(seq)
		copy(b[398:], "CGGTAAG") // the exon ends with CG
		g := geneSet{fasta: ">c\n" + string(b) + "\n>d\n" + reversedStrand(string(b)) + "\n"}
		g.gff = structuralGFF3()
		x := g.annotator(t)
		for _, pos := range []int{399, 400} {
			ann, err := x.Annotate("c", pos, string(b[pos-1:pos+1]), string(b[pos-1:pos]))
			if err != nil {
				t.Fatal(err)
			}
			if got := termsOn(&ann, "Tc"); got != "frameshift_variant&splice_region_variant" {
				t.Errorf("at %d: %s", pos, got)
			}
		}
	})
	t.Run("neighbours and skipped records do not matter", func(t *testing.T) {
		alone := annotateSite(t, a, Site{Contig: "c", Pos: 520, Ref: "N", Alts: []string{"<DEL>"}, End: 530})[0]
		if _, err := a.AnnotateSite(nil, &Site{Contig: "d", Pos: 1, Ref: "N", Alts: []string{"<DEL>"}, End: 3000}); err != nil {
			t.Fatal(err)
		}
		after := annotateSite(t, a, Site{Contig: "c", Pos: 520, Ref: "N", Alts: []string{"<DEL>"}, End: 530})[0]
		if p, q := termsOn(&alone.Annotation, "Tc"), termsOn(&after.Annotation, "Tc"); p != q || p == "" {
			t.Errorf("%s, then %s", p, q)
		}
	})
}
