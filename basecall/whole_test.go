package basecall

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/scores"
)

// nextScores returns the next window of a read, which is due, and what the network
// makes of it, computed alone.
func nextScores(t *testing.T, c *Caller, p *infer.Producer, f *feed) (window, *infer.Request) {
	t.Helper()
	req := &infer.Request{Input: make([]float32, c.network.Samples), Output: make([]float32, c.network.Frames*c.network.Classes)}
	w, due := f.next(req.Input)
	require.True(t, due)
	require.NoError(t, p.Submit(t.Context(), req))
	req, err := p.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, req.Err)
	return w, req
}

// scoresAtOnce returns what the network makes of a whole read in one window, and
// what is called in that.
func scoresAtOnce(t *testing.T, model Model, read Read) (found []float32, called []base) {
	t.Helper()
	stride := model.Manifest.Network.Stride
	whole := 6 * stride // whole steps of networks that say several frames at each
	model.Manifest.Window = WindowManifest{Samples: (len(read.Samples) + whole - 1) / whole * whole}
	c := newCaller(t, &model, Config{Sessions: 1, Batch: 1})
	defer c.Close()
	f, err := newFeed(c.windows, model.Manifest.Normalisation, read.Calibration)
	require.NoError(t, err)
	defer f.release()
	f.write(read.Samples)
	f.end()
	p := c.batcher.NewProducer(1)
	defer p.Close()
	w, req := nextScores(t, c, p, f)
	called, err = c.decode(scores.OfFloats(req.Output, c.network.Classes), w)
	require.NoError(t, err)
	return req.Output, called
}

func sequenceOf(bases []base) string {
	sequence := make([]byte, len(bases))
	for i, b := range bases {
		sequence[i] = b.label
	}
	return string(sequence)
}

// TestWindowsCallAsTheWholeRead compares what is called in windows, cut and joined,
// with what is called of the whole read at once, both normalised over the read.
//
// Given the scores of the whole read, cutting them into windows, decoding these
// and joining what is called must change nothing that counts. The network itself
// remembers what lies thousands of samples away, and was taught to call the same
// without it; that is measured beside it. docs/explain/windows.md has the figures.
// PORESTREAM_RECORDING names a recording of which all reads are compared, instead of
// some that are shipped.
func TestWindowsCallAsTheWholeRead(t *testing.T) {
	const least = 0.996 // 99.65 % of four reads of lambda, with what windows share today
	reads := 4
	recording := filepath.Join("..", "testdata", "lambda", "reads.pod5")
	if named := os.Getenv("PORESTREAM_RECORDING"); named != "" {
		recording, reads = named, 1<<30
	}
	model := *ownModel(t)
	model.Manifest.Normalisation.Scope, model.Manifest.Normalisation.Warmup = scopeRead, 0
	c := newCaller(t, &model, Config{})
	classes, stride := c.network.Classes, c.windows.stride
	var joining, network struct{ edits, columns int }
	for _, read := range recorded(t, recording, reads) {
		found, atOnce := scoresAtOnce(t, model, read)
		whole := sequenceOf(atOnce)

		var called [][]base
		for i := range c.windows.count(len(read.Samples)) {
			first := c.windows.start(i, len(read.Samples)) / stride
			frames := min(c.network.Frames, len(read.Samples)/stride-first)
			bases, err := c.decode(scores.OfFloats(found[first*classes:(first+frames)*classes], classes), window{index: i, frame: first, frames: frames})
			require.NoError(t, err)
			called = append(called, bases)
		}
		sequence, _, moves := joined(c.windows, called, len(read.Samples))
		require.Len(t, moves, len(read.Samples)/stride)
		edits, columns := editDistance(string(sequence), whole)
		joining.edits, joining.columns = joining.edits+edits, joining.columns+columns

		inWindows, err := c.Call(t.Context(), read)
		require.NoError(t, err)
		edits, columns = editDistance(string(inWindows.Sequence), whole)
		network.edits, network.columns = network.edits+edits, network.columns+columns
	}
	identity := func(edits, columns int) float64 { return 1 - float64(edits)/float64(columns) }
	t.Logf("windows of the whole read's scores: %d edits in %d columns, %.4f %% identical", joining.edits, joining.columns, 100*identity(joining.edits, joining.columns))
	t.Logf("the network in windows: %d edits in %d columns, %.2f %% identical", network.edits, network.columns, 100*identity(network.edits, network.columns))
	assert.GreaterOrEqual(t, identity(joining.edits, joining.columns), 0.999)
	// docs/explain/windows.md says what it is of more reads.
	assert.GreaterOrEqual(t, identity(network.edits, network.columns), least)
}
