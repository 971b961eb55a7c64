package hgvs

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseShape(t *testing.T) {
	d, err := Parse("NC_1.2(NM_4.1):c.[-6+3_*2-1delACins[A[3];20_30inv;X:g.1_2];7A>C];[=]")
	if err != nil {
		t.Fatal(err)
	}
	at := func(p Position) Point { return Point{Position: p} }
	want := Description{Reference: "NC_1.2", Selector: "NM_4.1", Type: 'c', Alleles: []Allele{
		{Changes: []Change{
			{
				Kind:     Delins,
				Location: Location{Start: at(Position{Base: 6, Region: '-', Offset: 3}), End: at(Position{Base: 2, Region: '*', Offset: -1}), Range: true},
				Ref:      "AC",
				New: []Part{
					{Bases: "A", Copies: 3, Counted: true},
					{Location: &Location{Start: at(Position{Base: 20}), End: at(Position{Base: 30}), Range: true}, Inverted: true, Copies: 1},
					{Reference: "X", Type: 'g', Location: &Location{Start: at(Position{Base: 1}), End: at(Position{Base: 2}), Range: true}, Copies: 1},
				},
			},
			{Kind: Substitution, Location: Location{Start: at(Position{Base: 7}), End: at(Position{Base: 7})}, Ref: "A", New: []Part{{Bases: "C", Copies: 1}}},
		}},
		{Changes: []Change{{Kind: Equal, Whole: true}}},
	}}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("have %+v\nwant %+v", d, want)
	}
}

