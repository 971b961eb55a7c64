package vcf

import (
	"errors"
	"reflect"
	"testing"
)

// VCF 4.4 and 4.5, section 1.6.2.
func TestGenotypesMeanWhatTheSpecificationSays(t *testing.T) {
	const p, u = true, false
	for _, c := range []struct {
		text    string
		want    Genotype
		ordered bool
		spelled string
	}{
		{"0|1", Genotype{{0, p}, {1, p}}, true, "0|1"},
		{"|0|1", Genotype{{0, p}, {1, p}}, true, "0|1"},
		{"0/1", Genotype{{0, u}, {1, u}}, false, "0/1"},
		{"/0/1", Genotype{{0, u}, {1, u}}, false, "0/1"},
		{"/0|1", Genotype{{0, u}, {1, p}}, true, "/0|1"},
		{"|0/1", Genotype{{0, p}, {1, u}}, true, "|0/1"},
		{"1", Genotype{{1, p}}, true, "1"},
		{"|1", Genotype{{1, p}}, true, "1"},
		{"/1", Genotype{{1, u}}, true, "/1"},
		{".", Genotype{{MissingAllele, p}}, true, "."},
		{"./.", Genotype{{MissingAllele, u}, {MissingAllele, u}}, false, "./."},
		{".|2", Genotype{{MissingAllele, p}, {2, p}}, true, ".|2"},
		{"0/1|2", Genotype{{0, u}, {1, u}, {2, p}}, false, "0/1|2"},
		{"|0/1|2", Genotype{{0, p}, {1, u}, {2, p}}, true, "|0/1|2"},
		{"0|12", Genotype{{0, p}, {12, p}}, true, "0|12"},
	} {
		g, err := ParseGenotype(c.text, 12)
		if err != nil || !reflect.DeepEqual(g, c.want) || g.Ordered() != c.ordered || g.String() != c.spelled {
			t.Errorf("%q: %v, ordered %v, spelled %q, error %v; want %v, %v, %q", c.text, g, g.Ordered(), g.String(), err, c.want, c.ordered, c.spelled)
		}
	}
}

func TestWhatIsNoGenotypeIsRefused(t *testing.T) {
	for _, text := range []string{"", "/", "|", "0/", "0|", "0||1", "//1", "3", "0/3", "+1", "-1", "a", "0:1", "0 /1", "..", "99999999999999999999", "1e0", "./"} {
		if g, err := ParseGenotype(text, 2); !errors.Is(err, ErrGenotype) {
			t.Errorf("%q is taken as %v (%v)", text, g, err)
		}
	}
}

func FuzzGenotype(f *testing.F) {
	for _, s := range []string{"0|1", "/0|1", ".", "1/2|3", "|", "0//1"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, alternates int) {
		g, err := ParseGenotype(text, alternates)
		if err != nil {
			return
		}
		for _, a := range g {
			if a.Number != MissingAllele && (a.Number < 0 || a.Number > alternates) {
				t.Fatalf("%q of %d alternate alleles: %v", text, alternates, g)
			}
		}
		again, err := ParseGenotype(g.String(), alternates)
		if err != nil || !reflect.DeepEqual(again, g) {
			t.Fatalf("%q is %v, its own spelling %q is %v (%v)", text, g, g.String(), again, err)
		}
	})
}
