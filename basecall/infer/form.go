package infer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/basecall/scores"
)

// ScoreForm is the form in which scores leave a network.
type ScoreForm uint8

// The forms.
const (
	// ScoresAuto is ScoresBytes on a GPU, if the network is Narrow and bounds its scores, and
	// ScoresFloat otherwise.
	ScoresAuto ScoreForm = iota
	ScoresFloat
	// ScoresHalf is float16.
	ScoresHalf
	// ScoresBytes is whole numbers of eight bits, for networks that bound their scores.
	ScoresBytes
	// scoresPath is what the device has decoded. It isn't asked for but by ScoresAuto where there are kernels.
	scoresPath
)

// Decoded is the name of the form of what a device has decoded.
const Decoded = "decoded"

var formNames = [...]string{ScoresAuto: "auto", ScoresFloat: "fp32", ScoresHalf: "fp16", ScoresBytes: "int8", scoresPath: Decoded}

// ErrNoBound is in the error about a network whose scores can't be given in eight bits.
var ErrNoBound = errors.New("no bound of its scores (a Tanh or a Clip at its end) to give them in eight bits")

// String returns "auto", "fp32", "fp16", "int8" or "decoded".
func (f ScoreForm) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return fmt.Sprintf("ScoreForm(%d)", uint8(f))
}

// Set parses a flag's value.
func (f *ScoreForm) Set(text string) error {
	asked := formNames[:scoresPath]
	i := slices.Index(asked, text)
	if i < 0 {
		return fmt.Errorf("%q is none of %s", text, strings.Join(asked, ", "))
	}
	*f = ScoreForm(i)
	return nil
}

// Type is what help says of the flag.
func (*ScoreForm) Type() string { return "form" }

// Scores in a form that is small.
//
// Problem: a network with a CRF gives a thousand scores for every five samples. As floats these
// are 800 bytes a sample, which have to cross from a GPU to the host, and a host reads them slower
// than a GPU computes them.
//
// Strategy: the network's end is written anew when it is loaded. If a Tanh or a Clip at the end bounds a
// score on both sides, QuantizeLinear brings it to eight bits, in steps of which 127 make the bound. A
// network may store windows side by side, or have a Transpose so that it doesn't; the reader of the scores
// handles either, so each score is moved only once on the device. Eight bits have no value for what is not a
// number. So the sum of each frame's scores, which is not a number if one of them isn't, is a second output.
//
// Consequences: a score is off by half a step at most, 0.02 of ±5. A network that isn't
// recognised keeps its floats.

// form says how scores leave a session.
type form struct {
	kind   ScoreForm
	step   float32 // of ScoresBytes
	sums   string  // the output with the sums of frames, or with the probabilities of a path's bases; empty without
	frames string  // the input with how many frames of each window are to be decoded; empty without
}

// widestBound is the bound of scores up to which weights stay within what decoders distinguish.
const widestBound = 15

// Names and version of what is added to a network.
const (
	formPrefix      = "porestream.scores"
	opTranspose     = "Transpose"
	opTanh          = "Tanh"
	opClip          = "Clip"
	opMul           = "Mul"
	opCast          = "Cast"
	leastFormsOpset = 13 // ReduceSum has its axes as an input since
)

// inForm returns the network with scores in a form. A nil error with the network as it
// was means that ScoresAuto is float32 for it there.
func (n Network) inForm(f ScoreForm, device Device) (Network, error) {
	auto := f == ScoresAuto
	if auto {
		if f = ScoresFloat; device.CUDA && n.Narrow {
			f = ScoresBytes
		}
	}
	n.form = form{kind: ScoresFloat}
	if f == ScoresFloat {
		return n, nil
	}
	changed, err := n.narrowed(f)
	switch {
	case errors.Is(err, ErrNoBound) && auto:
		return n, nil
	case err != nil:
		return n, err
	}
	return changed, nil
}

