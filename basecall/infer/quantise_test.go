package infer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
)

// layersOf returns the LSTM layers of a file with the constants of their weights and scales, nil
// where an input is no constant.
func layersOf(t *testing.T, onnx []byte) (kinds []string, constants []*onnxpb.TensorProto) {
	t.Helper()
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(onnx, &model))
	byName := map[string]*onnxpb.TensorProto{}
	for _, c := range model.GetGraph().GetInitializer() {
		byName[c.GetName()] = c
	}
	for _, node := range model.GetGraph().GetNode() {
		if node.GetOpType() != plainLSTM && node.GetOpType() != quantisedLSTM {
			continue
		}
		kinds = append(kinds, node.GetDomain()+"."+node.GetOpType())
		for i, name := range node.GetInput() {
			if slices.Contains([]int{1, 2, 8, 10}, i) {
				constants = append(constants, byName[name])
			}
		}
	}
	return kinds, constants
}

// TestQuantisedIsWhatTheRuntimesToolMakes compares with lstm_int8.onnx, see testdata/networks.py.
func TestQuantisedIsWhatTheRuntimesToolMakes(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "lstm_int8.onnx"))
	require.NoError(t, err)
	have, err := quantised(testNetwork(t, "lstm").ONNX)
	require.NoError(t, err)
	kinds, constants := layersOf(t, have)
	wantKinds, wantConstants := layersOf(t, want)
	assert.Equal(t, []string{"com.microsoft.DynamicQuantizeLSTM", "com.microsoft.DynamicQuantizeLSTM"}, kinds)
	assert.Equal(t, wantKinds, kinds)
	require.Len(t, constants, 8)
	require.Len(t, wantConstants, len(constants))
	for i, c := range constants {
		w := wantConstants[i]
		assert.Equal(t, w.GetDims(), c.GetDims())
		assert.Equal(t, w.GetDataType(), c.GetDataType())
		if c.GetDataType() == int32(onnxpb.TensorProto_INT8) {
			assert.Equal(t, w.GetRawData(), c.GetRawData())
			continue
		}
		scales, err := float32s(c)
		require.NoError(t, err)
		wanted, err := float32s(w)
		require.NoError(t, err)
		assert.Equal(t, wanted, scales)
	}
	again, err := quantised(have)
	require.NoError(t, err)
	assert.Nil(t, again, "nothing is left to do")
}

func TestQuantisedLeavesTheRestAsItIs(t *testing.T) {
	for _, name := range []string{"ntc", "tnc"} {
		onnx, err := quantised(testNetwork(t, name).ONNX)
		require.NoError(t, err)
		assert.Nil(t, onnx, "%s has no LSTM", name)
	}
	change := func(f func(*onnxpb.GraphProto)) []byte {
		var model onnxpb.ModelProto
		require.NoError(t, proto.Unmarshal(testNetwork(t, "lstm").ONNX, &model))
		f(model.GetGraph())
		b, err := proto.Marshal(&model)
		require.NoError(t, err)
		return b
	}
	layer := func(g *onnxpb.GraphProto, i int) *onnxpb.NodeProto {
		for _, node := range g.GetNode() {
			if node.GetOpType() == plainLSTM {
				if i == 0 {
					return node
				}
				i--
			}
		}
		return nil
	}
	for _, test := range []struct {
		name string
		f    func(*onnxpb.GraphProto)
	}{
		{"batches first", func(g *onnxpb.GraphProto) {
			layer(g, 0).Attribute = append(layer(g, 0).Attribute, &onnxpb.AttributeProto{Name: "layout", Type: onnxpb.AttributeProto_INT, I: 1})
		}},
		{"weights are computed", func(g *onnxpb.GraphProto) { layer(g, 0).Input[1] = "features" }},
		{"weights are missing", func(g *onnxpb.GraphProto) { layer(g, 0).Input = layer(g, 0).Input[:2] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			onnx, err := quantised(change(test.f))
			require.NoError(t, err)
			kinds, _ := layersOf(t, onnx)
			assert.Equal(t, []string{".LSTM", "com.microsoft.DynamicQuantizeLSTM"}, kinds)
		})
	}
	_, err := quantised(change(func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			c.RawData = c.RawData[:4]
		}
	}))
	assert.ErrorContains(t, err, "layer both: constant both.W has 4 bytes for the dimensions [2 32 6]")
	_, err = quantised(change(func(g *onnxpb.GraphProto) {
		for _, c := range g.GetInitializer() {
			c.Dims, c.RawData = []int64{1 << 20, 1 << 20, 0}, nil
		}
	}))
	assert.ErrorContains(t, err, "constant both.W has the dimensions [1048576 1048576 0]")
	_, err = quantised([]byte("hello"))
	assert.ErrorContains(t, err, "not an ONNX file")
}

func TestLayersInWholeNumbers(t *testing.T) {
	needLibrary(t)
	text, err := os.ReadFile(filepath.Join("testdata", "lstm.json"))
	require.NoError(t, err)
	var golden struct {
		Signal []float32
		LSTM   []float32 `json:"lstm"`
		Int8   []float32 `json:"lstm_int8"`
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	net := testNetwork(t, "lstm")
	net.TimeMajor = true
	for _, test := range []struct {
		asked, computed Precision
		batch           int
		want            []float32
	}{
		{PrecisionInt8, PrecisionInt8, 1, golden.Int8},
		{PrecisionSingle, PrecisionSingle, 4, golden.LSTM},
		{PrecisionAuto, PrecisionSingle, 4, golden.LSTM},
	} {
		t.Run(test.asked.String(), func(t *testing.T) {
			options := cpu(4)
			options.Precision = test.asked
			r, err := Open(net, options)
			require.NoError(t, err)
			defer r.Close()
			assert.Equal(t, test.computed, r.Precision)
			assert.Equal(t, test.batch, r.Batch)
			copy(r.Runners[0].Input(0), golden.Signal)
			_, err = r.Runners[0].Run(1, len(r.Runners[0].Input(0)))
			require.NoError(t, err)
			scores := make([]float32, len(test.want))
			r.Runners[0].Scores(0).Copy(scores)
			assert.InDeltaSlice(t, test.want, scores, 1e-5)
		})
	}

	options := cpu(4)
	options.Precision = PrecisionInt8
	_, err = Open(testNetwork(t, "ntc"), options)
	require.EqualError(t, err, "network ntc has no LSTM layers to compute in int8")
	require.ErrorAs(t, err, new(*NetworkError), "no other try would do")
}

func FuzzQuantised(f *testing.F) {
	for _, name := range []string{"lstm", "lstm_int8", "ntc"} {
		onnx, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
		require.NoError(f, err)
		f.Add(onnx)
	}
	f.Fuzz(func(t *testing.T, onnx []byte) {
		out, err := quantised(onnx)
		if err != nil || out == nil {
			return
		}
		again, err := quantised(out)
		require.NoError(t, err)
		assert.Nil(t, again)
	})
}
