// Package kernels prepares layers of networks for Porestream's own operators of ONNX Runtime, and
// finds their library. The operators are in the folder cuda beside: CUDA C++, each with a kernel for
// the CPU that gives the same numbers, built by scripts/kernels.sh.
//
// An LSTM layer's operator, LSTM of the domain porestream, takes half floats, multiplies half
// floats, and sums up and keeps its cells in floats. See cuda/lstm.cu for how a GPU does it.
package kernels