// narrowed returns the network with scores as ScoresHalf or ScoresBytes.
func (n Network) narrowed(f ScoreForm) (Network, error) {
	var model onnxpb.ModelProto
	if err := proto.Unmarshal(n.ONNX, &model); err != nil {
		return n, fmt.Errorf("reading network %s: not an ONNX file: %w", n.Name, err)
	}
	for _, set := range model.GetOpsetImport() {
		if set.GetDomain() == "" && set.GetVersion() < leastFormsOpset {
			return n, fmt.Errorf("network %s: operators of ONNX version %d have %w", n.Name, set.GetVersion(), ErrNoBound)
		}
	}
	e := newEnding(model.GetGraph())
	if e.makers[n.Output] == nil {
		return n, fmt.Errorf("network %s: no node makes its output %q, so that it has %w", n.Name, n.Output, ErrNoBound)
	}
	from, swapped := e.untransposed(n.Output)
	if swapped {
		n.TimeMajor = !n.TimeMajor
	}
	n.form.kind = f
	output := formPrefix
	switch f {
	case ScoresHalf:
		if inner, ok := e.uncast(from); ok && isHead(e.makers[inner]) {
			from = inner
		}
		e.node(opCast, []string{from}, output, to(onnxpb.TensorProto_FLOAT16))
		e.outputs(end{output, onnxpb.TensorProto_FLOAT16, 3})
	case ScoresBytes:
		bound, ok := e.bound(from, deepest)
		if !ok || bound.most > widestBound {
			return n, fmt.Errorf("network %s has %w", n.Name, ErrNoBound)
		}
		n.form.step, n.form.sums = scores.Step(bound.most), formPrefix+".sums"
		unit := float32(float64(n.form.step) / float64(bound.scale))
		e.node("QuantizeLinear", []string{
			bound.source, e.constant("step", onnxpb.TensorProto_FLOAT, binary.LittleEndian.AppendUint32(nil, math.Float32bits(unit))),
			e.constant("zero", onnxpb.TensorProto_INT8, []byte{0}),
		}, output)
		addends := formPrefix + ".addends"
		e.node(opCast, []string{bound.unclipped}, addends, to(onnxpb.TensorProto_FLOAT)) // costs nothing where it is that
		e.node("ReduceSum", []string{addends, e.constant("axis", onnxpb.TensorProto_INT64, binary.LittleEndian.AppendUint64(nil, math.MaxUint64), 1)}, n.form.sums,
			&onnxpb.AttributeProto{Name: "keepdims", Type: onnxpb.AttributeProto_INT, I: 0})
		e.outputs(end{output, onnxpb.TensorProto_INT8, 3}, end{n.form.sums, onnxpb.TensorProto_FLOAT, 2})
	}
	n.Output = output
	e.dropUnused()
	var err error
	n.ONNX, err = proto.MarshalOptions{Deterministic: true}.Marshal(&model)
	return n, err
}

// ending is a graph whose end is written anew.
type ending struct {
	graph     *onnxpb.GraphProto
	constants map[string]*onnxpb.TensorProto
	makers    map[string]*onnxpb.NodeProto // by what they make
}

func newEnding(graph *onnxpb.GraphProto) *ending {
	e := &ending{graph: graph, constants: map[string]*onnxpb.TensorProto{}, makers: map[string]*onnxpb.NodeProto{}}
	for _, t := range graph.GetInitializer() {
		e.constants[t.GetName()] = t
	}
	for _, node := range graph.GetNode() {
		for _, out := range node.GetOutput() {
			e.makers[out] = node
		}
	}
	return e
}

// untransposed returns what a Transpose makes a value of that has windows and frames
// swapped, or the value.
func (e *ending) untransposed(value string) (from string, swapped bool) {
	node := e.makers[value]
	if node.GetOpType() != opTranspose || len(node.GetInput()) != 1 || !permutes(node, 1, 0, 2) {
		return value, false
	}
	return node.GetInput()[0], true
}

// uncast returns what a Cast makes a value of, or the value.
func (e *ending) uncast(value string) (from string, ok bool) {
	node := e.makers[value]
	if node.GetOpType() != opCast || len(node.GetInput()) != 1 {
		return value, false
	}
	return node.GetInput()[0], true
}

// bound is what a value can't be beyond.
type bound struct {
	most float32 // either way
	// source is a float32 value that times scale is the value: a last product with a constant
	// is not worth computing.
	source string
	scale  float32
	// unclipped is a value that is not a number wherever the bounded value should not be
	// one. A Clip may turn what is not a number into one.
	unclipped string
}

// deepest is the number of operators behind each other that bound inspects.
const deepest = 5

// bound returns the bound of a value, if it has one.
func (e *ending) bound(value string, depth int) (bound, bool) {
	node := e.makers[value]
	inputs := node.GetInput()
	if depth == 0 {
		return bound{}, false
	}
	switch {
	case isHead(node):
		if most := headBound(node); most > 0 {
			return bound{most: most, source: value, scale: 1, unclipped: value}, true
		}
	case node.GetOpType() == opTanh && len(inputs) == 1:
		return bound{most: 1, source: value, scale: 1, unclipped: value}, true
	case node.GetOpType() == opClip && len(inputs) == 3:
		low, high, known := limits(node, e.constants)
		b := bound{most: max(-low, high), source: value, scale: 1, unclipped: inputs[0]}
		return b, known && b.most > 0
	case node.GetOpType() == opCast && len(inputs) == 1:
		b, ok := e.bound(inputs[0], depth-1)
		b.source, b.scale = value, 1 // before it they may be float16
		return b, ok
	case node.GetOpType() == opMul && len(inputs) == 2:
		for i, name := range inputs {
			if factor, known := number(e.constants[name]); known && factor > 0 {
				b, ok := e.bound(inputs[1-i], depth-1)
				b.most, b.scale = b.most*factor, b.scale*factor
				return b, ok
			}
		}
	}
	return bound{}, false
}

// isHead reports whether a node is our operator for the layer before a decoder, which gives half floats.
func isHead(node *onnxpb.NodeProto) bool {
	return node.GetOpType() == kernels.HeadOp && node.GetDomain() == kernels.Domain
}

