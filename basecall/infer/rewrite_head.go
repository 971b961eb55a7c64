package infer

import (
	"slices"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// chain follows a value through nodes of which each is the only one that takes what the one before makes.
type chain struct {
	*rewriter
	value string
	kind  int32 // of its elements
	nodes []*onnxpb.NodeProto
}

// next returns the node that takes the value, if it is an operator of this kind and the only one.
func (c *chain) next(op string) *onnxpb.NodeProto {
	node := c.onlyUser(c.value)
	if node == nil || node.GetOpType() != op || node.GetDomain() != "" || len(node.GetOutput()) != 1 || c.removed[node] {
		return nil
	}
	return node
}

// take goes on with what a node makes.
func (c *chain) take(node *onnxpb.NodeProto) {
	c.nodes, c.value = append(c.nodes, node), node.GetOutput()[0]
}

// uncast goes past casts between floats and half floats.
func (c *chain) uncast() {
	for range c.graph.GetNode() { // a wrong file may have a circle of them
		node := c.next(opCast)
		if node == nil || len(node.GetInput()) != 1 {
			return
		}
		kind, ok := castTo(node)
		if !ok {
			return
		}
		c.take(node)
		c.kind = kind
	}
}

// castTo returns the type that a Cast makes, if it is one of floats or half floats.
func castTo(node *onnxpb.NodeProto) (kind int32, ok bool) {
	for _, a := range node.GetAttribute() {
		if a.GetName() == "to" && isFloat(int32(a.GetI())) {
			return int32(a.GetI()), true
		}
	}
	return 0, false
}

// other returns the input of a node of two that isn't the value.
func (c *chain) other(node *onnxpb.NodeProto) (name string, ok bool) {
	in := node.GetInput()
	if len(in) != 2 || in[0] == in[1] {
		return "", false
	}
	return in[1-slices.Index(in, c.value)], true
}

// ends reports whether from here on the value becomes an output of the graph without any more arithmetics.
func (c *chain) ends() bool {
	rest := *c
	for range len(c.graph.GetNode()) + 1 { // a wrong file may have a circle of them
		if c.outputs[rest.value] {
			return c.uses[rest.value] == 1
		}
		node := rest.next(opCast)
		for _, op := range []string{opTranspose, opClip} {
			if node == nil {
				node = rest.next(op)
			}
		}
		if node == nil || node.GetInput()[0] != rest.value {
			return false
		}
		rest.value = node.GetOutput()[0]
	}
	return false
}

// head turns the last matrix of a network, the node with this index, and its bias and activation into one operator.
func (r *rewriter) head(index int, node *onnxpb.NodeProto) (done bool, err error) {
	in := node.GetInput()
	if len(in) != 2 || len(node.GetOutput()) != 1 || r.constants[in[0]] != nil {
		return false, nil
	}
	w := r.constants[in[1]]
	if w == nil || len(w.GetDims()) != 2 || !isFloat(w.GetDataType()) {
		return false, nil
	}
	width, classes := w.GetDims()[0], w.GetDims()[1]
	if width > 1<<20 || classes > 1<<20 || !kernels.HasHead(int(width), int(classes)) {
		return false, nil
	}
	c := chain{rewriter: r, value: node.GetOutput()[0], kind: w.GetDataType()}
	bias := make([]float32, classes)
	if sum := c.next("Add"); sum != nil {
		name, ok := c.other(sum)
		if b := r.constants[name]; ok && b != nil && slices.Equal(b.GetDims(), []int64{classes}) && b.GetDataType() == c.kind {
			if bias, err = floats(b); err != nil {
				return false, err
			}
			c.take(sum)
		}
	}
	activation, scale, low, high := c.activation()
	if !c.ends() {
		return false, nil
	}
	matrix := kernels.Linear{Factors: int(width), Columns: int(classes)}
	if matrix.W, err = floats(w); err != nil {
		return false, err
	}
	for _, n := range c.nodes {
		r.drop(n)
	}
	r.replace(index, node, kernels.HeadOp, w.GetDataType(), c.value, c.kind, matrix.Pack(), bias,
		integer("width", width), integer("classes", classes), integer("activation", int64(activation)), real("scale", scale), real("low", low), real("high", high))
	return true, nil
}

// activation takes the nodes that are an activation of a head, if there are any.
func (c *chain) activation() (kind kernels.Activation, scale, low, high float32) {
	before := *c
	c.uncast()
	if node := c.next(opTanh); node != nil {
		c.take(node)
		scaled := *c
		scaled.uncast()
		if product := scaled.next(opMul); product != nil {
			name, ok := scaled.other(product)
			if factor, known := number(c.constants[name]); ok && known && factor > 0 && len(c.constants[name].GetDims()) <= 1 {
				scaled.take(product)
				*c = scaled
				return kernels.Tanh, factor, 0, 0
			}
		}
		return kernels.Tanh, 1, 0, 0
	}
	if node := c.next(opClip); node != nil && len(node.GetInput()) == 3 && node.GetInput()[0] == c.value {
		if low, high, known := limits(node, c.constants); known {
			c.take(node)
			return kernels.Clamp, 1, low, high
		}
	}
	*c = before
	return kernels.NoActivation, 1, 0, 0
}
