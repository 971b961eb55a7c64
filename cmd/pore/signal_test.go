package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/check"
)

const signalFixtures = "../../signal/testdata/"

// pore runs the command line and returns what it writes.
func poreSignal(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command()
	cmd.SetArgs(append([]string{"signal"}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestSignalInfo(t *testing.T) {
	out, _, err := poreSignal(t, "info", signalFixtures+"three_vbz.pod5", signalFixtures+"three_zlib_svb.blow5")
	require.NoError(t, err)
	for _, want := range []string{
		"format        pod5 0.3.49, signal vbz", "format        blow5 0.2.0, signal zlib+svb-zd", "reads         3\n", "samples       6510 at 4000 Hz",
		"flow cell     FAH90166 FLO-MIN106", "kit           sqk-rad004", "chemistry     r9.4", "signal_positive 2", "unblock_mux_change 1", "read N50      4001 samples, 1s",
		"runs          2\n", "run second-run\n",
	} {
		require.Contains(t, out, want)
	}
	out, _, err = poreSignal(t, "info", "--json", signalFixtures+"three_vbz.pod5")
	require.NoError(t, err)
	var info signal.Info
	require.NoError(t, json.Unmarshal([]byte(out), &info))
	require.Equal(t, 3, info.Reads)
	require.Equal(t, int64(6510), info.Runs[0].Samples)
	require.Equal(t, map[string]int{"signal_positive": 2, "unblock_mux_change": 1}, info.Runs[0].EndReasons)
	_, _, err = poreSignal(t, "info", "absent.pod5")
	require.ErrorContains(t, err, "absent.pod5: no such file")
}

func TestSignalCheck(t *testing.T) {
	out, _, err := poreSignal(t, "check", signalFixtures+"three_vbz.pod5")
	require.NoError(t, err)
	require.Equal(t, "1 files, 3 reads, 6510 samples, 0 problems\n", out)

	whole, err := os.ReadFile(signalFixtures + "three_vbz.pod5")
	require.NoError(t, err)
	cut := filepath.Join(t.TempDir(), "cut.pod5")
	require.NoError(t, os.WriteFile(cut, whole[:10_000], 0o600))
	out, _, err = poreSignal(t, "check", cut, signalFixtures+"three_vbz.pod5")
	require.EqualError(t, err, "1 problems in the signal")
	lines := strings.Split(out, "\n")
	require.Len(t, lines, 3)
	require.True(t, strings.HasPrefix(lines[0], cut+": byte "), lines[0])
	require.Equal(t, "2 files, 3 reads, 6510 samples, 1 problems", lines[1])

	out, _, err = poreSignal(t, "check", "--json", cut)
	require.Error(t, err)
	var problem check.Problem
	var counts check.Counts
	decoder := json.NewDecoder(strings.NewReader(out))
	require.NoError(t, decoder.Decode(&problem))
	require.NoError(t, decoder.Decode(&counts))
	require.Equal(t, cut, problem.Path)
	require.Equal(t, check.Counts{Files: 1, Problems: 1}, counts)
}

func TestSignalConvert(t *testing.T) {
	dir := t.TempDir()
	blow, pod := filepath.Join(dir, "a.blow5"), filepath.Join(dir, "b.pod5")
	_, errs, err := poreSignal(t, "convert", "-o", blow, signalFixtures+"three_vbz.pod5")
	require.NoError(t, err)
	require.Equal(t, "3 reads, 6510 samples in "+blow+"\n", errs)
	_, errs, err = poreSignal(t, "convert", "-o", pod, signalFixtures+"three_zlib_svb.blow5")
	require.NoError(t, err)
	require.NotContains(t, errs, "warning", "its ranges come from POD5")
	_, _, err = poreSignal(t, "convert", "-o", pod, blow)
	require.ErrorContains(t, err, "file already exists; --force replaces it")
	_, _, err = poreSignal(t, "convert", "--force", "-o", pod, blow)
	require.NoError(t, err)
	_, errs, err = poreSignal(t, "convert", "--split", "1", "--to", "blow5", "-o", filepath.Join(dir, "parts"), pod)
	require.NoError(t, err)
	require.Contains(t, errs, "3 files in ")
	require.FileExists(t, filepath.Join(dir, "parts", "part-0003.blow5"))
	fromFAST5 := filepath.Join(dir, "c.pod5")
	_, errs, err = poreSignal(t, "convert", "-o", fromFAST5, signalFixtures+"three_vbz.fast5")
	require.NoError(t, err)
	require.Contains(t, errs, "3 reads, 6510 samples in "+fromFAST5+"\n")
	_, _, err = poreSignal(t, "convert", "-o", filepath.Join(dir, "d.pod5"), signalFixtures+"../fast5/testdata/bulk.fast5")
	require.ErrorContains(t, err, "bulk.fast5: is a bulk FAST5 file")
	out, _, err := poreSignal(t, "info", signalFixtures+"three_gzip.fast5")
	require.NoError(t, err)
	require.Contains(t, out, "fast5")
	require.Contains(t, out, "shuffle+gzip")
	for want, args := range map[string][]string{
		"-o is required":        {"convert", pod},
		`--to is "fast5"`:       {"convert", "--to", "fast5", "-o", "x", pod},
		`--split is "reads"`:    {"convert", "--split", "reads", "-o", "x", pod},
		`--split is "0"`:        {"convert", "--split", "0", "-o", "x", pod},
		"name what to do":       {},
		"the format to write":   {"convert", "-o", filepath.Join(dir, "x"), pod},
		"requires at least 1 a": {"check"},
	} {
		_, _, err := poreSignal(t, args...)
		require.ErrorContains(t, err, want)
	}
}
