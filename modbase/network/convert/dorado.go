package convert

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modbase/network"
)

const (
	scoresOutput = "scores"
	// fittedBases are those at a read's beginning that Dorado scales its current by.
	fittedBases = 1000
	// defaultStride is that of networks whose configuration has none.
	defaultStride = 3
)

// readDorado reads a model's folder. What its name says is not in there yet.
func readDorado(dir string) (*converted, error) {
	text, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	cfg, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	p := &parameters{where: dir, of: func(name string) (torch.Tensor, error) { return tensorFile(filepath.Join(dir, name+".tensor")) }}
	m := &cfg.Modbases
	c := &converted{network.Converted{
		Codes: cfg.codes, Names: cfg.names, Motif: m.Motif, Place: m.Place,
		Before: m.Before, After: m.After, BasesBefore: m.BasesBefore, BasesAfter: m.BasesAfter, FromStart: m.FromStart,
	}}
	b := &builder{g: onnxgraph.New("modified-bases", false), parameters: p}
	if err := cfg.build(b, c); err != nil {
		return nil, err
	}
	if cfg.Refinement.Rescale == 1 {
		levels, err := p.of("refine_kmer_levels")
		if err != nil {
			return nil, err
		}
		c.Levels, c.LevelCentre, c.LevelBases = levels.Data, cfg.Refinement.Centre, fittedBases
	}
	c.ONNX, err = b.g.Marshal()
	return c, err
}

// build makes the network.
func (cfg *config) build(b *builder, c *converted) error {
	switch kind := cfg.General.Model; kind {
	case "conv_only", "conv_v1":
		return cfg.convolutions(b, c)
	case "conv_lstm":
		return cfg.recurrent(b, c, false)
	case "conv_lstm_v2":
		return cfg.recurrent(b, c, true)
	case "conv_lstm_v3":
		return cfg.sublayers(b, c)
	default:
		return fmt.Errorf("%s: general.model = %q is a network that isn't known: conv_only, conv_v1, conv_lstm, conv_lstm_v2 and conv_lstm_v3 are", configFile, kind)
	}
}

// convolution is one with its activation.
type convolution struct {
	name                        string
	in, out, width, stride, pad int
	activation                  string
}

// frames is how many it makes of so many.
func (l *convolution) frames(n int) int { return (n+2*l.pad-l.width)/l.stride + 1 }

// value is what flows between layers: [rows, channels, frames].
type value struct {
	name             string
	channels, frames int
}

// builder makes layers of a graph.
type builder struct {
	g          *onnxgraph.Graph
	parameters *parameters
}

// convolve applies convolutions.
func (b *builder) convolve(x value, layers ...convolution) (value, error) {
	for _, l := range layers {
		weight, bias, err := b.parameters.pair(l.name, l.out, l.in, l.width)
		if err != nil {
			return x, err
		}
		if l.in != x.channels {
			return x, fmt.Errorf("%s takes %d channels, and gets %d", l.name, l.in, x.channels)
		}
		if x.frames+2*l.pad < l.width {
			return x, fmt.Errorf("%s takes %d samples at a time, and gets %d", l.name, l.width, x.frames)
		}
		x.name = b.g.Node("Conv", []string{x.name, b.g.Weights(weight, l.out, l.in, l.width), b.g.Weights(bias, l.out)},
			onnxgraph.Integers("kernel_shape", int64(l.width)), onnxgraph.Integers("strides", int64(l.stride)),
			onnxgraph.Integers("pads", int64(l.pad), int64(l.pad)))
		if x.name, err = b.activate(x.name, l.activation); err != nil {
			return x, fmt.Errorf("%s: %w", l.name, err)
		}
		x.channels, x.frames = l.out, l.frames(x.frames)
	}
	return x, nil
}

const swish, tanh = "swish", "tanh"

func (b *builder) activate(x, kind string) (string, error) {
	switch kind {
	case swish:
		return b.g.Node("Mul", []string{x, b.g.Node("Sigmoid", []string{x})}), nil
	case tanh:
		return b.g.Node("Tanh", []string{x}), nil
	}
	return "", fmt.Errorf("activation %q is not supported", kind)
}

// inputs adds a network's inputs.
func (b *builder) inputs(kmer, samples, perBases int) (signal, sequence value) {
	signal = value{network.SignalInput, 1, samples}
	sequence = value{network.SequenceInput, 4 * kmer, samples / perBases}
	for _, v := range []value{signal, sequence} {
		b.g.PB.Input = append(b.g.PB.Input, onnxgraph.End(v.name, onnxpb.TensorProto_FLOAT, "batch", v.channels, v.frames))
	}
	return signal, sequence
}

