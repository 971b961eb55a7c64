package folder

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKindOf(t *testing.T) {
	for _, tt := range []struct {
		manifest string
		want     Kind
		err      string
	}{
		{"format = 1\n", Basecaller, ""},
		{"format = 1\nkind = \"variant\"\n[network]\nfile = \"x\"\n", Variant, ""},
		{"kind = \"other\"\n", "", `manifest.toml: kind = "other" is none that this version knows`},
		{"kind = 1\n", "", "manifest.toml: line 1, column 8: kind"},
		{"kind\n", "", "manifest.toml: line 1"},
	} {
		kind, err := KindOf(fstest.MapFS{Manifest: {Data: []byte(tt.manifest)}})
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err)
			assert.NotContains(t, err.Error(), "\n")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, tt.want, kind)
	}
	_, err := KindOf(fstest.MapFS{})
	require.ErrorContains(t, err, Manifest)
	_, err = KindOf(fstest.MapFS{Manifest: {Data: bytes.Repeat([]byte("#"), maxManifestBytes+1)}})
	require.ErrorContains(t, err, "larger than 1048576 bytes")
}

func TestDecode(t *testing.T) {
	var into struct {
		Kind Kind `toml:"kind"`
		Name string
	}
	require.NoError(t, Decode([]byte("kind = \"variant\"\nname = \"x\"\n"), Variant, &into))
	assert.Equal(t, "x", into.Name)
	require.EqualError(t, Decode([]byte("kind = \"variant\"\n"), Basecaller, &into), "it is the manifest of a variant model, not of a basecalling model")
	require.EqualError(t, Decode([]byte("name = \"x\"\n"), Variant, &into), "it is the manifest of a basecalling model, not of a variant model")
	require.EqualError(t, Decode([]byte("kind = \"variant\"\nnane = \"x\"\n"), Variant, &into), `line 2: unknown key "nane"`)
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Open(dir)
	require.NoError(t, err)
	_, err = Open(file)
	require.ErrorContains(t, err, file+" is not a folder")
	_, err = Open(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "none")
}

func TestNetwork(t *testing.T) {
	fsys := fstest.MapFS{"model.onnx": {Data: []byte("network")}}
	sum := fmt.Sprintf("%X", sha256.Sum256([]byte("network")))
	b, err := Network(fsys, "network.sha256", "model.onnx", sum)
	require.NoError(t, err)
	assert.Equal(t, "network", string(b))
	_, err = Network(fsys, "network.sha256", "model.onnx", sum[2:]+"00")
	require.ErrorContains(t, err, "but manifest.toml says network.sha256 = ")
	_, err = Network(fsys, "network.sha256", "other.onnx", sum)
	require.ErrorContains(t, err, "other.onnx")
}

func TestFaults(t *testing.T) {
	var f Faults
	f.Check(true, "fine")
	f.CheckFile("file", "model.onnx", "sha256", fmt.Sprintf("%x", sha256.Sum256(nil)))
	require.NoError(t, f.Err())
	f.CheckFile("file", "../model.onnx", "sha256", "12")
	f.Check(false, "%d is odd", 3)
	require.EqualError(t, f.Err(), `file = "../model.onnx" is not a file name within the model's folder; sha256 = "12" is not 64 hexadecimal digits; 3 is odd`)
}
