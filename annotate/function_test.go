package annotate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// domains gives every product one term, and one domain of residues 60 to 70.
type domains struct{ asked []Product }

func (d *domains) Functions(p Product) []Function {
	d.asked = append(d.asked, p)
	list := []Function{{Kind: GeneTerm, DB: "GO", ID: "GO:1", Name: "a|b, c", Evidence: []string{"IDA", "IEA"}, Source: "goa", Version: "1"}}
	if p.First <= 70 && p.Last >= 60 {
		list = append(list, Function{Kind: Domain, DB: "Pfam", ID: "PF1", Start: 60, End: 70, Source: "scan", Version: "2"})
	}
	return list
}

func TestFunctionsInVCF(t *testing.T) {
	g, err := genome.Load("../testdata/lambda/reference.fa")
	require.NoError(t, err)
	m, err := LoadModel("../testdata/lambda/genes.gff3", g)
	require.NoError(t, err)
	d := &domains{}
	a := New(g, m).WithFunctions(d)
	ann, err := a.Annotate("J02459.1", 37742, "C", "T") // p.Ala67Thr
	require.NoError(t, err)
	require.Len(t, ann.Consequences[0].Functions, 2)
	require.Equal(t, Product{Gene: ann.Consequences[0].Gene, Transcript: d.asked[0].Transcript, Protein: d.asked[0].Protein, First: 67, Last: 67}, d.asked[0])
	for _, c := range ann.Consequences {
		require.Equal(t, c.Distance == 0, c.Functions != nil, "only what the variant is in")
	}
	rows, err := a.Rows(Options{})
	require.NoError(t, err)
	h := vcf.NewHeader("VCFv4.3")
	rows.Declare(h)
	require.Contains(t, strings.Join(h.Meta, "\n"), "##INFO=<ID=FUNCTIONS,Number=.,Type=String")
	for _, c := range []struct{ line, want string }{
		{"J02459.1 37742 . C T . . FUNCTIONS=old", "FUNCTIONS=T|cI||term|GO|GO:1|a%7Cb%2C_c||IDA&IEA|||goa|1," +
			"T|cI|" + ann.Consequences[0].Feature.ID + "|domain|Pfam|PF1||||60|70|scan|2"},
		{"J02459.1 37589 . C T . . DP=1", "DP=1;FUNCTIONS=T|cI||term|GO|GO:1|a%7Cb%2C_c||IDA&IEA|||goa|1"},
		{"J02459.1 1 . G A . . .", "."},
	} {
		var row vcf.Row
		require.NoError(t, h.ParseRow([]byte(strings.ReplaceAll(c.line, " ", "\t")), &row))
		out, err := rows.Append(nil, &row)
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Split(strings.TrimSpace(string(out)), "\t")[7])
	}
	rows, err = a.Rows(Options{Fields: []Field{CSQ}, CSQ: []string{"Feature", "DOMAINS", "GO"}})
	require.NoError(t, err)
	var row vcf.Row
	require.NoError(t, h.ParseRow([]byte("J02459.1\t37742\t.\tC\tT\t.\t.\t."), &row))
	out, err := rows.Append(nil, &row)
	require.NoError(t, err)
	require.Contains(t, string(out), "CSQ="+ann.Consequences[0].Feature.ID+"|Pfam:PF1|GO:1:a&b&_c,")
}
