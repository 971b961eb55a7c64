package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// firstReads writes the ids of the first reads of a recording to a file's end.
func firstReads(t *testing.T, file *os.File, recording string, n int) {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{recording})
	require.NoError(t, err)
	defer index.Close()
	for i := range min(n, index.Len()) {
		_, err := fmt.Fprintln(file, index.Entry(i).ID)
		require.NoError(t, err)
	}
}

// TestModelsByRun runs an R9.4 recording beside an R10.4.1 one, each with the model that rules
// give it: the variants are those of the first alone, also where the other's model is broken.
func TestModelsByRun(t *testing.T) {
	r10 := testenv.Recordings(t, "r10/hg002-5khz.pod5")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	const small = "dna_r10.4.1_small@v5.0.0"
	require.NoError(t, os.CopyFS(filepath.Join(dir, small), os.DirFS(filepath.Join(root(), "basecall", "convert", "testdata", "golden", small))))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "broken"), 0o700))
	rules := func(r10 string) string {
		path := filepath.Join(dir, "rules.yaml")
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "rules:\n- {flow_cell: FLO-MIN106, model: r9.4-fast}\n- {kit: SQK-LSK114, sample_rate: 5000, model: %s}\n", r10), 0o600))
		return path
	}
	reads, err := os.Create(filepath.Join(dir, "reads.txt"))
	require.NoError(t, err)
	defer reads.Close()
	firstReads(t, reads, lambda("reads.pod5"), 40)
	firstReads(t, reads, r10, 1)

	base := []string{"run", "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--variant-model", "none", "--reads", reads.Name()}
	outcome := func(args ...string) (string, map[string]any, string) {
		out := t.TempDir()
		res := pore(t, append(append(slices.Clone(base), "--out", out), args...)...)
		require.Zero(t, res.code, res.stderr)
		var summary map[string]any
		require.NoError(t, json.Unmarshal(readFile(t, out, "summary.json"), &summary))
		files, several := summary["files"].(map[string]any)
		require.True(t, several)
		return string(readFile(t, out, files["LA1"].(string))), summary, res.stderr
	}
	alone, _, _ := outcome("--model", "r9.4-fast", lambda("reads.pod5"))
	require.Contains(t, alone, "\nJ02459.1\t37589\t")

	both, summary, _ := outcome("--models", rules("./"+small), "--partitions", "3", "--processors", "2", lambda("reads.pod5"), r10)
	require.True(t, alone == both, "the variants of the other run are not those that it has alone")
	require.Equal(t, small+", r9.4-fast", summary["model"])
	require.EqualValues(t, 41, summary["reads"])
	left := summary["left_out"].(map[string]any)
	require.EqualValues(t, 0, left["no_model"].(float64)+left["unsupported"].(float64))

	// A model that can't be loaded: the other run goes on, and one line says why.
	both, summary, stderr := outcome("--models", rules("./broken"), lambda("reads.pod5"), r10)
	require.True(t, alone == both, "the variants of the other run are not those that it has alone")
	require.EqualValues(t, 1, summary["left_out"].(map[string]any)["no_model"])
	require.Equal(t, 1, strings.Count(stderr, "a model can't be used: reads of the runs that need it are left out"), stderr)
	require.Equal(t, 1, strings.Count(stderr, "run has no model: its reads are left out"), stderr)

	// A recording none of whose runs has a model is refused before anything is computed.
	res := pore(t, append(slices.Clone(base), "--out", dir, "--models-dir", filepath.Join(root(), "models"), r10)...)
	require.Equal(t, 1, res.code)
	require.Contains(t, res.stderr, "has no model: choosing a model: none is for run")
}
