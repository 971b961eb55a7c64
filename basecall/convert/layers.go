package convert

import (
	"fmt"
	"math"
	"slices"

	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// batchNormEpsilon is PyTorch's, added to variances.
const batchNormEpsilon = 1e-5

// Orders of axes of what flows between layers: batch, channels or classes, and time.
const (
	layoutNCT = "NCT"
	layoutNTC = "NTC"
	layoutTNC = "TNC"
)

// builder turns layers into a graph, one after the other.
type builder struct {
	g          *onnxgraph.Graph
	parameters *parameters

	x        string // what the last layer gave
	layout   string
	channels int
	frames   int // time steps for a window

	mask, cos, sin string // constants that transformer layers share
}

// expect checks the number of channels that a layer is given.
func (b *builder) expect(channels int) error {
	if channels != b.channels {
		return fmt.Errorf("it takes %d channels, but the layers before it give %d", channels, b.channels)
	}
	return nil
}

// apply makes an operator's output the current value.
func (b *builder) apply(op string, others []string, attributes ...*onnxpb.AttributeProto) {
	b.x = b.g.Node(op, append([]string{b.x}, others...), attributes...)
}

func (l convLayer) build(b *builder) error {
	if b.layout != layoutNCT {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	weight, bias, err := l.load(b.parameters)
	if err != nil {
		return err
	}
	inputs := []string{b.g.Weights(weight, l.out, l.in, l.width)}
	if bias != nil {
		inputs = append(inputs, b.g.Weights(bias, l.out))
	}
	b.apply("Conv", inputs, onnxgraph.Integers("kernel_shape", int64(l.width)), onnxgraph.Integers("strides", int64(l.stride)),
		onnxgraph.Integers("pads", int64(l.width/2), int64(l.width/2)))
	b.channels = l.out
	b.frames = (b.frames-1)/l.stride + 1
	b.activate(l.activation)
	return nil
}

// load returns weights and bias with batch normalisation folded in; a nil bias is none.
func (l convLayer) load(p *parameters) (weight, bias []float32, err error) {
	if weight, err = p.get(l.at, "conv.weight", l.out, l.in, l.width); err != nil {
		return nil, nil, err
	}
	if l.bias || l.normalised && p.fused {
		if bias, err = p.get(l.at, "conv.bias", l.out); err != nil {
			return nil, nil, err
		}
	}
	if !l.normalised || p.fused {
		return weight, bias, nil
	}
	var norm [4][]float32
	for i, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		if norm[i], err = p.get(l.at, "norm.bn."+name, l.out); err != nil {
			return nil, nil, err
		}
	}
	weight, bias = fold(weight, bias, norm, batchNormEpsilon)
	return weight, bias, nil
}

// fold returns the weights and the bias that do what a convolution, and batch
// normalisation behind it, do: norm are its weights, biases, means and variances. The
// bias that is given may be nil.
func fold(weight, bias []float32, norm [4][]float32, epsilon float64) (folded, offsets []float32) {
	out := len(norm[0])
	folded, offsets = slices.Clone(weight), make([]float32, out)
	perOutput := len(weight) / out
	for o := range out {
		gain := float64(norm[0][o]) / math.Sqrt(float64(norm[3][o])+epsilon)
		offset := -float64(norm[2][o])
		if bias != nil {
			offset += float64(bias[o])
		}
		offsets[o] = float32(offset*gain + float64(norm[1][o]))
		for i := range perOutput {
			folded[o*perOutput+i] = float32(float64(weight[o*perOutput+i]) * gain)
		}
	}
	return folded, offsets
}

// activate applies an activation, if there is one.
func (b *builder) activate(kind string) {
	switch kind {
	case "swish":
		b.apply("Mul", []string{b.g.Node("Sigmoid", []string{b.x})})
	case "tanh":
		b.apply("Tanh", nil)
	case "relu":
		b.apply("Relu", nil)
	}
}

func (l activationLayer) build(b *builder) error {
	b.activate(l.kind)
	return nil
}

func (l clampLayer) build(b *builder) error {
	b.apply("Clip", []string{b.g.Weights([]float32{float32(l.low)}), b.g.Weights([]float32{float32(l.high)})})
	return nil
}

func (l permuteLayer) build(b *builder) error {
	if len(l.dims) != 3 {
		return fmt.Errorf("dims = %d are not three", l.dims)
	}
	perm := make([]int64, 3)
	layout := ""
	for i, d := range l.dims {
		if d < 0 || d > 2 || slices.Contains(l.dims[:i], d) {
			return fmt.Errorf("dims = %d are no order of three axes", l.dims)
		}
		perm[i] = int64(d)
		layout += b.layout[d : d+1]
	}
	b.apply("Transpose", nil, onnxgraph.Integers("perm", perm...))
	b.layout = layout
	return nil
}

func (l lstmLayer) build(b *builder) error {
	if b.layout != layoutTNC {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	load := func(name string, shape ...int) ([]float32, error) {
		data, err := b.parameters.get(l.at, name, shape...)
		if err != nil {
			return nil, err
		}
		return onnxgraph.LSTMGates(data), nil
	}
	w, err := load("rnn.weight_ih_l0", 4*l.out, l.in)
	if err != nil {
		return err
	}
	r, err := load("rnn.weight_hh_l0", 4*l.out, l.out)
	if err != nil {
		return err
	}
	inputs := []string{b.g.Weights(w, 1, 4*l.out, l.in), b.g.Weights(r, 1, 4*l.out, l.out)}
	if l.bias {
		bias, err := load("rnn.bias_ih_l0", 4*l.out)
		if err != nil {
			return err
		}
		recurrent, err := load("rnn.bias_hh_l0", 4*l.out)
		if err != nil {
			return err
		}
		inputs = append(inputs, b.g.Weights(append(bias, recurrent...), 1, 8*l.out))
	}
	direction := "forward"
	if l.backwards {
		direction = "reverse"
	}
	b.apply("LSTM", inputs, onnxgraph.Text("direction", direction), onnxgraph.Integer("hidden_size", int64(l.out)))
	b.apply("Squeeze", []string{b.g.Integers(1)}) // the axis of directions
	b.channels = l.out
	return nil
}

// linear applies a matrix of a layer's parameters, and a bias.
func (b *builder) linear(x, at, name string, in, out int, bias bool) (string, error) {
	weight, err := b.parameters.get(at, name+".weight", out, in)
	if err != nil {
		return "", err
	}
	var offset []float32
	if bias {
		if offset, err = b.parameters.get(at, name+".bias", out); err != nil {
			return "", err
		}
	}
	return b.g.Linear(x, weight, offset, out, in), nil
}

func (l linearLayer) build(b *builder) (err error) {
	if b.layout == layoutNCT {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	b.x, err = b.linear(b.x, l.at, "linear", l.in, l.out, l.bias)
	b.channels = l.out
	return err
}

func (l upsampleLayer) build(b *builder) (err error) {
	if b.layout != layoutNTC {
		return errLayout
	}
	if err := b.expect(l.width); err != nil {
		return err
	}
	if b.x, err = b.linear(b.x, l.at, "linear", l.width, l.factor*l.width, true); err != nil {
		return err
	}
	b.frames *= l.factor
	b.apply("Reshape", []string{b.g.Integers(0, int64(b.frames), int64(l.width))})
	return nil
}

func (l *crfLayer) build(b *builder) (err error) {
	if b.layout == layoutNCT || l.permute && b.layout != layoutNTC {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	// Its permutation would put time first: we take the scores in either order.
	if b.x, err = b.linear(b.x, l.at, "linear", l.in, l.classes(), l.bias); err != nil {
		return err
	}
	b.activate(l.activation)
	if l.scale != 1 {
		b.apply("Mul", []string{b.g.Weights([]float32{float32(l.scale)})})
	}
	b.channels = l.classes()
	return nil
}

// classes returns the number of scores per frame.
func (l *crfLayer) classes() int {
	states := 1 << (2 * l.stateLength)
	if l.stayScore == nil {
		return 5 * states
	}
	return 4 * states
}
