package models_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/models"
)

const golden = "../basecall/convert/testdata/golden/"

// TestIdentity: it changes with what a model computes, and with nothing else.
func TestIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dna_r9.4.1_small@v3.0")
	require.NoError(t, os.CopyFS(dir, os.DirFS(golden+"dna_r9.4.1_small@v3.0")))
	identity := func(name string) string {
		id, err := models.Identity(name)
		require.NoError(t, err)
		require.Len(t, id, 32)
		return id
	}
	of := identity(dir)
	assert.Equal(t, of, identity(golden+"dna_r9.4.1_small@v3.0"), "the same files elsewhere")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600))
	assert.Equal(t, of, identity(dir), "what no conversion reads")
	weights, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	require.NoError(t, err)
	tensors, err := filepath.Glob(filepath.Join(dir, "*.tensor"))
	require.NoError(t, err)
	weights = append(weights, tensors...)
	require.NotEmpty(t, weights)
	data, err := os.ReadFile(weights[0])
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(weights[0], data, 0o600))
	assert.NotEqual(t, of, identity(dir), "one bit of a weight")
	assert.NotEqual(t, identity("r9.4-fast"), identity("r9.4-hac"))
	_, err = models.Identity(filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "no such folder")
}

func TestDescribe(t *testing.T) {
	assert.Equal(t, "r9.4", models.Describe("r9.4-fast").Manifest.Chemistry)
	l := models.Describe(golden + "dna_r10.4.1_small@v5.0.0")
	require.NoError(t, l.Err)
	assert.True(t, l.Original)
	assert.Equal(t, []int{5000}, l.Manifest.SampleRates)
	require.ErrorContains(t, models.Describe("nothing").Err, "neither a folder nor one of the shipped models")
	require.ErrorContains(t, models.Describe("r9-r10-pileup").Err, "variant model")
	all, err := models.List(golden)
	require.NoError(t, err)
	found, ok := models.Named(all, "dna_r9.4.1_small@v3.0")
	require.True(t, ok)
	assert.Equal(t, "dna_r9.4.1_small@v3.0", filepath.Base(found.Path))
	_, ok = models.Named(all, "x")
	assert.False(t, ok)
}
