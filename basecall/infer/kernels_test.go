package infer

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/kernels/kernelstest"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/basecall/scores"
)

// fast returns the network of the shipped model r9.4-fast: five layers of width 112, in turns backwards
// and forwards, each added to its input.
func fast(t testing.TB) Network {
	t.Helper()
	read := func(name string) []byte {
		onnx, err := os.ReadFile(filepath.Join("..", "..", "models", "r9.4-fast", name))
		require.NoError(t, err)
		return onnx
	}
	return Network{
		Name: "r9.4-fast", ONNX: read("model.onnx"), HalfONNX: read("model.half.onnx"), Exact: true,
		Input: "signal", Output: "scores", Samples: 7200, Frames: 1200, Classes: 256,
	}
}

// changed returns an ONNX file with something else in its graph.
func changed(t testing.TB, onnx []byte, f func(*onnxpb.GraphProto)) []byte {
	t.Helper()
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(onnx, &model))
	f(model.GetGraph())
	b, err := proto.Marshal(&model)
	require.NoError(t, err)
	return b
}

func nodeOf(g *onnxpb.GraphProto, name string) *onnxpb.NodeProto {
	i := slices.IndexFunc(g.GetNode(), func(n *onnxpb.NodeProto) bool { return n.GetName() == name })
	return g.GetNode()[i]
}

// ops counts the nodes of a file by operator.
func ops(t testing.TB, onnx []byte) map[string]int {
	t.Helper()
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(onnx, &model))
	count := map[string]int{}
	for _, n := range model.GetGraph().GetNode() {
		name := n.GetOpType()
		if n.GetDomain() != "" {
			name = n.GetDomain() + "." + name
		}
		count[name]++
	}
	return count
}

func TestLayersBecomeOperatorsOfOurOwn(t *testing.T) {
	net := fast(t)
	plain := ops(t, net.ONNX)
	assert.Equal(t, 5, plain["LSTM"])
	assert.Equal(t, 6, plain["Add"])
	for _, tt := range []struct {
		name string
		onnx []byte
	}{{"floats", net.ONNX}, {"half floats", net.HalfONNX}} {
		t.Run(tt.name, func(t *testing.T) {
			out, layers, left, err := withKernels(tt.onnx)
			require.NoError(t, err)
			assert.Equal(t, 7, layers)
			assert.Zero(t, left)
			after := ops(t, out)
			assert.Equal(t, 5, after["porestream.LSTM"])
			assert.Zero(t, after["LSTM"])
			assert.Zero(t, after["Squeeze"])
			assert.Equal(t, 1, after["porestream.Head"])
			assert.Equal(t, 1, after["porestream.Stem"])
			for _, op := range []string{"Add", "MatMul", "Tanh", "Conv", "Sigmoid", "Mul"} {
				assert.Zero(t, after[op], op)
			}
			assert.Equal(t, 1, after["Cast"], "of the scores")
			var model onnxpb.ModelProto
			require.NoError(t, proto.Unmarshal(out, &model))
			for _, c := range model.GetGraph().GetInitializer() {
				assert.NotContains(t, c.GetName(), "lstm.", "weights are kept once")
			}
			again, layers, _, err := withKernels(out)
			require.NoError(t, err)
			assert.Nil(t, again, "nothing is left to do")
			assert.Zero(t, layers)
		})
	}
}

