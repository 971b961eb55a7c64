package cram_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/genome"
)

// TestSmallPieces: however small the pieces are that a slice is decoded in, the bytes are the same, templates of several
// records included.
func TestSmallPieces(t *testing.T) {
	for _, name := range golden {
		o := cram.Options{Reference: goldenReference(t), Names: "x"}
		want, err := io.ReadAll(cram.NewReader(bytes.NewReader(goldenFile(t, name)), o))
		require.NoError(t, err)
		for _, bases := range []int{1, 100, 1000} {
			r := cram.NewReader(bytes.NewReader(goldenFile(t, name)), o)
			r.SetPiece(bases)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s in pieces of %d bases", name, bases)
		}
	}
}

// TestPiecesOfRandomRecords is TestSmallPieces for records of every kind, as samtools writes them.
func TestPiecesOfRandomRecords(t *testing.T) {
	s := newSample(t, rand.New(rand.NewPCG(4, 1)))
	file := filepath.Join(t.TempDir(), "reads.cram")
	for _, format := range []string{"cram,version=3.0", "cram,version=3.1,archive", "cram,lossy_names=1"} {
		samtools(t, nil, "view", "--no-PG", "-T", s.fasta, "-O", format, "-o", file, s.sam)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		o := cram.Options{Reference: s.genome.Bases, Names: "x"}
		want, err := io.ReadAll(cram.NewReader(bytes.NewReader(data), o))
		require.NoError(t, err)
		for _, bases := range []int{1, 500, 20_000} {
			r := cram.NewReader(bytes.NewReader(data), o)
			r.SetPiece(bases)
			got, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s in pieces of %d bases", format, bases)
		}
	}
}

// longReads writes reads of 4 kb with 1 % of substitutions, sorted, and returns the paths of the file and of its FASTA, and
// their bases.
func longReads(t testing.TB, count int, format string) (file, fasta string, bases int) {
	t.Helper()
	const contig, length = 200_000, 4000
	random := rand.New(rand.NewPCG(1, 2))
	ref := make([]byte, contig)
	for i := range ref {
		ref[i] = "ACGT"[random.IntN(4)]
	}
	dir := t.TempDir()
	file, fasta = filepath.Join(dir, "reads.cram"), filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(fasta, fmt.Appendf(nil, ">c\n%s\n", ref), 0o600))
	var sam strings.Builder
	fmt.Fprintf(&sam, "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c\tLN:%d\n", contig)
	quals := make([]byte, length)
	for i := range count {
		at := i * (contig - length) / count
		seq := bytes.Clone(ref[at : at+length])
		for j := range seq {
			if random.IntN(100) == 0 {
				seq[j] = "ACGT"[random.IntN(4)]
			}
			quals[j] = byte('!' + 5 + random.IntN(35))
		}
		fmt.Fprintf(&sam, "read%d\t0\tc\t%d\t60\t%dM\t*\t0\t0\t%s\t%s\n", i, at+1, length, seq, quals)
	}
	samtools(t, []byte(sam.String()), "view", "--no-PG", "-T", fasta, "-O", format, "-o", file, "-")
	return file, fasta, count * length
}

// TestArchiveInPieces: of a container with millions of bases, as an archive has them, a piece is decoded at a time.
func TestArchiveInPieces(t *testing.T) {
	file, fasta, bases := longReads(t, 3000, "cram,version=3.0,archive")
	g, err := genome.Load(fasta)
	require.NoError(t, err)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	r := cram.NewReader(bytes.NewReader(data), cram.Options{Reference: g.Bases})
	n, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.Greater(t, n, int64(bases))
	require.Less(t, r.Capacity(), bases/2)
}

// BenchmarkReader reads 16 million bases of 4,000 reads as samtools writes them, and as it archives them, where all are in one slice.
func BenchmarkReader(b *testing.B) {
	for _, format := range []string{"cram,version=3.0", "cram,version=3.0,archive"} {
		b.Run(strings.ReplaceAll(format, ",", "-"), func(b *testing.B) {
			file, fasta, bases := longReads(b, 4000, format)
			g, err := genome.Load(fasta)
			require.NoError(b, err)
			data, err := os.ReadFile(file)
			require.NoError(b, err)
			b.SetBytes(int64(bases))
			b.ReportAllocs()
			for b.Loop() {
				_, err := io.Copy(io.Discard, cram.NewReader(bytes.NewReader(data), cram.Options{Reference: g.Bases}))
				require.NoError(b, err)
			}
		})
	}
}
