package basecall

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// logitsInPython writes what ONNX Runtime makes of windows [N,1,T] in Python, as [T/stride,N,C].
const logitsInPython = `
import sys, numpy, onnxruntime
network, windows, logits, samples = sys.argv[1:]
session = onnxruntime.InferenceSession(network, providers=["CPUExecutionProvider"])
signal = numpy.fromfile(windows, "<f4").reshape(-1, 1, int(samples))
session.run(["logits"], {"signal": signal})[0].astype("<f4").tofile(logits)
`

// TestLogitsAreThoseOfPython compares what the engine's session says of windows of real
// reads, each computed alone, with the package onnxruntime, which has them all at once.
func TestLogitsAreThoseOfPython(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "onnxruntime numpy", "onnxruntime", "numpy")
	reads := recorded(t, testenv.Recordings(t, "reference-model/klebsiella-48.blow5"), 3)
	c := newCaller(t, referenceModel(t, "deepnano-rnn64"), Config{Batch: 3})
	samples, frames, classes := c.windows.samples, c.network.Frames, c.network.Classes

	var input []byte
	var have [][]float32
	for _, read := range reads {
		f, err := newFeed(c.windows, c.model.Manifest.Normalisation, read.Calibration)
		require.NoError(t, err)
		f.write(read.Samples)
		f.end()
		p := c.batcher.NewProducer(1)
		for range 10 {
			_, req := nextScores(t, c, p, f)
			input, err = binary.Append(input, binary.LittleEndian, req.Input[:samples])
			require.NoError(t, err)
			have = append(have, append([]float32(nil), req.Output[:frames*classes]...))
		}
		p.Close()
		f.release()
	}

	windows, logits := filepath.Join(t.TempDir(), "windows.f32"), filepath.Join(t.TempDir(), "logits.f32")
	require.NoError(t, os.WriteFile(windows, input, 0o600))
	out, err := exec.CommandContext(t.Context(), python, "-c", logitsInPython, testenv.Recordings(t, "reference-model/deepnano-rnn64.onnx"), windows, logits, strconv.Itoa(samples)).CombinedOutput()
	require.NoError(t, err, "%s", out)
	raw, err := os.ReadFile(logits)
	require.NoError(t, err)
	want := make([]float32, len(raw)/4)
	_, err = binary.Decode(raw, binary.LittleEndian, want)
	require.NoError(t, err)
	require.Len(t, want, len(have)*frames*classes)

	var farthest, largest float64
	for n, scores := range have {
		for frame := range frames {
			for class := range classes {
				w := float64(want[(frame*len(have)+n)*classes+class])
				farthest = math.Max(farthest, math.Abs(float64(scores[frame*classes+class])-w))
				largest = math.Max(largest, math.Abs(w))
			}
		}
	}
	t.Logf("%d windows, logits of up to %.1f: farthest %.2g", len(have), largest, farthest)
	assert.LessOrEqual(t, farthest, 1e-5)
	assert.Greater(t, largest, 1.0)
}
