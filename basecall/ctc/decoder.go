package ctc

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/basecall/scores"
)

// Problem: a connectionist temporal classification network (Graves et al. 2006)
// gives every frame a probability for each base and for a blank. A path picks a
// class per frame; runs of one class collapse, then blanks go. A sequence is as
// probable as all its paths together. Find the most probable sequence and where
// in time its bases start.
//
// Assumptions: probabilities of a frame sum to one. A few prefixes hold nearly
// all of the probability at any time.
//
// Strategy: prefix beam search (Graves 2012, section 7.5.3; Hannun et al. 2014).
// Each frame extends the best width prefixes by every class at least as probable
// as the cut, adds up the paths that lead to the same prefix, kept apart by
// whether they end in a blank, and keeps the best width. Prefixes are compared by
// a 64-bit hash. Beside the sum, each entry keeps its single best path, as a chain
// of the frames at which that path starts bases: this is the move table, and it
// doesn't depend on when a prefix first appeared in the beam.
//
// The shorter of two sequences is often the more probable one, as the paths of the longer
// are spread over more places of its bases: the most probable sequence leaves out more
// bases than it puts in. A factor for each base, as speech recognition has one for each
// word (Hannun et al. 2014, equation 3), evens that out.
//
// Consequences: time is linear in frames, width and classes; nothing is
// allocated per frame. Ties go to the entry that was ahead before, then to the
// lower class, so that the result is a function of the scores alone.

// Config describes a network's scores and how to search them.
type Config struct {
	// Classes is the number of scores of a frame: of the blank, which is class 0, and of each base.
	Classes int
	// Logits says that scores are logits and not log-probabilities.
	Logits bool
	// BeamWidth is the number of sequences that are followed.
	BeamWidth int
	// BeamCut: classes less probable than this aren't followed. Below 1/Classes, as no frame can end the search then.
	BeamCut float32
	// BaseBonus, in nats, is by how much the logarithm of a sequence's probability counts for more with each
	// of its bases.
	BaseBonus float32
}

// Decoder searches windows one after the other. It isn't safe for concurrent use.
//
// A base's probability is the highest that its class has in a frame from its start up to the next base's. A network
// trained by CTC emits a base in one or two frames and blanks until the next, so that a mean over the frames would
// measure how long the base lasted.
type Decoder struct {
	classes int
	width   int
	cut     float32
	logits  bool
	// bonus is the factor by which a sequence is the better for each of its bases.
	bonus float32

	posteriors []float32  // of the window, frames by classes
	likely     []uint8    // bases that the cut leaves at the current frame, in ascending order
	beam       []prefix   // the better first
	next       []prefix   // what the beam leads to: its own entries in order, then new ones
	ranks      []rank     // of those of next that stay, the better first
	emissions  []emission // that any entry has recorded
	path       []emission // of the best prefix, in order of time
	bases      []scores.Base
	scores     []float32 // of a window that lies otherwise
}

// rank is the place of an entry of next in the beam. Entries are sorted by these and
// copied once, as they are six times as large.
type rank struct {
	total float32
	at    int32 // in next
}

// prefix is an entry of the beam: a sequence, and the paths that end in it at
// the current frame. All sums share a scale that changes with time, and so do all best
// paths: one of their own, since of all that lead to a sequence a single path is the less
// the longer it is, and would be lost in a window of some hundred bases.
type prefix struct {
	hash   uint64 // of the sequence
	length int32  // bases in the sequence
	last   uint8  // class of the last base; 0 if there is none

	// Of the paths that end in the last base and of those that end in a blank:
	// the sum of their probabilities, the probability of the best, and the
	// emission of the last base on the best.
	label, blank             float32
	bestLabel, bestBlank     float32
	labelOrigin, blankOrigin int32
	// fresh says that the best path that ends in the last base emits it at this
	// frame, after labelOrigin; its own emission is yet to be recorded.
	fresh bool
}

func (p *prefix) total() float32 { return p.label + p.blank }

// best returns the probability of the best path and its last emission.
func (p *prefix) best() (float32, int32) {
	if p.bestLabel >= p.bestBlank {
		return p.bestLabel, p.labelOrigin
	}
	return p.bestBlank, p.blankOrigin
}

// emission is one base on a path.
type emission struct {
	previous int32 // index of the emission before it; -1 for the first base
	frame    int32
	class    uint8
}

// Bounds of the beam's scales. The best entry, and the best path, are kept between minBest
// and maxBest by an exact power of two, and entries that are less than negligible of the
// best are dropped, so that float32 never gets near its denormal numbers, nor, by the
// bonus, near infinity.
const (
	minBest    = 0x1p-30
	maxBest    = 0x1p30
	rescale    = 0x1p30
	negligible = 0x1p-50
)

// NewDecoder returns a decoder.
func NewDecoder(cfg Config) *Decoder {
	return &Decoder{
		classes: cfg.Classes,
		width:   cfg.BeamWidth,
		cut:     cfg.BeamCut,
		logits:  cfg.Logits,
		bonus:   exp(cfg.BaseBonus),
		beam:    make([]prefix, 0, cfg.BeamWidth),
		next:    make([]prefix, 0, cfg.BeamWidth*cfg.Classes),
	}
}

