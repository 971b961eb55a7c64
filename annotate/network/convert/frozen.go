package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/porestream/porestream/basecall/onnxgraph"
)

// isFrozen reports whether a file is a frozen graph of TensorFlow by its name, .pb: the format has no signature.
func isFrozen(file string) bool { return filepath.Ext(file) == ".pb" }

// operator is a node of a TensorFlow graph: a NodeDef. Attributes are encoded AttrValues.
type operator struct {
	name, kind string
	inputs     []string
	attributes map[string][]byte
}

// The field numbers of TensorFlow's GraphDef, NodeDef, AttrValue and TensorProto that are read.
const (
	graphNode = 1

	nodeName  = 1
	nodeOp    = 2
	nodeInput = 3
	nodeAttr  = 5

	mapKey   = 1
	mapValue = 2

	attrList    = 1
	attrBytes   = 2
	attrInteger = 3
	attrYes     = 5
	attrTensor  = 8

	listIntegers = 3

	tensorType     = 1
	tensorShape    = 2
	tensorContent  = 4
	tensorFloats   = 5
	tensorIntegers = 7
	shapeDim       = 2
	dimSize        = 1

	// The types of tensors that are read.
	typeFloat = 1
	typeInt32 = 3
)

// frozen is a frozen graph of TensorFlow on its way into graphs of ONNX.
type frozen struct {
	operators map[string]*operator
	last      string         // name of the last operator, which gives the outputs
	uses      map[string]int // of each operator's value, but for its shape
	constants map[string]*constant
	space     int // bytes of weights that the file has besides those that were read
	asked     int // operators whose values were made, over all networks
	// Of the network at hand.
	g      *onnxgraph.Graph
	values map[string]value
}

// constant is what an operator gives that depends on no input.
type constant struct {
	shape []int
	data  []float64
}

// readFrozen returns the ONNX files of the networks of a frozen graph, and their bases of context. A graph may average several.
func readFrozen(file string) (networks [][]byte, context int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeras+1))
	switch {
	case err != nil:
		return nil, 0, err
	case len(data) > maxKeras:
		return nil, 0, fmt.Errorf("it has more than %d bytes", maxKeras)
	}
	return buildFrozen(data)
}

func buildFrozen(data []byte) (networks [][]byte, context int, err error) {
	t, err := parseFrozen(data)
	if err != nil {
		return nil, 0, err
	}
	return t.build()
}

// build is buildFrozen of a graph that is parsed.
func (t *frozen) build() (networks [][]byte, context int, err error) {
	outputs, err := t.averaged()
	if err != nil {
		return nil, 0, err
	}
	for i, name := range outputs {
		t.g, t.values = onnxgraph.New("splicing", false), map[string]value{}
		out, err := t.value(name, 0)
		if err != nil {
			return nil, 0, err
		}
		onnx, cut, err := finish(t.g, out)
		if err != nil {
			return nil, 0, err
		}
		if i > 0 && cut != context {
			return nil, 0, fmt.Errorf("it averages networks with %d and %d bases of context", context, cut)
		}
		networks, context = append(networks, onnx), cut
	}
	return networks, context, nil
}

var errNoGraph = errors.New("it is no frozen graph of TensorFlow")

// What a file may have at most: more than any such network has. Each operator, input and number takes more memory than bytes in the file.
const (
	mostOperators  = 100_000
	mostInputs     = 1000 // of an operator; so many attributes, too
	mostIntegers   = 1 << 16
	longestName    = 1000
	mostOfPaddings = 1000 // operators that paddings are calculated by
)

// eachField gives the fields of an encoded message: what a varint is, or the bytes of another.
func eachField(data []byte, do func(number protowire.Number, integer uint64, content []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errNoGraph
		}
		data = data[n:]
		var integer uint64
		var content []byte
		switch kind {
		case protowire.VarintType:
			integer, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(data)
		case protowire.Fixed32Type:
			if n = 4; len(data) >= n {
				content = data[:n]
			} else {
				n = -1
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return errNoGraph
		}
		data = data[n:]
		if err := do(number, integer, content); err != nil {
			return err
		}
	}
	return nil
}

