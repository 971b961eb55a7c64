package basecall

import (
	"github.com/porestream/porestream/basecall/crf"
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

// newDecoder returns a decoder for a manifest that has been validated.
func newDecoder(m *Manifest) decoder {
	if m.Decoder.Type == decoderCRF {
		return newCRFCaller(m)
	}
	return newCTCCaller(m)
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

// crfCaller is the decoder of a model with a CRF network: the search with labels
// and calibrated qualities.
type crfCaller struct {
	search    *crf.Decoder
	labels    []string // of the bases, in the order of their codes
	qualities QualityManifest
	bases     []base
	raw       []float64 // qualities of the bases
}

var _ decoder = (*crfCaller)(nil)

func newCRFCaller(m *Manifest) *crfCaller {
	search, err := crf.NewDecoder(m.Decoder.crf())
	if err != nil {
		panic("basecall: decoder of a valid manifest: " + err.Error())
	}
	return &crfCaller{
		search:    search,
		labels:    m.Decoder.Labels[1:],
		qualities: m.Qualities,
	}
}

// decode implements decoder.
func (c *crfCaller) decode(w scores.Window) ([]base, error) {
	path, err := c.search.DecodeWindow(w)
	if err != nil {
		return nil, err
	}
	c.bases, c.raw = c.bases[:0], c.raw[:0]
	for _, b := range path {
		c.bases = append(c.bases, base{frame: b.Frame, label: c.labels[b.Code][0]})
		c.raw = append(c.raw, rawQuality(b.Probability))
	}
	c.qualities.rate(c.bases, c.raw)
	return c.bases, nil
}