// DecodeWindow returns the bases in the scores of a window, in ascending order of frames. Their codes are their
// classes less one. The bases are valid until the next call.
func (d *Decoder) DecodeWindow(w scores.Window) ([]scores.Base, error) {
	d.bases = d.bases[:0]
	if w.Path != nil {
		var err error
		d.bases, err = w.AppendBases(d.bases)
		return d.bases, err
	}
	if n := w.Frames * w.Classes; cap(d.scores) < n && (w.Floats == nil || w.Stride != w.Classes) {
		d.scores = make([]float32, n)
	}
	path, err := d.decode(w.Contiguous(d.scores))
	if err != nil {
		return nil, err
	}
	for k, e := range path {
		end := int32(w.Frames)
		if k+1 < len(path) {
			end = path[k+1].frame
		}
		probability := float32(0)
		for t := e.frame; t < end; t++ {
			probability = max(probability, d.posteriors[int(t)*d.classes+int(e.class)])
		}
		d.bases = append(d.bases, scores.Base{Frame: e.frame, Code: e.class - 1, Probability: probability})
	}
	return d.bases, nil
}

// decode searches the scores of a window, frames by classes, and returns the
// emissions of the most probable sequence. They are valid until the next call.
func (d *Decoder) decode(scores []float32) ([]emission, error) {
	if err := d.setPosteriors(scores); err != nil {
		return nil, err
	}
	d.emissions = d.emissions[:0]
	d.beam = append(d.beam[:0], prefix{blank: 1, bestBlank: 1, labelOrigin: -1, blankOrigin: -1})
	classes := d.classes
	for frame := range int32(len(d.posteriors) / classes) {
		p := d.posteriors[int(frame)*classes:][:classes]
		if d.setLikely(p); len(d.likely) == 0 {
			d.appendBlank()
			continue
		}
		d.extend(p)
		d.prune()
		d.record(frame)
	}
	return d.trace(), nil
}

// setPosteriors turns scores into probabilities.
func (d *Decoder) setPosteriors(scores []float32) error {
	if cap(d.posteriors) < len(scores) {
		d.posteriors = make([]float32, len(scores))
	}
	d.posteriors = d.posteriors[:len(scores)]
	classes := d.classes
	for i := 0; i+classes <= len(scores); i += classes {
		row, out := scores[i:i+classes], d.posteriors[i:i+classes]
		top := float32(0)
		if d.logits {
			top = row[0]
			for _, s := range row[1:] {
				top = max(top, s)
			}
		}
		sum := float32(0)
		for k, s := range row {
			e := exp(s - top)
			out[k] = e
			sum += e
		}
		// Not-a-number and infinities arrive here as such; log-probabilities that
		// don't sum to one are no log-probabilities.
		if !(sum > 0.99 && (d.logits || sum < 1.01)) {
			return fmt.Errorf("scores %v of frame %d are not %s", row, i/classes, d.scoreKind())
		}
		if d.logits {
			for k := range out {
				out[k] /= sum
			}
		}
	}
	return nil
}

func (d *Decoder) scoreKind() string {
	if d.logits {
		return "finite logits"
	}
	return "log-probabilities"
}

