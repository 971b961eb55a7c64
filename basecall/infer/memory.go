package infer

import "strings"

// memoryErrors are what ONNX Runtime's errors hold when a device has no more memory:
// of its own arena, of CUDA, of cuDNN and cuBLAS, and of the C++ library.
var memoryErrors = []string{
	"Failed to allocate memory for requested buffer", // BFCArena
	"out of memory", // CUDA failure 2
	"CUDNN_STATUS_ALLOC_FAILED",
	"CUBLAS_STATUS_ALLOC_FAILED",
	"Available memory of", // of gpu_mem_limit, "is smaller than requested bytes of"
	"std::bad_alloc",
}

// OutOfMemory reports whether an error of a session says that its device has not
// enough memory: a smaller batch, or fewer sessions, may do. The runtime has no code
// for that, so its words decide.
func OutOfMemory(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	for _, words := range memoryErrors {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
