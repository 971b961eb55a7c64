package onnxgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// TestValuesHaveNamesOfTheirOwn: no two values of a graph, of loops within it among them, have one name, and the bytes are the
// same each time.
func TestValuesHaveNamesOfTheirOwn(t *testing.T) {
	build := func() []byte {
		g := onnxgraph.New("test", false)
		x := g.Node("Add", []string{"x", g.Weights([]float32{1, 2}, 2)})
		inner := g.Within(func(b *onnxgraph.Graph) { b.Node("Neg", []string{b.Node("Abs", []string{x})}) })
		g.Node("Scan", []string{x, g.Integers(1, 2)}, onnxgraph.Body("body", inner), onnxgraph.Integer("num_scan_inputs", 1))
		g.PB.Input = []*onnxpb.ValueInfoProto{onnxgraph.End("x", onnxpb.TensorProto_FLOAT, "batch", 2)}
		data, err := g.Marshal()
		require.NoError(t, err)
		return data
	}
	data := build()
	require.Equal(t, data, build())
	var m onnxpb.ModelProto
	require.NoError(t, proto.Unmarshal(data, &m))
	seen := make(map[string]bool)
	see := func(name string) {
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for _, w := range m.Graph.Initializer {
		see(w.Name)
	}
	nodes := 0
	var walk func(g *onnxpb.GraphProto)
	walk = func(g *onnxpb.GraphProto) {
		for _, n := range g.Node {
			nodes++
			see(n.Output[0])
			for _, a := range n.Attribute {
				if a.G != nil {
					walk(a.G)
				}
			}
		}
	}
	walk(m.Graph)
	require.Equal(t, 4, nodes)
	require.Len(t, seen, 6)
}
