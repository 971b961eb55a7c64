// Package modbase reads and writes what basecallers say of modified bases: the tags MM, ML and
// MN of SAM records and FASTQ titles (SAM optional fields specification 1.7, of 2024).
//
// MM is a set of lists. Each names a base as it stands in the read, a strand, one or several
// modifications, and how many bases of that kind are skipped before each base that was called;
// all of it in the direction in which the molecule was sequenced, however the read is aligned.
// ML has a probability for each of them, and MN how long the read was when that was written.
//
// A place in a read is therefore a sum over the read before it: a program that cuts a read
// must write its lists anew, which is what [Tags.Slice] does.
package modbase
