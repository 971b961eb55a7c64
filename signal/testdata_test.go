package signal_test

import (
	"testing"

	"github.com/porestream/porestream/testenv"
)

// recordings returns the folder of larger recordings that a checkout may have
// beside it, and skips the test where there is none.
func recordings(tb testing.TB) string {
	tb.Helper()
	return testenv.Recordings(tb, ".")
}
