package filter

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/vcf"
)

const sample = `##fileformat=VCFv4.2
##contig=<ID=c1,length=1000>
##FILTER=<ID=q10,Description="x">
##FILTER=<ID=s50,Description="x">
##INFO=<ID=DP,Number=1,Type=Integer,Description="x">
##INFO=<ID=AF,Number=A,Type=Float,Description="x">
##INFO=<ID=DB,Number=0,Type=Flag,Description="x">
##INFO=<ID=TAG,Number=.,Type=String,Description="x">
##FORMAT=<ID=GT,Number=1,Type=String,Description="x">
##FORMAT=<ID=DP,Number=1,Type=Integer,Description="x">
##FORMAT=<ID=AD,Number=R,Type=Integer,Description="x">
##FORMAT=<ID=GQ,Number=1,Type=Integer,Description="x">
##FORMAT=<ID=ST,Number=1,Type=String,Description="x">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	s1	s2
c1	10	rs1	A	C	30	PASS	DP=10;AF=0.5;DB;TAG=x,y	GT:DP:AD:GQ:ST	0/1:5:3,2:20:aa	1/1:9:0,9:40:bb
c1	20	.	AT	A	.	q10	DP=20;AF=0.01	GT:DP:AD:GQ	0/0:7:7,0:30	./.:.:.:.
c1	30	rs2;rs3	A	C,G	9.5	q10;s50	AF=0.2,0.7;TAG=z	GT:DP:GQ	1/2:12:10	0|1:3:50
c1	40	.	AC	GT	50	.	DP=.;DB	GT:ST	1:.	0:cc
c1	50	rs5	A	*,<DEL>	0	PASS	.	GT:DP	0/2:30	2|2:1
c1	60	.	G	.	99	PASS	DP=100	GT:DP:GQ	0/0:33:99	0/0:2:5
c1	70	.	G	GA,T	1e3	s50	DP=7;TAG=.	GT:GQ	.|1:7	1|0:8
`

// TestAgainstBcftools holds expressions beside the positions that "bcftools view -i" of version 1.24 prints for them.
func TestAgainstBcftools(t *testing.T) {
	for _, c := range golden {
		t.Run(c.expression, func(t *testing.T) {
			require.Equal(t, c.positions, selected(t, c.expression))
		})
	}
}

// selected are the positions of the records of which an expression is true.
func selected(t testing.TB, expression string) []int { return selectedOf(t, sample, expression) }

func selectedOf(t testing.TB, file, expression string) []int {
	r, err := vcf.NewReader(strings.NewReader(file))
	require.NoError(t, err)
	f, err := Parse(expression, r.Header())
	require.NoError(t, err)
	out := []int{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		if f.Match(rec) {
			out = append(out, rec.Pos)
		}
	}
}

// VCF 4.4 allows a phase in front of the first allele; where it says nothing, nothing is selected by it.
func TestPhaseBeforeTheFirstAlleleSelectsTheSame(t *testing.T) {
	unphased := regexp.MustCompile(`\t([0-9.]/)`).ReplaceAllString(sample, "\t/$1")
	leading := regexp.MustCompile(`\t([0-9.]\|)`).ReplaceAllString(unphased, "\t|$1")
	require.Contains(t, leading, "\t/1/2:")
	require.Contains(t, leading, "\t|0|1:")
	for _, c := range golden {
		require.Equal(t, c.positions, selectedOf(t, leading, c.expression), c.expression)
	}
}

func TestFaultsNameTheirPlace(t *testing.T) {
	r, err := vcf.NewReader(strings.NewReader(sample))
	require.NoError(t, err)
	for expression, want := range map[string]string{
		"":                       "at character 1: the expression ends",
		"QUAL>":                  "at character 6: the expression ends",
		"QUAL":                   "at character 1: this is no condition",
		"QUAL>3 POS<4":           "at character 8: expected an operator",
		"(QUAL>3":                "at character 1: this parenthesis is not closed",
		`ID="rs1`:                "at character 4: this string is not closed",
		"DP>3":                   "at character 1: DP is declared as INFO and as FORMAT",
		"INFO/XX>3":              "at character 1: INFO/XX is no column and the header does not declare it",
		"N_PASS(GQ>3)>1":         "at character 1: functions such as N_PASS() are not supported",
		`ID=@list`:               `at character 4: '@' is not expected here`,
		`QUAL>"x"`:               "at character 5: a string and a number are compared",
		`QUAL="x"`:               "at character 5: a string and a number are compared",
		`ID>"x"`:                 "at character 3: strings are compared with",
		`ID~"("`:                 "at character 4: not a regular expression",
		`TYPE="snv"`:             "at character 6: TYPE is one of",
		"AF[x]>1":                "at character 3: subscript [x] is not supported",
		"POS=1.2.3":              `at character 5: "1.2.3" is not a number`,
		strings.Repeat("(", 300): "nested deeper than 100",
	} {
		_, err := Parse(expression, r.Header())
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax, expression)
		require.Contains(t, err.Error(), want)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range golden {
		f.Add(c.expression)
	}
	r, err := vcf.NewReader(strings.NewReader(sample))
	require.NoError(f, err)
	var recs []*vcf.Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(f, err)
		recs = append(recs, rec)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		filter, err := Parse(expression, r.Header())
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(expression) {
				t.Fatal(err)
			}
			return
		}
		for _, rec := range recs {
			filter.Match(rec)
		}
	})
}
