package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

// someReads writes down the ids of the first n reads of the shipped recording.
func someReads(t *testing.T, n int) string {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{lambda("reads.pod5")})
	require.NoError(t, err)
	defer index.Close()
	var ids strings.Builder
	for i := range n {
		fmt.Fprintln(&ids, index.Entry(i).ID)
	}
	path := filepath.Join(t.TempDir(), "reads.txt")
	require.NoError(t, os.WriteFile(path, []byte(ids.String()), 0o600))
	return path
}

// TestBasecallGoesOn: an interrupted output is continued to the same bytes as a whole one,
// reads of low quality are marked, and an output made with another reference is refused.
func TestBasecallGoesOn(t *testing.T) {
	t.Parallel()
	reads := someReads(t, 24)
	args := []string{"basecall", "--device", "cpu", "--batch", "16", "--reads", reads, "--ref", lambda("reference.fa"), "--format", "bam"}
	whole := pore(t, append(args, lambda("reads.pod5"))...)
	require.Zero(t, whole.code, whole.stderr)

	dir := t.TempDir()
	broken, all := filepath.Join(dir, "broken.bam"), filepath.Join(dir, "all.bam")
	require.NoError(t, os.WriteFile(broken, []byte(whole.stdout[:len(whole.stdout)/2]), 0o600))
	require.NoError(t, os.WriteFile(all, []byte(whole.stdout), 0o600))
	resumed := pore(t, append(args, "--resume-from", broken, "--log-level", "info", lambda("reads.pod5"))...)
	require.Zero(t, resumed.code, resumed.stderr)
	require.Contains(t, resumed.stderr, "reads are taken over")
	require.NotContains(t, resumed.stderr, "reads=0 ")
	require.True(t, whole.stdout == resumed.stdout, "other bytes than at once")

	fastq := []string{"basecall", "--device", "cpu", "--batch", "16", "--reads", reads}
	every := pore(t, append(fastq, lambda("reads.pod5"))...)
	require.Zero(t, every.code, every.stderr)
	failed := filepath.Join(dir, "failed.fastq")
	passed := pore(t, append(fastq, "--min-qscore", "11.2", "--failed", failed, lambda("reads.pod5"))...)
	require.Zero(t, passed.code, passed.stderr)
	low, err := os.ReadFile(failed)
	require.NoError(t, err)
	count := func(fastq string) int { return strings.Count(fastq, "\n") / 4 }
	require.Equal(t, count(every.stdout), count(passed.stdout)+count(string(low)))
	require.NotZero(t, count(passed.stdout))
	require.NotZero(t, count(string(low)))
	require.Contains(t, passed.stderr, fmt.Sprintf("reads=%d of=24 min_qscore=11.2", count(string(low))))

	other := filepath.Join(dir, "other.fa")
	require.NoError(t, os.WriteFile(other, []byte(">other\n"+strings.Repeat("ACGTTGCAAC", 100)+"\n"), 0o600))
	refused := pore(t, "basecall", "--device", "cpu", "--ref", other, "--format", "bam", "--resume-from", broken, lambda("reads.pod5"))
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.stderr, "its reference 1 is J02459.1 of 48502 bases, now it is other of 1000")

	// The table is what programs take that draw how a run went.
	t.Run("NanoPlot", func(t *testing.T) {
		python := testenv.Python(t, "PORESTREAM_NANOPLOT_PYTHON", "NanoPlot", "nanoplot")
		path := summaryFile(t, all)
		out := filepath.Join(t.TempDir(), "nanoplot")
		drawn, err := exec.CommandContext(t.Context(), python, "-m", "nanoplot.NanoPlot", "--summary", path, "-o", out, "--no_static").CombinedOutput()
		require.NoError(t, err, "%s", drawn)
		stats := string(readFile(t, out, "NanoStats.txt"))
		require.Regexp(t, `Number of reads:\s+24\.0`, stats)
		require.FileExists(t, filepath.Join(out, "NanoPlot-report.html"))
		require.FileExists(t, filepath.Join(out, "CumulativeYieldPlot_NumberOfReads.html"), "there is no time")
	})
	t.Run("pycoQC", func(t *testing.T) {
		python := testenv.Python(t, "PORESTREAM_PYCOQC_PYTHON", "pycoQC", "pycoQC")
		path := summaryFile(t, all)
		report := filepath.Join(t.TempDir(), "report.json")
		drawn, err := exec.CommandContext(t.Context(), python, "-c", "from pycoQC.__main__ import main_pycoQC; main_pycoQC()", "-f", path, "-o", report+".html", "-j", report).CombinedOutput()
		require.NoError(t, err, "%s", drawn)
		var parsed struct {
			All struct {
				Run struct {
					Duration float64 `json:"run_duration"`
				} `json:"run"` // hours
				Basecall struct {
					Reads int `json:"reads_number"`
				} `json:"basecall"`
			} `json:"All Reads"`
		}
		require.NoError(t, json.Unmarshal(readFile(t, filepath.Dir(report), "report.json"), &parsed))
		require.Equal(t, 24, parsed.All.Basecall.Reads)
		require.Greater(t, parsed.All.Run.Duration, 0.0)
	})

	t.Run("pysam", func(t *testing.T) {
		python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
		table := pore(t, "summary", all)
		require.Zero(t, table.code, table.stderr)
		cmd := exec.CommandContext(t.Context(), python, "testdata/summary.py", all)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		want, err := cmd.Output()
		require.NoError(t, err, stderr.String())
		require.Equal(t, string(want), table.stdout)
		require.Equal(t, 25, strings.Count(table.stdout, "\n"))
	})
}

// summaryFile is the file of what pore summary says of reads.
func summaryFile(t *testing.T, reads string) string {
	t.Helper()
	table := pore(t, "summary", reads)
	require.Zero(t, table.code, table.stderr)
	path := filepath.Join(t.TempDir(), "sequencing_summary.txt")
	require.NoError(t, os.WriteFile(path, []byte(table.stdout), 0o600))
	return path
}
