// Package network runs the networks that score alleles: it is the
// [variant.Network] of package variant on the device scheduler of package infer.
//
// A model is a folder with an ONNX network and a manifest. The network takes
// examples as package variant makes them, float32 [N, 1, variant.ExampleSize], and
// gives logits, float32 [N, 1, variant.Scores], head by head. Softmax and
// calibration are done here, in float64 and in a fixed order, so that a network
// needs neither and both can be inspected.
//
// # Batches
//
// Everything in a process that calls variants shares one [Network], and what it
// asks at the same time is computed in the same batches: each Score is a producer
// of the batcher for as long as it lasts. No answer depends on what else was in
// its batch: see package infer.
//
// # Failures
//
// A batch that fails is computed again; if that fails too, every Score that had an
// example in it has an error and no answers. A device that hangs is the end of the
// network: see [Network.Watchdog].
package network