func TestLayersWithoutAKernelStayAsTheyAre(t *testing.T) {
	onnx := fast(t).ONNX
	layer := func(g *onnxpb.GraphProto) *onnxpb.NodeProto { return nodeOf(g, "lstm.2") }
	attribute := func(a *onnxpb.AttributeProto) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			n := layer(g)
			n.Attribute = append(slices.DeleteFunc(n.Attribute, func(b *onnxpb.AttributeProto) bool { return b.GetName() == a.GetName() }), a)
		}
	}
	for _, tt := range []struct {
		name   string
		f      func(*onnxpb.GraphProto)
		layers int
	}{
		{"both directions", attribute(&onnxpb.AttributeProto{Name: "direction", Type: onnxpb.AttributeProto_STRING, S: []byte("bidirectional")}), 6},
		{"another width", attribute(integer("hidden_size", 100)), 6},
		{"batches first", attribute(integer("layout", 1)), 6},
		{"a limit", attribute(integer("clip", 1)), 6},
		{"gates are one", attribute(integer("input_forget", 1)), 6},
		{"first states", func(g *onnxpb.GraphProto) { layer(g).Input = append(layer(g).Input, "", "frames") }, 6},
		{"last states", func(g *onnxpb.GraphProto) {
			layer(g).Output = append(layer(g).Output, "last")
			g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: "last"})
		}, 6},
		{"weights are computed", func(g *onnxpb.GraphProto) { layer(g).Input[1] = "frames" }, 6},
		{"states are taken twice", func(g *onnxpb.GraphProto) { g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: "lstm.2"}) }, 6},
		{"another axis", func(g *onnxpb.GraphProto) { nodeOf(g, "lstm.2.states").Input[1] = "head.bias" }, 6},
		{"without biases", func(g *onnxpb.GraphProto) { layer(g).Input = layer(g).Input[:3] }, 7},
		{"squeezed states are the network's output", func(g *onnxpb.GraphProto) {
			g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: "lstm.2.states"})
		}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, layers, left, err := withKernels(changed(t, onnx, tt.f))
			require.NoError(t, err)
			assert.Equal(t, tt.layers, layers)
			assert.Equal(t, 7-tt.layers, left)
			assert.Equal(t, 7-tt.layers, ops(t, out)["LSTM"])
		})
	}
	for _, name := range []string{"lstm", "ntc"} {
		out, layers, _, err := withKernels(testNetwork(t, name).ONNX)
		require.NoError(t, err)
		assert.Zero(t, layers, name)
		assert.Nil(t, out)
	}
	_, _, _, err := withKernels(changed(t, onnx, func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			if c.GetName() == "lstm.0.W" {
				c.RawData = nil
			}
		}
	}))
	require.ErrorContains(t, err, "layer lstm.0: constant lstm.0.W has 0 bytes for the dimensions [1 448 112]")
	_, _, _, err = withKernels([]byte("hello"))
	require.ErrorContains(t, err, "not an ONNX file")
}

