package infer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOutOfMemory has the words of the runtime's errors as users have reported them.
func TestOutOfMemory(t *testing.T) {
	for _, test := range []struct {
		text string
		want bool
	}{
		{"Non-zero status code returned while running FusedMatMul node. Name:'MatMul_92' Status Message: bfc_arena.cc:331 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 8388608000", true},
		{"BFCArena::AllocateRawInternal Available memory of 34699008 is smaller than requested bytes of 945041920", true},
		{"cuda_call.cc:121 onnxruntime::CudaCall CUDA failure 2: out of memory ; GPU=0 ; file=cuda_stream_handle.cc ; line=175 ;", true},
		{"CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED ; GPU=0", true},
		{"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0", true},
		{"Exception during initialization: std::bad_alloc", true},
		{"CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version ; GPU=1", false},
		{"Non-zero status code returned while running LSTM node. CUDNN failure 8: CUDNN_STATUS_EXECUTION_FAILED", false},
		{"axis 2 of output \"scores\" is 2, not 5", false},
	} {
		assert.Equal(t, test.want, OutOfMemory(fmt.Errorf("basecalling read x: %w", errors.New(test.text))), test.text)
	}
	assert.False(t, OutOfMemory(nil))
}
