package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/pipe"
)

// bcsqFiles writes a gene of 33 bases on 1:11-43, MKLVKKAGV* and a deletion that reaches beyond the contig's end.
func bcsqFiles(t *testing.T, vcf string) (ref, gff, in string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ref = write("r.fa", ">1\nCCCCCCCCCCATGAAACTTGTTAAGAAAGCTGGTGTTTAACCCCCCCCCC\n")
	gff = write("g.gff3", "##gff-version 3\n"+
		"1\t.\tgene\t11\t40\t.\t+\t.\tID=gene:G;Name=g;biotype=protein_coding\n"+
		"1\t.\tmRNA\t11\t40\t.\t+\t.\tID=transcript:T;Parent=gene:G;biotype=protein_coding\n"+
		"1\t.\texon\t11\t40\t.\t+\t.\tParent=transcript:T\n"+
		"1\t.\tCDS\t11\t40\t.\t+\t0\tParent=transcript:T\n")
	return ref, gff, write("in.vcf", "##fileformat=VCFv4.2\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"GT\">\n"+
		"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"+strings.ReplaceAll(vcf, " ", "\t"))
}

func TestAnnotateBCSQ(t *testing.T) {
	const variants = "1 14 . A G 50 PASS . GT 0|1\n1 15 . A G 9 PASS . GT 0|1\n"
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"haplotype", nil, []string{
			"BCSQ=missense|g|T|protein_coding|+|2K>2G|14A>G+15A>G\tGT:BCSQ\t0|1:2", "BCSQ=@14\tGT:BCSQ\t0|1:2",
		}},
		{"local", []string{"--local"}, []string{
			"BCSQ=missense|g|T|protein_coding|+|2K>2E|14A>G\tGT:BCSQ\t0|1:2", "BCSQ=missense|g|T|protein_coding|+|2K>2R|15A>G\tGT:BCSQ\t0|1:2",
		}},
		{"include", []string{"-i", "QUAL>10"}, []string{"BCSQ=missense|g|T|protein_coding|+|2K>2E|14A>G\tGT:BCSQ\t0|1:2", ".\tGT\t0|1"}},
		{"exclude", []string{"-e", "QUAL>10"}, []string{".\tGT\t0|1", "BCSQ=missense|g|T|protein_coding|+|2K>2R|15A>G\tGT:BCSQ\t0|1:2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ref, gff, in := bcsqFiles(t, variants)
			out, err := execute(t, append([]string{"--fields", "bcsq", "--ref", ref, "--gff", gff, in}, c.args...)...)
			require.NoError(t, err)
			var got []string
			for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
				if !strings.HasPrefix(line, "#") {
					got = append(got, strings.SplitN(line, "\t", 8)[7])
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestAnnotateBCSQRefuses(t *testing.T) {
	for _, c := range []struct {
		vcf  string
		args []string
		want string
	}{
		{"1 14 . A G . . . GT 0/1\n", nil, "line 4: 1:14: sample 1: heterozygous genotype is not phased: see --phase"},
		{"1 14 . C G . . . GT 0|1\n", nil, "line 4: 1:14: REF has C at position 14, the reference has A"},
		{"1 14 . A G . . . GT 0|2\n", nil, `line 4: 1:14: sample 1: GT "0|2" is no genotype of the record`},
		{"1 15 . A G . . . GT 0|1\n1 14 . A G . . . GT 0|1\n", nil, "line 5: 1:14: comes after position 15"},
		{"", []string{"-i", "DP>3"}, "at character 1: DP is no column and the header does not declare it"},
		{"", []string{"-i", "POS>3", "-e", "POS>3"}, "give one of them"},
		{"", []string{"--phase", "x"}, `phase "x": want one of`},
	} {
		ref, gff, in := bcsqFiles(t, c.vcf)
		_, err := execute(t, append([]string{"--fields", "bcsq", "--ref", ref, "--gff", gff, in}, c.args...)...)
		require.ErrorContains(t, err, c.want)
	}
	require.ErrorContains(t, (&bcsqFlags{local: true, phase: "r", ncsq: 1}).check(false), "are for --fields bcsq")
}

// execute runs pore annotate with arguments and returns its standard output.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := annotateCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

// TestAnnotateBCSQKeepsLines: a record that fails first on its contig releases the held lines of the contig before.
func TestAnnotateBCSQKeepsLines(t *testing.T) {
	ref, gff, in := bcsqFiles(t, "1 14 . A G . . . GT 1|1\n1 15 . A G . . . GT 1|1\n2 14 . C G . . . GT 1|1\n2 15 . A G . . . GT 1|1\n")
	for _, path := range []string{ref, gff} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		second := strings.NewReplacer(">1", ">2", "\n1\t", "\n2\t", "gene:G", "gene:H", "transcript:T", "transcript:U", "##gff-version 3", "#").Replace(string(text))
		require.NoError(t, os.WriteFile(path, append(text, second...), 0o600))
	}
	out, err := execute(t, "--fields", "bcsq", "--on-error", "skip", "--ref", ref, "--gff", gff, in)
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(out) {
		if f := strings.Split(line, "\t"); !strings.HasPrefix(line, "#") {
			got = append(got, f[0]+":"+f[1]+" "+f[7])
		}
	}
	require.Equal(t, []string{
		"1:14 BCSQ=missense|g|T|protein_coding|+|2K>2G|14A>G+15A>G", "1:15 BCSQ=@14", "2:14 .", "2:15 BCSQ=missense|g|U|protein_coding|+|2K>2R|15A>G",
	}, got)
}

// TestAnnotateBCSQOrderByContig: two names of one contig are one order.
func TestAnnotateBCSQOrderByContig(t *testing.T) {
	ref, gff, in := bcsqFiles(t, "1 15 . A G . . . GT 1|1\nchr1 14 . A G . . . GT 1|1\n")
	synonyms := filepath.Join(t.TempDir(), "names.tsv")
	require.NoError(t, os.WriteFile(synonyms, []byte("1\tchr1\n"), 0o600))
	_, err := execute(t, "--fields", "bcsq", "--contig-synonyms", synonyms, "--ref", ref, "--gff", gff, in)
	require.ErrorContains(t, err, "chr1:14: comes after position 15")
}

// TestReportOfHaplotypesAlone has the last line not say that no allele was annotated, where only BCSQ was asked for.
func TestReportOfHaplotypesAlone(t *testing.T) {
	t.Parallel()
	var alone, both bytes.Buffer
	reportAnnotation(&alone, &pipe.Stats{Stats: annotate.Stats{Records: 6}}, nil, true)
	require.Equal(t, "6 records, 0 lines skipped\n", alone.String())
	reportAnnotation(&both, &pipe.Stats{Stats: annotate.Stats{Records: 6, Alleles: 6}}, nil, false)
	require.Equal(t, "6 records, 6 alleles annotated, 0 not supported, 0 lines skipped\n", both.String())
}
