package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/testenv"
)

// made is a made-up read: its samples, and what it is called.
type made struct {
	samples []int16
	called  basecall.Called
	seen    seen
}

// seen is a read as networks see it: from the first base on.
type seen struct {
	Samples   []int16 `json:"samples"`
	Starts    []int   `json:"starts"`
	Bases     []int   `json:"bases"`
	Shift     float32 `json:"shift"`
	Scale     float32 `json:"scale"`
	All       []int16 `json:"all"`
	Qualities []int   `json:"qualities"`
}

// makeRead makes one up of so many bases, which frames of 6 samples are of.
func makeRead(rng *rand.Rand, bases int) made {
	c := basecall.Called{Stride: 6, Shift: 510, Scale: 88, TrimmedSamples: 3 * rng.IntN(4)}
	if rng.IntN(2) == 0 {
		c.Moves = append(c.Moves, 0, 0) // frames before the first base
	}
	s := seen{Shift: c.Shift, Scale: c.Scale}
	first := c.TrimmedSamples + len(c.Moves)*c.Stride
	for range bases {
		b := rng.IntN(4)
		q := 1 + rng.IntN(40)
		s.Bases, s.Starts, s.Qualities = append(s.Bases, b), append(s.Starts, c.TrimmedSamples+len(c.Moves)*c.Stride-first), append(s.Qualities, q)
		c.Sequence, c.Qualities = append(c.Sequence, "ACGT"[b]), append(c.Qualities, byte(q))
		c.Moves = append(append(c.Moves, 1), make([]byte, rng.IntN(4))...)
	}
	c.NumSamples = c.TrimmedSamples + c.Stride*len(c.Moves) + rng.IntN(c.Stride)
	samples := make([]int16, c.NumSamples)
	level := 0.0
	for i := range samples {
		if rng.IntN(8) == 0 {
			level = 500 + 90*rng.NormFloat64()
		}
		samples[i] = int16(level + 9*rng.NormFloat64())
	}
	s.Starts = append(s.Starts, c.NumSamples-first)
	s.Samples, s.All = samples[first:], samples
	return made{samples, c, s}
}

// makeReads makes up long reads and some so short that hardly anything is around a base. One has more bases than the current
// is scaled by.
func makeReads() []made {
	rng := rand.New(rand.NewPCG(5, 6))
	var all []made
	for _, n := range []int{1400, 300, 90, 45, 24, 12} {
		all = append(all, makeRead(rng, n))
	}
	return all
}

// result is what a program of others says of a read.
type result struct {
	Model         string      `json:"model"`
	Places        []int       `json:"places"`
	Probabilities [][]float64 `json:"probabilities"` // of the plain base first
}

// run has a script in testdata score reads.
func run(t *testing.T, reads []made, script string, args ...string) []result {
	t.Helper()
	testenv.SkipUnchanged(t, "networks")
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "torch", "torch", "numpy")
	var in bytes.Buffer
	for i := range reads {
		require.NoError(t, json.NewEncoder(&in).Encode(reads[i].seen))
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-W", "ignore", "testdata/" + script}, args...)...)
	cmd.Stdin = &in
	out, err := cmd.Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		require.NoError(t, err, "%s", exit.Stderr)
	}
	require.NoError(t, err)
	var all []result
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var j result
		require.NoError(t, decoder.Decode(&j))
		all = append(all, j)
	}
	return all
}

