package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network/networktest"
)

const goldenModels = "../../basecall/convert/testdata/golden/"

// poreModel runs the command line and returns what it writes.
func poreModel(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestModelConvert(t *testing.T) {
	source := goldenModels + "dna_r9.4.1_small@v3.0"
	folder := t.TempDir()
	model := filepath.Join(folder, "mine")
	_, err := poreModel(t, "model", "convert", source)
	require.ErrorContains(t, err, "--out")
	out, err := poreModel(t, "model", "convert", source, "--out", model)
	require.NoError(t, err)
	require.Contains(t, out, "mine  basecalling  r9.4       4000  crf")
	_, err = poreModel(t, "model", "convert", source, "--out", model)
	require.ErrorContains(t, err, "exists already")
	out, err = poreModel(t, "model", "convert", goldenModels+"dna_r10.4.1_small@v6.0.0", "--out", filepath.Join(t.TempDir(), "newer"))
	require.NoError(t, err)
	require.Contains(t, out, "nothing here depends on: poly_a.calibration_coefficient")
	later := filepath.Join(t.TempDir(), "dna_r10.4.1_e8.2_400bps_hac@v6.0.0")
	require.NoError(t, os.CopyFS(later, os.DirFS(goldenModels+"dna_r10.4.1_small@v6.0.0")))
	config, err := os.ReadFile(filepath.Join(later, "config.toml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(later, "config.toml"), append(config, "\n[wobble]\nx = 3\n"...), 0o600))
	out, err = poreModel(t, "model", "convert", later, "--out", filepath.Join(t.TempDir(), "later"))
	require.NoError(t, err)
	require.Contains(t, out, "nothing here depends on: poly_a.calibration_coefficient, wobble\n", "a table that nobody knows")
	left, err := fs.Glob(os.DirFS(folder), "*")
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, left)

	out, err = poreModel(t, "model", "ls", folder)
	require.NoError(t, err)
	require.Contains(t, out, "r9.4-fast")
	require.Contains(t, out, model)
	out, err = poreModel(t, "model", "ls", "--json", model)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var row modelRow
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &row))
	require.Equal(t, modelRow{
		Name: "mine", Kind: "basecalling", Version: "3.0", Chemistry: "r9.4", SampleRates: []int{4000}, Decoder: "crf",
		Stride: 5, Window: 120, Half: true, Megabytes: row.Megabytes, Place: model,
	}, row)
	out, err = poreModel(t, "model", "check", model, "r9.4-fast")
	require.NoError(t, err)
	require.Contains(t, out, "basecalling model mine is whole")

	out, err = poreModel(t, "model", "verify", "--device", "cpu", "--from", source, model)
	require.NoError(t, err)
	require.Contains(t, out, "model mine runs on cpu: 480 samples twice")
	require.Contains(t, out, "its network is what "+source+" gives")
	_, err = poreModel(t, "model", "verify", "--device", "cpu", "--from", goldenModels+"dna_r9.4.1_small@v3.3", model)
	require.ErrorContains(t, err, "its network is not what")

	network := filepath.Join(model, "model.onnx")
	data, err := os.ReadFile(network)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(network, data, 0o600))
	_, err = poreModel(t, "model", "check", model)
	require.ErrorContains(t, err, "model.onnx: sha256 is")
}

