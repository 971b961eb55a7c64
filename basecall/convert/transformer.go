package convert

import (
	"math"

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
	qkv = g.node("Reshape", []string{qkv, g.integers(0, int64(b.frames), 3, int64(l.heads), int64(width))})
	qkv = g.node("Transpose", []string{qkv}, integers("perm", 2, 0, 3, 1, 4)) // [3,N,H,T,D]
	var each [3]string
	for i, part := range g.nodes("Split", []string{qkv}, 3, integer("axis", 0)) {
		each[i] = g.node("Squeeze", []string{part, g.integers(0)})
	}
	q, k, v := l.rotate(b, each[0]), l.rotate(b, each[1]), each[2]

	q = g.node("Mul", []string{q, g.weights([]float32{float32(1 / math.Sqrt(float64(width)))})})
	k = g.node("Transpose", []string{k}, integers("perm", 0, 1, 3, 2))
	scores := g.node("Add", []string{g.node("MatMul", []string{q, k}), b.mask})
	x := g.node("MatMul", []string{g.node("Softmax", []string{scores}, integer("axis", -1)), v})
	x = g.node("Transpose", []string{x}, integers("perm", 0, 2, 1, 3))
	x = g.node("Reshape", []string{x, g.integers(0, int64(b.frames), int64(l.width))})
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
	b.mask = b.g.weights(mask, frames, frames)
	b.cos, b.sin = b.g.weights(cos, frames, half), b.g.weights(sin, frames, half)
}

// rotate turns each pair of channels, one from either half, by its frame's angle.
func (l transformerLayer) rotate(b *builder, x string) string {
	g := b.g
	halves := g.nodes("Split", []string{x}, 2, integer("axis", -1))
	mul := func(x, y string) string { return g.node("Mul", []string{x, y}) }
	first := g.node("Sub", []string{mul(halves[0], b.cos), mul(halves[1], b.sin)})
	second := g.node("Add", []string{mul(halves[1], b.cos), mul(halves[0], b.sin)})
	return g.node("Concat", []string{first, second}, integer("axis", -1))
}

func (l transformerLayer) feedForward(b *builder) (string, error) {
	g := b.g
	both, err := b.linear(b.x, l.at, "ff.fc1", l.width, 2*l.hidden, false)
	if err != nil {
		return "", err
	}
	parts := g.nodes("Split", []string{both}, 2, integer("axis", -1))
	data, gate := parts[0], parts[1]
	gate = g.node("Mul", []string{gate, g.node("Sigmoid", []string{gate})})
	return b.linear(g.node("Mul", []string{gate, data}), l.at, "ff.fc2", l.hidden, l.width, false)
}

// addAndNormalise adds a value to alpha times the current one and normalises the
// sum. Squares of float16 would overflow, so this is computed in float32.
func (l transformerLayer) addAndNormalise(b *builder, y, norm string) error {
	weight, err := b.parameters.get(l.at, norm+".weight", l.width)
	if err != nil {
		return err
	}
	g := b.g
	x := g.node("Add", []string{y, g.node("Mul", []string{b.x, g.weights([]float32{float32(l.alpha)})})})
	if g.half {
		x = g.cast(x, onnxpb.TensorProto_FLOAT)
	}
	mean := g.node("ReduceMean", []string{g.node("Mul", []string{x, x})}, integers("axes", -1), integer("keepdims", 1))
	root := g.node("Sqrt", []string{g.node("Add", []string{mean, g.float32s([]float32{rmsNormEpsilon})})})
	x = g.node("Div", []string{x, root})
	if g.half {
		x = g.cast(x, onnxpb.TensorProto_FLOAT16)
	}
	b.x = g.node("Mul", []string{x, g.weights(weight, l.width)})
	return nil
}
