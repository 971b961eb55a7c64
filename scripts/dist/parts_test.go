package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCUDAPart: what is linked into the operators' library is in the bill of materials with its licence, as long as that lists it.
func TestCUDAPart(t *testing.T) {
	tools := tools{dir: t.TempDir()}
	_, err := cudaPart(t.TempDir(), tools)
	require.ErrorContains(t, err, "reading the version of CUDA")
	_, err = cudaPart(repository, tools)
	require.ErrorContains(t, err, "libcudart_static.a")

	script, err := os.ReadFile(filepath.Join(repository, "scripts", "kernels.sh"))
	require.NoError(t, err)
	lib := filepath.Join(tools.cuda(), "nvidia", "cu13", "lib", "libcudart_static.a")
	require.NoError(t, writeFile(lib, []byte("runtime")))
	infos, err := cudaPart(repository, tools)
	require.ErrorContains(t, err, "reading a licence")
	assert.Empty(t, infos)

	version := filepath.Join(tools.cuda(), "nvidia_cuda_runtime-13.0.96.dist-info", "licenses", "License.txt")
	require.Contains(t, string(script), "nvidia-cuda-runtime==13.0.96 ")
	require.NoError(t, writeFile(version, []byte("Attachment A: libcudart.so")))
	_, err = cudaPart(repository, tools)
	require.ErrorContains(t, err, "no longer lists libcudart_static.a: read whether it may be passed on")

	require.NoError(t, writeFile(version, []byte("Attachment A: libcudart.so, libcudart_static.a")))
	p, err := cudaPart(repository, tools)
	require.NoError(t, err)
	assert.Equal(t, "pkg:pypi/nvidia-cuda-runtime@13.0.96", p.purl)
	assert.Equal(t, []string{cudaLicence}, p.spdx)
	assert.Len(t, p.sha256, 64)
	assert.Equal(t, "nvidia-cuda-runtime", p.folder())
	assert.Len(t, p.texts, 1)
}
