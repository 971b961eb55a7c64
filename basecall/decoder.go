package basecall

import (
	"github.com/porestream/porestream/basecall/crf"
	"github.com/porestream/porestream/basecall/ctc"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/basecall/scores"
)

// decoder turns the scores of windows into bases, one window after the other. It
// is the seam between a network's state space and everything else: the code that
// cuts windows and joins the bases called in them knows no more of decoding than
// this. It isn't safe for concurrent use.
type decoder interface {
	// decode returns the bases in the scores of consecutive frames, in ascending order
	// of frame. Frames are counted from the first one given. The bases are valid until
	// the next call. Its error says what is wrong with the scores and at which frame.
	decode(w scores.Window) ([]base, error)
}

// classes returns the number of scores per frame that the network has to give.
func (d *DecoderManifest) classes() int {
	if d.Type == decoderCRF {
		return d.crf().Scores()
	}
	return len(d.Labels)
}

// crf returns the configuration of a decoder of type crf.
func (d *DecoderManifest) crf() crf.Config {
	return crf.Config{StateLength: d.StateLength, StayScore: d.StayScore, BeamWidth: d.BeamWidth, BeamCut: d.BeamCut}
}

// decoder returns how the network's scores are decoded.
func (m *Manifest) decoder() *infer.Decoder {
	d := &m.Decoder
	if d.Type == decoderCRF {
		cfg := d.crf()
		return &infer.Decoder{CRF: &cfg}
	}
	return &infer.Decoder{CTC: &ctc.Config{
		Classes: len(d.Labels), Logits: m.Network.Scores == "logits", BeamWidth: d.BeamWidth, BeamCut: d.BeamCut, BaseBonus: d.BaseBonus,
	}}
}

// labelled is a search with labels and calibrated qualities.
type labelled struct {
	search    infer.Search
	labels    []string // of the bases, in the order of their codes
	qualities QualityManifest
	bases     []base
	raw       []float64 // qualities of the bases
}

var _ decoder = (*labelled)(nil)

// newDecoder returns a decoder for a manifest that has been validated.
func newDecoder(m *Manifest) decoder {
	search, err := m.decoder().Open()
	if err != nil {
		panic("basecall: decoder of a valid manifest: " + err.Error())
	}
	return &labelled{search: search, labels: m.Decoder.Labels[1:], qualities: m.Qualities}
}

// decode implements decoder.
func (d *labelled) decode(w scores.Window) ([]base, error) {
	path, err := d.search.DecodeWindow(w)
	if err != nil {
		return nil, err
	}
	d.bases, d.raw = d.bases[:0], d.raw[:0]
	for _, b := range path {
		d.bases = append(d.bases, base{frame: b.Frame, label: d.labels[b.Code][0]})
		d.raw = append(d.raw, rawQuality(b.Probability))
	}
	d.qualities.rate(d.bases, d.raw)
	return d.bases, nil
}
