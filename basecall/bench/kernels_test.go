package bench

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/convert"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// lambdaReads returns the shortest of the shipped recording's reads, of so many samples in all.
func lambdaReads(t *testing.T, most int) []basecall.Read {
	t.Helper()
	recording, err := signal.NewIndex(t.Context(), []string{filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")})
	require.NoError(t, err)
	defer recording.Close()
	var reads []basecall.Read
	for i := range recording.Len() {
		entry := recording.Entry(i)
		samples, err := recording.Samples(i, nil)
		require.NoError(t, err)
		if len(samples) > 30_000 || len(samples) > most {
			continue
		}
		most -= len(samples)
		reads = append(reads, basecall.Read{ID: entry.ID, Samples: samples, SampleRate: entry.Run.SampleRate, Calibration: entry.Calibration})
	}
	return reads
}

// TestKernelsCallAsThePlainGraphDoes calls real reads with the shipped models' networks
// rewritten for operators of our own, whose kernels for the CPU compute what those for GPUs do, and with the
// networks as they are.
func TestKernelsCallAsThePlainGraphDoes(t *testing.T) {
	testenv.SkipUnchanged(t, "operators")
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	open(t) // or skip
	samples := 60_000
	if testenv.All() {
		samples = 300_000
	}
	reads := lambdaReads(t, samples)
	for _, tt := range []struct {
		model      string
		precisions []infer.Precision
		least      float64
	}{
		{"r9.4-fast", []infer.Precision{infer.PrecisionHalf, infer.PrecisionAuto}, 0.999},
		// It remembers thousands of samples, so that where two sequences are about as likely halves
		// may take the other: on a GPU 99.79 % of the columns were the same, too.
		{"r9.4-hac", []infer.Precision{infer.PrecisionHalf}, 0.997},
	} {
		model, err := basecall.OpenModel(filepath.Join("..", "..", "models", tt.model))
		require.NoError(t, err)
		plain := basecall.Config{Device: "cpu", WholeWindows: true}
		plain.Precision = infer.PrecisionSingle
		want, _, err := callSequences(t.Context(), model, plain, reads)
		require.NoError(t, err)
		for _, precision := range tt.precisions {
			t.Run(tt.model+" "+precision.String(), func(t *testing.T) {
				kernels := plain
				kernels.Precision, kernels.Kernels = precision, infer.KernelsAlways
				have, on, err := callSequences(t.Context(), model, kernels, reads)
				require.NoError(t, err)
				a := compareSequences(reads, want, have)
				assert.Equal(t, 7, on.kernels)
				t.Logf("%d of %d reads alike, %d edits in %d columns, identity %.4f %%", a.Identical, a.Reads, a.Edits, a.Columns, 100*a.Identity)
				assert.Greater(t, a.Columns, int64(samples/20))
				assert.GreaterOrEqual(t, a.Identity, tt.least)
			})
		}
	}
}

// TestKernelsDecodeAsGoDoes calls real reads with networks whose operators decode, and with those whose scores are decoded in
// Go: sequences, qualities and moves are the same.
func TestKernelsDecodeAsGoDoes(t *testing.T) {
	testenv.SkipUnchanged(t, "operators")
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	open(t) // or skip
	for _, tt := range []struct {
		model     string
		precision infer.Precision
		samples   int
	}{
		{"r9.4-fast", infer.PrecisionAuto, 30_000},
		{"r9.4-fast", infer.PrecisionHalf, 30_000},
		{"r9.4-hac", infer.PrecisionHalf, 20_000},
	} {
		t.Run(tt.model+" "+tt.precision.String(), func(t *testing.T) {
			model, err := basecall.OpenModel(filepath.Join("..", "..", "models", tt.model))
			require.NoError(t, err)
			reads := lambdaReads(t, tt.samples)
			require.NotEmpty(t, reads)
			assertDecodedAlike(t, model, tt.precision, reads)
		})
	}
}

// TestKernelsDecodeCTCAsGoDoes: the same with a network trained by CTC, which has no layers with kernels.
func TestKernelsDecodeCTCAsGoDoes(t *testing.T) {
	testenv.SkipUnchanged(t, "operators")
	folder := testenv.Path(t, "PORESTREAM_BONITO_MODEL", "the folder of the network in ont-bonito 0.2.3")
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	model, err := convert.Convert(folder, convert.Options{})
	require.NoError(t, err)
	assertDecodedAlike(t, model, infer.PrecisionAuto, lambdaReads(t, 30_000))
}

// assertDecodedAlike calls reads with an operator that decodes, and with the decoder in Go: sequences, qualities and
// moves are the same.
func assertDecodedAlike(t *testing.T, model *basecall.Model, precision infer.Precision, reads []basecall.Read) {
	t.Helper()
	call := func(form infer.ScoreForm) (all []basecall.Called) {
		cfg := basecall.Config{Device: "cpu", Batch: 3, Sessions: 1, WholeWindows: true}
		cfg.Precision, cfg.Scores = precision, form
		if cfg.Kernels = infer.KernelsAlways; model.Manifest.Decoder.Type == "ctc" && form != infer.ScoresAuto {
			cfg.Kernels = infer.KernelsOff
		}
		c, err := basecall.NewCaller(model, cfg)
		require.NoError(t, err)
		defer c.Close()
		assert.Equal(t, form == infer.ScoresAuto, c.Kernels().Decodes)
		for _, read := range reads {
			called, err := c.Call(t.Context(), read)
			require.NoError(t, err)
			all = append(all, called)
		}
		return all
	}
	want := call(infer.ScoresFloat)
	assert.Greater(t, len(want[0].Sequence), 200)
	assert.Equal(t, want, call(infer.ScoresAuto))
}
