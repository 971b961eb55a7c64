package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/signal/pod5"
	"github.com/porestream/porestream/testenv"
)

var onceLambdaReads sync.Once // of lambdaReads

// lambdaReads are what tests of the services take of the shipped recording: all reads at the four SNPs and at the place of
// the panel's rule that is NEGATIVE, and a twelfth of the others, so that few regions are covered as deep and others hardly.
// It is two fifths of the signal. TestRun takes the whole, and with PORESTREAM_TEST_ALL, as every night, all do.
func lambdaReads(t testing.TB) string {
	t.Helper()
	if testenv.All() {
		return lambda("reads.pod5")
	}
	path := filepath.Join(bin, "recording.pod5")
	onceLambdaReads.Do(func() { writeRecording(t, path) })
	require.FileExists(t, path)
	return path
}

// writeRecording writes the reads that lambdaReads describes.
func writeRecording(t testing.TB, path string) {
	t.Helper()
	wanted := make(map[string]bool) // by read, its UUID without hyphens
	length := len(aligntest.LambdaGenome(t).Contigs[0].Seq)
	for _, s := range aligntest.Lambda(t, "run", "s") {
		extent, err := align.Check(s, length)
		require.NoError(t, err)
		end := int(s.GetStart()) + extent.Reference
		for _, place := range []int{31_674, 37_589, 37_742, 43_082, 45_352} { // exo-D119A; the SNPs
			if int(s.GetStart()) < place && end >= place {
				wanted[strings.ReplaceAll(s.GetReadId(), "-", "")] = true
			}
		}
	}
	var others int
	rewrite(t, path, func(r *pod5.Read, samples []int16) ([]int16, bool) {
		if wanted[fmt.Sprintf("%x", r.ID)] {
			return samples, true
		}
		others++
		return samples, others%12 == 0
	})
}

// rewrite writes a recording of those of the shipped one's reads that piece keeps: what it returns of their samples, having changed the read to go with them.
func rewrite(t testing.TB, path string, piece func(r *pod5.Read, samples []int16) (kept []int16, keep bool)) {
	t.Helper()
	in, err := pod5.Open(lambda("reads.pod5"))
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(path)
	require.NoError(t, err)
	defer out.Close()
	scratch, err := os.CreateTemp(t.TempDir(), "rows")
	require.NoError(t, err)
	defer scratch.Close()
	w, err := pod5.NewWriter(out, scratch, pod5.WriterOptions{})
	require.NoError(t, err)
	var samples []int16
	for b := range in.Batches() {
		reads, err := in.Batch(b)
		require.NoError(t, err)
		for i := range reads {
			samples, err = in.Samples(&reads[i], samples[:0])
			require.NoError(t, err)
			if kept, keep := piece(&reads[i], samples); keep {
				require.NoError(t, w.Add(&reads[i], kept))
			}
		}
	}
	require.NoError(t, w.Close())
}
