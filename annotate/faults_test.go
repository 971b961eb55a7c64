package annotate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// gtfRows writes GTF lines of space-separated columns.
func gtfRows(lines ...string) string { return rows(lines...) }

// good is a transcript without fault, so that a model with one fault has something to keep.
var good = rows("c gene 80 88 + . ID=good", "c CDS 80 88 + 0 ID=goodp;Parent=good")

// faultCases is an example of each kind of fault; docs/files/annotation.md has the same table.
var faultCases = []struct {
	kind        FaultKind
	in          string
	want        string // the first warning
	transcripts int    // besides the good one
}{
	{UnknownContig, rows("x gene 1 9 + . ID=h", "x CDS 1 9 + 0 Parent=h"), `contig "x" is not in the reference: its 2 rows are left out`, 0},
	{MissingParent, rows("c mRNA 1 9 + . ID=t", "c exon 1 9 + . Parent=t", "c exon 20 29 + . Parent=u"), `line 5: exon has the parent "u", which no row describes`, 1},
	{MissingParent, rows("c exon 20 29 + . ID=u"), "line 3: exon without Parent", 0},
	{MissingParent, rows("c CDS 20 28 + 0 note=x"), "line 3: CDS without ID, Parent or any other name: it is left out", 0},
	{MissingParent, rows("c CDS 20 28 + 0 g1.t1"), "line 3: CDS without ID, Parent or any other name: it is left out", 0},
	{MissingParent, rows("c protein 20 28 + . ID=p;Derives_from=t", "c CDS 20 28 + 0 Parent=p"), `line 3: protein "p" has the parent "t", which no row describes: it is left out`, 0},
	{MissingGene, rows("c mRNA 1 9 + . ID=t;Parent=h", "c exon 1 9 + . Parent=t"), `line 3: mRNA "t" has the parent "h", which no row describes`, 1},
	{DuplicateID, rows("c gene 1 9 + . ID=h", "c gene 1 9 + . ID=h", "c CDS 1 9 + 0 ID=p;Parent=h"), `line 4: gene "h" is described twice (before on line 3)`, 1},
	{NoStrand, rows("c gene 1 9 . . ID=h", "c exon 1 9 . . Parent=h"), `line 3: transcript "h" has no strand`, 0},
	{MixedStrands, rows("c gene 1 40 + . ID=h", "c CDS 1 9 + 0 ID=p;Parent=h", "c CDS 15 20 - 0 ID=p;Parent=h"), `line 5: CDS is on another strand than its transcript "p" of gene "h"`, 0},
	{TransSplicing, rows("c gene 1 9 + . ID=h;exception=trans-splicing;part=1/2", "c gene 20 28 - . ID=h;exception=trans-splicing;part=2/2",
		"c CDS 1 9 + 0 ID=p;Parent=h;exception=trans-splicing", "c CDS 20 28 - 0 ID=p;Parent=h;exception=trans-splicing"), `transcript "p" of gene "h" is trans-spliced, which is not supported`, 0},
	{OverlappingExons, rows("c mRNA 1 40 + . ID=t", "c exon 1 20 + . Parent=t", "c exon 15 40 + . Parent=t"), `transcript "t" has overlapping exons (1-20 and 15-40)`, 0},
	{OutsideExons, rows("c mRNA 1 40 + . ID=t", "c exon 1 20 + . Parent=t", "c CDS 15 40 + 0 Parent=t"), `CDS of transcript "t" lies outside its exons`, 0},
	{OverlappingCDS, rows("c mRNA 1 40 + . ID=t", "c exon 1 40 + . Parent=t", "c CDS 1 20 + 0 Parent=t", "c CDS 11 40 + 0 Parent=t"), `CDS of transcript "t" shares 10 bases with the CDS before it`, 0},
	{WrongPhase, rows("c mRNA 2 40 + . ID=t", "c exon 2 11 + . Parent=t", "c exon 30 40 + . Parent=t", "c CDS 2 11 + 0 Parent=t", "c CDS 30 40 + 0 Parent=t"), `CDS of transcript "t" has phase 0 where the bases before it give 2`, 1},
	{WrongPhase, rows("d mRNA 1 15 + . ID=t", "d CDS 1 15 + 1 Parent=t"), `CDS of transcript "t" has phase 1, but it is whole from its first base to its stop codon`, 1},
	{CutCodon, rows("c mRNA 1 20 + . ID=t", "c CDS 1 20 + 0 Parent=t"), `CDS of transcript "t" has 20 bases, not a multiple of three`, 1},
	{InnerStop, rows("d mRNA 1 18 + . ID=t", "d CDS 1 18 + 0 Parent=t"), `CDS of transcript "t" has a stop codon before its end`, 1},
	{UnknownException, rows("c mRNA 1 9 + . ID=t", "c CDS 1 9 + 0 Parent=t;transl_except=(pos:4..6%2Caa:Foo)"), `transl_except "(pos:4..6,aa:Foo)" of transcript "t" is not understood`, 1},
	{AddedStop, gtfRows(`d exon 1 18 + . gene_id "h"; transcript_id "t";`, `d CDS 1 12 + 0 gene_id "h"; transcript_id "t";`), `transcript "t": the stop codon after its CDS is added to it`, 1},
	{ExtraColumns, "c\tx\tgene\t1\t9\t.\t+\t.\tID=h\tc\t5\n" + rows("c CDS 1 9 + 0 ID=p;Parent=h"), "line 3: 11 columns: those behind the ninth are not read", 1},
	{NamedCode, rows("MT gene 1 12 + . ID=h", "MT CDS 1 12 + 0 ID=p;Parent=h"), `CDS of transcript "p" on contig "MT" is read with genetic code 2 because of the contig's name`, 1},
}

