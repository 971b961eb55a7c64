// Package carryover says how much of an allele that a sample shows the negative controls of its run let carry-over explain: reads
// that a barcode was assigned wrongly to (index hopping), and molecules that came from elsewhere (carry-over from a run before,
// contaminated reagents). All of it is pure.
//
// Problem: a few reads with an allele are a true minority variant in a sample, or reads of its neighbours on
// the plate. The sample alone doesn't show which.
//
// Strategy: reads are counted at each allele in all samples of the run, called or not. Two sources are
// considered, each only where it was seen: other samples that show the allele, and controls that show it.
// What the controls show bounds from above how many reads each source gives to a sample ([Table.Assess]).
//
// Consequences: an allele is marked, never removed. Where controls can't bound carry-over, because no read of
// theirs lies there, because nothing shows that they were sequenced, or because they have the allele themselves, the basis says so.
package carryover
