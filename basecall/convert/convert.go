package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
)

// Options say what a model's folder doesn't. Zero values take it from there.
type Options struct {
	// Name is the converted model's; empty takes the folder's.
	Name string
	// Chemistry is the pore that the model is for, such as "r10.4.1"; empty goes by the
	// folder's name.
	Chemistry string
	// SampleRate is in Hz; 0 goes by the configuration, or else by the folder's name.
	SampleRate int
}

// Names of the files and of the ends of a converted model.
const (
	networkFile = "model.onnx"
	halfFile    = "model.half.onnx"
	inputName   = "signal"
	outputName  = "scores"
)

// What Dorado decodes every model with.
const (
	beamWidth = 32
	beamCut   = 100
)

// What Bonito decoded the networks before CTC-CRF with.
const (
	ctcBeamWidth = 5
	ctcBeamCut   = 1e-3
)

// Convert reads a model of Bonito or Dorado from a folder. The result can be
// used at once, or saved by its Save method.
func Convert(dir string, opts Options) (*basecall.Model, error) {
	name, err := NameOf(dir)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", dir, err)
	}
	model, err := convert(dir, name, opts)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", dir, err)
	}
	return model, nil
}

func convert(dir, folder string, opts Options) (*basecall.Model, error) {
	cfg, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	model := &basecall.Model{}
	if model.Manifest, err = cfg.manifest(folder, opts); err != nil {
		return nil, err
	}
	parameters, err := readParameters(dir, cfg.encoder)
	if err != nil {
		return nil, err
	}
	m := &model.Manifest
	if model.Network, err = buildNetwork(cfg.encoder, parameters, m, false); err != nil {
		return nil, err
	}
	m.Network.SHA256 = checksum(model.Network)
	if cfg.encoder.ctc != nil {
		// In half precision probabilities of the network for R9.4.1 were up to 0.13 off: its
		// many layers have nothing that holds their values within bounds.
		return model, nil
	}
	if model.Half, err = buildNetwork(cfg.encoder, parameters, m, true); err != nil {
		return nil, err
	}
	m.Network.HalfFile, m.Network.HalfSHA256 = halfFile, checksum(model.Half)
	return model, nil
}

// Is reports whether a folder holds a model as Bonito or Dorado have it: a configuration
// and parameters. Whether these are right is seen when it is converted.
func Is(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	configured, weighted := false, false
	for _, entry := range entries {
		configured = configured || entry.Name() == configFile
		weighted = weighted || entry.Name() != configFile && Reads(entry.Name())
	}
	return configured && weighted
}

// Reads reports whether a file of that name in a model's folder is read.
func Reads(name string) bool {
	return name == configFile || strings.HasSuffix(name, tensorSuffix) || weightsFile.MatchString(name)
}

// Describe returns the manifest that a model in a folder would be converted with, but for
// what depends on its parameters, which are not read.
func Describe(dir string, opts Options) (basecall.Manifest, error) {
	name, err := NameOf(dir)
	if err != nil {
		return basecall.Manifest{}, fmt.Errorf("describing %s: %w", dir, err)
	}
	cfg, err := readConfig(dir)
	if err != nil {
		return basecall.Manifest{}, err
	}
	return cfg.manifest(name, opts)
}

