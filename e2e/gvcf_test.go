package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGVCFOfStreamAndFile: what the stream reports of places without a variant is, to
// the byte, what pore call reports of the same reads, whatever the partitions and the
// processors.
func TestGVCFOfStreamAndFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bam := filepath.Join(dir, "reads.bam")
	const channels = "1-128" // a quarter of the reads
	device := recordedNetwork(t, "1ms:32")
	called := pore(t, "basecall", "--device", device, "--channels", channels, "--ref", lambda("reference.fa"), "--format", "bam", lambdaReads(t))
	require.Zero(t, called.code, called.stderr)
	require.NoError(t, os.WriteFile(bam, []byte(called.stdout), 0o644))

	const sample = "lambda"
	gvcf, bed := filepath.Join(dir, "calls.g.vcf"), filepath.Join(dir, "callable.bed")
	file := pore(t, "call", "--ref", lambda("reference.fa"), "--sample", sample, "--gvcf", "--callable", bed, "--callable-depth", "4", "-o", gvcf, bam)
	require.Zero(t, file.code, file.stderr)

	for _, flags := range [][]string{{"--partitions", "1"}, {"--partitions", "5", "--processors", "2"}} {
		out := run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t),
			append(flags, "--device", device, "--channels", channels, "--sample", sample, "--gvcf", "--callable", "--callable-depth", "4")...)
		require.Equal(t, string(readFile(t, dir, "calls.g.vcf")), string(readFile(t, out, "variants.g.vcf")), "%v", flags)
		require.Equal(t, string(readFile(t, dir, "callable.bed")), string(readFile(t, out, "callable.bed")), "%v", flags)
	}

	// A consumer of the topic gets the same files from it.
	onBroker(t, func(t *testing.T, addr string) {
		run(t, lambda("reference.fa"), lambda("genes.gff3"), lambdaReads(t), "--brokers", addr, "--topic-prefix", "kept.", "--partitions", "3",
			"--device", device, "--channels", channels, "--sample", sample, "--gvcf", "--callable", "--callable-depth", "4")
		for format, want := range map[string]string{"gvcf": "calls.g.vcf", "callable": "callable.bed"} {
			res := pore(t, "consume", "--brokers", addr, "--topic-prefix", "kept.", "--format", format, "--ref", lambda("reference.fa"))
			require.Zero(t, res.code, res.stderr)
			require.Equal(t, string(readFile(t, dir, want)), res.stdout, format)
		}
		for _, tt := range []struct{ flag, value, says string }{
			{"--filter", `sample == "nobody"`, "no sample has a call yet that --filter keeps"},
			{"--gvcf-allele", "X", "want * or NON_REF"},
		} {
			res := pore(t, "consume", "--brokers", addr, "--topic-prefix", "kept.", "--format", "gvcf", "--ref", lambda("reference.fa"), tt.flag, tt.value)
			require.NotZero(t, res.code)
			require.Contains(t, res.stderr, tt.says)
		}
	})
}
