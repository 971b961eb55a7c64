package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"unicode"

	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/signal/hdf5"
)

// maxKeras bounds a file: the published networks have 3 MB.
const maxKeras = 1 << 28

// kerasModel is what Keras saves of a network's layers, in the attribute model_config.
type kerasModel struct {
	Class  string `json:"class_name"`
	Config struct {
		Layers  []kerasLayer      `json:"layers"`
		Outputs []json.RawMessage `json:"output_layers"`
	} `json:"config"`
}

type kerasLayer struct {
	Class  string      `json:"class_name"`
	Name   string      `json:"name"`
	Config kerasConfig `json:"config"`
	// Inbound are calls of the layer. Keras 2 writes the values that it is called with as name of the layer, call, output, arguments; Keras 3 has
	// objects with arguments.
	Inbound []json.RawMessage `json:"inbound_nodes"`
}

type kerasConfig struct {
	Shape      []*int          `json:"batch_input_shape"`
	Batch      []*int          `json:"batch_shape"` // Keras 3's name for it
	Filters    int             `json:"filters"`
	Kernel     []int           `json:"kernel_size"`
	Strides    []int           `json:"strides"`
	Dilation   []int           `json:"dilation_rate"`
	Groups     int             `json:"groups"`
	Padding    string          `json:"padding"`
	Activation string          `json:"activation"`
	Format     string          `json:"data_format"`
	Bias       bool            `json:"use_bias"`
	Epsilon    float64         `json:"epsilon"`
	Axis       json.RawMessage `json:"axis"`
	Center     bool            `json:"center"`
	Scale      bool            `json:"scale"`
	Cropping   []int           `json:"cropping"`
	Most       *float64        `json:"max_value"`
	Slope      float64         `json:"negative_slope"`
	Threshold  float64         `json:"threshold"`
}

// kerasOptions are what a layer is called with besides values.
type kerasOptions struct {
	Training json.RawMessage `json:"training"`
}

// check refuses a layer that is to do always what others do in training alone: leave values out at random, or normalise by the batch.
func (o *kerasOptions) check(layer string) error {
	switch string(o.Training) {
	case "", "null", "false":
		return nil
	}
	return fmt.Errorf("layer %s is called as in training, which is not known", layer)
}

