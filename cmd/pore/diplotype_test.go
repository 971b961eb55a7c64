package main

import (
	"bytes"
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
	_, err = run("-")
	require.ErrorContains(t, err, "--definitions is required")
	_, err = run("--definitions", "diplotype_test.go", "-")
	require.ErrorContains(t, err, "diplotype_test.go: not definitions of alleles in JSON")
}
