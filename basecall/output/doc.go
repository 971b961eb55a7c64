// Package output writes basecalled reads as FASTQ, SAM or BAM.
//
// SAM and BAM carry what Dorado and MinKNOW write: a read group per run and
// model, and on each read the tags of signal provenance (channel, start, number
// of samples, scaling, move table), so that tools which read theirs read these.
// A read with alignments becomes one record per alignment, the primary first;
// reads come out in the order in which they were written.
package output