// inputs are the names of the layers that a layer is called with.
func (l *kerasLayer) inputs() ([]string, error) {
	if len(l.Inbound) != 1 {
		return nil, fmt.Errorf("layer %s is called %d times, not once", l.Name, len(l.Inbound))
	}
	var call struct {
		Args    []json.RawMessage `json:"args"`
		Options kerasOptions      `json:"kwargs"`
	}
	if json.Unmarshal(l.Inbound[0], &call) == nil {
		var names []string
		err := call.Options.check(l.Name)
		if err != nil {
			return nil, err
		}
		for _, a := range call.Args {
			if names, err = callsOf(a, 0, names); err != nil {
				return nil, fmt.Errorf("layer %s is called with what isn't understood: %w", l.Name, err)
			}
		}
		return names, nil
	}
	var values [][]json.RawMessage
	if json.Unmarshal(l.Inbound[0], &values) != nil {
		return nil, fmt.Errorf("layer %s is called with what isn't understood", l.Name)
	}
	var names []string
	for _, value := range values {
		var name string
		if len(value) == 0 || json.Unmarshal(value[0], &name) != nil {
			return nil, fmt.Errorf("layer %s is called with what isn't understood", l.Name)
		}
		var options kerasOptions
		if len(value) > 3 {
			if json.Unmarshal(value[3], &options) != nil {
				return nil, fmt.Errorf("layer %s is called with what isn't understood", l.Name)
			}
		}
		if err := options.check(l.Name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// one is the only element of a list that Keras writes for one axis; 1 if there is none.
func one(list []int) int {
	if len(list) == 0 {
		return 1
	}
	return list[0]
}

// isKeras reports whether a file is HDF5 or a zip that Keras saves.
func isKeras(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, len(hdf5.Signature))
	n, _ := f.Read(head)
	if string(head[:n]) == hdf5.Signature {
		return true, nil
	}
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	layers, _ := zipped(f, info.Size())
	return layers != nil, nil
}

// value is what a layer gives. Values have the shape [batch, channels, 1, bases].
type value struct {
	name     string
	channels int
	// cut is how many bases it is shorter than the input, and kept how many Keras' own value is, which pads. It may be shorter, but nothing that Keras
	// keeps in the end may be missing.
	cut, kept int
}

// keras is a network on its way into a graph.
type keras struct {
	weights *hdf5.Object // model_weights
	// numbered are, of Keras 3, the groups of weights by layer, in which they are numbered.
	numbered map[string]*hdf5.Object
	space    int // bytes of weights that the file has besides those that were read
	g        *onnxgraph.Graph
	layers   map[string]*kerasLayer
	uses     map[string]int // of each layer's value
	values   map[string]value
	input    string // name of the input layer
}

// readKeras is buildKeras for a file.
func readKeras(file string) (onnx []byte, context int, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	if info.Size() > maxKeras {
		return nil, 0, fmt.Errorf("it has %d bytes, more than %d", info.Size(), maxKeras)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, 0, err
	}
	if bytes.HasPrefix(data, []byte(hdf5.Signature)) {
		return buildKeras(data)
	}
	return buildKeras3(data)
}

// buildKeras returns the ONNX file of a network that Keras has saved as HDF5, and the bases of context.
func buildKeras(data []byte) (onnx []byte, context int, err error) {
	f, err := hdf5.Open(data)
	if err != nil {
		return nil, 0, err
	}
	root, err := f.Root()
	if err != nil {
		return nil, 0, err
	}
	model, err := readModel(root)
	if err != nil {
		return nil, 0, err
	}
	k := newKeras(len(data))
	if k.weights, err = root.Open("model_weights"); err != nil {
		return nil, 0, fmt.Errorf("it has no weights of layers: %w", err)
	}
	return k.build(model)
}

func readModel(root *hdf5.Object) (*kerasModel, error) {
	attributes, err := root.Attributes()
	if err != nil {
		return nil, err
	}
	for _, a := range attributes {
		if a.Name != "model_config" {
			continue
		}
		return parseModel([]byte(a.Value.String()), "its attribute model_config")
	}
	return nil, errors.New("it has no attribute model_config: it was not saved by Keras, or with its weights alone")
}

func parseModel(text []byte, what string) (*kerasModel, error) {
	model := new(kerasModel)
	if err := json.Unmarshal(text, model); err != nil {
		return nil, fmt.Errorf("%s isn't that of a network of Keras 2 or 3: %w", what, err)
	}
	if model.Class != "Model" && model.Class != "Functional" {
		return nil, fmt.Errorf("it is a network of class %q, not of Keras' functional interface", model.Class)
	}
	for _, l := range model.Config.Layers {
		if strings.ContainsFunc(l.Name+l.Class, unicode.IsControl) {
			return nil, fmt.Errorf("layer %q of class %q has letters that can't be shown", l.Name, l.Class)
		}
	}
	return model, nil
}

// output is the name of the layer whose value is the network's. Keras 3 writes one output without a list around it.
func (m *kerasModel) output() (string, error) {
	outputs := m.Config.Outputs
	var name string
	if len(outputs) == 3 && json.Unmarshal(outputs[0], &name) == nil {
		return name, nil
	}
	if len(outputs) != 1 {
		return "", fmt.Errorf("it has %d outputs, not one", len(outputs))
	}
	var parts []json.RawMessage
	if json.Unmarshal(outputs[0], &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &name) != nil {
		return "", errors.New("its output isn't understood")
	}
	return name, nil
}

func (k *keras) build(model *kerasModel) ([]byte, int, error) {
	output, err := model.output()
	if err != nil {
		return nil, 0, err
	}
	for i := range model.Config.Layers {
		l := &model.Config.Layers[i]
		k.layers[l.Name] = l
		if l.Class == "InputLayer" {
			if k.input != "" {
				return nil, 0, errors.New("it has several inputs")
			}
			k.input = l.Name
			continue
		}
		names, err := l.inputs()
		if err != nil {
			return nil, 0, err
		}
		for _, name := range names {
			k.uses[name]++
		}
	}
	out, err := k.value(output, 0)
	if err != nil {
		return nil, 0, err
	}
	return finish(k.g, out)
}

// finish makes a value a network's output, and returns its ONNX file and its bases of context.
func finish(g *onnxgraph.Graph, out value) ([]byte, int, error) {
	switch {
	case out.channels != 3:
		return nil, 0, fmt.Errorf("it has %d outputs for a base, not neither, acceptor and donor", out.channels)
	case out.cut != out.kept:
		return nil, 0, fmt.Errorf("its outputs depend on %d bases around them, and it is given %d: it can't be computed without padding", out.cut, out.kept)
	}
	x := g.Node("Squeeze", []string{out.name, g.Integers(2)})
	g.PB.Node = append(g.PB.Node, &onnxpb.NodeProto{Name: outputName, OpType: "Identity", Input: []string{x}, Output: []string{outputName}})
	g.PB.Input = []*onnxpb.ValueInfoProto{onnxgraph.End(inputName, onnxpb.TensorProto_FLOAT, "batch", 4, "bases")}
	g.PB.Output = []*onnxpb.ValueInfoProto{onnxgraph.End(outputName, onnxpb.TensorProto_FLOAT, "batch", 3, "positions")}
	onnx, err := g.Marshal()
	return onnx, out.cut, err
}

// maxChannels is more than any layer of such a network has.
const maxChannels = 1 << 16

// maxLayers is more than any such network has one behind the other.
const maxLayers = 1000

// value is what a layer gives, which is made when it is first asked for.
func (k *keras) value(name string, depth int) (value, error) {
	if v, done := k.values[name]; done {
		return v, nil
	}
	l := k.layers[name]
	switch {
	case l == nil:
		return value{}, fmt.Errorf("layer %q is called, and not there", name)
	case depth > maxLayers:
		return value{}, fmt.Errorf("more than %d layers are behind each other", maxLayers)
	}
	v, err := k.layer(l, depth)
	if err != nil {
		return value{}, err
	}
	k.values[name] = v
	return v, nil
}

func (k *keras) layer(l *kerasLayer, depth int) (value, error) {
	if l.Class == "InputLayer" {
		shape := l.Config.Shape
		if shape == nil {
			shape = l.Config.Batch
		}
		if len(shape) != 3 || shape[2] == nil || *shape[2] != 4 {
			return value{}, fmt.Errorf("layer %s: its input isn't bases in four channels, those last", l.Name)
		}
		return value{name: k.g.Node("Unsqueeze", []string{inputName, k.g.Integers(2)}), channels: 4}, nil
	}
	names, err := l.inputs()
	if err != nil {
		return value{}, err
	}
	if l.Class == "Add" {
		return k.add(l, names, depth)
	}
	if len(names) != 1 {
		return value{}, fmt.Errorf("layer %s has %d inputs", l.Name, len(names))
	}
	// A normalisation is folded into the convolution before it, where nothing else uses that.
	if before := k.layers[names[0]]; l.Class == "BatchNormalization" && before != nil && before.Class == "Conv1D" && before.Config.Activation == "linear" && k.uses[before.Name] == 1 {
		from, err := before.inputs()
		if err != nil || len(from) != 1 {
			return value{}, fmt.Errorf("layer %s has not one input", before.Name)
		}
		x, err := k.value(from[0], depth+1)
		if err != nil {
			return value{}, err
		}
		then, err := k.normalisation(l, before.Config.Filters)
		if err != nil {
			return value{}, err
		}
		return k.convolution(before, x, then)
	}
	x, err := k.value(names[0], depth+1)
	if err != nil {
		return value{}, err
	}
	switch l.Class {
	case "Conv1D":
		return k.convolution(l, x, nil)
	case "BatchNormalization":
		a, err := k.normalisation(l, x.channels)
		if err != nil {
			return value{}, err
		}
		x.name = normalise(k.g, x.name, a)
		return x, nil
	case "Activation":
		return k.activation(l, x)
	case "ReLU":
		if l.Config.Most != nil || l.Config.Slope != 0 || l.Config.Threshold != 0 {
			return value{}, fmt.Errorf("layer %s is a ReLU with a slope, a threshold or a greatest value, which are not known", l.Name)
		}
		x.name = k.g.Node("Relu", []string{x.name})
		return x, nil
	case "Dropout", "SpatialDropout1D": // in training alone
		return x, nil
	case "Cropping1D":
		if c := l.Config.Cropping; len(c) != 2 || c[0] != c[1] || c[0] < 0 || c[0] > 1<<20 {
			return value{}, fmt.Errorf("layer %s crops %v, not the same at both ends", l.Name, c)
		}
		x.kept += 2 * l.Config.Cropping[0]
		return k.crop(x, max(x.cut, x.kept)), nil
	}
	return value{}, fmt.Errorf("layer %s is of class %s, which is not known", l.Name, l.Class)
}

func (k *keras) crop(x value, cut int) value {
	x.name, x.cut = crop(k.g, x.name, cut-x.cut), cut
	return x
}

func (k *keras) add(l *kerasLayer, names []string, depth int) (value, error) {
	if len(names) < 2 {
		return value{}, fmt.Errorf("layer %s adds %d values", l.Name, len(names))
	}
	var all []value
	cut := 0
	for _, name := range names {
		v, err := k.value(name, depth+1)
		if err != nil {
			return value{}, err
		}
		all = append(all, v)
		cut = max(cut, v.cut)
	}
	sum := k.crop(all[0], cut)
	for _, v := range all[1:] {
		if v.channels != sum.channels || v.kept != sum.kept {
			return value{}, fmt.Errorf("layer %s adds values of different shapes", l.Name)
		}
		sum.name = k.g.Node("Add", []string{sum.name, k.crop(v, cut).name})
	}
	return sum, nil
}

func (k *keras) activation(l *kerasLayer, x value) (value, error) {
	switch l.Config.Activation {
	case "linear", "":
	case "relu":
		x.name = k.g.Node("Relu", []string{x.name})
	case "softmax":
		x.name = k.g.Node("Softmax", []string{x.name}, onnxgraph.Integer("axis", 1))
	default:
		return x, fmt.Errorf("layer %s has the activation %q, which is not known", l.Name, l.Config.Activation)
	}
	return x, nil
}

func (k *keras) normalisation(l *kerasLayer, channels int) (*affine, error) {
	// Keras 2 has a list of one.
	var axes []int
	if json.Unmarshal(l.Config.Axis, &axes) != nil {
		axes = []int{0}
		if json.Unmarshal(l.Config.Axis, &axes[0]) != nil {
			return nil, fmt.Errorf("layer %s normalises an axis that isn't understood", l.Name)
		}
	}
	if axis := one(axes); axis != -1 && axis != 2 {
		return nil, fmt.Errorf("layer %s normalises axis %d, not channels", l.Name, axis)
	}
	if channels < 1 || channels > maxChannels { // before memory is taken for so many
		return nil, fmt.Errorf("layer %s normalises %d channels", l.Name, channels)
	}
	names := []string{"moving_mean", "moving_variance"}
	if l.Config.Center {
		names = append([]string{"beta"}, names...)
	}
	if l.Config.Scale {
		names = append([]string{"gamma"}, names...)
	}
	weights := k.weightsOf(l.Name, names)
	gamma, beta := make([]float32, channels), make([]float32, channels)
	for i := range gamma {
		gamma[i] = 1
	}
	var err error
	if l.Config.Scale {
		gamma, err = weights.get("gamma", channels)
	}
	if err == nil && l.Config.Center {
		beta, err = weights.get("beta", channels)
	}
	var mean, variance []float32
	if err == nil {
		mean, err = weights.get("moving_mean", channels)
	}
	if err == nil {
		variance, err = weights.get("moving_variance", channels)
	}
	if err != nil {
		return nil, err
	}
	return newAffine(l.Name, gamma, beta, mean, variance, l.Config.Epsilon)
}

// convolution adds a convolution without padding, with a normalisation behind it if there is one.
func (k *keras) convolution(l *kerasLayer, x value, then *affine) (value, error) {
	c := &l.Config
	width, dilation := one(c.Kernel), one(c.Dilation)
	switch {
	case len(c.Kernel) != 1 || c.Filters < 1 || width < 1 || width > 1<<12 || dilation < 1 || dilation > 1<<12:
		return value{}, fmt.Errorf("layer %s has %d filters of width %v, %v apart", l.Name, c.Filters, c.Kernel, c.Dilation)
	case one(c.Strides) != 1 || c.Groups > 1 || c.Format != "" && c.Format != "channels_last":
		return value{}, fmt.Errorf("layer %s has steps, groups, or channels first, which are not known", l.Name)
	}
	reach := (width - 1) * dilation
	switch {
	case c.Padding == "same" && reach%2 == 0:
	case c.Padding == "valid":
		x.kept += reach
	default:
		return value{}, fmt.Errorf("layer %s has the padding %q at width %d, which is not known", l.Name, c.Padding, width)
	}
	names := []string{"kernel", "bias"}
	if !c.Bias {
		names = names[:1]
	}
	weights := k.weightsOf(l.Name, names)
	kernel, err := weights.get("kernel", width, x.channels, c.Filters)
	if err != nil {
		return value{}, err
	}
	bias := make([]float32, c.Filters)
	if c.Bias {
		if bias, err = weights.get("bias", c.Filters); err != nil {
			return value{}, err
		}
	}
	if x, err = convolve(k.g, l.Name, x, kernel, bias, width, dilation, then); err != nil {
		return value{}, err
	}
	if then != nil {
		return x, nil
	}
	return k.activation(l, x)
}

// convolve adds a convolution whose weights are [width, in, out], without padding, with a normalisation behind it if there is one.
func convolve(g *onnxgraph.Graph, at string, x value, kernel, bias []float32, width, dilation int, then *affine) (value, error) {
	filters := len(bias)
	w := make([]float32, len(kernel))
	for i := range width {
		for j := range x.channels {
			for o := range filters {
				w[(o*x.channels+j)*width+i] = kernel[(i*x.channels+j)*filters+o]
			}
		}
	}
	if then != nil {
		if err := then.fold(at, w, bias); err != nil {
			return value{}, err
		}
	}
	x.name = g.Node("Conv", []string{x.name, g.Weights(w, filters, x.channels, 1, width), g.Weights(bias, filters)},
		onnxgraph.Integers("kernel_shape", 1, int64(width)), onnxgraph.Integers("dilations", 1, int64(dilation)))
	x.channels, x.cut = filters, x.cut+(width-1)*dilation
	return x, nil
}

// layerWeights finds the weights of a layer by their last names, such as kernel:0: how deep they lie in the layer's group differs between versions of Keras.
type layerWeights struct {
	layer string
	space *int // see keras
	all   map[string]*hdf5.Object
	seen  int // links
	err   error
}

// weightsOf are the weights of a layer, which has those names in that order.
func (k *keras) weightsOf(layer string, names []string) *layerWeights {
	var w *layerWeights
	if k.numbered != nil {
		w = numberedWeights(k.numbered[layer], layer, names)
	} else {
		w = newLayerWeights(k.weights, layer)
	}
	w.space = &k.space
	return w
}

func newLayerWeights(weights *hdf5.Object, layer string) *layerWeights {
	w := &layerWeights{layer: layer, all: map[string]*hdf5.Object{}}
	group, err := weights.Open(layer)
	if err != nil {
		w.err = fmt.Errorf("layer %s has no weights: %w", layer, err)
		return w
	}
	w.err = w.collect(group, 0)
	return w
}

// deepest is how many groups are in each other at most.
const deepest = 4

// maxLinks is more than any layer's group has: groups may be links to each other.
const maxLinks = 1000

func (w *layerWeights) collect(group *hdf5.Object, depth int) error {
	links, err := group.Links()
	if err != nil {
		return err
	}
	if w.seen += len(links); w.seen > maxLinks {
		return fmt.Errorf("layer %s has more than %d links", w.layer, maxLinks)
	}
	for _, link := range links {
		o, err := group.Follow(link)
		if err != nil {
			return err
		}
		switch {
		case o.IsDataset():
			name, _, _ := strings.Cut(link.Name, ":")
			if w.all[name] != nil {
				return fmt.Errorf("layer %s has two weights of the name %s", w.layer, name)
			}
			w.all[name] = o
		case o.IsGroup() && depth < deepest:
			if err := w.collect(o, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// get is a weight of the given shape.
func (w *layerWeights) get(name string, shape ...int) ([]float32, error) {
	if w.err != nil {
		return nil, w.err
	}
	o := w.all[name]
	if o == nil {
		return nil, fmt.Errorf("layer %s has no weight %s", w.layer, name)
	}
	v, err := o.Floats()
	if err != nil {
		return nil, fmt.Errorf("weight %s of layer %s: %w", name, w.layer, err)
	}
	if fmt.Sprint(v.Shape) != fmt.Sprint(shape) {
		return nil, fmt.Errorf("weight %s of layer %s has the shape %v, not %v", name, w.layer, v.Shape, shape)
	}
	// Many layers' groups may lead to one array, and a small file to more memory than there is.
	if *w.space -= 4 * len(v.Data); *w.space < 0 {
		return nil, fmt.Errorf("weight %s of layer %s is one more than the file has bytes for", name, w.layer)
	}
	if !finite(v.Data) {
		return nil, fmt.Errorf("weight %s of layer %s has values that are no numbers", name, w.layer)
	}
	return v.Data, nil
}

// newAffine is what a normalisation does.
func newAffine(at string, gamma, beta, mean, variance []float32, epsilon float64) (*affine, error) {
	a := &affine{make([]float32, len(gamma)), make([]float32, len(gamma))}
	for c := range gamma {
		if variance[c] < 0 {
			return nil, fmt.Errorf("%s has the variance %g", at, variance[c])
		}
		scale := float64(gamma[c]) / math.Sqrt(float64(variance[c])+epsilon)
		a.scale[c] = float32(scale)
		a.shift[c] = float32(float64(beta[c]) - float64(mean[c])*scale)
	}
	if !finite(a.scale) || !finite(a.shift) {
		return nil, fmt.Errorf("%s makes values that are no numbers", at)
	}
	return a, nil
}

// fold applies a normalisation to the weights, by output, and the biases of the convolution before it.
func (a *affine) fold(at string, weights, biases []float32) error {
	each := len(weights) / len(biases)
	for c := range biases {
		for i := range each {
			weights[c*each+i] *= a.scale[c]
		}
		biases[c] = biases[c]*a.scale[c] + a.shift[c]
	}
	if !finite(weights) || !finite(biases) {
		return fmt.Errorf("%s makes values that are no numbers with the normalisation behind it", at)
	}
	return nil
}

// normalise adds a normalisation as one operator: a scale and a shift are all that is left of it.
func normalise(g *onnxgraph.Graph, x string, a *affine) string {
	channels := len(a.scale)
	ones, zeros := make([]float32, channels), make([]float32, channels)
	for i := range ones {
		ones[i] = 1
	}
	return g.Node("BatchNormalization", []string{
		x, g.Weights(a.scale, channels), g.Weights(a.shift, channels), g.Weights(zeros, channels), g.Weights(ones, channels),
	}, onnxgraph.Float("epsilon", 0))
}

// crop cuts half of a number of bases off both ends of a value.
func crop(g *onnxgraph.Graph, x string, bases int) string {
	if bases == 0 {
		return x
	}
	half := int64(bases / 2)
	return g.Node("Slice", []string{x, g.Integers(half), g.Integers(-half), g.Integers(3)})
}
