package infer

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// mostConvolutions are before the LSTM layers.
const mostConvolutions = 3

// stem turns the convolutions that take the signal, the first of which is the node with this index, with their activations and the Transpose
// behind them into one operator.
func (r *rewriter) stem(index int, node *onnxpb.NodeProto) (done bool, err error) {
	signal, ok := r.signal(node)
	if !ok {
		return false, nil
	}
	var s kernels.Stem
	c := chain{rewriter: r, value: node.GetInput()[0]}
	for conv := node; conv != nil && len(s) <= mostConvolutions; conv = c.next("Conv") {
		layer, kind, ok, err := r.convolution(conv, c.value)
		if err != nil || !ok || len(s) > 0 && kind != c.kind {
			return false, err
		}
		c.kind = kind
		c.take(conv)
		layer.Activation = c.gate()
		s = append(s, layer)
	}
	swap := c.next(opTranspose)
	if swap == nil || len(swap.GetInput()) != 1 || !permutes(swap, 2, 0, 1) || !s.HasKernel() {
		return false, nil
	}
	c.take(swap)
	for _, n := range c.nodes[1:] {
		r.drop(n)
	}
	weights, bias, small := s.Pack()
	last := s[len(s)-1]
	attributes := []*onnxpb.AttributeProto{
		integer("width", int64(last.Out)), integer("channels", int64(s[0].Out)), integer("taps", int64(s[0].Taps)), integer("second", int64(s.Second())),
		integer("last", int64(last.Taps)), integer("stride", int64(last.Stride)), integer("left", int64(last.Left)), integer("right", int64(last.Right)),
	}
	for i, f := range s.Activations() {
		attributes = append(attributes, integer(fmt.Sprintf("activation_%d", i), int64(f)))
	}
	node.Input[0] = signal
	r.replace(index, node, kernels.StemOp, 0, c.value, c.kind, weights, bias, attributes...)
	node.Input = append(node.Input, r.floats(node.Input[2]+".small", small))
	return true, nil
}

// signal returns the graph's input that a convolution takes, which may be cast before.
func (r *rewriter) signal(conv *onnxpb.NodeProto) (name string, ok bool) {
	if len(conv.GetInput()) < 2 {
		return "", false
	}
	name = conv.GetInput()[0]
	for _, node := range r.graph.GetNode() {
		if node.GetOpType() == opCast && len(node.GetInput()) == 1 && slices.Contains(node.GetOutput(), name) {
			if _, float := castTo(node); float {
				name = node.GetInput()[0]
			}
			break
		}
	}
	for _, in := range r.graph.GetInput() {
		if in.GetName() == name && in.GetType().GetTensorType().GetElemType() == int32(onnxpb.TensorProto_FLOAT) {
			return name, true
		}
	}
	return "", false
}

// convolution reads what a node is; not ok if a kernel does otherwise, or the node takes something else than x.
func (r *rewriter) convolution(node *onnxpb.NodeProto, x string) (c kernels.Convolution, kind int32, ok bool, err error) {
	in := node.GetInput()
	if len(in) < 2 || len(in) > 3 || in[0] != x || len(node.GetOutput()) != 1 {
		return c, 0, false, nil
	}
	w := r.constants[in[1]]
	if w == nil || !isFloat(w.GetDataType()) || len(w.GetDims()) != 3 {
		return c, 0, false, nil
	}
	for _, d := range w.GetDims() {
		if d < 1 || d > 1<<12 {
			return c, 0, false, nil
		}
	}
	kind = w.GetDataType()
	c = kernels.Convolution{Out: int(w.GetDims()[0]), In: int(w.GetDims()[1]), Taps: int(w.GetDims()[2]), Stride: 1}
	for _, a := range node.GetAttribute() {
		v := a.GetInts()
		switch a.GetName() {
		case "strides":
			if len(v) != 1 || v[0] < 1 || v[0] > 1<<12 {
				return c, 0, false, nil
			}
			c.Stride = int(v[0])
		case "pads":
			if len(v) != 2 || min(v[0], v[1]) < 0 || max(v[0], v[1]) > 1<<12 {
				return c, 0, false, nil
			}
			c.Left, c.Right = int(v[0]), int(v[1])
		case "kernel_shape":
			if !slices.Equal(v, []int64{int64(c.Taps)}) {
				return c, 0, false, nil
			}
		case "dilations":
			if !slices.Equal(v, []int64{1}) {
				return c, 0, false, nil
			}
		case "group":
			if a.GetI() != 1 {
				return c, 0, false, nil
			}
		default: // padding by itself
			return c, 0, false, nil
		}
	}
	if c.W, err = floats(w); err != nil {
		return c, 0, false, err
	}
	c.B = make([]float32, c.Out)
	if len(in) == 3 && in[2] != "" {
		b := r.constants[in[2]]
		if b == nil || b.GetDataType() != kind || !slices.Equal(b.GetDims(), []int64{int64(c.Out)}) {
			return c, 0, false, nil
		}
		if c.B, err = floats(b); err != nil {
			return c, 0, false, err
		}
	}
	return c, kind, true, nil
}

// gate takes the nodes that are an activation of a convolution, if there are any.
func (c *chain) gate() kernels.Activation {
	if node := c.next(opTanh); node != nil && len(node.GetInput()) == 1 {
		c.take(node)
		return kernels.Tanh
	}
	if c.uses[c.value] != 2 || c.outputs[c.value] {
		return kernels.NoActivation
	}
	for _, node := range c.graph.GetNode() {
		if node.GetOpType() != "Sigmoid" || node.GetDomain() != "" || !slices.Equal(node.GetInput(), []string{c.value}) || len(node.GetOutput()) != 1 {
			continue
		}
		gate := *c
		gate.value = node.GetOutput()[0]
		product := gate.next(opMul)
		if product == nil || !slices.Contains(product.GetInput(), c.value) || len(product.GetInput()) != 2 {
			break
		}
		c.take(node)
		c.take(product)
		return kernels.SiLU
	}
	return kernels.NoActivation
}

// permutes reports whether a Transpose has this order of axes.
func permutes(node *onnxpb.NodeProto, axes ...int64) bool {
	for _, a := range node.GetAttribute() {
		if a.GetName() == "perm" {
			return slices.Equal(a.GetInts(), axes)
		}
	}
	return false
}

// independentOps are operators of ONNX that compute each number by itself, and those that compute none.
var independentOps = [...]string{opCast, opTranspose, opTanh, opClip, opMul, "QuantizeLinear"}

// independent reports whether in a network what a window gets depends on the window alone, on any device: operators of our own have one
// order of sums, whatever the batch.
func independent(onnx []byte) (bool, error) {
	var model onnxpb.ModelProto
	if err := proto.Unmarshal(onnx, &model); err != nil {
		return false, fmt.Errorf("not an ONNX file: %w", err)
	}
	for _, node := range model.GetGraph().GetNode() {
		if node.GetDomain() != kernels.Domain && (node.GetDomain() != "" || !slices.Contains(independentOps[:], node.GetOpType())) {
			return false, nil
		}
	}
	return true, nil
}
