package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/watchlist"
)

// checkLambda runs pore panel check on panels of phage lambda.
func checkLambda(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "lambda")
	return runWatch(t, append([]string{"check", "--ref", filepath.Join(dir, "reference.fa"), "--gff", filepath.Join(dir, "genes.gff3")}, args...)...)
}

// runWatch runs pore panel.
func runWatch(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(append([]string{"panel"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestWatchCheck(t *testing.T) {
	panels := filepath.Join("..", "..", "watchlist", "testdata", "lambda")
	out, _, err := checkLambda(t, filepath.Join(panels, "panel.yaml"), filepath.Join(panels, "files.yaml"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 1+5+5)
	columns := strings.Count(lines[0], "\t")
	for _, line := range lines {
		require.Equal(t, columns, strings.Count(line, "\t"), line)
	}
	require.Equal(t, "lambda-demo\tcI-E118K\tprotein\tcI:p.Glu118Lys\tJ02459.1:37587-37589\t3\t19\t13\t0.0048", lines[1])

	out, _, err = checkLambda(t, "--format", "json", filepath.Join(panels, "panel.yaml"))
	require.NoError(t, err)
	var first watchlist.Resolved
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&first))
	require.Equal(t, []watchlist.Target{{Contig: "J02459.1", Start: 37586, End: 37589}}, first.Places)
}

// TestWatchCheckReportsAllFaults wants a line for each fault of each panel, whether the file or the reference shows it, and one for
// a fault of several rules.
func TestWatchCheckReportsAllFaults(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "other.yaml")
	require.NoError(t, os.WriteFile(one, []byte("panel: one\nversion: 1\nrules:\n- id: a\n  match: {}\n- id: b\n- id: c\n  match: {}\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("panel: other\nversion: 1\nrules:\n- id: a\n  match: {gene: none}\n"), 0o600))
	out, errs, err := checkLambda(t, one, other)
	require.Error(t, err)
	require.Empty(t, out)
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	require.Len(t, lines, 3)
	for i, prefix := range []string{one + ":5: ", one + ":6: ", other + ":5: "} {
		require.True(t, strings.HasPrefix(lines[i], prefix), lines[i])
	}
	require.True(t, strings.HasSuffix(lines[0], "(1 more like it, the last in line 8)"), lines[0])

	_, _, err = checkLambda(t, "--format", "xml", one)
	require.ErrorContains(t, err, "want tsv or json")
	_, _, err = checkLambda(t, filepath.Join(dir, "none.yaml"))
	require.Error(t, err)
}

func TestReadyPanelsAreListedAndShown(t *testing.T) {
	out, _, err := runWatch(t, "ls")
	require.NoError(t, err)
	require.Contains(t, out, "\nmalaria\t60\t2025\t")
	out, _, err = runWatch(t, "show", "malaria")
	require.NoError(t, err)
	require.Contains(t, out, "PF3D7_1343700:p.Cys580Tyr")
	_, _, err = runWatch(t, "show", "none")
	require.ErrorContains(t, err, `no ready panel "none": there are malaria`)
	_, errs, err := checkLambda(t, "malaria")
	require.Error(t, err)
	require.Contains(t, errs, `ready panel malaria:13: rule "kelch13_F446I": hgvs transcript "PF3D7_1343700" is not among the genes`)
}

// TestPanelOfLineagesIsTaken makes a panel of a barcode on phage lambda, and checks it.
func TestPanelOfLineagesIsTaken(t *testing.T) {
	dir := t.TempDir()
	barcode, panel := filepath.Join(dir, "barcode.bed"), filepath.Join(dir, "panel.yaml")
	require.NoError(t, os.WriteFile(barcode, []byte("x\t37588\t37589\tL1\tT\n"), 0o600))
	out, _, err := runWatch(t, "make", "lineages", "--ref", filepath.Join("..", "..", "testdata", "lambda", "reference.fa"), "--source", "a test", barcode)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(panel, []byte(out), 0o600))
	out, _, err = checkLambda(t, panel)
	require.NoError(t, err)
	require.Contains(t, out, "lineages\tL1\tallele\t")
}

// TestWatchMakeReportsWhatItLeavesOut: warnings name lineages without a rule, and flags that no panel takes.
func TestWatchMakeReportsWhatItLeavesOut(t *testing.T) {
	dir := t.TempDir()
	barcode := filepath.Join(dir, "barcode.bed")
	require.NoError(t, os.WriteFile(barcode, []byte("x\t37588\t37589\tL1\tT\nx\t37588\t37589\tL4\tC\nx\t37588\t37589\tL4.9\tC\n"), 0o600))
	lambda := filepath.Join("..", "..", "testdata", "lambda", "reference.fa")
	_, errs, err := runWatch(t, "make", "lineages", "--ref", lambda, barcode)
	require.NoError(t, err)
	require.Equal(t, "1 rules; at 2 positions the reference itself has the lineage's base, so there is no change to watch for\n"+
		"no rule for L4, L4.9: the reference itself has their bases at all of their positions\n", errs)
	for _, kind := range []string{"lineages", "tb"} {
		for _, tt := range []struct{ flag, value, want string }{
			{"--id", "x y", `--id, --panel-version, --source, --date and --licence: the panel's id "x y" is not made of`},
			{"--id", "", `the panel's id "" is not made of`},
			{"--panel-version", "", "the panel's version is empty"},
			{"--source", "a\nb", "the panel's source"},
		} {
			out, _, err := runWatch(t, "make", kind, "--ref", "none.fa", tt.flag, tt.value, barcode) // nothing is read before
			require.ErrorContains(t, err, tt.want)
			require.Empty(t, out)
		}
	}
}
