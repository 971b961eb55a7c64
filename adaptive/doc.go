// Package adaptive decides what is to become of reads while they are in their
// pores: adaptive sampling.
//
// Problem: a sequencer can eject a molecule and go on with another. Whether that is
// worth while has to be known within a second or two of a read's beginning, from a
// few hundred bases of ten percent error.
//
// Strategy: the current of a read's beginning is collected ([Read]) and looked at
// when there is enough of it, and again whenever there is twice as much, up to a limit
// ([Schedule]). A look is basecalled and aligned by the caller; a [Policy] says from
// the alignments whether the read lies on the [Targets], or that it can't tell yet. A
// read is ejected only if everything that is known of it speaks for that: what is
// doubtful at the last look is kept.
//
// Consequence: a read gets one decision at most, after a bounded number of looks, whose
// work is bounded by twice that of the last one.
//
// The package is pure: no goroutine, no clock, no I/O.
package adaptive
