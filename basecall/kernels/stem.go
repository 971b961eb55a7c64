package kernels

// channelsOfStem are those that the last convolution before the LSTM layers takes: a tap of it is a step of the tensor cores.
const channelsOfStem = 16

// What Stem has kernels for.
const (
	mostTaps   = 64
	mostStride = 16
)

// Convolution is one along the samples of a window.
type Convolution struct {
	In, Out, Taps int
	Stride        int
	Left, Right   int       // zeros that it is given before and behind a window
	W             []float32 // [Out, In, Taps], as ONNX has them
	B             []float32 // [Out]
	Activation    Activation
}

// centred reports whether a convolution has as many positions as it is given, in their place.
func (c Convolution) centred() bool {
	return c.Taps > 0 && c.Taps <= mostTaps && c.Taps%2 == 1 && c.Stride == 1 && c.Left == c.Taps/2 && c.Right == c.Taps/2
}

// Stem is the convolutions between a signal and the first LSTM layer: two or three.
type Stem []Convolution

// HasKernel reports whether there is one for these.
func (s Stem) HasKernel() bool {
	if len(s) < 2 || len(s) > 3 || s[0].In != 1 || s[0].Out < 1 || s[0].Out > channelsOfStem {
		return false
	}
	for i, c := range s {
		if i > 0 && c.In != s[i-1].Out || c.Activation != NoActivation && c.Activation != Tanh && c.Activation != SiLU {
			return false
		}
	}
	for _, c := range s[:len(s)-1] {
		if !c.centred() {
			return false
		}
	}
	last := s[len(s)-1]
	return last.In == channelsOfStem && HasWidth(last.Out) && last.Taps > 0 && last.Taps <= mostTaps && last.Stride > 0 && last.Stride <= mostStride &&
		last.Left >= 0 && last.Left < last.Taps && last.Right >= 0 && last.Right < last.Taps
}

// Second returns the taps of the convolution in the middle; 0 where there is none.
func (s Stem) Second() int {
	if len(s) == 3 {
		return s[1].Taps
	}
	return 0
}

// Activations returns those of the first convolution, the second one and the last.
func (s Stem) Activations() [3]Activation {
	return [3]Activation{s[0].Activation, s[len(s)-2].Activation, s[len(s)-1].Activation}
}

// Pack returns the last convolution's weights as the tensor cores take them, with 16 factors for each tap (see [Linear.Pack]), and its biases, as
// many as the columns of the groups; and the others' weights and biases, one behind the other.
func (s Stem) Pack() (weights []uint16, bias, small []float32) {
	last := s[len(s)-1]
	matrix := Linear{Factors: last.Taps * last.In, Columns: last.Out, W: make([]float32, last.Taps*last.In*last.Out)}
	for out := range last.Out {
		for in := range last.In {
			for tap := range last.Taps {
				matrix.W[(tap*last.In+in)*last.Out+out] = last.W[(out*last.In+in)*last.Taps+tap]
			}
		}
	}
	bias = make([]float32, matrix.groups()*columnsOfGroup)
	copy(bias, last.B)
	for _, c := range s[:len(s)-1] {
		small = append(append(small, c.W...), c.B...)
	}
	return matrix.Pack(), bias, small
}
