package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reported is what a case of testdata/reported does and what is right: faults that people reported of this program's
// peers, with small inputs of their own.
type reported struct {
	name string
	// run returns what the programs say, given a function that runs pore on files of the case's folder.
	run func(t *testing.T, at func(string) string) string
	// want is that, line by line.
	want string
}

// TestReportedFaults runs each case to its right value. A folder without a case, or a case without a folder, fails.
func TestReportedFaults(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "reported")
	ref := filepath.Join(dir, "ref.fa")
	// info are POS and the values that begin with the given keys, of each record.
	info := func(text string, keys ...string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			b.WriteString(f[1])
			for _, key := range keys {
				value := "."
				for _, field := range strings.Split(f[7], ";") {
					if v, ok := strings.CutPrefix(field, key+"="); ok {
						value = v
					}
				}
				b.WriteString(" " + value)
			}
			if len(f) > 9 {
				b.WriteString(" " + f[9])
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	annotated := func(t *testing.T, ref, genes, in, csq string, fields string) string {
		t.Helper()
		r := pore(t, "annotate", "--ref", ref, "--gff", genes, "--distance", "0", "--fields", fields, "--csq-fields", csq, in)
		require.Equal(t, 0, r.code, r.stderr)
		return info(r.stdout, strings.Split(strings.ToUpper(fields), ",")...)
	}
	refused := func(t *testing.T, args ...string) string {
		t.Helper()
		r := pore(t, args...)
		require.Equal(t, 1, r.code, "%v: %s%s", args, r.stdout, r.stderr)
		require.NotContains(t, r.stdout, "\nchr1\t", "nothing of it is written")
		_, why, _ := strings.Cut(strings.TrimSpace(r.stderr), ".gz: ")
		return why + "\n"
	}
	called := func(t *testing.T, at func(string) string, args ...string) string {
		t.Helper()
		r := pore(t, append(append([]string{"call", "--ref", at("ref.fa")}, args...), at("reads.sam"))...)
		require.Equal(t, 0, r.code, r.stderr)
		var b strings.Builder
		for line := range strings.Lines(r.stdout) {
			if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) > 9 && line[0] != '#' {
				genotype, _, _ := strings.Cut(f[9], ":")
				b.WriteString(strings.Join([]string{f[1], f[3], f[4], f[6], genotype}, " ") + "\n")
			}
		}
		return b.String()
	}
	cases := []reported{
		{"01-adjacent-substitutions", func(t *testing.T, at func(string) string) string {
			return called(t, at) + called(t, at, "--variant-model", "none") + called(t, at, "--atomize")
		}, strings.Repeat("400 GGG AAC PASS 1\n", 2) + "400 G A PASS 1\n401 G A PASS 1\n402 G C PASS 1\n"},
		{"18-insertion-beside-deletion", func(t *testing.T, at func(string) string) string {
			return called(t, at) + called(t, at, "--variant-model", "none")
		}, strings.Repeat("351 C G PASS 1\n", 2)},
		{"04-hgvs-alleles-shifted-over-each-other", func(t *testing.T, at func(string) string) string {
			r := pore(t, "hgvs", "--ref", at("ref.fa"), "--gff", at("genes.gff3"),
				"c:g.[10_12del;14_17inv]", "c:g.[10_12del;16_17insT]", "c:g.[10_12dup;13_15dup]", "c:g.[12C>T;16_18del]", "c:g.[10_12del;12_13del]")
			require.Equal(t, 1, r.code, "overlapping parts are an error")
			return r.stdout
		}, "c:g.[10_12del;14_17inv]\tc:g.11_17delinsTCGT\tc:g.11_17delinsTCGT\t.\tc:9:AGAC:A;c:14:ACGA:TCGT\t.\n" +
			"c:g.[10_12del;16_17insT]\tc:g.14_16delinsT\tc:g.14_16delinsT\t.\tc:9:AGAC:A;c:16:G:GT\t.\n" +
			"c:g.[10_12dup;13_15dup]\tc:g.17_22dup\tc:g.17_22dup\t.\tc:9:A:AGACGAC\t.\n" +
			"c:g.[12C>T;16_18del]\tc:g.[12C>T;20_22del]\tc:g.[12C>T;20_22del]\t.\tc:12:CGAC:T\t.\n" +
			"c:g.[10_12del;12_13del]\t.\t.\t.\t.\tchanges in the same brackets overlap: one molecule cannot have both\n"},
		{"06-gtf-one-transcript-id-for-several-genes", func(t *testing.T, at func(string) string) string {
			return annotated(t, at("ref.fa"), at("genes.gtf"), at("in.vcf"), "Consequence,SYMBOL,HGVSp", "csq,bcsq")
		}, "341 missense_variant|G2|YP_2.1:p.Cys11Ser missense|G2|YP_2.1|protein_coding|+|11C>11S|341T>A\n" +
			"516 missense_variant|G3|YP_3.1:p.Ala11Gly missense|G3|YP_3.1|protein_coding|+|11A>11G|516C>G\n"},
		{"07-bcsq-gene-name-breaks-info", func(t *testing.T, at func(string) string) string {
			return annotated(t, ref, at("genes.gff3"), at("in.vcf"), "SYMBOL", "bcsq") + annotated(t, ref, at("genes.gtf"), at("in.vcf"), "SYMBOL", "bcsq")
		}, "1054 missense|ORF1%3BORF2%2C%20partial|T1|protein_coding|+|2A>2S|1054G>T 1|1:3\n" +
			"1054 missense|ORF1%3BORF2|T1|protein_coding|+|2A>2S|1054G>T 1|1:3\n"},
		{"08-gtf-intron-row-becomes-biotype", func(t *testing.T, at func(string) string) string {
			return annotated(t, ref, at("genes.gtf"), at("in.vcf"), "Consequence,Feature,BIOTYPE", "csq,bcsq")
		}, "1054 missense_variant|g1.t1|protein_coding missense|g1|g1.t1|protein_coding|+|2A>2S|1054G>T 1|1:3\n"},
		{"09-bgzip-cut-between-blocks", func(t *testing.T, at func(string) string) string {
			whole := annotated(t, ref, at("whole.gff3.gz"), at("whole.vcf.gz"), "Consequence,SYMBOL", "csq")
			store := filepath.Join(t.TempDir(), "s.pss")
			cut := refused(t, "annotate", "--ref", ref, "--gff", at("cut.gff3.gz"), at("whole.vcf.gz")) +
				refused(t, "annotate", "--ref", ref, "--gff", at("whole.gff3.gz"), at("cut.vcf.gz")) +
				refused(t, "sources", "build", "--ref", ref, "--name", "s", "--version", "1", at("cut.vcf.gz"), "-o", store) +
				refused(t, "eval", "variants", "--ref", ref, "--truth", at("whole.vcf.gz"), at("cut.vcf.gz"))
			_, err := os.Stat(store)
			require.ErrorIs(t, err, os.ErrNotExist)
			return whole + cut
		}, "1054 missense_variant|PLUS\n3700 missense_variant|MINUS\n" + strings.Repeat("the file has no bgzip end marker: it is cut short; get it again\n", 4)},
		{"10-gtf-unquoted-values", func(t *testing.T, at func(string) string) string {
			return annotated(t, ref, at("genes.gtf"), at("in.vcf"), "Consequence,Gene,Feature,HGVSc,HGVSp", "csq")
		}, "1054 missense_variant|G1|T1|T1:c.4G>T|T1:p.Ala2Ser\n1151 splice_donor_variant|G1|T1|T1:c.100+1G>T|\n" +
			"1353 missense_variant&splice_region_variant|G1|T1|T1:c.103G>T|T1:p.Val35Leu\n1400 synonymous_variant|G1|T1|T1:c.150T>A|T1:p.Ala50%3D\n"},
		{"11-vcf44-leading-phase", func(t *testing.T, at func(string) string) string {
			text := annotated(t, ref, at("genes.gff3"), at("in.vcf"), "Consequence", "bcsq")
			var masks []string
			for line := range strings.Lines(text) {
				f := strings.Fields(line)
				masks = append(masks, f[len(f)-1])
			}
			return strings.Join(masks, "\n") + "\n"
		}, "0|1:2\n|0|1:2\n/1:1\n|1:1\n/1/1:3\n|1|1:3\n"},
		{"12-bcsq-intron-for-wrong-phase", func(t *testing.T, at func(string) string) string {
			return annotated(t, ref, at("phase0.gff3"), at("in.vcf"), "Consequence,HGVSp", "csq,bcsq") + annotated(t, ref, at("phase1.gff3"), at("in.vcf"), "Consequence,HGVSp", "csq,bcsq")
		}, strings.Repeat("1054 missense_variant|P1:p.Ala2Ser missense|PLUS|T1|protein_coding|+|2A>2S|1054G>T 1|1:3\n", 2)},
	}
	has := map[string]bool{}
	for _, c := range cases {
		has[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			require.DirExists(t, filepath.Join(dir, c.name))
			require.Equal(t, c.want, c.run(t, func(name string) string { return filepath.Join(dir, c.name, name) }))
		})
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		require.True(t, !e.IsDir() || has[e.Name()], "%s has no case", e.Name())
	}
}
