// Package cram reads CRAM 2 and 3 (CRAM format specification 3, and codec specification 3.1).
//
// Problem: CRAM has no records. A container holds, for some thousand of them, each field of all
// records as a series of its own, encoded and compressed by a method of its own, and a read's bases
// as their differences to a reference sequence that the file does not have.
//
// Strategy: everything that can read a record of BAM is there already. So a CRAM file becomes the
// bytes of the BAM file with the same records, decompressed: [Reader] is an [io.Reader] of these, and
// [Decoder] is its pure core, for files that are still being written. What follows needs to know
// nothing of CRAM.
//
// Layers, from below: bytes and bits of a block (stream), what a series is encoded by (encoding), what
// a container says of its series (compression), a slice's records (slice, sequence), how they are
// mates of each other (mates), and records as BAM (bam). How blocks are compressed is package codec's.
//
// Assumptions: a container fits into memory, and so does what it decodes to. Limits on both are in
// this file, and are far above what writers make.
//
// What CRAM itself doesn't keep can't be read from it: = and X in a CIGAR are M, and of reads whose
// names were left out they are numbers. As samtools does, MD and NM are made where they are left out.
package cram

const (
	// maxContainer bounds what a container takes in a file, and what a block of it decompresses to.
	maxContainer = 1 << 28
	// maxSlice bounds what all blocks of a slice decompress to, and maxBases the bases of its reads.
	maxSlice = 1 << 29
	maxBases = 1 << 28
	// maxRecords bounds the records of a slice. samtools writes 10,000.
	maxRecords = 1 << 21
	// maxLandmarks bounds the slices of a container.
	maxLandmarks = 1 << 20
)
