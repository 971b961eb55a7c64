package partition

import (
	"fmt"
	"time"

	"github.com/porestream/porestream/stream"
)

// Start is what is known of a partition that has just been assigned.
type Start struct {
	// LogStart is the offset of the oldest record in the log, LogEnd the one that
	// the next record will have.
	LogStart, LogEnd int64
	// Committed is the group's offset, negative if there is none, and Metadata
	// what was committed with it.
	Committed int64
	Metadata  string
	// Stateless says that the handler keeps nothing from one record to the next.
	Stateless bool
	// FromEnd says that a new handler begins with what comes from now on, whatever is
	// committed.
	FromEnd bool
	// Warm is the position of a handler that was drained and kept; nil if there
	// is none.
	Warm *stream.Position
}

// Plan says how to restore the handler's state.
type Plan struct {
	// Position is the one that is committed.
	Position stream.Position
	// Warm says that the handler that was kept is as it must be.
	Warm bool
	// Snapshot is whether a snapshot is restored, of the records before From.
	Snapshot bool
	// From is the offset to read from. Records that are dealt with, by the
	// position, are replayed.
	From int64
}

// LostPlaceError says that the committed offset is not in the log.
type LostPlaceError struct{ Offset, LogStart, LogEnd int64 }

func (e *LostPlaceError) Error() string {
	return fmt.Sprintf("the committed offset %d is not in the log, which holds %d to %d", e.Offset, e.LogStart, e.LogEnd)
}

// CutError says that the log begins too late to restore the state.
type CutError struct {
	// Origin is where the state began; negative if the commit does not hold it.
	Origin, LogStart, Committed int64
}

func (e *CutError) Error() string {
	if e.Origin < 0 {
		return fmt.Sprintf("the state at offset %d can't be restored: there is no usable snapshot, and the log, which begins at %d, may have lost records of it", e.Committed, e.LogStart)
	}
	return fmt.Sprintf("the state at offset %d can't be restored: there is no usable snapshot, and of the records since %d the log holds only those from %d on", e.Committed, e.Origin, e.LogStart)
}

// committed reads a group's offset and what was committed with it. A negative
// offset means that there is none.
//
// A commit without metadata, such as an operator's tool makes it, says nothing of
// where the state began: that is the log's first record if it is still there.
// An offset at the start of the log is where the state is to begin.
func committed(s Start) (p stream.Position, originKnown bool, err error) {
	switch {
	case s.FromEnd && s.Warm == nil:
		return stream.PositionAt(s.LogEnd, s.LogEnd), true, nil
	case s.Committed < 0:
		return stream.PositionAt(s.LogStart, s.LogStart), true, nil
	case s.Metadata == "" && s.Committed == s.LogStart:
		return stream.PositionAt(s.Committed, s.Committed), true, nil
	case s.Metadata == "":
		return stream.PositionAt(0, s.Committed), s.LogStart == 0, nil
	}
	if err := p.UnmarshalText([]byte(s.Metadata)); err != nil {
		return p, false, fmt.Errorf("reading what was committed with offset %d: %w", s.Committed, err)
	}
	if p.Offset != s.Committed {
		return p, false, fmt.Errorf("reading what was committed with offset %d: it is about offset %d", s.Committed, p.Offset)
	}
	return p, true, nil
}

// CommittedPosition is the committed position, for a caller that has to choose a
// snapshot before Restore.
func CommittedPosition(s Start) (stream.Position, error) {
	p, _, err := committed(s)
	if err != nil {
		return p, err
	}
	if p.Offset < s.LogStart || p.Next > s.LogEnd {
		return p, &LostPlaceError{Offset: p.Offset, LogStart: s.LogStart, LogEnd: s.LogEnd}
	}
	return p, nil
}

// Usable reports whether a snapshot of the records before offset can restore a
// position: every record that it has folded in is dealt with, and the records behind
// it are in the log.
func Usable(snapshot int64, p stream.Position, logStart int64) bool {
	return snapshot >= p.Origin && snapshot >= logStart && snapshot <= p.Offset
}

// Restore decides how to restore the state, and begins to. snapshots are the
// offsets of the snapshots that there are and that can be read.
func (m *Machine) Restore(s Start, snapshots []int64, now time.Time) (Plan, error) {
	p, err := CommittedPosition(s)
	if err != nil {
		return Plan{}, err
	}
	plan, err := plan(s, p, snapshots)
	if err != nil {
		return Plan{}, err
	}
	m.begin(plan, now)
	if m.fresh = s.Committed < 0 || s.FromEnd && !plan.Warm; m.fresh {
		// So that it is known where the state began, should the log be cut.
		m.moved(now)
	}
	return plan, nil
}

func plan(s Start, p stream.Position, snapshots []int64) (Plan, error) {
	plan := Plan{Position: p, From: p.Offset}
	switch {
	case s.Warm != nil && s.Warm.Equal(p):
		plan.Warm = true
		return plan, nil
	case s.Stateless || s.FromEnd || p.Offset == p.Origin:
		return plan, nil
	}
	for _, offset := range snapshots {
		if Usable(offset, p, s.LogStart) && (!plan.Snapshot || offset > plan.From) {
			plan.Snapshot, plan.From = true, offset
		}
	}
	if plan.Snapshot {
		return plan, nil
	}
	if _, known, _ := committed(s); !known {
		return Plan{}, &CutError{Origin: -1, LogStart: s.LogStart, Committed: p.Offset}
	}
	if s.LogStart > p.Origin {
		return Plan{}, &CutError{Origin: p.Origin, LogStart: s.LogStart, Committed: p.Offset}
	}
	plan.From = p.Origin
	return plan, nil
}

// begin takes the machine to where the plan starts.
func (m *Machine) begin(plan Plan, now time.Time) {
	m.restored, m.committed = plan.Position, plan.Position
	m.at = plan.From
	m.tracker = stream.NewTracker(plan.Position.Offset)
	m.snapshots.begin(plan, now)
	m.state = Replaying
	m.reach(plan.From, now)
}