// exp is the exponential function to within 3 units in the last place of a float32, in
// about half the time that math.Exp takes: x = n ln 2 + r with |r| <= ln(2)/2, and
// e^r by its Taylor polynomial (ln 2 in two parts as in Cody and Waite, Software Manual
// for the Elementary Functions, 1980). Conversions keep compilers from fusing products
// and sums, so that it gives the same everywhere, as on a GPU. Beyond 80 either way it is 0 or infinite: no
// sequence with a class of 10^-35 is ever of the best.
func exp(x float32) float32 {
	switch {
	case x <= -80:
		return 0
	case x >= 80:
		return float32(math.Inf(1))
	case x != x:
		return x
	}
	const (
		log2e    = 1.44269504
		ln2High  = 0.693359375 // exact in 10 bits, so that its products with n are exact
		ln2Low   = -2.12194440e-4
		rounding = 3 << 22 // a float32 of this size has no bits behind the point
	)
	n := float32(x*log2e) + rounding
	n -= rounding
	r := x - float32(n*ln2High)
	r -= float32(n * ln2Low)
	p := float32(r*(1.0/720)) + 1.0/120
	p = float32(p*r) + 1.0/24
	p = float32(p*r) + 1.0/6
	p = float32(p*r) + 0.5
	p = float32(p*r) + 1
	p = float32(p*r) + 1
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// setLikely notes the bases that are at least as probable as the cut.
func (d *Decoder) setLikely(p []float32) {
	d.likely = d.likely[:0]
	for class := 1; class < len(p); class++ {
		if p[class] >= d.cut {
			d.likely = append(d.likely, uint8(class))
		}
	}
}

// appendBlank extends all entries by a blank. Their common factor is left out,
// as only ratios count, and their order stays.
func (d *Decoder) appendBlank() {
	for i := range d.beam {
		e := &d.beam[i]
		e.bestBlank, e.blankOrigin = e.best()
		e.blank = e.total()
		e.label, e.bestLabel = 0, 0
	}
}

// extend fills next with all prefixes that the classes above the cut lead to:
// first the entries of the beam themselves, in order, then the new ones.
func (d *Decoder) extend(p []float32) {
	next := d.next[:len(d.beam)]
	for i := range d.beam {
		from, to := &d.beam[i], &next[i]
		*to = prefix{hash: from.hash, length: from.length, last: from.last, labelOrigin: from.labelOrigin}
		if p[0] >= d.cut {
			best, origin := from.best()
			to.blank, to.bestBlank, to.blankOrigin = from.total()*p[0], best*p[0], origin
		}
		if q := p[from.last]; from.last != 0 && q >= d.cut {
			to.label, to.bestLabel = from.label*q, from.bestLabel*q
		}
	}
	for i := range d.beam {
		from := &d.beam[i]
		for _, class := range d.likely {
			q := p[class] * d.bonus
			sum, best, origin := from.blank, from.bestBlank, from.blankOrigin
			if class != from.last { // otherwise only a blank between makes it another base
				sum = from.total()
				best, origin = from.best()
			}
			if sum == 0 {
				continue
			}
			sum = float32(sum * q) // rounded before it is added to another
			best *= q
			hash := extendHash(from.hash, class)
			if known := d.find(hash, from.length+1); known >= 0 {
				to := &next[known]
				to.label += sum
				if best > to.bestLabel {
					to.bestLabel, to.labelOrigin, to.fresh = best, origin, true
				}
				continue
			}
			next = append(next, prefix{
				hash: hash, length: from.length + 1, last: class,
				label: sum, bestLabel: best, labelOrigin: origin, fresh: true,
			})
		}
	}
	d.next = next
}

// extendHash returns the hash of a sequence with one more base. Multiplying by an
// odd number and folding the high bits down are both reversible, so that
// different bases after one sequence never collide.
func extendHash(hash uint64, class uint8) uint64 {
	hash = (hash + uint64(class)) * 0x9e3779b97f4a7c15
	return hash ^ hash>>29
}

// find returns the entry of the beam with a sequence; -1 if there is none.
func (d *Decoder) find(hash uint64, length int32) int {
	for i := range d.beam {
		if d.beam[i].hash == hash && d.beam[i].length == length {
			return i
		}
	}
	return -1
}

// prune moves the best entries of next to the beam, in descending order.
func (d *Decoder) prune() {
	ranks := d.ranks[:0]
	for i := range d.next {
		total := d.next[i].total()
		at := len(ranks)
		switch {
		case total == 0:
			continue
		case at < d.width:
			ranks = append(ranks, rank{})
		case total <= ranks[at-1].total:
			continue
		default:
			at--
		}
		for at > 0 && total > ranks[at-1].total {
			ranks[at] = ranks[at-1]
			at--
		}
		ranks[at] = rank{total, int32(i)}
	}
	best := ranks[0].total
	for ranks[len(ranks)-1].total < best*negligible {
		ranks = ranks[:len(ranks)-1]
	}
	beam := d.beam[:len(ranks)]
	bestPath := float32(0)
	for i, r := range ranks {
		beam[i] = d.next[r.at]
		bestPath = max(bestPath, beam[i].bestLabel, beam[i].bestBlank)
	}
	d.beam, d.ranks = beam, ranks
	if by := scale(best); by != 1 {
		for i := range beam {
			beam[i].label *= by
			beam[i].blank *= by
		}
	}
	if by := scale(bestPath); by != 1 {
		for i := range beam {
			beam[i].bestLabel *= by
			beam[i].bestBlank *= by
		}
	}
}

// scale returns the factor that keeps the best of a beam within bounds.
func scale(best float32) float32 {
	switch {
	case best < minBest:
		return rescale
	case best > maxBest:
		return 1 / float32(rescale)
	}
	return 1
}

// record writes down the bases that the best paths of the beam emit at a frame.
func (d *Decoder) record(frame int32) {
	for i := range d.beam {
		e := &d.beam[i]
		if e.fresh {
			d.emissions = append(d.emissions, emission{previous: e.labelOrigin, frame: frame, class: e.last})
			e.labelOrigin, e.fresh = int32(len(d.emissions)-1), false
		}
	}
}

// trace returns the emissions on the best path of the best entry.
func (d *Decoder) trace() []emission {
	_, at := d.beam[0].best()
	n := int(d.beam[0].length)
	if cap(d.path) < n {
		d.path = make([]emission, n, 2*n)
	}
	d.path = d.path[:n]
	for ; at >= 0; at = d.emissions[at].previous {
		n--
		d.path[n] = d.emissions[at]
	}
	return d.path
}
