package kernels

import "github.com/porestream/porestream/basecall/half"

// Domain and names of the operators.
const (
	Domain  = "porestream"
	Version = 1
	LSTMOp  = "LSTM"
	HeadOp  = "Head"
	StemOp  = "Stem"
	CRFOp   = "CRF"
	CTCOp   = "CTC"
)

// Widths of layers that there are kernels for, in steps of 16.
const (
	leastWidth = 96
	mostWidth  = 1024
)

// HasWidth reports whether there is a kernel for layers of a width.
func HasWidth(width int) bool { return width >= leastWidth && width <= mostWidth && width%16 == 0 }

// LSTM holds the weights of a layer as ONNX has them: of each gate, in the order in, out, forget,
// cell, a row for each of Width units.
type LSTM struct {
	Width int
	W, R  []float32 // [4 Width, Width], of the layer's input and of its own states
	B     []float32 // [8 Width], first of the input and then of the states; nil for none
}

// onnxGate is the place in ONNX's order of the gates in, forget, cell and out.
var onnxGate = [4]int{0, 2, 3, 1}

// Pack returns the weights as the tensor cores take them, and the sum of both biases by gate, in the
// order in, forget, cell, out.
//
// The weights [input|state -> gates] are matrices of 16 factors and 8 columns, as the instruction mma.m16n8k16 has them
// in the registers of a warp: lane l holds of column l/4 the factors 2(l%4), 2(l%4)+1, and those 8
// behind. A group has eight units, and so a matrix for each of the four gates. In their order the
// weights are [group][16 factors][two gates][lane][8].
func (l LSTM) Pack() (weights []uint16, bias []float32) {
	groups, steps := l.Width/8, l.Width/8
	weights = make([]uint16, 0, 8*l.Width*l.Width)
	for group := range groups {
		for step := range steps {
			weights = packStep(weights, func(matrix, column, factor int) float32 {
				return l.weight(onnxGate[matrix]*l.Width+8*group+column, 16*step+factor)
			})
		}
	}
	bias = make([]float32, 4*l.Width)
	if l.B == nil {
		return weights, bias
	}
	for gate, place := range onnxGate {
		for unit := range l.Width {
			row := place*l.Width + unit
			bias[gate*l.Width+unit] = l.B[row] + l.B[4*l.Width+row]
		}
	}
	return weights, bias
}

// packStep appends four matrices of 16 factors and 8 columns as the registers of a warp have them.
func packStep(weights []uint16, weight func(matrix, column, factor int) float32) []uint16 {
	for pair := range 2 {
		for lane := range 32 {
			for e := range 8 {
				weights = append(weights, half.FromFloat(weight(2*pair+e/4, lane/4, 2*(lane%4)+e%2+8*(e%4/2))))
			}
		}
	}
	return weights
}

// weight returns that of a factor, of which the input's come first, in one of ONNX's rows.
func (l LSTM) weight(row, factor int) float32 {
	if factor < l.Width {
		return l.W[row*l.Width+factor]
	}
	return l.R[row*l.Width+factor-l.Width]
}