// output names what a network gives.
func (b *builder) output(x string, shape ...any) {
	b.g.PB.Node = append(b.g.PB.Node, &onnxpb.NodeProto{Name: scoresOutput, OpType: "Identity", Input: []string{x}, Output: []string{scoresOutput}})
	b.g.PB.Output = []*onnxpb.ValueInfoProto{onnxgraph.End(scoresOutput, onnxpb.TensorProto_FLOAT, append([]any{"batch"}, shape...)...)}
}

// join puts the channels of two values together.
func (b *builder) join(x, y value) (value, error) {
	if x.frames != y.frames {
		return x, fmt.Errorf("convolutions make %d frames of the current and %d of the bases", x.frames, y.frames)
	}
	return value{b.g.Node("Concat", []string{x.name, y.name}, onnxgraph.Integer("axis", 1)), x.channels + y.channels, x.frames}, nil
}

// both convolves current and bases, and what is joined of them.
func (b *builder) both(signal, sequence value, ofSignal, ofSequence, ofBoth []convolution) (value, error) {
	x, err := b.convolve(signal, ofSignal...)
	if err != nil {
		return x, err
	}
	y, err := b.convolve(sequence, ofSequence...)
	if err != nil {
		return y, err
	}
	if x, err = b.join(x, y); err != nil {
		return x, err
	}
	return b.convolve(x, ofBoth...)
}

// lstm applies one to [frames, rows, channels], whose parameters' names end as suffixes say, one for each direction.
func (b *builder) lstm(x, name string, suffixes []string, in, size int, direction string) (string, error) {
	var w, r, bias []float32
	for _, suffix := range suffixes {
		for _, p := range []struct {
			kind  string
			into  *[]float32
			shape []int
		}{
			{"weight_ih", &w, []int{4 * size, in}}, {"weight_hh", &r, []int{4 * size, size}},
			{"bias_ih", &bias, []int{4 * size}}, {"bias_hh", &bias, []int{4 * size}},
		} {
			data, err := b.parameters.get(name+"."+p.kind+suffix, p.shape...)
			if err != nil {
				return "", err
			}
			*p.into = append(*p.into, onnxgraph.LSTMGates(data)...)
		}
	}
	n := len(suffixes)
	return b.g.Node("LSTM", []string{x, b.g.Weights(w, n, 4*size, in), b.g.Weights(r, n, 4*size, size), b.g.Weights(bias, n, 8*size)},
		onnxgraph.Text("direction", direction), onnxgraph.Integer("hidden_size", int64(size))), nil
}

// linear applies a matrix and a bias to the last axis.
func (b *builder) linear(x, name string, in, out int) (string, error) {
	weight, bias, err := b.parameters.pair(name, out, in)
	if err != nil {
		return "", err
	}
	return b.g.Linear(x, weight, bias, out, in), nil
}

// plain lists convolutions of Dorado's first forms, in which sizes but one are fixed.
func plain(pad bool, list ...convolution) []convolution {
	for i := range list {
		list[i].activation = swish
		if pad {
			list[i].pad = list[i].width / 2
		}
	}
	return list
}

// convolutions builds a network of convolutions alone.
func (cfg *config) convolutions(b *builder, c *converted) error {
	size, kmer := cfg.Params.Size, cfg.Params.KmerLength
	signal, sequence := b.inputs(kmer, c.Before+c.After, 1)
	x, err := b.both(signal, sequence,
		plain(false, convolution{"sig_conv1", 1, 4, 11, 1, 0, ""}, convolution{"sig_conv2", 4, 16, 11, 1, 0, ""}, convolution{"sig_conv3", 16, size, 9, 3, 0, ""}),
		plain(false, convolution{"seq_conv1", 4 * kmer, 16, 11, 1, 0, ""}, convolution{"seq_conv2", 16, 32, 11, 1, 0, ""}, convolution{"seq_conv3", 32, size, 9, 3, 0, ""}),
		plain(false, convolution{"merge_conv1", 2 * size, size, 5, 1, 0, ""}, convolution{"merge_conv2", size, size, 5, 1, 0, ""},
			convolution{"merge_conv3", size, size, 3, 2, 0, ""}, convolution{"merge_conv4", size, size, 3, 2, 0, ""}))
	if err != nil {
		return err
	}
	out, err := b.linear(b.g.Node("Flatten", []string{x.name}, onnxgraph.Integer("axis", 1)), "fc", x.channels*x.frames, cfg.Params.Outputs)
	if err != nil {
		return err
	}
	b.output(out, cfg.Params.Outputs)
	return nil
}