// TestHeadsBecomeOperators: the layer before the scores in the forms that networks have it in.
func TestHeadsBecomeOperators(t *testing.T) {
	tensor := func(g *onnxpb.GraphProto, name string, dims []int64, values ...float32) string {
		c := &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims}
		for _, v := range values {
			c.RawData = binary.LittleEndian.AppendUint32(c.RawData, math.Float32bits(v))
		}
		g.Initializer = append(g.Initializer, c)
		return name
	}
	clamped := func(low, high float32) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			n := nodeOf(g, "tanh")
			n.OpType, n.Input = opClip, append(n.Input, tensor(g, "low", nil, low), tensor(g, "high", nil, high))
		}
	}
	// without leaves out a node, so that those behind it take what it takes.
	without := func(name string) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			gone := nodeOf(g, name)
			for _, n := range g.GetNode() {
				for i, in := range n.GetInput() {
					if in == gone.GetOutput()[0] {
						n.Input[i] = gone.GetInput()[0]
					}
				}
			}
			g.Node = slices.DeleteFunc(g.Node, func(n *onnxpb.NodeProto) bool { return n == gone })
		}
	}
	all := func(changes ...func(*onnxpb.GraphProto)) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			for _, f := range changes {
				f(g)
			}
		}
	}
	type found struct {
		activation       kernels.Activation
		scale, low, high float32
		left             []string // operators that are not part of it
	}
	for _, tt := range []struct {
		name string
		f    func(*onnxpb.GraphProto)
		want *found // nil: it stays as it is
	}{
		{"tanh and a factor", all(), &found{activation: kernels.Tanh, scale: 5}},
		{"tanh alone", without("moves"), &found{activation: kernels.Tanh, scale: 1}},
		{"a clamp", all(without("moves"), clamped(-4, 5)), &found{activation: kernels.Clamp, scale: 1, low: -4, high: 5}},
		{"no activation", all(without("moves"), without("tanh")), &found{scale: 1}},
		{"no bias", without("logits"), &found{activation: kernels.Tanh, scale: 5}},
		{"a factor for each score", func(g *onnxpb.GraphProto) { nodeOf(g, "moves").Input[1] = "head.bias" }, nil},
		{"a clamp upside down", all(without("moves"), clamped(5, -5)), &found{scale: 1, left: []string{opClip}}},
		{"a sum of something else", func(g *onnxpb.GraphProto) { nodeOf(g, "logits").Input[1] = "head" }, nil},
		{"logits are taken twice", func(g *onnxpb.GraphProto) { nodeOf(g, "moves").Input[1] = "logits" }, nil},
		{"logits are an output", func(g *onnxpb.GraphProto) { g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: "logits"}) }, nil},
		{"another width", func(g *onnxpb.GraphProto) { nodeOf(g, "head").Input[1] = tensor(g, "w", []int64{16, 256}) }, nil},
		{"weights are computed", func(g *onnxpb.GraphProto) { nodeOf(g, "head").Input[1] = "frames" }, nil},
		{"not the last layer", func(g *onnxpb.GraphProto) { nodeOf(g, "scores").OpType = "Softmax" }, nil},
		{"a circle of transposes", func(g *onnxpb.GraphProto) { nodeOf(g, "scores").Output = nodeOf(g, "scores").GetInput()[:1] }, nil},
		{"a circle of casts", func(g *onnxpb.GraphProto) {
			n := nodeOf(g, "tanh")
			n.OpType, n.Output, n.Attribute = opCast, []string{n.GetInput()[0]}, []*onnxpb.AttributeProto{integer("to", int64(onnxpb.TensorProto_FLOAT))}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, layers, _, err := withKernels(changed(t, fast(t).ONNX, tt.f))
			require.NoError(t, err)
			var model onnxpb.ModelProto
			require.NoError(t, proto.Unmarshal(out, &model))
			i := slices.IndexFunc(model.GetGraph().GetNode(), isHead)
			if tt.want == nil {
				assert.Equal(t, 6, layers)
				assert.Negative(t, i)
				return
			}
			assert.Equal(t, 7, layers)
			require.GreaterOrEqual(t, i, 0)
			have := found{}
			for _, a := range model.GetGraph().GetNode()[i].GetAttribute() {
				switch a.GetName() {
				case "activation":
					have.activation = kernels.Activation(a.GetI())
				case "scale":
					have.scale = a.GetF()
				case "low":
					have.low = a.GetF()
				case "high":
					have.high = a.GetF()
				}
			}
			for _, op := range []string{"MatMul", "Add", opTanh, opClip} {
				if ops(t, out)[op] > 0 {
					have.left = append(have.left, op)
				}
			}
			assert.Equal(t, *tt.want, have)
		})
	}
	_, _, _, err := withKernels(changed(t, fast(t).ONNX, func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			if c.GetName() == "head.weight" {
				c.RawData = nil
			}
		}
	}))
	require.ErrorContains(t, err, "layer head: constant head.weight has 0 bytes for the dimensions [112 256]")
}

// TestHeadsScoresInOtherForms: what a head gives keeps its bound and what is not a number.
func TestHeadsScoresInOtherForms(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	options := cpu(2)
	options.Kernels = KernelsAlways
	options.Scores = ScoresFloat
	floats, err := Open(fast(t), options)
	require.NoError(t, err)
	defer floats.Close()
	want := make([]float32, 1200*256)
	fillProbe(floats.Runners[0].Input(0), 0)
	_, err = floats.Runners[0].Run(1, 7200)
	require.NoError(t, err)
	floats.Runners[0].Scores(0).Copy(want)
	for form, most := range map[ScoreForm]float64{ScoresHalf: 0, ScoresBytes: 5. / 127 / 2 * 1.001} {
		options.Scores = form
		r, err := Open(fast(t), options)
		require.NoError(t, err)
		defer r.Close()
		assert.Equal(t, 7, r.Kernels.Layers)
		have := make([]float32, len(want))
		fillProbe(r.Runners[0].Input(0), 0)
		_, err = r.Runners[0].Run(1, 7200)
		require.NoError(t, err)
		r.Runners[0].Scores(0).Copy(have)
		assert.InDeltaSlice(t, want, have, most, form)
	}
}

