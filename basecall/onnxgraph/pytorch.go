package onnxgraph

import "slices"

// Linear adds a layer as PyTorch's Linear has it, over the last axis of x: weights of so many rows for what comes out, and a
// bias, unless that is nil.
func (g *Graph) Linear(x string, weight, bias []float32, out, in int) string {
	x = g.Node("MatMul", []string{x, g.Weights(Transposed(weight, out, in), in, out)})
	if bias == nil {
		return x
	}
	return g.Node("Add", []string{x, g.Weights(bias, out)})
}

// Transposed returns a matrix of so many rows and columns with these swapped.
func Transposed(matrix []float32, rows, columns int) []float32 {
	t := make([]float32, len(matrix))
	for r := range rows {
		for c := range columns {
			t[c*rows+r] = matrix[r*columns+c]
		}
	}
	return t
}

// LSTMGates returns weights or biases of PyTorch's LSTM, of its gates input, forget, cell and output one behind the other, in
// the order that ONNX's LSTM has them: input, output, forget, cell.
func LSTMGates(data []float32) []float32 {
	n := len(data) / 4
	return slices.Concat(data[:n], data[3*n:], data[n:3*n])
}
