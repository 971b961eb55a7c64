package convert_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/network/convert"
	"github.com/porestream/porestream/testenv"
)

// TestKerasProbabilities: networks that Keras has saved, of both of its forms, say of random bases what PyTorch computes with the same weights, padded.
func TestKerasProbabilities(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	dir := t.TempDir()
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "h5py and torch", "h5py", "torch")
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "keras.py"), dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, context := range map[string]int{"4": 80, "16": 10_000} {
		t.Run(name, func(t *testing.T) {
			opts := options()
			opts.Info = ""
			m, files, err := convert.Convert([]string{filepath.Join(dir, name+".h5")}, opts)
			require.NoError(t, err)
			require.Equal(t, context, m.Input.Context)
			require.Equal(t, "SpliceAI", m.Info)
			agree(t, files, filepath.Join(dir, name), 101)
		})
	}
}

// TestKerasTiny is the same without Python, of a small network.
func TestKerasTiny(t *testing.T) {
	name := filepath.Join("testdata", "tiny")
	m, files, err := convert.Convert([]string{name + ".h5"}, options())
	require.NoError(t, err)
	require.Equal(t, 8, m.Input.Context)
	agree(t, files, name, 101)
	_, again, err := convert.Convert([]string{name + ".h5"}, options())
	require.NoError(t, err)
	require.Equal(t, files, again)
}

func TestKerasRefused(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(filepath.Join("testdata", "tiny.h5"))
	require.NoError(t, err)
	for _, tt := range []struct{ name, from, to, want string }{
		{"no layers", "model_config", "modal_config", "no attribute model_config"},
		{"weights alone", "model_weights", "modal_weights", "no weights of layers"},
		{"no JSON", `"class_name": "Model"`, `"class_name"; "Model"`, "isn't that of a network of Keras 2"},
		{"another kind", `"Model"`, `"Madel"`, `of class "Madel"`},
		{"another layer", `"Cropping1D"`, `"Croping-1D"`, "is of class Croping-1D, which is not known"},
		{"another activation", `"relu"`, `"gelu"`, `has the activation "gelu"`},
		{"more cropping", `"cropping": [4, 4]`, `"cropping": [4, 5]`, "crops [4 5], not the same at both ends"},
		{"too little context", `"cropping": [4, 4]`, `"cropping": [3, 3]`, "its outputs depend on 8 bases around them, and it is given 6"},
		{"other padding", `"padding": "same"`, `"padding": "sane"`, `has the padding "sane"`},
		{"steps", `"strides": [1]`, `"strides": [2]`, "has steps, groups"},
		{"another axis", `"axis": -1`, `"axis": +1`, "isn't that of a network of Keras 2"},
		{"normalising bases", `"axis": -1`, `"axis":  1`, "normalises axis 1, not channels"},
		{"another width", `"kernel_size": [3]`, `"kernel_size": [5]`, "has the shape [3 2 2], not [5 2 2]"},
		{"other channels", `null, 4]`, `null, 5]`, "isn't bases in four channels"},
		{"an even width", `"kernel_size": [3], "strides": [1], "padding": "same", "dilation_rate": [2]`, `"kernel_size": [2], "strides": [1], "padding": "same", "dilation_rate": [1]`, `has the padding "same" at width 2`},
		{"not a layer", `[["add_1", 0, 0`, `[["odd_1", 0, 0`, `layer "odd_1" is called, and not there`},
		{"in a circle", `[[["activation_1", 0, 0`, `[[["activation_2", 0, 0`, "more than 1000 layers"},
		{"no filters", `"filters": 2, "kernel_size": [3]`, `"filters":-2, "kernel_size": [3]`, "normalises -2 channels"},
		{"a weight less", "moving_mean:0", "moving_maen:0", "has no weight moving_mean"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, len(tt.from), len(tt.to))
			require.True(t, bytes.Contains(good, []byte(tt.from)))
			file := filepath.Join(t.TempDir(), "bad.h5")
			require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(good, []byte(tt.from), []byte(tt.to)), 0o600))
			_, _, err := convert.Convert([]string{file}, options())
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "bad.h5")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	file := filepath.Join(t.TempDir(), "cut.h5")
	require.NoError(t, os.WriteFile(file, good[:len(good)/2], 0o600))
	_, _, err = convert.Convert([]string{file}, options())
	require.ErrorContains(t, err, "the file should have")
}