func open(t *testing.T, m *network.Model) *network.Caller {
	t.Helper()
	c, err := network.New([]*network.Model{m}, network.Config{Device: "cpu", Sessions: 1})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// agree holds what a model makes of reads to what another program does, and returns the smallest and largest
// probability.
func agree(t *testing.T, m *network.Model, reads []made, want []result) (low, high float64) {
	t.Helper()
	c := open(t, m)
	low = 1
	require.Len(t, want, len(reads))
	for i := range reads {
		tags, err := c.Call(t.Context(), reads[i].samples, &reads[i].called)
		require.NoError(t, err)
		s := modbase.Sequence{Bases: reads[i].called.Sequence}
		require.NoError(t, tags.Check(s))
		have := make(map[modbase.Code]map[int]int)
		for call := range tags.Calls(s) {
			if have[call.Code] == nil {
				have[call.Code] = make(map[int]int)
			}
			have[call.Code][call.At] = call.Probability
		}
		for k, code := range m.Codes {
			require.Len(t, have[code], len(want[i].Places), "read %d", i)
			for j, place := range want[i].Places {
				p := want[i].Probabilities[j][1+k]
				low, high = min(low, p), max(high, p)
				require.InDelta(t, 256*p, float64(have[code][place])+0.5, 0.51, "read %d of %d bases, place %d, %s", i, len(reads[i].called.Sequence), place, code)
			}
		}
	}
	return low, high
}

// TestDorado: networks of each form, from folders as Dorado has them, give the probabilities that PyTorch does.
func TestDorado(t *testing.T) {
	reads := makeReads()
	dir := t.TempDir()
	results := make(map[string][]result)
	for _, j := range run(t, reads, "dorado.py", dir) {
		results[j.Model] = append(results[j.Model], j)
	}
	for name, want := range map[string]struct {
		chemistry, basecaller, codes string
		rate                         int
	}{
		"dna_r9.4.1_e8_sup@v3.3_5mCG@v0.1":                 {"r9.4", "dna_r9.4.1_e8_sup@v3.3", "[m]", 4000},
		"dna_r10.4.1_e8.2_400bps_sup@v4.1.0_5mCG_5hmCG@v2": {"r10.4.1", "dna_r10.4.1_e8.2_400bps_sup@v4.1.0", "[h m]", 4000},
		"dna_r10.4.1_e8.2_400bps_hac@v4.1.0_6mA@v2":        {"r10.4.1", "dna_r10.4.1_e8.2_400bps_hac@v4.1.0", "[a]", 4000},
		"dna_r10.4.1_e8.2_400bps_hac@v5.0.0_4mC_5mC@v3":    {"r10.4.1", "dna_r10.4.1_e8.2_400bps_hac@v5.0.0", "[21839 m]", 5000},
		"dna_r10.4.1_e8.2_400bps_sup@v5.0.0_6mA@v4":        {"r10.4.1", "dna_r10.4.1_e8.2_400bps_sup@v5.0.0", "[a]", 5000},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, name)
			require.True(t, Is(folder))
			m, err := Open(folder)
			require.NoError(t, err)
			assert.Equal(t, name, m.Name)
			assert.Equal(t, want.chemistry, m.Chemistry)
			assert.Equal(t, want.basecaller, m.Basecaller)
			assert.Equal(t, want.rate, m.SampleRate)
			assert.Equal(t, want.codes, fmt.Sprint(m.Codes))
			low, high := agree(t, m, reads, results[name])
			require.Greater(t, high-low, 0.05, "probabilities that are all alike say nothing")

			// What was written to a file is the same model, whatever the file is called.
			data, err := Convert(folder, Options{})
			require.NoError(t, err)
			again, err := Convert(folder, Options{})
			require.NoError(t, err)
			require.Equal(t, data, again)
			file := filepath.Join(t.TempDir(), "x.onnx")
			require.NoError(t, os.WriteFile(file, data, 0o600))
			other, err := Open(file)
			require.NoError(t, err)
			require.Equal(t, m.SHA256, other.SHA256)
			require.Equal(t, m.Name, other.Name)

			// It follows the model that it was made for, under that name or any.
			b := basecall.Manifest{Name: want.basecaller, Chemistry: m.Chemistry, SampleRates: []int{m.SampleRate}, Network: basecall.NetworkManifest{Stride: 6}}
			require.NoError(t, m.Fits(&b))
			b.Name, b.ConvertedFrom = "mine", b.Name
			require.NoError(t, m.Fits(&b))
			b.ConvertedFrom = ""
			require.ErrorContains(t, m.Fits(&b), "is for reads that "+want.basecaller+" calls, and basecalling model mine is another")
			data, err = Convert(folder, Options{Basecaller: AnyBasecaller, Name: "x"})
			require.NoError(t, err)
			free, err := network.ParseModel(data, "")
			require.NoError(t, err)
			require.NoError(t, free.Fits(&b))
			b.Network.Stride = 5
			if strings.Contains(name, "@v5") {
				require.ErrorContains(t, free.Fits(&b), "must be a multiple")
			} else {
				require.NoError(t, free.Fits(&b))
			}
		})
	}
}

