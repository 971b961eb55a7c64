package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modelfile/folder"
)

const (
	inputName  = "x"
	outputName = "y"
	// slope is that of the leaky ReLUs, and epsilon what PyTorch adds to variances; neither is in a state dict.
	slope   = 0.1
	epsilon = 1e-5
	// unitsPerSkip is how many residual units stand between two skips.
	unitsPerSkip = 4
)

// dilations and widths of the convolutions of each group of four units.
var (
	dilations = []int{1, 4, 10, 25}
	widths    = []int{11, 11, 21, 41}
)

// Options are what a state dict doesn't state.
type Options struct {
	Name        string // of the model
	Info        string // key in INFO; empty for the usual one of such networks
	Licence     string
	LicenceText string
	Distance    int // bases on both sides of a variant that are scored; 0: 50
	Mask        bool
}

// Is reports whether the tensors of a file are those of a splicing network.
func Is(tensors map[string]torch.Tensor) bool {
	_, first := tensors["initial_skip.conv.weight"]
	_, last := tensors["final_conv.weight"]
	return first && last
}

// Convert reads state dicts of PyTorch, what Keras saves, or frozen graphs of TensorFlow, of networks whose probabilities are averaged, and returns the manifest and files of their model.
func Convert(files []string, opts Options) (*score.Manifest, map[string][]byte, error) {
	m := &score.Manifest{
		Format: score.FormatVersion, Kind: "sequence", Name: opts.Name, Version: "1", Rule: score.Splice, Info: opts.Info,
		Licence: opts.Licence, LicenceText: opts.LicenceText,
		Input: score.InputManifest{
			Name: inputName, Layout: score.ChannelsFirst, Channels: "ACGT", Unknown: score.UnknownZero, Strand: score.GeneStrand,
		},
		Output: score.OutputManifest{Name: outputName, Layout: score.ChannelsFirst, Channels: []string{"neither", "acceptor", "donor"}},
		Splice: score.SpliceManifest{Distance: opts.Distance, Mask: opts.Mask},
	}
	contents := make(map[string][]byte)
	for i, file := range files {
		networks, context, info, err := convert(file)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 && m.Info == "" {
			m.Info = info
		}
		if i > 0 && context != m.Input.Context {
			return nil, nil, fmt.Errorf("converting %s: it has %d bases of context, %s has %d: such networks aren't averaged", file, context, files[0], m.Input.Context)
		}
		m.Input.Context = context
		for _, onnx := range networks {
			name := fmt.Sprintf("network-%d.onnx", len(m.Networks)+1)
			sum := sha256.Sum256(onnx)
			contents[name] = onnx
			m.Networks = append(m.Networks, score.NetworkFile{File: name, SHA256: hex.EncodeToString(sum[:])})
		}
	}
	text, err := toml.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	if _, err := score.ParseManifest(text); err != nil {
		return nil, nil, fmt.Errorf("converting %s: %w", filepath.Base(files[0]), err)
	}
	contents[folder.Manifest] = text
	return m, contents, nil
}

// convert returns the ONNX files of a file's networks, their bases of context, and the usual key of such scores in INFO.
func convert(file string) (networks [][]byte, context int, info string, err error) {
	if isFrozen(file) {
		if networks, context, err = readFrozen(file); err != nil {
			return nil, 0, "", fmt.Errorf("converting %s: %w", file, err)
		}
		return networks, context, "CISpliceAI", nil
	}
	keras, err := isKeras(file)
	if err != nil {
		return nil, 0, "", fmt.Errorf("converting a network: %w", err)
	}
	var onnx []byte
	if keras {
		if onnx, context, err = readKeras(file); err != nil {
			return nil, 0, "", fmt.Errorf("converting %s: %w", file, err)
		}
		return [][]byte{onnx}, context, "SpliceAI", nil
	}
	tensors, err := torch.ReadFile(file)
	if err != nil {
		return nil, 0, "", fmt.Errorf("converting a network: %w", err)
	}
	if onnx, context, err = build(tensors); err != nil {
		return nil, 0, "", fmt.Errorf("converting %s: %w", file, err)
	}
	return [][]byte{onnx}, context, "OpenSpliceAI", nil
}