// headBound returns what the scores of a head can't be beyond; 0 for no bound.
func headBound(node *onnxpb.NodeProto) float32 {
	var scale, low, high float32
	activation := kernels.NoActivation
	for _, a := range node.GetAttribute() {
		switch a.GetName() {
		case "activation":
			activation = kernels.Activation(a.GetI())
		case "scale":
			scale = a.GetF()
		case "low":
			low = a.GetF()
		case "high":
			high = a.GetF()
		}
	}
	switch activation {
	case kernels.Tanh:
		return scale
	case kernels.Clamp:
		return max(-low, high)
	}
	return 0
}

// limits returns those of a Clip with three inputs, if they are constants, of which the first is the lower.
func limits(clip *onnxpb.NodeProto, constants map[string]*onnxpb.TensorProto) (low, high float32, known bool) {
	low, hasLow := number(constants[clip.GetInput()[1]])
	high, hasHigh := number(constants[clip.GetInput()[2]])
	return low, high, hasLow && hasHigh && low < high
}

// number returns the constant that is one number, finite and of either precision.
func number(t *onnxpb.TensorProto) (float32, bool) {
	var v float32
	switch onnxpb.TensorProto_DataType(t.GetDataType()) {
	case onnxpb.TensorProto_FLOAT:
		values, err := float32s(t)
		if err != nil || len(values) != 1 {
			return 0, false
		}
		v = values[0]
	case onnxpb.TensorProto_FLOAT16:
		if len(t.GetRawData()) != 2 {
			return 0, false
		}
		v = scores.FromHalf(binary.LittleEndian.Uint16(t.GetRawData()))
	default:
		return 0, false
	}
	return v, v-v == 0
}

// to is the attribute of a Cast.
func to(kind onnxpb.TensorProto_DataType) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: "to", Type: onnxpb.AttributeProto_INT, I: int64(kind)}
}

func (e *ending) node(op string, inputs []string, output string, attributes ...*onnxpb.AttributeProto) {
	e.graph.Node = append(e.graph.Node, &onnxpb.NodeProto{Name: output, OpType: op, Input: inputs, Output: []string{output}, Attribute: attributes})
}

// constant adds a constant and returns its name.
func (e *ending) constant(name string, kind onnxpb.TensorProto_DataType, data []byte, dims ...int64) string {
	name = formPrefix + "." + name
	e.graph.Initializer = append(e.graph.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(kind), Dims: dims, RawData: data})
	return name
}

// end is an output with so many axes of any length.
type end struct {
	name string
	kind onnxpb.TensorProto_DataType
	axes int
}

// outputs makes these the graph's only ones.
func (e *ending) outputs(ends ...end) {
	e.graph.Output = nil
	for _, o := range ends {
		e.graph.Output = append(e.graph.Output, ofAnyLength(o.name, o.kind, o.axes))
	}
}

// ofAnyLength is an input or output with so many axes of any length.
func ofAnyLength(name string, kind onnxpb.TensorProto_DataType, axes int) *onnxpb.ValueInfoProto {
	shape := &onnxpb.TensorShapeProto{}
	for i := range axes {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
			Value: &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: fmt.Sprintf("%s.%d", name, i)},
		})
	}
	return &onnxpb.ValueInfoProto{Name: name, Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: int32(kind), Shape: shape},
	}}}
}

// dropUnused takes out what nothing is made of any more, nodes and then constants.
func (e *ending) dropUnused() {
	for {
		used := map[string]bool{}
		for _, out := range e.graph.GetOutput() {
			used[out.GetName()] = true
		}
		for _, node := range e.graph.GetNode() {
			for _, in := range node.GetInput() {
				used[in] = true
			}
			for _, a := range node.GetAttribute() {
				usedWithin(a.GetG(), used)
			}
		}
		before := len(e.graph.Node)
		e.graph.Node = slices.DeleteFunc(e.graph.Node, func(node *onnxpb.NodeProto) bool {
			return !slices.ContainsFunc(node.GetOutput(), func(out string) bool { return used[out] })
		})
		if len(e.graph.Node) == before {
			e.graph.Initializer = slices.DeleteFunc(e.graph.Initializer, func(t *onnxpb.TensorProto) bool { return !used[t.GetName()] })
			return
		}
	}
}

// usedWithin notes what the body of a loop uses, which may be values of the graph around it.
func usedWithin(body *onnxpb.GraphProto, used map[string]bool) {
	for _, node := range body.GetNode() {
		for _, in := range node.GetInput() {
			used[in] = true
		}
		for _, a := range node.GetAttribute() {
			usedWithin(a.GetG(), used)
		}
	}
	for _, out := range body.GetOutput() {
		used[out.GetName()] = true
	}
}

// size returns how many bytes a score takes.
func (f form) size() int {
	switch f.kind {
	case ScoresBytes, scoresPath:
		return 1
	case ScoresHalf:
		return 2
	}
	return 4
}

// element returns the runtime's type of a score.
func (f form) element() ort.TensorElementDataType {
	switch f.kind {
	case ScoresBytes:
		return ort.TensorElementDataTypeInt8
	case scoresPath:
		return ort.TensorElementDataTypeUint8
	case ScoresHalf:
		return ort.TensorElementDataTypeFloat16
	}
	return ort.TensorElementDataTypeFloat
}
