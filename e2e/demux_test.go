package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// TestBasecallTrims: the reads of a rapid kit without barcodes are cut behind what the
// transposase put on nearly all of them, and pysam finds them consistent with the whole
// reads. pore demux does to the whole reads what pore basecall does at once. Now and then
// a read has a barcode by chance: which, depends on the processor's arithmetic.
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
	parts, err := filepath.Glob(filepath.Join(sorted, "*.bam"))
	require.NoError(t, err)
	require.Contains(t, parts, filepath.Join(sorted, "unclassified.bam"))
	check(parts...)
	// lengths lists where each read begins, how long it is and what barcode it has.
	lengths := func(paths ...string) []string {
		var list []string
		for _, path := range paths {
			table := pore(t, "summary", path)
			require.Zero(t, table.code, table.stderr)
			_, rows, _ := strings.Cut(table.stdout, "\n")
			for row := range strings.Lines(rows) {
				columns := strings.Split(row, "\t")
				list = append(list, strings.Join([]string{columns[1], columns[7], columns[9], columns[11]}, " "))
			}
		}
		slices.Sort(list)
		return list
	}
	require.Equal(t, lengths(cut), lengths(parts...))
	before, after := lengths(whole), lengths(cut)
	require.Len(t, after, len(before))
	shorter := 0
	for i := range before {
		was, is := strings.Fields(before[i]), strings.Fields(after[i])
		if was[1] != is[1] {
			shorter++
		}
	}
	require.Greater(t, shorter, 15, "of 24")
}
