package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/testenv"
)

var update = flag.Bool("update", false, "write the golden networks anew, with Bonito and PyTorch")

// golden holds small networks that Bonito built and saved, with the scores that PyTorch
// computes; see testdata/networks.py.
const golden = "testdata/golden"

// Tolerances for scores, which lie between -5 and 5.
const (
	tolerance     = 1e-4
	halfTolerance = 1e-2
	int8Tolerance = 0.2 // of scores within ±5, from layers whose weights are random
)

// realSignal returns normalised samples from the middle of a real read.
func realSignal(t *testing.T, n int) []float32 {
	t.Helper()
	return realSignals(t, 1, n)[0]
}

// realSignals returns normalised samples from the middles of so many real reads.
func realSignals(t *testing.T, count, n int) [][]float32 {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{"../../testdata/lambda"})
	require.NoError(t, err)
	defer index.Close()
	var signals [][]float32
	for i := 0; i < index.Len() && len(signals) < count; i++ {
		samples, err := index.Samples(i, nil)
		require.NoError(t, err)
		if len(samples) < 4*n {
			continue
		}
		sorted := slices.Sorted(slices.Values(samples))
		shift, scale := float32(sorted[len(sorted)/2]), float32(sorted[len(sorted)*9/10]-sorted[len(sorted)/10])/2
		x := make([]float32, n)
		for k := range x {
			x[k] = (float32(samples[len(samples)/2+k]) - shift) / scale
		}
		signals = append(signals, x)
	}
	require.Len(t, signals, count, "reads that are long enough")
	return signals
}

// bonito runs the script that builds networks.
func bonito(t *testing.T, signal []float32, out string, kind ...string) {
	t.Helper()
	python := testenv.Python(t, "PORESTREAM_MODEL_PYTHON", "torch ont-bonito", "torch", "numpy")
	file := filepath.Join(t.TempDir(), "signal.f32")
	require.NoError(t, os.WriteFile(file, onnxgraph.FloatBytes(signal), 0o600))
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-W", "ignore", "testdata/networks.py", file, out}, kind...)...)
	text, err := cmd.CombinedOutput()
	if bytes.Contains(text, []byte("ont-bonito is not installed")) && os.Getenv("CI") != "true" {
		t.Skip("needs ont-bonito 1.1.0 (pip install --no-deps)")
	}
	require.NoError(t, err, "%s", text)
}

