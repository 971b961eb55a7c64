package infer

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/basecall/scores"
)

// shippedNetwork is one of the models', for windows of 900 samples.
func shippedNetwork(t testing.TB, file string) Network {
	t.Helper()
	onnx, err := os.ReadFile(filepath.Join("..", "..", "models", "r9.4-fast", file))
	require.NoError(t, err)
	return Network{Name: file, ONNX: onnx, Input: "signal", Output: "scores", Samples: 900, Frames: 150, Classes: 256}
}

// clipped turns a shipped network into one that ends as Dorado's do: a Clip of scores that are stored
// frame by frame, and a Cast.
func clipped(t *testing.T, net Network) Network {
	t.Helper()
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(net.ONNX, &model))
	g := model.GetGraph()
	for _, node := range g.GetNode() {
		switch node.GetOpType() {
		case opTanh:
			node.OpType, node.Input = opClip, []string{node.GetInput()[0], "low", "high"}
		case opMul:
			if node.GetOutput()[0] == "moves" {
				node.OpType, node.Input, node.Attribute = opCast, node.GetInput()[:1], []*onnxpb.AttributeProto{to(onnxpb.TensorProto_FLOAT)}
			}
		case opTranspose:
			if node.GetOutput()[0] == net.Output {
				node.OpType, node.Attribute = "Identity", nil
			}
		}
	}
	for name, v := range map[string]float32{"low": -1, "high": 1} {
		raw := appendFloats(nil, []float32{v})
		g.Initializer = append(g.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT), RawData: raw})
	}
	dims := g.GetOutput()[0].GetType().GetTensorType().GetShape().GetDim()
	dims[0], dims[1] = dims[1], dims[0]
	// bound doesn't search beyond the identity, so the Cast makes the output.
	for i, node := range g.GetNode() {
		if node.GetOpType() == "Identity" {
			g.Node = append(g.Node[:i], g.Node[i+1:]...)
			break
		}
	}
	for _, node := range g.GetNode() {
		if node.GetOutput()[0] == "moves" {
			node.Output[0] = net.Output
		}
	}
	net.TimeMajor = true
	var err error
	net.ONNX, err = proto.Marshal(&model)
	require.NoError(t, err)
	return net
}

