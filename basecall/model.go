package basecall

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/porestream/porestream/modelfile/calibration"
	"github.com/porestream/porestream/modelfile/folder"
)

// ManifestFile is the name of the manifest in a model's folder.
const ManifestFile = folder.Manifest

// Model is a network with what is needed to use it.
type Model struct {
	Manifest Manifest
	Network  []byte // the ONNX file
	Half     []byte // the same network in half precision, for GPUs; nil if there is none
}

// Manifest is the file beside a network that says how to use it.
type Manifest struct {
	Format        int                   `toml:"format"` // 1
	Name          string                `toml:"name"`
	Version       string                `toml:"version"`
	Description   string                `toml:"description"`
	ConvertedFrom string                `toml:"converted_from,omitempty"` // name of the model of Dorado or Bonito that it was
	Chemistry     string                `toml:"chemistry"`                // for example "r9.4"; see [Manifest.RNA]
	SampleRates   []int                 `toml:"sample_rates"`             // Hz, those the network was trained for
	Network       NetworkManifest       `toml:"network"`
	Normalisation NormalisationManifest `toml:"normalisation"`
	Window        WindowManifest        `toml:"window"`
	Decoder       DecoderManifest       `toml:"decoder"`
	Qualities     QualityManifest       `toml:"qualities"`
}

// RNA says that the model is for direct RNA: its chemistry is "rna002" or "rna004",
// as [signal.Run.Chemistry] names them. RNA passes the pore with its 3' end first, so
// the sequence that the network reads is reversed.
func (m *Manifest) RNA() bool { return strings.HasPrefix(m.Chemistry, "rna") }

// Build names what decides the bases that the model calls: its version and, as what semantic
// versioning calls build metadata, a hash of its manifest, which has the checksums of its networks, and of
// how the engine joins windows ([Joining]). Models of one version that were converted otherwise, or whose windows somebody has changed, differ
// in the hash. It has no blanks.
func (m *Manifest) Build() (string, error) {
	decides := *m
	decides.Description = "" // which is for people alone
	text, err := toml.Marshal(decides)
	if err != nil {
		return "", fmt.Errorf("hashing the manifest of model %s: %w", m.Name, err)
	}
	sum := sha256.Sum256(fmt.Appendf(text, "joining %d\n", Joining))
	version := strings.Join(strings.Fields(m.Version), "-")
	return version + "+" + hex.EncodeToString(sum[:6]), nil
}

// NetworkManifest describes the ONNX file and its ends.
type NetworkManifest struct {
	File   string `toml:"file"` // relative to the manifest
	SHA256 string `toml:"sha256"`
	// HalfFile is the same network, with weights and inner values in half
	// precision and float32 ends, for GPUs; empty for none.
	HalfFile   string `toml:"half_file,omitempty"`
	HalfSHA256 string `toml:"half_sha256,omitempty"`
	Input      string `toml:"input"`  // name of the input, float32 [N,1,T]
	Output     string `toml:"output"` // name of the output, float32
	// OutputLayout is "NTC" or "TNC": batch, frame and class in the order in which
	// the output is stored.
	OutputLayout string `toml:"output_layout"`
	// Scores is "log_probabilities" or "logits" for a ctc decoder, and
	// "transitions" for a crf decoder.
	Scores string `toml:"scores"`
	Stride int    `toml:"stride"` // samples per frame
}

// NormalisationManifest says how ADC levels become the network's input.
type NormalisationManifest struct {
	Method string  `toml:"method"`         // "med_mad", "quantile" or "pa"
	Clip   float32 `toml:"clip,omitempty"` // the input is limited to ±Clip; 0 for no limit

	// Scope says over what the statistics of "med_mad" and "quantile" are: "read",
	// also if it is missing, or "running". Over the read, nothing of a read can be
	// called before its end. Running, a window that ends at sample e is normalised
	// over the samples before e, and those of a read's first windows over its
	// warm-up, so that windows are called while the read goes on.
	Scope string `toml:"scope,omitempty"`
	// Warmup is how many samples, in blocks in which a strand moves, the first
	// window waits for; after eight times as many samples it waits no longer. A
	// shorter read is normalised as a whole. For "running".
	Warmup int `toml:"warmup,omitempty"`
	// Block is the number of samples that are assessed together; 0 means 256.
	Block int `toml:"block,omitempty"`
	// Still is the spread, 1.4826 times the median absolute deviation in
	// picoamperes, below which nothing moves through the pore during a block: an
	// open pore or a strand that sticks. Such blocks don't count, unless fewer than
	// four others are there. 0 counts all blocks.
	Still float32 `toml:"still,omitempty"`

	// For "quantile": shift = max(10, ShiftMultiplier*(qA+qB)) and scale =
	// max(1, ScaleMultiplier*(qB-qA)), where qA and qB are the quantiles.
	QuantileA       float64 `toml:"quantile_a,omitempty"`
	QuantileB       float64 `toml:"quantile_b,omitempty"`
	ShiftMultiplier float64 `toml:"shift_multiplier,omitempty"`
	ScaleMultiplier float64 `toml:"scale_multiplier,omitempty"`

	// For "pa": x = (picoamperes - Mean) / StdDev.
	Mean   float64 `toml:"mean,omitempty"`
	StdDev float64 `toml:"stdev,omitempty"`
}

