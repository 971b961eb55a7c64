// Package homology finds the known protein that a predicted one is most similar to.
//
// Problem: genes that are found in a sequence have no names. A related organism's proteins have, and most proteins of two strains are nearly the same.
//
// Assumptions: the known proteins are those of relatives, so that what is the same gene shares words of five
// residues. Remote relatives, which need profiles, are not searched for.
//
// Strategy: words of five residues that a query shares with known proteins are sorted by protein and diagonal
// (index.go). Those with the most on neighbouring diagonals are aligned in a band around them, locally, with
// BLOSUM62 and BLAST's gap costs (align.go). Identity, coverage and expected number of such hits by chance
// are those that BLAST reports.
//
// Consequences: what is found is a function of the proteins, in any order but for ties of equal ones. A
// domain that is shared by chance is found too: the caller decides by identity and coverage whether a name
// carries over.
package homology
