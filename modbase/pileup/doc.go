// Package pileup counts what aligned reads say of modified bases at each position of a reference.
//
// Problem: per position, strand and modification, how many reads are called modified, otherwise
// modified, canonical, below the threshold, without a call, another base, or deleted there; as
// bedMethyl of 18 columns, which modkit defined.
//
// Assumptions: reads come by their first position. A read has calls at few of its bases, or at many.
//
// Strategy: reads are kept while they overlap what isn't counted yet, and each position at which one
// of them has a call is counted once no further read can overlap it, by reading every read that does.
// Each read is a cursor that only goes forward. So the cost is one step per position with a call and
// read over it, and none for bases between; and memory is that of the reads over one place.
//
// Consequences: counts are sums over a set of reads, so reads that begin at one position may come in
// any order. Probabilities are whole numbers of 512ths, in which those of ML and their sums are exact,
// so no threshold depends on how a sum was rounded.
package pileup
