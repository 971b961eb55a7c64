package convert

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/testenv"
)

// TestDeepMod2: networks of both forms, with random weights, give the probabilities that PyTorch does from what DeepMod2 sees of
// reads.
func TestDeepMod2(t *testing.T) {
	reads := makeReads()
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "transformer_R9.4.1.pt"), filepath.Join(dir, "bilstm_R10.4.1_5kHz_v4.3")}
	results := make(map[string][]result)
	for _, j := range run(t, reads, "deepmod2.py", files...) {
		results[j.Model] = append(results[j.Model], j)
	}
	for i, want := range []struct {
		name, chemistry string
		rate            int
		basecallers     string
	}{
		{"transformer_R9.4.1", "r9.4", 4000, "dna_r9.4.1_e8_hac@v3.3, dna_r9.4.1_e8_sup@v3.3"},
		{"bilstm_R10.4.1_5kHz_v4.3", "r10.4.1", 5000, "dna_r10.4.1_e8.2_400bps_fast@v4.3.0, dna_r10.4.1_e8.2_400bps_hac@v4.3.0, dna_r10.4.1_e8.2_400bps_sup@v4.3.0"},
	} {
		t.Run(want.name, func(t *testing.T) {
			require.True(t, Is(files[i]))
			data, err := Convert(files[i], Options{})
			require.NoError(t, err)
			again, err := Convert(files[i], Options{})
			require.NoError(t, err)
			require.Equal(t, data, again)
			m, err := network.ParseModel(data, "")
			require.NoError(t, err)
			assert.Equal(t, want.name, m.Name)
			assert.Equal(t, want.chemistry, m.Chemistry)
			assert.Equal(t, want.rate, m.SampleRate)
			assert.Equal(t, want.basecallers, m.Basecaller)
			b := basecall.Manifest{Name: "mine", ConvertedFrom: strings.Split(want.basecallers, ", ")[1], Chemistry: m.Chemistry, SampleRates: []int{m.SampleRate}, Network: basecall.NetworkManifest{Stride: 6}}
			require.NoError(t, m.Fits(&b))
			b.ConvertedFrom = ""
			require.ErrorContains(t, m.Fits(&b), "and basecalling model mine is another")
			low, high := agree(t, m, reads, results[files[i]])
			require.Greater(t, high-low, 0.05, "probabilities that are all alike say nothing")
		})
	}
}

// TestTrainedDeepMod2 does the same with networks that DeepMod2 ships.
func TestTrainedDeepMod2(t *testing.T) {
	reads := makeReads()
	var files []string
	for _, name := range []string{"deepmod2-transformer-R9.4.1.pt", "deepmod2-transformer-R10.4.1_4kHz_v4.1.pt"} {
		files = append(files, testenv.Recordings(t, "modbase/models/"+name))
	}
	results := make(map[string][]result)
	for _, j := range run(t, reads, "deepmod2.py", files...) {
		results[j.Model] = append(results[j.Model], j)
	}
	for _, file := range files {
		data, err := Convert(file, Options{})
		require.NoError(t, err)
		m, err := network.ParseModel(data, "")
		require.NoError(t, err)
		low, high := agree(t, m, reads, results[file])
		require.Greater(t, high-low, 0.3)
	}
}