// refusals are examples of what makes the whole model doubtful; docs/files/annotation.md has the same list.
var refusals = []struct{ what, in, want string }{
	{"an empty file", "", "the file is empty"},
	{"a file without genes", "##gff-version 3\n", "no gene, exon or CDS in it"},
	{"a file of another kind", ">c\nACGT\n", "no gene, exon or CDS in it"},
	{"a row that has not nine columns", "c\tx\tgene\t1\t9\n", "line 1: 5 columns, want 9"},
	{"a start that is not a position", rows("c exon 0 9 + . Parent=t"), `line 1: exon: start "0"`},
	{"an end before the start", rows("c exon 5 4 + . Parent=t"), `line 1: exon: end "4" is not a position at or after start 5`},
	{"a strand that is none of + - . ?", rows("c exon 1 4 x . Parent=t"), `line 1: exon: strand "x"`},
	{"a phase that is none of 0 1 2 .", rows("c CDS 1 4 + 3 Parent=t"), `line 1: CDS: phase "3"`},
	{"an exon or CDS beyond the end of its contig", rows("c gene 1 99 + . ID=g", "c CDS 90 101 + 0 Parent=g"), `line 2: CDS ends at 101, but contig "c" of the reference has 100 bases: they do not belong together`},
	{"a ##sequence-region that ends elsewhere than the contig", rows("##sequence-region c 1 99", "c gene 1 9 + . ID=g"), `line 1: ##sequence-region: contig "c" ends at 99, but the reference has 100 bases`},
	{"no contig in common with the reference", rows("x gene 1 9 + . ID=g", "x CDS 1 9 + 0 Parent=g"), "no contig in common: the gene model has x, the reference has c, d, MT"},
	{"a transl_table that NCBI does not have", rows("c gene 1 9 + . ID=g", "c CDS 1 9 + 0 Parent=g;transl_table=7"), "line 2: transl_table 7 is not one of NCBI's"},
	{"a transl_table that is not a number", rows("c gene 1 9 + . ID=g", "c CDS 1 9 + 0 Parent=g;transl_table=x"), `line 2: transl_table "x" is not a number`},
	{"no transcript that can be used", rows("c exon 1 4 + . Parent=t"), `no transcript in it can be used: line 1: exon has the parent "t", which no row describes`},
	{"a line longer than 8 MiB", "c\t" + strings.Repeat("x", maxRow), "line 1: longer than 8388608 bytes"},
	{"damaged compression", "\x1f\x8b\x08", "decompressing"},
}

