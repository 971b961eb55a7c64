package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/variant/network/networktest"
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

// TestPanelCheckOpensItsModels: a network that no processor could use is refused, in the line that a whole run says, and all of them at once.
func TestPanelCheckOpensItsModels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ref, genes := filepath.Join(dir, "ref.fa"), filepath.Join(dir, "genes.gff3")
	panel := filepath.Join(dir, "panel.yaml")
	write := func(path, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(ref, ">c\n"+strings.Repeat("TGC", 40)+"\n")
	write(genes, "##gff-version 3\nc\t.\tgene\t1\t120\t.\t+\t.\tID=gene-G;Name=G;gene_biotype=protein_coding\n"+
		"c\t.\tmRNA\t1\t120\t.\t+\t.\tID=rna-G;Parent=gene-G\nc\t.\tCDS\t1\t120\t.\t+\t0\tID=cds-G;Parent=rna-G;protein_id=G\n")
	model := func(name string, onnx []byte, sha string) {
		features := "residue\tG\t3\tA\nresidue\tG\t9\tV\n"
		sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
		write(filepath.Join(dir, name, "n.onnx"), string(onnx))
		write(filepath.Join(dir, name, "f.tsv"), features)
		write(filepath.Join(dir, name, "manifest.toml"), "format = 1\nkind = \"biomarker\"\nname = \""+name+"\"\nversion = \"1\"\ndata = \"d\"\nlicence = \"l\"\n"+
			"network = {file = \"n.onnx\", sha256 = \""+cmp.Or(sha, sum(onnx))+"\", input = \"examples\", output = \"scores\"}\n"+
			"features = {file = \"f.tsv\", sha256 = \""+sum([]byte(features))+"\"}\nencoding = {present_from = 0.2}\n"+
			"[[gene]]\nname = \"G\"\nsequence = \""+strings.Repeat("C", 40)+"\"\n"+
			"[[output]]\nname = \"o\"\ncalibration = [1.0, 0.0]\nresistant = 0.5\nsusceptible = 0.5\ngenes = [\"G\"]\n")
	}
	ask := func(names ...string) {
		text := "panel: p\nversion: 1\nrules:\n"
		for _, name := range names {
			text += "- {id: " + name + ", model: {folder: " + name + ", output: o}}\n"
		}
		write(panel, text)
	}
	check := func() (stdout, stderr string, err error) {
		return runWatch(t, "check", "--ref", ref, "--gff", genes, panel)
	}
	good := networktest.Spec{Size: 4, Scores: 1}.ONNX(t)
	model("good", good, "")
	ask("good")
	out, _, err := check()
	require.NoError(t, err)
	require.Contains(t, out, "p\tgood\tmodel\t")

	model("wide", networktest.Spec{Size: 6, Scores: 1}.ONNX(t), "")
	model("nan", networktest.Spec{Size: 4, Scores: 1, Bias: func(int) float32 { return float32(math.NaN()) }}.ONNX(t), "")
	model("cut", good[:len(good)/2], "")
	model("other", good, strings.Repeat("0", 64))
	reads := filepath.Join(dir, "reads.fastq")
	write(reads, "@r\nTGCTGCTGCTGC\n+\nIIIIIIIIIIII\n")
	want := map[string]string{
		"wide":  `:4: rule "wide": model wide: n.onnx: network wide: axis 2 of input "examples" is 6, not 4`,
		"nan":   `:4: rule "nan": model nan: n.onnx: the network gives NaN, which is no finite number`,
		"cut":   `:4: rule "cut": model cut: n.onnx: reading network cut: `,
		"other": `:4: rule "other": model `,
	}
	for name, line := range want {
		ask(name)
		_, stderr, err := check()
		require.Error(t, err)
		require.Contains(t, stderr, panel+line)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		_, err = poreWith(t, nil, "run", "--ref", ref, "--gff", genes, "--panel", panel, "--out", filepath.Join(dir, "out"), reads)
		require.ErrorContains(t, err, strings.TrimSpace(stderr))
	}
	ask("wide", "good", "nan")
	_, stderr, err := check()
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(stderr, "\n"), stderr)
	require.Contains(t, stderr, `:6: rule "nan"`)
}
