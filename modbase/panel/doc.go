// Package panel answers what panels ask of counts of modified bases: whether regions are methylated, as promoters, or on one of
// two alleles, as imprinted ones; and the states of listed sites, which classifiers of tumours take.
//
// # Regions
//
// Problem: of a region it is known which share of its calls is modified. What is asked is whether the share that the sample has
// is high, low or a half, and how probable it is that the answer is wrong.
//
// Assumptions: molecules are independent of each other. Calls of one molecule are not: it is methylated all along, or not at all.
//
// Strategy: the share of the calls is an average of the molecules' shares, each of which is between 0 and 1, weighted by how much
// of the region the molecule covers. By Chernoff's bound, which holds for such averages, a sample with the share p has one
// as far off as q or farther with a probability of at most exp(-n D(q‖p)), where D is the divergence of Kullback and Leibler
// and n the sum of the weights: the depth. A
// weight is the molecule's calls by the most that one can have, which is the positions of the strand with more of them. What a rule doesn't allow is excluded by that, at the share nearest to q.
//
// Consequences: hundreds of sites of one molecule count as one molecule, and a depth of some ten is needed for an answer. The
// errors of the caller are not part of the bound: they shift shares, for which what rules allow has margins. Answers are a
// function of the counts.
package panel
