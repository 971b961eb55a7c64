package annotate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// TestNMD checks changes along a transcript with exons of 400, 200 and 200 bases, coding from base 101 of the first, on
// both strands, and in a transcript without introns.
func TestNMD(t *testing.T) {
	codons := "ATG" + strings.Repeat("CAACAGTGG", 300/9) // there is no stop in any frame
	mature := strings.Repeat("C", 100) + codons[:300] + strings.Repeat("CAACAGTGG", 40)[:340] + "TAA"
	mature += strings.Repeat("C", 800-len(mature))
	intron := "GT" + strings.Repeat("C", 96) + "AG"
	seq := strings.Repeat("C", 100) + mature[:400] + intron + mature[400:600] + intron + mature[600:] + strings.Repeat("C", 100)
	n := len(seq)
	exons := [][2]int{{101, 500}, {601, 800}, {901, 1100}}
	cdsEnd := 900 + 742 - 600 + 1 // the mature sequence has its stop at bases 741 to 743
	g, err := genome.Read(strings.NewReader(">+\n" + seq + "\n>-\n" + reverseComplement(seq) + "\n>s\n" + strings.Repeat("C", 100) + mature + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	row := func(contig, kind string, start, end int, attributes string) {
		strand := "+"
		if contig == "-" {
			strand, start, end = "-", n+1-end, n+1-start
		}
		fmt.Fprintf(&b, "%s\tx\t%s\t%d\t%d\t.\t%s\t.\t%s\n", contig, kind, start, end, strand, attributes)
	}
	for _, contig := range []string{"+", "-"} {
		row(contig, "gene", 101, 1100, "ID=gene:G"+contig+";biotype=protein_coding")
		row(contig, "mRNA", 101, 1100, "ID=transcript:T"+contig+";Parent=gene:G"+contig)
		for _, x := range exons {
			row(contig, "exon", x[0], x[1], "Parent=transcript:T"+contig)
			if s, e := max(x[0], 201), min(x[1], cdsEnd); s <= e {
				row(contig, "CDS", s, e, "ID=CDS:P"+contig+";Parent=transcript:T"+contig)
			}
		}
	}
	row("s", "gene", 101, 900, "ID=gene:GS;biotype=protein_coding")
	row("s", "mRNA", 101, 900, "ID=transcript:TS;Parent=gene:GS")
	row("s", "exon", 101, 900, "Parent=transcript:TS")
	row("s", "CDS", 201, 843, "ID=CDS:PS;Parent=transcript:TS")
	m, err := ReadModel(strings.NewReader(b.String()), g)
	if err != nil {
		t.Fatal(err)
	}
	a := New(g, m)
	for _, c := range []struct {
		name, contig string
		pos          int // of a base, on the forward copy
		ref, alt     string
		want         string
	}{
		{"coding base 100", "+", 300, "", "", "first_100_coding_bases"},
		{"coding base 101", "+", 301, "", "", "predicted"},
		{"51 bases before the last junction", "+", 750, "", "", "predicted"},
		{"50 bases before the last junction", "+", 751, "", "", "last_50_bases_of_penultimate_exon"},
		{"last base before the last junction", "+", 800, "", "", "last_50_bases_of_penultimate_exon"},
		{"first base of the last exon", "+", 901, "", "", "last_exon"},
		{"no introns", "s", 600, "", "", "single_exon"},
		{"a splice site alone", "+", 501, "", "", ""},
		{"a substitution in the untranslated region", "+", 150, "C", "A", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, contig := range []string{c.contig, map[string]string{"+": "-", "s": "s"}[c.contig]} {
				pos := c.pos
				seq := g.Contig(contig).Flat()
				if contig == "-" {
					pos = n + 1 - pos
				}
				ref := string(seq[pos-1])
				alt := strings.Repeat(complementOf(ref), 2)
				if c.alt != "" {
					alt = complementOf(ref)
				}
				ann, err := a.Annotate(contig, pos, ref, alt)
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				if p := ann.Consequences[0].NMD; p != nil {
					if got = p.Rule; p.Predicted {
						got = "predicted"
					}
				}
				if got != c.want {
					t.Errorf("on contig %s: %q, want %q (%v %s)", contig, got, c.want, ann.Consequences[0].Terms, ann.Consequences[0].HGVSc)
				}
			}
		})
	}
}
