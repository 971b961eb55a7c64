package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
