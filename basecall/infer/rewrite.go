package infer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// Networks with operators of our own.
//
// Problem: ONNX Runtime's LSTM on a GPU starts a kernel for each step and sums up half floats as
// half floats, so it is slow for the few windows that one gets, and inexact.
//
// Strategy: when a network is loaded, an LSTM whose states are squeezed, and added to its input if they
// are, becomes one node of the domain porestream. So do the convolutions before such layers, with their activations, and the matrix that
// makes scores of states, with its bias and tanh or clamp. Weights are packed as a GPU multiplies them. In a network of floats what is between such layers is half floats all the same.
//
// Consequences: what doesn't match stays as it is, and any model folder has the choice. The
// file that is rewritten is never stored. Of a network that is rewritten from end to end a window's result doesn't depend on its batch.

// withKernels returns an ONNX file with layers as operators of our own, how many there are,
// and how many LSTM layers it leaves as they were. Without any of our own the file is nil.
func withKernels(onnx []byte) (rewritten []byte, layers, left int, err error) {
	var model onnxpb.ModelProto
	if err := proto.Unmarshal(onnx, &model); err != nil {
		return nil, 0, 0, fmt.Errorf("not an ONNX file: %w", err)
	}
	r := newRewriter(model.GetGraph())
	for i, node := range r.graph.GetNode() {
		done, plain, err := r.node(i, node)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("layer %s: %w", node.GetName(), err)
		}
		if done {
			layers++
		} else if plain {
			left++
		}
	}
	if layers == 0 {
		return nil, 0, left, nil
	}
	r.finish()
	model.OpsetImport = append(model.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: kernels.Domain, Version: kernels.Version})
	rewritten, err = proto.MarshalOptions{Deterministic: true}.Marshal(&model)
	return rewritten, layers, left, err
}

// rewriter works on a graph.
type rewriter struct {
	graph     *onnxpb.GraphProto
	constants map[string]*onnxpb.TensorProto
	outputs   map[string]bool
	uses      map[string]int              // of each name
	halves    map[string]string           // names of values as half floats, by their own
	before    map[int][]*onnxpb.NodeProto // nodes to put before the one with this index
	after     map[int][]*onnxpb.NodeProto
	removed   map[*onnxpb.NodeProto]bool
}

func newRewriter(graph *onnxpb.GraphProto) *rewriter {
	r := &rewriter{
		graph: graph, constants: map[string]*onnxpb.TensorProto{}, outputs: map[string]bool{}, uses: map[string]int{}, halves: map[string]string{},
		before: map[int][]*onnxpb.NodeProto{}, after: map[int][]*onnxpb.NodeProto{}, removed: map[*onnxpb.NodeProto]bool{},
	}
	for _, t := range r.graph.GetInitializer() {
		r.constants[t.GetName()] = t
	}
	for _, o := range r.graph.GetOutput() {
		r.uses[o.GetName()]++
		r.outputs[o.GetName()] = true
	}
	countUses(r.graph, r.uses)
	return r
}

// node turns a node, with those behind it that belong to it, into an operator of our own, if there is a kernel that does the same. It
// reports whether it did, and otherwise whether the node is an LSTM.
func (r *rewriter) node(index int, node *onnxpb.NodeProto) (done, left bool, err error) {
	if node.GetDomain() != "" || r.removed[node] {
		return false, false, nil
	}
	switch node.GetOpType() {
	case plainLSTM:
		done, err = r.layer(index, node)
		return done, !done, err
	case "MatMul":
		done, err = r.head(index, node)
	case "Conv":
		done, err = r.stem(index, node)
	}
	return done, false, err
}

// countUses counts how often nodes take each name, also those within loops and branches.
func countUses(g *onnxpb.GraphProto, uses map[string]int) {
	for _, node := range g.GetNode() {
		for _, input := range node.GetInput() {
			uses[input]++
		}
		for _, a := range node.GetAttribute() {
			if a.GetG() != nil {
				countUses(a.GetG(), uses)
			}
		}
	}
}

