package infer

import (
	"bytes"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/basecall/scores"
)

// fastDecoder is that of the shipped model r9.4-fast.
func fastDecoder() *Decoder {
	stay := float32(2)
	return &Decoder{CRF: &crf.Config{StateLength: 3, StayScore: &stay, BeamWidth: 12, BeamCut: 100}}
}

func TestNetworksGetAnOperatorThatDecodes(t *testing.T) {
	net := fast(t)
	net.Decoder = fastDecoder()
	for _, tt := range []struct {
		name      string
		onnx      []byte
		precision Precision
		gone      map[string]int // nodes that are not needed any more
	}{
		{"floats", net.ONNX, PrecisionSingle, map[string]int{"Transpose": 1}},
		{"half floats", net.HalfONNX, PrecisionHalf, map[string]int{"Transpose": 1, "Cast": 0}},
		{"half floats to the end", changed(t, net.HalfONNX, func(g *onnxpb.GraphProto) {
			nodeOf(g, "scores").Output[0] = "narrow"
			g.Node = append(g.Node, cast("narrow", "scores", onnxpb.TensorProto_FLOAT))
		}), PrecisionHalf, map[string]int{"Transpose": 1, "Cast": 1}},
		{"a cast that isn't known to be of half floats", changed(t, net.ONNX, func(g *onnxpb.GraphProto) {
			nodeOf(g, "scores").Output[0] = "other"
			g.Node = append(g.Node, cast("other", "scores", onnxpb.TensorProto_FLOAT))
		}), PrecisionSingle, map[string]int{"Transpose": 0, "Cast": 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain := net
			plain.ONNX = tt.onnx
			decoding, err := plain.decoded(tt.precision)
			require.NoError(t, err)
			before, after := ops(t, tt.onnx), ops(t, decoding.ONNX)
			assert.Equal(t, 1, after["porestream.CRF"])
			for op, n := range tt.gone {
				assert.Equal(t, before[op]-n, after[op], op)
			}
			var model onnxpb.ModelProto
			require.NoError(t, proto.Unmarshal(decoding.ONNX, &model))
			require.Len(t, model.GetGraph().GetOutput(), 2)
			require.Len(t, model.GetGraph().GetInput(), 2)
			assert.Equal(t, scoresPath, decoding.form.kind)
		})
	}
	net.ONNX = []byte("hello")
	_, err := net.decoded(PrecisionSingle)
	require.ErrorContains(t, err, "reading network r9.4-fast: not an ONNX file")
}

// TestDecodedOnTheDevice: a window's path is what a decoder in Go makes of its scores, of as many frames as are wanted, wherever
// it lies in a batch and whatever lay there before.
func TestDecodedOnTheDevice(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	net := fast(t)
	net.Decoder = fastDecoder()
	options := cpu(3)
	options.Kernels = KernelsAlways
	r, err := Open(net, options)
	require.NoError(t, err)
	defer r.Close()
	assert.Equal(t, Kernels{Layers: 7, Decodes: true}, r.Kernels)
	assert.Equal(t, Decoded, r.Form.String())
	assert.False(t, r.Padded)

	options.Scores = ScoresFloat
	scored, err := Open(net, options)
	require.NoError(t, err)
	defer scored.Close()
	assert.Equal(t, Kernels{Layers: 7}, scored.Kernels)
	decoder, err := crf.NewDecoder(*net.Decoder.CRF)
	require.NoError(t, err)

	have, want := r.Runners[0], scored.Runners[0]
	for _, frames := range [][]int{{net.Frames, 700, 1}, {3, net.Frames}} {
		for row, n := range frames {
			if n == net.Frames {
				have.Count(row, 0)
			} else {
				have.Count(row, n)
			}
			want.Count(row, n)
			fillProbe(have.Input(row), 7*row+n)
			fillProbe(want.Input(row), 7*row+n)
		}
		for _, runner := range []Runner{have, want} {
			_, err := runner.Run(len(frames), len(runner.Input(0)))
			require.NoError(t, err)
		}
		for row, n := range frames {
			bases, err := decoder.DecodeWindow(want.Scores(row).First(n))
			require.NoError(t, err)
			expected := append([]scores.Base(nil), bases...)
			bases, err = decoder.DecodeWindow(have.Scores(row).First(n))
			require.NoError(t, err)
			assert.Equal(t, expected, bases)
			for _, rest := range have.Scores(row).Path[n:net.Frames] {
				require.Zero(t, rest)
			}
		}
	}

	for i := range have.Input(0) {
		have.Input(0)[i] = float32(math.NaN())
	}
	_, err = have.Run(1, len(have.Input(0)))
	require.NoError(t, err)
	_, err = decoder.DecodeWindow(have.Scores(0))
	require.ErrorContains(t, err, "is not a finite number")
}