// scoresIn computes windows of noise in a form, the last of a full batch, and returns its scores.
func scoresIn(t *testing.T, net Network, form ScoreForm, fill func(x []float32)) scores.Window {
	t.Helper()
	options := cpu(3)
	options.Scores = form
	r, err := Open(net, options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	assert.Equal(t, form, r.Form)
	assert.False(t, r.Padded)
	runner := r.Runners[0]
	for row := range 3 {
		fill(runner.Input(row))
	}
	fillProbe(runner.Input(1), 5)
	fill(runner.Input(2))
	_, err = runner.Run(3, len(runner.Input(0)))
	require.NoError(t, err)
	return runner.Scores(2)
}

// TestForms: scores in each form are the network's own, within the form's resolution, whether
// they end in a Tanh or a Clip, and in which order the network stores them.
func TestForms(t *testing.T) {
	needLibrary(t)
	noise := func(x []float32) { fillProbe(x, 3) }
	for _, net := range []Network{shippedNetwork(t, "model.onnx"), shippedNetwork(t, "model.half.onnx"), clipped(t, shippedNetwork(t, "model.onnx"))} {
		bound := 5.0
		if net.TimeMajor {
			bound = 1
		}
		want := scoresIn(t, net, ScoresFloat, noise).Contiguous(nil)
		extreme := 0.0
		for _, v := range want {
			extreme = max(extreme, math.Abs(float64(v)))
		}
		require.Greater(t, extreme, bound*0.9, "scores come close to the bound")
		for form, within := range map[ScoreForm]float64{ScoresHalf: 0.002, ScoresBytes: bound/scores.MaxByte/2 + 1e-4} {
			w := scoresIn(t, net, form, noise)
			assert.Equal(t, form == ScoresHalf, w.Halves != nil)
			assert.Equal(t, form == ScoresBytes, w.Bytes != nil)
			assert.Equal(t, 3*net.Classes, w.Stride, "windows lie side by side: nothing is transposed")
			have := w.Contiguous(nil)
			require.Len(t, have, len(want))
			for i := range want {
				require.InDelta(t, want[i], have[i], within, "%v of %s, score %d", form, net.Name, i)
			}
		}
	}
}

// TestFormsReportNaN: signal that is not a number makes scores that aren't either,
// and a form of eight bits reports it.
func TestFormsReportNaN(t *testing.T) {
	needLibrary(t)
	nan := func(x []float32) {
		fillProbe(x, 3)
		x[len(x)/2] = float32(math.NaN())
	}
	for _, net := range []Network{shippedNetwork(t, "model.onnx"), clipped(t, shippedNetwork(t, "model.onnx"))} {
		for _, form := range []ScoreForm{ScoresHalf, ScoresBytes} {
			if form == ScoresHalf && net.TimeMajor {
				continue // its Clip makes numbers of them
			}
			w := scoresIn(t, net, form, nan)
			numbers := 0
			for frame := range w.Frames {
				if row := w.Row(frame, make([]float32, w.Classes)); row[0] == row[0] {
					numbers++
				}
			}
			assert.Less(t, numbers, w.Frames, "%v of %s", form, net.Name)
		}
	}
}

// TestFormIsChosen: eight bits are a GPU's, where a network bounds its scores; a user who asks for
// them elsewhere gets the reason why not.
func TestFormIsChosen(t *testing.T) {
	gpu, cpu := Device{CUDA: true}, Device{}
	bounded := shippedNetwork(t, "model.onnx")
	exact := bounded
	bounded.Narrow = true
	unbounded := testNetwork(t, "ntc")
	unbounded.Narrow = true
	wide := clipped(t, shippedNetwork(t, "model.onnx"))
	var model onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(wide.ONNX, &model))
	for _, c := range model.GetGraph().GetInitializer() {
		if c.GetName() == "high" {
			c.RawData = appendFloats(nil, []float32{100})
		}
	}
	var err error
	wide.ONNX, err = proto.Marshal(&model)
	wide.Narrow = true
	require.NoError(t, err)
	for _, c := range []struct {
		net    Network
		asked  ScoreForm
		device Device
		want   ScoreForm
		wrong  string
	}{
		{bounded, ScoresAuto, cpu, ScoresFloat, ""},
		{bounded, ScoresAuto, gpu, ScoresBytes, ""},
		{exact, ScoresAuto, gpu, ScoresFloat, ""},
		{bounded, ScoresFloat, gpu, ScoresFloat, ""},
		{bounded, ScoresHalf, cpu, ScoresHalf, ""},
		{unbounded, ScoresAuto, gpu, ScoresFloat, ""},
		{unbounded, ScoresHalf, gpu, ScoresHalf, ""},
		{unbounded, ScoresBytes, cpu, 0, "network ntc has no bound of its scores"},
		{wide, ScoresAuto, gpu, ScoresFloat, ""},
		{wide, ScoresBytes, gpu, 0, "no bound of its scores"},
	} {
		have, err := c.net.inForm(c.asked, c.device)
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong)
			require.ErrorIs(t, err, ErrNoBound)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, have.form.kind, "%s, %v on %v", c.net.Name, c.asked, c.device)
		if c.want == ScoresFloat {
			assert.Equal(t, c.net.ONNX, have.ONNX, "it is as it was")
		}
	}
	have, err := bounded.inForm(ScoresBytes, cpu)
	require.NoError(t, err)
	assert.NotEqual(t, bounded.TimeMajor, have.TimeMajor)
	for _, left := range []string{"crf_scale", "moves"} {
		assert.NotContains(t, string(have.ONNX), left, "what nobody needs is not computed")
	}
}

func TestScoreFormIsAFlag(t *testing.T) {
	for _, f := range []ScoreForm{ScoresAuto, ScoresFloat, ScoresHalf, ScoresBytes} {
		var have ScoreForm
		require.NoError(t, have.Set(f.String()))
		assert.Equal(t, f, have)
	}
	var f ScoreForm
	require.EqualError(t, f.Set("int4"), `"int4" is none of auto, fp32, fp16, int8`)
	assert.Equal(t, "ScoreForm(9)", ScoreForm(9).String())
}

func FuzzForms(f *testing.F) {
	for _, name := range []string{"ntc", "tnc", "lstm"} {
		onnx, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
		require.NoError(f, err)
		f.Add(onnx)
	}
	f.Add(shippedNetwork(f, "model.onnx").ONNX[:100])
	f.Fuzz(func(t *testing.T, onnx []byte) {
		for _, form := range []ScoreForm{ScoresHalf, ScoresBytes} {
			net, err := Network{ONNX: onnx, Output: "scores"}.inForm(form, Device{})
			if err == nil {
				require.NoError(t, proto.Unmarshal(net.ONNX, new(onnxpb.ModelProto)))
			}
		}
	})
}
