package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/variant/eval"
	"github.com/porestream/porestream/vcf"
)

// evaluated runs pore eval variants on lambda.
func evaluated(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	cmd := command()
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{"eval", "variants", "--ref", filepath.Join(lambda, "reference.fa"), "--truth", filepath.Join(lambda, "truth.vcf")}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// lambdaCalls are three of the four true variants of lambda and a false one.
const lambdaCalls = `##fileformat=VCFv4.3
##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">
#CHROM	POS	ID	REF	ALT	QUAL	FILTER	INFO	FORMAT	lambda
J02459.1	37589	.	C	T	50	PASS	.	GT	1
J02459.1	37742	.	C	T	40	PASS	.	GT	1
J02459.1	40000	.	A	G	10	PASS	.	GT	1
J02459.1	45352	.	G	A	30	PASS	.	GT	1
`

func TestEvalVariantsCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, err := os.ReadFile(filepath.Join("..", "..", "testdata", "lambda", "reference.fa"))
	require.NoError(t, err)
	seq := strings.ReplaceAll(string(g[bytes.IndexByte(g, '\n'):]), "\n", "")
	calls := strings.Replace(lambdaCalls, "40000\t.\tA\tG", "40000\t.\t"+seq[39999:40000]+"\t"+map[bool]string{true: "G", false: "A"}[seq[39999] == 'A'], 1)
	roc, plot, out := filepath.Join(dir, "roc.tsv"), filepath.Join(dir, "roc.svg"), filepath.Join(dir, "out")
	text, err := evaluated(t, calls, "--json", "--roc", roc, "--plot", plot, "--out", out, "-")
	require.NoError(t, err)
	var r eval.Result
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	f := r.Row("all", "SNP").Alleles
	assert.Equal(t, []int{3, 1, 3, 1}, []int{f.TruthTP, f.TruthFN, f.QueryTP, f.QueryFP})
	assert.InDelta(t, 0.75, *f.F1, 1e-12)
	require.NotNil(t, f.F1Interval)

	for name, want := range map[string]string{"tp.vcf": "37589 37742 45352", "fp.vcf": "40000", "fn.vcf": "43082", "tp-truth.vcf": "37589 37742 45352"} {
		b, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		var got []string
		for line := range strings.Lines(string(b)) {
			if line[0] != '#' {
				got = append(got, strings.Split(line, "\t")[1])
			}
		}
		assert.Equal(t, want, strings.Join(got, " "), name)
	}
	for _, file := range []string{roc, filepath.Join(dir, "roc.snp.tsv"), filepath.Join(dir, "roc.indel.tsv"), plot} {
		assert.FileExists(t, file)
	}

	text, err = evaluated(t, calls, "-")
	require.NoError(t, err)
	assert.Contains(t, text, "Genotypes were not compared")
	assert.Regexp(t, `SNP +4 +3 +1 +4 +3 +1 +0 +0 +0.7500 +0.7500 +0.7500`, text)
}

func TestEvalVariantsErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, b, 0o600))
		return path
	}
	z, err := vcf.NewBgzip(6)
	require.NoError(t, err)
	blocks, err := z.Append(nil, []byte(lambdaCalls))
	require.NoError(t, err)
	half := write("half.vcf.gz", blocks[:len(blocks)/2])
	endless := write("endless.vcf.gz", blocks)
	plain := write("calls.vcf", []byte(lambdaCalls))
	notVCF := write("notes.txt", []byte("hello\n"))
	bed := write("regions.bed", []byte("chr1\t1\t2\n"))
	events := write("events.jsonl", []byte("{\"schema_version\":1,\"sample\":\"a\"}\n"))
	mixed := write("mixed.jsonl", []byte(`{"schema_version":1,"sample":"a","revision":1,"variant":{"vrs_id":"x","contig":"J02459.1"}}
{"schema_version":1,"sample":"b","revision":1,"variant":{"vrs_id":"x","contig":"J02459.1"}}
`))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{half}, half + ": the file has no bgzip end marker: it is cut short; get it again"},
		{[]string{endless}, endless + ": the file has no bgzip end marker: it is cut short; get it again"},
		{[]string{notVCF}, notVCF + `: line 1: first line is "hello", want ##fileformat=VCFv4.x: not VCF`},
		{[]string{filepath.Join(dir, "none.vcf")}, "open " + filepath.Join(dir, "none.vcf") + ": no such file or directory"},
		{[]string{"--bed", bed, plain}, bed + ": line 1: the reference has no contig chr1"},
		{[]string{"--stratify", "x", plain}, `--stratify "x": want NAME=BED`},
		{[]string{"--ploidy", "3", plain}, "--ploidy 3: want 1 or 2"},
		{[]string{"--score", "AF", plain}, `--score "AF": want QUAL or GQ`},
		{[]string{"--sample", "b", plain}, plain + ": no sample b; there are lambda (--sample)"},
		{nil, "want CALLS.vcf or --events, one of the two"},
		{[]string{"--events", events, plain}, "want CALLS.vcf or --events, one of the two"},
		{[]string{"--events", events}, events + ": line 1: an event needs variant.vrs_id and revision"},
		{[]string{"--events", plain}, plain + ": line 1: invalid character '#' looking for beginning of value: not events as pore consume --format json prints them"},
		{[]string{"--events", mixed}, mixed + ": line 2: events of samples a and b: choose one (--sample)"},
	} {
		_, err := evaluated(t, "", tt.args...)
		assert.EqualError(t, err, tt.want)
	}
	// Not bgzip, cut in the middle of the compressed data.
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write([]byte(lambdaCalls))
	require.NoError(t, errors.Join(err, w.Close()))
	gz := write("plain.vcf.gz", packed.Bytes()[:packed.Len()-20])
	_, err = evaluated(t, "", gz)
	assert.ErrorContains(t, err, "unexpected EOF: it is cut short; get it again")
}

func TestEvalEventsCommand(t *testing.T) {
	t.Parallel()
	line := func(revision uint64, status string, pos int64, genotype uint32, second int) string {
		at := time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC)
		doc, err := event.Variant{
			SchemaVersion: event.SchemaVersion, Sample: "lambda", Revision: revision, Status: status,
			Allele:    event.Allele{VRSID: strconv.FormatInt(pos, 10), Contig: "J02459.1", Pos: pos, Ref: "C", Alt: "T"},
			Call:      event.Call{Qual: 30, GenotypeQuality: 30, Genotype: []uint32{genotype}, Depth: 20},
			LastChunk: &at,
		}.JSON()
		require.NoError(t, err)
		return string(doc) + "\n"
	}
	end, err := json.Marshal(event.RunEnd{Run: "r", Sample: "lambda", Sources: 1})
	require.NoError(t, err)
	text, err := evaluated(t, line(1, "PROVISIONAL", 37589, 1, 0)+line(2, "FINAL", 37589, 1, 30)+
		line(1, "STABLE", 37742, 1, 10)+line(2, "RETRACTED", 37742, 0, 20)+string(end)+"\n", "--events", "-", "--json", "--moments", "3")
	require.NoError(t, err)
	var r eval.StreamResult
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	assert.Equal(t, 1, r.Final.Row("all", "SNP").Alleles.QueryTP)
	assert.Equal(t, 1, r.Churn.StableRetracted)
	assert.Len(t, r.Moments, 3)
	assert.Equal(t, 2, r.Moments[0].SNP.QueryTP, "both stood after ten seconds")
}
