// Package onnxgraph writes ONNX graphs, operator by operator.
package onnxgraph

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/half"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// Versions of ONNX that a graph is written for. Every operator in it has meant the
// same since; RMSNorm and rotary embeddings, which became operators later, are
// put together from simpler ones.
const (
	onnxIR    = 8
	onnxOpset = 17
)

// Graph is an ONNX graph in the making. Values are known by name.
type Graph struct {
	PB   *onnxpb.GraphProto
	Half bool // weights and values are float16, but for the ends
	n    int  // of names given
}

// New returns an empty graph.
func New(name string, half bool) *Graph {
	return &Graph{PB: &onnxpb.GraphProto{Name: name}, Half: half}
}

// FloatType is the type of weights and values.
func (g *Graph) FloatType() onnxpb.TensorProto_DataType {
	if g.Half {
		return onnxpb.TensorProto_FLOAT16
	}
	return onnxpb.TensorProto_FLOAT
}

// Name returns a name that no other value has.
func (g *Graph) Name(kind string) string {
	g.n++
	return fmt.Sprintf("%s_%d", kind, g.n)
}

// Node adds an operator with one output, and returns that.
func (g *Graph) Node(op string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	return g.Nodes(op, inputs, 1, attributes...)[0]
}

// Nodes adds an operator with several outputs.
func (g *Graph) Nodes(op string, inputs []string, outputs int, attributes ...*onnxpb.AttributeProto) []string {
	out := make([]string, outputs)
	for i := range out {
		out[i] = g.Name(op)
	}
	g.PB.Node = append(g.PB.Node, &onnxpb.NodeProto{
		Name: out[0], OpType: op, Input: inputs, Output: out, Attribute: attributes,
	})
	return out
}

// Weights adds constant numbers, in the graph's type.
func (g *Graph) Weights(data []float32, shape ...int) string {
	t := &onnxpb.TensorProto{Name: g.Name("weights"), DataType: int32(g.FloatType()), Dims: dims(shape)}
	if g.Half {
		t.RawData = make([]byte, 0, 2*len(data))
		for _, v := range data {
			t.RawData = binary.LittleEndian.AppendUint16(t.RawData, half.FromFloat(v))
		}
	} else {
		t.RawData = FloatBytes(data)
	}
	g.PB.Initializer = append(g.PB.Initializer, t)
	return t.Name
}

// Float32s adds constant numbers that stay float32 in a half graph.
func (g *Graph) Float32s(data []float32, shape ...int) string {
	t := &onnxpb.TensorProto{
		Name: g.Name("weights"), DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims(shape), RawData: FloatBytes(data),
	}
	g.PB.Initializer = append(g.PB.Initializer, t)
	return t.Name
}

// Integers adds constant whole numbers, as shapes and axes are given.
func (g *Graph) Integers(data ...int64) string {
	t := &onnxpb.TensorProto{Name: g.Name("shape"), DataType: int32(onnxpb.TensorProto_INT64), Dims: []int64{int64(len(data))}}
	for _, v := range data {
		t.RawData = binary.LittleEndian.AppendUint64(t.RawData, uint64(v))
	}
	g.PB.Initializer = append(g.PB.Initializer, t)
	return t.Name
}

// Cast converts a value.
func (g *Graph) Cast(x string, to onnxpb.TensorProto_DataType) string {
	return g.Node("Cast", []string{x}, Integer("to", int64(to)))
}

// Within returns a graph for the body of a loop. Its values have names of their own, and
// it may use those of the graph around it.
func (g *Graph) Within(build func(body *Graph)) *onnxpb.GraphProto {
	body := &Graph{PB: &onnxpb.GraphProto{Name: g.Name("body")}, Half: g.Half, n: g.n}
	build(body)
	g.n = body.n
	return body.PB
}

// End is a graph's input or output, with the given type and axes, of which a string is one
// of any length.
func End(name string, kind onnxpb.TensorProto_DataType, axes ...any) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for _, axis := range axes {
		d := &onnxpb.TensorShapeProto_Dimension{}
		switch axis := axis.(type) {
		case int:
			d.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(axis)}
		case string:
			d.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: axis}
		}
		shape.Dim = append(shape.Dim, d)
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(kind), Shape: shape},
	}}}
}

// Marshal returns the ONNX file.
func (g *Graph) Marshal() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{
		IrVersion: onnxIR, ProducerName: "porestream", Graph: g.PB,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: onnxOpset}},
	})
}

// Integer is an attribute.
func Integer(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

// Integers is an attribute.
func Integers(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

// Body is an attribute.
func Body(name string, v *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: v}
}

// Float is an attribute.
func Float(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

// Text is an attribute.
func Text(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

func dims(shape []int) []int64 {
	d := make([]int64, len(shape))
	for i, n := range shape {
		d[i] = int64(n)
	}
	return d
}

// FloatBytes are numbers as a tensor has them, little-endian.
func FloatBytes(data []float32) []byte {
	b := make([]byte, 0, 4*len(data))
	for _, v := range data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