// layer turns an LSTM, the node with this index, into our operator, if there is a kernel that does the same.
func (r *rewriter) layer(index int, node *onnxpb.NodeProto) (done bool, err error) {
	width, reverse, ok := lstmAttributes(node)
	in := node.GetInput()
	if !ok || len(in) < 3 || len(node.GetOutput()) == 0 || r.uses[node.GetOutput()[0]] != 1 {
		return false, nil
	}
	for _, name := range in[min(len(in), 4):] { // lengths, first states, peepholes
		if name != "" {
			return false, nil
		}
	}
	for _, name := range node.GetOutput()[1:] { // last states
		if name != "" && r.uses[name] > 0 {
			return false, nil
		}
	}
	packed := kernels.LSTM{Width: width}
	kind := int32(0)
	for i, w := range []struct {
		to   *[]float32
		dims []int64
	}{
		{&packed.W, []int64{1, 4 * int64(width), int64(width)}},
		{&packed.R, []int64{1, 4 * int64(width), int64(width)}},
		{&packed.B, []int64{1, 8 * int64(width)}},
	} {
		if len(in) <= 1+i || in[1+i] == "" {
			continue // without biases
		}
		t := r.constants[in[1+i]]
		if t == nil || !slices.Equal(t.GetDims(), w.dims) {
			return false, nil
		}
		if kind = t.GetDataType(); !isFloat(kind) {
			return false, nil
		}
		if *w.to, err = floats(t); err != nil {
			return false, err
		}
	}
	squeeze := r.onlyUser(node.GetOutput()[0])
	if squeeze == nil || !r.squeezesDirections(squeeze) {
		return false, nil
	}
	output, residual := squeeze.GetOutput()[0], int64(0)
	drop := []*onnxpb.NodeProto{squeeze}
	if sum := r.onlyUser(output); sum != nil && sum.GetOpType() == "Add" && sum.GetDomain() == "" && len(sum.GetInput()) == 2 &&
		slices.Contains(sum.GetInput(), in[0]) && in[0] != output {
		output, residual = sum.GetOutput()[0], 1
		drop = append(drop, sum)
	}
	for _, n := range drop {
		r.drop(n)
	}

	weights, bias := packed.Pack()
	r.replace(index, node, kernels.LSTMOp, kind, output, kind, weights, bias,
		integer("hidden_size", int64(width)), integer("reverse", reverse), integer("residual", residual))
	return true, nil
}

// replace makes an operator of our own of the node with this index. It takes the node's first input, of which floats of this
// kind are cast, and makes the output in place of a node that is dropped: half floats, which are cast where they have to be floats.
func (r *rewriter) replace(index int, node *onnxpb.NodeProto, op string, kind int32, output string, outputKind int32, weights []uint16, bias []float32, attributes ...*onnxpb.AttributeProto) {
	raw := make([]byte, 0, 2*len(weights))
	for _, w := range weights {
		raw = binary.LittleEndian.AppendUint16(raw, w)
	}
	name := fmt.Sprintf("kernel.%d", index)
	x, y := node.GetInput()[0], output
	if kind == int32(onnxpb.TensorProto_FLOAT) {
		x = r.half(index, x)
	}
	if outputKind == int32(onnxpb.TensorProto_FLOAT) {
		y = output + ".half"
		r.halves[output] = y
		r.after[index] = append(r.after[index], cast(y, output, onnxpb.TensorProto_FLOAT))
	}
	node.OpType, node.Domain = op, kernels.Domain
	node.Input = []string{x, r.constant(name+".W", onnxpb.TensorProto_FLOAT16, raw, int64(len(weights))), r.floats(name+".B", bias)}
	node.Output = []string{y}
	node.Attribute = attributes
}

// lstmAttributes reads what a layer's attributes say; not ok if a kernel does otherwise.
func lstmAttributes(node *onnxpb.NodeProto) (width int, reverse int64, ok bool) {
	for _, a := range node.GetAttribute() {
		switch a.GetName() {
		case "hidden_size":
			if a.GetI() > 0 && a.GetI() <= math.MaxInt32 {
				width = int(a.GetI())
			}
		case "direction":
			switch string(a.GetS()) {
			case "forward":
			case "reverse":
				reverse = 1
			default:
				return 0, 0, false
			}
		case layoutAttribute, "input_forget":
			if a.GetI() != 0 {
				return 0, 0, false
			}
		default: // a limit, other activations
			return 0, 0, false
		}
	}
	return width, reverse, kernels.HasWidth(width)
}

