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

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/modbase/modbasetest"
)

// TestAlignKeepsModifiedBases: of 10,000 reads pysam finds the modified bases of their titles in all records
// that pore align makes of them, on either strand and of both parts of chimaeras. Tags that are of another
// read are dropped, and the read stays.
func TestAlignKeepsModifiedBases(t *testing.T) {
	const reads, length = 10_000, 50_000
	rng := rand.New(rand.NewPCG(44, 3))
	genome := make([]byte, length)
	for i := range genome {
		genome[i] = "ACGT"[rng.IntN(4)]
	}
	dir := t.TempDir()
	ref := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(ref, []byte(">r\n"+string(genome)+"\n"), 0o600))
	stretch := func(reverse bool) []byte {
		n := 120 + rng.IntN(80)
		at := rng.IntN(length - n)
		bases := bytes.Clone(genome[at : at+n])
		if reverse {
			align.ReverseComplement(bases)
		}
		bases[n/2] = 'A'
		return append(bases[:n/3], bases[n/3+1:]...)
	}
	var text strings.Builder
	planted := make(map[string]modbasetest.Read)
	for i := range reads {
		bases := stretch(i%2 == 1)
		if i%10 == 0 {
			bases = append(bases, stretch(i%4 == 0)...)
		}
		r := modbasetest.Tagged(rng, bases)
		name, written := fmt.Sprint(i), string(bases)
		switch i % 3 {
		case 1:
			written = strings.ToLower(written)
		case 2:
			written = strings.ReplaceAll(written, "T", "U")
		}
		tags := r.Tags(i % 2 * len(bases))
		if i%1000 == 7 {
			tags = []string{"MM:Z:C+m,500;", "MM:Z:C+m,1;\tML:B:C", "MM:Z:\tMN:i:5", "MM:Z:x"}[i/1000%4]
			r.Calls = nil
		}
		planted[name] = r
		fmt.Fprintf(&text, "@%s\tqs:f:9\t%s\n%s\n+\n%s\n", name, tags, written, strings.Repeat("5", len(bases)))
	}
	bam := filepath.Join(dir, "out.bam")
	_, err := poreWith(t, strings.NewReader(text.String()), "align", "-y", "--ref", ref, "-o", bam, "-")
	require.NoError(t, err)
	theirs := modbasetest.Pysam(t, bam)
	supplementary := 0
	for name, got := range theirs {
		of, _, more := strings.Cut(name, "#")
		if more {
			supplementary++
		}
		r, ok := planted[of]
		require.True(t, ok)
		require.Equal(t, modbasetest.Texts(r.Calls, 0, 1<<30), got.Forward, "read %s: %s", name, r.MM)
	}
	require.Equal(t, reads, len(theirs)-supplementary)
	require.Greater(t, supplementary, reads/20)
}