// TestStemsBecomeOperators: the convolutions before the layers in the forms that networks have them in.
func TestStemsBecomeOperators(t *testing.T) {
	attribute := func(name string, a *onnxpb.AttributeProto) func(*onnxpb.GraphProto) {
		return func(g *onnxpb.GraphProto) {
			n := nodeOf(g, name)
			n.Attribute = append(slices.DeleteFunc(n.Attribute, func(b *onnxpb.AttributeProto) bool { return b.GetName() == a.GetName() }), a)
		}
	}
	ints := func(name string, v ...int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
	}
	tanh := func(g *onnxpb.GraphProto) { // at the end, as networks of Bonito's have it
		gate, product := nodeOf(g, "down.gate"), nodeOf(g, "down.silu")
		product.OpType, product.Input = opTanh, []string{"down"}
		g.Node = slices.DeleteFunc(g.Node, func(n *onnxpb.NodeProto) bool { return n == gate })
	}
	for _, tt := range []struct {
		name string
		f    func(*onnxpb.GraphProto)
		want map[string]int64 // nil: they stay as they are
	}{
		{"two", func(*onnxpb.GraphProto) {}, map[string]int64{
			"width": 112, "channels": 16, "taps": 9, "second": 0, "last": 19, "stride": 6, "left": 7, "right": 7, "activation_0": 3, "activation_1": 3, "activation_2": 3,
		}},
		{"a tanh", tanh, map[string]int64{
			"width": 112, "channels": 16, "taps": 9, "second": 0, "last": 19, "stride": 6, "left": 7, "right": 7, "activation_0": 3, "activation_1": 3, "activation_2": 1,
		}},
		{"three", func(g *onnxpb.GraphProto) {
			middle := &onnxpb.NodeProto{Name: "middle", OpType: "Conv", Input: []string{"stem.silu", "middle.weight"}, Output: []string{"middle"}, Attribute: []*onnxpb.AttributeProto{ints("pads", 2, 2), ints("kernel_shape", 5)}}
			g.Node = slices.Insert(g.Node, slices.Index(g.Node, nodeOf(g, "down")), middle)
			g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: "middle.weight", DataType: int32(onnxpb.TensorProto_FLOAT), Dims: []int64{16, 16, 5}, RawData: make([]byte, 4*16*16*5)})
			nodeOf(g, "down").Input[0] = "middle"
		}, map[string]int64{
			"width": 112, "channels": 16, "taps": 9, "second": 5, "last": 19, "stride": 6, "left": 7, "right": 7, "activation_0": 3, "activation_1": 0, "activation_2": 3,
		}},
		{"a stride at first", attribute("stem", ints("strides", 2)), nil},
		{"positions that grow", attribute("stem", ints("pads", 5, 5)), nil},
		{"gaps between taps", attribute("down", ints("dilations", 2)), nil},
		{"groups", attribute("down", integer("group", 2)), nil},
		{"zeros by themselves", attribute("down", &onnxpb.AttributeProto{Name: "auto_pad", Type: onnxpb.AttributeProto_STRING, S: []byte("SAME_UPPER")}), nil},
		{"other taps than weights", attribute("down", ints("kernel_shape", 17)), nil},
		{"another order", attribute("frames", ints("perm", 0, 2, 1)), nil},
		{"another activation", func(g *onnxpb.GraphProto) { nodeOf(g, "down.gate").OpType = "HardSigmoid" }, nil},
		{"a gate of another value", func(g *onnxpb.GraphProto) { nodeOf(g, "down.silu").Input[0] = "stem" }, nil},
		{"an output between", func(g *onnxpb.GraphProto) { g.Output = append(g.Output, &onnxpb.ValueInfoProto{Name: "stem.silu"}) }, nil},
		{"not of the signal", func(g *onnxpb.GraphProto) { nodeOf(g, "stem").Input[0] = "head.bias" }, nil},
		{"weights are computed", func(g *onnxpb.GraphProto) { nodeOf(g, "down").Input[1] = "signal" }, nil},
		{"biases of another size", func(g *onnxpb.GraphProto) { nodeOf(g, "down").Input[2] = "stem.bias" }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, layers, _, err := withKernels(changed(t, fast(t).ONNX, tt.f))
			require.NoError(t, err)
			var model onnxpb.ModelProto
			require.NoError(t, proto.Unmarshal(out, &model))
			if tt.want == nil {
				assert.Equal(t, 6, layers)
				assert.Zero(t, ops(t, out)["porestream.Stem"])
				return
			}
			assert.Equal(t, 7, layers)
			assert.Zero(t, ops(t, out)["Conv"])
			node := model.GetGraph().GetNode()[0]
			require.Equal(t, kernels.StemOp, node.GetOpType())
			have := map[string]int64{}
			for _, a := range node.GetAttribute() {
				have[a.GetName()] = a.GetI()
			}
			assert.Equal(t, tt.want, have)
			sizes := map[string]int64{}
			for _, c := range model.GetGraph().GetInitializer() {
				sizes[c.GetName()] = c.GetDims()[0]
			}
			assert.Equal(t, []int64{128 * 19 * 16, 128}, []int64{sizes[node.GetInput()[1]], sizes[node.GetInput()[2]]})
		})
	}
}

