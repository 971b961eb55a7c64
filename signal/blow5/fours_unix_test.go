//go:build unix

package blow5

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/porestream/porestream/testenv"
)

// TestDecodeStaysInside decodes from memory, and into memory, behind which there is
// none.
func TestDecodeStaysInside(t *testing.T) {
	for n := 1; n < 100; n++ {
		samples := make([]int16, n)
		for range 2 {
			src := testenv.BeforeGuard(t, slowSVBZD(samples))
			dst := unsafe.Slice((*int16)(unsafe.Pointer(&testenv.BeforeGuard(t, make([]byte, 2*n))[0])), n)
			if got, err := appendSVBZD(dst[:0:n], src); err != nil || &got[0] != &dst[0] || !slices.Equal(got, samples) {
				t.Fatalf("%d samples: %v, %v", n, got, err)
			}
			for i := range samples {
				samples[i] = int16(500 + i*i%700)
			}
		}
	}
}
