package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
)

// twoCopies is a genome whose only contig has two regions, and FASTQ of reads of a diploid sample where they meet: of one copy CpGs are modified, as of
// an imprinted gene.
func twoCopies(t *testing.T, dir string) (reference, fastq string) {
	t.Helper()
	const ends, begins = align.RegionWidth + 9_000, align.RegionWidth - 12_000
	rng := rand.New(rand.NewPCG(44, 46))
	copies := [2][]byte{make([]byte, ends), nil}
	for i := range copies[0] {
		if copies[0][i] = "ACGT"[rng.IntN(4)]; i > 0 && rng.IntN(20) == 0 {
			copy(copies[0][i-1:], "CG")
		}
	}
	copies[1] = append([]byte{}, copies[0]...)
	for at := begins + 300; at < ends; at += 400 + rng.IntN(700) {
		copies[1][at] = "CATG"[strings.IndexByte("ACGT", copies[0][at])]
	}
	reference = filepath.Join(dir, "genome.fa")
	require.NoError(t, os.WriteFile(reference, fmt.Appendf(nil, ">chr\n%s\n", copies[0]), 0o600))
	var text strings.Builder
	for n := range 260 {
		of := n % 2
		length := 1200 + rng.IntN(3000)
		at := begins + rng.IntN(ends-begins-length)
		piece := append([]byte{}, copies[of][at:at+length]...)
		if rng.IntN(2) == 0 {
			genome.ReverseComplement(piece)
		}
		bases, mm, ml := []byte{}, "C+m?", ""
		for i, b := range piece {
			switch rng.IntN(60) {
			case 0:
				continue
			case 1:
				b = "ACGT"[rng.IntN(4)]
			}
			if bases = append(bases, b); b != 'C' {
				continue
			}
			p := rng.IntN(90)
			if of == 1 && strings.HasPrefix(string(piece[i:min(i+2, len(piece))]), "CG") {
				p = 255 - p
			}
			mm, ml = mm+",0", fmt.Sprintf("%s,%d", ml, p)
		}
		writeTagged(&text, n, bases, mm+";", ml)
	}
	return reference, text.String()
}

// TestMethylationByHaplotype: what the stream counts by haplotype is what pore pileup --haplotypes counts of a file that pore call --haplotag has tagged, to the
// byte, over a region's border, too, for any number of partitions, and when a processor is killed; what it counts of all reads is as without.
func TestMethylationByHaplotype(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reference, fastq := twoCopies(t, dir)
	reads, sorted, tagged := filepath.Join(dir, "reads.fastq"), filepath.Join(dir, "sorted.bam"), filepath.Join(dir, "tagged.bam")
	require.NoError(t, os.WriteFile(reads, []byte(fastq), 0o600))
	for _, args := range [][]string{
		{"align", "-y", "--ref", reference, "-o", sorted, reads},
		{"call", "--ref", reference, "--ploidy", "2", "--haplotag", tagged, "-o", filepath.Join(dir, "calls.vcf"), sorted},
		{"pileup", "--ref", reference, "--haplotypes", "-o", filepath.Join(dir, "by.{haplotype}.bed"), tagged},
		{"pileup", "--ref", reference, "-o", filepath.Join(dir, "all.bed"), tagged},
	} {
		res := pore(t, args...)
		require.Zero(t, res.code, res.stderr)
	}
	want := map[string]string{"methylation.bed": string(readFile(t, dir, "all.bed"))}
	for _, haplotype := range []string{"1", "2"} {
		want["methylation."+haplotype+".bed"] = string(readFile(t, dir, "by."+haplotype+".bed"))
		require.Greater(t, strings.Count(want["methylation."+haplotype+".bed"], "\n"), 5000)
	}
	flags := []string{"--ref", reference, "--ploidy", "2", "--methylation", "--methylation-haplotypes"}
	for says, args := range map[string][]string{
		"--methylation-haplotypes goes with --methylation": {"run", "--ref", reference, "--ploidy", "2", "--methylation-haplotypes", "--out", t.TempDir(), reads},
		"no place has two copies: give --ploidy 2":         {"run", "--ref", reference, "--methylation", "--methylation-haplotypes", "--out", t.TempDir(), reads},
		"--haplotype 3: want 1 or 2":                       {"consume", "--brokers", "127.0.0.1:9", "--methylation", "--haplotype", "3", "--format", "bedmethyl", "--ref", reference},
		"--haplotype 1: want 1 or 2, and --format":         {"consume", "--brokers", "127.0.0.1:9", "--methylation", "--haplotype", "1"},
	} {
		res := pore(t, args...)
		require.NotZero(t, res.code)
		require.Contains(t, res.stderr, says)
	}
	onBroker(t, func(t *testing.T, addr string) {
		for _, partitions := range []string{"1", "4"} {
			out, prefix := t.TempDir(), "haplotypes-"+partitions+"-"
			res := pore(t, append([]string{"run", "--brokers", addr, "--topic-prefix", prefix, "--run", "r", "--sample", "s", "--partitions", partitions, "--processors", "2", "--out", out, reads}, flags...)...)
			require.Zero(t, res.code, res.stderr)
			for name, text := range want {
				same(t, text, string(readFile(t, out, name)), partitions+" partitions, "+name)
			}
			res = pore(t, "consume", "--brokers", addr, "--topic-prefix", prefix, "--methylation", "--haplotype", "2", "--format", "bedmethyl", "--ref", reference)
			require.Zero(t, res.code, res.stderr)
			same(t, want["methylation.2.bed"], res.stdout, "consume")
		}
		t.Run("killed", func(t *testing.T) {
			killed := played{
				run: "r", command: []string{"reads"}, reference: reference, files: want,
				args: []string{"--run", "r", "--sample", "s", "--once", "--journal", t.TempDir(), reads},
			}
			killedMethylation(t, addr, "haplotypes-killed-", want["methylation.bed"], killed, append(flags, "--stages", "align,variant,methylate")...)
		})
	})
}