func TestVariantModels(t *testing.T) {
	model := networktest.Folder(t, networktest.Random(1))
	out, err := poreModel(t, "model", "ls", model)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^r9.4-fast +basecalling `, out)
	require.Regexp(t, `(?m)^test +variant +- .* `+model+`$`, out)
	out, err = poreModel(t, "model", "ls", "--json", model)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var row modelRow
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &row))
	require.Equal(t, modelRow{Name: "test", Kind: "variant", Version: "1", Examples: variant.ExampleVersion, Megabytes: row.Megabytes, Place: model}, row)
	require.NotContains(t, lines[len(lines)-1], "stride")
	out, err = poreModel(t, "model", "check", model, "r9.4-fast")
	require.NoError(t, err)
	require.Equal(t, model+": variant model test is whole\nr9.4-fast: basecalling model r9.4-fast is whole\n", out)
	out, err = poreModel(t, "model", "verify", "--device", "cpu", model)
	require.NoError(t, err)
	require.Equal(t, "model test runs on cpu: 2000 examples at once and one by one, alike\n", out)
	out, err = poreModel(t, "model", "verify", "--device", "cpu", "--json", model)
	require.NoError(t, err)
	require.Contains(t, out, `"model":"test","device":"cpu","examples":2000,"examples_per_second":`)
	out, err = poreModel(t, "bench", "judge", "--variant-model", model, "--device", "cpu", "--examples", "50", "--rounds", "1", "--callers", "2", "--alleles", "10")
	require.NoError(t, err)
	require.Regexp(t, `^test on cpu, .* 2 callers with 10 alleles each: \d+ examples/s, bare network \d+: `, out)
	_, err = poreModel(t, "bench", "judge", "--variant-model", model, "--rounds", "0")
	require.ErrorContains(t, err, "--rounds must be at least 1")
	_, err = poreModel(t, "model", "verify", "--from", "elsewhere", model)
	require.ErrorContains(t, err, "is a variant model, which was not converted from another")

	require.NoError(t, os.WriteFile(filepath.Join(model, "model.onnx"), []byte("cut"), 0o600))
	for _, command := range []string{"check", "verify", "ls"} {
		_, err = poreModel(t, "model", command, model)
		require.ErrorContains(t, err, "model.onnx: sha256 is")
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestConvertedModelBasecalls converts a model and calls a recording with it, twice, by the
// command line alone.
func TestConvertedModelBasecalls(t *testing.T) {
	folder := t.TempDir()
	r9, r10 := filepath.Join(folder, "r9"), filepath.Join(folder, "r10")
	_, err := poreModel(t, "model", "convert", goldenModels+"dna_r9.4.1_small@v3.3", "--out", r9)
	require.NoError(t, err)
	_, err = poreModel(t, "model", "convert", goldenModels+"dna_r10.4.1_small@v4.0.0.dorado", "--out", r10)
	require.NoError(t, err)

	recording := signalFixtures + "three_vbz.pod5"
	first, err := poreModel(t, "basecall", "--device", "cpu", "--model", r9, recording)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(first, "\n+\n"), "reads in FASTQ")
	again, err := poreModel(t, "basecall", "--device", "cpu", "--batch", "3", "--model", r9, recording)
	require.NoError(t, err)
	require.Equal(t, first, again)

	_, err = poreModel(t, "basecall", "--device", "cpu", "--model", r10, recording)
	require.ErrorContains(t, err, "was sequenced with r9.4 chemistry, but model r10 is for r10.4.1: choose another with --model, or let --models-dir choose for each run")
}

// pore run takes the model that fits its recording, too.
func TestRunChoosesAModel(t *testing.T) {
	out := t.TempDir()
	_, err := poreModel(t, "run", "--device", "cpu", "--ref", "../../testdata/lambda/reference.fa", "--models-dir", "../../models", "--model", "fast",
		"--to", "20s", "--out", out, "../../testdata/lambda/reads.pod5")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"model": "r9.4-fast"`)
}

// Where the only model that runs need can't be used, nothing is called, and pore run ends with an error.
func TestRunWithoutAnyModelFails(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	_, err := poreModel(t, "model", "convert", goldenModels+"dna_r9.4.1_small@v3.3", "--out", broken)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(broken, "model.onnx"), 100))
	rules := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("rules:\n- {flow_cell: FLO-MIN106, model: ./broken}\n"), 0o600))
	_, err = poreModel(t, "run", "--device", "cpu", "--ref", "../../testdata/lambda/reference.fa", "--models", rules, "--out", t.TempDir(), signalFixtures+"three_vbz.pod5")
	require.ErrorContains(t, err, "none of the 3 reads was called, as no model that their runs need can be used")
}