// squeezesDirections reports whether a node takes out the axis of directions, of which there is one.
func (r *rewriter) squeezesDirections(node *onnxpb.NodeProto) bool {
	if node.GetOpType() != "Squeeze" || node.GetDomain() != "" {
		return false
	}
	for _, a := range node.GetAttribute() { // before version 13
		if a.GetName() == "axes" {
			return slices.Equal(a.GetInts(), []int64{1})
		}
	}
	if len(node.GetInput()) != 2 {
		return false
	}
	axes := r.constants[node.GetInput()[1]]
	if axes == nil || axes.GetDataType() != int32(onnxpb.TensorProto_INT64) || !slices.Equal(axes.GetDims(), []int64{1}) {
		return false
	}
	return len(axes.GetRawData()) == 8 && binary.LittleEndian.Uint64(axes.GetRawData()) == 1
}

// onlyUser returns the node of the graph that takes a value which nobody else takes, or nil.
func (r *rewriter) onlyUser(name string) *onnxpb.NodeProto {
	if r.uses[name] != 1 {
		return nil
	}
	for _, node := range r.graph.GetNode() {
		if slices.Contains(node.GetInput(), name) {
			return node
		}
	}
	return nil // the graph gives it, or a loop within takes it
}

func (r *rewriter) drop(node *onnxpb.NodeProto) {
	r.removed[node] = true
}

// half returns the name of a value of floats as half floats, for the node with this index.
func (r *rewriter) half(index int, name string) string {
	if _, there := r.halves[name]; !there {
		r.halves[name] = name + ".half"
		r.before[index] = append(r.before[index], cast(name, name+".half", onnxpb.TensorProto_FLOAT16))
	}
	return r.halves[name]
}

// finish puts the graph's nodes together, without what nobody takes any more.
func (r *rewriter) finish() {
	var nodes []*onnxpb.NodeProto
	for i, node := range r.graph.GetNode() {
		if !r.removed[node] {
			nodes = append(append(append(nodes, r.before[i]...), node), r.after[i]...)
		}
	}
	r.graph.Node = nodes
	uses := map[string]int{}
	for _, o := range r.graph.GetOutput() {
		uses[o.GetName()]++
	}
	countUses(r.graph, uses)
	r.graph.Node = slices.DeleteFunc(r.graph.Node, func(n *onnxpb.NodeProto) bool {
		return n.GetOpType() == "Cast" && uses[n.GetOutput()[0]] == 0
	})
	r.graph.Initializer = slices.DeleteFunc(r.graph.Initializer, func(t *onnxpb.TensorProto) bool {
		return uses[t.GetName()] == 0 && r.uses[t.GetName()] > 0
	})
}

func (r *rewriter) constant(name string, kind onnxpb.TensorProto_DataType, data []byte, dims ...int64) string {
	r.graph.Initializer = append(r.graph.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(kind), Dims: dims, RawData: data})
	return name
}

// floats adds a constant of floats and returns its name.
func (r *rewriter) floats(name string, values []float32) string {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return r.constant(name, onnxpb.TensorProto_FLOAT, raw, int64(len(values)))
}

func cast(from, to string, kind onnxpb.TensorProto_DataType) *onnxpb.NodeProto {
	return &onnxpb.NodeProto{Name: to, OpType: "Cast", Input: []string{from}, Output: []string{to}, Attribute: []*onnxpb.AttributeProto{integer("to", int64(kind))}}
}

func integer(name string, value int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: value}
}

// isFloat reports whether a type is one of those that kernels' weights are read of.
func isFloat(kind int32) bool {
	return kind == int32(onnxpb.TensorProto_FLOAT) || kind == int32(onnxpb.TensorProto_FLOAT16)
}

// floats returns the numbers of a constant of floats or half floats.
func floats(t *onnxpb.TensorProto) ([]float32, error) {
	if t.GetDataType() != int32(onnxpb.TensorProto_FLOAT16) {
		return float32s(t)
	}
	size := int64(1)
	for _, d := range t.GetDims() {
		size *= d // which callers have bounded, so that the product is one
	}
	if int64(len(t.GetRawData())) != 2*size {
		return nil, fmt.Errorf("constant %s has %d bytes for the dimensions %d (weights in a file beside the network are not read)",
			t.GetName(), len(t.GetRawData()), t.GetDims())
	}
	out := make([]float32, size)
	for i := range out {
		out[i] = half.ToFloat(binary.LittleEndian.Uint16(t.GetRawData()[2*i:]))
	}
	return out, nil
}
