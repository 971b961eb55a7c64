// Package squiggle turns bases into the current that a nanopore would show of them.
//
// Problem: a caller that is tried on square waves with white noise is flattered. What
// makes real current hard is that bases don't pass at one speed, some so fast that
// hardly a sample is theirs; that the same k-mer isn't at the same level twice; and
// that noise is not white, reads differ, and levels drift.
//
// Assumptions: the level depends on the k bases in the pore. How often and how long a
// strand stops, and its noise, don't depend on what passed before.
//
// Strategy: a [Model] has a row for each k-mer: level, how far visits differ from it,
// noise within a visit, and time. A strand passes in continuous time, each base for a
// time drawn from its k-mer's distribution times the read's own speed; a sample on a
// border has both levels by their shares. To that come noise as an ARMA(1,1) process
// with the measured autocorrelation, and slow drift as an Ornstein-Uhlenbeck process.
// Each read has a level, a range, a speed and a noise of its own. It begins with the
// open pore and the strand's leader, which the motor holds still.
//
// Consequences: when the bases pass is drawn apart from what their current is, so that
// the length of a read is known without making it, and a read needs no memory but its
// own. Products are rounded before they are added, so processors with fused
// multiplication give the same samples.
package squiggle
