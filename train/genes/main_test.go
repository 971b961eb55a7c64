package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// record is a GenBank file with genes one behind the other, on one strand; the last one is marked as broken.
func record(genes int) string {
	r := rand.New(rand.NewPCG(1, 1))
	var seq strings.Builder
	var features strings.Builder
	for i := range genes {
		seq.WriteString("TTAGGAGGTCATTT")
		start := seq.Len() + 1
		seq.WriteString("ATG")
		for range 80 + r.IntN(50) {
			seq.WriteString([]string{"GCG", "AAA", "CTG", "GAA", "GTT", "ACC"}[r.IntN(6)])
		}
		seq.WriteString("TAA")
		mark := ""
		if i == genes-1 {
			mark = "                     /pseudo\n"
		}
		fmt.Fprintf(&features, "     CDS             %d..%d\n                     /transl_table=11\n%s", start, seq.Len(), mark)
	}
	return fmt.Sprintf("LOCUS       X1 %d bp DNA circular BCT\nVERSION     X1.1\nFEATURES             Location/Qualifiers\n%sORIGIN\n        1 %s\n//\n", seq.Len(), features.String(), seq.String())
}

func TestCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	genbank := filepath.Join(dir, "x.gbk")
	require.NoError(t, os.WriteFile(genbank, []byte(record(30)), 0o600))
	out := filepath.Join(dir, "x")
	require.NoError(t, run(t.Context(), []string{"convert", genbank, out}, nil))
	fasta, err := os.ReadFile(out + ".fa")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(fasta), ">X1.1\nTTAGGAGGTCATTTATG"))
	var text bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"compare", out + ".gff3", out + ".gff3"}, &text))
	require.Equal(t, "29\t29\t29\t1.0000\t1.0000\t1.0000\t0\t[0 0 0 0]\t[0 0 0 0]\n", text.String())
	var again bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"record", out + ".gff3", out + ".fa", "X1.1", "11"}, &again))
	want, err := read(genbank)
	require.NoError(t, err)
	copied := filepath.Join(dir, "copy.gbk")
	require.NoError(t, os.WriteFile(copied, again.Bytes(), 0o600))
	got, err := read(copied)
	require.NoError(t, err)
	require.Equal(t, want, got, "a record is what it was converted from")
	var prior bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"prior", "--without", "Y", genbank}, &prior))
	require.True(t, json.Valid(prior.Bytes()))
	for _, args := range [][]string{nil, {"x"}, {"convert"}, {"compare"}, {"record"}, {"record", out + ".gff3", out + ".fa", "X1.1", "eleven"}, {"record", out, out + ".fa", "X1.1", "11"}, {"record", out + ".gff3", out, "X1.1", "11"}, {"prior", "--without", "X1", genbank}, {"convert", out + ".fa", out}, {"prior", filepath.Join(dir, "none")}} {
		require.Error(t, run(t.Context(), args, &prior), args)
	}
}

// filesIn writes texts to files of a folder of the test's own, and returns their paths.
func filesIn(t *testing.T) func(name, text string) string {
	dir := t.TempDir()
	return func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	write := filesIn(t)
	file := func(name string, genes ...string) string {
		var rows strings.Builder
		for i, g := range genes {
			fmt.Fprintf(&rows, "c\tx\tgene\t%d\t%d\t.\t+\t.\tID=g%d;locus_tag=L%d;%s\nc\tx\tCDS\t%d\t%d\t.\t+\t0\tID=c%d;Parent=g%d;similar_to=%s\n",
				100*i+1, 100*i+60, i, i, g, 100*i+1, 100*i+60, i, i, strings.Repeat("p", i%2))
		}
		return write(name, rows.String())
	}
	truth := file("truth", "gene=a", "gene=b;gene_synonym=x,y", "gene=c", "Name=L3", "gene=e")
	found := file("found", "Name=a", "Name=Y", "Name=z", "Name=d", "Name=L4", "Name=none")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"names", truth, found}, &out))
	require.Equal(t, "5\t2\t3\t1\t1\n", out.String())
	require.Error(t, run(t.Context(), []string{"names", truth}, &out))
	require.Error(t, run(t.Context(), []string{"consequences", truth, truth}, &out))
	require.Error(t, run(t.Context(), []string{"names", truth, "none"}, &out))
	require.Error(t, run(t.Context(), []string{"names", "none", found}, &out))
}

func TestCount(t *testing.T) {
	t.Parallel()
	gene := func(low, high int, reverse, pseudo bool) *coding {
		c := &coding{low: low, high: high, start: low, pseudo: pseudo}
		c.place = place{"a", reverse, high}
		if reverse {
			c.start, c.stop = high, low
		}
		return c
	}
	truth := []*coding{gene(1, 300, false, false), gene(400, 480, true, false), gene(600, 900, false, true), gene(1000, 1200, false, false)}
	found := []*coding{gene(31, 300, false, false), gene(400, 480, true, false), gene(700, 800, true, false), gene(2000, 2100, false, false), gene(1000, 1200, false, true)}
	require.Equal(t, counts{truth: 3, found: 4, hits: 2, starts: 1, broken: 1, missed: [4]int{0, 0, 1, 0}, wrong: [4]int{0, 1, 0, 0}}, count(truth, found))
}

