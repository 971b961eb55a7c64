package stream

import "slices"

// Tracker says how far an input partition may be committed while its records
// are dealt with out of order.
//
// Problem: records of one partition are resolved (their effects are durable
// downstream) in any order, but Kafka keeps a single offset per partition, and
// everything below it counts as done.
//
// Strategy: remember the tracked records in offset order and commit only up to
// the first that is not resolved. A resolved record behind a hole waits, and is
// listed in the [Position] that goes with the commit.
//
// Consequence: after a crash the records from the hole on are read again; the
// position says which of them are resolved. None is lost, none is doubled.
//
// A Tracker is not safe for concurrent use.
type Tracker struct {
	next    int64 // the lowest offset that has not been passed to Track or Advance
	entries []trackedRecord
	head    int // entries[:head] are resolved and behind the committable offset

	unresolved      int
	unresolvedBytes int64
	spans           int // maximal runs of unresolved records
}

type trackedRecord struct {
	offset   int64
	bytes    int64
	resolved bool
}

// NewTracker tracks a partition that is read from offset next on.
func NewTracker(next int64) *Tracker { return &Tracker{next: next} }

// Track notes that a record is being dealt with. Offsets ascend, gaps are fine.
// It reports false, and does nothing, for an offset that is below the ones
// before.
func (t *Tracker) Track(offset, bytes int64) bool {
	if offset < t.next {
		return false
	}
	if t.head == len(t.entries) || t.entries[len(t.entries)-1].resolved {
		t.spans++
	}
	t.entries = append(t.entries, trackedRecord{offset: offset, bytes: bytes})
	t.next = offset + 1
	t.unresolved++
	t.unresolvedBytes += bytes
	return true
}

// Advance notes that there is no record to deal with before offset next:
// transaction markers and what compaction removed leave such gaps, and without
// this the committed offset would stop short of them.
func (t *Tracker) Advance(next int64) { t.next = max(t.next, next) }

// Resolve notes that a record is dealt with. It reports false for an offset
// that was never tracked; resolving twice is fine, and so are offsets below
// the committable one, which belong to an earlier owner.
func (t *Tracker) Resolve(offset int64) bool {
	if offset < t.Committable() {
		return true
	}
	live := t.entries[t.head:]
	i, exists := slices.BinarySearchFunc(live, offset, func(r trackedRecord, offset int64) int {
		switch {
		case r.offset < offset:
			return -1
		case r.offset > offset:
			return 1
		}
		return 0
	})
	if !exists {
		return false
	}
	if r := &live[i]; !r.resolved {
		r.resolved = true
		t.unresolved--
		t.unresolvedBytes -= r.bytes
		left := i > 0 && !live[i-1].resolved
		right := i+1 < len(live) && !live[i+1].resolved
		switch {
		case left && right:
			t.spans++
		case !left && !right:
			t.spans--
		}
	}
	for t.head < len(t.entries) && t.entries[t.head].resolved {
		t.head++
	}
	t.compact()
	return true
}

// Committable is the offset to commit: the first unresolved record's, or the
// next one to be read if there is none.
func (t *Tracker) Committable() int64 {
	if t.head < len(t.entries) {
		return t.entries[t.head].offset
	}
	return t.next
}

// Unresolved counts the records that are tracked and not resolved, and their
// bytes.
func (t *Tracker) Unresolved() (records int, bytes int64) {
	return t.unresolved, t.unresolvedBytes
}

// OpenSpans counts the open spans that [Tracker.Position] would have.
func (t *Tracker) OpenSpans() int {
	if t.head < len(t.entries) && !t.entries[len(t.entries)-1].resolved {
		return t.spans - 1
	}
	return t.spans
}

// Position returns which records are resolved. origin is the position's; the
// tracker does not use it.
func (t *Tracker) Position(origin int64) Position {
	p := PositionAt(origin, t.Committable())
	live := t.entries[t.head:]
	last := len(live) - 1
	for last >= 0 && !live[last].resolved {
		last--
	}
	if last < 0 {
		return p
	}
	p.Next = live[last].offset + 1
	p.Open = make([]Span, 0, t.OpenSpans())
	for i := 0; i < last; i++ {
		if live[i].resolved {
			continue
		}
		s := Span{Start: live[i].offset}
		for ; !live[i].resolved; i++ {
			s.End = live[i].offset + 1
		}
		p.Open = append(p.Open, s)
	}
	return p
}

// compact drops the resolved front once it is half of the slice, which keeps
// the cost per record constant.
func (t *Tracker) compact() {
	if t.head == len(t.entries) {
		t.entries, t.head = t.entries[:0], 0
		return
	}
	if t.head >= 64 && t.head*2 >= len(t.entries) {
		n := copy(t.entries, t.entries[t.head:])
		t.entries, t.head = t.entries[:n], 0
	}
}
