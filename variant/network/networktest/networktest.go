// Package networktest makes variant models for tests.
package networktest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
)

// Spec describes a network of one layer. The zero value is one that fits package
// variant, and whose logits are all 0.
type Spec struct {
	// Weights is the weight of an input for a logit; nil: all 0.
	Weights func(score, input int) float32
	// Bias is added to a logit; nil: 0.
	Bias func(score int) float32
	// Size and Scores are the numbers of inputs and logits, if not those of package
	// variant.
	Size, Scores int
	// Batch is the number of examples that it takes at once; 0 for any.
	Batch int
}

// Random weighs inputs by chance, the same for the same seed.
func Random(seed uint64) Spec {
	rng := rand.New(rand.NewPCG(seed, 17))
	weights := make([]float32, variant.Scores*variant.ExampleSize)
	for i := range weights {
		weights[i] = float32(rng.NormFloat64() / 8)
	}
	return Spec{Weights: func(score, input int) float32 { return weights[score*variant.ExampleSize+input] }}
}

// Odds repeats what the analytic model says of an allele, and holds a site with it
// for homozygous.
func Odds() Spec {
	// Where an example holds the posterior log odds, as asinh(x)/5.
	const odds = variant.ExamplePlanes*variant.ExampleColumns + 33
	present := func(score int) bool { return score == variant.ScoreCopies+2 || score == variant.ScoreZygosity+2 }
	return Spec{
		Weights: func(score, input int) float32 {
			if present(score) && input == odds {
				return 20
			}
			return 0
		},
		Bias: func(score int) float32 {
			if score == variant.ScoreCopies+1 || score == variant.ScoreZygosity+1 {
				return -10
			}
			return 0
		},
	}
}

// ONNX is the network as a file.
func (s Spec) ONNX(t testing.TB) []byte {
	t.Helper()
	size, scores := s.Size, s.Scores
	if size == 0 {
		size = variant.ExampleSize
	}
	if scores == 0 {
		scores = variant.Scores
	}
	weights, bias := make([]float32, 0, scores*size), make([]float32, scores)
	for score := range scores {
		if s.Bias != nil {
			bias[score] = s.Bias(score)
		}
		for input := range size {
			w := float32(0)
			if s.Weights != nil {
				w = s.Weights(score, input)
			}
			weights = append(weights, w)
		}
	}
	// A convolution as long as an example is a dense layer, and it computes each
	// example by itself. It gives [N, scores, 1].
	graph := &onnxpb.GraphProto{
		Name:        "test",
		Initializer: []*onnxpb.TensorProto{tensor("weights", weights, scores, 1, size), tensor("bias", bias, scores)},
		Node: []*onnxpb.NodeProto{
			{Name: "conv", OpType: "Conv", Input: []string{"examples", "weights", "bias"}, Output: []string{"logits"}},
			{Name: "transpose", OpType: "Transpose", Input: []string{"logits"}, Output: []string{"scores"}, Attribute: []*onnxpb.AttributeProto{
				{Name: "perm", Type: onnxpb.AttributeProto_INTS, Ints: []int64{0, 2, 1}},
			}},
		},
		Input:  []*onnxpb.ValueInfoProto{end("examples", s.Batch, 1, size)},
		Output: []*onnxpb.ValueInfoProto{end("scores", s.Batch, 1, scores)},
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&onnxpb.ModelProto{
		IrVersion: 8, ProducerName: "networktest", Graph: graph, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: 17}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tensor(name string, data []float32, shape ...int) *onnxpb.TensorProto {
	p := &onnxpb.TensorProto{Name: name, DataType: int32(onnxpb.TensorProto_FLOAT)}
	for _, n := range shape {
		p.Dims = append(p.Dims, int64(n))
	}
	for _, v := range data {
		p.RawData = binary.LittleEndian.AppendUint32(p.RawData, math.Float32bits(v))
	}
	return p
}

func end(name string, shape ...int) *onnxpb.ValueInfoProto {
	dims := &onnxpb.TensorShapeProto{}
	for _, n := range shape {
		d := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(n)}}
		if n == 0 {
			d.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "N"}
		}
		dims.Dim = append(dims.Dim, d)
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(onnxpb.TensorProto_FLOAT), Shape: dims},
	}}}
}

// manifest is that of a network with the given checksum.
const manifest = `format = 1
kind = "variant"
name = "test"
version = "1"
description = "a network for tests"
example_version = %d

[network]
file = "model.onnx"
sha256 = "%x"
input = "examples"
output = "scores"
`

// Manifest is the manifest of a network.
func Manifest(onnx []byte) string {
	return fmt.Sprintf(manifest, variant.ExampleVersion, sha256.Sum256(onnx))
}

// Model is a network with a manifest.
func Model(t testing.TB, s Spec) *network.Model {
	t.Helper()
	onnx := s.ONNX(t)
	m, err := network.ParseManifest([]byte(Manifest(onnx)))
	if err != nil {
		t.Fatal(err)
	}
	return &network.Model{Manifest: m, Network: onnx}
}

// Folder writes a model to a folder, which goes with the test.
func Folder(t testing.TB, s Spec) string {
	t.Helper()
	dir := t.TempDir()
	onnx := s.ONNX(t)
	for name, data := range map[string][]byte{folder.Manifest: []byte(Manifest(onnx)), "model.onnx": onnx} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