func TestCompareRNA(t *testing.T) {
	t.Parallel()
	file := filesIn(t)
	truth := file("truth", "c\tx\trRNA\t1\t2000\t.\t+\t.\tID=a\nc\tx\ttRNA\t3000\t3075\t.\t-\t.\tproduct=tRNA-Ala\nc\tx\ttRNA\t4000\t4075\t.\t-\t.\tproduct=tRNA-Met\n")
	found := file("found", "c\tx\trRNA\t20\t2000\t.\t+\t.\tproduct=16S ribosomal RNA\nc\tx\ttRNA\t3002\t3075\t.\t-\t.\tproduct=tRNA-Ala\n"+
		"c\tx\ttRNA\t4000\t4075\t.\t+\t.\tproduct=tRNA-Met\nc\tx\ttRNA\t4000\t4076\t.\t-\t.\tproduct=tRNA-Ile\n")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"rna", truth, found}, &out))
	require.Equal(t, "rRNA\t1\t1\t1\t1\t0\ntRNA\t2\t3\t2\t1\t2\n", out.String())
	require.Error(t, run(t.Context(), []string{"rna", truth}, &out))
	require.Error(t, run(t.Context(), []string{"rna", truth, "none"}, &out))
	require.Error(t, run(t.Context(), []string{"rna", file("bad", "c\tx\ttRNA\tone\t2\t.\t+\t.\tx\n"), found}, &out))
}

func TestCalibration(t *testing.T) {
	t.Parallel()
	file := filesIn(t)
	truth := file("truth", "c\tx\tCDS\t1\t300\t.\t+\t0\tID=a\nc\tx\tCDS\t400\t600\t.\t-\t0\tID=b\nc\tx\tCDS\t700\t900\t.\t+\t0\tID=d;pseudo=true\n")
	found := file("found", "c\tx\tCDS\t1\t300\t.\t+\t0\tposterior=1.0000;start_posterior=.8\n"+ // right
		"c\tx\tCDS\t400\t570\t.\t-\t0\tposterior=.75;start_posterior=.85\n"+ // right, but for its start
		"c\tx\tCDS\t700\t900\t.\t+\t0\tposterior=.5;start_posterior=.9\n"+ // none
		"c\tx\tCDS\t2700\t2900\t.\t+\t0\tID=n\n") // without probabilities
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"calibration", truth, found}, &out))
	require.Equal(t, "genes\t3\t0.7500\t0.6667\t0.2500\nstarts\t2\t0.8250\t0.5000\t0.3250\n", out.String())
	require.Error(t, run(t.Context(), []string{"calibration", truth}, &out))
	require.Error(t, run(t.Context(), []string{"calibration", truth, "none"}, &out))
	require.Error(t, run(t.Context(), []string{"calibration", "none", found}, &out))
}

// TestConsequencesAreCompared: with the same genes all are the same, and with none those of genes differ.
func TestConsequencesAreCompared(t *testing.T) {
	t.Parallel()
	lambda := filepath.Join("..", "..", "testdata", "lambda")
	reference, truth := filepath.Join(lambda, "reference.fa"), filepath.Join(lambda, "genes.gff3")
	share := func(found string) (all, coding float64) {
		var out bytes.Buffer
		var n, outside int
		require.NoError(t, run(t.Context(), []string{"consequences", reference, truth, found}, &out))
		_, err := fmt.Sscan(out.String(), &n, &all, &outside, &coding)
		require.NoError(t, err)
		require.Equal(t, variants, n)
		require.LessOrEqual(t, outside, n)
		return all, coding
	}
	all, coding := share(truth)
	require.Equal(t, []float64{1, 1}, []float64{all, coding})
	one := filepath.Join(t.TempDir(), "one.gff3") // the leftmost gene alone
	require.NoError(t, os.WriteFile(one, []byte("##gff-version 3\nJ02459.1\tx\tgene\t191\t736\t.\t+\t.\tID=gene:nu1;biotype=protein_coding\nJ02459.1\tx\tmRNA\t191\t736\t.\t+\t.\tID=transcript:nu1;Parent=gene:nu1;biotype=protein_coding\nJ02459.1\tx\tCDS\t191\t736\t.\t+\t0\tID=CDS:nu1;Parent=transcript:nu1\n"), 0o644))
	all, _ = share(one)
	require.InDelta(t, .08, all, .08, "of lambda nine tenths are in genes")
}
