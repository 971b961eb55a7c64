package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Commands that align have the same bytes with an index that was built before, and refuse one
// that isn't the reference's, in one line.
func TestIndexIsBuiltOnce(t *testing.T) {
	ref, other := randomFASTA(t, 20_000), randomFASTA(t, 20_001)
	dir := t.TempDir()
	mmi := filepath.Join(dir, "ref.mmi")
	_, err := poreWith(t, nil, "index", "--ref", ref, "-o", mmi)
	require.NoError(t, err)
	reads := filepath.Join(dir, "reads.fastq")
	_, err = poreWith(t, nil, "simulate", "reads", "--ref", ref, "--profile", "r10.4.1-2pct", "--depth", "4", "--length", "2000", "-o", reads)
	require.NoError(t, err)
	whole, err := os.ReadFile(mmi)
	require.NoError(t, err)
	cut := filepath.Join(dir, "cut.mmi")
	require.NoError(t, os.WriteFile(cut, whole[:len(whole)-1], 0o600))
	for _, args := range [][]string{
		{"align", "--format", "sam", "--ref", ref, reads},
		{"call", "--variant-model", "none", "--ref", ref, reads},
	} {
		want, err := poreWith(t, nil, args...)
		require.NoError(t, err)
		got, err := poreWith(t, nil, append(args, "--index", mmi)...)
		require.NoError(t, err)
		require.Equal(t, want, got)
		for path, says := range map[string]string{cut: "it is cut short: make it again with pore index", reads: "no index of minimap2's", filepath.Join(dir, "none"): "no such file"} {
			_, err := poreWith(t, nil, append(args, "--index", path)...)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, path)
			require.NotContains(t, err.Error(), "\n")
		}
	}
	_, err = poreWith(t, nil, "align", "--ref", other, "--index", mmi, reads)
	require.ErrorContains(t, err, "make it again from this reference")
	_, err = poreWith(t, nil, "align", "--ref", ref, "--index", mmi, "--preset", "lr:hq", reads)
	require.ErrorContains(t, err, "make it again with pore index --preset lr:hq")
	_, err = poreWith(t, nil, "index", "--ref", ref, "-o", filepath.Join(dir, "no", "folder.mmi"))
	require.ErrorContains(t, err, "no such file or directory")
	_, err = poreWith(t, nil, "basecall", "--index", mmi, reads)
	require.ErrorContains(t, err, "--index is the index of --ref")
}

func TestSimulateFolderRefuses(t *testing.T) {
	ref := randomFASTA(t, 2000)
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o600))
	good := []string{"simulate", "folder", "--ref", ref, "--profile", "r10.4.1-2pct", "--pace", "max", "--duration", "20s", "--channels", "2", "--length", "500", "--out", filepath.Join(t.TempDir(), "run")}
	for _, tt := range []struct{ flag, value, want string }{
		{"--ref", "", "--ref is required"},
		{"--profile", "", "--profile is required"},
		{"--out", "", "--out is required"},
		{"--out", full, "the folder is not empty"},
		{"--barcoded", "97", "want 0 to 96"},
		{"--format", "cram", "want fastq, bam or both"},
		{"--pace", "0", "--pace"},
		{"--channels", "0", "0 channels"},
		{"--failing", "1", "a share of failed reads of 1"},
		{"--unclassified", "1", "want a share of 0 to less than 1"},
		{"--sample", "a b", "without blanks"},
		{"--duration", "0s", "a duration of 0s"},
		{"--length", "0", "a mean length of 0"},
	} {
		_, err := poreWith(t, nil, append(good[:len(good):len(good)], tt.flag, tt.value)...)
		require.ErrorContains(t, err, tt.want, "%s %s", tt.flag, tt.value)
		require.False(t, strings.Contains(err.Error(), "\n"))
	}
	_, err := poreWith(t, nil, append(good, "--barcoded", "0", "--format", "both")...)
	require.NoError(t, err)
	out := good[len(good)-1]
	for _, pattern := range []string{"fastq_pass/*_pass_*_0.fastq.gz", "bam_pass/*_pass_*_0.bam", "final_summary_*.txt"} {
		found, err := filepath.Glob(filepath.Join(out, pattern))
		require.NoError(t, err)
		require.Len(t, found, 1, pattern)
	}
}
