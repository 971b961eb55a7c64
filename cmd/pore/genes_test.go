package main

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// failure is the error of a command.
func failure(t *testing.T, args ...string) error {
	t.Helper()
	_, err := poreWith(t, nil, args...)
	return err
}

func TestGenes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lambda := filepath.Join("..", "..", "testdata", "lambda", "reference.fa")
	output := filepath.Join(dir, "genes.gff3")
	require.NoError(t, failure(t, "genes", "--ref", lambda, "-o", output))
	var printed bytes.Buffer
	require.NoError(t, findGenes(t.Context(), genesConfig{reference: lambda, output: "-"}, &printed, slog.New(slog.DiscardHandler)))
	written, err := os.ReadFile(output)
	require.NoError(t, err)
	require.Equal(t, printed.String(), string(written), "the same bytes, wherever to")

	short := filepath.Join(dir, "short.fa")
	require.NoError(t, os.WriteFile(short, []byte(">a\nACGTACGTAC\n"), 0o600))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "--ref is required"},
		{[]string{"--ref", short}, "short.fa: no sequence to find genes in"},
		{[]string{"--ref", lambda, "--circular", "x"}, `circular contig "x" is not in the genome`},
		{[]string{"--ref", lambda, "--genetic-code", "7"}, "not the number of one of NCBI's genetic codes"},
		{[]string{"--ref", lambda, "--genetic-code", "J02459.1=11"}, "want one number"},
		{[]string{"--ref", lambda, "--prior", lambda}, "decoding a prior of gene models"},
		{[]string{"--ref", lambda, "--prior", filepath.Join(dir, "none")}, "no such file"},
	} {
		err := failure(t, append([]string{"genes"}, tt.args...)...)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestGenesAreReadByBcftools has bcftools csq judge the four variants of the demo by genes that were found.
func TestGenesAreReadByBcftools(t *testing.T) {
	t.Parallel()
	bcftools, err := exec.LookPath("bcftools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bcftools is needed")
		}
		t.Skip("needs bcftools")
	}
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	dir := t.TempDir()
	gff := filepath.Join(dir, "genes.gff3")
	fasta, err := os.ReadFile(filepath.Join(lambda, "reference.fa"))
	require.NoError(t, err)
	reference := filepath.Join(dir, "reference.fa") // bcftools writes its index beside
	require.NoError(t, os.WriteFile(reference, fasta, 0o600))
	require.NoError(t, failure(t, "genes", "--ref", reference, "-o", gff))
	out, err := exec.CommandContext(t.Context(), bcftools, "csq", "-f", reference, "-g", gff, filepath.Join(lambda, "truth.vcf")).Output()
	require.NoError(t, err)
	var consequences []string
	for line := range strings.Lines(string(out)) {
		if _, bcsq, ok := strings.Cut(line, "BCSQ="); ok && !strings.HasPrefix(line, "#") {
			field := strings.Split(bcsq, "|")
			consequences = append(consequences, field[0]+" "+field[5])
		}
	}
	require.Equal(t, []string{"missense 118E>118K", "missense 67A>67T", "missense 15A>15T", "stop_gained 56W>56*"}, consequences)
}

func TestAnnotateWithoutAnnotation(t *testing.T) {
	t.Parallel()
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	output := filepath.Join(t.TempDir(), "out.vcf")
	require.NoError(t, failure(t, "annotate", "--ref", filepath.Join(lambda, "reference.fa"), "--gff", "auto", filepath.Join(lambda, "truth.vcf"), "-o", output))
	text, err := os.ReadFile(output)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n##geneModels=predicted by pore genes, no annotation: ")
	require.Contains(t, string(text), "|stop_gained|HIGH|")
}
