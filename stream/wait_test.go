package stream

import (
	"slices"
	"testing"
	"time"
)

// TestLongWaitsAreReportedOnce: what waits for a minute is reported once, and again only if it waits anew.
func TestLongWaitsAreReportedOnce(t *testing.T) {
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var w Wait
	var reported []int
	for second := range 300 {
		waits := second >= 10 && second != 150
		if w.Overdue(begin.Add(time.Duration(second)*time.Second), waits) {
			reported = append(reported, second)
		}
	}
	if want := []int{70, 211}; !slices.Equal(reported, want) {
		t.Errorf("reported at %d s, want %d", reported, want)
	}
}
