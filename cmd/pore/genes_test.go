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

	known := filepath.Join("..", "..", "testdata", "lambda", "genes.gff3") + "," + lambda
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
		{[]string{"--ref", lambda, "--proteins", lambda}, "reference.fa: its letters are bases"},
		{[]string{"--ref", lambda, "--proteins", filepath.Join(dir, "none.faa")}, "no such file"},
		{[]string{"--ref", lambda, "--functions", lambda}, "give them with --proteins"},
		{[]string{"--ref", lambda, "--proteins", known, "--functions", lambda}, "reading functions"},
		{[]string{"--ref", lambda, "--proteins", known, "--protein-identity", "101"}, "--protein-identity 101 is no percentage"},
		{[]string{"--ref", lambda, "--proteins", known, "--protein-identity", "0"}, "--protein-identity 0 is no percentage: want more than 0"},
		{[]string{"--ref", lambda, "--proteins", known, "--protein-coverage", "NaN"}, "--protein-coverage NaN is no percentage"},
		{[]string{"--ref", lambda, "-o", output, "--faa", output}, "give each a file of its own"},
		{[]string{"--ref", short, "-o", short}, "would replace a file that is read, by --ref"},
		{[]string{"--ref", lambda, "--proteins", short, "--faa", short}, "would replace a file that is read, by --proteins"},
		{[]string{"--ref", lambda, "--faa", "-"}, "--faa and -o are both -"},
		{[]string{"--ref", lambda, "--prior", lambda}, "decoding a prior of gene models"},
		{[]string{"--ref", lambda, "--prior", filepath.Join(dir, "none")}, "no such file"},
	} {
		err := failure(t, append([]string{"genes"}, tt.args...)...)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestGenesAreReadByBcftools has bcftools csq annotate the four variants of the demo with genes that were
// found.
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

// TestGenesAreNamed gives genes the names of known proteins, with terms of a GAF by the known proteins' symbols and identifiers.
func TestGenesAreNamed(t *testing.T) {
	t.Parallel()
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	reference, dir := filepath.Join(lambda, "reference.fa"), t.TempDir()
	known := filepath.Join(lambda, "genes.gff3") + "," + reference
	gaf := filepath.Join(dir, "terms.gaf")
	row := func(id, symbol, term string) string {
		return strings.Join([]string{"X", id, symbol, "enables", term, "PMID:1", "IDA", "", "F", "", "", "protein", "taxon:1", "20260101", "X", "", ""}, "\t") + "\n"
	}
	require.NoError(t, os.WriteFile(gaf, []byte("!gaf-version: 2.2\n"+row("other", "nu1", "GO:0003677")+row("lambdap02", "none", "GO:0005524")), 0o600))
	gff, faa := filepath.Join(dir, "named.gff3"), filepath.Join(dir, "named.faa")
	require.NoError(t, failure(t, "genes", "--ref", reference, "--proteins", known, "--functions", gaf, "-o", gff, "--faa", faa))
	text, err := os.ReadFile(gff)
	require.NoError(t, err)
	for _, part := range []string{"Name=nu1;", "Name=cro;", "Ontology_term=GO:0003677\n", "Ontology_term=GO:0005524\n"} {
		require.Equal(t, 1, strings.Count(string(text), part), part)
	}
	proteins, err := os.ReadFile(faa)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(proteins), ">PORE_00001 [J02459.1:191-736(+)]\nMEVNKKQLADIFGASIRTIQNWQEQGMPVLRGGGKGNEVLYDSAAVIKWYAERDAEIENE\n"))

	variants := filepath.Join(dir, "in.vcf")
	require.NoError(t, os.WriteFile(variants, []byte("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"+
		"J02459.1\t200\t.\tA\tC\t.\t.\t.\nJ02459.1\t1000\t.\tA\tT\t.\t.\t.\n"), 0o600))
	annotated := filepath.Join(dir, "out.vcf")
	require.NoError(t, failure(t, "annotate", "--ref", reference, "--gff", "auto", "--proteins", known, "--functions", gaf, variants, "-o", annotated))
	text, err = os.ReadFile(annotated)
	require.NoError(t, err)
	for _, part := range []string{"|nu1|PORE_00001|", "|A|PORE_00002|", "|term|GO|GO:0003677||enables|IEA|", "|term|GO|GO:0005524||enables|IEA|", "named after 73 known proteins"} {
		require.Contains(t, string(text), part)
	}
	require.ErrorContains(t, failure(t, "annotate", "--ref", reference, "--gff", filepath.Join(lambda, "genes.gff3"), "--proteins", known, variants),
		"--proteins names genes that are found: it goes with --gff auto")
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

	short := filepath.Join(t.TempDir(), "short.fa")
	require.NoError(t, os.WriteFile(short, []byte(">a\nACGTACGTAC\n"), 0o600))
	for _, args := range [][]string{
		{"annotate", "--ref", short, "--gff", "auto", filepath.Join(lambda, "truth.vcf")},
		{"run", "--ref", short, "--gff", "auto", "--out", filepath.Join(t.TempDir(), "out"), filepath.Join(lambda, "reads.pod5")},
	} {
		require.EqualError(t, failure(t, args...), "--gff auto: "+short+": no sequence to find genes in: no contig has 60 bases without a gap, and a gene has no less")
	}
}
