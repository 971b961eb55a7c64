package network_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modelfile/calibration"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/variant/network/networktest"
)

const calibrations = `
[[calibration]]
type = "snp"
ploidy = "2"
qual = [[10, 8.5], [40, 30]]
gq = [[20, 18]]

[[calibration]]
type = "indel"
ploidy = "mixture"
qual = [[10, 8.5]]
`

const readSets = `
[[reads]]
name = "own"
chemistry = "r10.4.1"
tier = "sup"
models = ["r10.4.1/sup/*", "mine*"]
data = "made up"
simulated = true

[[reads.calibration]]
type = "snp"
ploidy = "2"
qual = [[10, 5], [40, 20]]

[reads.errors]
mismatch = 0.004
gaps = 0.01
other = 0.002
extension = 0.3
deletion = [0.004, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3]
insertion = [0.002, 0.003, 0.005, 0.01, 0.01, 0.01, 0.01, 0.01]

[[reads]]
name = "rest"
models = ["*/*/*"]
data = "made up too"
shared = true
`

// files are a model folder that is as it should be.
func files(t testing.TB) fstest.MapFS {
	onnx := networktest.Random(1).ONNX(t)
	return fstest.MapFS{
		folder.Manifest: {Data: []byte(networktest.Manifest(onnx) + calibrations + readSets)},
		"model.onnx":    {Data: onnx},
	}
}

func TestLoadModel(t *testing.T) {
	model, err := network.LoadModel(files(t))
	require.NoError(t, err)
	assert.Equal(t, "test", model.Manifest.Name)
	assert.Equal(t, []network.Calibration{
		{Type: "snp", Ploidy: "2", Qual: calibration.Curve{{10, 8.5}, {40, 30}}, GQ: calibration.Curve{{20, 18}}},
		{Type: "indel", Ploidy: "mixture", Qual: calibration.Curve{{10, 8.5}}},
	}, model.Manifest.Calibration)
	require.Len(t, model.Manifest.Reads, 2)
	assert.Equal(t, []string{"r10.4.1/sup/*", "mine*"}, model.Manifest.Reads[0].Models)
}

func TestLoadModelRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(fstest.MapFS)
		want   string
	}{
		{"no manifest", func(f fstest.MapFS) { delete(f, folder.Manifest) }, "manifest.toml"},
		{"no network", func(f fstest.MapFS) { delete(f, "model.onnx") }, "model.onnx"},
		{"damaged network", func(f fstest.MapFS) { f["model.onnx"].Data[100] ^= 1 }, "model.onnx: sha256 is "},
		{"a basecaller", replace("kind = \"variant\"\n", ""), "it is the manifest of a basecalling model, not of a variant model"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := files(t)
			tt.change(f)
			_, err := network.LoadModel(f)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func replace(old, new string) func(fstest.MapFS) {
	return func(f fstest.MapFS) {
		m := f[folder.Manifest]
		m.Data = []byte(strings.Replace(string(m.Data), old, new, 1))
	}
}

func TestParseManifestRefuses(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"syntax", `name = "test"`, "name = ", "line 3"},
		{"unknown key", `version = "1"`, `wersion = "1"`, `line 4: unknown key "wersion"`},
		{"format", "format = 1", "format = 2", "format = 2 is not one that this version reads"},
		{"layout", fmt.Sprintf("example_version = %d", variant.ExampleVersion), "example_version = 99",
			fmt.Sprintf("example_version = 99, but this version makes examples of version %d", variant.ExampleVersion)},
		{"no layout", fmt.Sprintf("example_version = %d", variant.ExampleVersion), "", "example_version = 0"},
		{"name", `name = "test"`, "", "name is missing"},
		{"file outside", `"model.onnx"`, `"../model.onnx"`, `network.file = "../model.onnx"`},
		{"checksum", `sha256 = "`, `sha256 = "0`, "network.sha256"},
		{"half without checksum", `input =`, "half_file = \"half.onnx\"\ninput =", "network.half_sha256"},
		{"input", `input = "examples"`, "", "network.input is missing"},
		{"output", `output = "scores"`, "", "network.output is missing"},
		{"type", `type = "snp"`, `type = "mnp"`, `calibration 1: type "mnp" is none of snp, indel and long_indel`},
		{"ploidy", `ploidy = "mixture"`, `ploidy = "3"`, `calibration 2: ploidy "3": want 1, 2 or mixture`},
		{"twice", "type = \"indel\"\nploidy = \"mixture\"", "type = \"snp\"\nploidy = \"2\"", "calibration 2: there is one for snp of ploidy 2 already"},
		{"haploid gq", `ploidy = "2"`, `ploidy = "1"`, "calibration 1: gq is for more than one copy"},
		{"falling", "[40, 30]", "[40, 8]", "calibration 1: qual: point 2 has the value 8, below 8.5 or not positive"},
		{"not rising", "[40, 30]", "[10, 30]", "calibration 1: qual: point 2 is at 10, not beyond 10"},
		{"zero", "[[20, 18]]", "[[20, 0]]", "calibration 1: gq: point 1 has the value 0"},
		{"no number", "[[20, 18]]", "[[20, nan]]", "calibration 1: gq: point 1 has the value NaN"},
		{"infinite", "[[20, 18]]", "[[inf, 18]]", "calibration 1: gq: point 1 is at +Inf"},
		{"too many points", "[[20, 18]]", "[" + strings.Repeat("[1, 1],", 1001) + "]", "calibration 1: gq has 1001 points"},
		{"set without a name", `name = "own"`, `name = "rest"`, `reads 2: name = "rest" is missing, or another set's`},
		{"set without data", `data = "made up"`, "", "reads 1: data is missing"},
		{"set without models", `models = ["*/*/*"]`, "", "reads 2: models is missing"},
		{"bad pattern", `"mine*"`, `"a/b"`, `reads 1: models: pattern "a/b" is neither CHEMISTRY/TIER/VERSION nor a name`},
		{"neither curves nor shared", "shared = true", "", "reads 2: either it has a calibration of its own, or shared = true"},
		{"curves and shared", "simulated = true", "shared = true", "reads 1: either it has a calibration of its own"},
		{"bad curve of a set", "[[10, 5], [40, 20]]", "[[10, 5], [4, 20]]", "reads 1: calibration 1: qual: point 2 is at 4"},
		{"too few rates", "deletion = [0.004, ", "deletion = [", "reads 1: errors.deletion has 7 rates, not 8"},
		{"no rate", "gaps = 0.01", "gaps = 1.5", "reads 1: errors.gaps = 1.5 is not between 0 and 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := string(files(t)[folder.Manifest].Data)
			require.Contains(t, text, tt.old)
			_, err := network.ParseManifest([]byte(strings.Replace(text, tt.old, tt.new, 1)))
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// FuzzParseManifest: no manifest makes it panic, and whatever is accepted is said
// to be for this version's examples.
func FuzzParseManifest(f *testing.F) {
	f.Add(files(f)[folder.Manifest].Data)
	f.Add([]byte("format = 1\nkind = \"variant\"\n[[calibration]]\nqual = [[1]]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := network.ParseManifest(text)
		if err == nil && (m.ExampleVersion != variant.ExampleVersion || m.Name == "") {
			t.Errorf("accepted %+v", m)
		}
	})
}
