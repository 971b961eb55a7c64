package infer

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
)

// Networks of whole numbers.
//
// Problem: nearly all of a basecaller's time on a CPU goes into the matrices of its LSTM
// layers, and a processor multiplies two to four times as many numbers of eight bits as
// floats at a time.
//
// Strategy: in the ONNX file each LSTM becomes ONNX Runtime's DynamicQuantizeLSTM when the
// network is loaded, so that every model folder has the choice and none has to hold another
// file. Weights are whole numbers within ±64, those of each gate of each cell on a scale of
// their own; what is multiplied by them is brought to eight bits by the runtime, and gates,
// cells and all other layers are floats as before.
//
// Consequences: with weights of seven bits a pair of products fits into 16, so that
// processors without instructions for such networks (VNNI) don't saturate and sum up the
// same numbers as those with them. The runtime has one scale for all that a layer is given
// at a time, so a window's scores depend on what else is in its batch: such a network
// computes one window at a time.
const (
	quantisedMost  = 64 // largest weight
	quantisedBatch = 1  // windows

	plainLSTM       = "LSTM"
	quantisedLSTM   = "DynamicQuantizeLSTM"
	runtimeDomain   = "com.microsoft" // of ONNX Runtime's own operators
	runtimeVersion  = 1
	lstmInputs      = 8 // X, W, R, B, lengths, initial h and c, peepholes
	lstmWeights     = 1 // place of W among the inputs, and behind it of R
	layoutAttribute = "layout"
)

// quantised returns an ONNX file with its LSTM layers in whole numbers, nil if there is none
// that has constant weights.
func quantised(onnx []byte) ([]byte, error) {
	var model onnxpb.ModelProto
	if err := proto.Unmarshal(onnx, &model); err != nil {
		return nil, fmt.Errorf("not an ONNX file: %w", err)
	}
	q := quantiser{graph: model.GetGraph(), constants: map[string]*onnxpb.TensorProto{}}
	for _, t := range q.graph.GetInitializer() {
		q.constants[t.GetName()] = t
	}
	layers := 0
	for i, node := range q.graph.GetNode() {
		done, err := q.layer(i, node)
		if err != nil {
			return nil, fmt.Errorf("layer %s: %w", node.GetName(), err)
		}
		if done {
			layers++
		}
	}
	if layers == 0 {
		return nil, nil
	}
	q.dropUnused()
	model.OpsetImport = append(model.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: runtimeDomain, Version: runtimeVersion})
	return proto.MarshalOptions{Deterministic: true}.Marshal(&model)
}

// quantiser works on a graph.
type quantiser struct {
	graph     *onnxpb.GraphProto
	constants map[string]*onnxpb.TensorProto
}

// layer turns an LSTM, the node with this index, into one of whole numbers. It leaves other
// nodes alone, and those that the runtime has no such operator for.
func (q *quantiser) layer(index int, node *onnxpb.NodeProto) (done bool, err error) {
	if node.GetOpType() != plainLSTM || node.GetDomain() != "" || len(node.GetInput()) <= lstmWeights+1 {
		return false, nil
	}
	for _, a := range node.GetAttribute() {
		if a.GetName() == layoutAttribute && a.GetI() != 0 {
			return false, nil // batches first
		}
	}
	inputs := make([]string, lstmInputs, lstmInputs+4)
	copy(inputs, node.GetInput())
	var weights [2]*onnxpb.TensorProto
	for i := range weights {
		t := q.constants[inputs[lstmWeights+i]]
		if t == nil || t.GetDataType() != int32(onnxpb.TensorProto_FLOAT) || len(t.GetDims()) != 3 {
			return false, nil
		}
		weights[i] = t
	}
	for i, t := range weights {
		numbers, scales, err := quantise(t)
		if err != nil {
			return false, err
		}
		// Layers may share a constant; each has whole numbers of its own.
		name := fmt.Sprintf("int8.%d.%c", index, "WR"[i])
		dims := t.GetDims()
		rows := []int64{dims[0], dims[1]}
		inputs[lstmWeights+i] = q.constant(name, onnxpb.TensorProto_INT8, numbers, dims[0], dims[2], dims[1])
		inputs = append(inputs,
			q.constant(name+".scale", onnxpb.TensorProto_FLOAT, scales, rows...),
			q.constant(name+".zero", onnxpb.TensorProto_INT8, make([]byte, dims[0]*dims[1]), rows...))
	}
	node.OpType, node.Domain, node.Input = quantisedLSTM, runtimeDomain, inputs
	return true, nil
}

// constant adds a constant and returns its name.
func (q *quantiser) constant(name string, kind onnxpb.TensorProto_DataType, data []byte, dims ...int64) string {
	q.graph.Initializer = append(q.graph.Initializer, &onnxpb.TensorProto{Name: name, DataType: int32(kind), Dims: dims, RawData: data})
	return name
}

// dropUnused takes out the constants that no node takes any more.
func (q *quantiser) dropUnused() {
	used := map[string]bool{}
	for _, node := range q.graph.GetNode() {
		for _, input := range node.GetInput() {
			used[input] = true
		}
	}
	for _, output := range q.graph.GetOutput() {
		used[output.GetName()] = true
	}
	kept := q.graph.Initializer[:0]
	for _, t := range q.graph.GetInitializer() {
		if used[t.GetName()] {
			kept = append(kept, t)
		}
	}
	q.graph.Initializer = kept
}

// quantise returns the weights [directions, rows, columns] of a layer as whole numbers
// [directions, columns, rows], and the scale of each row as float32s.
func quantise(t *onnxpb.TensorProto) (numbers, scales []byte, err error) {
	weights, err := float32s(t)
	if err != nil {
		return nil, nil, err
	}
	directions, rows, columns := int(t.GetDims()[0]), int(t.GetDims()[1]), int(t.GetDims()[2])
	numbers = make([]byte, len(weights))
	for d := range directions {
		for r := range rows {
			row := weights[(d*rows+r)*columns:][:columns]
			most := float32(0)
			for _, w := range row {
				most = max(most, float32(math.Abs(float64(w))))
			}
			scale := most / quantisedMost
			scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(scale))
			if scale == 0 {
				continue
			}
			for c, w := range row {
				n := math.RoundToEven(float64(w / scale))
				numbers[(d*columns+c)*rows+r] = byte(int8(max(-quantisedMost, min(quantisedMost, n))))
			}
		}
	}
	return numbers, scales, nil
}

// float32s returns the numbers of a constant.
func float32s(t *onnxpb.TensorProto) ([]float32, error) {
	size := int64(1)
	for _, d := range t.GetDims() {
		if d < 1 || d > 1<<20 {
			return nil, fmt.Errorf("constant %s has the dimensions %d", t.GetName(), t.GetDims())
		}
		size *= d
	}
	if data := t.GetFloatData(); len(data) > 0 && int64(len(data)) == size {
		return data, nil
	}
	if int64(len(t.GetRawData())) != 4*size {
		return nil, fmt.Errorf("constant %s has %d bytes for the dimensions %d (weights in a file beside the network are not read)",
			t.GetName(), len(t.GetRawData()), t.GetDims())
	}
	out := make([]float32, size)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.GetRawData()[4*i:]))
	}
	return out, nil
}
