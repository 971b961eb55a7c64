// Package input reads called reads: FASTQ, SAM, BAM and CRAM, as Dorado, MinKNOW, Guppy and the
// tools around them write them, whole or while they grow.
//
// Whatever a read is aligned to is dropped, and a read on the reverse strand is
// reverse-complemented to the direction in which it was sequenced. What basecallers state
// about a read stands in one of three places, which [Read] brings together: key=value in
// the title of a FASTQ record (MinKNOW, Guppy), SAM's tags, in FASTQ separated by tabs
// (Dorado, samtools fastq -T), and the read groups of a header.
//
// Decoding is in three layers: bytes of a file that may grow ([Growing]) or of a pipe
// ([Reader]); what they decompress to; and records, each cut out of the bytes and decoded
// for itself, so that one that can't be used ([RecordError]) doesn't stop the others.
package input
