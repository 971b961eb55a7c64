// Package flowcell is a flow cell in time: which pore captures which molecule when, and
// how each read ends.
//
// Problem: a stream that was tried on reads of even length that follow each other has
// not met what a sequencer does: channels that idle, pores that die, strands that stick
// and are thrown out, and reads that are cut when the channels change their wells.
//
// Assumptions: pores don't know of each other, and capture molecules at random, one
// like any other. What becomes of a strand doesn't depend on what it is.
//
// Strategy: a queue of channels by the time of their next capture. A channel has wells,
// one of which is used, until its pore dies or at the next scan of all wells. The n-th
// capture of the run gets the n-th molecule. Times between captures are exponentially
// distributed, the lives of pores by Weibull's distribution, and where strands stick is
// a Poisson process along them.
//
// Consequences: a run is planned with a few dozen bytes for each read, and every read's
// current is made when it is wanted, of the seed and its number alone: in any order, by
// any number of workers, with the same bytes. A [Run] has the methods of a recording
// (signal.Index), so that what plays recordings plays it.
package flowcell