func parseFrozen(data []byte) (*frozen, error) {
	t := &frozen{operators: map[string]*operator{}, uses: map[string]int{}, constants: map[string]*constant{}, space: len(data)}
	err := eachField(data, func(number protowire.Number, _ uint64, content []byte) error {
		if number != graphNode {
			return nil
		}
		o, err := parseOperator(content)
		if err != nil {
			return err
		}
		switch {
		case t.operators[o.name] != nil:
			return fmt.Errorf("it has two operators %q", o.name)
		case len(t.operators) == mostOperators:
			return fmt.Errorf("it has more than %d operators", mostOperators)
		}
		t.operators[o.name], t.last = o, o.name
		if o.kind == "Shape" {
			return nil
		}
		for _, input := range o.inputs {
			t.uses[input]++
		}
		return nil
	})
	if err == nil && t.last == "" {
		err = errNoGraph
	}
	return t, err
}

func parseOperator(data []byte) (*operator, error) {
	o := &operator{attributes: map[string][]byte{}}
	err := eachField(data, func(number protowire.Number, _ uint64, content []byte) error {
		switch number {
		case nodeName:
			o.name = string(content)
		case nodeOp:
			o.kind = string(content)
		case nodeInput:
			// name:0 is the first of an operator's values, ^name one that it merely waits for.
			if input := strings.TrimSuffix(string(content), ":0"); !strings.HasPrefix(input, "^") {
				o.inputs = append(o.inputs, input)
			}
		case nodeAttr:
			key, v := "", []byte{}
			if err := eachField(content, func(number protowire.Number, _ uint64, content []byte) error {
				switch number {
				case mapKey:
					key = string(content)
				case mapValue:
					v = content
				}
				return nil
			}); err != nil {
				return err
			}
			o.attributes[key] = v
		}
		switch {
		case len(o.name) > longestName || len(o.kind) > longestName:
			return fmt.Errorf("an operator's name or kind has more than %d letters", longestName)
		case max(len(o.inputs), len(o.attributes)) > mostInputs:
			return fmt.Errorf("operator %q has more than %d inputs or attributes", o.name, mostInputs)
		}
		return nil
	})
	return o, err
}

// integer is an attribute that is a number or a switch's mask; 0 if it isn't there.
func (o *operator) integer(key string) uint64 { return o.varint(key, attrInteger) }

// yes is an attribute that is true or false.
func (o *operator) yes(key string) bool { return o.varint(key, attrYes) != 0 }

func (o *operator) varint(key string, field protowire.Number) (v uint64) {
	_ = eachField(o.attributes[key], func(number protowire.Number, integer uint64, _ []byte) error {
		if number == field {
			v = integer
		}
		return nil
	})
	return v
}

func (o *operator) text(key string) (v string) {
	_ = eachField(o.attributes[key], func(number protowire.Number, _ uint64, content []byte) error {
		if number == attrBytes {
			v = string(content)
		}
		return nil
	})
	return v
}

// integers is an attribute that is a list of numbers.
func (o *operator) integers(key string) (list []uint64) {
	_ = eachField(o.attributes[key], func(number protowire.Number, _ uint64, content []byte) error {
		if number != attrList {
			return nil
		}
		return eachField(content, func(number protowire.Number, integer uint64, packed []byte) error {
			if number != listIntegers {
				return nil
			}
			if packed == nil {
				list = append(list, integer)
			}
			for len(packed) > 0 {
				v, n := protowire.ConsumeVarint(packed)
				if n < 0 {
					return errNoGraph
				}
				if list, packed = append(list, v), packed[n:]; len(list) > mostIntegers {
					return errNoGraph
				}
			}
			if len(list) > mostIntegers {
				return errNoGraph
			}
			return nil
		})
	})
	return list
}

