package minknow

import (
	"testing"
	"time"
)

// waitFor waits for a condition that signals no change.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}
