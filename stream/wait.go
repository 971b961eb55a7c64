package stream

import "time"

// patience is how long something may be waited for before it is reported.
const patience = time.Minute

// Wait is for a [Ticker] that reports, once, that something waits for what doesn't come.
type Wait struct {
	since    time.Time // zero: nothing waits
	reported bool
}

// Overdue notes at a tick whether something waits, and reports whether that is to be reported now.
func (w *Wait) Overdue(now time.Time, waits bool) bool {
	switch {
	case !waits:
		*w = Wait{}
	case w.since.IsZero():
		w.since = now
	case !w.reported && now.Sub(w.since) >= patience:
		w.reported = true
		return true
	}
	return false
}
