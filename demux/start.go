package demux

// Problem: a DNA read often begins with current that is not of its sequence: the pore is still
// open, or holds the adapter's leader. A network calls bases in it that no molecule has.
//
// Assumptions: that current is higher than a strand's. On the scale of the network's input, where a
// strand's current has median 0 and a spread of about 1, few samples of a strand are above startHigh.
//
// Strategy: windows of a fixed length are taken from the read's begin on. With the first that has
// more than a few high samples the high current has begun, and it ends with the first window from there
// on whose last sample is no longer high. These are Dorado's rule and numbers, so that a model of its
// sees a read from the same sample on.
//
// Consequences: a read that begins with its strand loses startLeast samples, about a base. A spike
// in the search's bounds is taken for the end of the high current, and what is before it is cut off.

const (
	startWindow = 40
	startHigh   = 2.4
	startFew    = 3  // high samples that a window may have by chance
	startLeast  = 10 // samples that every read loses
	// startMost is how far the search goes, in samples; at most half of the read.
	startMost = 8000
)

// StartSamples is how many of a read's first samples say where it begins: of a longer read the others change nothing.
const StartSamples = 2 * startMost

// StartOf returns the sample at which a DNA read's strand begins, as its current shows it. A level's place on the
// scale of the network's input is (level - shift) / scale. A read that is no longer than what it returns has no such begin: 0.
func StartOf(levels []int16, shift, scale float32) int {
	if len(levels) <= startLeast || !(scale > 0) {
		return 0
	}
	high := func(level int16) bool { return (float32(level)-shift)/scale > startHigh }
	bound := min(startMost, len(levels)/2) - startLeast
	begun := false
	for from := startLeast; from+startWindow <= bound+startLeast; from += startWindow {
		window := levels[from : from+startWindow]
		if !begun {
			n := 0
			for _, level := range window {
				if high(level) {
					n++
				}
			}
			begun = n > startFew
		}
		if begun && !high(window[startWindow-1]) {
			if from+startWindow >= bound {
				break // it reaches to where the search ends: nobody knows whether it is over
			}
			return from + startWindow
		}
	}
	return startLeast
}

// StandardStart is what models lose of every read, long enough, that take currents as standardised picoamperes:
// their kits' reads begin with the strand.
func StandardStart(levels []int16) int {
	if len(levels) <= startLeast {
		return 0
	}
	return startLeast
}
