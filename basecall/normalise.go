package basecall

import (
	"fmt"
	"math"
	"sync"

	"github.com/porestream/porestream/signal"
)

// Problem: pores, chemistries and amplifiers differ in level and gain, and a
// network expects its input in one range. A read is to be called while it is
// still growing, and the result must not depend on how its samples arrived.
// While nothing moves through the pore, because it is open or the strand is
// stuck, the current stays at a level that says nothing about gain; reads often
// begin so.
//
// Assumptions: samples are 16-bit levels of a converter, so that a histogram of
// them is exact and small. Gain and level hardly drift within a read. A strand
// that moves spreads the current over far more than noise does: on R9.4 DNA
// blocks of 256 samples have 6 to 25 pA, and 1 to 3 pA where nothing moves.
//
// Strategy: an affine map, x = (level - shift) / scale, whose two numbers come
// from order statistics or from the calibration. Order statistics are read off a
// histogram, which takes one pass and no sorting, and can be continued. Samples
// are taken in blocks from the read's start, and blocks in which nothing moves
// don't count. A window that ends at sample e is normalised over the blocks
// before max(e, P), where P is where the warm-up ends: behind the block with
// which enough samples of a moving strand are there. A network whose
// normalisation is over the read (scope "read") has a warm-up without end.
//
// Consequences: the map of a window is a function of the read's samples before
// the window's end or the warm-up's, whatever the chunks in which they came, so
// that a window can be computed as soon as these are there. A read that ends
// before its warm-up does is normalised as a whole.

// madToStdDev is the ratio of the standard deviation to the median absolute
// deviation of a normal distribution.
const madToStdDev = 1.4826

// minScale is the smallest scale in ADC levels. Noise alone is wider; a narrower
// read comes from a saturated or dead channel and must not be blown up.
const minScale = 1

// minQuantileShift is the lower limit of the shift of the quantile method, part of its definition.
const minQuantileShift = 10

// affine is the map of a read's levels to the network's input.
type affine struct {
	shift, scale float32
	clip         float32 // 0 for none
}

// Limits of the running statistics, in blocks.
const (
	// leastMoving is from how many blocks with a moving strand on only they count.
	leastMoving = 4
	// longestWarmup is after how many times the samples that the warm-up wants it
	// ends anyway: a strand that sticks for so long must not keep the read back.
	longestWarmup = 8
)

// normaliser keeps the statistics of one read from its start on.
type normaliser struct {
	m     NormalisationManifest
	fixed affine // for picoamperes, which need no statistics
	// picoamperes per level; 0 if that isn't known, and then every block counts.
	gain float32

	position int // samples taken
	warm     bool
	// moving counts the blocks in which something moves, and all counts every
	// sample, until the former are enough.
	moving, all, block *histogram
}

// histograms recycles histograms, the only memory that normalising needs.
var histograms = sync.Pool{New: func() any { return new(histogram) }}

// newNormaliser returns the normaliser for a read. It must be released.
func newNormaliser(m NormalisationManifest, calibration signal.Calibration) (*normaliser, error) {
	n := &normaliser{m: m}
	known := calibration.Scale > 0 && !math.IsInf(float64(calibration.Scale), 1)
	if m.Method == methodPicoamperes {
		if !known {
			return nil, fmt.Errorf("calibration scale is %v picoamperes per level, which normalisation to picoamperes can't use", calibration.Scale)
		}
		n.fixed = affine{
			shift: float32(m.Mean/float64(calibration.Scale) - float64(calibration.Offset)),
			scale: float32(m.StdDev / float64(calibration.Scale)),
			clip:  m.Clip,
		}
		n.warm = true
		return n, nil
	}
	if known {
		n.gain = calibration.Scale
	}
	for _, h := range []**histogram{&n.moving, &n.all, &n.block} {
		*h = histograms.Get().(*histogram)
		(*h).reset()
	}
	return n, nil
}

// release gives the memory back.
func (n *normaliser) release() {
	for _, h := range []**histogram{&n.moving, &n.all, &n.block} {
		if *h != nil {
			histograms.Put(*h)
			*h = nil
		}
	}
}

