package annotate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/vcf"
)

// TestCSQIsWrittenTheSameTwice: CSQ written straight from the effects equals the one from the Annotation, for
// random variants of random genes on both strands.
func TestCSQIsWrittenTheSameTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 14))
	header := vcf.NewHeader("VCFv4.3")
	for name, a := range map[string]*Annotator{
		"forward": gene14.annotator(t, "+"), "reverse": gene14.mirrored().annotator(t, "-"), "lambda": lambda(t),
		"introns": newGeneSet(1, 8, 400, false).annotator(t),
	} {
		rows, err := a.Rows(Options{Fields: []Field{CSQ}})
		if err != nil {
			t.Fatal(err)
		}
		c := a.genome.Contigs[0]
		for range 3000 {
			pos := rng.IntN(min(c.Len(), 30_000) - 20)
			ref := c.Text(pos, pos+1+rng.IntN(6))
			var alts []string
			for range 1 + rng.IntN(2) {
				alt := make([]byte, 1+rng.IntN(5))
				for i := range alt {
					alt[i] = "ACGT"[rng.IntN(4)]
				}
				if string(alt) != ref && !slices.Contains(alts, string(alt)) {
					alts = append(alts, string(alt))
				}
			}
			if len(alts) == 0 {
				continue
			}
			var row vcf.Row
			line := fmt.Sprintf("%s\t%d\t.\t%s\t%s\t.\t.\t.", c.Name, pos+1, ref, strings.Join(alts, ","))
			if err := header.ParseRow([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			got, err := rows.Append(nil, &row)
			if err != nil {
				t.Fatal(err)
			}
			alleles, err := a.AnnotateSite(nil, &Site{Contig: c.Name, Pos: pos + 1, Ref: ref, Alts: alts})
			if err != nil {
				t.Fatal(err)
			}
			var entries []string
			for i := range alleles {
				entries = append(entries, string(alleles[i].Annotation.AppendCSQ(nil)))
			}
			if want := strings.TrimSuffix(line, ".") + "CSQ=" + strings.Join(entries, ",") + "\n"; string(got) != want {
				t.Fatalf("%s:\ngot  %swant %s", name, got, want)
			}
		}
	}
}

// TestCSQLayouts: whatever sub-fields are chosen, in whatever order, each is what it is among all of them. Each layout has
// texts of its own that are kept from entry to entry.
func TestCSQLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 9))
	a := newGeneSet(1, 8, 400, false).annotator(t)
	header := vcf.NewHeader("VCFv4.3")
	names, _ := CSQSubfields()
	var lines []string
	contig := a.genome.Contigs[0]
	for range 400 {
		pos := rng.IntN(min(contig.Len(), 30_000) - 20)
		ref, alt := contig.Text(pos, pos+1+max(0, rng.IntN(5)-2)), "ACGT"[rng.IntN(4):][:1]
		if ref == alt {
			alt += "GATTACA"[:1+rng.IntN(7)]
		}
		lines = append(lines, fmt.Sprintf("%s\t%d\t.\t%s\t%s\t.\t.\t.", contig.Name, pos+1, ref, alt))
	}
	written := func(names []string) (entries [][]string) {
		rows, err := a.Rows(Options{Fields: []Field{CSQ}, CSQ: names})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			var row vcf.Row
			if err := header.ParseRow([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			out, err := rows.Append(nil, &row)
			if err != nil {
				t.Fatal(err)
			}
			_, info, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "CSQ=")
			for entry := range strings.SplitSeq(info, ",") {
				entries = append(entries, strings.Split(entry, "|"))
			}
		}
		return entries
	}
	all := written(names)
	for range 50 {
		chosen := rng.Perm(len(names))[:1+rng.IntN(len(names))]
		var some []string
		for _, i := range chosen {
			some = append(some, names[i])
		}
		for n, entry := range written(some) {
			var want []string
			for _, i := range chosen {
				want = append(want, all[n][i])
			}
			if !slices.Equal(entry, want) {
				t.Fatalf("%v: entry %v, want %v", some, entry, want)
			}
		}
	}
}

func TestCSQSubfields(t *testing.T) {
	a := gene14.annotator(t, "+")
	names, defaults := CSQSubfields()
	if strings.Join(names[:defaults], "|") != csqFields {
		t.Errorf("the first %d sub-fields are %v", defaults, names[:defaults])
	}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"Consequence", "SYMBOL"}, "stop_gained|TOY,missense_variant|TOY"},
		{[]string{"symbol", "Gene", "FEATURE", "HGVS_OFFSET", "STRAND"}, "TOY|G|T||1,TOY|G|T||1"},
		{[]string{"HGVSg", "ALLELE_NUM", "ENSP", "Codons", "PICK"}, "c:g.20A>T|1|P|Aaa/Taa|1,c:g.20A>G|3|P|Aaa/Gaa|1"},
	} {
		out, _, err := annotatedVCF(t, a, toyVCF, Options{Fields: []Field{CSQ}, CSQ: c.names})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, ";CSQ="+c.want+"\t") {
			t.Errorf("%v: no %q in\n%s", c.names, c.want, out)
		}
		if !strings.Contains(strings.ToLower(out), strings.ToLower("Format: "+strings.Join(c.names, "|")+`">`)) {
			t.Errorf("%v are not declared", c.names)
		}
	}
	for want, names := range map[string][]string{`no sub-field "nope"`: {"nope"}, "named twice": {"IMPACT", "Impact"}} {
		if _, err := a.Rows(Options{CSQ: names}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestCSQEscapesNames: an ID with characters that separate is escaped in every entry, as VEP does.
func TestCSQEscapesNames(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a,b": "a&b", "a|b": "a&b", "a;b": "a%3Bb", "p.Lys2=": "p.Lys2%3D", "two  words\tmore": "two_words_more", " x": "_x", "": "",
	} {
		if got := string(escapeFrom([]byte("before|"+in), 7)); got != "before|"+want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestRowsDoNotAllocate: annotating a substitution leaves little for the garbage collector.
func TestRowsDoNotAllocate(t *testing.T) {
	a := lambda(t)
	rows, err := a.Rows(Options{Fields: []Field{CSQ}})
	if err != nil {
		t.Fatal(err)
	}
	var row vcf.Row
	if err := vcf.NewHeader("VCFv4.3").ParseRow([]byte("J02459.1\t37589\t.\tC\tT\t.\t.\t."), &row); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 0, 1<<16)
	n := testing.AllocsPerRun(100, func() {
		if out, err = rows.Append(out[:0], &row); err != nil {
			t.Fatal(err)
		}
	})
	if n > 5 {
		t.Errorf("%v allocations", n)
	}
}
