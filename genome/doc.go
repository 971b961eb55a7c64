// Package genome holds reference sequences in memory.
//
// A Genome is read once and never changes, so every part of a process shares it without locks. Each contig carries
// the digest of its own sequence, which is its identity wherever names differ (chr1, 1, NC_000001.11).
package genome
