package simulate_test

import (
	"testing"

	"github.com/porestream/porestream/testenv"
)

// TestNothingIsFused: else the same seed would make other reads, and other profiles be
// measured, on arm64.
func TestNothingIsFused(t *testing.T) {
	if !testenv.All() {
		t.Skip("all that these import is compiled for arm64: with PORESTREAM_TEST_ALL=1, as every night")
	}
	testenv.NothingFused(t, ".", "./squiggle", "./eventalign", "./flowcell", "./runfolder", "./internal/seeded", "../internal/porefit", "../internal/simulation", "../basecall/eval")
}
