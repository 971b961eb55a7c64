package basecall

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const validManifest = `format = 1
name = "r9.4-fast"
version = "0.1.0"
chemistry = "r9.4"
sample_rates = [4000]
[network]
file = "model.onnx"
sha256 = "%x"
input = "signal"
output = "scores"
output_layout = "NTC"
scores = "log_probabilities"
stride = 3
[normalisation]
method = "med_mad"
clip = 5.0
[window]
samples = 3600
overlap = 600
[decoder]
type = "ctc"
labels = ["", "A", "C", "G", "T"]
beam_width = 5
beam_cut = 0.1
[qualities]
scale = 1.0
bias = 0.0
`

func manifestText() string { return fmt.Sprintf(validManifest, sha256.Sum256([]byte("network"))) }

func TestLoadModel(t *testing.T) {
	fsys := fstest.MapFS{
		"manifest.toml": {Data: []byte(manifestText())},
		"model.onnx":    {Data: []byte("network")},
	}
	model, err := LoadModel(fsys)
	require.NoError(t, err)
	assert.Equal(t, "r9.4-fast", model.Manifest.Name)
	assert.Equal(t, []int{4000}, model.Manifest.SampleRates)
	assert.Equal(t, WindowManifest{Samples: 3600, Overlap: 600}, model.Manifest.Window)
	assert.Equal(t, []byte("network"), model.Network)

	fsys["model.onnx"].Data = []byte("another")
	_, err = LoadModel(fsys)
	require.ErrorContains(t, err, "model.onnx: sha256 is ")
	require.ErrorContains(t, err, "network.sha256")
	fsys["model.onnx"].Data = []byte("network")
	fsys["half.onnx"] = &fstest.MapFile{Data: []byte("half")}
	fsys["manifest.toml"].Data = []byte(strings.Replace(manifestText(), "input =", fmt.Sprintf("half_file = \"half.onnx\"\nhalf_sha256 = \"%x\"\ninput =", sha256.Sum256([]byte("half"))), 1))
	model, err = LoadModel(fsys)
	require.NoError(t, err)
	assert.Equal(t, []byte("half"), model.Half)
	fsys["half.onnx"].Data = []byte("another")
	_, err = LoadModel(fsys)
	require.ErrorContains(t, err, "half.onnx: sha256 is ")
	delete(fsys, "model.onnx")
	_, err = LoadModel(fsys)
	require.ErrorContains(t, err, "model.onnx")
	_, err = LoadModel(fstest.MapFS{})
	require.ErrorContains(t, err, "manifest.toml")
	_, err = LoadModel(fstest.MapFS{"manifest.toml": {Data: bytes.Repeat([]byte("#"), 1<<20+1)}})
	require.ErrorContains(t, err, "larger than")
}

func TestOpenModelNamesTheFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenModel(dir)
	require.ErrorContains(t, err, dir)
	_, err = OpenModel(dir + "/none")
	require.ErrorContains(t, err, dir+"/none")
}

