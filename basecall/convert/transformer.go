package convert

import (
	"math"

	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// rmsNormEpsilon is added to the mean of squares, as in Dorado and in the
// networks' training.
const rmsNormEpsilon = 1e-5

// masked is added to the attention between frames out of each other's reach. Its
// exponential is zero in float16 too, where it is still a finite number.
const masked = -10000

// build adds an encoder layer: attention with rotary embedding (Su et al. 2021) over
// a window of frames, and a gated feed-forward layer (SwiGLU, Shazeer 2020), each
// added to alpha times its input and normalised after that (DeepNorm, Wang et al. 2022; root
// mean square, Zhang and Sennrich 2019).
func (l transformerLayer) build(b *builder) error {
	if b.layout != layoutNTC {
		return errLayout
	}
	if err := b.expect(l.width); err != nil {
		return err
	}
	attended, err := l.attention(b)
	if err != nil {
		return err
	}
	if err := l.addAndNormalise(b, attended, "norm1"); err != nil {
		return err
	}
	fed, err := l.feedForward(b)
	if err != nil {
		return err
	}
	return l.addAndNormalise(b, fed, "norm2")
}

// attention returns the output of self-attention. Axes are N, T, then heads and
// their width, until heads come before time.
func (l transformerLayer) attention(b *builder) (string, error) {
	g := b.g
	if b.mask == "" {
		l.constants(b)
	}
	width := l.width / l.heads
	qkv, err := b.linear(b.x, l.at, "self_attn.Wqkv", l.width, 3*l.width, false)
	if err != nil {
		return "", err
	}
	qkv = g.Node("Reshape", []string{qkv, g.Integers(0, int64(b.frames), 3, int64(l.heads), int64(width))})
	qkv = g.Node("Transpose", []string{qkv}, onnxgraph.Integers("perm", 2, 0, 3, 1, 4)) // [3,N,H,T,D]
	var each [3]string
	for i, part := range g.Nodes("Split", []string{qkv}, 3, onnxgraph.Integer("axis", 0)) {
		each[i] = g.Node("Squeeze", []string{part, g.Integers(0)})
	}
	q, k, v := l.rotate(b, each[0]), l.rotate(b, each[1]), each[2]

	q = g.Node("Mul", []string{q, g.Weights([]float32{float32(1 / math.Sqrt(float64(width)))})})
	k = g.Node("Transpose", []string{k}, onnxgraph.Integers("perm", 0, 1, 3, 2))
	scores := g.Node("Add", []string{g.Node("MatMul", []string{q, k}), b.mask})
	x := g.Node("MatMul", []string{g.Node("Softmax", []string{scores}, onnxgraph.Integer("axis", -1)), v})
	x = g.Node("Transpose", []string{x}, onnxgraph.Integers("perm", 0, 2, 1, 3))
	x = g.Node("Reshape", []string{x, g.Integers(0, int64(b.frames), int64(l.width))})
	return b.linear(x, l.at, "self_attn.out_proj", l.width, l.width, true)
}

// constants adds the mask of attention and the angles of rotary embedding, which all
// layers of a network share.
func (l transformerLayer) constants(b *builder) {
	frames, half := b.frames, l.width/l.heads/2
	mask := make([]float32, frames*frames)
	for q := range frames {
		for k := range frames {
			if l.left >= 0 && k < q-l.left || l.right >= 0 && k > q+l.right {
				mask[q*frames+k] = masked
			}
		}
	}
	cos, sin := make([]float32, frames*half), make([]float32, frames*half)
	for t := range frames {
		for i := range half {
			angle := float64(t) * math.Pow(l.theta, -float64(i)/float64(half))
			cos[t*half+i], sin[t*half+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	b.mask = b.g.Weights(mask, frames, frames)
	b.cos, b.sin = b.g.Weights(cos, frames, half), b.g.Weights(sin, frames, half)
}

// rotate turns each pair of channels, one from either half, by its frame's angle.
func (l transformerLayer) rotate(b *builder, x string) string {
	g := b.g
	halves := g.Nodes("Split", []string{x}, 2, onnxgraph.Integer("axis", -1))
	mul := func(x, y string) string { return g.Node("Mul", []string{x, y}) }
	first := g.Node("Sub", []string{mul(halves[0], b.cos), mul(halves[1], b.sin)})
	second := g.Node("Add", []string{mul(halves[1], b.cos), mul(halves[0], b.sin)})
	return g.Node("Concat", []string{first, second}, onnxgraph.Integer("axis", -1))
}

func (l transformerLayer) feedForward(b *builder) (string, error) {
	g := b.g
	both, err := b.linear(b.x, l.at, "ff.fc1", l.width, 2*l.hidden, false)
	if err != nil {
		return "", err
	}
	parts := g.Nodes("Split", []string{both}, 2, onnxgraph.Integer("axis", -1))
	data, gate := parts[0], parts[1]
	gate = g.Node("Mul", []string{gate, g.Node("Sigmoid", []string{gate})})
	return b.linear(g.Node("Mul", []string{gate, data}), l.at, "ff.fc2", l.hidden, l.width, false)
}

// addAndNormalise adds a value to alpha times the current one and normalises the
// sum. Squares of float16 would overflow, so this is computed in float32.
func (l transformerLayer) addAndNormalise(b *builder, y, norm string) error {
	weight, err := b.parameters.get(l.at, norm+".weight", l.width)
	if err != nil {
		return err
	}
	g := b.g
	x := g.Node("Add", []string{y, g.Node("Mul", []string{b.x, g.Weights([]float32{float32(l.alpha)})})})
	if g.Half {
		x = g.Cast(x, onnxpb.TensorProto_FLOAT)
	}
	mean := g.Node("ReduceMean", []string{g.Node("Mul", []string{x, x})}, onnxgraph.Integers("axes", -1), onnxgraph.Integer("keepdims", 1))
	root := g.Node("Sqrt", []string{g.Node("Add", []string{mean, g.Float32s([]float32{rmsNormEpsilon})})})
	x = g.Node("Div", []string{x, root})
	if g.Half {
		x = g.Cast(x, onnxpb.TensorProto_FLOAT16)
	}
	b.x = g.Node("Mul", []string{x, g.Weights(weight, l.width)})
	return nil
}
