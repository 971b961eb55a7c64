package convert_test

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/network/convert"
)

// TestKeras3: tiny3 was saved by Keras 3.15, as a zip, in which weights are numbered in groups that are named after classes, and as HDF5; both say of
// random bases what Keras says.
func TestKeras3(t *testing.T) {
	t.Parallel()
	name := filepath.Join("testdata", "tiny3")
	for _, form := range []string{".keras", ".h5"} {
		t.Run(form, func(t *testing.T) {
			m, files, err := convert.Convert([]string{name + form}, options())
			require.NoError(t, err)
			require.Equal(t, 8, m.Input.Context)
			agree(t, files, name, 101)
		})
	}
}

// zipOf writes files of a zip anew, changed.
func zipOf(t *testing.T, from string, change func(name string, data []byte) []byte) string {
	t.Helper()
	z, err := zip.OpenReader(from)
	require.NoError(t, err)
	defer z.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		if data = change(f.Name, data); data == nil {
			continue
		}
		part, err := w.Create(f.Name)
		require.NoError(t, err)
		_, err = part.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	to := filepath.Join(t.TempDir(), "bad.keras")
	require.NoError(t, os.WriteFile(to, out.Bytes(), 0o600))
	return to
}

func TestKeras3Refused(t *testing.T) {
	t.Parallel()
	const layers, weights = "config.json", "model.weights.h5"
	good := filepath.Join("testdata", "tiny3.keras")
	for _, tt := range []struct{ name, file, from, to, want string }{
		{"no JSON", layers, `"class_name": "Functional"`, `"class_name"; "Functional"`, "its config.json isn't that of a network of Keras 2 or 3"},
		{"another kind", layers, `"Functional", "config"`, `"Sequential", "config"`, `of class "Sequential"`},
		{"another layer", layers, `"class_name": "Cropping1D"`, `"class_name": "LayerNormal"`, "is of class LayerNormal, which is not known"},
		{"a leaky ReLU", layers, `"negative_slope": 0.0`, `"negative_slope": 0.1`, "layer re_lu is a ReLU with a slope"},
		{"a bounded ReLU", layers, `"max_value": null`, `"max_value": 6.0`, "layer re_lu is a ReLU with a slope"},
		{"an argument of its own", layers, `"__keras_tensor__"`, `"__numpy__"`, "is called with what isn't understood"},
		{"in training", layers, `"training": false`, `"training": true`, "layer dropout is called as in training"},
		{"normalised in training", layers, `["conv1d", 0, 0]}}], "kwargs": {}`, `["conv1d", 0, 0]}}], "kwargs": {"training": true}`, "is called as in training"},
		{"another axis, on lines of its own", layers, `"axis": -1`, `"axis": [` + "\n1\n]", "layer batch_normalization normalises axis 1, not channels"},
		{"two outputs", layers, `"output_layers": ["conv1d_4", 0, 0]`, `"output_layers": [["conv1d_4", 0, 0], ["add", 0, 0]]`, "it has 2 outputs, not one"},
		{"another width", layers, `"kernel_size": [3]`, `"kernel_size": [5]`, "has the shape [3 2 2], not [5 2 2]"},
		{"a bias more", layers, `"use_bias": false`, `"use_bias": true`, "layer conv1d_3 has 1 weights, not 2"},
		{"a layer without weights", layers, `"name": "odd"`, `"name": "even"`, `layer "odd" is called, and not there`},
		{"weights of another layer", weights, "left_out", "left_off", "layer left_out has no weights"},
		{"an early version", weights, "layers", "lagers", "has no group layers, as Keras 3 writes it"},
		{"no HDF5", weights, "\x89HDF", "\x89HDE", "its model.weights.h5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := false
			file := zipOf(t, good, func(name string, data []byte) []byte {
				if name != tt.file {
					return data
				}
				out := bytes.ReplaceAll(data, []byte(tt.from), []byte(tt.to))
				changed = !bytes.Equal(out, data)
				return out
			})
			require.True(t, changed)
			_, _, err := convert.Convert([]string{file}, options())
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "bad.keras")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	part := zipOf(t, good, func(name string, data []byte) []byte {
		if strings.HasSuffix(name, ".h5") {
			return nil
		}
		return data
	})
	_, _, err := convert.Convert([]string{part}, options())
	require.Error(t, err, "a zip without weights is no network of Keras")
	require.NotContains(t, err.Error(), "\n")
}
