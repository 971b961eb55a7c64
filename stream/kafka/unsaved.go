package kafka

import "time"

// unsaved is since when a state has changed that no durable snapshot has. It
// outlives generations as its state does: a partition that is restored from an old
// snapshot again and again has been unsaved since that was taken.
type unsaved struct {
	since    time.Time // zero: the newest snapshot has everything
	behind   time.Time // of the first change behind the snapshot that is being written; zero: none
	writing  bool
	restored time.Time // when the snapshot was taken that the state was restored from; zero: there was none
}

// again notes that a record of a time went into the state, which had it before it was
// restored.
func (u *unsaved) again(recorded time.Time) {
	if !u.restored.IsZero() {
		recorded = u.restored
	}
	u.change(recorded)
}

// change notes that a record went into the state now.
func (u *unsaved) change(now time.Time) {
	if u.since.IsZero() {
		u.since = now
	}
	if u.writing && u.behind.IsZero() {
		u.behind = now
	}
}

// begin notes that a snapshot of the state as it is is being written. One that
// comes to nothing needs no end.
func (u *unsaved) begin() { u.writing, u.behind = true, time.Time{} }

// end notes that the snapshot begun last is durable.
func (u *unsaved) end() { u.since, u.writing, u.behind = u.behind, false, time.Time{} }
