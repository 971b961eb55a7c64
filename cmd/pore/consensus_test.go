package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConsensusOfFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	ref := file("ref.fa", ">one\nACGTACGTAC\n>two\nTTTT\n")
	const head = "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts1\n"
	const snp = "one\t3\t.\tG\tA\t30\tPASS\t.\tGT:DP\t1:30\n"
	gvcf := file("calls.g.vcf", head+"one\t1\t.\tA\t<*>\t.\t.\tEND=2\tGT:DP:MIN_DP\t0:30:20\n"+snp+"one\t4\t.\tT\t<*>\t.\t.\tEND=10\tGT:DP:MIN_DP\t0:30:12\n")
	plain := file("calls.vcf", head+snp)
	bed := file("callable.bed", "one\t0\t5\tCALLABLE\none\t5\t10\tNO_COVERAGE\ntwo\t0\t4\tCALLABLE\n")

	r := pore(t, "consensus", "--ref", ref, gvcf)
	require.NoError(t, r.err)
	assert.Equal(t, ">s1|one\nACATACGTAC\n>s1|two\nNNNN\n", r.out)
	r = pore(t, "consensus", "--ref", ref, "--min-depth", "15", "--name", "patient 7", gvcf)
	require.NoError(t, r.err)
	assert.Equal(t, ">patient 7|one\nACANNNNNNN\n>patient 7|two\nNNNN\n", r.out)
	out := filepath.Join(dir, "consensus.fa")
	r = pore(t, "consensus", "--ref", ref, "--callable", bed, "-o", out, plain)
	require.NoError(t, r.err)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, ">s1|one\nACATANNNNN\n>s1|two\nTTTT\n", string(got))

	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--ref", ref, "-o", "/dev/full", gvcf}, "writing /dev/full: no space left on device"},
		{[]string{"--ref", ref, plain}, plain + ": it has no blocks of a gVCF, so nothing says where reads are: give --callable"},
		{[]string{"--ref", ref, "--sample", "s2", gvcf}, gvcf + `: it has no sample "s2"; there is s1`},
		{[]string{"--ref", file("other.fa", ">one\nACTTACGTAC\n"), gvcf}, gvcf + ": line 4: REF is G, and the reference has T there: another reference"},
		{[]string{"--ref", ref, "--ambiguous", "x", gvcf}, `--ambiguous "x": want iupac, n or major`},
		{[]string{"--ref", ref, "--min-fraction", "0.6", gvcf}, "--min-fraction more than 0 and at most 0.5"},
		{[]string{"--ref", ref, "--callable", file("bad.bed", "one\t0\t11\n"), plain}, "bad.bed:1: one:1-11 is not within its 10 bases"},
	} {
		r := pore(t, append([]string{"consensus"}, tt.args...)...)
		require.ErrorContains(t, r.err, tt.want)
		assert.Empty(t, r.out)
	}
}
