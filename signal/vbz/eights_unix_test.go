//go:build unix

package vbz

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/porestream/porestream/testenv"
)

// TestDecodeStaysInside decodes from memory, and into memory, behind which there is
// none.
func TestDecodeStaysInside(t *testing.T) {
	for n := range 100 {
		for _, samples := range [][]int16{walk(n, uint64(n)), make([]int16, n)} {
			src := testenv.BeforeGuard(t, slowSVB16(samples))
			dst := make([]int16, 0)
			if n > 0 {
				dst = unsafe.Slice((*int16)(unsafe.Pointer(&testenv.BeforeGuard(t, make([]byte, 2*n))[0])), n)
			}
			if err := decodeSVB16(dst, src); err != nil || !slices.Equal(dst, samples) {
				t.Fatalf("%d samples: %v, %v", n, dst, err)
			}
		}
	}
}
