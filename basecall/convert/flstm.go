package convert

import (
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// flstmGates are the places of PyTorch's gates, input, forget, cell, output, in the
// order in which a step computes them: those of one activation are neighbours.
var flstmGates = [4]int{0, 1, 3, 2}

// build adds a factorised LSTM. Per frame
//
//	gates = up_ih (dn_ih x) + up_hh (dn_hh h) + biases
//	c' = f c + i g, h' = o tanh(c')
//
// where dn are matrices with inner rows and up such with inner columns; i, f and o are 0.2 times
// their gates plus 0.5, between 0 and 1, and g is between -1 and 1, all straight lines in
// between. ONNX's LSTM knows neither the products nor such a g, so the frames are a Scan.
// What doesn't depend on the frame before, dn_ih x, is computed of all at once; both sums are
// one product per frame, of dn_ih x and dn_hh h together with up_ih and up_hh beside each other.
//
// Multiplied out, the matrices would be 8 out rather than inner (2 + 8) wide.
func (l flstmLayer) build(b *builder) error {
	if b.layout != layoutTNC {
		return errLayout
	}
	if err := b.expect(l.in); err != nil {
		return err
	}
	w, err := l.load(b.parameters)
	if err != nil {
		return err
	}
	g := b.g
	entered := g.Node("MatMul", []string{b.x, g.Weights(onnxgraph.Transposed(w.downInput, l.inner, l.in), l.in, l.inner)})
	down := g.Weights(onnxgraph.Transposed(w.downState, l.inner, l.out), l.out, l.inner)
	up := g.Weights(onnxgraph.Transposed(w.up, 4*l.out, 2*l.inner), 2*l.inner, 4*l.out)
	bias := g.Weights(w.bias, 4*l.out)
	low, high := g.Weights([]float32{-1}), g.Weights([]float32{1})
	lines, halves := g.Integers(int64(3*l.out), int64(l.out)), g.Integers(int64(l.out), int64(l.out), int64(l.out))

	step := g.Within(func(s *onnxgraph.Graph) {
		kind := s.FloatType()
		hidden, cell, now := s.Name("hidden"), s.Name("cell"), s.Name("now")
		narrow := s.Node("MatMul", []string{hidden, down})
		both := s.Node("Concat", []string{now, narrow}, onnxgraph.Integer("axis", 1))
		gates := s.Nodes("Split", []string{s.Node("Gemm", []string{both, up, bias}), lines}, 2, onnxgraph.Integer("axis", 1))
		// ONNX's HardSigmoid is 0.2 x + 0.5 where nothing else is said.
		opened := s.Nodes("Split", []string{s.Node("HardSigmoid", gates[:1]), halves}, 3, onnxgraph.Integer("axis", 1))
		candidate := s.Node("Clip", []string{gates[1], low, high})
		kept := s.Node("Mul", []string{opened[1], cell})
		next := s.Node("Add", []string{kept, s.Node("Mul", []string{opened[0], candidate})})
		out := s.Node("Mul", []string{opened[2], s.Node("Tanh", []string{next})})
		each := s.Node("Identity", []string{out})
		s.PB.Input = []*onnxpb.ValueInfoProto{
			onnxgraph.End(hidden, kind, "batch", l.out), onnxgraph.End(cell, kind, "batch", l.out), onnxgraph.End(now, kind, "batch", l.inner),
		}
		s.PB.Output = []*onnxpb.ValueInfoProto{
			onnxgraph.End(out, kind, "batch", l.out), onnxgraph.End(next, kind, "batch", l.out), onnxgraph.End(each, kind, "batch", l.out),
		}
	})

	batch := g.Node("Gather", []string{g.Node("Shape", []string{b.x}), g.Integers(1)})
	shape := g.Node("Concat", []string{batch, g.Integers(int64(l.out))}, onnxgraph.Integer("axis", 0))
	zeros := g.Node("Expand", []string{g.Weights([]float32{0}, 1, 1), shape})
	direction := int64(0)
	if l.backwards {
		direction = 1
	}
	b.x = g.Nodes("Scan", []string{zeros, zeros, entered}, 3, onnxgraph.Body("body", step), onnxgraph.Integer("num_scan_inputs", 1),
		onnxgraph.Integers("scan_input_directions", direction), onnxgraph.Integers("scan_output_directions", direction))[2]
	b.channels = l.out
	return nil
}

// flstmWeights are the matrices of a factorised LSTM, row by row.
type flstmWeights struct {
	downInput []float32 // inner x in
	downState []float32 // inner x out
	up        []float32 // 4 out x 2 inner, in the order of flstmGates: of the input, of the state
	bias      []float32 // 4 out, in that order
}

func (l flstmLayer) load(p *parameters) (w flstmWeights, err error) {
	if w.downInput, err = p.get(l.at, "rnn.dn_weight_ih", l.inner, l.in); err != nil {
		return w, err
	}
	if w.downState, err = p.get(l.at, "rnn.dn_weight_hh", l.inner, l.out); err != nil {
		return w, err
	}
	input, err := p.get(l.at, "rnn.up_weight_ih", 4*l.out, l.inner)
	if err != nil {
		return w, err
	}
	state, err := p.get(l.at, "rnn.up_weight_hh", 4*l.out, l.inner)
	if err != nil {
		return w, err
	}
	biases := [2][]float32{make([]float32, 4*l.out), make([]float32, 4*l.out)}
	if l.bias {
		for i, name := range []string{"rnn.up_bias_ih", "rnn.up_bias_hh"} {
			if biases[i], err = p.get(l.at, name, 4*l.out); err != nil {
				return w, err
			}
		}
	}
	for _, gate := range flstmGates {
		for row := gate * l.out; row < (gate+1)*l.out; row++ {
			w.up = append(w.up, input[row*l.inner:(row+1)*l.inner]...)
			w.up = append(w.up, state[row*l.inner:(row+1)*l.inner]...)
			w.bias = append(w.bias, biases[0][row]+biases[1][row])
		}
	}
	return w, nil
}
