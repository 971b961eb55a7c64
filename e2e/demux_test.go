package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/testenv"
)

// TestBasecallTrims: the reads of a rapid kit without barcodes are cut behind what the
// transposase put on nearly all of them, and pysam finds them consistent with the whole
// reads. pore demux does to the whole reads what pore basecall does at once.
func TestBasecallTrims(t *testing.T) {
	t.Parallel()
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	dir := t.TempDir()
	call := func(name string, args ...string) string {
		args = append([]string{"basecall", "--device", "cpu", "--batch", "16", "--reads", someReads(t, 24), "--format", "bam"}, args...)
		res := pore(t, append(args, lambda("reads.pod5"))...)
		require.Zero(t, res.code, res.stderr)
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(res.stdout), 0o600))
		return path
	}
	whole := call("whole.bam")
	cut := call("cut.bam", "--kit-name", "SQK-RBK004", "--split-reads")
	check := func(paths ...string) {
		out, err := exec.CommandContext(t.Context(), python, append([]string{"../demux/sorted/testdata/check.py", whole}, paths...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "24", strings.TrimSpace(string(out)))
	}
	check(cut)
	sorted := filepath.Join(dir, "sorted")
	res := pore(t, "demux", "--kit-name", "SQK-RBK004", "--out", sorted, whole)
	require.Zero(t, res.code, res.stderr)
	unclassified := filepath.Join(sorted, "unclassified.bam")
	check(unclassified)
	lengths := func(path string) string {
		table := pore(t, "summary", path)
		require.Zero(t, table.code, table.stderr)
		var out strings.Builder
		for line := range strings.Lines(table.stdout) {
			columns := strings.Split(line, "\t")
			out.WriteString(columns[1] + " " + columns[7] + " " + columns[9] + " " + columns[11] + "\n") // name, start, length, barcode
		}
		return out.String()
	}
	require.Equal(t, lengths(cut), lengths(unclassified))
	before, after := strings.Split(lengths(whole), "\n"), strings.Split(lengths(cut), "\n")
	shorter := 0
	for i := range before {
		was, is := strings.Fields(before[i]), strings.Fields(after[i])
		if len(was) > 2 && was[1] != is[1] {
			shorter++
		}
	}
	require.Greater(t, shorter, 15, "of 24")
}
