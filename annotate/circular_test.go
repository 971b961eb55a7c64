package annotate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// circle is a genome of 120 bases whose gene abc, MAWKDEFG, crosses the origin: it begins at 106, and one whose gene
// begins there, on the other strand.
const abc = "ATGGCTTGGAAAGATGAATTTGGATAA" // 27 bases

// rotatedGenome is the genome with the gene at the given place, 0-based, of the circle.
func rotatedGenome(at int) string {
	const length = 120
	linear := abc + strings.Repeat("CCTAGTACGCT", 10)[:length-len(abc)]
	return linear[length-at:] + linear[:length-at]
}

// TestCircularMatchesLinear turns a genome so that a gene crosses the origin at each of its bases, and writes the gene as
// different programs do: every substitution, insertion and deletion has the consequence it has where the gene does
// not cross.
func TestCircularMatchesLinear(t *testing.T) {
	const length = 120
	home := circular(t, 50, "one row")
	for _, style := range []string{"one row", "end before start", "two rows", "two rows in GTF"} {
		for at := length - len(abc) + 1; at < length; at++ {
			a := circular(t, at, style)
			seq := rotatedGenome(at)
			for i := range length {
				far := (i + at - 50 + length) % length // where base i of home is here
				for _, c := range [][2]string{
					{seq[far : far+1], "N"}, {seq[far : far+1], reverseComplement(seq[far : far+1])}, {seq[far : far+1], seq[far:far+1] + "TTG"},
					{seq[far:min(far+3, length)], seq[far : far+1]},
				} {
					if c[0] == c[1] || far+len(c[0]) > length || i+len(c[0]) > length {
						continue
					}
					want, err := home.Annotate("c", i+1, c[0], c[1])
					require.NoError(t, err)
					got, err := a.Annotate("c", far+1, c[0], c[1])
					require.NoError(t, err)
					if !rolls(seq, far, c) {
						require.Equal(t, summary(want), summary(got), "%s at %d: base %d %s>%s", style, at, i+1, c[0], c[1])
					}
				}
			}
		}
	}
}

// rolls reports whether an insertion or deletion could as well stand elsewhere: then it is left-aligned within the
// contig, and where the contig begins decides where it stands.
func rolls(seq string, at int, c [2]string) bool {
	if len(c[0]) == len(c[1]) {
		return false
	}
	return at < 4 || at > len(seq)-8
}

// summary is what must not depend on where the contig begins.
func summary(a Annotation) string {
	var b strings.Builder
	for _, c := range a.Consequences {
		fmt.Fprintf(&b, "%v %s %s %s %s %s %s %d\n", c.Terms, c.HGVSc, c.HGVSp, c.Exon, c.CDNA, c.CDS, c.Codons, c.Distance)
	}
	return b.String()
}

// circular has the gene at the given place of the circle.
func circular(t *testing.T, at int, style string) *Annotator {
	t.Helper()
	const length = 120
	g := readGenome(t, ">c\n"+rotatedGenome(at)+"\n")
	start, end := at+1, at+len(abc)
	var in string
	cds := func(s, e int) string { return fmt.Sprintf("c CDS %d %d + 0 ID=p;Parent=g", s, e) }
	region := "c region 1 120 + . ID=r;Is_circular=true"
	switch {
	case style == "one row" || end <= length:
		in = rows(region, fmt.Sprintf("c gene %d %d + . ID=g", start, end), cds(start, end))
	case style == "end before start":
		in = rows(region, fmt.Sprintf("c gene %d %d + . ID=g", start, end-length), cds(start, end-length))
	case style == "two rows":
		in = rows(region, fmt.Sprintf("c gene %d %d + . ID=g", start, end), cds(start, length), strings.Replace(cds(1, end-length), "+ 0", "+ .", 1))
	default:
		attrs := ` gene_id "g"; transcript_id ""; protein_id "p";`
		in = rows(fmt.Sprintf("c gene %d %d + . gene_id \"g\";", start, end))
		for _, r := range [][2]int{{start, min(length, end-3)}, {1, end - length - 3}} {
			if r[0] <= r[1] {
				in += rows(fmt.Sprintf("c CDS %d %d + .", r[0], r[1]) + attrs)
			}
		}
		for i := end - 2; i <= end; i++ { // a row for each base: the stop codon may cross the origin too
			in += rows(fmt.Sprintf("c stop_codon %d %d + .", (i-1)%length+1, (i-1)%length+1) + attrs)
		}
	}
	m, err := ModelReader{Circular: []string{"c"}}.Read(strings.NewReader(in), g)
	require.NoError(t, err)
	require.Empty(t, m.Warnings(), "%s at %d", style, at)
	require.Equal(t, 1, m.Transcripts())
	return New(g, m)
}

// TestCircularDescriptions brings descriptions in a gene across the origin to normal form.
func TestCircularDescriptions(t *testing.T) {
	a := circular(t, 110, "one row")
	n := NewNormalizer(a, ProteinStyle{})
	for _, c := range []struct{ in, genomic, loci, protein string }{
		{"c(p):c.4G>A", "c:g.114G>A", "[c:114:G:A]", "p:p.Ala2Thr"},
		{"c(p):c.14A>G", "c:g.4A>G", "[c:4:A:G]", "p:p.Asp5Gly"},
		{"c(g):c.13=", "c:g.3=", "[]", "p:p.Asp5="},
	} {
		got, err := n.Normalize(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.genomic+" "+c.loci+" "+c.protein, got.Genomic+" "+fmt.Sprint(got.Loci)+" "+got.Protein)
	}
	_, err := n.Normalize("c(p):c.10_12del")
	require.ErrorContains(t, err, "crosses the origin of c")
}

// TestNeighboursAcrossTheOrigin counts distances the short way.
func TestNeighboursAcrossTheOrigin(t *testing.T) {
	a := circular(t, 0, "one row").WithDistance(20, 20)
	for pos, want := range map[int]string{120: "upstream_gene_variant 1", 105: "upstream_gene_variant 16", 28: "downstream_gene_variant 1", 60: "intergenic_variant 0"} {
		seq := rotatedGenome(0)
		got, err := a.Annotate("c", pos, seq[pos-1:pos], "N")
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprintf("%s %d", got.MostSevere.Term, got.Consequences[0].Distance), pos)
	}
}
