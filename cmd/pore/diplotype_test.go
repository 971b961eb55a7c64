package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDiplotypeOfAGVCF(t *testing.T) {
	calls := strings.ReplaceAll(`##fileformat=VCFv4.2
##INFO=<ID=END,Number=1,Type=Integer,Description="e">
##FORMAT=<ID=GT,Number=1,Type=String,Description="g">
#CHROM POS ID REF ALT QUAL FILTER INFO FORMAT a b
chr2 233759000 . A <*> . PASS END=233760800 GT 0/0 0/0
chr2 233760498 . G A . PASS . GT 0/1 1/1
`, " ", "\t")
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		cmd.SetIn(strings.NewReader(calls))
		cmd.SetArgs(append([]string{"diplotype"}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	definitions := filepath.Join("..", "..", "annotate", "diplotype", "testdata", "UGT1A1_translation.json")
	out, err := run("--definitions", definitions, "-")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	require.True(t, strings.HasPrefix(lines[1], "a\tUGT1A1\t*1/*6\t.\t*27\trs35350960\t.\t"), lines[1])
	require.True(t, strings.HasPrefix(lines[2], "b\tUGT1A1\t*6/*6\t.\t*27\trs35350960\t.\t"), lines[2])
	require.True(t, strings.HasSuffix(lines[1], "\t."), lines[1])
	calls = strings.Replace(calls, "GT\t0/1\t1/1", "GT\t1/1\t1/1", 1) + "chr2\t233760973\t.\tC\tA\t.\tPASS\t.\tGT\t0/1\t0/0\n"
	out, err = run("--combinations", "--definitions", definitions, "-")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^a\tUGT1A1\t\*6/\[\*6 \+ \*27\]\t.*\tcombinations: no pair of alleles has these bases$`, out)
	require.Regexp(t, `(?m)^b\tUGT1A1\t\*6/\*6\t.*\t\.$`, out)
	_, err = run("--min-gq", "-1", "--definitions", definitions, "-")
	require.ErrorContains(t, err, "must not be negative")
	_, err = run("-")
	require.ErrorContains(t, err, "--definitions is required")
	_, err = run("--definitions", "diplotype_test.go", "-")
	require.ErrorContains(t, err, "diplotype_test.go: not definitions of alleles in JSON")
}

// TestDiplotypesThatArentCalled has a sample of one copy beside one of two, whose row stays, and files whose positions aren't those of the definitions.
func TestDiplotypesThatArentCalled(t *testing.T) {
	definitions := filepath.Join("..", "..", "annotate", "diplotype", "testdata", "UGT1A1_translation.json")
	for _, c := range []struct {
		name, meta, row  string
		args             []string
		out, stderr, err string
	}{
		{name: "one copy", row: "chr2 233759000 . A <*> . PASS END=233761000 GT 0 0/0",
			out:    "a UGT1A1 . . . . . 2025-11-05-00-25 ploidy_1_at_chr2:233759924,_and_diplotypes_are_of_two_copies:_call_with_pore_call_--ploidy_2\nb UGT1A1 *1/*1 . . . . 2025-11-05-00-25 .",
			stderr: "-: sample a, UGT1A1: ploidy 1 at chr2:233759924, and diplotypes are of two copies: call with pore call --ploidy 2\n"},
		{name: "too little", row: "chr2 233759000 . A <*> . PASS END=233761000 GT:GQ:MIN_DP 0/0:9:12 0/0:30:9",
			out: "a UGT1A1 . . . rs887829,rs3064744,rs4148323,rs35350960 . 2025-11-05-00-25 nothing_is_known_of_any_position:_reads_don't_cover_the_gene,_or_the_calls_are_no_gVCF_of_it\nb UGT1A1 . . . rs887829,rs3064744,rs4148323,rs35350960 . 2025-11-05-00-25 nothing_is_known_of_any_position:_reads_don't_cover_the_gene,_or_the_calls_are_no_gVCF_of_it"},
		{name: "enough, as asked for", row: "chr2 233759000 . A <*> . PASS END=233761000 GT:GQ:MIN_DP 0/0:9:12 0/0:30:9", args: []string{"--min-depth", "9", "--min-gq", "9"},
			out: "a UGT1A1 *1/*1 . . . . 2025-11-05-00-25 .\nb UGT1A1 *1/*1 . . . . 2025-11-05-00-25 ."},
		{name: "another REF", row: "chr2 233759924 . G T . PASS . GT 0/1 0/0", err: "calls.vcf:4: chr2:233759924: REF has G"},
		{name: "another genome", meta: "##contig=<ID=chr2,length=243199373>\n", row: "chr2 233759924 . C T . PASS . GT 0/1 0/0", err: "calls.vcf: the header has chr2 with 243199373 bases"},
		{name: "another name", row: "2 233759924 . C T . PASS . GT 0/1 0/0", err: "calls.vcf: the contig is named 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls.vcf")
			text := "##fileformat=VCFv4.2\n" + c.meta + "##FORMAT=<ID=GT,Number=1,Type=String,Description=\"g\">\n" + strings.ReplaceAll("#CHROM POS ID REF ALT QUAL FILTER INFO FORMAT a b\n"+c.row+"\n", " ", "\t")
			require.NoError(t, os.WriteFile(calls, []byte(text), 0o600))
			var out, stderr bytes.Buffer
			cmd := command()
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetOut(&out)
			cmd.SetErr(&stderr)
			cmd.SetArgs(append([]string{"diplotype", "--definitions", definitions, calls}, c.args...))
			err := cmd.ExecuteContext(t.Context())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Empty(t, out.String())
				return
			}
			require.NoError(t, err)
			_, rows, _ := strings.Cut(out.String(), "\n")
			require.Equal(t, c.out, strings.NewReplacer(" ", "_", "\t", " ").Replace(strings.TrimSpace(rows)))
			require.Equal(t, c.stderr, strings.ReplaceAll(stderr.String(), calls, "-"))
		})
	}
}
