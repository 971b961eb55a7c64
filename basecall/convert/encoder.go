package convert

import (
	"fmt"
	"slices"
	"strconv"
)

// encoder is a network's layers in order.
type encoder struct {
	layers []layer
	// The last layer with parameters, which says how scores are decoded: one of the two.
	crf *crfLayer
	ctc *ctcLayer
}

// layer is one layer, by its settings.
type layer interface {
	// build adds the layer to a network.
	build(b *builder) error
}

// The layers. at is the prefix of a layer's parameters, which is its place in
// Bonito's modules: "0", or "conv.0".
type (
	convLayer struct {
		at                     string
		in, out, width, stride int
		bias, normalised       bool
		activation             string
	}
	clampLayer   struct{ low, high float64 }
	permuteLayer struct{ dims []int }
	lstmLayer    struct {
		at              string
		in, out         int
		bias, backwards bool
	}
	// flstmLayer is an LSTM whose matrices are products of two thin ones, and whose gates
	// have straight lines for activations.
	flstmLayer struct {
		at              string
		in, out, inner  int
		bias, backwards bool
	}
	linearLayer struct {
		at      string
		in, out int
		bias    bool
	}
	// blockLayer is one of QuartzNet's blocks: convolutions one after the other, with the
	// activation behind each. What enters is convolved with residual, unless that is nil,
	// and added before the last activation.
	blockLayer struct {
		convs      []blockConv
		residual   *blockConv
		activation string
	}
	// ctcLayer gives the logarithms of the probabilities of the blank and the bases.
	ctcLayer struct {
		at          string
		in, classes int
	}
	activationLayer struct{ kind string }
	upsampleLayer   struct {
		at            string
		width, factor int
	}
	transformerLayer struct {
		at                   string
		width, heads, hidden int
		alpha                float64 // of the residual (DeepNorm)
		left, right          int     // frames that attention reaches to either side; -1 for all
		theta                float64 // of the rotary embedding
	}
	crfLayer struct {
		at          string
		in          int
		stateLength int
		bias        bool
		scale       float64 // 1 for none
		activation  string
		permute     bool
		stayScore   *float32 // nil if the network scores stays
	}
)

// blockConv is a convolution without bias, and batch normalisation. A separable one
// convolves each channel by itself before it mixes them frame by frame.
type blockConv struct {
	at, norm                         string
	in, out, width, stride, dilation int
	separable                        bool
}

// parts are the names of the parts of a transformer's encoder, in order.
var parts = []string{"conv", "transformer_encoder", "upsample", "crf"}

// parseEncoder reads the network's layers, in any of the three forms.
func parseEncoder(top settings) encoder {
	p := &parser{}
	s := top.sub("encoder")
	if !top.has("encoder") {
		s = top.sub("model").sub("encoder")
	}
	switch kind := s.text("type"); kind {
	case "":
		p.table(s, top.sub("global_norm").size("state_len", required))
	case "serial":
		p.serial(s, "")
	case "namedserial":
		for _, name := range parts {
			if s.has(name) {
				p.layer(s.sub(name), name)
			}
		}
		s.done()
	default:
		s.fail("layer %q is not supported", kind)
	}
	if p.encoder.crf == nil && len(*top.errs) == 0 {
		s.fail("it has no linearcrfencoder: only CRF models are converted from lists of layers")
	}
	return p.encoder
}

// maxConvolutions bounds the convolutions of all blocks. QuartzNet has up to 80.
const maxConvolutions = 1000

// parseBlocks reads the layers of a network before CTC-CRF, QuartzNet's: a list of
// blocks, and behind them a layer that no setting describes.
func parseBlocks(top settings) encoder {
	p := &parser{}
	e := top.sub("encoder")
	activation := activationOf(e)
	if activation != "swish" && activation != "relu" {
		e.fail("activation = %q is neither swish nor relu, which networks of blocks have", activation)
	}
	e.done()
	in, convolutions := 1, 0
	for i, s := range top.tables("block") {
		out, repeat, separable := s.size("filters", required), s.size("repeat", 1), s.flag("separable", false)
		width, stride, dilation := s.single("kernel"), s.single("stride"), s.single("dilation")
		residual := s.flag("residual", false)
		s.number("dropout", 0) // for training only
		s.done()
		switch convolutions += repeat; {
		case convolutions > maxConvolutions:
			s.fail("more than %d convolutions", maxConvolutions)
			return p.encoder
		case width%2 == 0:
			s.fail("kernel = [%d] is not supported, only an odd one", width)
		case stride > 1 && (dilation > 1 || repeat > 1 || separable || residual):
			s.fail("stride = [%d] with dilation, repetition, residual or separable convolutions is not supported", stride)
		}
		at := "encoder." + strconv.Itoa(i)
		block := blockLayer{activation: activation}
		for k := range repeat {
			from := in
			if k > 0 {
				from = out
			}
			// Between two convolutions are normalisation, activation and dropout.
			block.convs = append(block.convs, blockConv{
				at: at + ".conv." + strconv.Itoa(4*k), norm: at + ".conv." + strconv.Itoa(4*k+1),
				in: from, out: out, width: width, stride: stride, dilation: dilation, separable: separable,
			})
		}
		if residual {
			block.residual = &blockConv{at: at + ".residual.0", norm: at + ".residual.1", in: in, out: out, width: 1, stride: 1, dilation: 1}
		}
		p.encoder.layers = append(p.encoder.layers, block)
		in = out
	}
	p.encoder.ctc = &ctcLayer{at: "decoder.layers.0", in: in, classes: 5}
	p.encoder.layers = append(p.encoder.layers, p.encoder.ctc)
	return p.encoder
}

