package convert

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/signal"
)

// realRead returns the beginning of a real read, recorded at another rate than it
// was if the model is for that.
func realRead(t *testing.T, n, rate int) basecall.Read {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{"../../testdata/lambda"})
	require.NoError(t, err)
	defer index.Close()
	for i := range index.Len() {
		samples, err := index.Samples(i, nil)
		require.NoError(t, err)
		if len(samples) >= n {
			entry := index.Entry(i)
			return basecall.Read{ID: entry.ID, Samples: samples[:n], SampleRate: rate, Calibration: entry.Calibration}
		}
	}
	t.Fatal("no read is long enough")
	return basecall.Read{}
}

func call(t *testing.T, model *basecall.Model, cfg basecall.Config, read basecall.Read) basecall.Called {
	t.Helper()
	cfg.Device = "cpu"
	caller, err := basecall.NewCaller(model, cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, caller.Close()) }()
	called, err := caller.Call(t.Context(), read)
	require.NoError(t, err)
	return called
}

// TestConvertedModelsCall saves converted models, opens them again and calls a
// read: with any size of batch and number of sessions alike.
func TestConvertedModelsCall(t *testing.T) {
	for _, name := range []string{"dna_r9.4.1_small@v3.0", "dna_r10.4.1_small@v4.0.0.dorado", "dna_r10.4.1_small@v5.0.0", "dna_r10.4.1_small@v6.0.0", "dna_r10.4.1_small@v6.1.0", "dna_r9.4.1_small@v2"} {
		t.Run(name, func(t *testing.T) {
			converted, err := Convert(filepath.Join(golden, name), Options{})
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "models", name)
			require.NoError(t, converted.Save(dir))
			require.ErrorContains(t, converted.Save(dir), "exists already")
			model, err := basecall.OpenModel(dir)
			require.NoError(t, err)
			assert.Equal(t, converted, model)

			read := realRead(t, 20_003, model.Manifest.SampleRates[0])
			want := call(t, model, basecall.Config{Batch: 8, Sessions: 2}, read)
			require.NotEmpty(t, want.Sequence)
			assert.Len(t, want.Qualities, len(want.Sequence))
			assert.Len(t, want.Moves, len(read.Samples)/model.Manifest.Network.Stride)
			ones := 0
			for _, move := range want.Moves {
				ones += int(move)
			}
			assert.Equal(t, len(want.Sequence), ones)
			for _, cfg := range []basecall.Config{{Batch: 1, Sessions: 1}, {Batch: 5, Sessions: 1}} {
				assert.Equal(t, want, call(t, model, cfg, read))
			}
		})
	}
}

// TestWindowsStitchAsTheWhole calls a read in many windows and in one. The scores
// in the middle of windows differ by rounding alone, since recurrent layers forget.
//
// A network of random weights hardly follows the signal, and many sequences are as
// probable as each other: the same few bases over and over, each beginning at
// another place. So the signal is made loud, and the path of highest posterior
// probability is taken; package basecall tests both searches on scores that favour
// one sequence.
func TestWindowsStitchAsTheWhole(t *testing.T) {
	for _, test := range []struct {
		name  string
		bases int
	}{{"dna_r9.4.1_small@v3.0", 20}, {"dna_r9.4.1_small@v3.3", 2000}} {
		t.Run(test.name, func(t *testing.T) {
			model, err := Convert(filepath.Join(golden, test.name), Options{})
			require.NoError(t, err)
			m := &model.Manifest
			m.Decoder.BeamWidth = 0
			m.Normalisation = basecall.NormalisationManifest{Method: "pa", Mean: 90, StdDev: 0.5}
			read := realRead(t, 18_000, m.SampleRates[0])
			m.Window = basecall.WindowManifest{Samples: 18_000}
			whole := call(t, model, basecall.Config{Batch: 1, Sessions: 1}, read)
			m.Window = basecall.WindowManifest{Samples: 3000, Overlap: 600}
			windows := call(t, model, basecall.Config{Batch: 3, Sessions: 1}, read)
			require.Greater(t, len(whole.Sequence), test.bases)
			assert.Equal(t, string(whole.Sequence), string(windows.Sequence))
			assert.Equal(t, whole.Moves, windows.Moves)
			require.Len(t, windows.Qualities, len(whole.Qualities))
			for i, q := range whole.Qualities {
				assert.InDelta(t, q, windows.Qualities[i], 1)
			}
		})
	}
}
