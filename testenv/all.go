package testenv

import (
	"os"
	"testing"
)

// All reports whether what changes seldom break is tested, too, as every night: PORESTREAM_TEST_ALL is set.
func All() bool { return os.Getenv("PORESTREAM_TEST_ALL") != "" }

// CalculatesLong leaves a test out under the race detector, which makes it ten times slower and finds nothing in it: goroutines that it
// starts, if any, are those of other tests of the package. The Makefile tests such a package without the race detector, too (twice), and
// with All it is run with the race detector as well.
func CalculatesLong(tb testing.TB) {
	tb.Helper()
	if raceDetector && !All() {
		tb.Skip("calculates for long: run without the race detector, or with PORESTREAM_TEST_ALL=1, as every night")
	}
}
