package crf

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/basecall/scores"
)

// Limits of a Config. Dorado's largest models have state length 5.
const (
	MinStateLength = 1
	MaxStateLength = 6
	MaxBeamWidth   = 256
)

// Config describes a network's scores and how to search them.
type Config struct {
	// StateLength is the number of bases in a state, k.
	StateLength int
	// StayScore is the score of staying, which all states share; nil if the network
	// scores staying for each state.
	StayScore *float32
	// BeamWidth is the number of sequences that a beam search follows; 0 takes the
	// path of the highest product of posterior probabilities instead.
	BeamWidth int
	// BeamCut drops sequences that are this many times less probable than the best,
	// what follows included; 0 drops none. For a beam search only.
	BeamCut float32
}

// States returns the number of states, 4^k.
func (c Config) States() int { return 1 << (2 * c.StateLength) }

// Scores returns the number of scores per frame.
func (c Config) Scores() int {
	if c.StayScore == nil {
		return 5 * c.States()
	}
	return 4 * c.States()
}

// Validate returns what is wrong, if anything is.
func (c Config) Validate() error {
	switch {
	case c.StateLength < MinStateLength || c.StateLength > MaxStateLength:
		return fmt.Errorf("state length %d is not between %d and %d", c.StateLength, MinStateLength, MaxStateLength)
	case c.StayScore != nil && (math.IsNaN(float64(*c.StayScore)) || math.Abs(float64(*c.StayScore)) > 100):
		return fmt.Errorf("stay score %v is not between -100 and 100", *c.StayScore)
	case c.BeamWidth < 0 || c.BeamWidth > MaxBeamWidth:
		return fmt.Errorf("beam width %d is not between 0 and %d", c.BeamWidth, MaxBeamWidth)
	case !(c.BeamCut == 0 || c.BeamCut >= 1 && c.BeamCut <= 1e6):
		return fmt.Errorf("beam cut %v is neither 0 nor between 1 and 1e6", c.BeamCut)
	}
	return nil
}

// Decoder decodes windows, one after the other. It isn't safe for concurrent use.
//
// The first frame always emits a base, the newest of the state that it leads to,
// as in Dorado: a read's first base has no move before it.
//
// A base's probability is Dorado's, for which models' qualities are calibrated:
// for each frame from its start to the next base's, the posterior probability of
// the path's state and of those states that it is one move away from, to the power of
// 0.4; and of these the mean. The neighbours count, as a path that moves a frame
// earlier or later says the same of the base.
type Decoder struct {
	cfg     Config
	lattice lattice

	// states and moved hold the path: for each frame the state that it leads to
	// and whether it moves.
	states []uint16
	moved  []bool
	bases  []scores.Base

	viterbi viterbi
	beam    beam
}

// NewDecoder returns a decoder.
func NewDecoder(cfg Config) (*Decoder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := cfg.States()
	return &Decoder{cfg: cfg, lattice: lattice{n: n, q: n / 4, fixed: cfg.StayScore != nil, instructions: processor()}}, nil
}

// Decode is DecodeWindow for scores that lie frame behind frame, [Config.Scores] in each.
func (d *Decoder) Decode(x []float32) ([]scores.Base, error) {
	if n := d.cfg.Scores(); len(x)%n != 0 {
		return nil, fmt.Errorf("%d scores are not frames of %d", len(x), n)
	}
	return d.DecodeWindow(scores.OfFloats(x, d.cfg.Scores()))
}

// DecodeWindow returns the bases in the scores of a window, in ascending order of frames.
// The bases are valid until the next call. Scores that are Spent are written over, also where an error is returned.
func (d *Decoder) DecodeWindow(w scores.Window) ([]scores.Base, error) {
	d.bases = d.bases[:0]
	if w.Frames == 0 {
		return nil, nil
	}
	if w.Path != nil {
		var err error
		d.bases, err = w.AppendBases(d.bases)
		return d.bases, err
	}
	l := &d.lattice
	if err := d.begin(w); err != nil {
		return nil, err
	}
	if err := l.back(&w); err != nil {
		return nil, err
	}
	d.states = grow(d.states, l.frames)
	d.moved = grow(d.moved, l.frames)
	if d.cfg.BeamWidth > 0 {
		// Both read a frame's weights, which the processor's cache doesn't hold of a whole window.
		d.beam.begin(l, d.cfg.BeamWidth)
		for t := range l.frames {
			l.forth(t)
			d.beam.advance(l, t, d.cfg.BeamWidth, d.cfg.BeamCut)
		}
		d.beam.end(l.frames, d.cfg.BeamWidth, d.states, d.moved)
	} else {
		for t := range l.frames {
			l.forth(t)
		}
		d.viterbi.search(l, d.states, d.moved)
	}
	d.moved[0] = true
	d.emit()
	return d.bases, nil
}

// begin prepares the lattice.
func (d *Decoder) begin(w scores.Window) error {
	stay := float32(0)
	if d.cfg.StayScore != nil {
		stay = *d.cfg.StayScore
	}
	return d.lattice.begin(&w, stay)
}

// emit turns the path into bases.
func (d *Decoder) emit() {
	sum, frames := float32(0), 0
	last := func() {
		if n := len(d.bases); n > 0 {
			d.bases[n-1].Probability = sum / float32(frames)
		}
		sum, frames = 0, 0
	}
	for t, state := range d.states {
		if d.moved[t] {
			last()
			d.bases = append(d.bases, scores.Base{Frame: int32(t), Code: uint8(state & 3)})
		}
		sum += power(min(1, d.near(t+1, int(state))))
		frames++
	}
	last()
}

// near returns the posterior probability, after t frames, of a state or one that
// precedes or follows it by a move.
func (d *Decoder) near(t, state int) float32 {
	l := &d.lattice
	p := l.posterior(t, state)
	before, after := state>>2, 4*state&(l.n-1)
	for b := range 4 {
		if s := before + b*l.q; s != state {
			p += l.posterior(t, s)
		}
	}
	for b := range 4 {
		s := after + b
		// A k-mer of one base, or of two that alternate, is among both.
		if s != state && s&(l.q-1) != before {
			p += l.posterior(t, s)
		}
	}
	return p
}
