// Package eval compares the variants of a sample with a truth set.
//
// # Problem
//
// One haplotype can be written in many ways: an indel in a repeat at any of its
// copies, two neighbouring SNPs as one MNP, a block as one complex record. A
// comparison of rows counts such differences of spelling as errors. What is right or
// wrong is the sequence of the sample's haplotypes.
//
// # Strategy
//
//  1. Each allele of a genotype is taken apart into atoms: substitutions of one base,
//     insertions and deletions (decompose). Atoms of a record stay linked: where the
//     record says that they are on one haplotype they are taken to be.
//  2. Atoms of both sides are collected into clusters (gather). A cluster ends where
//     what comes cannot have to do with what was, by proof: see separable.
//  3. In a cluster the search (search) plays subsets of the atoms of both sides onto
//     the reference, two haplotypes for each side, and keeps those that spell the same
//     sequences. The largest number of atoms that can be played wins. Atoms in it are
//     true positives; others are false negatives (truth) and false positives (query).
//     A search that grows beyond Options.MaxPaths is given up: all atoms of the cluster
//     are errors and counted as unresolved.
//  4. The same with one haplotype finds which alleles are right, whatever their
//     genotypes. A call that is right in this sense only is a genotype error.
//  5. An allele of a record is also evaluated as a whole (event): it is right if all its
//     atoms are, and those of every allele that it is matched with. So half of an MNP is
//     wrong as an event, though its base is right as an atom.
//
// # Assumptions
//
// Records are sorted, and contigs are in the order of the reference. Of a genotype
// that is not phased nothing is known about which haplotype is which: every order is
// tried, anew for each record. Phased ones (GT with |, PS) keep their relation as it is
// written if both sides say something about it, no further than Options.PhaseReach
// apart: see Options.IgnorePhase.
//
// # Consequences
//
// Respelling a set changes nothing, as long as atoms of one side do not overlap on a
// haplotype: such atoms cannot be played together, and a set that has them contradicts
// itself. Recall is counted in atoms of the truth and precision in atoms of the query,
// since two spellings of one haplotype can differ in their number. Numbers are those of
// vcfeval's model (haplotypes, largest set), counted as hap.py does after its
// decomposition; docs/files/evaluation.md lists the differences.
package eval