// parser collects layers.
type parser struct{ encoder encoder }

func (p *parser) add(s settings, l layer) {
	if p.encoder.crf != nil {
		if _, isClamp := l.(clampLayer); !isClamp {
			s.fail("a layer other than clamp follows the linearcrfencoder")
		}
	}
	p.encoder.layers = append(p.encoder.layers, l)
	if crf, is := l.(*crfLayer); is {
		p.encoder.crf = crf
	}
}

// serial adds the sublayers of a table.
func (p *parser) serial(s settings, at string) {
	for i, sub := range s.tables("sublayers") {
		p.layer(sub, join(at, i))
	}
	s.done()
}

// join returns the name of a numbered part.
func join(at string, i int) string {
	if at == "" {
		return strconv.Itoa(i)
	}
	return at + "." + strconv.Itoa(i)
}

// layer adds one layer, or the layers within it.
func (p *parser) layer(s settings, at string) {
	switch kind := s.text("type"); kind {
	case "serial":
		p.serial(s, at)
		return
	case "stack":
		depth := s.size("depth", required)
		if depth > 1000 {
			s.fail("depth = %d is more than 1000", depth)
			return
		}
		// Every layer of a stack has the same settings.
		for i := range depth {
			sub := s.sub("layer")
			p.layer(sub, join(at, i))
			if len(*s.errs) > 0 {
				return
			}
		}
	case "convolution":
		p.convolution(s, at)
	case "clamp":
		p.add(s, clampLayer{s.number("min", required), s.number("max", required)})
	case "permute":
		p.add(s, permuteLayer{s.list("dims")})
	case "lstm":
		p.add(s, lstmLayer{at, s.size("insize", required), s.size("size", required), s.flag("bias", true), s.flag("reverse", false)})
	case "flstm", "flstm_softout": // sources of Dorado 1.4 say the first, and a program that runs hac v6.0 the second
		p.add(s, flstmLayer{
			at, s.size("insize", required), s.size("size", required), s.size("inner_dim", required),
			s.flag("bias", true), s.flag("reverse", false),
		})
	case "linear":
		p.add(s, linearLayer{at, s.size("in_features", required), s.size("out_features", required), s.flag("bias", true)})
	case "swish", "tanh", "relu":
		p.add(s, activationLayer{kind})
	case "linearupsample":
		if !s.flag("batch_first", true) {
			s.fail("batch_first = false is not supported")
		}
		p.add(s, upsampleLayer{at, s.size("d_model", required), s.size("scale_factor", required)})
	case "transformerencoderlayer":
		p.transformer(s, at)
	case "linearcrfencoder":
		p.crf(s, at)
	case "":
		s.fail("type is missing")
		return
	default:
		s.fail("layer %q is not supported", kind)
		return
	}
	s.done()
}

func (p *parser) convolution(s settings, at string) {
	c := convLayer{
		at: at, in: s.size("insize", required), out: s.size("size", required),
		width: s.size("winlen", required), stride: s.size("stride", 1),
		bias: s.flag("bias", true), activation: activationOf(s),
	}
	// Only this padding makes frames of stride samples each.
	if padding := s.number("padding", 0); c.width%2 == 0 || int(padding) != c.width/2 {
		s.fail("winlen = %d with padding = %v is not supported, only an odd winlen with half of it", c.width, padding)
	}
	switch norm := s.get("norm").(type) {
	case nil:
	case string:
		c.normalised = true
		if norm != "batchnorm" {
			s.fail("norm = %q is not supported", norm)
		}
	case map[string]any:
		c.normalised = true
		n := s.sub("norm")
		if kind := n.text("type"); kind != "batchnorm" {
			n.fail("norm %q is not supported", kind)
		}
		if eps := n.number("eps", batchNormEpsilon); eps != batchNormEpsilon {
			n.fail("eps = %v is not supported", eps)
		}
		if !n.flag("affine", true) || !n.flag("track_running_stats", true) {
			n.fail("batch normalisation without parameters or running statistics is not supported")
		}
	default:
		s.fail("norm = %v is not supported", norm)
	}
	p.add(s, c)
}

// activationOf returns a layer's activation; empty for none.
func activationOf(s settings) string {
	activation := s.text("activation")
	if !slices.Contains([]string{"", "swish", "tanh", "relu"}, activation) {
		s.fail("activation = %q is not supported", activation)
	}
	return activation
}

