package haplotype

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vcf"
)

// chain is a contig with coding transcripts on both strands, each overlapping the next one, and a VCF of phased
// genotypes on it, a record every ten bases.
func chain(t *testing.T, transcripts, samples int) (*Genes, []byte) {
	const span, step = 900, 600
	rng := rand.New(rand.NewPCG(48, 11))
	seq := make([]byte, transcripts*step+span)
	for i := range seq {
		seq[i] = "ACGT"[rng.IntN(4)]
	}
	var gff, records strings.Builder
	gff.WriteString("##gff-version 3\n")
	for i := range transcripts {
		from, to, strand := i*step+1, i*step+span, "+-"[i%2:][:1]
		fmt.Fprintf(&gff, "c\tx\tgene\t%d\t%d\t.\t%s\t.\tID=gene:g%d;biotype=protein_coding;Name=G%d\n", from, to, strand, i, i)
		fmt.Fprintf(&gff, "c\tx\tmRNA\t%d\t%d\t.\t%s\t.\tID=transcript:t%d;Parent=gene:g%d;biotype=protein_coding\n", from, to, strand, i, i)
		fmt.Fprintf(&gff, "c\tx\texon\t%d\t%d\t.\t%s\t.\tParent=transcript:t%d\n", from, to, strand, i)
		fmt.Fprintf(&gff, "c\tx\tCDS\t%d\t%d\t.\t%s\t0\tID=CDS:t%d;Parent=transcript:t%d\n", from, to, strand, i, i)
	}
	records.WriteString("##fileformat=VCFv4.3\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT")
	for i := range samples {
		fmt.Fprintf(&records, "\ts%d", i)
	}
	records.WriteByte('\n')
	for at := 5; at+10 < len(seq); at += 10 {
		ref, alt := seq[at:at+1], []byte{"CGTA"[strings.IndexByte("ACGT", seq[at])]}
		if at%7 == 0 {
			ref, alt = seq[at:at+2], seq[at:at+1]
		}
		fmt.Fprintf(&records, "c\t%d\t.\t%s\t%s\t.\t.\t.\tGT", at+1, ref, alt)
		of := [3]int{rng.IntN(4), rng.IntN(4), rng.IntN(4)} // few haplotypes, each of many samples
		for i := range samples {
			records.WriteString([]string{"\t0|0", "\t0|0", "\t0|1", "\t1|0"}[of[i%3]])
		}
		records.WriteByte('\n')
	}
	g, err := genome.Read(strings.NewReader(">c\n" + string(seq) + "\n"))
	require.NoError(t, err)
	m, err := annotate.ReadModel(strings.NewReader(gff.String()), g)
	require.NoError(t, err)
	genes, err := NewGenes(g, m, false)
	require.NoError(t, err)
	return genes, []byte(records.String())
}

// annotatedChain pushes the records one by one through an annotator that keeps the given number of blocks, and calls each
// after every one of them with what it let go.
func annotatedChain(t *testing.T, genes *Genes, text []byte, kept int, each func(done []byte)) {
	r, err := vcf.NewReader(bytes.NewReader(text))
	require.NoError(t, err)
	a := NewAnnotator(genes, Options{}, nil, false, slog.New(slog.DiscardHandler))
	h := r.Header().Clone()
	require.NoError(t, a.Declare(h))
	a.caller.kept = kept
	var out vcf.Lines
	var row vcf.Row
	number := 0
	_, rest, _ := bytes.Cut(text[bytes.Index(text, []byte("#CHROM")):], []byte{'\n'})
	for len(rest) > 0 {
		var line []byte
		line, rest = vcf.CutLine(rest)
		number++
		require.NoError(t, r.Header().ParseRow(line, &row))
		out.Reset()
		require.NoError(t, a.Push(&out, &row, number))
		each(out.Text)
	}
	out.Reset()
	require.NoError(t, a.Flush(&out))
	each(out.Text)
}

// TestMemoryOfChains: transcripts that overlap one another over a whole contig hold what lies in those that
// are not behind yet, and not what lies in all of them.
func TestMemoryOfChains(t *testing.T) {
	genes, text := chain(t, 200, 200)
	var before, now runtime.MemStats
	most, n := uint64(0), 0
	annotatedChain(t, genes, text, keptBlocks, func([]byte) {
		n++
		if n%1000 != 0 {
			return
		}
		runtime.GC()
		if n == 1000 {
			runtime.ReadMemStats(&before)
			return
		}
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapAlloc)
	})
	require.Greater(t, n, 12_000)
	// What 1000 records take, by which some more can be held at a time: their text, genotypes and masks.
	const allowance = 1000 * (200*4 + 200*2*8 + 200*4)
	require.Less(t, most, before.HeapAlloc+allowance, "after 1000 records %d bytes are in use, after all %d", before.HeapAlloc, most)
}

// TestForgottenBlocks: the handling of memory does not show in the output.
func TestForgottenBlocks(t *testing.T) {
	genes, text := chain(t, 40, 7)
	written := func(kept int) string {
		var all []byte
		annotatedChain(t, genes, text, kept, func(done []byte) { all = append(all, done...) })
		return string(all)
	}
	want := written(math.MaxInt)
	require.Contains(t, want, "BCSQ=")
	require.Contains(t, want, "BCSQ=@")
	for _, kept := range []int{0, 1, 3} {
		require.Equal(t, want, written(kept))
	}
}