// TestParseAndPrint: a description in normal spelling prints unchanged; others print as the
// second string.
func TestParseAndPrint(t *testing.T) {
	for _, c := range [][2]string{
		{"NC_000023.10:g.33038255C>A"}, {"NG_012232.1(NM_004006.2):c.93+1G>T"}, {"NM_004006.2:c.123="},
		{"NC_012920.1:m.3243A>G"}, {"J01749.1:o.4344_197dup"}, {"NR_002196.2:n.601G>T"}, {"x:c.-128_-69GGC[10]GGA[1]GGC[9]"},
		{"x:c.(4071+1_4072-1)_(5154+1_5155-1)del"}, {"x:g.(?_31120496)_(33339477_?)dup"}, {"x:c.(222_226)insG"},
		{"x:c.4072-?_5154+?del"}, {"x:g.?_5del"}, {"x:c.[296T>G;476T>C];[476T>C](;)1083A>C"}, {"x:c.2376G>C(;)3103del"},
		{"x:g.123_124[3]"}, {"x:c.419_420ins[T;450_470;AGGG]"}, {"x:g.5_6ins[y.2:g.106370094_106370420;A[26]]"},
		{"x:c.849_850ins850_900inv"}, {"x:c.812_829delinsN[12]"}, {"x:c.*37+1_*37+3del"}, {"x:g.4_5insTTTT"}, {"x:c.76_78del3"},
		{"x:c.76_78delAGT"}, {"x:c.20dupT"}, {"x:g.5_8inv4"}, {"x:c.="}, {"x:c.[=]"}, {"HLA:A*01:01:g.4A>C"},
		{"x:c.76a>c", "x:c.76A>C"}, {"x:c.76A>CT", "x:c.76delAinsCT"}, {"x:c.76_77AA>CT", "x:c.76_77delAAinsCT"}, {"x:c.76>C", "x:c.76delinsC"}, {"x:g.3_5con8_10", "x:g.3_5delins8_10"}, {"x:g.3_4insa[3]t[2]", "x:g.3_4ins[A[3];T[2]]"},
		{"x:c.[1A>C(;)3G>C]", "x:c.[1A>C](;)[3G>C]"}, {"x:g.5_6ins[A]", "x:g.5_6insA"}, {"x:c.6dupins", ""},
	} {
		d, err := Parse(c[0])
		if c[0] == "x:c.6dupins" {
			if err == nil {
				t.Errorf("%s is taken", c[0])
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		want := c[1]
		if want == "" {
			want = c[0]
		}
		if got := d.String(); got != want {
			t.Errorf("%s prints as %s, want %s", c[0], got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{"", "empty description"},
		{"c.76A>C", "no reference sequence: write REFERENCE:c.76A>C"},
		{":c.76A>C", "no reference sequence before the colon"},
		{"(S):c.76A>C", "no reference sequence before (S)"},
		{"x:76A>C", "no coordinate type"},
		{"x", "no reference sequence and coordinate type"},
		{"x:p.Arg97Gly", "p. describes a protein"},
		{"x:r.76a>c", "r. describes RNA"},
		{"x:d.76A>C", `column 3: coordinate type "d." is none of`},
		{"x():c.1A>C", "want the name of one transcript"},
		{"x(y)(z):c.1A>C", "want the name of one transcript"},
		{"x)y:c.1A>C", "is not a name"},
		{"x:c.76 A>C", "column 7: a description has no blanks"},
		{"x:c.", "no change"},
		{"x:c.76", "no change behind the position"},
		{"x:c.0A>C", "there is no position 0"},
		{"x:c.5+0A>C", "there is no offset 0"},
		{"x:g.-5A>C", "for c. only"},
		{"x:n.*5A>C", "for c. only"},
		{"x:g.5+1A>C", "offsets into introns are for c. and n. only"},
		{"x:c.76A>", "want the new base"},
		{"x:c.76_77insr", ""},
		{"x:c.76_77ins", "what is inserted is not said"},
		{"x:c.76_77ins10", "a number of unknown bases (10)"},
		{"x:c.76_77ins?", "unknown bases (?)"},
		{"x:c.76_77insU", "U is a base of RNA"},
		{"x:g.5A[(4_8)]", "uncertain number of copies"},
		{"x:g.5N[?]", "uncertain number of copies"},
		{"x:c.76A>C;83G>C", "several changes stand in brackets"},
		{"x:c.[76A>C", "the bracket is not closed"},
		{"x:c.[76A>C,83G>C]", "(,) are not supported"},
		{"x:c.[76A>C];83G>C", "several changes stand in brackets"},
		{"x:c.(76A>C)", "not for predicted changes"},
		{"x:c.76_78=/del", "mosaic and chimeric"},
		{"x:c.76=//A>C", "mosaic and chimeric"},
		{"x:c.76A>C^77A>C", "alternatives (^)"},
		{"x:g.12_45|gom", "modifications (|)"},
		{"x:c.[76A>C];[?]", "an unknown change (?)"},
		{"x:c.[76A>C];[0]", "the absence of a molecule (0)"},
		{"x:c.IVS2+1G>A", "IVS"},
		{"x:g.pter_qtersup", "sup"},
		{"x:g.pter_cendel", "cen, a place without a number"},
		{"x:m.pter_5del", "pter is the end of a linear molecule"},
		{"x:g.5_6insY:7_8", "no coordinate type behind the name of the inserted sequence"},
		{"x:g.5_6ins7", "a number of unknown bases (7)"},
		{"x:c.6dupinsA", "dupins"},
		{"x:c.76fs", `have "fs"`},
		{"x:g.99999999999999999999A>C", "too large"},
		{"x:c.76A>Cx", `want the end of the change, have "x"`},
		{"x:g." + strings.Repeat("9", MaxLength), "at most"},
	} {
		_, err := Parse(c[0])
		switch {
		case c[1] == "" && err != nil:
			t.Errorf("%s: %v", c[0], err)
		case c[1] != "" && (err == nil || !strings.Contains(err.Error(), c[1])):
			t.Errorf("%.80s: error %v, want %q in it", c[0], err, c[1])
		}
	}
}

// FuzzParse: nothing makes the parser panic, and what it prints it reads as the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"NC_1.2(NM_4.1):c.[-6+3_*2-1delACins[A[3];20_30inv;X:g.1_2];7A>C];[=]", "x:g.(?_3)_(5_?)del", "x:c.2376G>C(;)3103del",
		"x:g.1_2ins5_9inv[3]", "x:c.4072-?_5154+?dupA", "x:g.5A[3]T[2]", "x:m.5_7con9_11", "x:p.Met1?", "x:g.1_2insA[2]inv",
		"x:g.pter_8delins[y:g.pter_9inv;z(t):c.*5_qter]", "x:c.1_2insy:n.7",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := Parse(s)
		if err != nil {
			return
		}
		printed := d.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q prints as %q: %v", s, printed, err)
		}
		if !reflect.DeepEqual(d, again) {
			t.Fatalf("%q is %+v, printed as %q it is %+v", s, d, printed, again)
		}
	})
}
