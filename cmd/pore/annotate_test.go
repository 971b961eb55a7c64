package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
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

// TestAnnotateContigSynonyms: with a table of their names, genes, sources and variants belong together
// that call contigs differently, and are annotated as if all had the reference's names; without one it is an error that
// says what to do.
func TestAnnotateContigSynonyms(t *testing.T) {
	lambda, dir := filepath.Join("..", "..", "testdata", "lambda"), t.TempDir()
	reference := filepath.Join(lambda, "reference.fa")
	renamed := func(file, name, to string) string {
		text, err := os.ReadFile(filepath.Join(lambda, file))
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte("J02459.1"), []byte(to)), 0o600))
		return path
	}
	genes, calls := renamed("genes.gff3", "genes.gff3", "NC_001416.1"), renamed("truth.vcf", "calls.vcf", "1")
	table, bed := filepath.Join(dir, "names.tsv"), filepath.Join(dir, "known.bed")
	require.NoError(t, os.WriteFile(table, []byte("# assembly\tgenbank\trefseq\n1\tJ02459.1\tNC_001416.1\n"), 0o600))
	require.NoError(t, os.WriteFile(bed, []byte("NC_001416.1\t37000\t38000\n"), 0o600))
	source := filepath.Join(dir, "known.pss")
	pore := func(args ...string) (string, error) {
		cmd := command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	build := []string{"sources", "build", "--ref", reference, "--name", "known", "--version", "1", "-o", source, bed}
	_, err := pore(build...)
	require.ErrorContains(t, err, "none of its contigs (NC_001416.1) is in the reference (J02459.1): give their other names with --contig-synonyms")
	_, err = pore(append(build, "--contig-synonyms", table)...)
	require.NoError(t, err)
	for _, fields := range []string{"csq,ann", "bcsq"} {
		args := []string{"annotate", "--log-level", "ERROR", "--ref", reference, "--source", source, "--fields", fields, "--gff"}
		want, err := pore(append(args, filepath.Join(lambda, "genes.gff3"), filepath.Join(lambda, "truth.vcf"))...)
		require.NoError(t, err)
		require.Contains(t, want, "known_MATCH=overlap")
		got, err := pore(append(args, genes, "--contig-synonyms", table, calls)...)
		require.NoError(t, err)
		for n, line := range strings.Split(want, "\n") { // the contig's name stays in CHROM and in the header
			if rest, ok := strings.CutPrefix(line, "J02459.1\t"); ok {
				line = "1\t" + rest
			} else if strings.HasPrefix(line, "#") {
				line = strings.ReplaceAll(line, "J02459.1", "1")
			}
			require.Equal(t, line, strings.Split(got, "\n")[n])
		}
	}
	_, err = pore("annotate", "--ref", reference, "--gff", genes, calls)
	require.ErrorContains(t, err, "no contig in common: the gene model has NC_001416.1, the reference has J02459.1: give their other names with --contig-synonyms")
	// Files that call one contig differently are about one contig.
	regions := filepath.Join(dir, "regions.gff3")
	require.NoError(t, os.WriteFile(regions, []byte("##gff-version 3\n1\tx\tregulatory_region\t37000\t38000\t.\t.\t.\tID=region-1\n"), 0o600))
	both, err := pore("annotate", "--log-level", "ERROR", "--ref", reference, "--gff", genes, "--gff", regions, "--contig-synonyms", table, calls)
	require.NoError(t, err)
	require.Contains(t, both, "lambdap74")
	require.Contains(t, both, "region-1")
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

// TestAnnotateWithNetwork has a small network score variants: in VCF, in JSON, and with errors that name the fault.
func TestAnnotateWithNetwork(t *testing.T) {
	if _, err := infer.FindLibrary(""); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	data := filepath.Join("..", "..", "annotate", "network", "testdata", "splice")
	reference, err := os.ReadFile(filepath.Join(data, "reference.fa"))
	require.NoError(t, err)
	seq := strings.ReplaceAll(strings.TrimPrefix(string(reference), ">one\n"), "\n", "")
	gff := filepath.Join(t.TempDir(), "genes.gff3")
	require.NoError(t, os.WriteFile(gff, []byte(`##gff-version 3
one	.	gene	901	2000	.	-	.	ID=gene:M;Name=MINUS
one	.	lnc_RNA	901	2000	.	-	.	ID=transcript:M;Parent=gene:M
one	.	exon	901	1200	.	-	.	Parent=transcript:M
one	.	exon	1301	2000	.	-	.	Parent=transcript:M
`), 0o644))
	run := func(stdin string, args ...string) (string, error) {
		cmd := command()
		var out bytes.Buffer
		cmd.SetIn(strings.NewReader(stdin))
		cmd.SetOut(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"annotate", "--log-level", "ERROR", "--device", "cpu", "--ref", filepath.Join(data, "reference.fa"), "--gff", gff}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	ref := seq[1199:1200]
	alt := strings.NewReplacer(ref, "").Replace("ACGT")[:1]
	in := "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n" +
		"one\t500\t.\t" + seq[499:500] + "\t" + seq[499:500] + "A\t.\t.\tSmall=old\n" +
		"one\t1200\t.\t" + ref + "\t" + alt + ",<DEL>," + ref + "AA\t.\t.\tEND=1300\n" +
		"one\t1210\t.\t" + seq[1209:1211] + "\tGGG\t.\t.\t.\n"
	out, err := run(in, "--network", data)
	require.NoError(t, err)
	require.Contains(t, out, "##sequenceNetwork=<ID=small,Version=\"1\",SHA256=")
	require.Contains(t, out, ",Licence=\"Apache-2.0\">")
	require.Contains(t, out, "##INFO=<ID=Small,Number=.,Type=String,Description=\"Delta scores")
	lines := strings.Split(strings.TrimSpace(out[strings.Index(out, "\none\t500")+1:]), "\n")
	require.Len(t, lines, 3)
	require.NotContains(t, lines[0], "Small=", "what an earlier run said is gone")
	require.Regexp(t, `;Small=`+alt+`\|MINUS(\|-?\d\.\d\d){4}(\|-?\d+){4},`+ref+`AA\|MINUS(\|-?\d\.\d\d){4}(\|-?\d+){4}$`, lines[1])
	require.Contains(t, lines[2], ";Small=GGG|MINUS|.|.|.|.|.|.|.|.")

	table, err := run(in, "--network", data, "--network-genes", filepath.Join(data, "genes.tsv"))
	require.NoError(t, err)
	require.Contains(t, table, "|PLUS|", "the table has more genes than the GFF3")

	out, err = run(in, "--network", data, "--format", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"scores":[{"network":"small","version":"1","sha256":"`)
	require.Contains(t, out, `,"licence":"Apache-2.0","gene":"MINUS"`)
	require.Contains(t, out, `"unscored":"REF and ALT are both longer than a base"`)

	_, err = run(in, "--network-genes", "x")
	require.ErrorContains(t, err, "--network-genes x needs a --network")
	_, err = run(in, "--network", gff)
	require.ErrorContains(t, err, "is not a folder")
	_, err = run(in, "--network", filepath.Join("..", "..", "models", "r9.4-fast"))
	require.ErrorContains(t, err, "it is the manifest of a basecalling model, not of a sequence model")
}