// plainConfig is a configuration that can be read; its parameters aren't there.
const plainConfig = `[general]
model = "conv_lstm"
[model_params]
size = 12
kmer_len = 9
num_out = 2
[modbases]
mod_bases = "m"
offset = 0
mod_long_names_0 = "5mC"
chunk_context_0 = 50
chunk_context_1 = 50
kmer_context_bases_0 = 4
kmer_context_bases_1 = 4
motif = "CG"
motif_offset = 0
[refinement]
refine_do_rough_rescale = 0
`

// TestDoradoRefuses: what isn't known is named in one line, whatever it is.
func TestDoradoRefuses(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"", "", "parameter sig_conv1.weight.tensor is missing"},
		{`"conv_lstm"`, `"conv_tx_v9"`, `general.model = "conv_tx_v9" is a network that isn't known`},
		{"size = 12", "size = 12\nheads = 2", "model_params.heads is not a setting that is known"},
		{"offset = 0\nmod", "offset = 0\nwindow = 3\nmod", "modbases.window is not a setting that is known"},
		{"offset = 0\nmod", "offset = 1\nmod", "modbases.offset = 1 is not supported"},
		{"offset = 0\nmod", "offset = 0\nreverse_signal = true\nmod", "it is for RNA"},
		{`"m"`, `["x", "no"]`, `"no": want a letter`},
		{`"m"`, `"hm"`, "model_params.num_out = 2, but modbases.mod_bases has 2 modifications"},
		{`"m"`, `""`, "names no modification"},
		{"kmer_len = 9", "kmer_len = 7", "model_params.kmer_len = 7, but"},
		{"size = 12", `size = "big"`, "line 4"},
		{"size = 12", "size = 100000000", "model_params.size = 100000000 is no number from 1 to 4096"},
		{"chunk_context_1 = 50", "chunk_context_1 = 0", "chunk_context_1 = 0 is no number"},
		{"chunk_context_1 = 50", "chunk_context_1 = 50\nchunk_size = 99999999", "chunk_size = 99999999 is no number"},
		{"motif_offset = 0", "motif_offset = 2", "motif_offset = 2 is no number from 0 to 1"},
		{"[refinement]", "[[encoder.sublayers]]\ntype = \"transformer\"\n[refinement]", `encoder.sublayers[0]: layer "transformer" is not supported`},
		{`"conv_lstm"`, `"conv_lstm_v3"`, "signal_encoder has 0 sublayers, not 3"},
		{`[general]`, "[general", "line 1"},
		{"[modbases]", "[modbase]", "it has no table [modbases]"},
	} {
		text := plainConfig
		if tt.old != "" {
			text = strings.Replace(text, tt.old, tt.new, 1)
			require.NotEqual(t, plainConfig, text, tt.old)
		}
		dir := filepath.Join(t.TempDir(), "dna_r10.4.1_e8.2_400bps_hac@v4.1.0_5mCG@v2")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600))
		_, err := Convert(dir, Options{})
		require.ErrorContains(t, err, tt.want)
		assert.NotContains(t, err.Error(), "\n")
	}
	_, err := Open(t.TempDir())
	require.ErrorContains(t, err, "neither a folder of Dorado's for modified bases")
	for _, tt := range []struct{ name, want string }{
		{"mine", "doesn't begin with a chemistry"},
		{"rna004_130bps_sup@v5.0.0_pseU@v1", "it is for RNA (rna004)"},
		{"dna_r10.4_x", "doesn't say the sample rate"},
	} {
		require.ErrorContains(t, new(converted).called(tt.name, Options{}), tt.want)
	}
}

// TestTooManyLevels: a table of levels that no pore has is refused before memory goes to it.
func TestTooManyLevels(t *testing.T) {
	_, err := (&network.Converted{Levels: make([]float32, 1<<20+1)}).File()
	require.ErrorContains(t, err, "1048577 levels are more than those of 10-mers")
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(plainConfig))
	f.Add([]byte(strings.Replace(plainConfig, `"m"`, `["21839", "m"]`, 1)))
	f.Add([]byte(strings.Replace(plainConfig, "[refinement]", "[[encoder.sublayers]]\ntype = \"lstm\"\nsize = 3\nreverse = 1\n[refinement]", 1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, c.codes)
		require.Equal(t, c.Params.Outputs, 1+len(c.codes))
	})
}
