package annotate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

func TestKnownFieldsJSON(t *testing.T) {
	fields := KnownFields{
		{Name: "AF", Type: Float, Value: "6.57895e-06"},
		{Name: "F2", Type: Float, Value: "0.00010"},
		{Name: "NAN", Type: Float, Value: "nan"},
		{Name: "AC", Type: Integer, Value: "-12"},
		{Name: "LEADING", Type: Integer, Value: "007"},
		{Name: "COMMON", Type: Flag},
		{Name: "SIG", Type: String, Value: "a,_b|c/d%3Be%2C%25"},
		{Name: "AD", Type: Integer, List: true, Value: "3,.,4"},
		{Name: "NAMES", Type: String, List: true, Value: "x%2Cy,."},
		{Name: "UTF8", Type: String, Value: "é\"\\"},
	}
	const want = `{"AF":6.57895e-06,"F2":0.00010,"NAN":"nan","AC":-12,"LEADING":"007","COMMON":true,` +
		`"SIG":"a,_b|c/d;e,%","AD":[3,null,4],"NAMES":["x,y",null],"UTF8":"é\"\\"}`
	got, err := fields.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	require.True(t, json.Valid(got))
	var back KnownFields
	require.NoError(t, json.Unmarshal(got, &back))
	again, err := back.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, want, string(again))
	for _, bad := range []string{`[]`, `{"a":{}}`, `{"a":[[1]]}`, `{"a":false}`, `{"a":[true]}`, `3`} {
		require.Error(t, json.Unmarshal([]byte(bad), &back), bad)
	}
}

