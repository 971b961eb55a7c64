// Package basecall turns the current of nanopore reads into sequences.
//
// A [Model] is a recurrent network in ONNX form and a manifest that says how to
// feed it and how to read what it answers. A [Caller] holds one model on one or
// more devices; any number of goroutines pass it reads, and the windows of all
// of them share batches.
//
// # The life of a read
//
// A read is a [Stream], to which samples are written as they come. They are cut
// into windows of the length that the network was trained on, each of which is
// normalised over what came before its end, and queued as soon as that is there.
// The batcher (package infer) runs the windows of many reads together and returns
// one matrix of scores per window, frames by classes. A decoder turns each window
// into bases and a move table, which states for every frame whether a base starts
// there. Neighbouring windows share an overlap; their move tables are cut once
// within it and joined. When the read ends only its last window is left, which on a CPU
// is no longer than what is left of the read.
//
// Windows are decoded one by one as they come back, and joined as bases, so that
// a read holds no more signal than two windows or the normalisation's warm-up,
// and no more scores than it has windows in the batcher, however long it is.
//
// # Determinism
//
// A read's sequence, qualities and moves are a function of the read, the model
// and the kind of device alone. They don't depend on the pieces in which the read
// was written, on the reads that happen to share its batches, nor on the size or
// the fill of a batch. Everything that follows
// the network is sequential per read, and the network computes each row of a
// batch by itself; package infer has a test that holds the runtime to that.
package basecall
