package convert

import (
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// Convolutions of blocks have an axis of rows, of length 1, which changes nothing that
// they compute: ONNX Runtime has faster kernels on a CPU for pictures than for rows. With
// the network for R9.4.1 it takes two thirds of the time.
const layoutNC1T = "NC1T"

// blockNormEpsilon is what QuartzNet's batch normalisation adds to variances.
const blockNormEpsilon = 1e-3

// build convolves x, which has in channels.
func (c *blockConv) build(b *builder, x string) (string, error) {
	var norm [4][]float32
	for i, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		var err error
		if norm[i], err = b.parameters.get(c.norm, name, c.out); err != nil {
			return "", err
		}
	}
	// The width of the convolution that mixes channels, before which a separable one has
	// another.
	name, width := "conv.weight", c.width
	if c.separable {
		weight, err := b.parameters.get(c.at, "depthwise.weight", c.in, 1, c.width)
		if err != nil {
			return "", err
		}
		x = b.g.Node("Conv", []string{x, b.g.Weights(weight, c.in, 1, 1, c.width)}, c.attributes(c.width, c.in)...)
		name, width = "pointwise.weight", 1
	}
	weight, err := b.parameters.get(c.at, name, c.out, c.in, width)
	if err != nil {
		return "", err
	}
	weight, bias := fold(weight, nil, norm, blockNormEpsilon)
	return b.g.Node("Conv", []string{x, b.g.Weights(weight, c.out, c.in, 1, width), b.g.Weights(bias, c.out)}, c.attributes(width, 1)...), nil
}

// attributes returns those of a convolution of so many frames by so many groups of channels.
func (c *blockConv) attributes(width, groups int) []*onnxpb.AttributeProto {
	pad := int64(width / 2 * c.dilation)
	return []*onnxpb.AttributeProto{
		onnxgraph.Integers("kernel_shape", 1, int64(width)), onnxgraph.Integers("strides", 1, int64(c.stride)), onnxgraph.Integers("dilations", 1, int64(c.dilation)),
		onnxgraph.Integers("pads", 0, pad, 0, pad), onnxgraph.Integer("group", int64(groups)),
	}
}

func (l blockLayer) build(b *builder) (err error) {
	switch b.layout {
	case layoutNCT:
		b.apply("Unsqueeze", []string{b.g.Integers(2)})
		b.layout = layoutNC1T
	case layoutNC1T:
	default:
		return errLayout
	}
	entered := b.x
	for i, c := range l.convs {
		if err := b.expect(c.in); err != nil {
			return err
		}
		if b.x, err = c.build(b, b.x); err != nil {
			return err
		}
		b.channels = c.out
		b.frames = (b.frames-1)/c.stride + 1
		if i < len(l.convs)-1 {
			b.activate(l.activation)
		}
	}
	if l.residual != nil {
		around, err := l.residual.build(b, entered)
		if err != nil {
			return err
		}
		b.apply("Add", []string{around})
	}
	b.activate(l.activation)
	return nil
}

func (l *ctcLayer) build(b *builder) error {
	if b.layout != layoutNC1T {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	weight, err := b.parameters.get(l.at, "weight", l.classes, l.in, 1)
	if err != nil {
		return err
	}
	bias, err := b.parameters.get(l.at, "bias", l.classes)
	if err != nil {
		return err
	}
	b.apply("Conv", []string{b.g.Weights(weight, l.classes, l.in, 1, 1), b.g.Weights(bias, l.classes)}, onnxgraph.Integers("kernel_shape", 1, 1))
	b.apply("Squeeze", []string{b.g.Integers(2)})
	b.apply("Transpose", nil, onnxgraph.Integers("perm", 0, 2, 1))
	b.layout, b.channels = layoutNTC, l.classes
	b.apply("LogSoftmax", nil, onnxgraph.Integer("axis", -1))
	return nil
}
