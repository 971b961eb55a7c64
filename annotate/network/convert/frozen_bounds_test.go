package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// node is an encoded operator of a graph.
func node(name, kind string, inputs []string) []byte {
	field := func(dst []byte, number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), content)
	}
	o := field(field(nil, nodeName, []byte(name)), nodeOp, []byte(kind))
	for _, in := range inputs {
		o = field(o, nodeInput, []byte(in))
	}
	return field(nil, graphNode, o)
}

// TestFrozenGraphIsBounded: small files don't ask for more memory or time than their size allows.
func TestFrozenGraphIsBounded(t *testing.T) {
	t.Parallel()
	var many []byte
	for i := range mostOperators + 1 {
		many = append(many, node(fmt.Sprint(i), "Relu", nil)...)
	}
	for name, tt := range map[string]struct {
		graph []byte
		want  string
	}{
		"operators": {many, "it has more than 100000 operators"},
		"inputs":    {node("a", "Relu", make([]string, mostInputs+1)), `operator "a" has more than 1000 inputs or attributes`},
		"a name":    {node(strings.Repeat("a", longestName+1), "Relu", nil), "an operator's name or kind has more than 1000 letters"},
	} {
		_, _, err := buildFrozen(tt.graph)
		require.EqualError(t, err, tt.want, name)
	}

	// The mean of one network, a hundred times.
	tiny, err := os.ReadFile(filepath.Join("testdata", "tiny4.pb"))
	require.NoError(t, err)
	g, err := parseFrozen(tiny)
	require.NoError(t, err)
	for _, o := range g.operators {
		if o.kind == "Pack" && len(o.inputs) == 2 {
			o.inputs = slices.Repeat(o.inputs[:1], maxNetworks)
		}
	}
	outputs, err := g.averaged()
	require.NoError(t, err)
	require.Len(t, outputs, maxNetworks)
	g.space = 1 << 30 // of weights nothing is to be short
	_, _, err = g.build()
	require.EqualError(t, err, "the networks that it averages share operators, which are not known to do so")
}