// A folder of models as Dorado has them is listed, and the one that fits a recording taken.
func TestModelsOfDoradoAsTheyLie(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	for network, name := range map[string]string{
		"dna_r9.4.1_small@v3.3": "dna_r9.4.1_e8_hac@v3.3", "dna_r10.4.1_small@v4.3.0": "dna_r10.4.1_e8.2_400bps_hac@v4.3.0",
		"dna_r10.4.1_small@v6.0.0": "dna_r10.4.1_e8.2_400bps_hac@v4.3.0_5mCG_5hmCG@v1",
	} {
		require.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(goldenModels+network)))
	}
	remora := filepath.Join(dir, "dna_r10.4.1_e8.2_400bps_hac@v4.3.0_5mCG_5hmCG@v1", "config.toml")
	require.NoError(t, os.WriteFile(remora, []byte("[modbases]\n"), 0o600))

	out, err := poreModel(t, "model", "ls", dir)
	require.NoError(t, err)
	require.Contains(t, out, "dna_r9.4.1_e8_hac@v3.3")
	require.Contains(t, out, "dna_r10.4.1_e8.2_400bps_hac@v4.3.0")
	require.Contains(t, out, "5mCG_5hmCG@v1 can't be used: ")
	out, err = poreModel(t, "model", "ls", "--for", "../../testdata/lambda/reads.pod5", dir)
	require.NoError(t, err)
	require.Contains(t, out, "dna_r9.4.1_e8_hac@v3.3")
	require.Contains(t, out, "r9.4-fast")
	require.NotContains(t, out, "v4.3.0  basecalling")
	require.NotContains(t, out, "variant")

	// Two recordings that no model is for both of, though each has one.
	const five = "../../../shared/data/r10/hg002-5khz-one.blow5"
	if _, err := os.Stat(five); err == nil {
		_, err = poreModel(t, "model", "ls", "--for", "../../testdata/lambda/reads.pod5", "--for", five, dir)
		require.ErrorContains(t, err, "is r9.4 at 4000 Hz and 3c3109c1f0fcf6a4f88f0315c3e39838252dfecd is r10.4.1 at 5000 Hz: ask for one recording at a time")
	}

	// A folder of links, as caches of downloads have them, is as large as what it links to; of several models a damaged one is named.
	linked := t.TempDir()
	links := filepath.Join(linked, "dna_r9.4.1_e8_hac@v3.3")
	require.NoError(t, os.Mkdir(links, 0o700))
	for _, file := range []string{"config.toml", "weights_2.tar"} {
		target, err := filepath.Abs(filepath.Join(dir, "dna_r9.4.1_e8_hac@v3.3", file))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(target, filepath.Join(links, file)))
	}
	damaged := filepath.Join(linked, "damaged")
	_, err = poreModel(t, "model", "convert", links, "--out", damaged)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(damaged, "model.onnx"), 100))
	out, err = poreModel(t, "model", "ls", linked)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^dna_r9.4.1_e8_hac@v3.3 +basecalling .* 0\.0[1-9] +`+regexp.QuoteMeta(links)+`$`, out)
	require.Contains(t, out, damaged+" can't be used: ")
	_, err = poreModel(t, "basecall", "--device", "cpu", "--model", damaged, "../../testdata/lambda/reads.pod5")
	require.ErrorContains(t, err, "model.onnx: sha256 is")

	call := []string{"basecall", "--device", "cpu", "--models-dir", dir, "--to", "0s", "../../testdata/lambda/reads.pod5"}
	_, err = poreModel(t, append(call, "--model", "sup")...)
	require.ErrorContains(t, err, "choosing a model: none is for run")
	require.ErrorContains(t, err, "size sup")
	run := []string{"run", "--device", "cpu", "--ref", "../../testdata/lambda/reference.fa", "--models-dir", dir, "--out"}
	_, err = poreModel(t, append(run, t.TempDir(), "--model", "sup", "../../testdata/lambda/reads.pod5")...)
	require.ErrorContains(t, err, "choosing a model: none is for run")
	require.ErrorContains(t, err, "size sup")
	reads := filepath.Join(t.TempDir(), "x.fastq")
	require.NoError(t, os.WriteFile(reads, []byte("@a runid=r\nACGT\n+\n!!!!\n"), 0o600))
	_, err = poreModel(t, append(run, t.TempDir(), reads)...)
	require.ErrorContains(t, err, "--models-dir is for signal")
	_, err = poreModel(t, "model", "verify", "--device", "cpu", filepath.Join(dir, "dna_r9.4.1_e8_hac@v3.3"))
	require.NoError(t, err)
}

// TestModelConvertOfSplicingNetworks: a file is read as a network of splicing, whose licence must be given.
func TestModelConvertOfSplicingNetworks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weights.pt")
	require.NoError(t, os.WriteFile(file, []byte("no weights"), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	_, err := poreWith(t, nil, "model", "convert", "--out", out, file)
	require.ErrorContains(t, err, "--licence")
	_, err = poreWith(t, nil, "model", "convert", "--out", out, "--licence", "GPL-3.0", file)
	require.ErrorContains(t, err, file)
	require.NoDirExists(t, out)
	_, err = poreWith(t, nil, "model", "convert", "--out", out, t.TempDir(), file)
	require.ErrorContains(t, err, "one folder is converted at a time")
}

// TestModelCommandsKnowSequenceNetworks: a folder for --network is listed beside other models, checked and run.
func TestModelCommandsKnowSequenceNetworks(t *testing.T) {
	dir := filepath.Join("..", "..", "annotate", "network", "testdata", "splice")
	out, err := poreWith(t, nil, "model", "ls", dir)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^\S+ +sequence +- `, out)
	out, err = poreWith(t, nil, "model", "check", dir)
	require.NoError(t, err)
	require.Contains(t, out, "is whole")
	out, err = poreWith(t, nil, "model", "verify", "--device", "cpu", "--json", dir)
	require.NoError(t, err)
	var v struct{ Networks, Windows int }
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, 2, v.Networks)
	require.Positive(t, v.Windows)
}

// TestModelVerifySaysWhichKernelsRun: operators of our own, or why there are none.
func TestModelVerifySaysWhichKernelsRun(t *testing.T) {
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	verify := func(args ...string) (string, error) {
		return poreWith(t, nil, append([]string{"model", "verify", "--device", "cpu"}, args...)...)
	}
	out, err := verify("--gpu-kernels", "always", "r9.4-fast")
	require.NoError(t, err)
	require.Contains(t, out, "\n7 layers are computed by Porestream's kernels, as ONNX Runtime's operators do\nscores are decoded by Porestream's kernel, as on the CPU")
	out, err = verify("--gpu-kernels", "always", "--json", "r9.4-fast")
	require.NoError(t, err)
	var v struct {
		Layers  int  `json:"kernel_layers"`
		Decodes bool `json:"kernel_decodes"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, 7, v.Layers)
	require.True(t, v.Decodes)
	out, err = verify("r9.4-fast")
	require.NoError(t, err)
	require.NotContains(t, out, "kernel", "nobody asks for them on a CPU")

	t.Setenv(kernels.LibraryEnv, filepath.Join(t.TempDir(), kernels.LibraryName))
	_, err = verify("--gpu-kernels", "always", "r9.4-fast")
	require.ErrorContains(t, err, "GPU kernels can't be used: library of kernels ")
	require.ErrorContains(t, err, "is not a file")
}