func FuzzKnownFieldsJSON(f *testing.F) {
	f.Add([]byte(`{"AF":1e-5,"x":[1,null,"a,b"],"f":true,"s":"%3B"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields KnownFields
		if json.Unmarshal(data, &fields) != nil {
			return
		}
		once, err := fields.MarshalJSON()
		require.NoError(t, err)
		require.True(t, json.Valid(once), "%s", once)
		var back KnownFields
		require.NoError(t, json.Unmarshal(once, &back))
		twice, err := back.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}

func FuzzEscape(f *testing.F) {
	f.Add("a;b=c%3B d")
	f.Fuzz(func(t *testing.T, s string) {
		escaped := EscapeValue(s)
		require.Equal(t, s, vcf.Unescape(escaped))
		require.False(t, strings.ContainsAny(escaped, ";= \t\r\n"))
	})
}

// table is sources made of a table.
type table map[string][]Known

func (s table) AppendKnown(dst []Known, c Change) ([]Known, error) {
	if c.Alt == "GGGG" {
		return dst, errors.New("the file is damaged")
	}
	return append(dst, s[c.Alt]...), nil
}

func (s table) Describe() []SourceInfo {
	return []SourceInfo{
		{Name: "cv", Version: "2026-11", Date: "2026-11-15", Matches: []Match{MatchExact}, Unique: true, Fields: []SourceField{
			{Name: "SIG", Number: ".", Type: String, Description: `A "class"`},
			{Name: "AF", Number: "A", Type: Float}, {Name: "AD", Number: "R", Type: Integer}, {Name: "COMMON", Number: "0", Type: Flag},
		}},
		{Name: "reg", Version: "3", Matches: []Match{MatchOverlap}, Fields: []SourceField{{Name: "x-y", Number: "1", Type: Float}}},
	}
}

func TestKnownInVCF(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">a\nACGTACGT\n"))
	require.NoError(t, err)
	reg := func(id, x, place string) Known {
		return Known{Source: "reg", Version: "3", ID: id, Match: MatchOverlap, Place: place, Fields: KnownFields{{Name: "x-y", Type: Float, Value: x}}}
	}
	s := table{
		"C": {{Source: "cv", Version: "2026-11", ID: "12;13", Match: MatchExact, Fields: KnownFields{
			{Name: "SIG", Type: String, Value: "a,_b|c%3B"}, {Name: "AF", Type: Float, Value: "1e-5"},
			{Name: "AD", Type: Integer, List: true, Value: "3,4"}, {Name: "COMMON", Type: Flag},
		}}},
		"GTA": {
			{Source: "cv", Version: "2026-11", ID: "20", Match: MatchExact, Fields: KnownFields{{Name: "AF", Type: Float, Value: "0.5"}}},
			{Source: "cv", Version: "2026-11", ID: "21", Match: MatchAtom, Place: "a:1-1", Fields: KnownFields{{Name: "AF", Type: Float, Value: "0.1"}}},
			{Source: "cv", Version: "2026-11", ID: "22", Match: MatchAtom, Place: "a:2-2", Fields: KnownFields{{Name: "AF", Type: Float, Value: "0.2"}}},
		},
		"G": {reg("r1", "0.5", "a:1-5"), reg("", "2", "a:1-6")},
	}
	a := New(g, nil).WithSources(s)
	rows, err := a.Rows(Options{Fields: []Field{CSQ}, CSQ: []string{"Allele", "Existing_variation"}})
	require.NoError(t, err)
	h := vcf.NewHeader("VCFv4.3")
	rows.Declare(h)
	require.Equal(t, []string{
		`##INFO=<ID=cv_ID,Number=A,Type=String,Description="Identifier (cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=cv_ATOM_ID,Number=A,Type=String,Description="Identifiers of the single changes of an allele of several bases (cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=cv_SIG,Number=A,Type=String,Description="A \"class\" (cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=cv_AF,Number=A,Type=Float,Description="(cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=cv_AD,Number=A,Type=String,Description="(cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=cv_COMMON,Number=A,Type=Integer,Description="(cv 2026-11, 2026-11-15)">`,
		`##INFO=<ID=reg_ID,Number=A,Type=String,Description="Identifier (reg 3)">`,
		`##INFO=<ID=reg_MATCH,Number=A,Type=String,Description="How entries match: exact, position or overlap (reg 3)">`,
		`##INFO=<ID=reg_PLACE,Number=A,Type=String,Description="Place of entries that do not match exactly (reg 3)">`,
		`##INFO=<ID=reg_x_y,Number=A,Type=String,Description="(reg 3)">`,
	}, h.Meta[2:])

	annotated := func(line string) (string, error) {
		var row vcf.Row
		require.NoError(t, vcf.NewHeader("VCFv4.3").ParseRow([]byte(strings.ReplaceAll(line, " ", "\t")), &row))
		out, err := rows.Append(nil, &row)
		return string(out), err
	}
	for _, c := range []struct{ in, want string }{
		{"a 1 . A C,T,G . . cv_AF=9;DP=1", "DP=1;CSQ=C|12&13,T|,G|;cv_ID=12&13,.,.;cv_SIG=a&_b|c%3B,.,.;cv_AF=1e-5,.,.;cv_AD=3&4,.,.;" +
			"cv_COMMON=1,.,.;reg_ID=.,.,r1&.;reg_MATCH=.,.,overlap&overlap;reg_PLACE=.,.,a:1-5&a:1-6;reg_x_y=.,.,0.5&2"},
		{"a 1 . A T . . .", "CSQ=T|"},
		{"a 1 . ACG GTA . . .", "CSQ=GTA|20;cv_ID=20;cv_ATOM_ID=21&22;cv_AF=0.5"},
	} {
		got, err := annotated(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, strings.TrimSuffix(strings.Split(got, "\t")[7], "\n"))
	}
	_, err = annotated("a 1 . A GGGGA . . .")
	require.ErrorContains(t, err, "annotating a:1 A>GGGGA: the file is damaged")
	_, err = a.Annotate("a", 1, "A", "GGGGA")
	require.ErrorContains(t, err, "the file is damaged")
	ann, err := a.Annotate("a", 1, "A", "C")
	require.NoError(t, err)
	require.Equal(t, s["C"], ann.Known)
	require.Contains(t, string(ann.AppendCSQ(nil)), "|12&13|")

	// What the records say is enough for a header.
	later := s["C"][0]
	later.Version, later.Date = "2026-12", "2026-12-15"
	entries := []Known{s["C"][0], later, s["G"][0]}
	h = vcf.NewHeader("VCFv4.3")
	KnownInfoOf(func(yield func(*Known) bool) {
		for i := range entries {
			if !yield(&entries[i]) {
				return
			}
		}
	}).Declare(h)
	require.Len(t, h.Meta, 12)
	require.Equal(t, `##INFO=<ID=cv_ID,Number=A,Type=String,Description="Identifier (cv 2026-11 and 2026-12)">`, h.Meta[1])
}
