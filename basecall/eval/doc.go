// Package eval evaluates called reads by the genome that they came from: how
// identical they are to it, which errors they have and where, and whether base
// qualities say what they promise.
//
// # Problem
//
// One figure, identity, doesn't show how to improve a basecaller. Four others do:
// which bases it confuses, how long runs of one base come out, which motifs it gets
// wrong (native DNA is methylated in some) and how far its qualities can be believed.
// The same counts must come out whatever the aligner, the strand or the order of
// reads.
//
// # Definitions
//
//   - A read counts once, by its primary alignment. What is aligned is a sequence of
//     columns: a match, a substitution, an inserted base or a deleted base. Letters other
//     than A, C, G and T match nothing.
//   - Identity of a read is matches over columns, with every inserted and deleted base a
//     column. The mean and the median are over the reads that align.
//   - Error rates are over the columns of all alignments, so that long reads weigh more.
//   - Everything is counted in the direction of the read, which is the direction in which
//     the molecule went through the pore: a context on the reverse strand is the reverse
//     complement of the reference's. Gaps are moved to the leftmost place in that
//     direction that spells the same read, so where a gap is counted is not the aligner's
//     choice.
//   - A homopolymer is a maximal run of one base in the reference with an aligned base of
//     the reference on either side; runs of length 1 count too. Its called length is the
//     number of its bases among the columns of the run and the insertions within it and
//     directly beside it. It is called right if it is spelled exactly.
//   - A base is wrong if it is substituted or inserted; a deletion has no base to blame.
//     The observed quality of bases with the same predicted one is the share of wrong ones
//     in decibels.
//
// # Strategy
//
// A Tally is a fold of reads into integers, and tallies can be merged: the report is the
// same to the last bit for any order and any number of workers. Memory does not grow
// with the number of reads, except by the number of different read lengths and contigs.
package eval
