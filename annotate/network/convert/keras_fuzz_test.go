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

// FuzzKeras3 is the same for zips of Keras 3, of which the layers are what the fuzzer changes: a zip's checksums hide all else from it.
func FuzzKeras3(f *testing.F) {
	tiny, err := os.ReadFile(filepath.Join("testdata", "tiny3.keras"))
	require.NoError(f, err)
	layers, _ := zipped(bytes.NewReader(tiny), int64(len(tiny)))
	text, err := unzip(layers, maxLayersFile)
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		model, err := parseModel(text, "its "+layersFile)
		if err != nil {
			return
		}
		k := newKeras()
		k.numbered = map[string]*hdf5.Object{}
		if _, _, err := k.build(model); err != nil {
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"))
		}
	})
}
