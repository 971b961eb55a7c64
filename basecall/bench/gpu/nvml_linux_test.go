package gpu

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// library compiles one of the driver's libraries for tests.
func library(t *testing.T, name string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler: ", err)
	}
	path := filepath.Join(t.TempDir(), name+".so")
	out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", path, filepath.Join("testdata", name+".c")).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

func TestDriver(t *testing.T) {
	nvml, cuda := library(t, "nvml"), library(t, "cuda")
	d, err := open(nvml, cuda, []int{1, 0})
	require.NoError(t, err)
	assert.Equal(t, Description{GPUs: []string{"Old GPU", "New GPU"}, Driver: "999.1", CUDA: "13.2"}, d.Description())

	gpus := d.Counters()
	require.Len(t, gpus, 2)
	old, recent := gpus[0], gpus[1]
	_, err = old.Energy()
	require.ErrorIs(t, err, ErrUnsupported)
	_, err = old.Utilisation()
	require.ErrorIs(t, err, ErrUnsupported)
	watts, err := old.Power()
	require.NoError(t, err)
	assert.InDelta(t, 70, watts, 1e-9)

	for _, want := range []float64{5, 7.5} {
		joules, err := recent.Energy()
		require.NoError(t, err)
		assert.InDelta(t, want, joules, 1e-9)
	}
	watts, err = recent.Power()
	require.NoError(t, err)
	assert.InDelta(t, 300.5, watts, 1e-9)
	share, err := recent.Utilisation()
	require.NoError(t, err)
	assert.InDelta(t, 0.85, share, 1e-9)
}

func TestDriverThatCannotBeHad(t *testing.T) {
	nvml, cuda := library(t, "nvml"), library(t, "cuda")
	for _, test := range []struct {
		name, nvml, cuda string
		index            int
		want             string
	}{
		{"no driver", "libno-such-nvml.so.1", cuda, 0, "loading NVIDIA's driver libraries: libno-such-nvml.so.1: cannot open shared object file"},
		{"no CUDA", nvml, "libno-such-cuda.so.1", 0, "loading NVIDIA's driver libraries: libno-such-cuda.so.1: cannot open shared object file"},
		{"no such GPU", nvml, cuda, 3, "finding the PCI address of GPU 3: error 101 of CUDA's driver"},
		{"unknown to the driver", nvml, cuda, 2, "finding GPU 2 at 0000:99:00.0: Not Found"},
		{"other libraries", cuda, cuda, 0, "the GPU has no such counter"},
		{"another CUDA", nvml, nvml, 0, "finding the PCI address of GPU 0: error -1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(test.nvml, test.cuda, []int{test.index})
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}
