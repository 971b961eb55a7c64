package demux

import "slices"

// Problem: a direct RNA read begins with an adapter of DNA, which a network for RNA
// calls as something.
//
// Assumptions: the adapter is slow and dark, and the poly(A) tail that follows it is
// bright and even: on RNA004 45 to 65 pA and 80 to 88 pA.
//
// Strategy: medians of short windows; the adapter ends where they rise by rnaStep above
// the median of what was before, and stay there, if that was dark for this read.
//
// Consequences: a read that begins in the middle of a molecule, as after a split, has no
// such step and nothing is cut. Of fourteen reads of RNA004, the eleven that begin with
// the dark level have one, and none of the three others.

const (
	rnaWindowMillis = 60
	rnaHopMillis    = 12
	rnaStay         = 10   // windows that must stay above
	rnaStep         = 15   // pA
	rnaDark         = 0.92 // of the read's median current, what an adapter's is below
	// rnaLeastMillis is the shortest adapter, and rnaMostMillis how far the search goes.
	rnaLeastMillis = 200
	rnaMostMillis  = 5000
)

// RNAAdapter returns the sample at which the adapter of a direct RNA read ends, and its
// poly(A) tail begins; 0 if it can't be found. The samples are picoamperes at a rate in Hz.
func RNAAdapter(picoamperes []float32, rate int) int {
	window, hop := rate*rnaWindowMillis/1000, rate*rnaHopMillis/1000
	if window < 3 || hop < 1 || len(picoamperes) < window {
		return 0
	}
	limit := min(len(picoamperes)/2, rate*rnaMostMillis/1000)
	least := rate * rnaLeastMillis / 1000
	var medians []float32 // of the windows at 0, hop, 2*hop, ...
	sorted := make([]float32, window)
	for at := 0; at+window <= len(picoamperes) && at < limit+(rnaStay+1)*hop; at += hop {
		copy(sorted, picoamperes[at:at+window])
		slices.Sort(sorted)
		medians = append(medians, sorted[window/2])
	}
	dark := float32(rnaDark * quantile(picoamperes, 0.5))
	before := make([]float32, 0, len(medians))
	above := 0
	for i, m := range medians {
		at := i * hop
		if at < least {
			before = append(before, m)
			continue
		}
		slices.Sort(before)
		if level := before[len(before)/2]; m < level+rnaStep || level > dark {
			// What seemed to be the tail was a spike.
			before = append(before, medians[i-above:i+1]...)
			above = 0
			continue
		}
		if above++; above == rnaStay {
			// A window's median rises when half of it lies behind the step.
			return (i-above+1)*hop + window/2
		}
	}
	return 0
}
