package convert

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

// graph is an ONNX graph in the making. Values are known by name.
type graph struct {
	pb   *onnxpb.GraphProto
	half bool // weights and values are float16, but for the ends
	n    int  // of names given
}

func newGraph(name string, half bool) *graph {
	return &graph{pb: &onnxpb.GraphProto{Name: name}, half: half}
}

// floatType is the type of weights and values.
func (g *graph) floatType() onnxpb.TensorProto_DataType {
	if g.half {
		return onnxpb.TensorProto_FLOAT16
	}
	return onnxpb.TensorProto_FLOAT
}

// name returns a name that no other value has.
func (g *graph) name(kind string) string {
	g.n++
	return fmt.Sprintf("%s_%d", kind, g.n)
}

// node adds an operator with one output, and returns that.
func (g *graph) node(op string, inputs []string, attributes ...*onnxpb.AttributeProto) string {
	return g.nodes(op, inputs, 1, attributes...)[0]
}

// nodes adds an operator with several outputs.
func (g *graph) nodes(op string, inputs []string, outputs int, attributes ...*onnxpb.AttributeProto) []string {
	out := make([]string, outputs)
	for i := range out {
		out[i] = g.name(op)
	}
	g.pb.Node = append(g.pb.Node, &onnxpb.NodeProto{
		Name: out[0], OpType: op, Input: inputs, Output: out, Attribute: attributes,
	})
	return out
}

// weights adds constant numbers, in the graph's type.
func (g *graph) weights(data []float32, shape ...int) string {
	t := &onnxpb.TensorProto{Name: g.name("weights"), DataType: int32(g.floatType()), Dims: dims(shape)}
	if g.half {
		t.RawData = make([]byte, 0, 2*len(data))
		for _, v := range data {
			t.RawData = binary.LittleEndian.AppendUint16(t.RawData, half.FromFloat(v))
		}
	} else {
		t.RawData = floatBytes(data)
	}
	g.pb.Initializer = append(g.pb.Initializer, t)
	return t.Name
}

// float32s adds constant numbers that stay float32 in a half graph.
func (g *graph) float32s(data []float32, shape ...int) string {
	t := &onnxpb.TensorProto{
		Name: g.name("weights"), DataType: int32(onnxpb.TensorProto_FLOAT), Dims: dims(shape), RawData: floatBytes(data),
	}
	g.pb.Initializer = append(g.pb.Initializer, t)
	return t.Name
}

// integers adds constant whole numbers, as shapes and axes are given.
func (g *graph) integers(data ...int64) string {
	t := &onnxpb.TensorProto{Name: g.name("shape"), DataType: int32(onnxpb.TensorProto_INT64), Dims: []int64{int64(len(data))}}
	for _, v := range data {
		t.RawData = binary.LittleEndian.AppendUint64(t.RawData, uint64(v))
	}
	g.pb.Initializer = append(g.pb.Initializer, t)
	return t.Name
}

// cast converts a value.
func (g *graph) cast(x string, to onnxpb.TensorProto_DataType) string {
	return g.node("Cast", []string{x}, integer("to", int64(to)))
}

// within returns a graph for the body of a loop. Its values have names of their own, and
// it may use those of the graph around it.
func (g *graph) within(build func(body *graph)) *onnxpb.GraphProto {
	body := &graph{pb: &onnxpb.GraphProto{Name: g.name("body")}, half: g.half, n: g.n}
	build(body)
	g.n = body.n
	return body.pb
}

// end is a graph's input or output, with the given type and axes, of which a string is one
// of any length.
func end(name string, kind onnxpb.TensorProto_DataType, axes ...any) *onnxpb.ValueInfoProto {
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

// marshal returns the ONNX file.
func (g *graph) marshal() ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{
		IrVersion: onnxIR, ProducerName: "porestream", Graph: g.pb,
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: onnxOpset}},
	})
}

func integer(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INT, I: v}
}

func integers(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_INTS, Ints: v}
}

func body(name string, v *onnxpb.GraphProto) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_GRAPH, G: v}
}

func text(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_STRING, S: []byte(v)}
}

func dims(shape []int) []int64 {
	d := make([]int64, len(shape))
	for i, n := range shape {
		d[i] = int64(n)
	}
	return d
}

func floatBytes(data []float32) []byte {
	b := make([]byte, 0, 4*len(data))
	for _, v := range data {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