// network is a state dict on its way into a graph. Values have the shape [batch, channels, 1, bases]: ONNX Runtime has faster
// convolutions for two axes than for one.
type network struct {
	tensors  map[string]torch.Tensor
	used     map[string]bool
	g        *onnxgraph.Graph
	channels int
	cut      int // bases that x is shorter than the input
}

// build returns the ONNX file of a state dict, and the bases of context.
func build(tensors map[string]torch.Tensor) (onnx []byte, context int, err error) {
	if !Is(tensors) {
		return nil, 0, fmt.Errorf("it is no network of splicing: there is no initial_skip.conv.weight or no final_conv.weight")
	}
	n := &network{tensors: tensors, used: make(map[string]bool), g: onnxgraph.New("splicing", false)}
	g := n.g
	first, err := n.tensor("initial_conv.weight", 0, 4, 1)
	if err != nil {
		return nil, 0, err
	}
	n.channels = first.Shape[0]
	x := g.Node("Unsqueeze", []string{inputName, g.Integers(2)})
	if x, err = n.conv(x, "initial_conv", n.channels, 4, 1, 1, nil); err != nil {
		return nil, 0, err
	}
	sum, err := n.residuals(x)
	if err != nil {
		return nil, 0, err
	}
	if x, err = n.conv(sum, "final_conv", 3, n.channels, 1, 1, nil); err != nil {
		return nil, 0, err
	}
	if unused := slices.DeleteFunc(slices.Sorted(maps.Keys(tensors)), func(name string) bool { return n.used[name] }); len(unused) > 0 {
		return nil, 0, fmt.Errorf("it has tensors that such a network doesn't have: %s", unused[0])
	}
	x = g.Node("Softmax", []string{g.Node("Squeeze", []string{x, g.Integers(2)})}, onnxgraph.Integer("axis", 1))
	g.PB.Node = append(g.PB.Node, &onnxpb.NodeProto{Name: outputName, OpType: "Identity", Input: []string{x}, Output: []string{outputName}})
	g.PB.Input = []*onnxpb.ValueInfoProto{onnxgraph.End(inputName, onnxpb.TensorProto_FLOAT, "batch", 4, "bases")}
	g.PB.Output = []*onnxpb.ValueInfoProto{onnxgraph.End(outputName, onnxpb.TensorProto_FLOAT, "batch", 3, "positions")}
	onnx, err = g.Marshal()
	return onnx, n.cut, err
}

// residuals adds the residual units and the skips behind every few of them, and returns the sum of the skips.
func (n *network) residuals(x string) (sum string, err error) {
	// Each skip is cut to the last one's length in the end, when that is known.
	type skip struct {
		value string
		cut   int
	}
	var skips []skip
	addSkip := func(x, name string) error {
		value, err := n.conv(x, name, n.channels, n.channels, 1, 1, nil)
		skips = append(skips, skip{value, n.cut})
		return err
	}
	if err := addSkip(x, "initial_skip.conv"); err != nil {
		return "", err
	}
	units := 0
	for i := 0; ; i++ {
		at := fmt.Sprintf("residual_units.%d.", i)
		if _, ok := n.tensors[at+"conv.weight"]; ok {
			if units == 0 || units%unitsPerSkip != 0 {
				return "", fmt.Errorf("%sconv is a skip behind %d units, not behind four or a multiple", at, units)
			}
			if err := addSkip(x, at+"conv"); err != nil {
				return "", err
			}
			continue
		}
		if _, ok := n.tensors[at+"conv1.weight"]; !ok {
			break
		}
		if units/unitsPerSkip >= len(dilations) {
			return "", fmt.Errorf("it has more than %d residual units: which dilations they have is not known", unitsPerSkip*len(dilations))
		}
		if x, err = n.unit(x, at, widths[units/unitsPerSkip], dilations[units/unitsPerSkip]); err != nil {
			return "", err
		}
		units++
	}
	if units == 0 || units%unitsPerSkip != 0 || len(skips) != 1+units/unitsPerSkip {
		return "", fmt.Errorf("it has %d residual units and %d skips, not four units to each skip but the first", units, len(skips))
	}
	for _, s := range skips {
		value := crop(n.g, s.value, n.cut-s.cut)
		if sum == "" {
			sum = value
		} else {
			sum = n.g.Node("Add", []string{sum, value})
		}
	}
	return sum, nil
}

