package convert

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall/convert/torch"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/network"
)

// What DeepMod2's published networks are shown, and what their state dicts don't say. Of a base of the reference, which comes
// before reads are aligned, they see that it isn't known.
const (
	deepWindow   = 21
	deepHeads    = 8
	deepRefs     = 5 // ACGT and unknown
	deepEpsilon  = 1e-5
	deepMaxUnits = 4096
	deepMaxDeep  = 64 // layers

	statePrefix = "model_state_dict."
)

// What DeepMod2 sets to 0 of the weights before it uses them on a CPU: the smallest, by their amount.
const (
	prunedClassifier  = 0.5
	prunedClassifier2 = 0.95 // of LSTMs
	prunedLayers      = 0.25
)

// isDeepMod2 reports whether the tensors of a file are those of a network of DeepMod2.
func isDeepMod2(tensors map[string]torch.Tensor) bool {
	_, ok := tensors[statePrefix+"classifier.out.weight"]
	return ok
}

// maxDeepMod2 is far above the size of any of its files.
const maxDeepMod2 = 64 << 20

// othersFiles end as parameters of other programs do, which needn't be read to know that they are none of DeepMod2's.
var othersFiles = []string{".onnx", ".tensor", ".tar"}

// isDeepMod2File reports whether a file holds a network of DeepMod2.
func isDeepMod2File(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > maxDeepMod2 || slices.Contains(othersFiles, filepath.Ext(path)) {
		return false
	}
	tensors, err := torch.ReadFile(path)
	return err == nil && isDeepMod2(tensors)
}

var deepName = regexp.MustCompile(`R(9\.4\.1|10\.4\.1)(?:_([1-9])kHz_v([0-9]+(?:\.[0-9]+)*))?`)

// deepFollows are the basecalling models, of each size, that DeepMod2's documentation names for its networks, by the version in
// a network's name. What a network is shown of a base hangs on where exactly a basecaller has it begin.
var deepFollows = map[string]string{"3.5": "3.5.2", "4.1": "4.1.0", "4.3": "4.3.0", "5.0": "5.0.0"}

// readDeepMod2 reads a state dict. opts get the pore and sample rate that the file's name says where they have none.
func readDeepMod2(path string, opts *Options) (*converted, error) {
	tensors, err := torch.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !isDeepMod2(tensors) {
		return nil, fmt.Errorf("it is neither a folder of Dorado's for modified bases nor a network of DeepMod2, whose file has model_state_dict")
	}
	p := &parameters{where: filepath.Base(path), of: func(name string) (torch.Tensor, error) {
		t, ok := tensors[statePrefix+name]
		if !ok {
			return t, fmt.Errorf("parameter %s is missing", name)
		}
		return t, nil
	}}
	b := &builder{g: onnxgraph.New("modified-bases", false), parameters: p}
	if err := b.deepMod2(tensors); err != nil {
		return nil, err
	}
	c := &converted{network.Converted{Codes: []modbase.Code{'m'}, Names: []string{"5mC"}, Motif: "CG", Around: deepWindow / 2}}
	if c.Basecaller, err = deepNamed(filepath.Base(path), opts); err != nil {
		return nil, err
	}
	c.ONNX, err = b.g.Marshal()
	return c, err
}

// deepNamed returns the basecalling models that a network follows by its file's name. opts get the pore and sample rate that it says where
// they have none. What neither says is refused: behind another basecaller a network calls bases methylated that aren't.
func deepNamed(name string, opts *Options) (basecallers string, err error) {
	var names []string
	if m := deepName.FindStringSubmatch(name); m != nil {
		pore, rate := "r10.4.1", 0
		if m[1] == "9.4.1" {
			pore, rate = "r9.4", 4000
			names = []string{"dna_r9.4.1_e8_hac@v3.3", "dna_r9.4.1_e8_sup@v3.3"}
		} else if version := deepFollows[m[3]]; version != "" {
			for _, size := range []string{"fast", "hac", "sup"} {
				names = append(names, "dna_r10.4.1_e8.2_400bps_"+size+"@v"+version)
			}
		}
		if m[2] != "" {
			rate = 1000 * int(m[2][0]-'0')
		}
		opts.Chemistry = cmp.Or(opts.Chemistry, pore)
		opts.SampleRate = cmp.Or(opts.SampleRate, rate)
	}
	switch {
	case names == nil && opts.Basecaller == "":
		return "", fmt.Errorf("its name %q doesn't say which basecalling models it follows, as R10.4.1_4kHz_v4.1 does: convert it with --basecaller NAME, or any", name)
	case opts.SampleRate == 0:
		return "", fmt.Errorf("its name %q doesn't say the sample rate, as R10.4.1_4kHz_v4.1 does: convert it with --sample-rate", name)
	}
	return strings.Join(names, ", "), nil
}

