package variant

import (
	"testing"

	"github.com/porestream/porestream/testenv"
)

// TestNothingIsFused: else calls, their phase, a panel's bounds or thresholds of modified bases could differ on arm64.
func TestNothingIsFused(t *testing.T) {
	if !testenv.All() {
		t.Skip("all that these import is compiled for arm64: with PORESTREAM_TEST_ALL=1, as every night")
	}
	testenv.NothingFused(t, ".", "./phase", "./carryover", "../watchlist", "../watchlist/biomarker", "../modbase/pileup", "../demux", "../stat")
}