// unit adds a residual unit.
func (n *network) unit(x, at string, width, dilation int) (string, error) {
	one, err := n.normalisation(at + "batchnorm1")
	if err != nil {
		return "", err
	}
	two, err := n.normalisation(at + "batchnorm2")
	if err != nil {
		return "", err
	}
	g := n.g
	y := normalise(g, x, one)
	y = g.Node("LeakyRelu", []string{y}, onnxgraph.Float("alpha", slope))
	if y, err = n.conv(y, at+"conv1", n.channels, n.channels, width, dilation, two); err != nil {
		return "", err
	}
	y = g.Node("LeakyRelu", []string{y}, onnxgraph.Float("alpha", slope))
	if y, err = n.conv(y, at+"conv2", n.channels, n.channels, width, dilation, nil); err != nil {
		return "", err
	}
	cut := 2 * (width - 1) * dilation
	n.cut += cut
	return g.Node("Add", []string{y, crop(g, x, cut)}), nil
}

// affine is a normalisation as what it does: a scale and a shift for each channel.
type affine struct{ scale, shift []float32 }

func (n *network) normalisation(at string) (*affine, error) {
	var parts [4][]float32
	for i, name := range []string{"weight", "bias", "running_mean", "running_var"} {
		t, err := n.tensor(at+"."+name, n.channels)
		if err != nil {
			return nil, err
		}
		parts[i] = t.Data
	}
	n.used[at+".num_batches_tracked"] = true // counts training's batches
	return newAffine(at, parts[0], parts[1], parts[2], parts[3], epsilon)
}

func finite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}

// conv adds a convolution without padding, with a normalisation behind it if there is one.
func (n *network) conv(x, at string, out, in, width, dilation int, then *affine) (string, error) {
	weight, err := n.tensor(at+".weight", out, in, width)
	if err != nil {
		return "", err
	}
	bias, err := n.tensor(at+".bias", out)
	if err != nil {
		return "", err
	}
	w, b := slices.Clone(weight.Data), slices.Clone(bias.Data)
	if then != nil {
		if err := then.fold(at, w, b); err != nil {
			return "", err
		}
	}
	return n.g.Node("Conv", []string{x, n.g.Weights(w, out, in, 1, width), n.g.Weights(b, out)},
		onnxgraph.Integers("kernel_shape", 1, int64(width)), onnxgraph.Integers("dilations", 1, int64(dilation))), nil
}

// tensor returns a tensor of the given shape, in which 0 stands for any size.
func (n *network) tensor(name string, shape ...int) (torch.Tensor, error) {
	t, ok := n.tensors[name]
	if !ok {
		return torch.Tensor{}, fmt.Errorf("%s is missing", name)
	}
	fits := len(t.Shape) == len(shape)
	for i := range min(len(shape), len(t.Shape)) {
		fits = fits && t.Shape[i] > 0 && (shape[i] == 0 || shape[i] == t.Shape[i])
	}
	if !fits {
		return torch.Tensor{}, fmt.Errorf("%s has the shape %v, not %v", name, t.Shape, shape)
	}
	if !finite(t.Data) {
		return torch.Tensor{}, fmt.Errorf("%s has values that are no numbers", name)
	}
	n.used[name] = true
	return t, nil
}