// is returns the operator of that name, if it is of one of the kinds and has so many inputs at least.
func (t *frozen) is(name string, inputs int, kinds ...string) *operator {
	o := t.operators[name]
	if o == nil || len(o.inputs) < inputs || !slices.Contains(kinds, o.kind) {
		return nil
	}
	return o
}

// averaged are the operators whose values the graph averages, or the one that gives its value.
func (t *frozen) averaged() ([]string, error) {
	name := t.last
	for range maxLayers {
		o := t.is(name, 1, "Identity")
		if o == nil {
			break
		}
		name = o.inputs[0]
	}
	mean := t.is(name, 2, "Mean")
	if mean == nil {
		return []string{name}, nil
	}
	pack := t.is(mean.inputs[0], 1, "Pack")
	if axis := t.constant(mean.inputs[1], 0); pack == nil || pack.integer("axis") != 0 || axis == nil || len(axis.data) != 1 || axis.data[0] != 0 || mean.yes("keep_dims") {
		return nil, fmt.Errorf("%q is not the mean of networks' outputs", name)
	}
	if len(pack.inputs) > maxNetworks {
		return nil, fmt.Errorf("it averages %d networks, more than %d", len(pack.inputs), maxNetworks)
	}
	return pack.inputs, nil
}

// constant is what an operator gives, or nil if that depends on the input.
func (t *frozen) constant(name string, depth int) *constant {
	c, done := t.constants[name]
	if done {
		return c
	}
	if o := t.operators[name]; o != nil && depth < maxLayers {
		c = t.calculated(o, depth)
	}
	t.constants[name] = c
	return c
}

func (t *frozen) calculated(o *operator, depth int) *constant {
	switch {
	case o.kind == "Const":
		return t.stored(o)
	case o.kind == "Identity" && len(o.inputs) == 1:
		return t.constant(o.inputs[0], depth+1)
	case o.kind == "ExpandDims" && len(o.inputs) == 2: // in front of a kernel
		a, axis := t.constant(o.inputs[0], depth+1), t.constant(o.inputs[1], depth+1)
		if a == nil || axis == nil || len(axis.data) != 1 || axis.data[0] != 0 {
			return nil
		}
		return &constant{append([]int{1}, a.shape...), a.data}
	case o.kind == "Rsqrt" && len(o.inputs) == 1:
		a := t.constant(o.inputs[0], depth+1)
		if a == nil || !t.affords(len(a.data)) {
			return nil
		}
		out := &constant{a.shape, make([]float64, len(a.data))}
		for i, v := range a.data {
			out.data[i] = 1 / math.Sqrt(v)
		}
		return out
	case (o.kind == "AddV2" || o.kind == "Add" || o.kind == "Sub" || o.kind == "Mul") && len(o.inputs) == 2:
		a := t.constant(o.inputs[0], depth+1)
		if a == nil {
			return nil
		}
		b := t.constant(o.inputs[1], depth+1)
		if b == nil || len(b.shape) > 1 || len(a.shape) > 1 || len(a.data) != len(b.data) && len(b.data) != 1 || !t.affords(len(a.data)) {
			return nil
		}
		out := &constant{a.shape, make([]float64, len(a.data))}
		for i, v := range a.data {
			w := b.data[i%len(b.data)]
			switch o.kind {
			case "Sub":
				out.data[i] = v - w
			case "Mul":
				out.data[i] = v * w
			default:
				out.data[i] = v + w
			}
		}
		return out
	}
	return nil
}

// affords takes memory for so many weights, if the file has bytes for these besides all that were taken before: small files could ask for more than there is.
func (t *frozen) affords(weights int) bool {
	t.space -= 4 * weights
	return t.space >= 0
}

