package convert_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/network"
	"github.com/porestream/porestream/annotate/network/convert"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/testenv"
)

// contexts of the published networks, by their number of residual units.
var contexts = map[int]int{4: 80, 8: 400, 12: 2000, 16: 10_000}

// stateDicts has PyTorch make networks, and returns the folder.
func stateDicts(t *testing.T) string {
	t.Helper()
	testenv.SkipUnchanged(t, "networks")
	dir := t.TempDir()
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "torch", "torch")
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "splicing.py"), dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// replaced returns a state dict with other names of tensors.
func replaced(t *testing.T, good []byte, from, to string) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(good), int64(len(good)))
	require.NoError(t, err)
	var bad bytes.Buffer
	out := zip.NewWriter(&bad)
	found := false
	for _, f := range in.File {
		r, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(r)
		require.NoError(t, err)
		found = found || bytes.Contains(data, []byte(from))
		w, err := out.Create(f.Name)
		require.NoError(t, err)
		_, err = w.Write(bytes.ReplaceAll(data, []byte(from), []byte(to)))
		require.NoError(t, err)
	}
	require.NoError(t, out.Close())
	require.True(t, found, from)
	return bad.Bytes()
}

// options are those of a test.
func options() convert.Options {
	return convert.Options{Name: "made-up", Info: "Splice", Licence: "CC0-1.0", Distance: 50}
}

// load opens what a conversion gave.
func load(t *testing.T, files map[string][]byte) *network.Network {
	t.Helper()
	fsys := make(fstest.MapFS)
	for name, data := range files {
		fsys[name] = &fstest.MapFile{Data: data}
	}
	model, err := network.LoadModel(fsys)
	require.NoError(t, err)
	library, err := filepath.Abs(filepath.Join("..", "..", "..", ".deps", "onnxruntime", "libonnxruntime.so"))
	require.NoError(t, err)
	if _, err := os.Stat(library); err != nil && os.Getenv("CI") != "true" {
		t.Skip("make deps fetches ONNX Runtime")
	}
	n, err := network.New(model, network.Config{Device: "cpu", Library: library})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	return n
}

// TestConvert shares the networks that PyTorch makes, which takes longer than all else.
func TestConvert(t *testing.T) {
	dir := stateDicts(t)
	t.Run("probabilities are PyTorch's", func(t *testing.T) { probabilitiesArePyTorchs(t, dir) })
	t.Run("several networks are averaged", func(t *testing.T) { severalNetworksAreAveraged(t, dir) })
	t.Run("twice gives the same bytes", func(t *testing.T) { twiceGivesTheSameBytes(t, dir) })
	t.Run("refused", func(t *testing.T) { refused(t, dir) })
}

// probabilitiesArePyTorchs: networks of all published depths say of random bases, N among them, what PyTorch computes in
// double precision with padding and cropping.
func probabilitiesArePyTorchs(t *testing.T, dir string) {
	for _, units := range slices.Sorted(maps.Keys(contexts)) {
		t.Run(fmt.Sprint(units, " units"), func(t *testing.T) {
			m, files, err := convert.Convert([]string{filepath.Join(dir, fmt.Sprint(units, ".pt"))}, options())
			require.NoError(t, err)
			require.Equal(t, contexts[units], m.Input.Context)
			agree(t, files, filepath.Join(dir, fmt.Sprint(units)), 101)
		})
	}
}

// agree holds a conversion to the probabilities in NAME.f32 of the windows in NAME.txt.
func agree(t *testing.T, files map[string][]byte, name string, positions int) {
	t.Helper()
	text, err := os.ReadFile(name + ".txt")
	require.NoError(t, err)
	windows := strings.Fields(string(text))
	have, err := load(t, files).Predict(t.Context(), windows)
	require.NoError(t, err)
	data, err := os.ReadFile(name + ".f32")
	require.NoError(t, err)
	want := make([]float32, len(data)/4)
	_, err = binary.Decode(data, binary.LittleEndian, want)
	require.NoError(t, err)
	require.Len(t, have, len(windows))
	for i, one := range have {
		require.Len(t, one, 3*positions)
		for j, p := range one {
			require.InDelta(t, want[i*len(one)+j], p, 2e-6, "window %d, value %d", i, j)
		}
	}
}

// severalNetworksAreAveraged: two networks in a model give the mean of what each gives alone.
func severalNetworksAreAveraged(t *testing.T, dir string) {
	one := filepath.Join(dir, "4.pt")
	m, files, err := convert.Convert([]string{one, one}, options())
	require.NoError(t, err)
	require.Len(t, m.Networks, 2)
	window := strings.Repeat("ACGTTGCAAN", 19)[:181]
	both, err := load(t, files).Predict(t.Context(), []string{window})
	require.NoError(t, err)
	_, files, err = convert.Convert([]string{one}, options())
	require.NoError(t, err)
	alone, err := load(t, files).Predict(t.Context(), []string{window})
	require.NoError(t, err)
	require.InDeltaSlice(t, alone[0], both[0], 1e-7)
	_, _, err = convert.Convert([]string{one, filepath.Join(dir, "8.pt")}, options())
	require.ErrorContains(t, err, "it has 400 bases of context")
	require.ErrorContains(t, err, "such networks aren't averaged")
}

// twiceGivesTheSameBytes lets a checksum say that two labs have the same network.
func twiceGivesTheSameBytes(t *testing.T, dir string) {
	file := filepath.Join(dir, "8.pt")
	_, one, err := convert.Convert([]string{file}, options())
	require.NoError(t, err)
	_, two, err := convert.Convert([]string{file}, options())
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.Contains(t, string(one[folder.Manifest]), "context = 400")
}

// refused names what is wrong with a file that is no such network.
func refused(t *testing.T, dir string) {
	good, err := os.ReadFile(filepath.Join(dir, "4.pt"))
	require.NoError(t, err)
	for _, tt := range []struct{ name, from, to, want string }{
		{"another kind", "initial_skip", "initial_skop", "no network of splicing"},
		{"a tensor is missing", "residual_units.2.conv2.weight", "residual_units.2.konv2.weight", "residual_units.2.conv2.weight is missing"},
		{"a tensor too many", "residual_units.4.conv.bias", "residual_units.5.conv.bias", "residual_units.4.conv.bias is missing"},
		{"no skip", "residual_units.4.conv", "residual_units.9.conv", "4 residual units and 1 skips"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, len(tt.from), len(tt.to))
			file := filepath.Join(t.TempDir(), "bad.pt")
			require.NoError(t, os.WriteFile(file, replaced(t, good, tt.from, tt.to), 0o600))
			_, _, err := convert.Convert([]string{file}, options())
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "bad.pt")
			require.NotContains(t, err.Error(), "\n")
		})
	}
	for name, want := range map[string]string{
		"nan.pt": "residual_units.1.conv2.weight has values that are no numbers", "variance.pt": "residual_units.1.batchnorm1 has the variance -1",
		"scale.pt": "residual_units.1.batchnorm1.weight has values that are no numbers", "width.pt": "residual_units.0.conv1.weight has the shape [8 8 9], not [8 8 11]",
	} {
		_, _, err := convert.Convert([]string{filepath.Join(dir, name)}, options())
		require.ErrorContains(t, err, want)
	}
	empty := filepath.Join(t.TempDir(), "empty.pt")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, _, err = convert.Convert([]string{empty}, options())
	require.ErrorContains(t, err, "empty.pt")
}
