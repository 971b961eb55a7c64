// Package network calls modified bases: it runs networks of Remora, and of Dorado and DeepMod2 as package convert makes
// them, which score bases by the current around them and the bases that were called there, on the device scheduler of package infer.
//
// A model is one ONNX file. The file's metadata, Remora's with some of our own, are the model's parameters: the motif that
// it scores, how much of the current and how many bases around it the model needs, and how the current is to
// be scaled. No model is shipped: docs/develop/decisions/variants.md says why one of our own isn't.
//
// # What a network is asked
//
// Once a read is called as a whole, its moves say which samples are of which base. For each place of the
// motif the samples around the base's middle, and for each of these samples the bases around the one that it is of, become one
// row of a batch. Other networks are shown a stretch of current with several such places, or of each base around one what its current was
// like. Rows of many reads share batches. No row's scores depend on the others, see package infer, so what a
// read is said to have is a function of the read, of what it was called, and of the kind of device.
package network