// stored is a constant of the file; nil if it is of another type, or isn't whole.
func (t *frozen) stored(o *operator) *constant {
	var tensor []byte
	if eachField(o.attributes["value"], func(number protowire.Number, _ uint64, content []byte) error {
		if number == attrTensor {
			tensor = content
		}
		return nil
	}) != nil {
		return nil
	}
	s := storedTensor{elements: 1}
	if eachField(tensor, s.field) != nil || s.kind != typeFloat && s.kind != typeInt32 {
		return nil
	}
	if len(s.content) == 4*s.elements {
		return &constant{shape: s.shape, data: s.values()}
	}
	// One value stands for all, and what stands for much isn't in the file.
	if len(s.content) > 0 || len(s.given) != s.elements && len(s.given) != 1 {
		return nil
	}
	if !t.affords(s.elements - len(s.given)) {
		return nil
	}
	c := &constant{shape: s.shape, data: s.given}
	for len(c.data) < s.elements {
		c.data = append(c.data, s.given[0])
	}
	return c
}

// storedTensor is a tensor as TensorFlow stores it: its values are bytes (content), or numbers that may be
// fewer than its elements (given).
type storedTensor struct {
	kind     uint64
	shape    []int
	elements int // that the shape has
	content  []byte
	given    []float64
}

// field takes a field of the tensor's message.
func (s *storedTensor) field(number protowire.Number, integer uint64, bytes []byte) error {
	switch number {
	case tensorType:
		s.kind = integer
	case tensorShape:
		return eachField(bytes, s.dimension)
	case tensorContent:
		s.content = bytes
	case tensorFloats:
		for ; len(bytes) >= 4; bytes = bytes[4:] {
			s.given = append(s.given, float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes))))
		}
	case tensorIntegers:
		if bytes == nil {
			s.given = append(s.given, float64(int32(integer)))
		}
		for len(bytes) > 0 {
			v, n := protowire.ConsumeVarint(bytes)
			if n < 0 {
				return errNoGraph
			}
			if s.given, bytes = append(s.given, float64(int32(v))), bytes[n:]; len(s.given) > mostIntegers {
				return errNoGraph
			}
		}
		if len(s.given) > mostIntegers {
			return errNoGraph
		}
	}
	return nil
}

// dimension takes a field of the shape's message: a dimension, whose size is at least 1 and not so large that the elements can't be counted.
func (s *storedTensor) dimension(number protowire.Number, _ uint64, dim []byte) error {
	if number != shapeDim {
		return nil
	}
	size := uint64(0)
	if err := eachField(dim, func(number protowire.Number, integer uint64, _ []byte) error {
		if number == dimSize {
			size = integer
		}
		return nil
	}); err != nil {
		return err
	}
	if size == 0 || size > maxKeras || s.elements > maxKeras/int(size) {
		return errNoGraph
	}
	s.shape, s.elements = append(s.shape, int(size)), s.elements*int(size)
	return nil
}

// values are those of the content, which has four bytes for each element.
func (s *storedTensor) values() []float64 {
	data := make([]float64, 0, s.elements)
	for i := range s.elements {
		bits := binary.LittleEndian.Uint32(s.content[4*i:])
		if s.kind == typeFloat {
			data = append(data, float64(math.Float32frombits(bits)))
		} else {
			data = append(data, float64(int32(bits)))
		}
	}
	return data
}

// weights is a constant of the given shape, each use of which the file has bytes for.
func (t *frozen) weights(name string, shape ...int) ([]float32, error) {
	c := t.constant(name, 0)
	switch {
	case c == nil:
		return nil, fmt.Errorf("%q is no weights that are known", name)
	case !slices.Equal(c.shape, shape):
		return nil, fmt.Errorf("%q has the shape %v, not %v", name, c.shape, shape)
	}
	if !t.affords(len(c.data)) {
		return nil, fmt.Errorf("%q has more weights than the file has bytes for", name)
	}
	out := make([]float32, len(c.data))
	for i, v := range c.data {
		out[i] = float32(v)
	}
	if !finite(out) {
		return nil, fmt.Errorf("%q has values that are no numbers", name)
	}
	return out, nil
}

// maxNetworks is more than anybody averages.
const maxNetworks = 100

// maxOperators is more than any such network has one behind the other.
const maxOperators = 10_000