// readFloats reads a file of float32.
func readFloats(t *testing.T, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

// compute runs a model's network on windows, one behind the other, each as the last of as many
// as the precision computes together. It returns nil if the network can't be computed in it.
func compute(t *testing.T, model *basecall.Model, onnx []byte, precision infer.Precision, windows []float32) []float32 {
	t.Helper()
	return computeIn(t, model, onnx, infer.Compute{Precision: precision}, windows)
}

func computeIn(t *testing.T, model *basecall.Model, onnx []byte, in infer.Compute, windows []float32) []float32 {
	t.Helper()
	m := model.Manifest
	require.Zero(t, len(windows)%m.Window.Samples)
	classes := len(m.Decoder.Labels)
	if m.Decoder.Type == "crf" {
		classes = 4 << (2 * m.Decoder.StateLength)
		if m.Decoder.StayScore == nil {
			classes += classes / 4
		}
	}
	net := infer.Network{
		Name: m.Name, ONNX: onnx, Input: m.Network.Input, Output: m.Network.Output, TimeMajor: m.Network.OutputLayout == "TNC",
		Samples: m.Window.Samples, Frames: m.Window.Samples / m.Network.Stride, Classes: classes,
	}
	runners, err := infer.Open(net, infer.Options{
		Device: "cpu", BatchCPU: 2, SessionsCPU: 1, BatchCUDA: 1, SessionsCUDA: 1, Compute: in,
	})
	if errors.Is(err, infer.ErrNoInt8) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs ONNX Runtime: ", err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, runners.Close()) }()
	if in.Kernels == infer.KernelsAlways {
		t.Logf("%+v", runners.Kernels)
		assert.Zero(t, runners.Kernels.Plain, "LSTM layers without a kernel")
		assert.False(t, runners.Padded, "layers that aren't kernels")
	}
	r := runners.Runners[0]
	last := runners.Batch - 1
	var all []float32
	for window := range slices.Chunk(windows, m.Window.Samples) {
		copy(r.Input(last), window)
		_, err = r.Run(runners.Batch, len(r.Input(0)))
		require.NoError(t, err)
		scores := make([]float32, net.Frames*net.Classes)
		r.Scores(last).Copy(scores)
		all = append(all, scores...)
	}
	return all
}

// farthest returns the largest difference between scores.
func farthest(t *testing.T, want, have []float32) float64 {
	t.Helper()
	require.Len(t, have, len(want))
	far := 0.0
	for i := range want {
		far = max(far, math.Abs(float64(want[i])-float64(have[i])))
	}
	return far
}

// kernelScores compares what the kernels for GPUs, in their form for CPUs, make of a converted network of LSTM layers, which they have to
// compute from the signal to the scores.
func kernelScores(t *testing.T, model *basecall.Model, want, window []float32) {
	t.Helper()
	far := farthest(t, want, computeIn(t, model, model.Network, infer.Compute{Kernels: infer.KernelsAlways}, window))
	t.Logf("by kernels %.2g", far)
	assert.Less(t, far, halfTolerance)
}

// checkNetworks converts every model in a folder and compares its scores.
func checkNetworks(t *testing.T, dir string, window []float32, onKernels bool) {
	t.Helper()
	expected, err := filepath.Glob(filepath.Join(dir, "*.f32"))
	require.NoError(t, err)
	count := 0
	for _, file := range expected {
		name := strings.TrimSuffix(file, ".f32")
		if filepath.Base(name) == "signal" {
			continue
		}
		for _, folder := range []string{name, name + ".dorado"} {
			if _, err := os.Stat(folder); err != nil {
				continue
			}
			count++
			t.Run(filepath.Base(folder), func(t *testing.T) {
				model, err := Convert(folder, Options{})
				require.NoError(t, err)
				want := readFloats(t, file)
				single := farthest(t, want, compute(t, model, model.Network, infer.PrecisionSingle, window))
				t.Logf("farthest from PyTorch: %.2g", single)
				assert.Less(t, single, tolerance)
				if model.Half != nil {
					half := farthest(t, want, compute(t, model, model.Half, infer.PrecisionSingle, window))
					t.Logf("in half precision %.2g", half)
					assert.Less(t, half, halfTolerance)
				}
				if onKernels && !strings.Contains(name, "_sup@v5.") { // a transformer has none
					kernelScores(t, model, want, window)
				}
				scores := compute(t, model, model.Network, infer.PrecisionInt8, window)
				if scores == nil {
					assert.Regexp(t, `@v[56]\.\d\.0|_small@v[12]$`, name, "only transformers, factorised LSTMs and networks of blocks have no LSTM layers")
					return
				}
				int8 := farthest(t, want, scores)
				t.Logf("in whole numbers %.2g", int8)
				assert.Less(t, int8, int8Tolerance)
				assert.NotEqual(t, want, scores)
			})
		}
	}
	require.Positive(t, count)
}

// TestGoldenNetworks needs neither Python nor PyTorch.
func TestGoldenNetworks(t *testing.T) {
	if *update {
		out := filepath.Join(t.TempDir(), "out")
		window := realSignal(t, 120)
		bonito(t, window, out, "small")
		require.NoError(t, os.WriteFile(filepath.Join(out, "signal.f32"), onnxgraph.FloatBytes(window), 0o600))
		require.NoError(t, os.RemoveAll(golden))
		require.NoError(t, os.CopyFS(golden, os.DirFS(out)))
		// Of Dorado's form two are enough: that whose layers are renumbered, and the one that Dorado develops.
		folders, err := filepath.Glob(golden + "/*.dorado")
		require.NoError(t, err)
		for _, folder := range folders {
			if !strings.Contains(folder, "@v4.0.0") && !strings.Contains(folder, "@v6.1.0") {
				require.NoError(t, os.RemoveAll(folder))
			}
		}
	}
	checkNetworks(t, golden, readFloats(t, golden+"/signal.f32"), false)
}

// TestNetworksOfBonito builds networks as wide as ONT's with Bonito, on the spot.
func TestNetworksOfBonito(t *testing.T) {
	if testing.Short() {
		t.Skip("builds large networks")
	}
	testenv.SkipUnchanged(t, "converters")
	window := realSignal(t, 3000)
	out := filepath.Join(t.TempDir(), "out")
	bonito(t, window, out, "full")
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	checkNetworks(t, out, window, true)
}

// TestTrainedNetworkOfBonito compares, on five reads, what the network that comes with
// ont-bonito 0.2.3 says with what PyTorch computes from the same weights.
func TestTrainedNetworkOfBonito(t *testing.T) {
	testenv.SkipUnchanged(t, "networks")
	folder := testenv.Path(t, "PORESTREAM_BONITO_MODEL", "the folder of the network in ont-bonito 0.2.3")
	model, err := Convert(folder, Options{})
	require.NoError(t, err)
	m := &model.Manifest
	assert.Equal(t, "r9.4", m.Chemistry)
	assert.Equal(t, []int{4000}, m.SampleRates)
	m.Window.Samples = 1500
	windows := slices.Concat(realSignals(t, 5, m.Window.Samples)...)
	out := filepath.Join(t.TempDir(), "scores.f32")
	bonito(t, windows, out, "trained", folder, strconv.Itoa(m.Window.Samples))
	want := probabilities(readFloats(t, out))
	far := farthest(t, want, probabilities(compute(t, model, model.Network, infer.PrecisionSingle, windows)))
	t.Logf("farthest from PyTorch's probabilities: %.2g", far)
	assert.Less(t, far, 1e-4)
	assert.Nil(t, model.Half)
}

// probabilities returns those of which logarithms are given.
func probabilities(logarithms []float32) []float32 {
	p := make([]float32, len(logarithms))
	for i, l := range logarithms {
		p[i] = float32(math.Exp(float64(l)))
	}
	return p
}

// TestScoresInEightBits: networks of the shapes of Dorado's, whose scores a Clip or a Tanh bounds, are given in
// eight bits, in both precisions, and are off by half a step at most. A transformer's are not
// bounded.
func TestScoresInEightBits(t *testing.T) {
	for _, name := range []string{"dna_r9.4.1_small@v3.0", "dna_r10.4.1_small@v4.0.0.dorado", "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_small@v5.0.0", "dna_r10.4.1_small@v6.0.0", "dna_r10.4.1_small@v6.1.0"} {
		t.Run(name, func(t *testing.T) {
			model, err := Convert(filepath.Join(golden, name), Options{})
			require.NoError(t, err)
			m := model.Manifest
			if name == "dna_r10.4.1_small@v5.0.0" {
				_, err := basecall.NewCaller(model, basecall.Config{Device: "cpu", Compute: infer.Compute{Scores: infer.ScoresBytes}})
				require.ErrorIs(t, err, infer.ErrNoBound)
				return
			}
			x := realSignal(t, m.Window.Samples)
			want := compute(t, model, model.Network, infer.PrecisionSingle, x)
			have := computeIn(t, model, model.Network, infer.Compute{Precision: infer.PrecisionSingle, Scores: infer.ScoresBytes}, x)
			assert.LessOrEqual(t, farthest(t, want, have), 5.0/127/2+1e-4)
			if model.Half != nil {
				want = compute(t, model, model.Half, infer.PrecisionSingle, x)
				have = computeIn(t, model, model.Half, infer.Compute{Precision: infer.PrecisionSingle, Scores: infer.ScoresBytes}, x)
				assert.LessOrEqual(t, farthest(t, want, have), 5.0/127/2+1e-4)
			}
		})
	}
}
