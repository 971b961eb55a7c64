package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
)

// goldenConfig returns the configuration of a golden network.
func goldenConfig(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, name, configFile))
	require.NoError(t, err)
	return string(text)
}

func TestManifests(t *testing.T) {
	stay := float32(2)
	crf := func(k int, stay *float32) basecall.DecoderManifest {
		return basecall.DecoderManifest{
			Type: "crf", Labels: []string{"", "A", "C", "G", "T"}, BeamWidth: 32, BeamCut: 100, StateLength: k, StayScore: stay,
		}
	}
	pa := basecall.NormalisationManifest{Method: "pa", Mean: 93.6376, StdDev: 22.6004}
	for _, test := range []struct {
		name, chemistry, version string
		rate, stride             int
		window                   basecall.WindowManifest
		normalisation            basecall.NormalisationManifest
		decoder                  basecall.DecoderManifest
		qualities                basecall.QualityManifest
	}{
		{
			"dna_r9.4.1_small@v3.0", "r9.4", "3.0", 4000, 5, basecall.WindowManifest{Samples: 120, Overlap: 20},
			basecall.NormalisationManifest{Method: "med_mad"}, crf(2, nil), basecall.QualityManifest{Scale: 0.95, Bias: -0.2, MeanStart: 60},
		},
		{
			"dna_r10.4.1_small@v4.0.0", "r10.4.1", "4.0.0", 4000, 5, basecall.WindowManifest{Samples: 120, Overlap: 20},
			basecall.NormalisationManifest{Method: "quantile", QuantileA: 0.2, QuantileB: 0.9, ShiftMultiplier: 0.51, ScaleMultiplier: 0.53},
			crf(2, &stay), basecall.QualityManifest{Scale: 0.95, Bias: -0.2, MeanStart: 60},
		},
		{
			"dna_r10.4.1_small@v4.3.0", "r10.4.1", "4.3.0", 5000, 6, basecall.WindowManifest{Samples: 120, Overlap: 24},
			pa, crf(2, &stay), basecall.QualityManifest{Scale: 0.95, Bias: -0.2, MeanStart: 60},
		},
		{
			"dna_r10.4.1_small@v5.0.0", "r10.4.1", "5.0.0", 5000, 6, basecall.WindowManifest{Samples: 120, Overlap: 24},
			pa, crf(2, &stay), basecall.QualityManifest{Scale: 1.05, Bias: 1.3, MeanStart: 60},
		},
		{
			"dna_r10.4.1_small@v6.0.0", "r10.4.1", "6.0.0", 5000, 6, basecall.WindowManifest{Samples: 120, Overlap: 24},
			pa, crf(2, &stay), basecall.QualityManifest{Scale: 0.95, Bias: -0.2, MeanStart: 60},
		},
		{
			"dna_r10.4.1_small@v6.1.0", "r10.4.1", "6.1.0", 5000, 6, basecall.WindowManifest{Samples: 120, Overlap: 24},
			pa, crf(2, &stay), basecall.QualityManifest{Scale: 0.95, Bias: -0.2, MeanStart: 60},
		},
		{
			"dna_r9.4.1_small@v2", "r9.4", "2", 4000, 3, basecall.WindowManifest{Samples: 120, Overlap: 24},
			basecall.NormalisationManifest{Method: "med_mad"},
			basecall.DecoderManifest{Type: "ctc", Labels: []string{"", "A", "C", "G", "T"}, BeamWidth: 5, BeamCut: 1e-3},
			basecall.QualityManifest{Scale: 1.3, Bias: -0.4},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := parseConfig([]byte(goldenConfig(t, test.name)))
			require.NoError(t, err)
			m, err := c.manifest(test.name, Options{})
			require.NoError(t, err)
			assert.Equal(t, test.name, m.Name)
			assert.Equal(t, test.chemistry, m.Chemistry)
			assert.Equal(t, test.version, m.Version)
			assert.Equal(t, []int{test.rate}, m.SampleRates)
			assert.Equal(t, test.stride, m.Network.Stride)
			assert.Equal(t, test.window, m.Window)
			assert.Equal(t, test.normalisation, m.Normalisation)
			assert.Equal(t, test.decoder, m.Decoder)
			assert.Equal(t, test.qualities, m.Qualities)
		})
	}
}

