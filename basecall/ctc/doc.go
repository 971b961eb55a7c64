// Package ctc decodes the scores of networks trained by connectionist temporal classification (Graves et al. 2006):
// a probability in each frame for each base and for a blank.
//
// A kernel for GPUs (basecall/kernels/cuda/ctc.cu) gives the same bits: each operation here has its place there.
package ctc