// TestStemsOfMoreWeightsThanThereAre: what a wrong file says of its size is not taken as memory.
func TestStemsOfMoreWeightsThanThereAre(t *testing.T) {
	_, _, _, err := withKernels(changed(t, fast(t).ONNX, func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			if c.GetName() == "stem.weight" {
				c.DataType, c.Dims, c.RawData = int32(onnxpb.TensorProto_FLOAT16), []int64{4096, 4096, 4096}, []byte{0, 0}
			}
		}
		for _, a := range nodeOf(g, "stem").GetAttribute() {
			if a.GetName() == "kernel_shape" {
				a.Ints = []int64{4096}
			}
		}
	}))
	require.ErrorContains(t, err, "layer stem: constant stem.weight has 2 bytes for the dimensions [4096 4096 4096]")
}

// TestBatchesArePaddedWhereResultsDependOnThem: on a GPU a network that is all ours is computed in batches of any size.
func TestBatchesArePaddedWhereResultsDependOnThem(t *testing.T) {
	for _, tt := range []struct {
		name string
		onnx []byte
		ours bool
	}{
		{"floats", fast(t).ONNX, true},
		{"half floats", fast(t).HalfONNX, true},
		{"one layer is the runtime's", changed(t, fast(t).ONNX, func(g *onnxpb.GraphProto) {
			nodeOf(g, "lstm.2").Attribute = append(nodeOf(g, "lstm.2").Attribute, &onnxpb.AttributeProto{Name: "clip", Type: onnxpb.AttributeProto_FLOAT, F: 1e6})
		}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain, err := independent(tt.onnx)
			require.NoError(t, err)
			assert.False(t, plain)
			net := fast(t)
			net.Decoder = fastDecoder()
			net.ONNX, _, _, err = withKernels(tt.onnx)
			require.NoError(t, err)
			for _, form := range []ScoreForm{ScoresFloat, ScoresHalf} {
				shaped, err := net.inForm(form, Device{})
				require.NoError(t, err)
				ours, err := independent(shaped.ONNX)
				require.NoError(t, err)
				assert.Equal(t, tt.ours, ours, form)
			}
			decoding, err := net.decoded(PrecisionSingle)
			require.NoError(t, err)
			ours, err := independent(decoding.ONNX)
			require.NoError(t, err)
			assert.Equal(t, tt.ours, ours)
			bytes, err := net.inForm(ScoresBytes, Device{})
			require.NoError(t, err)
			ours, err = independent(bytes.ONNX)
			require.NoError(t, err)
			assert.False(t, ours, "the runtime sums up each frame")
		})
	}
	_, err := independent([]byte("hello"))
	require.ErrorContains(t, err, "not an ONNX file")
}

