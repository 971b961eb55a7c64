//go:build linux

package infer

import (
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standIn compiles a library that stands in for CUDA's driver; see testdata/cuda.c.
func standIn(t *testing.T) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler: ", err)
	}
	path := filepath.Join(t.TempDir(), "cuda.so")
	out, err := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-o", path, filepath.Join("testdata", "cuda.c")).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// TestDriverReports what there is, and in one line why a GPU can't be used, before the runtime is asked.
func TestDriverReports(t *testing.T) {
	library := standIn(t)
	gpu, err := inspectDevice(Device{CUDA: true, Index: 1}, library)
	require.NoError(t, err)
	assert.Equal(t, GPU{Name: "Stand-in B", Capability: "6.1", Memory: 8 << 30}, gpu)
	assert.Equal(t, "Stand-in B (compute capability 6.1, 8 GiB)", gpu.String())
	d, err := openDriver(library)
	require.NoError(t, err)
	assert.Equal(t, 13020, d.cudaVersion())

	for _, c := range []struct {
		name, library string
		index         int
		want          string
	}{
		{"no driver", "libno-such-cuda.so.1", 0, "device cuda:0 can't be used: there is no NVIDIA driver here (libno-such-cuda.so.1: cannot open shared object file: No such file or directory); install it, or in a container have it mounted (--gpus, NVIDIA's runtime)"},
		{"another library", "libc.so.6", 0, "device cuda:0 can't be used: libc.so.6 has no function cuInit; check the driver with nvidia-smi"},
		{"no such GPU", library, 2, "device cuda:2 can't be used: CUDA sees 2 here, counted from 0; CUDA_VISIBLE_DEVICES may hide others"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := inspectDevice(Device{CUDA: true, Index: c.index}, c.library)
			require.EqualError(t, err, c.want)
		})
	}
	t.Setenv("PORESTREAM_STANDIN_NO_GPU", "1")
	_, err = inspectDevice(Device{CUDA: true}, library)
	require.EqualError(t, err, "device cuda:0 can't be used: CUDA's driver doesn't start: error 100, no GPU that CUDA can use; check the driver with nvidia-smi")
}

// held returns what the stand-in has given and not had back: 10,000 for a context and 1 for a block.
func held(t *testing.T, library string) int64 {
	t.Helper()
	gpu, err := inspectDevice(Device{CUDA: true}, library)
	require.NoError(t, err)
	return 1<<34 - gpu.Memory
}

// TestPinnedMemory is had from the driver and given back to it, is 0, and where the driver has none it is
// the process' own, which is logged once.
func TestPinnedMemory(t *testing.T) {
	library := standIn(t)
	var log strings.Builder
	memory := hostMemoryFor(Device{CUDA: true}, library, slog.New(slog.NewTextHandler(&log, nil)))
	var all []*hostMemory
	for _, size := range []int{1, 4096, 1 << 20} {
		m := memory(size)
		assert.True(t, m.pinned())
		assert.Equal(t, make([]byte, size), m.data)
		m.data[size-1] = 7
		all = append(all, m)
	}
	floats := memory(12)
	copy(floats.floats(), []float32{1, 2, 3})
	assert.Equal(t, []uint16{0, 0x3f80, 0, 0x4000, 0, 0x4040}, floats.halves())
	assert.Equal(t, int64(40004), held(t, library), "four contexts, four blocks")
	for _, m := range append(all, floats) {
		m.release()
		m.release()
	}
	assert.Zero(t, held(t, library))
	assert.Empty(t, log.String())

	for range 2 {
		m := memory(2 << 20)
		assert.False(t, m.pinned(), "it has no more")
		assert.Equal(t, make([]byte, 2<<20), m.data)
		m.release()
	}
	assert.Equal(t, 1, strings.Count(log.String(), "host memory can't be pinned"))
	assert.Contains(t, log.String(), "error 2, out of memory")
	assert.Zero(t, held(t, library))

	assert.False(t, hostMemoryFor(Device{}, library, nil)(8).pinned(), "a CPU needs none")
	none := hostMemoryFor(Device{CUDA: true}, "libno-such-cuda.so.1", slog.New(slog.NewTextHandler(&log, nil)))
	assert.False(t, none(8).pinned())
}

// TestFitHost: the scores of a batch stay within the memory that a host has for them.
func TestFitHost(t *testing.T) {
	bytes, floats := form{kind: ScoresBytes}, form{kind: ScoresFloat}
	for _, c := range []struct {
		name string
		net  Network
		want int
	}{
		{"r9.4-hac", Network{Frames: 720, Classes: 1024, form: bytes}, 2048},
		{"r9.4-hac in floats", Network{Frames: 720, Classes: 1024, form: floats}, 512},
		{"five classes", Network{Frames: 1200, Classes: 5, form: floats}, 2048},
		{"five-mers", Network{Frames: 1666, Classes: 4096, form: bytes}, 256},
		{"nothing fits", Network{Frames: 1 << 20, Classes: 1 << 12, form: floats}, 1},
	} {
		assert.Equal(t, c.want, c.net.fitHost(2048), c.name)
	}
}

// TestErrorsOfRunsSayWhatToDo: a library without code for a GPU fails with the first batch.
func TestErrorsOfRunsSayWhatToDo(t *testing.T) {
	gpu := GPU{Name: "GTX 1060", Capability: "6.1", Memory: 6 << 30}
	err := explainRun(errorString("trying network n: CUDA failure 209: no kernel image is available for execution on the device"), Device{CUDA: true}, gpu)
	require.EqualError(t, err, "device cuda:0 can't be used: this build of ONNX Runtime and its libraries have no code for the GTX 1060 (compute capability 6.1, 6 GiB) "+
		"(trying network n: CUDA failure 209: no kernel image is available for execution on the device); take one that is for it, or --device cpu")
	other := errorString("out of memory")
	assert.Equal(t, error(other), explainRun(other, Device{CUDA: true}, gpu))
	require.NoError(t, explainRun(nil, Device{CUDA: true}, gpu))
	cpu := errorString("no kernel image is available")
	assert.Equal(t, error(cpu), explainRun(cpu, Device{}, gpu))
}