// What NormalisationManifest's Method and Scope can be.
const (
	methodMedMAD      = "med_mad"
	methodQuantile    = "quantile"
	methodPicoamperes = "pa"

	scopeRead    = "read"
	scopeRunning = "running"
)

// defaultBlock is a sixteenth of a second at 4 kHz: some thirty bases, so that a
// strand that moves shows several levels.
const defaultBlock = 256

// Standard reports whether the network takes standardised picoamperes.
func (m *NormalisationManifest) Standard() bool { return m.Method == methodPicoamperes }

func (m *NormalisationManifest) block() int { return cmp.Or(m.Block, defaultBlock) }

// validate checks the normalisation.
func (m *NormalisationManifest) validate(check func(ok bool, format string, args ...any)) {
	check(m.Clip >= 0, "normalisation.clip = %v is negative", m.Clip)
	switch m.Method {
	case methodMedMAD:
	case methodQuantile:
		check(0 <= m.QuantileA && m.QuantileA < m.QuantileB && m.QuantileB <= 1,
			"normalisation.quantile_a = %v and quantile_b = %v are not 0 <= a < b <= 1", m.QuantileA, m.QuantileB)
		check(m.ShiftMultiplier > 0, "normalisation.shift_multiplier = %v is not positive", m.ShiftMultiplier)
		check(m.ScaleMultiplier > 0, "normalisation.scale_multiplier = %v is not positive", m.ScaleMultiplier)
	case methodPicoamperes:
		check(m.StdDev > 0, "normalisation.stdev = %v is not positive", m.StdDev)
		check(m.Scope == "" && m.Warmup == 0 && m.Block == 0 && m.Still == 0,
			"normalisation.scope, warmup, block and still are for statistics, which method = %q has none of", m.Method)
		return
	default:
		check(false, "normalisation.method = %q is none of med_mad, quantile, pa", m.Method)
	}
	check(m.Block >= 0 && m.Block <= 1<<16, "normalisation.block = %d is not between 0 and 65536", m.Block)
	check(m.Still >= 0 && m.Still <= 1000, "normalisation.still = %v is not between 0 and 1000 picoamperes", m.Still)
	switch m.Scope {
	case "", scopeRead:
		check(m.Warmup == 0, "normalisation.warmup = %d is for scope = %q", m.Warmup, scopeRunning)
	case scopeRunning:
		least := leastMoving * max(1, m.block())
		check(m.Warmup >= least && m.Warmup <= 1<<20, "normalisation.warmup = %d is not between four blocks (%d) and %d", m.Warmup, least, 1<<20)
	default:
		check(false, "normalisation.scope = %q is neither read nor running", m.Scope)
	}
}

// WindowManifest says how a read is cut.
type WindowManifest struct {
	Samples int `toml:"samples"` // length of a window
	Overlap int `toml:"overlap"` // samples shared by neighbouring windows
}

// The decoders that a manifest can ask for.
const (
	decoderCTC = "ctc"
	decoderCRF = "crf"
)

// maxNeighbours is by far more bases than doubts about one reach.
const maxNeighbours = 100

// maxBaseBonus, in nats, is by far more than any network's bases need.
const maxBaseBonus = 5

