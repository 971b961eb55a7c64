package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGVCFOfStreamAndFile: what the stream tells of places without a variant is, to
// the byte, what pore call tells of the same reads, whatever the partitions and the
// processors.
func TestGVCFOfStreamAndFile(t *testing.T) {
	dir := t.TempDir()
	bam := filepath.Join(dir, "reads.bam")
	const channels = "1-128" // a quarter of the reads
	called := pore(t, "basecall", "--channels", channels, "--ref", lambda("reference.fa"), "--format", "bam", lambda("reads.pod5"))
	require.Zero(t, called.code, called.stderr)
	require.NoError(t, os.WriteFile(bam, []byte(called.stdout), 0o644))

	const sample = "lambda"
	gvcf, bed := filepath.Join(dir, "calls.g.vcf"), filepath.Join(dir, "callable.bed")
	file := pore(t, "call", "--ref", lambda("reference.fa"), "--sample", sample, "--gvcf", "--callable", bed, "--callable-depth", "4", "-o", gvcf, bam)
	require.Zero(t, file.code, file.stderr)

	for _, flags := range [][]string{{"--partitions", "1"}, {"--partitions", "5", "--processors", "2"}} {
		out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambda("reads.pod5"),
			append(flags, "--channels", channels, "--sample", sample, "--gvcf", "--callable", "--callable-depth", "4")...)
		require.Equal(t, string(readFile(t, dir, "calls.g.vcf")), string(readFile(t, out, "variants.g.vcf")), "%v", flags)
		require.Equal(t, string(readFile(t, dir, "callable.bed")), string(readFile(t, out, "callable.bed")), "%v", flags)
	}
}
