// Package stage is the align stage of the stream, called reads in and aligned read
// segments out, and what it has in common with the basecall stage: all that follows a
// call.
//
// A [Placer] does that for one read: it finds barcodes and cuts them off, judges what is
// left, publishes it, aligns it, and cuts it into one segment per region of the reference
// that it touches. The basecall stage has one for the reads that it calls, so that they
// never leave the process; the align stage has one for reads that others have called,
// which come by a topic.
//
// # The life of a called read
//
// Each record is a whole read, so there is nothing to be put together and next to no
// state: what the handler folds is the markers of runs and when something was last heard
// of them. A read is worked on as soon as there is an aligner for it; its record is
// resolved with what follows from it, in one emission. A run's end marker is passed on
// behind all reads before it.
package stage
