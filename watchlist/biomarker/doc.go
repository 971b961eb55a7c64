// Package biomarker turns what a sample shows of a model's features into a model's answers: a manifest, the numbers that
// its network takes, and what the network's numbers mean. It is pure: whoever calls it has the network compute.
//
// FORMAT.md describes the folder of a model.
package biomarker
