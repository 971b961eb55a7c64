package basecall

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/porestream/porestream/signal"
)

// Problem: pores, chemistries and amplifiers differ in level and gain, and a
// network expects its input in one range.
//
// Assumptions: samples are 16-bit levels of a converter, so that a histogram of
// them is exact and small. A read is at hand as a whole.
//
// Strategy: an affine map per read, x = (level - shift) / scale, whose two
// numbers come from order statistics or from the calibration. Order statistics
// are read off a histogram over the range of the read, which takes one pass and
// no sorting.
//
// Consequences: the result is exact and independent of the order of samples; a
// histogram takes up to 256 KiB and is reused.

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

// normalisation returns the map for a read by the manifest's method.
func (m NormalisationManifest) normalisation(samples []int16, calibration signal.Calibration) (affine, error) {
	a := affine{scale: 1, clip: m.Clip}
	if m.Method == "pa" {
		if !(calibration.Scale > 0) || math.IsInf(float64(calibration.Scale), 1) {
			return affine{}, fmt.Errorf("calibration scale is %v picoamperes per level, which normalisation to picoamperes can't use", calibration.Scale)
		}
		a.shift = float32(m.Mean/float64(calibration.Scale) - float64(calibration.Offset))
		a.scale = float32(m.StdDev / float64(calibration.Scale))
		return a, nil
	}
	if len(samples) == 0 {
		return a, nil
	}
	h := histograms.Get().(*histogram)
	defer histograms.Put(h)
	h.fill(samples)
	switch m.Method {
	case "med_mad":
		median2 := h.twiceMedian()
		a.shift = float32(median2) / 2
		a.scale = max(minScale, float32(h.twiceMAD(median2))/2*madToStdDev)
	case "quantile":
		qa, qb := h.quantile(m.QuantileA), h.quantile(m.QuantileB)
		a.shift = float32(max(minQuantileShift, m.ShiftMultiplier*(qa+qb)))
		a.scale = float32(max(minScale, m.ScaleMultiplier*(qb-qa)))
	default:
		return affine{}, errors.New("unknown normalisation method " + m.Method)
	}
	return a, nil
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

// histogram counts the levels of a read between its lowest and its highest.
type histogram struct {
	counts []uint32
	low    int // level that counts[0] counts
	n      int
}

// histograms recycles histograms, the only memory that normalising needs.
var histograms = sync.Pool{New: func() any { return new(histogram) }}

// fill counts a read of at least one sample.
func (h *histogram) fill(samples []int16) {
	low, high := samples[0], samples[0]
	for _, s := range samples {
		low, high = min(low, s), max(high, s)
	}
	size := int(high) - int(low) + 1
	if cap(h.counts) < size {
		h.counts = make([]uint32, size)
	}
	h.counts = h.counts[:size]
	clear(h.counts)
	h.low, h.n = int(low), len(samples)
	for _, s := range samples {
		h.counts[int(s)-int(low)]++
	}
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
// nearest ranks (definition 7 of Hyndman and Fan 1996, numpy's default).
func (h *histogram) quantile(q float64) float64 {
	position := q * float64(h.n-1)
	k := int(position)
	lower, upper := h.pair(k)
	return float64(lower) + (position-float64(k))*float64(upper-lower)
}
