package genbank

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const record = `LOCUS       AB000001   30 bp    DNA     circular BCT 01-JAN-2020
DEFINITION  Something.
VERSION     AB000001.2
FEATURES             Location/Qualifiers
     source          1..30
                     /organism="Something"
     CDS             complement(join(1..4,
                     6..>10))
                     /transl_table=4
                     /note="a line that
                     CDS goes on"
                     /gene="abcD"
                     /locus_tag="X_01"
                     /product="a ""long"" name of
                     something"
                     /protein_id="XP_1.1"
                     /codon_start=2
                     /db_xref="GeneID:1"
                     /GO_function="GO:0003677 - DNA binding [Evidence
                     IEA]"
                     /GO_process="0003677 - DNA binding [Evidence IEA]"
                     /translation="MA
                     CD"
     gene            1..10
     rRNA            complement(2..9)
                     /gene="rrs"
                     /product="16S ribosomal RNA"
     tRNA            join(1..4,6..9)
     tRNA            <1..5
     tRNA            11..20
     CDS             <12..20
                     /pseudo
CONTIG      join(X:1..30)
ORIGIN
        1 acgtacgtac gtacgtacgt
       21 nnnnnnnnnn
//
`

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string // want: part of an error
		records          []*Record
	}{
		{name: "record", text: record + record, records: []*Record{wanted(), wanted()}},
		{name: "empty", text: "\n", want: "this is no GenBank file"},
		{name: "fasta", text: ">a\nACGT\n", want: "line 1: text before LOCUS"},
		{name: "cut", text: record[:len(record)-3], want: "the file is cut"},
		{name: "twice", text: record[:strings.Index(record, "FEATURES")] + record, want: "LOCUS where no record can begin"},
		{name: "location", text: strings.Replace(record, "<12..20", "<12..x", 1), want: `line 33: CDS before this line: location "<12..x"`},
		{name: "turned", text: strings.Replace(record, "<12..20", "20..12", 1), want: `location "20..12"`},
		{name: "location of RNA", text: strings.Replace(record, "tRNA            11..20", "tRNA            11..x", 1), want: `tRNA before this line: location "11..x"`},
		{name: "codon start", text: strings.Replace(record, "codon_start=2", "codon_start=4", 1), want: `codon_start "4" is not 1, 2 or 3`},
		{name: "code", text: strings.Replace(record, "transl_table=4", "transl_table=x", 1), want: `transl_table "x" is no number`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			records, err := Read(strings.NewReader(tt.text))
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.records, records)
		})
	}
}

func wanted() *Record {
	return &Record{
		Name: "AB000001.2", Circular: true, Seq: []byte("ACGTACGTACGTACGTACGTNNNNNNNNNN"),
		Coding: []Coding{
			{
				Parts: []Span{{1, 4}, {6, 10}}, Reverse: true, CutHigh: true, Code: 4, Skip: 1,
				Gene: "abcD", Locus: "X_01", Product: `a "long" name of something`, Protein: "XP_1.1", Translation: "MACD", Terms: []string{"GO:0003677"},
			},
			{Parts: []Span{{12, 20}}, CutLow: true, Pseudo: true, Code: 1},
		},
		RNA: []RNA{{Span: Span{2, 9}, Kind: "rRNA", Reverse: true, Product: "16S ribosomal RNA"}, {Span: Span{11, 20}, Kind: "tRNA"}},
	}
}

func TestLocations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Coding{
		"7":                               {Parts: []Span{{7, 7}}},
		"join(90..100,1..20)":             {Parts: []Span{{90, 100}, {1, 20}}},
		"complement(join(90..100,1..20))": {Parts: []Span{{90, 100}, {1, 20}}, Reverse: true},
		"join(complement(1..20),complement(90..100))": {Parts: []Span{{90, 100}, {1, 20}}, Reverse: true},
		"join(complement(30..>40),complement(<1..20))": {
			Parts: []Span{{1, 20}, {30, 40}}, Reverse: true, CutLow: true, CutHigh: true,
		},
		"order(complement(join(1..2,4..5)),7..8)": {Parts: []Span{{4, 5}, {1, 2}, {7, 8}}, Reverse: true, BothStrands: true},
	} {
		var got Coding
		require.NoError(t, got.locate(text), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "join()", "join(1..2", "1..2)", "join(1..2),3..4", "join(1..2),(3..4)", "bond(1..2)", "X1.1:1..2", strings.Repeat("complement(", 1000) + "1" + strings.Repeat(")", 1000)} {
		require.ErrorContains(t, new(Coding).locate(text), "is not understood", text)
	}
}

// TestSlashInText: a line that begins with a slash is no qualifier where a text in quotes goes on.
func TestSlashInText(t *testing.T) {
	t.Parallel()
	records, err := Read(strings.NewReader(strings.Replace(record, "CDS goes on\"", "/gene=and on\"", 1)))
	require.NoError(t, err)
	require.Equal(t, []*Record{wanted()}, records)
}

func FuzzRead(f *testing.F) {
	f.Add(record)
	f.Add("LOCUS a\nFEATURES x\n     CDS             join(complement(1..2),complement(4..5))\nORIGIN\n//\n")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		require.NotEmpty(t, records)
		for _, r := range records {
			for _, c := range r.Coding {
				require.NotEmpty(t, c.Parts)
				for _, p := range c.Parts {
					require.LessOrEqual(t, 1, p.Start)
					require.LessOrEqual(t, p.Start, p.End)
				}
			}
		}
	})
}
