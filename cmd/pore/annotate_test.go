package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/vcf"
)

// annotated runs pore annotate on lambda.
func annotated(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	cmd := command()
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"annotate", "--log-level", "ERROR", "--ref", filepath.Join(lambda, "reference.fa"), "--gff", filepath.Join(lambda, "genes.gff3")}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAnnotateCommand(t *testing.T) {
	truth := filepath.Join("..", "..", "testdata", "lambda", "truth.vcf")
	text, err := os.ReadFile(truth)
	if err != nil {
		t.Fatal(err)
	}
	want, err := annotated(t, "", truth)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(want, ";CSQ=") != 4 || !strings.Contains(want, "|lambdap74:p.Trp56Ter|") {
		t.Errorf("output\n%s", want)
	}
	for _, args := range [][]string{nil, {"-"}, {"--threads", "3"}} {
		if got, err := annotated(t, string(text), args...); err != nil || got != want {
			t.Errorf("%v: %v\n%s", args, err, got)
		}
	}
	zipped := filepath.Join(t.TempDir(), "out.vcf.gz")
	if _, err := annotated(t, "", "-o", zipped, truth); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(zipped)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := vcf.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Next(); err != nil || rec.Pos != 37589 {
		t.Errorf("%+v %v", rec, err)
	}
	for _, c := range []struct {
		args []string
		want int // entries of CSQ
	}{
		{[]string{"--pick"}, 4}, {[]string{"--pick-allele"}, 4}, {[]string{"--most-severe"}, 4}, {[]string{"--distance", "0"}, 5},
		{[]string{"--distance", "0", "--per-gene"}, 5}, {[]string{"--distance", "0", "--flag-pick"}, 5},
	} {
		got, err := annotated(t, "", append(c.args, truth)...)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got, ":g."); n != c.want {
			t.Errorf("%v: %d entries, want %d", c.args, n, c.want)
		}
	}
}

func TestAnnotateRefuses(t *testing.T) {
	const wrong = "##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nJ02459.1\t1\t.\tT\tA\t.\t.\t.\n"
	out := filepath.Join(t.TempDir(), "out.vcf")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "standard input: line 3: annotating J02459.1:1 T>A: REF is T, but the reference has G there"},
		{[]string{"-o", out}, "standard input: line 3: "},
		{[]string{"gone.vcf"}, "gone.vcf"},
		{[]string{"--fields", "csq,nope"}, `--fields "nope"`},
		{[]string{"--fields", "csq,CSQ"}, "twice"},
		{[]string{"--csq-fields", "Nope"}, `--csq-fields: CSQ has no sub-field "Nope"`},
		{[]string{"--format", "xml"}, `--format "xml"`},
		{[]string{"--on-error", "stop"}, `--on-error "stop"`},
		{[]string{"--threads", "-1"}, "--threads -1"},
		{[]string{"--distance", "-1"}, "--distance "},
		{[]string{"--pick", "--most-severe"}, "--pick and --most-severe exclude each other"},
		{[]string{"--pick-order", "rank,rank"}, "--pick-order: "},
	} {
		if _, err := annotated(t, wrong, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.args, err, c.want)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("the output that is not whole is still there: %v", err)
	}
	if got, err := annotated(t, wrong, "--on-error", "skip"); err != nil || !strings.HasSuffix(got, "J02459.1\t1\t.\tT\tA\t.\t.\t.\n") {
		t.Errorf("skipped: %v\n%s", err, got)
	}
}
