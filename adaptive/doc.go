// Package adaptive decides what is to become of reads while they are in their
// pores: adaptive sampling.
//
// Problem: a sequencer can eject a molecule and go on with another. Whether that is
// worthwhile has to be known within a second or two of a read's beginning, from a few
// hundred bases of ten percent error.
//
// Strategy: the current of a read's beginning is collected ([Read]). It is evaluated
// when there is enough of it, and again whenever there is twice as much, up to a limit
// ([Schedule]). For an evaluation ([Evaluation]) the caller basecalls and aligns the read. A
// [Policy] decides from the alignments whether the read lies on the [Targets], or that
// it can't be decided yet. A read is ejected only if everything that is known of it
// speaks for that: a read that is doubtful at the last evaluation is kept.
//
// Consequence: a read gets one decision at most, after a bounded number of evaluations,
// whose work together is less than twice that of the last one.
//
// The package is pure: no goroutine, no clock, no I/O.
package adaptive
