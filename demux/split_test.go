package demux

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
)

// currents returns the reads of a recording, in picoamperes.
func currents(t *testing.T, path string) (reads [][]float32, rate int) {
	t.Helper()
	recording, err := signal.NewIndex(t.Context(), []string{path})
	require.NoError(t, err)
	defer recording.Close()
	for i := range recording.Len() {
		samples, err := recording.Samples(i, nil)
		require.NoError(t, err)
		read := make([]float32, len(samples))
		for k, level := range samples {
			read[k] = recording.Entry(i).Calibration.Picoamperes(level)
		}
		reads = append(reads, read)
		rate = recording.Entry(i).Run.SampleRate
	}
	return reads, rate
}

// recordings are the one in the tree and, where they are, those beside it.
func recordings(t *testing.T) []string {
	paths := []string{"../testdata/lambda/reads.pod5"}
	for _, name := range []string{"ecoli-r9", "sarscov2-r9", "r10"} {
		found, err := filepath.Glob("../../shared/data/" + name + "/*.blow5")
		require.NoError(t, err)
		paths = append(paths, found...)
	}
	return paths
}

// TestOpenPore: no real read is split, and two real reads with an open pore between them
// are, there.
func TestOpenPore(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, path := range recordings(t) {
		reads, rate := currents(t, path)
		split, joined := 0, 0
		for i, read := range reads {
			split += len(OpenPore(read, rate))
			other := reads[(i+1)%len(reads)]
			if len(read) < 4000 || len(other) < 4000 || joined == 30 {
				continue
			}
			joined++
			// Read c7937d7b of E. coli begins so: 214 pA before a strand of 98 pA. Gain
			// differs from pore to pore.
			gap := make([]float32, rate*(8+rng.IntN(40))/1000)
			strand := max(quantile(read, 0.75), quantile(other, 0.75))
			for k := range gap {
				gap[k] = float32((214 + 4*rng.NormFloat64()) / 107 * strand)
			}
			var both []float32
			both = append(append(append(both, read...), gap...), other...)
			found := OpenPore(both, rate)
			require.Equal(t, 1, len(found), "%s: reads %d", path, i) //nolint:testifylint // Len prints them
			// Some reads begin and end with the pore open.
			require.InDelta(t, len(read)-75, found[0].Start, 80)
			require.InDelta(t, len(read)+len(gap)+75, found[0].End, 80)
		}
		require.Zero(t, split, path)
		require.NotZero(t, joined)
		t.Logf("%s: %d reads, %d joined", path, len(reads), joined)
	}
	require.Empty(t, OpenPore(nil, 4000))
	require.Empty(t, OpenPore(make([]float32, 10_000), 4000), "a dead channel")
	require.Empty(t, OpenPore(make([]float32, 10_000), 0))
}

func TestMiddleAdapters(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	one, two := randomBases(rng, "ACGT", 800), randomBases(rng, "ACGT", 300)
	const adapter = "CCTGTACTTCGTTCAGTTACGTATTGC"
	require.Empty(t, MiddleAdapters([]byte(one), Adapters()))
	require.Empty(t, MiddleAdapters([]byte(adapter+one), Adapters()), "a read's own")
	require.Empty(t, MiddleAdapters(nil, Adapters()))
	got := MiddleAdapters([]byte(adapter+one+"CCTGTACTTCGTCAGTTACGTATTGC"+two+adapter+one), Adapters())
	require.Equal(t, []int{len(adapter) + 800, len(adapter) + 800 + len(adapter) - 1 + 300}, got)
}

// TestMiddleAdaptersAmidReal: false matches of an adapter are rare amid real calls.
func TestMiddleAdaptersAmidReal(t *testing.T) {
	for _, g := range readGolden(t) {
		if g.truth == "two" {
			continue
		}
		require.Empty(t, MiddleAdapters(g.sequence, Adapters()), "%s", g.sequence)
	}
}

// TestChildID holds ids, which others may have kept, to what they are: by Python's
// uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/porestream/porestream/split"), "parent:1200").
func TestChildID(t *testing.T) {
	require.Equal(t, "88a8cad4-b79d-529b-b8ec-aa5ae62e9517", ChildID("parent", 1200))
}