// NameOf returns the name of the model in a folder, which is the folder's. A link to a folder that says less than the
// folder's own name, such as hac, stands for that.
func NameOf(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := filepath.Base(abs)
	if pore, _ := Named(name); pore != "" {
		return name, nil
	}
	if target, err := filepath.EvalSymlinks(abs); err == nil {
		if pore, _ := Named(filepath.Base(target)); pore != "" {
			return filepath.Base(target), nil
		}
	}
	return name, nil
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// buildNetwork returns the ONNX file of an encoder, and sets the layout of its output in
// the manifest.
func buildNetwork(e encoder, p *parameters, m *basecall.Manifest, half bool) ([]byte, error) {
	g := onnxgraph.New(m.Name, half)
	b := &builder{g: g, parameters: p, x: inputName, layout: layoutNCT, channels: 1, frames: m.Window.Samples}
	if half {
		b.x = g.Cast(b.x, onnxpb.TensorProto_FLOAT16)
	}
	for i, l := range e.layers {
		if err := l.build(b); err != nil {
			return nil, fmt.Errorf("layer %d (%s): %w", i, layerName(l), err)
		}
	}
	if b.layout == layoutNCT {
		return nil, fmt.Errorf("the network's output is in the order %s, neither %s nor %s", b.layout, layoutNTC, layoutTNC)
	}
	if want := m.Window.Samples / m.Network.Stride; b.frames != want {
		return nil, fmt.Errorf("the network makes %d frames of a window of %d samples, not %d", b.frames, m.Window.Samples, want)
	}
	// A cast to what it is already costs nothing, and names the output.
	last := &onnxpb.NodeProto{
		Name: outputName, OpType: "Cast", Input: []string{b.x}, Output: []string{outputName},
		Attribute: []*onnxpb.AttributeProto{onnxgraph.Integer("to", int64(onnxpb.TensorProto_FLOAT))},
	}
	g.PB.Node = append(g.PB.Node, last)
	// Attention has the window's length in its constants; all others leave it open.
	var samples, frames any = "samples", "frames"
	if b.mask != "" {
		samples, frames = m.Window.Samples, b.frames
	}
	g.PB.Input = []*onnxpb.ValueInfoProto{onnxgraph.End(inputName, onnxpb.TensorProto_FLOAT, "batch", 1, samples)}
	m.Network.OutputLayout = b.layout
	if b.layout == layoutNTC {
		g.PB.Output = []*onnxpb.ValueInfoProto{onnxgraph.End(outputName, onnxpb.TensorProto_FLOAT, "batch", frames, b.channels)}
	} else {
		g.PB.Output = []*onnxpb.ValueInfoProto{onnxgraph.End(outputName, onnxpb.TensorProto_FLOAT, frames, "batch", b.channels)}
	}
	return g.Marshal()
}

// layerName names a layer as configurations do.
func layerName(l layer) string {
	switch l := l.(type) {
	case convLayer:
		return "convolution"
	case clampLayer:
		return "clamp"
	case permuteLayer:
		return "permute"
	case lstmLayer:
		return "lstm"
	case flstmLayer:
		return "flstm"
	case linearLayer:
		return "linear"
	case upsampleLayer:
		return "linearupsample"
	case transformerLayer:
		return "transformerencoderlayer"
	case *crfLayer:
		return "linearcrfencoder"
	case blockLayer:
		return "block"
	case *ctcLayer:
		return "decoder"
	case activationLayer:
		return l.kind
	}
	return fmt.Sprintf("%T", l)
}

// manifest returns what a configuration and the folder's name say of a model.
func (c *config) manifest(folder string, opts Options) (basecall.Manifest, error) {
	stride, inner, err := c.encoder.stride()
	if err != nil {
		return basecall.Manifest{}, err
	}
	name := opts.Name
	if name == "" {
		name = folder
	}
	m := basecall.Manifest{
		Format: 1, Name: name, Version: versionOf(folder),
		Description: "Converted from " + folder, ConvertedFrom: folder,
		Network: basecall.NetworkManifest{
			File: networkFile, Input: inputName, Output: outputName, Scores: c.encoder.scores(), Stride: stride,
		},
		// As Bonito does: whole frames, of which half an overlap is some.
		Window:    basecall.WindowManifest{Samples: c.chunk - c.chunk%inner, Overlap: c.overlap - c.overlap%(2*stride)},
		Decoder:   c.encoder.decoder(),
		Qualities: basecall.QualityManifest{Scale: c.qScale, Bias: c.qBias, MeanStart: c.meanQualityStart},
	}
	if m.Window.Samples == 0 || 2*m.Window.Overlap > m.Window.Samples {
		return basecall.Manifest{}, fmt.Errorf("%s: basecaller.chunksize = %d with overlap = %d is no window of frames of %d samples",
			configFile, c.chunk, c.overlap, stride)
	}
	if m.Chemistry, err = chemistry(folder, opts.Chemistry, c.sampleType); err != nil {
		return basecall.Manifest{}, err
	}
	switch rate := cmp.Or(opts.SampleRate, c.sampleRate); {
	case rate == 3000 && m.Chemistry == "rna002":
		m.SampleRates = ratesOfRNA002()
	case rate != 0:
		m.SampleRates = []int{rate}
	default:
		if m.SampleRates = sampleRatesOf(folder); m.SampleRates == nil {
			return basecall.Manifest{}, fmt.Errorf("neither %s nor the folder's name says the sample rate: convert it by pore model convert --sample-rate", configFile)
		}
	}
	m.Normalisation = c.scaling.manifest(folder)
	return m, nil
}

// decoder returns how the network's scores become bases.
func (e encoder) decoder() basecall.DecoderManifest {
	d := basecall.DecoderManifest{Labels: []string{"", "A", "C", "G", "T"}}
	if e.ctc != nil {
		d.Type, d.BeamWidth, d.BeamCut = "ctc", ctcBeamWidth, ctcBeamCut
		return d
	}
	d.Type, d.BeamWidth, d.BeamCut = "crf", beamWidth, beamCut
	d.StateLength, d.StayScore = e.crf.stateLength, e.crf.stayScore
	return d
}

// scores returns what the network's scores are, as manifests say it.
func (e encoder) scores() string {
	if e.ctc != nil {
		return "log_probabilities"
	}
	return "transitions"
}

// manifest returns how current is scaled. Where the configuration doesn't say, R9.4.1
// models take median and MAD, and all others quantiles, as in Dorado.
func (s scaling) manifest(folder string) basecall.NormalisationManifest {
	switch strategy := s.strategy; {
	case strategy == "pa":
		return basecall.NormalisationManifest{Method: "pa", Mean: s.mean, StdDev: s.stdev}
	case strategy == "med_mad", strategy == "" && strings.HasPrefix(folder, "dna_r9.4.1"):
		return basecall.NormalisationManifest{Method: "med_mad"}
	}
	return basecall.NormalisationManifest{
		Method: "quantile", QuantileA: s.quantileA, QuantileB: s.quantileB,
		ShiftMultiplier: s.shiftMultiplier, ScaleMultiplier: s.scaleFactor,
	}
}

var version = regexp.MustCompile(`@v(\d+(?:\.\d+)*)`)

// versionOf returns the version in the name of a model, such as
// dna_r10.4.1_e8.2_400bps_hac@v5.0.0; empty if there is none.
func versionOf(folder string) string {
	if m := version.FindStringSubmatch(folder); m != nil {
		return m[1]
	}
	return ""
}

// Named returns what the name of a model's folder says: the chemistry, as package signal names it, and the sample rate in Hz.
// Both are empty where it doesn't say.
func Named(folder string) (pore string, sampleRate int) {
	pore, _ = chemistry(folder, "", "") // the error says that it isn't there
	if rates := sampleRatesOf(folder); rates != nil {
		sampleRate = rates[0]
	}
	return pore, sampleRate
}

// chemistry returns the pore or the kind of RNA that a model is for, as package signal
// names it: what was chosen, or else what the folder's name begins with, or its
// configuration says. What is for DNA isn't taken for RNA, or the other way round.
func chemistry(folder, chosen, sampleType string) (string, error) {
	named := ""
	for _, known := range []struct{ prefix, chemistry string }{
		{"dna_r10.4.1", "r10.4.1"}, {"dna_r10.4", "r10.4"}, {"dna_r10.3", "r10.3"}, {"dna_r9.4", "r9.4"},
		{"rna002", "rna002"}, {"rna004", "rna004"},
	} {
		if named == "" && strings.HasPrefix(folder, known.prefix) {
			named = known.chemistry
		}
	}
	result := cmp.Or(chosen, named)
	if result == "" && isRNA(sampleType) {
		result = sampleType
	}
	switch {
	case result == "":
		return "", fmt.Errorf("the folder's name %q doesn't begin with a chemistry, as dna_r10.4.1_e8.2_400bps_hac@v5.0.0 does: convert it by pore model convert --chemistry", folder)
	case sampleType != "" && isRNA(sampleType) != isRNA(result):
		return "", fmt.Errorf("it is not for %s: its configuration says sample_type = %q", result, sampleType)
	case named != "" && isRNA(named) != isRNA(result):
		return "", fmt.Errorf("it is not for %s: its folder's name is %q", result, folder)
	}
	return result, nil
}

func isRNA(chemistry string) bool { return strings.HasPrefix(chemistry, "rna") }

// fiveKilohertz are the versions of models for R10.4.1 that are all for 5 kHz.
var fiveKilohertz = regexp.MustCompile(`^(4\.[23]|[56])(\.|$)`)

// sampleRatesOf returns the rates that a model is for whose configuration doesn't say: before
// v4.2 that was 4 kHz, and 5 kHz since, if the name doesn't say otherwise. nil is unknown.
func sampleRatesOf(folder string) []int {
	switch v := versionOf(folder); {
	case strings.HasPrefix(folder, "rna002"):
		return ratesOfRNA002()
	case strings.Contains(folder, "5khz"):
		return []int{5000}
	case strings.Contains(folder, "4khz"), strings.HasPrefix(folder, "dna_r9.4"), strings.HasPrefix(folder, "rna004"),
		strings.HasPrefix(v, "3."), v == "4" || strings.HasPrefix(v, "4.0"), strings.HasPrefix(v, "4.1"):
		return []int{4000}
	case strings.HasPrefix(folder, "dna_r10.4.1") && fiveKilohertz.MatchString(v):
		return []int{5000}
	}
	return nil
}

// ratesOfRNA002 returns the rate that models of RNA002 are said to be for, and the one that MinKNOW recorded it at.
func ratesOfRNA002() []int { return []int{3000, 3012} }
