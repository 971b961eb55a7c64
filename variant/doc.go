// Package variant calls SNPs and indels of haploid and diploid samples and of
// mixtures from read segments as they arrive.
//
// Alleles that reads show often enough compete as haplotypes ([Region.Examples] shows the
// outcome), a [Network] scores each, and the likeliest genotypes that fit onto the haplotypes
// of a sample are called. Changes that touch on one haplotype, MNPs and delins, are one allele
// (complex.go). Long homopolymers of a diploid sample are evaluated by the distribution of
// their reads' lengths instead of by the network. Without a network an analytic model decides,
// for haploid samples only.
//
// The state of a region is its set of read segments, kept as differences from
// the reference; everything else is derived. A call is therefore a function of
// the set: the order in which segments arrive, how they are batched, and how
// often one is delivered have no effect on what [Region.Finalize] returns.
//
// While reads arrive, [Region.Evaluate] evaluates places anew whose number of reads
// has grown by a fifth and returns revisions: a call appears as PROVISIONAL,
// becomes STABLE, or is RETRACTED when the evidence turns. It reads no clock, so a
// region fed the same records in the same order returns the same revisions.
// Finalize closes the run.
//
// Nothing here starts a goroutine, does I/O or keeps global state. Package aligned
// drives the same regions over a file.
package variant
