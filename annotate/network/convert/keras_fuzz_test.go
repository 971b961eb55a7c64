package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal/hdf5"
)

// FuzzKeras reads files that may be anything: an error is one line, and memory is bounded by the file.
func FuzzKeras(f *testing.F) {
	tiny, err := os.ReadFile(filepath.Join("testdata", "tiny.h5"))
	require.NoError(f, err)
	f.Add(tiny)
	f.Fuzz(func(t *testing.T, data []byte) {
		onnx, context, err := buildKeras(data)
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"))
			return
		}
		require.NotEmpty(t, onnx)
		require.GreaterOrEqual(t, context, 0)
	})
}

// FuzzKeras3 is the same for what is in a zip of Keras 3, as a zip's checksums would hide it from the fuzzer.
func FuzzKeras3(f *testing.F) {
	text, weights := tiny3(f)
	f.Add(text, weights)
	f.Fuzz(func(t *testing.T, text, weights []byte) {
		model, err := parseModel(text, "its "+layersFile)
		var onnx []byte
		if err == nil {
			onnx, _, err = buildNumbered(model, weights)
		}
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err)
			return
		}
		require.NotEmpty(t, onnx)
	})
}

// FuzzFrozen is the same for frozen graphs.
func FuzzFrozen(f *testing.F) {
	tiny, err := os.ReadFile(filepath.Join("testdata", "tiny4.pb"))
	require.NoError(f, err)
	f.Add(tiny)
	f.Fuzz(func(t *testing.T, data []byte) {
		networks, _, err := buildFrozen(data)
		if err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err)
			return
		}
		require.NotEmpty(t, networks)
	})
}

// tiny3 is what is in the zip.
func tiny3(tb testing.TB) (text, weights []byte) {
	tb.Helper()
	tiny, err := os.ReadFile(filepath.Join("testdata", "tiny3.keras"))
	require.NoError(tb, err)
	layers, numbered := zipped(bytes.NewReader(tiny), int64(len(tiny)))
	text, err = unzip(layers, maxLayersFile)
	require.NoError(tb, err)
	weights, err = unzip(numbered, maxKeras)
	require.NoError(tb, err)
	return text, weights
}

// A file in which layers share arrays doesn't take more memory than it has bytes.
func TestWeightsAreBoundedByTheFile(t *testing.T) {
	text, weights := tiny3(t)
	model, err := parseModel(text, "its "+layersFile)
	require.NoError(t, err)
	f, err := hdf5.Open(weights)
	require.NoError(t, err)
	root, err := f.Root()
	require.NoError(t, err)
	numbered, err := groupsByLayer(root)
	require.NoError(t, err)
	for _, tt := range []struct {
		bytes int
		want  string
	}{{len(weights), ""}, {100, "is one more than the file has bytes for"}} {
		k := newKeras(tt.bytes)
		k.numbered = numbered
		if _, _, err = k.build(model); tt.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.want)
		}
	}
}
