package demux

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
)

// TestRNAAdapterOfRealReads: where the file's first fourteen reads' tails begin was read off their
// medians over a sixteenth of a second, by eye, to the window; 0 for reads without an adapter.
func TestRNAAdapterOfRealReads(t *testing.T) {
	const recording = "../../shared/data/formats/rna004.pod5"
	if _, err := os.Stat(recording); errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/data/formats/rna004.pod5 is not there")
	}
	index, err := signal.NewIndex(t.Context(), []string{recording})
	require.NoError(t, err)
	defer index.Close()
	windows := map[string]int{ // by the beginning of the read's id
		"0e8e52dc": 10,
		"e6508401": 14,
		"a7352eb3": 10,
		"157686d1": 11,
		"85eeb396": 0,
		"5645d056": 0,
		"318d01be": 0,
		"1f6fcd5f": 9,
		"35716053": 12,
		"43af7bae": 10,
		"f025c636": 9,
		"d1fd40f2": 11,
		"c7c6593c": 10,
		"691c041d": 8,
	}
	seen := 0
	for i := range index.Len() {
		window, known := windows[index.Entry(i).ID[:8]]
		if !known {
			continue
		}
		seen++
		samples, err := index.Samples(i, nil)
		require.NoError(t, err)
		run := index.Entry(i).Run
		require.Equal(t, "rna004", run.Chemistry())
		current := make([]float32, len(samples))
		for k, level := range samples {
			current[k] = index.Entry(i).Calibration.Picoamperes(level)
		}
		got := RNAAdapter(current, run.SampleRate)
		if window == 0 {
			assert.Zero(t, got, "read %d", i)
			continue
		}
		assert.InDelta(t, 250*window, got, 300, "read %d", i)
	}
	assert.Len(t, windows, seen)
}

func TestRNAAdapter(t *testing.T) {
	levels := func(parts ...float32) []float32 { // samples, pA, samples, pA ...
		rng := rand.New(rand.NewPCG(1, 1))
		var current []float32
		for i := 0; i < len(parts); i += 2 {
			for range int(parts[i]) {
				current = append(current, parts[i+1]+float32(rng.NormFloat64()*3))
			}
		}
		return current
	}
	for _, test := range []struct {
		name    string
		current []float32
		want    int
	}{
		{"nothing", nil, 0},
		{"short", levels(300, 60), 0},
		{"adapter and tail", levels(2400, 55, 1500, 85, 9000, 70), 2400},
		{"no tail", levels(9000, 70), 0},
		{"spike", levels(1200, 55, 350, 85, 1300, 55, 1500, 85, 9000, 70), 2850},
		{"too late", levels(21000, 55, 1500, 85, 40000, 70), 0},
		{"in the second half", levels(2400, 55, 1500, 85), 0},
		{"small step", levels(2400, 55, 1500, 65, 9000, 70), 0},
	} {
		assert.InDelta(t, test.want, RNAAdapter(test.current, 4000), 60, test.name)
	}
	assert.Zero(t, RNAAdapter(levels(2400, 55, 1500, 85, 9000, 70), 10), "rate")
}