// deepMod2 builds the network that a state dict is of: a transformer's encoder or LSTMs in both directions, and two layers over all
// bases that give one number.
func (b *builder) deepMod2(tensors map[string]torch.Tensor) error {
	b.g.PB.Input = []*onnxpb.ValueInfoProto{onnxgraph.End(network.EventsInput, onnxpb.TensorProto_FLOAT, "batch", deepWindow, network.EventNumbers)}
	width := network.EventNumbers + deepRefs
	build := b.deepLSTMs
	pruned := prunedClassifier2
	if _, ok := tensors[statePrefix+"pad"]; ok {
		build, pruned = b.deepTransformer, prunedClassifier
	}
	x, width, err := build(tensors, width)
	if err != nil {
		return err
	}
	x = b.g.Node("Flatten", []string{x}, onnxgraph.Integer("axis", 1))
	first, err := b.parameters.of("classifier.fc.bias")
	if err != nil {
		return err
	}
	hidden := len(first.Data)
	if x, err = b.prunedLinear(x, "classifier.fc", deepWindow*width, hidden, pruned); err != nil {
		return err
	}
	x = b.g.Node("Relu", []string{x})
	weight, bias, err := b.parameters.pair("classifier.out", 1, hidden)
	if err != nil {
		return err
	}
	// The plain base has the score 0, so that the probability of the other is the sigmoid of its own.
	both := append(make([]float32, hidden), weight...)
	b.output(b.g.Linear(x, both, []float32{0, bias[0]}, 2, hidden), 2)
	return nil
}

// pad puts behind a base's numbers those that are the same in all reads: [window, width], 0 where the others are.
func (b *builder) pad(constants []float32, width int) string {
	padded := b.g.Node("Pad", []string{network.EventsInput, b.g.Integers(0, 0, 0, 0, 0, int64(width-network.EventNumbers))})
	return b.g.Node("Add", []string{padded, b.g.Weights(constants, deepWindow, width)})
}

// unknownReference sets the numbers that say that no base of the reference is known.
func unknownReference(constants []float32, width int) {
	for i := range deepWindow {
		constants[i*width+network.EventNumbers+deepRefs-1] = 1
	}
}

