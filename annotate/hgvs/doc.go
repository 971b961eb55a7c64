// Package hgvs reads and prints sequence variant descriptions of the HGVS nomenclature (version 21) at the level of
// DNA: g., m., o., c. and n. It knows the grammar alone; what positions and bases mean is for those who have the
// reference sequences.
//
// Parse takes all that says which sequence results, and uncertain positions, which do not. Descriptions of RNA (r.)
// and proteins (p.), and what the grammar has for mosaics, unknown sequences, methylation and rearranged chromosomes,
// are refused by name.
package hgvs