func TestDeepMod2Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "R9.4.1")
	require.NoError(t, os.WriteFile(file, []byte("no tensors"), 0o600))
	require.False(t, Is(file))
	_, err := Convert(file, Options{})
	require.ErrorContains(t, err, "neither a ZIP archive")
	_, err = Convert(filepath.Join(t.TempDir(), "nowhere"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestDeepMod2Names: a name that doesn't say which basecalling models a network follows, or its sample rate, is refused, unless options do.
func TestDeepMod2Names(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
		want string
		rate int
		err  string
	}{
		{"R9.4.1", Options{}, "dna_r9.4.1_e8_hac@v3.3, dna_r9.4.1_e8_sup@v3.3", 4000, ""},
		{"R10.4.1_4kHz_v3.5", Options{}, "dna_r10.4.1_e8.2_400bps_fast@v3.5.2, dna_r10.4.1_e8.2_400bps_hac@v3.5.2, dna_r10.4.1_e8.2_400bps_sup@v3.5.2", 4000, ""},
		{"mine-R10.4.1_4kHz_v4.1.pt", Options{}, "dna_r10.4.1_e8.2_400bps_fast@v4.1.0, dna_r10.4.1_e8.2_400bps_hac@v4.1.0, dna_r10.4.1_e8.2_400bps_sup@v4.1.0", 4000, ""},
		{"R10.4.1_5kHz_v9.9", Options{}, "", 0, "doesn't say which basecalling models it follows"},
		{"R10.4.1_5kHz_v9.9", Options{Basecaller: AnyBasecaller}, "", 5000, ""},
		{"R10.4.1_4kHz", Options{Basecaller: "mine"}, "", 0, "doesn't say the sample rate"},
		{"mine", Options{Chemistry: "r10.4.1", SampleRate: 4000}, "", 0, "doesn't say which basecalling models it follows"},
		{"mine", Options{Chemistry: "r10.4.1", SampleRate: 4000, Basecaller: "x"}, "", 4000, ""},
	} {
		have, err := deepNamed(tt.name, &tt.opts)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err, tt.name)
			continue
		}
		require.NoError(t, err, tt.name)
		assert.Equal(t, tt.want, have, tt.name)
		assert.Equal(t, tt.rate, tt.opts.SampleRate, tt.name)
	}
}

// TestDeepMod2RefusesShapes: parameters of shapes and numbers that no network of DeepMod2 has are refused, whatever they are.
func TestDeepMod2RefusesShapes(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name    string
		pe, pad torch.Tensor
		want    string
	}{
		{"nothing of positions", torch.Tensor{Shape: []int{0, 21, 64}}, torch.Tensor{Shape: []int{1, 21, 5}, Data: make([]float32, 105)}, "pe_block.pe has shape [0 21 64], not [1 21 64]"},
		{"other bases", torch.Tensor{Shape: []int{1, 20, 64}}, torch.Tensor{Shape: []int{1, 20, 5}}, "pe_block.pe has shape [1 20 64]"},
		{"positions that are no numbers", torch.Tensor{Shape: []int{1, 21, 1}, Data: slices.Repeat([]float32{nan}, 21)}, torch.Tensor{Shape: []int{1, 21, 4}}, "pe_block.pe holds NaN"},
		{"padding that is something", torch.Tensor{Shape: []int{1, 21, 1}, Data: make([]float32, 21)}, torch.Tensor{Shape: []int{1, 1, 4}, Data: []float32{0, 0, 1, 0}}, "pad holds numbers other than 0"},
		{"a matrix", torch.Tensor{Shape: []int{21, 64}}, torch.Tensor{Shape: []int{1, 21, 5}}, "have the shapes [21 64] and [1 21 5]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tensors := map[string]torch.Tensor{statePrefix + "pe_block.pe": tt.pe, statePrefix + "pad": tt.pad}
			b := &builder{g: onnxgraph.New("modified-bases", false), parameters: &parameters{where: "file", of: func(name string) (torch.Tensor, error) {
				return tensors[statePrefix+name], nil
			}}}
			require.ErrorContains(t, b.deepMod2(tensors), tt.want)
		})
	}
}

// TestPrune: as many weights as asked become 0, the smallest.
func TestPrune(t *testing.T) {
	weights := []float32{-3, 1, 0.5, -0.25, 2, 4}
	assert.Equal(t, []float32{-3, 1, 0, 0, 2, 4}, prune(weights, 0.4))
	assert.Equal(t, []float32{-3, 1, 0.5, -0.25, 2, 4}, weights)
}
