package genes

import (
	"testing"

	"github.com/porestream/porestream/testenv"
)

// TestNothingIsFused: else genes and their scores could differ on arm64.
func TestNothingIsFused(t *testing.T) {
	if !testenv.All() {
		t.Skip("all that these import is compiled for arm64: with PORESTREAM_TEST_ALL=1, as every night")
	}
	testenv.NothingFused(t, ".", "./rna", "./homology")
}