// reach takes samples until a window that ends at sample end of the read can be
// normalised, and reports whether it can. samples are all that there are from
// n.position on; ended says that there will be no more. Ends must ascend.
func (n *normaliser) reach(samples []int16, end int, ended bool) bool {
	if n.m.Method == methodPicoamperes {
		return true
	}
	block := n.m.block()
	for len(samples) >= block && (!n.warm || n.position+block <= end) {
		n.take(samples[:block])
		samples = samples[block:]
	}
	if ended && !n.warm {
		// The read is normalised as a whole, also if it has no whole block.
		n.count(n.all, samples)
		if !n.classifiesBlocks() {
			n.count(n.moving, samples)
		}
		n.position += len(samples)
		n.warm = true
	}
	return n.warm
}

// take counts one block.
func (n *normaliser) take(block []int16) {
	n.position += len(block)
	n.count(n.all, block)
	if n.moves(block) {
		n.moving.add(block)
	}
	if n.enough() && n.all != nil {
		histograms.Put(n.all)
		n.all = nil
	}
	if n.m.Scope == scopeRunning {
		n.warm = n.moving.n >= n.m.Warmup || n.position >= longestWarmup*n.m.Warmup
	}
}

// count adds samples to a histogram if it is still needed.
func (n *normaliser) count(h *histogram, samples []int16) {
	if h != nil && len(samples) > 0 {
		h.add(samples)
	}
}

// classifiesBlocks reports whether blocks are assessed at all; if not, every sample counts.
func (n *normaliser) classifiesBlocks() bool { return n.m.Still > 0 && n.gain > 0 }

// moves reports whether a strand moves during a block.
func (n *normaliser) moves(block []int16) bool {
	if !n.classifiesBlocks() {
		return true
	}
	n.block.reset()
	n.block.add(block)
	_, scale := n.block.medMAD()
	return scale*n.gain >= n.m.Still
}

// enough reports whether the blocks with a moving strand are.
func (n *normaliser) enough() bool { return n.moving.n >= leastMoving*n.m.block() }

// needs returns the first sample of the read that reach still has to be given.
func (n *normaliser) needs() int {
	if n.m.Method == methodPicoamperes {
		return math.MaxInt
	}
	return n.position
}

// affine returns the map of the window that has been reached.
func (n *normaliser) affine() affine {
	if n.m.Method == methodPicoamperes {
		return n.fixed
	}
	a := affine{scale: 1, clip: n.m.Clip}
	h := n.moving
	if !n.enough() {
		h = n.all
	}
	switch {
	case h.n == 0:
	case n.m.Method == methodQuantile:
		qa, qb := h.quantile(n.m.QuantileA), h.quantile(n.m.QuantileB)
		a.shift = float32(max(minQuantileShift, n.m.ShiftMultiplier*(qa+qb)))
		a.scale = float32(max(minScale, n.m.ScaleMultiplier*(qb-qa)))
	default:
		a.shift, a.scale = h.medMAD()
		a.scale = max(minScale, a.scale)
	}
	return a
}

// apply writes the normalised samples to dst, which is as long.
func (a affine) apply(dst []float32, samples []int16) {
	dst = dst[:len(samples)]
	gain := 1 / a.scale
	if a.clip == 0 {
		for i, s := range samples {
			dst[i] = (float32(s) - a.shift) * gain
		}
		return
	}
	for i, s := range samples {
		dst[i] = min(a.clip, max(-a.clip, (float32(s)-a.shift)*gain))
	}
}

// histogram counts levels. Its memory follows the range of the levels: 4 bytes
// for each, 256 KiB at most.
type histogram struct {
	counts []uint32
	low    int // level that counts[0] counts
	n      int
}

// reset forgets all samples.
func (h *histogram) reset() { h.counts, h.n = h.counts[:0], 0 }