func TestParseManifestRefuses(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"syntax", `name = "r9.4-fast"`, `name = `, "line 2"},
		{"type", "stride = 3", `stride = "x"`, "line 13"},
		{"unknown key", "clip = 5.0", "klip = 5.0", `line 16: unknown key "normalisation.klip"`},
		{"unknown table", "[window]", "[windows]", `unknown key "windows`},
		{"format", "format = 1", "format = 2", "format = 2 is not one that this version reads"},
		{"no format", "format = 1", "", "format = 0"},
		{"another kind", "format = 1", "format = 1\nkind = \"variant\"", "it is the manifest of a variant model, not of a basecalling model"},
		{"unknown kind", "format = 1", "format = 1\nkind = \"methylation\"", `kind = "methylation" is none that this version knows`},
		{"name", `name = "r9.4-fast"`, "", "name is missing"},
		{"rates", "[4000]", "[]", "sample_rates is missing"},
		{"rate", "[4000]", "[-1]", "sample_rates holds -1"},
		{"file outside", `"model.onnx"`, `"../model.onnx"`, `network.file = "../model.onnx"`},
		{"absolute file", `"model.onnx"`, `"/model.onnx"`, `network.file = "/model.onnx"`},
		{"checksum", `sha256 = "`, `sha256 = "0`, "network.sha256"},
		{"input", `input = "signal"`, "", "network.input is missing"},
		{"output", `output = "scores"`, "", "network.output is missing"},
		{"layout", `"NTC"`, `"NCT"`, `network.output_layout = "NCT"`},
		{"scores", `"log_probabilities"`, `"probabilities"`, `network.scores = "probabilities"`},
		{"stride", "stride = 3", "stride = 0", "network.stride = 0"},
		{"method", `"med_mad"`, `"mad"`, `normalisation.method = "mad"`},
		{"clip", "clip = 5.0", "clip = -1.0", "normalisation.clip = -1"},
		{"quantile", `method = "med_mad"`, `method = "quantile"`, "normalisation.quantile_a = 0 and quantile_b = 0"},
		{"pa", `method = "med_mad"`, `method = "pa"`, "normalisation.stdev = 0"},
		{"scope", "clip = 5.0", `scope = "running window"`, `normalisation.scope = "running window" is neither read nor running`},
		{"no warm-up", "clip = 5.0", `scope = "running"`, "normalisation.warmup = 0 is not between four blocks (1024) and"},
		{"long warm-up", "clip = 5.0", "scope = \"running\"\nwarmup = 2000000", "normalisation.warmup = 2000000"},
		{"warm-up over the read", "clip = 5.0", "warmup = 4096", `normalisation.warmup = 4096 is for scope = "running"`},
		{"block", "clip = 5.0", "block = -1", "normalisation.block = -1"},
		{"still", "clip = 5.0", "still = -4.0", "normalisation.still = -4"},
		{"still is no number", "clip = 5.0", "still = nan", "normalisation.still = NaN"},
		{"running picoamperes", `method = "med_mad"`, "method = \"pa\"\nstdev = 20.0\nscope = \"running\"", "are for statistics"},
		{"window", "samples = 3600", "samples = 3601", "window.samples = 3601"},
		{"huge window", "samples = 3600", "samples = 3000000000", "window.samples = 3000000000"},
		{"overlap", "overlap = 600", "overlap = 603", "window.overlap = 603"},
		{"long overlap", "overlap = 600", "overlap = 2400", "window.overlap = 2400 is more than half"},
		{"crf without states", `type = "ctc"`, `type = "crf"`, "state length 0 is not between"},
		{"ctc with states", `type = "ctc"`, "type = \"ctc\"\nstate_length = 3", "decoder.state_length and stay_score are for type crf"},
		{"mean start", "bias = 0.0", "bias = 0.0\nmean_start = -1", "qualities.mean_start = -1"},
		{"many neighbours", "bias = 0.0", "bias = 0.0\nneighbours = 101\nneighbour_share = 0.5", "qualities.neighbours = 101 is not within 0..100"},
		{"neighbours alone decide", "bias = 0.0", "bias = 0.0\nneighbours = 5\nneighbour_share = 1.0", "qualities.neighbour_share = 1"},
		{"share of nobody", "bias = 0.0", "bias = 0.0\nneighbour_share = 0.5", "qualities.neighbours and neighbour_share go together"},
		{"neighbours without a share", "bias = 0.0", "bias = 0.0\nneighbours = 5", "qualities.neighbours and neighbour_share go together"},
		{"half without checksum", `input = "signal"`, "input = \"signal\"\nhalf_file = \"half.onnx\"", "network.half_sha256"},
		{"decoder", `type = "ctc"`, `type = "rnnt"`, `decoder.type = "rnnt"`},
		{"no blank", `["", "A",`, `["A", `, "must begin with"},
		{"label", `"T"]`, `"U"]`, `decoder.labels holds "U"`},
		{"label twice", `"T"]`, `"A"]`, `decoder.labels holds "A" twice`},
		{"beam width", "beam_width = 5", "beam_width = 0", "decoder.beam_width = 0"},
		{"beam cut", "beam_cut = 0.1", "beam_cut = 0.2", "decoder.beam_cut = 0.2"},
		{"base bonus", "beam_cut = 0.1", "beam_cut = 0.1\nbase_bonus = 6", "decoder.base_bonus = 6"},
		{"base bonus that is none", "beam_cut = 0.1", "beam_cut = 0.1\nbase_bonus = nan", "decoder.base_bonus = NaN"},
		{"quality scale", "scale = 1.0", "scale = -1.0", "qualities.scale = -1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := manifestText()
			require.Contains(t, text, test.old)
			_, err := ParseManifest([]byte(strings.Replace(text, test.old, test.new, 1)))
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// crfManifest is a manifest of a CRF network of state length 3 without stays.
func crfManifest() string {
	return strings.NewReplacer(`type = "ctc"`, "type = \"crf\"\nstate_length = 3\nstay_score = 2.0", "log_probabilities", "transitions",
		"beam_width = 5", "beam_width = 32", "beam_cut = 0.1", "beam_cut = 100.0").Replace(manifestText())
}

func TestParseCRFManifest(t *testing.T) {
	m, err := ParseManifest([]byte(crfManifest()))
	require.NoError(t, err)
	assert.Equal(t, 256, m.Decoder.classes())
	m, err = ParseManifest([]byte(strings.Replace(crfManifest(), "stay_score = 2.0\n", "", 1)))
	require.NoError(t, err)
	assert.Equal(t, 320, m.Decoder.classes())
	for _, test := range []struct{ old, new, want string }{
		{`"transitions"`, `"logits"`, `network.scores = "logits" is not transitions`},
		{"state_length = 3", "state_length = 9", "state length 9"},
		{"beam_width = 32", "beam_width = 1000", "beam width 1000"},
		{"beam_cut = 100.0", "beam_cut = 0.1", "beam cut 0.1"},
		{"beam_cut = 100.0", "beam_cut = 100.0\nbase_bonus = 0.2", "decoder.base_bonus is for type ctc"},
		{`, "T"]`, `]`, "decoder.labels has 4 entries"},
	} {
		_, err := ParseManifest([]byte(strings.Replace(crfManifest(), test.old, test.new, 1)))
		require.ErrorContains(t, err, test.want)
	}
}

func TestParseManifestReportsAllFaults(t *testing.T) {
	text := strings.NewReplacer("stride = 3", "stride = 0", "beam_width = 5", "beam_width = 999", "clip = 5.0", "clip = -2.0").Replace(manifestText())
	_, err := ParseManifest([]byte(text))
	for _, want := range []string{"network.stride", "decoder.beam_width", "normalisation.clip"} {
		require.ErrorContains(t, err, want)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(manifestText()))
	f.Add([]byte(crfManifest()))
	f.Add([]byte("format = 1\nname = \""))
	f.Add([]byte("[network]\nstride = 3\n[decoder]\nlabels = [1]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		// What is accepted is safe to compute with.
		w := windowing{stride: m.Network.Stride, samples: m.Window.Samples, overlap: m.Window.Overlap}
		if newDecoder(&m) == nil || m.Decoder.classes() < 2 {
			t.Fatal("no decoder")
		}
		if n := w.count(10 * w.samples); n < 10 {
			t.Fatalf("%d windows of %+v", n, w)
		}
	})
}