// TestWindows rounds chunk and overlap to whole frames, as Bonito does.
func TestWindows(t *testing.T) {
	text := goldenConfig(t, "dna_r10.4.1_small@v4.3.0")
	text = strings.NewReplacer("chunksize = 120", "chunksize = 10000", "overlap = 24", "overlap = 500").Replace(text)
	c, err := parseConfig([]byte(text))
	require.NoError(t, err)
	m, err := c.manifest("dna_r10.4.1_small@v4.3.0", Options{})
	require.NoError(t, err)
	assert.Equal(t, basecall.WindowManifest{Samples: 9996, Overlap: 492}, m.Window)

	c.overlap = 9000
	_, err = c.manifest("dna_r10.4.1_small@v4.3.0", Options{})
	require.ErrorContains(t, err, "overlap = 9000")
}

func TestNamesSayWhatConfigurationsDoNot(t *testing.T) {
	for _, test := range []struct {
		folder    string
		opts      Options
		chemistry string
		rates     []int
		err       string
	}{
		{"dna_r9.4.1_e8_hac@v3.3", Options{}, "r9.4", []int{4000}, ""},
		{"dna_r10.4.1_e8.2_400bps_hac@v4.1.0", Options{}, "r10.4.1", []int{4000}, ""},
		{"dna_r10.4.1_e8.2_5khz_400bps_hac@v4.2.0", Options{}, "r10.4.1", []int{5000}, ""},
		{"dna_r10.4.1_e8.2_400bps_hac@v4.2.0", Options{}, "r10.4.1", []int{5000}, ""},
		{"dna_r10.4.1_e8.2_400bps_sup@v4.3.0", Options{}, "r10.4.1", []int{5000}, ""},
		{"dna_r10.4.1_e8.2_400bps_hac@v6.0.0", Options{}, "r10.4.1", []int{5000}, ""},
		{"dna_r10.4.1_e8.2_400bps_hac@v9.0.0", Options{}, "", nil, "--sample-rate"},
		{"dna_r10.4.1_e8.2_400bps_hac@v9.0.0", Options{SampleRate: 6000}, "r10.4.1", []int{6000}, ""},
		{"ours", Options{SampleRate: 5000}, "", nil, "--chemistry"},
		{"ours", Options{SampleRate: 5000, Chemistry: "r10.4.1", Name: "better"}, "r10.4.1", []int{5000}, ""},
		{"rna004_130bps_hac@v5.1.0", Options{}, "rna004", []int{4000}, ""},
		{"rna002_70bps_hac@v3", Options{}, "rna002", []int{3000, 3012}, ""},
		{"rna002_70bps_hac@v3", Options{SampleRate: 3000}, "rna002", []int{3000, 3012}, ""},
		{"rna002_70bps_hac@v3", Options{SampleRate: 4000}, "rna002", []int{4000}, ""},
		{"rna004_130bps_hac@v5.1.0", Options{Chemistry: "r10.4.1"}, "", nil, `its folder's name is "rna004_130bps_hac@v5.1.0"`},
		{"dna_r9.4.1_e8_hac@v3.3", Options{Chemistry: "rna002"}, "", nil, "it is not for rna002"},
	} {
		c, err := parseConfig([]byte(goldenConfig(t, "dna_r9.4.1_small@v3.0")))
		require.NoError(t, err)
		m, err := c.manifest(test.folder, test.opts)
		if test.err != "" {
			require.ErrorContains(t, err, test.err, test.folder)
			continue
		}
		require.NoError(t, err, test.folder)
		assert.Equal(t, test.chemistry, m.Chemistry)
		assert.Equal(t, test.rates, m.SampleRates)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	const v2, v3, v43, v5 = "dna_r9.4.1_small@v2", "dna_r9.4.1_small@v3.0", "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_small@v5.0.0"
	for _, test := range []struct{ name, config, old, new, want string }{
		{"syntax", v3, "[labels]", "[labels", "line "},
		{"unknown layer", v43, `type = "lstm"`, `type = "gru"`, `layer "gru" is not supported`},
		{"factorised", v43, `type = "lstm"`, `type = "flstm"`, "encoder.sublayers[4] (flstm): inner_dim is missing"},
		{"unknown setting", v43, "stride = 6", "stride = 6\ndilation = 2", "encoder.sublayers[2] (convolution): dilation is not a setting that is known"},
		{"activation", v43, `"tanh"`, `"gelu"`, `activation = "gelu" is not supported`},
		{"padding", v43, "padding = 9", "padding = 0", "winlen = 19 with padding = 0"},
		{"norm", v43, `"batchnorm"`, `"layernorm"`, `norm = "layernorm"`},
		{"missing", v43, "insize = 4\n", "", "insize is missing"},
		{"huge", v43, "insize = 4\n", "insize = 4000000000000\n", "not a whole number from 1"},
		{"not a number", v43, "insize = 4\n", "insize = \"4\"\n", "is not a number"},
		{"bases", v43, "n_base = 4", "n_base = 5", "n_base = 5 is not 4"},
		{"state length", v43, "state_len = 2\nbias", "state_len = 9\nbias", "state_len = 9 is more than 6"},
		{"other state length", v43, "state_len = 2\n\n", "state_len = 3\n\n", "state_len is 3, but that of the linearcrfencoder 2"},
		{"labels", v43, `"N", "A", "C"`, `"N", "C", "A"`, "is not N, A, C, G, T"},
		{"duplex", v43, "features = 1", "features = 13", "duplex"},
		{"scaling", v43, `strategy = "pa"`, `strategy = "magic"`, `strategy = "magic"`},
		{"standardisation", v43, `strategy = "pa"`, `strategy = "quantile"`, "standardise needs"},
		{"modified bases", v43, "[model]", "[modbases]\nmod_bases = \"m\"\n[model]", "modified bases"},
		{"sample", v5, `sample_type = "dna"`, `sample_type = "protein"`, `sample_type = "protein" is none of dna, rna002, rna004`},
		{"heads", v5, "nhead = 2", "nhead = 3", "d_model = 8 is not a multiple"},
		{"window", v5, "attn_window = [3, 4]", "attn_window = [3]", "attn_window"},
		{"rnn", v3, `rnn_type = "lstm"`, `rnn_type = "gru"`, `rnn_type = "gru"`},
		{"residual", v3, "features = 4\n", "features = 4\nresidualized_rnn = true\n", "residualized_rnn is not a setting"},
		{"no encoder", v3, "[encoder]", "[encodes]", "describes no encoder"},
		{"block's setting", v2, "filters = 8\n", "filters = 8\ngroups = 2\n", "block[0]: groups is not a setting that is known"},
		{"block's width", v2, "kernel = [9]", "kernel = [8]", "block[0]: kernel = [8] is not supported, only an odd one"},
		{"block's widths", v2, "kernel = [9]", "kernel = [9, 9]", "kernel = [9 9] is not a list of one number"},
		{"block's stride", v2, "repeat = 3\nkernel = [7]\nstride = [1]", "repeat = 3\nkernel = [7]\nstride = [2]", "block[1]: stride = [2] with"},
		{"blocks' activation", v2, `activation = "swish"`, `activation = "tanh"`, `activation = "tanh" is neither swish nor relu`},
		{"many blocks", v2, "repeat = 3", "repeat = 1001", "more than 1000 convolutions"},
		{"blocks' duplex", v2, "features = 1", "features = 9", "duplex"},
		{"blocks' labels", v2, `"N", "A", "C"`, `"N", "C", "A"`, "is not N, A, C, G, T"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := goldenConfig(t, test.config)
			require.Contains(t, text, test.old)
			_, err := parseConfig([]byte(strings.Replace(text, test.old, test.new, 1)))
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

// TestConvertRefuses breaks what a model's folder holds.
func TestConvertRefuses(t *testing.T) {
	const name = "dna_r10.4.1_small@v4.0.0"
	breakModel := func(t *testing.T, model string, change func(dir string)) error {
		t.Helper()
		dir := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(golden, model))))
		change(dir)
		_, err := Convert(dir, Options{})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "\n")
		assert.Contains(t, err.Error(), dir)
		assert.NotContains(t, err.Error(), configFile+": "+configFile, "a place is named once")
		return err
	}
	remove := func(file string) func(string) {
		return func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, file))) }
	}
	edit := func(old, new string) func(string) {
		return func(dir string) {
			file := filepath.Join(dir, configFile)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(text), old)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600))
		}
	}
	require.ErrorContains(t, breakModel(t, name, remove(configFile)), "has no config.toml")
	require.ErrorContains(t, breakModel(t, name, remove("weights_2.tar")), "neither .tensor files")
	require.ErrorContains(t, breakModel(t, name+".dorado", remove("5.rnn.bias_ih_l0.tensor")), "parameter 5.rnn.bias_ih_l0 is missing")
	require.ErrorContains(t, breakModel(t, name+".dorado", func(dir string) {
		require.NoError(t, os.Rename(filepath.Join(dir, "0.conv.weight.tensor"), filepath.Join(dir, "1.conv.weight.tensor")))
	}), "parameter 0.conv.weight is missing")
	require.ErrorContains(t, breakModel(t, name+".dorado", func(dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "weights_1.tar"), nil, 0o600))
	}), "has both .tensor files and weights_1.tar")
	require.ErrorContains(t, breakModel(t, name, edit("out_features = 5", "out_features = 6")), "has shape [5 6]")
	require.ErrorContains(t, breakModel(t, name, edit("insize = 5", "insize = 6")), "layer 10 (linearcrfencoder): it takes 6 channels, but the layers before it give 5")
	require.ErrorContains(t, breakModel(t, name, edit("dims = [2, 0, 1]", "dims = [0, 2, 1]")), "layer 7 (lstm): the layers before it")
	require.ErrorContains(t, breakModel(t, name, edit("dims = [2, 0, 1]", "dims = [0, 0, 1]")), "no order of three axes")
	require.ErrorContains(t, breakModel(t, "dna_r10.4.1_small@v6.0.0", edit("inner_dim = 3", "inner_dim = 4")),
		"parameter 4.rnn.dn_weight_ih has shape [3 6], but config.toml describes [4 6]")
	const blocks = "dna_r9.4.1_small@v2"
	require.ErrorContains(t, breakModel(t, blocks, func(dir string) {
		require.NoError(t, os.Truncate(filepath.Join(dir, "weights_1.tar"), 29_000))
	}), "the file ends within storage")
	require.ErrorContains(t, breakModel(t, blocks, edit("filters = 16", "filters = 17")), "has shape [16]")
	require.ErrorContains(t, breakModel(t, blocks, edit("repeat = 3", "repeat = 4")), "parameter encoder.1.conv.13.weight is missing")
	require.ErrorContains(t, breakModel(t, blocks, func(dir string) {
		require.NoError(t, os.Rename(filepath.Join(dir, "weights_1.tar"), filepath.Join(dir, "0.conv.weight.tensor")))
	}), "which no network of blocks is")
	_, err := Convert(filepath.Join(t.TempDir(), "none"), Options{})
	require.ErrorContains(t, err, "has no config.toml")
}

// FuzzParseConfig parses arbitrary configurations.
func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"dna_r9.4.1_small@v3.0", "dna_r10.4.1_small@v4.0.0", "dna_r10.4.1_small@v5.0.0", "dna_r9.4.1_small@v2"} {
		f.Add([]byte(goldenConfig(f, name)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		m, err := c.manifest("dna_r9.4.1@v3.3", Options{})
		if err != nil {
			return
		}
		if m.Network.Stride < 1 || m.Window.Samples < m.Network.Stride || (c.encoder.crf == nil) == (c.encoder.ctc == nil) {
			t.Fatalf("%+v", m)
		}
	})
}