// layersOf counts the layers that a state dict has.
func layersOf(tensors map[string]torch.Tensor, format string) (int, error) {
	for n := range deepMaxDeep + 1 {
		if _, ok := tensors[statePrefix+fmt.Sprintf(format, n)]; !ok {
			if n == 0 {
				return 0, fmt.Errorf("parameter %s is missing: only networks in DeepMod2's published form are converted", fmt.Sprintf(format, n))
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("it has more than %d layers", deepMaxDeep)
}

// deepTransformer builds an encoder (Vaswani et al. 2017) whose positions are numbers beside the others.
func (b *builder) deepTransformer(tensors map[string]torch.Tensor, width int) (string, int, error) {
	fail := func(err error) (string, int, error) { return "", 0, err }
	of, err := b.parameters.of("pe_block.pe")
	if err != nil {
		return fail(err)
	}
	padding := tensors[statePrefix+"pad"]
	if len(of.Shape) != 3 || len(padding.Shape) != 3 || of.Shape[2] > deepMaxUnits || padding.Shape[2] > deepMaxUnits {
		return fail(fmt.Errorf("pe_block.pe and pad have the shapes %d and %d, which aren't those of DeepMod2's networks", of.Shape, padding.Shape))
	}
	positions, err := b.parameters.get("pe_block.pe", 1, deepWindow, of.Shape[2])
	if err != nil {
		return fail(err)
	}
	if slices.ContainsFunc(padding.Data, func(v float32) bool { return v != 0 }) {
		return fail(errors.New("pad holds numbers other than 0, which those of DeepMod2's networks don't"))
	}
	depth := of.Shape[2]
	whole := width + depth + padding.Shape[2]
	if whole%deepHeads != 0 {
		return fail(fmt.Errorf("a base has %d numbers, which %d heads of attention don't share", whole, deepHeads))
	}
	constants := make([]float32, deepWindow*whole)
	unknownReference(constants, whole)
	for i := range deepWindow {
		copy(constants[i*whole+width:], positions[i*depth:][:depth])
	}
	x := b.pad(constants, whole)
	const format = "transformer_encoder.layers.%d."
	n, err := layersOf(tensors, format+"self_attn.in_proj_weight")
	if err != nil {
		return fail(err)
	}
	for i := range n {
		if x, err = b.deepLayer(x, fmt.Sprintf(format, i), whole); err != nil {
			return fail(err)
		}
	}
	return x, whole, nil
}

// deepLayer builds a layer of an encoder.
func (b *builder) deepLayer(x, at string, width int) (string, error) {
	attended, err := b.attention(x, at+"self_attn.", width)
	if err != nil {
		return "", err
	}
	if x, err = b.addNorm(x, attended, at+"norm1", width); err != nil {
		return "", err
	}
	first, err := b.parameters.of(at + "linear1.bias")
	if err != nil {
		return "", err
	}
	units := len(first.Data)
	fed, err := b.prunedLinear(x, at+"linear1", width, units, prunedLayers)
	if err != nil {
		return "", err
	}
	if fed, err = b.prunedLinear(b.g.Node("Relu", []string{fed}), at+"linear2", units, width, prunedLayers); err != nil {
		return "", err
	}
	return b.addNorm(x, fed, at+"norm2", width)
}

// attention builds that of all bases to all.
func (b *builder) attention(x, at string, width int) (string, error) {
	weight, err := b.parameters.get(at+"in_proj_weight", 3*width, width)
	if err != nil {
		return "", err
	}
	bias, err := b.parameters.get(at+"in_proj_bias", 3*width)
	if err != nil {
		return "", err
	}
	g, each := b.g, width/deepHeads
	all := g.Node("Reshape", []string{g.Linear(x, weight, bias, 3*width, width), g.Integers(0, deepWindow, 3, deepHeads, int64(each))})
	all = g.Node("Transpose", []string{all}, onnxgraph.Integers("perm", 2, 0, 3, 1, 4)) // [3, batch, heads, bases, each]
	var parts [3]string
	for i, part := range g.Nodes("Split", []string{all}, 3, onnxgraph.Integer("axis", 0)) {
		parts[i] = g.Node("Squeeze", []string{part, g.Integers(0)})
	}
	query := g.Node("Mul", []string{parts[0], g.Weights([]float32{float32(1 / math.Sqrt(float64(each)))})})
	key := g.Node("Transpose", []string{parts[1]}, onnxgraph.Integers("perm", 0, 1, 3, 2))
	weights := g.Node("Softmax", []string{g.Node("MatMul", []string{query, key})}, onnxgraph.Integer("axis", -1))
	y := g.Node("Transpose", []string{g.Node("MatMul", []string{weights, parts[2]})}, onnxgraph.Integers("perm", 0, 2, 1, 3))
	y = g.Node("Reshape", []string{y, g.Integers(0, deepWindow, int64(width))})
	return b.prunedLinear(y, at+"out_proj", width, width, prunedLayers)
}

// addNorm adds two values and normalises each base's numbers.
func (b *builder) addNorm(x, y, name string, width int) (string, error) {
	weight, bias, err := b.parameters.pair(name, width)
	if err != nil {
		return "", err
	}
	return b.g.Node("LayerNormalization", []string{b.g.Node("Add", []string{x, y}), b.g.Weights(weight, width), b.g.Weights(bias, width)},
		onnxgraph.Integer("axis", -1), onnxgraph.Float("epsilon", deepEpsilon)), nil
}

// prunedLinear is linear without a share of the weights.
func (b *builder) prunedLinear(x, name string, in, out int, share float64) (string, error) {
	weight, bias, err := b.parameters.pair(name, out, in)
	if err != nil {
		return "", err
	}
	return b.g.Linear(x, prune(weight, share), bias, out, in), nil
}

// prune sets a share of weights to 0, the smallest.
func prune(weights []float32, share float64) []float32 {
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	size := func(i int) float64 { return math.Abs(float64(weights[i])) }
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(size(i), size(j)) })
	pruned := slices.Clone(weights)
	for _, i := range order[:int(math.RoundToEven(share*float64(len(weights))))] {
		pruned[i] = 0
	}
	return pruned
}

// deepLSTMs builds LSTMs, each in both directions.
func (b *builder) deepLSTMs(tensors map[string]torch.Tensor, width int) (string, int, error) {
	fail := func(err error) (string, int, error) { return "", 0, err }
	constants := make([]float32, deepWindow*width)
	unknownReference(constants, width)
	x := b.g.Node("Transpose", []string{b.pad(constants, width)}, onnxgraph.Integers("perm", 1, 0, 2))
	n, err := layersOf(tensors, "bilstm.weight_ih_l%d")
	if err != nil {
		return fail(err)
	}
	first, err := b.parameters.of("bilstm.weight_hh_l0")
	if err != nil {
		return fail(err)
	}
	if len(first.Shape) != 2 || first.Shape[1] > deepMaxUnits {
		return fail(fmt.Errorf("parameter bilstm.weight_hh_l0 has shape %d", first.Shape))
	}
	units := first.Shape[1]
	for i := range n {
		suffix := fmt.Sprintf("_l%d", i)
		if x, err = b.lstm(x, "bilstm", []string{suffix, suffix + "_reverse"}, width, units, "bidirectional"); err != nil {
			return fail(err)
		}
		// [bases, directions, batch, units]
		x = b.g.Node("Transpose", []string{x}, onnxgraph.Integers("perm", 0, 2, 1, 3))
		width = 2 * units
		x = b.g.Node("Reshape", []string{x, b.g.Integers(0, 0, int64(width))})
	}
	return b.g.Node("Transpose", []string{x}, onnxgraph.Integers("perm", 1, 0, 2)), width, nil
}
