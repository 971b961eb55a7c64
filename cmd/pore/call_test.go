package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/vcf"
)

func TestParseRegion(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">chr1\n" + strings.Repeat("A", 5000) + "\n>HLA:1\nACGT\n"))
	require.NoError(t, err)
	for _, tc := range []struct {
		text, contig string
		start, end   int
		err          string
	}{
		{text: "chr1", contig: "chr1", start: 0, end: 5000},
		{text: "chr1:10", contig: "chr1", start: 9, end: 5000},
		{text: "chr1:10-20", contig: "chr1", start: 9, end: 20},
		{text: "chr1:1,000-2,000", contig: "chr1", start: 999, end: 2000},
		{text: "chr1:4000-90000", contig: "chr1", start: 3999, end: 5000},
		{text: "HLA:1", contig: "HLA:1", start: 0, end: 4},
		{text: "HLA:1:2-3", contig: "HLA:1", start: 1, end: 3},
		{text: "chr2", err: `there is no contig "chr2" in the reference`},
		{text: "chr2:1-5", err: `there is no contig "chr2" in the reference`},
		{text: "chr1:x", err: `"x" is no position`},
		{text: "chr1:1-y", err: `"y" is no position`},
		{text: "chr1:0-5", err: "want 1 <= START <= END, and START on the contig of 5000 bases"},
		{text: "chr1:7-5", err: "want 1 <= START <= END"},
		{text: "chr1:5001", err: "want 1 <= START <= END"},
	} {
		contig, span, err := parseRegion(tc.text, g)
		if tc.err != "" {
			require.ErrorContains(t, err, tc.err, tc.text)
			continue
		}
		require.NoError(t, err, tc.text)
		require.Equal(t, tc.contig, contig, tc.text)
		require.Equal(t, variant.Span{Start: tc.start, End: tc.end}, span, tc.text)
	}
}

// runCall runs pore call in this process and returns its standard output.
func runCall(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := command()
	var out bytes.Buffer
	cmd.SetArgs(append([]string{"call", "--variant-model", "none"}, args...))
	cmd.SetIn(stdin)
	cmd.SetOut(&out)
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return out.String()
}

// A slice of a human genome: a file gives the bytes that a pipe does, with any
// number of threads, compressed or not, and targets give the records at their places.
func TestCallHG002(t *testing.T) {
	dir := testenv.Recordings(t, "hg002-r9")
	file, reference := filepath.Join(dir, "HG002.r94g360.chr20_59M_100k.bam"), filepath.Join(dir, "hg38.chr20_59M_100k.fa")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	temp := t.TempDir()
	whole := runCall(t, nil, "--ref", reference, "--gvcf", "--threads", "1", file)
	require.Equal(t, whole, runCall(t, bytes.NewReader(content), "--ref", reference, "--gvcf", "--threads", "3", "-"))

	packed := filepath.Join(temp, "x.vcf.gz")
	require.Empty(t, runCall(t, nil, "--ref", reference, "--gvcf", "-o", packed, file))
	f, err := os.Open(packed)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, whole, string(text))
	require.FileExists(t, packed+".tbi")

	// Rows follow each other without a gap.
	rows, err := vcf.NewReader(strings.NewReader(whole))
	require.NoError(t, err)
	at := 1
	var variants []string
	for {
		rec, err := rows.Next()
		if err == io.EOF { //nolint:errorlint // as documented
			break
		}
		require.NoError(t, err)
		require.LessOrEqual(t, rec.Pos, at, "nothing is told of %d", at)
		if end, ok := rec.Info.Get("END"); ok {
			require.Equal(t, at, rec.Pos)
			at = atoi(t, end) + 1
		} else {
			at = max(at, rec.Pos+len(rec.Ref))
			variants = append(variants, string(rec.AppendLine(nil)))
		}
	}
	require.Equal(t, 100_002, at)

	bed := filepath.Join(temp, "x.bed")
	require.NoError(t, os.WriteFile(bed, []byte("chr20\t20000\t30000\nchr20\t25000\t41000\n"), 0o600))
	var want, got []string
	for _, line := range variants {
		if pos := atoi(t, strings.Split(line, "\t")[1]); pos > 20_000 && pos <= 41_000 || pos >= 90_001 && pos <= 95_000 {
			want = append(want, line)
		}
	}
	for line := range strings.Lines(runCall(t, nil, "--ref", reference, "--gvcf", "--bed", bed, "--region", "chr20:90,001-95,000", file)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "END=") {
			got = append(got, line)
		}
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}
