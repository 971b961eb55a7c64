// Package eventalign finds which samples of a read's current belong to which base, by a
// table of k-mer levels, and measures what a pore does with them.
//
// Problem: samples don't show whether simulated current is like real current. Bases do:
// how far a base's mean is from its k-mer's level, how its samples scatter, and how many
// they are.
//
// Assumptions: the level depends on the k bases in the pore. Each base has one sample
// at least, and no base passes twice. The read's picoamperes are its levels times one
// scale plus one shift.
//
// Strategy: [Align] is a Viterbi alignment of samples to the levels of a known sequence,
// in a band about where its bases are known to be. [Decoder] is the same without a
// sequence: a beam search over all k-mers. [Statistics] fits a read's scale and shift to
// the bases' means and collects their distributions; [KS] compares two.
//
// Consequences: a base that passed within less than a sample is given one that belongs
// to its neighbours, so what is measured is not what the pore did. It is comparable
// among reads that were measured alike, and only there.
package eventalign