// value is what an operator gives, which is made when it is first asked for.
func (t *frozen) value(name string, depth int) (value, error) {
	if v, done := t.values[name]; done {
		return v, nil
	}
	o := t.operators[name]
	switch {
	case o == nil:
		return value{}, fmt.Errorf("operator %q is used, and not there", name)
	case depth > maxOperators:
		return value{}, fmt.Errorf("more than %d operators are behind each other", maxOperators)
	case t.asked == len(t.operators): // a hundred networks could be the same one
		return value{}, errors.New("the networks that it averages share operators, which are not known to do so")
	}
	t.asked++
	v, err := t.operation(o, depth)
	if err != nil {
		return value{}, err
	}
	t.values[name] = v
	return v, nil
}

func (t *frozen) operation(o *operator, depth int) (value, error) {
	unknown := fmt.Errorf("operator %q is of the kind %q, which is not known there", o.name, o.kind)
	wanted := map[string]int{"Placeholder": 0, "Identity": 1, "Relu": 1, "Softmax": 1, "StridedSlice": 4}
	n, ok := wanted[o.kind]
	if !ok {
		n = 2
	}
	if len(o.inputs) != n {
		return value{}, unknown
	}
	switch o.kind {
	case "Placeholder":
		return value{name: t.g.Node("Unsqueeze", []string{inputName, t.g.Integers(2)}), channels: 4}, nil
	case "BiasAdd":
		return t.convolution(o, nil, depth)
	case "RealDiv":
		from, ok := t.softmax(o)
		if !ok {
			return value{}, unknown
		}
		return t.function("Softmax", from, depth)
	case "Softmax", "Relu", "Identity":
		return t.function(o.kind, o.inputs[0], depth)
	case "StridedSlice":
		return t.cropped(o, depth)
	case "Add", "AddV2":
		if c := t.constant(o.inputs[1], 0); c != nil {
			return t.normalised(o, depth)
		}
		a, err := t.value(o.inputs[0], depth+1)
		if err != nil {
			return value{}, err
		}
		b, err := t.value(o.inputs[1], depth+1)
		if err != nil {
			return value{}, err
		}
		if a.channels != b.channels || a.kept != b.kept {
			return value{}, fmt.Errorf("operator %q adds values of different shapes", o.name)
		}
		cut := max(a.cut, b.cut)
		a.name = t.g.Node("Add", []string{crop(t.g, a.name, cut-a.cut), crop(t.g, b.name, cut-b.cut)})
		a.cut = cut
		return a, nil
	}
	return value{}, unknown
}

func (t *frozen) function(kind, from string, depth int) (value, error) {
	x, err := t.value(from, depth+1)
	if err != nil {
		return value{}, err
	}
	switch kind {
	case "Softmax":
		x.name = t.g.Node(kind, []string{x.name}, onnxgraph.Integer("axis", 1))
	case "Relu":
		x.name = t.g.Node(kind, []string{x.name})
	}
	return x, nil
}

// softmax reports whether a division is exp(x - max x) by its sum over channels, as Keras writes it out for three axes, and returns x.
func (t *frozen) softmax(o *operator) (x string, ok bool) {
	overChannels := func(name, kind string) string {
		r := t.is(name, 2, kind)
		if r == nil || !r.yes("keep_dims") {
			return ""
		}
		if axis := t.constant(r.inputs[1], 0); axis == nil || len(axis.data) != 1 || axis.data[0] != -1 && axis.data[0] != 2 {
			return ""
		}
		return r.inputs[0]
	}
	exp := t.is(o.inputs[0], 1, "Exp")
	if exp == nil || overChannels(o.inputs[1], "Sum") != exp.name {
		return "", false
	}
	less := t.is(exp.inputs[0], 2, "Sub")
	if less == nil || overChannels(less.inputs[1], "Max") != less.inputs[0] {
		return "", false
	}
	return less.inputs[0], true
}