// TestBatchesArePaddedForOneOfTheDevices: batches are padded where results depend on them on any of the devices.
func TestBatchesArePaddedForOneOfTheDevices(t *testing.T) {
	needLibrary(t)
	r := &Runners{Devices: []Device{{}, {}}, Batch: 3, Places: 1}
	defer func() { require.NoError(t, r.Close()) }()
	for i, name := range []string{"ntc", "rows_mixed"} {
		places, err := openSession(testNetwork(t, name), r.Devices[i], r.Batch, r.Places, 1, Options{}, nil)
		require.NoError(t, err)
		r.Runners = append(r.Runners, places[0])
	}
	require.NoError(t, r.check(testNetwork(t, "ntc")))
	assert.True(t, r.Padded)
}

// TestRewrittenNetworksComputeTheSame has ONNX Runtime compute networks with our operators' kernels for
// the CPU.
func TestRewrittenNetworksComputeTheSame(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	noSum := func(g *onnxpb.GraphProto) { // a layer whose states are not added to its input
		sum := nodeOf(g, "lstm.2.sum")
		sum.OpType, sum.Input = "Identity", []string{"lstm.2.states"}
	}
	for _, tt := range []struct {
		name      string
		precision Precision
		computed  Precision
		f         func(*onnxpb.GraphProto)
		layers    int
	}{
		{"weights of floats", PrecisionAuto, PrecisionHalf, func(*onnxpb.GraphProto) {}, 7},
		{"half floats", PrecisionHalf, PrecisionHalf, func(*onnxpb.GraphProto) {}, 7},
		{"without a sum", PrecisionHalf, PrecisionHalf, noSum, 7},
		{"a plain layer between", PrecisionAuto, PrecisionSingle, func(g *onnxpb.GraphProto) {
			nodeOf(g, "lstm.2").Attribute = append(nodeOf(g, "lstm.2").Attribute, &onnxpb.AttributeProto{Name: "clip", Type: onnxpb.AttributeProto_FLOAT, F: 1e6})
		}, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			net := fast(t)
			net.ONNX, net.HalfONNX = changed(t, net.ONNX, tt.f), changed(t, net.HalfONNX, tt.f)
			options := cpu(3)
			options.Precision, options.Kernels = tt.precision, KernelsAlways
			r, err := Open(net, options)
			require.NoError(t, err)
			defer r.Close()
			assert.Equal(t, Kernels{Layers: tt.layers, Plain: 7 - tt.layers}, r.Kernels)
			assert.Equal(t, tt.computed, r.Precision)
			assert.False(t, r.Padded, "what a window gets doesn't depend on its batch")
		})
	}
}

// TestLibraryForGPUsNeedsNoDriver: what is built for GPUs loads and registers where there is no driver, and its operators for the CPU give
// the bytes of the library for CPUs alone.
func TestLibraryForGPUsNeedsNoDriver(t *testing.T) {
	library := os.Getenv("PORESTREAM_TEST_GPU_KERNELS")
	if library == "" {
		t.Skip("PORESTREAM_TEST_GPU_KERNELS is to name the library that make kernels builds")
	}
	needLibrary(t)
	compute := func(library string) []float32 {
		t.Setenv(kernels.LibraryEnv, library)
		options := cpu(1)
		options.Kernels = KernelsAlways
		r, err := Open(fast(t), options)
		require.NoError(t, err)
		defer r.Close()
		assert.Equal(t, 7, r.Kernels.Layers)
		out := make([]float32, 1200*256)
		require.NoError(t, r.probe(0, func(w scores.Window) error {
			w.Copy(out)
			return nil
		}))
		return out
	}
	assert.Equal(t, compute(kernelstest.Library(t)), compute(library))
}

