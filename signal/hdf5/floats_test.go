package hdf5

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

const floatsScript = `
import sys, h5py, numpy as np
a = (np.arange(24).reshape(2, 3, 4) / 7 - 1)
for name, options in (("old", {}), ("new", {"libver": "latest"})):
    with h5py.File(f"{sys.argv[1]}/{name}.h5", "w", **options) as f:
        f["single"] = a.astype("<f4")
        f["double"] = a
        f["big"] = a.astype(">f4")
        f["one"] = np.float32(1.5)
        f["none"] = np.zeros((0, 3), "<f4")
        f["whole"] = np.arange(3)
        f["half"] = a.astype("<f2")
        f.create_dataset("pieces", data=a.astype("<f4"), chunks=(1, 3, 4))
        f.create_dataset("unwritten", shape=(5,), dtype="<f4")
`

// TestFloatsAreReadAsTheHDFGroupWritesThem reads what the HDF Group's library wrote, in its old format and its newest.
func TestFloatsAreReadAsTheHDFGroupWritesThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "h5py", "h5py")
	out, err := exec.CommandContext(t.Context(), python, "-c", floatsScript, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var want []float32
	for i := range 24 {
		want = append(want, float32(float64(i)/7-1))
	}
	for _, version := range []string{"old", "new"} {
		data, err := os.ReadFile(filepath.Join(dir, version+".h5"))
		require.NoError(t, err)
		f, err := Open(data)
		require.NoError(t, err)
		root, err := f.Root()
		require.NoError(t, err)
		floats := func(name string) (*Floats, error) {
			o, err := root.Open(name)
			require.NoError(t, err)
			return o.Floats()
		}
		for _, name := range []string{"single", "double", "big"} {
			got, err := floats(name)
			require.NoError(t, err)
			require.Equal(t, &Floats{Shape: []int{2, 3, 4}, Data: want}, got, name)
		}
		got, err := floats("one")
		require.NoError(t, err)
		require.Equal(t, &Floats{Data: []float32{1.5}}, got)
		got, err = floats("none")
		require.NoError(t, err)
		require.Equal(t, &Floats{Shape: []int{0, 3}, Data: []float32{}}, got)
		for name, want := range map[string]string{
			"whole": "is of class 0, not of floating-point numbers", "half": "aren't IEEE 754's", "pieces": "is in chunks", "unwritten": "was never written",
		} {
			_, err := floats(name)
			require.ErrorContains(t, err, want, name)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "old.h5"))
	require.NoError(t, err)
	at := bytes.Index(data, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(want[0])), math.Float32bits(want[1])))
	require.Positive(t, at)
	_, err = Open(data[:at])
	require.Error(t, err)
}
