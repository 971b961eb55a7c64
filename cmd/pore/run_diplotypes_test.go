package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/genome"
)

// TestRunNamesAlleles has reads of a diploid genome whose truth says which alleles it has. The run's table is that of pore diplotype on its gVCF, to the byte.
func TestRunNamesAlleles(t *testing.T) {
	ref := randomFASTA(t, 30_000)
	dir := t.TempDir()
	truth, reads := filepath.Join(dir, "truth.vcf"), filepath.Join(dir, "reads.fastq")
	_, err := poreWith(t, nil, "simulate", "reads", "--ref", ref, "--ploidy", "2", "--variants", "snp=12,indel=0", "--profile", "r10.4.1-2pct", "--depth", "40", "--length", "4000", "--seed", "5", "--truth", truth, "-o", reads)
	require.NoError(t, err)
	definitions, want := geneOf(t, ref, truth)
	file := filepath.Join(dir, "gene.json")
	require.NoError(t, os.WriteFile(file, definitions, 0o600))

	out := filepath.Join(dir, "out")
	_, err = poreWith(t, nil, "run", "--ref", ref, "--ploidy", "2", "--run", "r", "--sample", "s", "--definitions", file, "--out", out, reads)
	require.NoError(t, err)
	table, err := os.ReadFile(filepath.Join(out, "diplotypes.tsv"))
	require.NoError(t, err)
	offline, err := poreWith(t, nil, "diplotype", "--definitions", file, filepath.Join(out, "variants.g.vcf"))
	require.NoError(t, err)
	require.Equal(t, offline, string(table))
	row := strings.Split(strings.Split(string(table), "\n")[1], "\t")
	require.Equal(t, want, row[2], string(table))
	require.Equal(t, []string{".", ".", ".", "."}, row[3:7], string(table))
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "Pharmacogenes: named alleles")
	require.Contains(t, string(page), "<b>"+want+"</b>")
	for _, c := range []struct{ name, old, new, err string }{
		{"another reference", `"position": `, `"position": 99`, "of the definitions of GENE is behind the end of the reference's contig, which has 30000 bases: take made-up as the reference"},
		{"another contig", `"chromosome": "`, `"chromosome": "other`, "gene.json: the reference has no other"},
	} {
		text := strings.Replace(string(definitions), c.old, c.new, 1)
		require.NotEqual(t, string(definitions), text)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err = poreWith(t, nil, "run", "--ref", ref, "--ploidy", "2", "--run", "r", "--sample", "s", "--definitions", file, "--out", out, reads)
		require.ErrorContains(t, err, c.err)
	}
}

// geneOf makes a gene of the first variants of a truth, and says which diplotype that is: one allele has what the first copy has, another what the second has.
func geneOf(t *testing.T, ref, truth string) (definitions []byte, diplotype string) {
	t.Helper()
	text, err := os.ReadFile(truth)
	require.NoError(t, err)
	g, err := genome.Load(ref)
	require.NoError(t, err)
	contig := g.Contigs[0].Name
	var variants, none, first, second []string
	add := func(pos, ref, alt, one, two string) {
		variants = append(variants, fmt.Sprintf(`{"position": %s, "rsid": "rs%s", "ref": "%s", "alts": ["%s"], "cpicToVcfAlleleMap": {"%s": "%s", "%s": "%s"}}`, pos, pos, ref, alt, ref, ref, alt, alt))
		none, first, second = append(none, ref), append(first, one), append(second, two)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] != contig || len(variants) == 6 {
			continue
		}
		gt := strings.Split(strings.SplitN(f[9], ":", 2)[0], "|")
		require.Len(t, gt, 2, line)
		bases := map[string]string{"0": f[3], "1": f[4]}
		add(f[1], f[3], f[4], bases[gt[0]], bases[gt[1]])
	}
	require.Len(t, variants, 6)
	allele := func(name string, bases []string, reference bool) string {
		b, err := json.Marshal(bases)
		require.NoError(t, err)
		return fmt.Sprintf(`{"name": %q, "reference": %v, "cpicAlleles": %s}`, name, reference, b)
	}
	return fmt.Appendf(nil, `{"formatVersion": "2", "version": "1", "gene": "GENE", "chromosome": %q, "genomeBuild": "made-up", "variants": [%s], "namedAlleles": [%s, %s, %s]}`,
		contig, strings.Join(variants, ", "), allele("*1", none, true), allele("*2", first, false), allele("*3", second, false)), "*2/*3"
}
