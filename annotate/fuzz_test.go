package annotate

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAnnotateSite gives records with any alternate alleles: each has consequences or a reason why it has none, and all
// that is said can be said again.
func FuzzAnnotateSite(f *testing.F) {
	for _, s := range []struct {
		pos, end, length int
		ref, alts        string
	}{
		{351, 0, 0, "A", "G,<DEL>,*"}, {340, 420, 0, "N", "<DUP:TANDEM>"}, {340, 0, -50, "N", "<CN0>,<CN=4>"}, {520, 0, 0, "N", "N[d:5[,]d:5]N,.N,N."},
		{0, 2000, 0, "N", "<INV>"}, {2000, 0, 0, "C", "CA"}, {1, 1, 0, "A", "<INS:ME:ALU>,<NON_REF>,<*>,<>"}, {1101, 1200, 0, "A", "<CNV:TR>,AAAA,"},
	} {
		f.Add(s.pos, s.end, s.length, s.ref, s.alts)
	}
	a := structuralModel(f)
	f.Fuzz(func(t *testing.T, pos, end, length int, ref, alts string) {
		s := Site{Contig: "c", Pos: pos, End: end, Ref: ref, Alts: strings.Split(alts, ","), Lengths: []int{length}}
		alleles, err := a.AnnotateSite(nil, &s)
		if err != nil {
			if errors.Is(err, ErrUnsupportedAllele) {
				t.Fatalf("an allele fails its record: %v", err)
			}
			return
		}
		if len(alleles) != len(s.Alts) {
			t.Fatalf("%d alleles of %d", len(alleles), len(s.Alts))
		}
		for _, allele := range alleles {
			if known := len(allele.Annotation.Consequences) > 0; known == (allele.Unsupported != nil) && reasonOf(allele.Unsupported) != UnknownType {
				t.Fatalf("%q: consequences %v, and unsupported: %v", allele.Alt, known, allele.Unsupported)
			}
			for _, c := range allele.Annotation.Consequences {
				if len(c.Terms) == 0 || !utf8.ValidString(c.HGVSc) {
					t.Fatalf("%q: %+v", allele.Alt, c)
				}
			}
		}
	})
}
