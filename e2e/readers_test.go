package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/vcf"
)

// count is what a reader found in a VCF: records, and called and phased genotypes.
type count struct{ records, called, phased int }

// counted reads a VCF with our own reader.
func counted(t *testing.T, path string) (n count) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := vcf.NewReader(f)
	require.NoError(t, err)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		require.NoError(t, err)
		n.records++
		for _, values := range rec.Samples {
			g, err := vcf.ParseGenotype(values[0], len(rec.Alt))
			require.NoError(t, err)
			if !g.Missing() {
				n.called++
			}
			if len(g) > 1 && g.Ordered() {
				n.phased++
			}
		}
	}
}

// tool runs a reader over files and returns what it printed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s %s: %s", name, strings.Join(args, " "), &stderr)
	return stdout.String()
}

// missing ends a test without what it needs: a failure in continuous integration, which has it.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// needs ends a test without the program of that name.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, program+" isn't installed")
	}
}

// TestOtherProgramsReadOurVCF has every kind of VCF that is written read by htsjdk (IGV, GATK, Picard), htslib (bcftools) and
// cyvcf2, to the last value.
func TestOtherProgramsReadOurVCF(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ok := func(r result) string {
		require.Equal(t, 0, r.code, r.stderr)
		return r.stdout
	}
	ref, genes := lambda("reference.fa"), lambda("genes.gff3")
	var files, newer []string // those of versions that htsjdk reads, and the others
	for _, ploidy := range []string{"1", "2"} {
		truth, reads, bam := at("truth."+ploidy+".vcf"), at("reads."+ploidy+".fastq"), at(ploidy+".bam")
		files = append(files, truth)
		require.NoError(t, os.WriteFile(reads, []byte(ok(pore(t, "simulate", "reads", "--ref", ref, "--profile", "r10.4.1-2pct", "--depth", "25",
			"--ploidy", ploidy, "--variants", "snp=1/400,indel=1/2000,max=12,het=0.6", "--truth", truth))), 0o600))
		ok(pore(t, "align", "--ref", ref, "-o", bam, reads))
		for _, kind := range [][]string{
			{}, {"--gvcf"}, {"--gvcf", "--gvcf-allele", "NON_REF"}, {"--sample", "Søren"}, {"--vcf-version", "4.3"}, {"--vcf-version", "4.4"}, {"--vcf-version", "4.5", "--gvcf"},
		} {
			out := at(fmt.Sprintf("calls.%s.%d.vcf.gz", ploidy, len(files)+len(newer)))
			ok(pore(t, append([]string{"call", "--ref", ref, "--ploidy", ploidy, "-o", out, bam}, kind...)...))
			if text := strings.Join(kind, " "); strings.Contains(text, "4.4") || strings.Contains(text, "4.5") {
				newer = append(newer, out)
			} else {
				files = append(files, out)
			}
		}
		out := at("mixture." + ploidy + ".vcf")
		ok(pore(t, "call", "--ref", ref, "--ploidy", "mixture", "-o", out, bam))
		annotated := at("annotated." + ploidy + ".vcf")
		ok(pore(t, "annotate", "--ref", ref, "--gff", genes, "--fields", "csq,ann,bcsq", "--phase", "a", "-o", annotated, out))
		files = append(files, out, annotated)
	}
	want := map[string]count{}
	for _, path := range append(files, newer...) {
		want[path] = counted(t, path)
		require.Positive(t, want[path].records, path)
		require.Positive(t, want[path].called, path)
	}
	require.Positive(t, want[at("truth.2.vcf")].phased)

	t.Run("bcftools", func(t *testing.T) {
		needs(t, "bcftools")
		for path, n := range want {
			require.Equal(t, n.records, strings.Count(tool(t, "bcftools", "view", "-H", path), "\n"), path)
		}
	})
	t.Run("cyvcf2", func(t *testing.T) {
		python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "cyvcf2", "cyvcf2")
		const script = "import sys, cyvcf2\nfor p in sys.argv[1:]:\n    v = list(cyvcf2.VCF(p))\n    print(len(v), sum(g[0] >= 0 for x in v for g in x.genotypes))"
		for path, n := range want {
			require.Equal(t, fmt.Sprintf("%d %d\n", n.records, n.called), tool(t, python, "-c", script, path), path)
		}
	})
	t.Run("htsjdk", func(t *testing.T) {
		jars := os.Getenv("PORESTREAM_HTSJDK")
		if jars == "" {
			jars = filepath.Join(root(), ".cache", "htsjdk")
		}
		if found, _ := filepath.Glob(filepath.Join(jars, "htsjdk-*.jar")); len(found) == 0 {
			missing(t, "no htsjdk: e2e/testdata/htsjdk/fetch.sh .cache/htsjdk, or name its folder in PORESTREAM_HTSJDK")
		}
		needs(t, "javac")
		lines := strings.Split(strings.TrimSpace(tool(t, "java", append([]string{"-cp", filepath.Join(jars, "*"), filepath.Join("testdata", "htsjdk", "ReadVCF.java")}, files...)...)), "\n")
		require.Len(t, lines, len(files))
		for i, path := range files {
			n := want[path]
			require.Equal(t, fmt.Sprintf("%d\t%d\t%d", n.records, n.called, n.phased), lines[i], path)
		}
	})
}
