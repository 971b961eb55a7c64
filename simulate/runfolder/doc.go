// Package runfolder writes a run of called reads into a folder as MinKNOW does, while it is
// sequenced.
//
// Problem: what follows a folder that MinKNOW writes to has to be tried on one: barcodes each in
// a folder of its own, files that grow and are rotated, reads that failed beside those that
// passed, the same reads as FASTQ and as BAM, and a summary when all is there.
//
// Assumptions: strands pass each pore at an even speed, one after the other, with pauses that
// are distributed exponentially; a read is called the moment it ends, and written at once.
//
// Strategy: a [Run] is drawn read by read in the order in which reads end, from a seed and
// numbers alone; nothing but the strands under way is held. A [Folder] appends reads to files
// and knows no clock. A [Player] has the one follow the other in real time.
//
// Consequences: the same settings make the same files, to the byte, at any pace, and a run may
// be of any length.
package runfolder
