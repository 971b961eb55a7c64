// Package network computes sequence networks on stretches of DNA, with ONNX Runtime, and has them score alleles. What
// windows are and what scores are made of outputs is in package score.
package network