// DecoderManifest says how scores become bases.
type DecoderManifest struct {
	Type string `toml:"type"` // "ctc" or "crf"
	// Labels name the classes, one per class; "" comes first and is ctc's blank or
	// crf's stay.
	Labels []string `toml:"labels"`
	// BeamWidth is the number of sequences followed per frame. With crf, 0 takes
	// the path of highest posterior probability instead of a beam search.
	BeamWidth int `toml:"beam_width"`
	// BeamCut: with ctc, classes less probable than this aren't followed; with
	// crf, sequences this many times less probable than the best.
	BeamCut float32 `toml:"beam_cut,omitempty"`
	// BaseBonus, in nats, is by how much the logarithm of a sequence's probability
	// counts for more with each of its bases. For "ctc".
	BaseBonus float32 `toml:"base_bonus,omitempty"`

	// For "crf", whose states and scores package crf describes.
	StateLength int      `toml:"state_length,omitempty"` // bases in a state
	StayScore   *float32 `toml:"stay_score,omitempty"`   // of all states; without it, the network scores stays
}

// QualityManifest calibrates base qualities: Q = Curve(q * Scale + Bias), where q is
// -10 log10(1-p) of a base of probability p or, with Neighbours, a mean of that and of
// what is said of the bases around it, in that window: where these are in doubt it is
// wrong more often, whatever its own probability.
type QualityManifest struct {
	Scale float64 `toml:"scale"`
	Bias  float64 `toml:"bias"`
	// Curve corrects what no line through all qualities can.
	Curve calibration.Curve `toml:"curve,omitempty"`
	// Neighbours is the number of bases on either side that count, 0 for none, and
	// NeighbourShare what their mean counts, the base itself having the rest.
	Neighbours     int     `toml:"neighbours,omitempty"`
	NeighbourShare float64 `toml:"neighbour_share,omitempty"`
	// MeanStart is the number of bases at a read's beginning that its mean quality
	// leaves out, if the read has more.
	MeanStart int `toml:"mean_start,omitempty"`
}

// OpenModel loads the model in a folder.
func OpenModel(dir string) (*Model, error) {
	fsys, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	model, err := LoadModel(fsys)
	if err != nil {
		return nil, fmt.Errorf("loading model %s: %w", dir, err)
	}
	return model, nil
}

// LoadModel loads the model whose manifest lies at the root of a file system. It
// refuses a manifest with unknown keys and a network with another checksum than
// the manifest's.
func LoadModel(fsys fs.FS) (*Model, error) {
	text, err := folder.ReadManifest(fsys)
	if err != nil {
		return nil, err
	}
	manifest, err := ParseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestFile, err)
	}
	model := &Model{Manifest: manifest}
	if model.Network, err = folder.Network(fsys, "network.sha256", manifest.Network.File, manifest.Network.SHA256); err != nil {
		return nil, err
	}
	if name := manifest.Network.HalfFile; name != "" {
		if model.Half, err = folder.Network(fsys, "network.half_sha256", name, manifest.Network.HalfSHA256); err != nil {
			return nil, err
		}
	}
	return model, nil
}

// Save writes a model to a folder, which it makes. It refuses one that is there
// already, and leaves none behind that is incomplete, even if the machine stops.
func (m *Model) Save(dir string) error {
	if err := m.Manifest.validate(); err != nil {
		return fmt.Errorf("saving model %s: %w", m.Manifest.Name, err)
	}
	text, err := toml.Marshal(m.Manifest)
	if err != nil {
		return fmt.Errorf("saving model %s: %w", m.Manifest.Name, err)
	}
	files := map[string][]byte{ManifestFile: text, m.Manifest.Network.File: m.Network}
	if m.Half != nil {
		files[m.Manifest.Network.HalfFile] = m.Half
	}
	return folder.Save(dir, files)
}