// recurrent builds a network with LSTMs, over what is around one base or over a stretch.
func (cfg *config) recurrent(b *builder, c *converted, stretch bool) error {
	size, kmer, stride := cfg.Params.Size, cfg.Params.KmerLength, orElse(cfg.Params.Stride, defaultStride)
	samples := c.Before + c.After
	if stretch {
		if err := cfg.stretch(c, stride, 1); err != nil {
			return err
		}
		samples = c.Chunk
	}
	signal, sequence := b.inputs(kmer, samples, 1)
	x, err := b.both(signal, sequence,
		plain(stretch, convolution{"sig_conv1", 1, 4, 5, 1, 0, ""}, convolution{"sig_conv2", 4, 16, 5, 1, 0, ""}, convolution{"sig_conv3", 16, size, 9, stride, 0, ""}),
		plain(stretch, convolution{"seq_conv1", 4 * kmer, 16, 5, 1, 0, ""}, convolution{"seq_conv2", 16, size, 13, stride, 0, ""}),
		plain(stretch, convolution{"merge_conv1", 2 * size, size, 5, 1, 0, ""}))
	if err != nil {
		return err
	}
	flow := b.g.Node("Transpose", []string{x.name}, onnxgraph.Integers("perm", 2, 0, 1)) // frames first
	if flow, err = b.lstm(flow, "lstm1", []string{"_l0"}, size, size, "forward"); err != nil {
		return err
	}
	flow, _ = b.activate(b.g.Node("Squeeze", []string{flow, b.g.Integers(1)}), swish)
	direction, axes := "reverse", b.g.Integers(1)
	if !stretch {
		// The second LSTM goes backwards, and only what it makes of the frame that it begins with counts.
		flow = b.g.Node("Gather", []string{flow, b.g.Integers(-1)}, onnxgraph.Integer("axis", 0))
		direction, axes = "forward", b.g.Integers(0, 1)
	}
	if flow, err = b.lstm(flow, "lstm2", []string{"_l0"}, size, size, direction); err != nil {
		return err
	}
	flow, _ = b.activate(b.g.Node("Squeeze", []string{flow, axes}), swish)
	if flow, err = b.linear(flow, "fc", size, cfg.Params.Outputs); err != nil {
		return err
	}
	if !stretch {
		b.output(flow, cfg.Params.Outputs)
		return nil
	}
	return cfg.scores(b, c, flow, x.frames)
}

// scores orders those of frames.
func (cfg *config) scores(b *builder, c *converted, flow string, frames int) error {
	want := c.Chunk / c.Stride
	if frames < want {
		return fmt.Errorf("its convolutions make %d frames of %d samples, not %d", frames, c.Chunk, want)
	}
	flow = b.g.Node("Transpose", []string{flow}, onnxgraph.Integers("perm", 1, 0, 2))
	if frames > want { // of an even number of weights one more, which is of no sample
		flow = b.g.Node("Slice", []string{flow, b.g.Integers(0), b.g.Integers(int64(want)), b.g.Integers(1)})
	}
	b.output(flow, want, cfg.Params.Outputs)
	return nil
}

// stretch takes over how a network sees stretches of current.
func (cfg *config) stretch(c *converted, stride, perBases int) error {
	m := &cfg.Modbases
	c.Chunk, c.Stride, c.SamplesPerBases = orElse(m.Chunk, m.Before+m.After), stride, perBases
	if cfg.General.Model == "conv_lstm_v2" {
		for _, n := range []*int{&c.Before, &c.After, &c.Chunk} {
			*n = (*n + stride - 1) / stride * stride
		}
	}
	switch {
	case c.Chunk%stride != 0 || c.Before%stride != 0:
		return fmt.Errorf("%s: modbases.chunk_size = %d and chunk_context_0 = %d are no whole frames of %d samples", configFile, c.Chunk, c.Before, stride)
	case c.Before+c.After > c.Chunk:
		return fmt.Errorf("%s: modbases.chunk_size = %d is less than the samples around a base, %d and %d", configFile, c.Chunk, c.Before, c.After)
	case c.BasesBefore != c.BasesAfter:
		return fmt.Errorf("%s: modbases.kmer_context_bases are %d and %d: in networks over stretches they must be the same", configFile, c.BasesBefore, c.BasesAfter)
	}
	return nil
}