// cropped cuts as much off both ends.
func (t *frozen) cropped(o *operator, depth int) (value, error) {
	begin, end, step := t.constant(o.inputs[1], 0), t.constant(o.inputs[2], 0), t.constant(o.inputs[3], 0)
	const batchAndChannels = 1<<0 | 1<<2 // axes that stay whole
	ok := begin != nil && end != nil && step != nil && len(begin.data) == 3 && len(end.data) == 3 && slices.Equal(step.data, []float64{1, 1, 1}) &&
		o.integer("begin_mask") == batchAndChannels && o.integer("end_mask") == batchAndChannels &&
		o.integer("ellipsis_mask") == 0 && o.integer("new_axis_mask") == 0 && o.integer("shrink_axis_mask") == 0
	if !ok || begin.data[1] != -end.data[1] || begin.data[1] < 1 || begin.data[1] > 1<<20 {
		return value{}, fmt.Errorf("operator %q doesn't crop the same at both ends", o.name)
	}
	x, err := t.value(o.inputs[0], depth+1)
	if err != nil {
		return value{}, err
	}
	x.kept += 2 * int(begin.data[1])
	cut := max(x.cut, x.kept)
	x.name, x.cut = crop(t.g, x.name, cut-x.cut), cut
	return x, nil
}

// normalised is a normalisation: a value times a constant, plus another.
func (t *frozen) normalised(o *operator, depth int) (value, error) {
	scaled := t.is(o.inputs[0], 2, "Mul")
	if scaled == nil {
		return value{}, fmt.Errorf("operator %q adds a constant to what isn't scaled by one", o.name)
	}
	channels := 0
	if c := t.constant(scaled.inputs[1], 0); c != nil {
		channels = len(c.data)
	}
	a := new(affine)
	var err error
	if a.scale, err = t.weights(scaled.inputs[1], channels); err != nil {
		return value{}, err
	}
	if a.shift, err = t.weights(o.inputs[1], channels); err != nil {
		return value{}, err
	}
	// It is folded into the convolution before it, where nothing else uses that.
	if before := t.is(scaled.inputs[0], 2, "BiasAdd"); before != nil && t.uses[before.name] == 1 {
		return t.convolution(before, a, depth)
	}
	x, err := t.value(scaled.inputs[0], depth+1)
	if err != nil {
		return value{}, err
	}
	if x.channels != channels {
		return value{}, fmt.Errorf("operator %q normalises %d channels of %d", o.name, channels, x.channels)
	}
	x.name = normalise(t.g, x.name, a)
	return x, nil
}

// convolution is a convolution of one dimension, as TensorFlow has it: with an axis more, and with bases dealt out to several batches where its weights are apart.
func (t *frozen) convolution(bias *operator, then *affine, depth int) (value, error) {
	f, err := t.findConvolution(bias)
	if err != nil {
		return value{}, err
	}
	x, err := t.value(f.from, depth+1)
	if err != nil {
		return value{}, err
	}
	shape := []int{}
	if c := t.constant(f.conv.inputs[1], 0); c != nil {
		shape = c.shape
	}
	if len(shape) != 4 || shape[1] > 1<<12 {
		return value{}, notConvolution(bias)
	}
	width, filters := shape[1], shape[3]
	reach := (width - 1) * f.dilation
	switch {
	case f.dealt && (2*f.padding == reach || f.padding == 0):
		x.kept += reach - 2*f.padding
	case !f.dealt && f.conv.text("padding") == "SAME" && reach%2 == 0:
	case !f.dealt && f.conv.text("padding") == "VALID":
		x.kept += reach
	default:
		return value{}, fmt.Errorf("operator %q has the padding %q at width %d, which is not known", f.conv.name, f.conv.text("padding"), width)
	}
	kernel, err := t.weights(f.conv.inputs[1], 1, width, x.channels, filters)
	if err != nil {
		return value{}, err
	}
	biases, err := t.weights(bias.inputs[1], filters)
	if err != nil {
		return value{}, err
	}
	if then != nil && len(then.scale) != filters {
		return value{}, fmt.Errorf("operator %q has %d channels, and %d are normalised", bias.name, filters, len(then.scale))
	}
	return convolve(t.g, bias.name, x, kernel, biases, width, f.dilation, then)
}