var faultGenome = ">c\n" + strings.Repeat("GCA", 26) + "GATGGCATAA" + strings.Repeat("GCA", 4) + "\n>d\nATGGCTTGGAAATAACCC\n>MT\nATGGCTTGATAA\n"

func TestFaults(t *testing.T) {
	g := readGenome(t, faultGenome)
	require.Len(t, g.Contig("c").Seq, 100)
	seen := map[FaultKind]bool{}
	for _, c := range faultCases {
		t.Run(c.kind.String(), func(t *testing.T) {
			m, err := ReadModel(strings.NewReader(good+c.in), g)
			require.NoError(t, err)
			require.Len(t, m.Faults, 1, "%v", m.Warnings())
			require.Equal(t, c.kind, m.Faults[0].Kind)
			require.Contains(t, m.Warnings()[0], c.want)
			require.Equal(t, c.transcripts+1, m.Transcripts())
		})
		seen[c.kind] = true
	}
	for k := range faultKinds {
		require.True(t, seen[k], "no example of %q", k)
	}
	m, err := ReadModel(strings.NewReader(good), g)
	require.NoError(t, err)
	require.Empty(t, m.Warnings())
}

func TestRefusals(t *testing.T) {
	g := readGenome(t, faultGenome)
	for _, c := range refusals {
		t.Run(c.what, func(t *testing.T) {
			_, err := ReadModel(strings.NewReader(c.in), g)
			require.ErrorContains(t, err, c.want)
		})
	}
	for text, want := range map[string]string{"7": "genetic code 7", "c=7": `genetic code 7 of contig "c"`, "z=2": `contig "z", which is not in the reference`} {
		var o ModelReader
		if err := o.Codes.Set(text); err == nil {
			_, err = o.Read(strings.NewReader(""), g)
			require.ErrorContains(t, err, want)
		}
	}
	_, err := ModelReader{Circular: []string{"z"}}.Read(strings.NewReader(""), g)
	require.ErrorContains(t, err, `circular contig "z" is not in the reference`)
	_, err = LoadModel("testdata/none.gff3", g)
	require.ErrorContains(t, err, "none.gff3")
}

// TestFaultsAreSummarised has more faults of a kind than are worth a line each.
func TestFaultsAreSummarised(t *testing.T) {
	g := readGenome(t, faultGenome)
	var in strings.Builder
	in.WriteString(good)
	for i := range 1000 {
		in.WriteString(rows(fmt.Sprintf("c exon 1 4 + . Parent=t%d", i)))
	}
	m, err := ReadModel(strings.NewReader(in.String()), g)
	require.NoError(t, err)
	require.Equal(t, 1000, m.Faults[0].Count)
	require.Len(t, m.Warnings(), 4)
	require.Equal(t, "1000 in all: an exon or CDS whose parent no row describes (the row is left out)", m.Warnings()[3])
}

// TestBadInputIsDocumented compares the tables of the documentation with the cases tested above.
func TestBadInputIsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "files", "annotation.md"))
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| what is wrong | what is done |\n|---|---|\n")
	for k := range faultKinds {
		fmt.Fprintf(&table, "| %s | %s |\n", k, k.Remedy())
	}
	require.Contains(t, string(page), table.String())
	table.Reset()
	table.WriteString("| what is wrong | the message has |\n|---|---|\n")
	for _, c := range refusals {
		fmt.Fprintf(&table, "| %s | `%s` |\n", c.what, c.want)
	}
	require.Contains(t, string(page), table.String())
}
