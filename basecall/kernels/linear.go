package kernels

// Activation is what a layer makes of its sums: the operators' attribute of that name.
type Activation int64

// The activations, as the operators number them.
const (
	NoActivation Activation = iota
	Tanh                    // times a factor
	Clamp
	SiLU
)

// columnsOfGroup are the columns that a warp has at a time.
const columnsOfGroup = 32

// mostScores is of a frame: a CRF of five bases with scores of staying has fewer.
const mostScores = 8192

// HasHead reports whether there is a kernel for the layer before a decoder, from states of a width to scores.
func HasHead(width, scores int) bool {
	return HasWidth(width) && scores > 0 && scores <= mostScores && scores%columnsOfGroup == 0
}

// Linear is a matrix that a layer multiplies rows by.
type Linear struct {
	Factors, Columns int
	W                []float32 // [Factors, Columns]
}

// groups is how many the columns are divided into, of which the last needn't be full.
func (l Linear) groups() int { return (l.Columns + columnsOfGroup - 1) / columnsOfGroup }

// Pack returns the weights as the tensor cores take them, those of [LSTM.Pack] but for the columns. A group has 32 of them as four
// matrices, so dealt out that the thread which is given the sums 2q and 2q+1 of each matrix has the columns 8q to 8q+7, which it writes at
// once. In their order the weights are [group][16 factors][two matrices][lane][8]. Factors are a multiple of 16; columns that
// the last group has too many are zeros.
func (l Linear) Pack() []uint16 {
	groups, steps := l.groups(), l.Factors/16
	weights := make([]uint16, 0, groups*columnsOfGroup*l.Factors)
	for group := range groups {
		for step := range steps {
			weights = packStep(weights, func(matrix, column, factor int) float32 {
				c := columnsOfGroup*group + 8*(column/2) + 2*matrix + column%2
				if c >= l.Columns {
					return 0
				}
				return l.W[(16*step+factor)*l.Columns+c]
			})
		}
	}
	return weights
}