// TestCTCDecodedOnTheDevice: the same of networks trained by CTC, whichever way their scores lie, and without any layer that has a kernel.
func TestCTCDecodedOnTheDevice(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	for _, name := range []string{"ntc", "tnc"} {
		net := testNetwork(t, name)
		cfg := ctc.Config{Classes: net.Classes, Logits: true, BeamWidth: 5, BeamCut: 0.1}
		net.Decoder = &Decoder{CTC: &cfg}
		options := cpu(3)
		options.Kernels = KernelsAlways
		r, err := Open(net, options)
		require.NoError(t, err)
		assert.Equal(t, Kernels{Decodes: true}, r.Kernels)
		assert.Equal(t, Decoded, r.Form.String())
		options.Kernels = KernelsOff
		scored, err := Open(net, options)
		require.NoError(t, err)
		decoder, begun := ctc.NewDecoder(cfg), 0
		for seed := range 30 {
			frames := []int{net.Frames, 1 + seed%net.Frames, net.Frames - 1}
			for row, n := range frames {
				r.Runners[0].Count(row, n)
				fillProbe(r.Runners[0].Input(row), 7*row+seed)
				fillProbe(scored.Runners[0].Input(row), 7*row+seed)
			}
			for _, runner := range []Runner{r.Runners[0], scored.Runners[0]} {
				_, err := runner.Run(len(frames), len(runner.Input(0)))
				require.NoError(t, err)
			}
			for row, n := range frames {
				bases, err := decoder.DecodeWindow(scored.Runners[0].Scores(row).First(n))
				require.NoError(t, err)
				expected := append([]scores.Base(nil), bases...)
				bases, err = decoder.DecodeWindow(r.Runners[0].Scores(row).First(n))
				require.NoError(t, err)
				require.Equal(t, expected, append([]scores.Base(nil), bases...))
				begun += len(bases)
			}
		}
		assert.Positive(t, begun)
		require.NoError(t, r.Close())
		require.NoError(t, scored.Close())
	}
}

// TestDecodedOtherwise: what a device decodes is compared with the CPU's, and scores are decoded on the CPU where it isn't that.
func TestDecodedOtherwise(t *testing.T) {
	bases := []scores.Base{{Frame: 0, Code: 1, Probability: 0.9}, {Frame: 3, Code: 2, Probability: 0.8}}
	right := func() scores.Window {
		return scores.Window{Frames: 5, Classes: 1, Stride: 1, Path: []uint8{5, 1, 1, 6, 2}, Probabilities: []float32{0.9, 0, 0, 0.8, 0}}
	}
	require.NoError(t, comparePaths(right(), bases, Device{}))
	for name, f := range map[string]func(*scores.Window){
		"another base":  func(w *scores.Window) { w.Path[3] = 7 },
		"another frame": func(w *scores.Window) { w.Path[3], w.Path[4] = 1, 6 },
		"no number":     func(w *scores.Window) { w.Path[4] = scores.NoNumber },
		"other probabilities": func(w *scores.Window) {
			w.Probabilities[0] = 0.1
		},
		"no probabilities": func(w *scores.Window) { w.Probabilities[3] = float32(math.NaN()) },
	} {
		w := right()
		f(&w)
		var refused *refusal
		require.ErrorAs(t, comparePaths(w, bases, Device{}), &refused, name)
		assert.Equal(t, RefusedResult, refused.kind)
	}

	// A decoder that the operator has no kernel for leaves the layers to theirs.
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	net := fast(t)
	net.Decoder = fastDecoder()
	net.Decoder.CRF.BeamWidth = 33
	options := cpu(1)
	options.Kernels = KernelsAlways
	r, err := Open(net, options)
	require.NoError(t, err)
	assert.Equal(t, Kernels{Layers: 7}, r.Kernels)
	require.NoError(t, r.Close())

	// One for other scores than the network gives is found out when it is tried, and done without.
	net.Decoder = fastDecoder()
	net.Decoder.CRF.StateLength = 4
	_, err = Open(net, options)
	require.ErrorContains(t, err, "inputs don't have the dimensions of scores, 1024 in a frame")
	var log bytes.Buffer
	options.Kernels, options.places = KernelsAuto, 1
	r, k, err := kernelsOrPlain(net, []Device{{}}, 1, 1, options, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	assert.Equal(t, Kernels{Layers: 7}, k)
	require.NoError(t, r.Close())
	assert.Contains(t, log.String(), "level=WARN msg=\"the GPU leaves decoding to the CPU\" network=r9.4-fast why=")
}

// TestWhyNothingButDecodingHasNoKernel: the reason for a network without layers that have kernels is why it can't be decoded, and not that it has
// no such layers.
func TestWhyNothingButDecodingHasNoKernel(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	net := testNetwork(t, "ntc")
	net.Decoder = fastDecoder() // of more scores than it has
	options := cpu(1)
	options.Kernels, options.places = KernelsAuto, 1
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	_, k, err := kernelsOrPlain(net, []Device{{}}, 1, 1, options, logger)
	require.ErrorContains(t, err, "inputs don't have the dimensions of scores, 256 in a frame")
	assert.Empty(t, log.String(), "it is told once, by who goes on without kernels")
	k, err = k.refuse(net, KernelsAuto, err, logger)
	require.NoError(t, err)
	assert.Equal(t, RefusedDevice, k.Refused)
	assert.Contains(t, k.Why, "256 in a frame")
	assert.False(t, k.Decodes)
	assert.Contains(t, log.String(), "level=WARN")
}
