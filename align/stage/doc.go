// Package stage is the align stage of the stream, called reads in and aligned read
// segments out, and what it has in common with the basecall stage: all that follows a
// call.
//
// A [Placer] does that for one read: it finds barcodes and cuts them off, filters the rest
// by length and quality, publishes it, aligns it, and cuts it into one segment per region of
// the reference that it touches. The basecall stage has one for the reads that it calls, so
// that they never leave the process; the align stage has one for reads that others have
// called, which come by a topic.
//
// # The life of a called read
//
// Each record is a whole read, so there is nothing to assemble and next to no state: the
// handler folds the markers of runs and the time of the last record of each run. A read is
// worked on as soon as there is an aligner for it; its record is resolved together with
// the records that result from it, in one emission. A run's end marker is passed on behind
// all reads before it.
package stage