// sublayers builds a network whose layers are in its configuration.
func (cfg *config) sublayers(b *builder, c *converted) error {
	ofSignal, strideOfSignal, err := convolutionsOf("signal_encoder", cfg.SignalEncoder.Sublayers, "sig_conv", 3)
	if err != nil {
		return err
	}
	ofSequence, strideOfSequence, err := convolutionsOf("sequence_encoder", cfg.SequenceEncoder.Sublayers, "seq_conv", 2)
	if err != nil {
		return err
	}
	rest := cfg.Encoder.Sublayers
	kinds := make([]string, len(rest))
	for i, l := range rest {
		kinds[i] = l.Type
	}
	if !slices.Equal(kinds, []string{"convolution", "lstm", "lstm", "linear"}) {
		return fmt.Errorf("%s: encoder.sublayers are %q: only a convolution, two lstm and a linear are supported", configFile, kinds)
	}
	ofBoth, strideOfBoth, err := convolutionsOf("encoder", rest[:1], "merge_conv", 1)
	if err != nil {
		return err
	}
	size := cfg.Params.Size
	switch {
	case backwards(rest[1]) || !backwards(rest[2]):
		return fmt.Errorf("%s: encoder.sublayers: of the two lstm the second must be reverse", configFile)
	case rest[0].Size != size || rest[1].Size != size || rest[2].Size != size || rest[3].From != size || rest[3].To != cfg.Params.Outputs:
		return fmt.Errorf("%s: encoder.sublayers aren't of the sizes in [model_params], %d and %d", configFile, size, cfg.Params.Outputs)
	case strideOfBoth != 1 || strideOfSignal != orElse(cfg.Params.Stride, defaultStride) || strideOfSequence != orElse(cfg.Params.SequenceStride, strideOfSignal):
		return fmt.Errorf("%s: strides of convolutions, %d, %d and %d, aren't those in [model_params]", configFile, strideOfSignal, strideOfSequence, strideOfBoth)
	case strideOfSignal%strideOfSequence != 0:
		return fmt.Errorf("%s: the stride of the current, %d, is no multiple of that of the bases, %d", configFile, strideOfSignal, strideOfSequence)
	}
	perBases := strideOfSignal / strideOfSequence
	if err := cfg.stretch(c, strideOfSignal, perBases); err != nil {
		return err
	}
	signal, sequence := b.inputs(cfg.Params.KmerLength, c.Chunk, perBases)
	x, err := b.both(signal, sequence, ofSignal, ofSequence, ofBoth)
	if err != nil {
		return err
	}
	flow := b.g.Node("Transpose", []string{x.name}, onnxgraph.Integers("perm", 2, 0, 1))
	for i, direction := range []string{"forward", "reverse"} {
		if flow, err = b.lstm(flow, fmt.Sprintf("lstm%d", i+1), []string{"_l0"}, size, size, direction); err != nil {
			return err
		}
		flow = b.g.Node("Squeeze", []string{flow, b.g.Integers(1)})
	}
	if flow, err = b.linear(flow, "fc", size, cfg.Params.Outputs); err != nil {
		return err
	}
	return cfg.scores(b, c, flow, x.frames)
}

func backwards(l sublayer) bool { return l.Reverse == int64(1) || l.Reverse == true }

// convolutionsOf returns sublayers, which must be so many convolutions, and the product of their strides.
func convolutionsOf(where string, list []sublayer, name string, n int) ([]convolution, int, error) {
	if len(list) != n {
		return nil, 0, fmt.Errorf("%s: %s has %d sublayers, not %d", configFile, where, len(list), n)
	}
	var all []convolution
	stride := 1
	for i, l := range list {
		at := fmt.Sprintf("%s: %s.sublayers[%d]", configFile, where, i)
		for _, v := range []int{l.In, l.Size, l.Width, l.Stride} {
			if l.Type != "convolution" || v < 1 || v > maxSize {
				return nil, 0, fmt.Errorf("%s is no convolution with sizes from 1 to %d", at, maxSize)
			}
		}
		if orElse(l.Padding, l.Width/2) != l.Width/2 {
			return nil, 0, fmt.Errorf("%s: padding = %d is not supported, only half of winlen", at, *l.Padding)
		}
		all = append(all, convolution{fmt.Sprintf("%s%d", name, i+1), l.In, l.Size, l.Width, l.Stride, l.Width / 2, l.Activation})
		stride *= l.Stride
	}
	return all, stride, nil
}