// ParseManifest parses and validates a manifest. The error of an invalid one
// lists everything that is wrong with it.
func ParseManifest(text []byte) (Manifest, error) {
	m := Manifest{Qualities: QualityManifest{Scale: 1}}
	if err := folder.Decode(text, folder.Basecaller, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// validate checks every field and reports all that is wrong, joined on one line.
func (m *Manifest) validate() error {
	var faults folder.Faults
	check := faults.Check
	if m.Format != 1 {
		return fmt.Errorf("format = %d is not one that this version reads (1)", m.Format)
	}
	check(m.Name != "", "name is missing")
	check(len(m.SampleRates) > 0, "sample_rates is missing")
	for _, rate := range m.SampleRates {
		check(rate > 0, "sample_rates holds %d", rate)
	}

	n := m.Network
	faults.CheckFile("network.file", n.File, "network.sha256", n.SHA256)
	if n.HalfFile != "" || n.HalfSHA256 != "" {
		faults.CheckFile("network.half_file", n.HalfFile, "network.half_sha256", n.HalfSHA256)
	}
	check(n.Input != "", "network.input is missing")
	check(n.Output != "", "network.output is missing")
	check(n.OutputLayout == "NTC" || n.OutputLayout == "TNC", "network.output_layout = %q is neither NTC nor TNC", n.OutputLayout)
	if m.Decoder.Type == decoderCRF {
		check(n.Scores == "transitions", "network.scores = %q is not transitions, which a crf decoder needs", n.Scores)
	} else {
		check(n.Scores == "log_probabilities" || n.Scores == "logits", "network.scores = %q is neither log_probabilities nor logits", n.Scores)
	}
	check(n.Stride >= 1 && n.Stride <= 1000, "network.stride = %d is not between 1 and 1000", n.Stride)

	m.Normalisation.validate(check)

	if stride := n.Stride; stride >= 1 {
		w := m.Window
		check(w.Samples > 0 && w.Samples <= 1_000_000 && w.Samples%stride == 0,
			"window.samples = %d is not a multiple of the stride %d up to 1000000", w.Samples, stride)
		check(w.Overlap >= 0 && w.Overlap%(2*stride) == 0,
			"window.overlap = %d is not a multiple of twice the stride %d", w.Overlap, stride)
		check(2*w.Overlap <= w.Samples, "window.overlap = %d is more than half of window.samples = %d", w.Overlap, w.Samples)
	}

	m.Decoder.validate(check)

	check(m.Qualities.MeanStart >= 0, "qualities.mean_start = %d is negative", m.Qualities.MeanStart)
	check(m.Qualities.Neighbours >= 0 && m.Qualities.Neighbours <= maxNeighbours, "qualities.neighbours = %d is not within 0..%d", m.Qualities.Neighbours, maxNeighbours)
	check(m.Qualities.NeighbourShare >= 0 && m.Qualities.NeighbourShare < 1, "qualities.neighbour_share = %v is not a part, 0 or more and below 1", m.Qualities.NeighbourShare)
	check((m.Qualities.Neighbours > 0) == (m.Qualities.NeighbourShare > 0), "qualities.neighbours and neighbour_share go together: give both or neither")
	check(m.Qualities.Scale > 0, "qualities.scale = %v is not positive", m.Qualities.Scale)
	m.Qualities.Curve.Validate("qualities.curve", check)
	return faults.Err()
}

// validate calls check for every condition.
func (d *DecoderManifest) validate(check func(ok bool, format string, args ...any)) {
	if d.Type != decoderCTC && d.Type != decoderCRF {
		check(false, "decoder.type = %q is neither ctc nor crf", d.Type)
		return
	}
	check(len(d.Labels) >= 2 && d.Labels[0] == "", "decoder.labels must begin with \"\", the blank or stay")
	seen := map[string]bool{}
	for _, label := range d.Labels[min(1, len(d.Labels)):] {
		check(len(label) == 1 && strings.Contains("ACGT", label), "decoder.labels holds %q, not one of A, C, G, T", label)
		check(!seen[label], "decoder.labels holds %q twice", label)
		seen[label] = true
	}
	if d.Type == decoderCRF {
		check(len(d.Labels) == 5, "decoder.labels has %d entries, not the stay and four bases", len(d.Labels))
		check(d.BaseBonus == 0, "decoder.base_bonus is for type ctc")
		err := d.crf().Validate()
		check(err == nil, "decoder: %v", err)
		return
	}
	check(d.StateLength == 0 && d.StayScore == nil, "decoder.state_length and stay_score are for type crf")
	check(d.BaseBonus >= -maxBaseBonus && d.BaseBonus <= maxBaseBonus,
		"decoder.base_bonus = %v is not between %d and %d nats", d.BaseBonus, -maxBaseBonus, maxBaseBonus)
	check(d.BeamWidth >= 1 && d.BeamWidth <= 256, "decoder.beam_width = %d is not between 1 and 256", d.BeamWidth)
	// The most probable class always has at least 1/classes, so that below
	// this bound no frame can end the search.
	check(d.BeamCut >= 0 && (len(d.Labels) == 0 || d.BeamCut < 1/float32(len(d.Labels))),
		"decoder.beam_cut = %v is not at least 0 and below 1/%d", d.BeamCut, len(d.Labels))
}