// TestWithoutKernels: where they can't be used a network is computed without, and the reason is logged, or it is
// an error.
func TestWithoutKernels(t *testing.T) {
	needLibrary(t)
	library := kernelstest.Library(t)
	other := filepath.Join(t.TempDir(), "libother.so")
	require.NoError(t, os.WriteFile(other, []byte("no library"), 0o600))
	missing := filepath.Join(t.TempDir(), "missing.so")
	for _, tt := range []struct {
		name, library string
		net           Network
		refused       Refusal
		why           string
		level         slog.Level
	}{
		{"no library", missing, fast(t), RefusedLibrary, missing + " (from PORESTREAM_KERNELS) is not a file", slog.LevelWarn},
		{"not a library", other, fast(t), RefusedDevice, "loading operators from " + other, slog.LevelWarn},
		{"no layers", library, testNetwork(t, "ntc"), RefusedNetwork, "no layers that there are kernels for", slog.LevelInfo},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(kernels.LibraryEnv, tt.library)
			options := cpu(1)
			options.Kernels = KernelsAlways
			_, err := Open(tt.net, options)
			require.ErrorContains(t, err, "network "+tt.net.Name+": GPU kernels can't be used: ")
			require.ErrorContains(t, err, tt.why)

			_, err = loadedAndTried(t, tt.net, options)
			require.Error(t, err)
			var log bytes.Buffer
			k, err := Kernels{Layers: 5}.refuse(tt.net, KernelsAuto, err, slog.New(slog.NewTextHandler(&log, nil)))
			require.NoError(t, err)
			assert.Equal(t, tt.refused, k.Refused)
			assert.Contains(t, k.Why, tt.why)
			assert.Zero(t, k.Layers)
			assert.Contains(t, log.String(), "level="+tt.level.String())
		})
	}

	t.Setenv(kernels.LibraryEnv, library)
	options := cpu(1)
	options.Kernels, options.Precision = KernelsAlways, PrecisionSingle
	_, err := Open(fast(t), options)
	require.EqualError(t, err, "network r9.4-fast: GPU kernels multiply half floats, which fp32 is not")
	for _, k := range []GPUKernels{KernelsAuto, KernelsOff} { // on a CPU nobody asks for them
		options := cpu(1)
		options.Kernels = k
		r, err := Open(fast(t), options)
		require.NoError(t, err)
		assert.Equal(t, Kernels{}, r.Kernels)
		require.NoError(t, r.Close())
	}
}

func loadedAndTried(t *testing.T, net Network, options Options) (*Runners, error) {
	t.Helper()
	r, _, err := tryKernels(net, []Device{{}}, 1, 1, options, slog.New(slog.DiscardHandler))
	return r, err
}

// TestWrongScoresAreNoticed compares with a network whose scores are others.
func TestWrongScoresAreNoticed(t *testing.T) {
	needLibrary(t)
	t.Setenv(kernels.LibraryEnv, kernelstest.Library(t))
	net := fast(t)
	options := cpu(1)
	options.Kernels = KernelsAlways
	r, err := Open(net, options)
	require.NoError(t, err)
	defer r.Close()
	require.NoError(t, r.compareWith(net, options))
	net.ONNX = changed(t, net.ONNX, func(g *onnxpb.GraphProto) { nodeOf(g, "lstm.3.sum").Input[0] = "lstm.3.states" })
	var refused *refusal
	require.ErrorAs(t, r.compareWith(net, options), &refused)
	assert.Equal(t, RefusedResult, refused.kind)
	assert.ErrorContains(t, refused, "on cpu scores differ by ")
}

func TestKernelNames(t *testing.T) {
	for _, k := range []GPUKernels{KernelsAuto, KernelsOff, KernelsAlways} {
		var parsed GPUKernels
		require.NoError(t, parsed.Set(k.String()))
		assert.Equal(t, k, parsed)
	}
	var k GPUKernels
	require.EqualError(t, k.Set("on"), `"on" is none of off, auto, always`)
}

func FuzzWithKernels(f *testing.F) {
	for _, name := range []string{"lstm", "lstm_int8", "ntc"} {
		onnx, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
		require.NoError(f, err)
		f.Add(onnx)
	}
	// The shape of a layer that is rewritten, without weights.
	f.Add(changed(f, fast(f).ONNX, func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			if len(c.GetRawData()) > 8 {
				c.RawData = nil
			}
		}
	}))
	f.Fuzz(func(t *testing.T, onnx []byte) {
		out, layers, _, err := withKernels(onnx)
		if err != nil || layers == 0 {
			return
		}
		_, layers, _, err = withKernels(out)
		require.NoError(t, err)
		assert.Zero(t, layers)
	})
}
