package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// measureGPU runs scripts/gpu.sh, and returns its report and what it says.
func measureGPU(t *testing.T, env ...string) (report, says string, err error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "report.md")
	cmd := exec.CommandContext(t.Context(), filepath.Join(root(), "scripts", "gpu.sh"))
	cmd.Env = append(append(os.Environ(), "PORE="+filepath.Join(bin, "pore"), "OUT="+out), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	written, readErr := os.ReadFile(out)
	if readErr != nil {
		require.ErrorIs(t, readErr, os.ErrNotExist)
	}
	return string(written), stderr.String(), err
}

// TestGPUScript tries what make gpu runs as far as that goes without a GPU.
func TestGPUScript(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for half a minute: not with -short")
	}
	t.Parallel()
	library, err := filepath.Abs(filepath.Join(root(), ".deps", "onnxruntime", "libonnxruntime.so"))
	require.NoError(t, err)
	runtime := "ORT_LIB=" + library

	t.Run("on the CPU", func(t *testing.T) {
		report, says, err := measureGPU(t, "DEVICE=cpu", runtime)
		require.NoError(t, err, says)
		for _, want := range []string{
			"# Basecalling, measured on cpu\n", "| recording | reads.pod5 |", "\n## r9.4-fast\n",
			"model r9.4-fast runs on cpu", "\n|     1 | ", "\n|     4 | ", "| cpu    | fp16      | fp32   |     1 |", "| cpu    | int8      | fp32   |     1 |", "from the last chunk to the call\n",
		} {
			require.Contains(t, report, want)
		}
		require.NotContains(t, report, "It failed")
		require.NotContains(t, report, bin, "paths of the machine are nobody's business")
	})

	// A driver that has a GPU, and a runtime that can't use it: each measurement fails, and
	// the report says how.
	t.Run("a GPU that fails", func(t *testing.T) {
		fake := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(fake, "nvidia-smi"), []byte("#!/bin/sh\necho '0, Some GPU, 999.1, 16 MiB, 70 W'\n"), 0o700))
		report, says, err := measureGPU(t, "DEVICE=cuda:7", "MODELS=r9.4-fast", "SAMPLES=1", runtime, "PATH="+fake+":"+os.Getenv("PATH"))
		require.Error(t, err)
		require.Contains(t, says, "gpu: 4 of the measurements failed, which the report tells: pore model verify --device cuda:7 r9.4-fast\n")
		require.Contains(t, report, "| GPU, driver, memory, power limit | 0, Some GPU, 999.1, 16 MiB, 70 W |\n")
		require.Contains(t, report, "**It failed:** pore model verify: loading model r9.4-fast: device cuda:7 can't be used")
	})

	t.Run("no GPU", func(t *testing.T) {
		fake := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(fake, "nvidia-smi"), []byte("#!/bin/sh\necho 'No devices were found'\nexit 6\n"), 0o700))
		report, says, err := measureGPU(t, "DEVICE=cuda:0", runtime, "PATH="+fake+":"+os.Getenv("PATH"))
		require.Error(t, err)
		require.Equal(t, "gpu: no NVIDIA GPU can be used here (nvidia-smi: No devices were found); make gpu DEVICE=cpu tries the same on the CPU\n", says)
		require.Empty(t, report)
	})
}