// add counts at least one sample more.
func (h *histogram) add(samples []int16) {
	low, high := int(samples[0]), int(samples[0])
	for _, s := range samples {
		low, high = min(low, int(s)), max(high, int(s))
	}
	h.cover(low, high)
	for _, s := range samples {
		h.counts[int(s)-h.low]++
	}
	h.n += len(samples)
}

// cover widens the range to hold the levels from low to high, in steps, so that
// a read that reaches further every now and then seldom moves what is there.
func (h *histogram) cover(low, high int) {
	const step = 128
	if len(h.counts) > 0 {
		if low >= h.low && high < h.low+len(h.counts) {
			return
		}
		low, high = min(low, h.low), max(high, h.low+len(h.counts)-1)
	}
	low = max(math.MinInt16, floorTo(low, step))
	high = min(math.MaxInt16, floorTo(high, step)+step-1)
	size := high - low + 1
	old, shift := h.counts, h.low-low
	if len(old) == 0 {
		shift = 0
	}
	h.low = low
	if cap(old) < size {
		h.counts = make([]uint32, size)
		copy(h.counts[shift:], old)
		return
	}
	h.counts = old[:size]
	copy(h.counts[shift:], old)
	clear(h.counts[:shift])
	clear(h.counts[shift+len(old):])
}

// floorTo rounds n down to a multiple of step, for negative n too.
func floorTo(n, step int) int { return n - ((n%step)+step)%step }

// medMAD returns the median, and 1.4826 times the median absolute deviation.
func (h *histogram) medMAD() (median, scale float32) {
	median2 := h.twiceMedian()
	return float32(median2) / 2, float32(h.twiceMAD(median2)) / 2 * madToStdDev
}

// pair returns the levels of ranks k and k+1, counted from 0 in ascending order;
// the last level twice if there is no rank k+1.
func (h *histogram) pair(k int) (lower, upper int) {
	seen, i := 0, 0
	for ; ; i++ {
		seen += int(h.counts[i])
		if seen > k {
			break
		}
	}
	lower = h.low + i
	if seen > k+1 || k+1 >= h.n {
		return lower, lower
	}
	for i++; h.counts[i] == 0; i++ {
	}
	return lower, h.low + i
}

// twiceMedian returns two times the median, which is a whole number: the median
// of an even number of levels is the mean of the two in the middle.
func (h *histogram) twiceMedian() int {
	lower, upper := h.pair((h.n - 1) / 2)
	if h.n%2 == 1 {
		upper = lower
	}
	return lower + upper
}

// twiceMAD returns two times the median of the absolute deviations from the
// median, given two times the median. Deviations are visited in ascending order
// by walking away from the median in both directions.
func (h *histogram) twiceMAD(median2 int) int {
	down := floorHalf(median2) - h.low // first index at or below the median
	up := down + 1
	wantLower, wantUpper := (h.n-1)/2, h.n/2
	lowerDeviation, seen := -1, 0
	for {
		downDeviation, upDeviation := math.MaxInt, math.MaxInt
		if down >= 0 {
			downDeviation = median2 - 2*(h.low+down)
		}
		if up < len(h.counts) {
			upDeviation = 2*(h.low+up) - median2
		}
		deviation := min(downDeviation, upDeviation)
		if downDeviation == deviation {
			seen += int(h.counts[down])
			down--
		}
		if upDeviation == deviation {
			seen += int(h.counts[up])
			up++
		}
		if lowerDeviation < 0 && seen > wantLower {
			lowerDeviation = deviation
		}
		if seen > wantUpper {
			// Both deviations count half levels, and so does their mean.
			return (lowerDeviation + deviation) / 2
		}
	}
}

// floorHalf returns n/2 rounded down, for negative n too.
func floorHalf(n int) int { return n >> 1 }

// quantile returns the q-quantile with linear interpolation between the two
// nearest ranks (definition 7 of Hyndman and Fan 1996, numpy's default). The product is
// rounded before it is added, on every processor.
func (h *histogram) quantile(q float64) float64 {
	position := q * float64(h.n-1)
	k := int(position)
	lower, upper := h.pair(k)
	return float64(lower) + float64((position-float64(k))*float64(upper-lower))
}
