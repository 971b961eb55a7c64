// Package biomarker turns a sample's evidence on a model's features into a model's answers: a manifest, the numbers that
// its network takes, and the meaning of the network's numbers. It is pure: the caller has the network compute.
//
// FORMAT.md describes the folder of a model.
package biomarker
