// Package align holds alignments of called reads and turns them into read
// segments, the records on the reads topic.
//
// A segment is one alignment clipped to one region of the reference and kept as
// differences from it: an operation list, the bases that differ, and a quality
// and a dwell per base. Indels are shifted to the leftmost place that spells the
// same read, so that reads which carry the same allele carry the same
// operations. Regions are fixed windows of a contig; a segment reaches a halo
// beyond its region so that a caller sees whole alleles at the border.
//
// Everything here is pure. Package align/minimap makes the alignments.
package align
