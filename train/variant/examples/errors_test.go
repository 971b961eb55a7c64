package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant"
)

// TestErrorsAreCounted: reads with a wrong base in 40 and without a base of every second homopolymer of four bases.
func TestErrorsAreCounted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var ref []byte
	for len(ref) < 40_000 {
		b := "ACGT"[rng.IntN(4)]
		if len(ref) > 0 && ref[len(ref)-1] == b {
			continue
		}
		ref = append(ref, bytes.Repeat([]byte{b}, 1+rng.IntN(5))...)
	}
	sam := new(strings.Builder)
	fmt.Fprintf(sam, "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c\tLN:%d\n@RG\tID:r\tSM:s\n", len(ref))
	const length = 4000
	fours, dropped := 0, 0
	for start := 0; start+length <= len(ref); start += 400 {
		var seq, cigar strings.Builder
		matched := 0
		for i := start; i < start+length; {
			run := 1
			for i+run < start+length && ref[i+run] == ref[i] {
				run++
			}
			whole := i > start && i+run < start+length
			keep := run
			if whole && run == 4 {
				if fours++; fours%2 == 0 {
					keep, dropped = 3, dropped+1
				}
			}
			if keep < run {
				fmt.Fprintf(&cigar, "%dM1D", matched)
				matched = 0
			}
			for k := run - keep; k < run; k++ {
				b := ref[i+k]
				if (i+k)%40 == 7 && run == 1 {
					b = "TGCA"[strings.IndexByte("ACGT", b)]
				}
				seq.WriteByte(b)
				matched++
			}
			i += run
		}
		fmt.Fprintf(&cigar, "%dM", matched)
		fmt.Fprintf(sam, "read%d\t%d\tc\t%d\t60\t%s\t*\t0\t0\t%s\t*\tRG:Z:r\n", start, start/400%2*16, start+1, &cigar, &seq)
	}
	dir := t.TempDir()
	fasta, reads := filepath.Join(dir, "ref.fa"), filepath.Join(dir, "reads.sam")
	require.NoError(t, os.WriteFile(fasta, fmt.Appendf(nil, ">c\n%s\n", ref), 0o600))
	require.NoError(t, os.WriteFile(reads, []byte(sam.String()), 0o600))

	var out bytes.Buffer
	require.NoError(t, countErrors(t.Context(), fasta, reads, &out))
	written := filepath.Join(dir, "errors.toml")
	require.NoError(t, os.WriteFile(written, out.Bytes(), 0o600))
	rates, err := expectedErrors(written)
	require.NoError(t, err)
	require.Greater(t, dropped, 1000)
	single := 0
	for i := 7; i < len(ref); i += 40 {
		if ref[i-1] != ref[i] && (i+1 == len(ref) || ref[i+1] != ref[i]) {
			single++
		}
	}
	require.InDelta(t, float64(single)/float64(len(ref)), rates.Mismatch, 0.0005)
	require.InDelta(t, 0.5, rates.Deletion[4], 0.02)
	require.Less(t, rates.Deletion[3], 0.001)
	require.Less(t, rates.Insertion[4], 0.001)
	require.Less(t, rates.Other, 0.001)
	require.Less(t, rates.Extension, 0.01, "no gap has a second base")
	require.Equal(t, rates.Deletion[5], rates.Deletion[variant.MaxCountedRun], "longer ones were not passed")

	require.NoError(t, os.WriteFile(written, []byte("mismatch = 2\n"), 0o600))
	_, err = expectedErrors(written)
	require.ErrorContains(t, err, "errors.toml: ")
	require.ErrorContains(t, err, "errors.mismatch = 2 is not between 0 and 1")
	_, err = expectedErrors(filepath.Join(dir, "none.toml"))
	require.ErrorContains(t, err, "none.toml")
}
