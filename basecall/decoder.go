package basecall

// decoder turns the scores of windows into bases, one window after the other. It
// is the seam between a network's state space and everything else: whoever cuts
// windows and joins what is called in them knows no more of decoding than this.
// It isn't safe for concurrent use.
type decoder interface {
	// decode returns the bases in the scores of consecutive frames, frames by
	// classes, in ascending order of frame. Frames are counted from the first
	// one given. It may overwrite the scores; the bases are valid until the next
	// call. Its error says what is wrong with the scores and at which frame.
	decode(scores []float32) ([]base, error)
}

// newDecoder returns a decoder for a manifest that has been validated.
func newDecoder(m *Manifest) decoder {
	return newCTCCaller(m)
}

// classes returns the number of scores per frame that the network has to give.
func (d *DecoderManifest) classes() int {
	return len(d.Labels)
}
