package signal_test

import (
	"os"
	"path/filepath"
	"testing"
)

// recordings returns the folder of larger recordings that a checkout may have
// beside it, and skips the test where there is none.
func recordings(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
	data := filepath.Join(dir, "..", "shared", "data")
	if _, err := os.Stat(data); err != nil {
		tb.Skip("the larger recordings are not beside this checkout; nothing to read")
	}
	return data
}