// foundConvolution is what operators before that of a bias make a convolution of one dimension of.
type foundConvolution struct {
	from     string    // its input
	conv     *operator // of two dimensions
	dilation int
	dealt    bool // bases are dealt out to as many batches as its weights are apart
	padding  int  // where they are
}

func notConvolution(bias *operator) error {
	return fmt.Errorf("operator %q isn't a convolution of one dimension with a bias", bias.name)
}

// findConvolution follows the inputs of a bias back to what is convolved.
func (t *frozen) findConvolution(bias *operator) (f foundConvolution, err error) {
	at, odd := bias.inputs[0], notConvolution(bias)
	together := t.is(at, 3, "BatchToSpaceND")
	if together != nil {
		at = together.inputs[0]
	}
	squeeze := t.is(at, 1, "Squeeze")
	if squeeze == nil {
		return f, odd
	}
	if f.conv = t.is(squeeze.inputs[0], 2, "Conv2D"); f.conv == nil {
		return f, odd
	}
	expand := t.is(f.conv.inputs[0], 2, "ExpandDims")
	if expand == nil {
		return f, odd
	}
	if axis := t.constant(expand.inputs[1], 0); axis == nil || len(axis.data) != 1 || axis.data[0] != -3 && axis.data[0] != 1 {
		return f, odd
	}
	f.from, f.dilation, f.padding = expand.inputs[0], 1, -1
	if d := f.conv.integers("dilations"); len(d) > 0 {
		if len(d) != 4 || d[0] != 1 || d[1] != 1 || d[3] != 1 || d[2] < 1 || d[2] > 1<<12 {
			return f, odd
		}
		f.dilation = int(d[2])
	}
	if together != nil {
		apart := t.is(f.from, 3, "SpaceToBatchND")
		if apart == nil || f.dilation != 1 || f.conv.text("padding") != "VALID" {
			return f, odd
		}
		one, two := t.constant(apart.inputs[1], 0), t.constant(together.inputs[1], 0)
		if one == nil || two == nil || len(one.data) != 1 || !slices.Equal(one.data, two.data) || one.data[0] < 1 || one.data[0] > 1<<12 {
			return f, odd
		}
		f.dealt, f.dilation = true, int(one.data[0])
		if f.padding = t.padding(apart.inputs[2]); f.padding < 0 {
			return f, fmt.Errorf("operator %q pads by what isn't understood", apart.name)
		}
		f.from = apart.inputs[0]
	}
	if s := f.conv.integers("strides"); len(s) != 4 || slices.ContainsFunc(s, func(v uint64) bool { return v != 1 }) || f.conv.text("data_format") != "NHWC" {
		return f, fmt.Errorf("operator %q has steps, or channels first, which are not known", f.conv.name)
	}
	return f, nil
}

// padding is how many bases are put before the first one, and behind the last, where bases are dealt out to batches: the one constant of the shape [1, 2] that the
// paddings are calculated from. The rest, which fills the last batch up, is cut off again. -1 if it isn't understood.
func (t *frozen) padding(name string) int {
	found, seen := -1, map[string]bool{}
	queue := []string{name}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		o := t.operators[at]
		if o == nil || o.kind == "Shape" || seen[at] {
			continue
		}
		if len(seen) == mostOfPaddings {
			return -1
		}
		seen[at] = true
		queue = append(queue, o.inputs...)
		if o.kind != "Const" {
			continue
		}
		c := t.constant(at, 0)
		if c == nil || !slices.Equal(c.shape, []int{1, 2}) {
			continue
		}
		if found >= 0 || c.data[0] != c.data[1] || c.data[0] < 0 || c.data[0] > 1<<24 {
			return -1
		}
		found = int(c.data[0])
	}
	return found
}
