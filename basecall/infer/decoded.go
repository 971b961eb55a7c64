package infer

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/kernels"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/basecall/scores"
)

// Networks that decode.
//
// Problem: scores that a GPU gives have to cross to the host, hundreds of numbers for a base, and a host
// decodes them slower than a GPU computes them.
//
// Strategy: when a network is loaded, an operator of our own, CRF or CTC, takes the place of its output. How many frames
// of each window are of a read, which decides what is called near its end, is a second input. What comes back is a
// byte and a float a frame.
//
// Consequences: bases and their probabilities are those that basecall/crf or basecall/ctc gives of the same scores, to the bit.

// Types of elements as ONNX numbers them, of which onnxpb has those that models of ours have.
const (
	elementUint8 onnxpb.TensorProto_DataType = 2
	elementInt32 onnxpb.TensorProto_DataType = 6
)

// Decoder says how scores become bases. One of both is set.
type Decoder struct {
	CRF *crf.Config
	CTC *ctc.Config
}

// kernel reports whether there is an operator that decodes so.
func (d *Decoder) kernel() bool {
	if d.CTC != nil {
		return kernels.DecodesCTC(*d.CTC)
	}
	return kernels.DecodesCRF(*d.CRF)
}

// Search is a decoder in Go, [crf.Decoder] or [ctc.Decoder]: of one window after the other.
type Search interface {
	DecodeWindow(w scores.Window) ([]scores.Base, error)
}

// Open returns a decoder in Go.
func (d *Decoder) Open() (Search, error) {
	if d.CTC != nil {
		return ctc.NewDecoder(*d.CTC), nil
	}
	return crf.NewDecoder(*d.CRF)
}

// operator returns the name of the operator that decodes so, and its attributes.
func (d *Decoder) operator() (name string, attributes []*onnxpb.AttributeProto) {
	if c := d.CTC; c != nil {
		return kernels.CTCOp, []*onnxpb.AttributeProto{
			integer("classes", int64(c.Classes)), boolean("logits", c.Logits),
			integer("beam_width", int64(c.BeamWidth)), real("beam_cut", c.BeamCut), real("base_bonus", c.BaseBonus),
		}
	}
	stay := float32(0)
	if d.CRF.StayScore != nil {
		stay = *d.CRF.StayScore
	}
	return kernels.CRFOp, []*onnxpb.AttributeProto{
		integer("state_length", int64(d.CRF.StateLength)), boolean("stays", d.CRF.StayScore == nil), real("stay", stay),
		integer("beam_width", int64(d.CRF.BeamWidth)), real("beam_cut", d.CRF.BeamCut),
	}
}

func boolean(name string, v bool) *onnxpb.AttributeProto {
	if v {
		return integer(name, 1)
	}
	return integer(name, 0)
}

func real(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: name, Type: onnxpb.AttributeProto_FLOAT, F: v}
}

// decoded returns the network with paths in place of scores. With numbers of half precision within, scores are
// taken as such.
func (n Network) decoded(precision Precision) (Network, error) {
	var model onnxpb.ModelProto
	if err := proto.Unmarshal(n.ONNX, &model); err != nil {
		return n, fmt.Errorf("reading network %s: not an ONNX file: %w", n.Name, err)
	}
	graph := model.GetGraph()
	e := newEnding(graph)
	from, timeMajor := n.Output, n.TimeMajor
	for e.makers[from] != nil {
		if inner, ok := e.uncast(from); ok && (precision == PrecisionHalf || isHead(e.makers[inner])) {
			from = inner
			continue
		}
		inner, swapped := e.untransposed(from)
		if !swapped {
			break
		}
		from, timeMajor = inner, !timeMajor
	}
	path, probability, frames := formPrefix+".path", formPrefix+".probability", formPrefix+".frames"
	op, attributes := n.Decoder.operator()
	graph.Node = append(graph.Node, &onnxpb.NodeProto{
		Name: path, OpType: op, Domain: kernels.Domain, Input: []string{from, frames}, Output: []string{path, probability},
		Attribute: append(attributes, boolean("windows_first", !timeMajor)),
	})
	graph.Input = append(graph.Input, ofAnyLength(frames, elementInt32, 1))
	e.outputs(end{path, elementUint8, 3}, end{probability, onnxpb.TensorProto_FLOAT, 2})
	e.dropUnused()
	known := false
	for _, set := range model.GetOpsetImport() {
		known = known || set.GetDomain() == kernels.Domain
	}
	if !known {
		model.OpsetImport = append(model.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: kernels.Domain, Version: kernels.Version})
	}
	n.form = form{kind: scoresPath, sums: probability, frames: frames}
	n.Output, n.TimeMajor, n.Classes = path, false, 1
	var err error
	n.ONNX, err = proto.MarshalOptions{Deterministic: true}.Marshal(&model)
	return n, err
}