func (p *parser) transformer(s settings, at string) {
	l := transformerLayer{
		at: at, width: s.size("d_model", required), heads: s.size("nhead", required),
		hidden: s.size("dim_feedforward", required), alpha: s.number("deepnorm_alpha", required),
		left: -1, right: -1, theta: 10000,
	}
	s.get("deepnorm_beta") // for initial weights only
	s.get("max_seq_len")   // a bound of Dorado's memory
	for _, key := range []string{"theta", "rotary_base"} {
		l.theta = s.number(key, l.theta)
	}
	if l.width%(2*l.heads) != 0 {
		s.fail("d_model = %d is not a multiple of twice nhead = %d", l.width, l.heads)
	}
	if !(l.theta > 1) {
		s.fail("the base of rotary embedding, %v, is not above 1", l.theta)
	}
	if window := s.list("attn_window"); window != nil {
		if len(window) != 2 {
			s.fail("attn_window = %v is not two numbers", window)
			return
		}
		l.left, l.right = window[0], window[1]
	}
	p.add(s, l)
}

func (p *parser) crf(s settings, at string) {
	l := &crfLayer{
		at: at, in: s.size("insize", required), stateLength: s.size("state_len", required),
		bias: s.flag("bias", true), scale: s.number("scale", 1), activation: activationOf(s),
	}
	if bases := s.size("n_base", required); bases != 4 {
		s.fail("n_base = %d is not 4", bases)
	}
	if l.stateLength > 6 {
		s.fail("state_len = %d is more than 6", l.stateLength)
		l.stateLength = 6
	}
	s.flag("expand_blanks", true) // whether fixed stays are written out: the decoder knows them
	if s.has("blank_score") {
		score := float32(s.number("blank_score", required))
		l.stayScore = &score
	}
	if permute := s.list("permute"); permute != nil {
		l.permute = true
		if !slices.Equal(permute, []int{1, 0, 2}) {
			s.fail("permute = %v is not supported", permute)
		}
	}
	p.add(s, l)
}

// table adds the layers of the oldest form, which Bonito's rnn_encoder makes of a
// few sizes.
func (p *parser) table(s settings, stateLength int) {
	features, first := s.size("features", required), s.size("first_conv_size", 4)
	activation := activationOf(s)
	if activation == "" {
		activation = "swish"
	}
	if kind := s.text("rnn_type"); kind != "lstm" && kind != "" {
		s.fail("rnn_type = %q is not supported", kind)
	}
	normalised := s.has("norm")
	if norm := s.text("norm"); norm != "" && norm != "batchnorm" {
		s.fail("norm = %q is not supported", norm)
	}
	width := s.size("winlen", 19)
	if width%2 == 0 {
		s.fail("winlen = %d is not odd", width)
	}
	stride, layers := s.size("stride", 5), s.size("num_layers", 5)
	crf := &crfLayer{in: features, stateLength: min(stateLength, 6), bias: true, scale: s.number("scale", 5), activation: "tanh"}
	if stateLength > 6 {
		s.fail("state_len = %d is more than 6", stateLength)
	}
	if s.has("blank_score") {
		score := float32(s.number("blank_score", required))
		crf.stayScore = &score
	}
	s.flag("expand_blanks", true)
	s.done()
	if layers > 1000 {
		s.fail("num_layers = %d is more than 1000", layers)
		return
	}

	conv := func(i, in, out, width, stride int) layer {
		return convLayer{
			at: join("", i), in: in, out: out, width: width, stride: stride, bias: true,
			normalised: normalised, activation: activation,
		}
	}
	p.add(s, conv(0, 1, first, 5, 1))
	p.add(s, conv(1, first, 16, 5, 1))
	p.add(s, conv(2, 16, features, width, stride))
	p.add(s, permuteLayer{[]int{2, 0, 1}})
	for i := range layers {
		p.add(s, lstmLayer{join("", 4+i), features, features, true, (layers-i)%2 == 1})
	}
	crf.at = join("", 4+layers)
	p.add(s, crf)
}

// stride returns the number of samples per frame of scores, and of what the
// convolutions make, the larger of the two.
func (e encoder) stride() (frame, inner int, err error) {
	frame = 1
	for _, l := range e.layers {
		switch l := l.(type) {
		case convLayer:
			if frame *= l.stride; frame > 1000 {
				return 0, 0, fmt.Errorf("frames of %d samples are longer than 1000", frame)
			}
			inner = frame
		case blockLayer:
			// Only a block's first convolution may have a stride.
			if frame *= l.convs[0].stride; frame > 1000 {
				return 0, 0, fmt.Errorf("frames of %d samples are longer than 1000", frame)
			}
			inner = frame
		case upsampleLayer:
			if frame%l.factor != 0 {
				return 0, 0, fmt.Errorf("frames of %d samples can't be divided by %d", frame, l.factor)
			}
			frame /= l.factor
		}
	}
	return frame, max(inner, 1), nil
}
