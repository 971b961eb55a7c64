package partition

import "time"

// snapshots says when to take the next one. A snapshot at S has the state of
// all records before S.
type snapshots struct {
	newest  int64 // offset of the newest that is whole; negative if there is none
	last    time.Time
	writing bool
}

func (s *snapshots) begin(plan Plan, now time.Time) {
	s.newest, s.last = -1, now
	if plan.Snapshot {
		s.newest = plan.From
	}
}

// KeepSnapshot gives a machine that goes on with a kept handler the offset of the
// newest whole snapshot.
func (m *Machine) KeepSnapshot(offset int64) { m.snapshots.newest = offset }

// SnapshotDue says when a snapshot is to be taken; ok is false as long as none
// may be or nothing is new.
func (m *Machine) SnapshotDue() (at time.Time, ok bool) {
	if m.cfg.SnapshotInterval == 0 || m.state != Live || !m.SnapshotAllowed() {
		return time.Time{}, false
	}
	return m.snapshots.last.Add(m.cfg.SnapshotInterval), true
}

// SnapshotAllowed reports whether a snapshot may be taken and would be of use. It
// overwrites the one before the newest, and that may be only once the newest is usable.
func (m *Machine) SnapshotAllowed() bool {
	s := &m.snapshots
	return m.reached() && !s.writing && m.at > s.newest && s.newest <= m.committed.Offset
}

// BeginSnapshot begins one of the state as it is now, and returns its offset.
func (m *Machine) BeginSnapshot() int64 {
	m.snapshots.writing = true
	return m.at
}

// SentSnapshot notes that all of the snapshot has been sent: the next commit makes
// it durable, and is due as after an emission.
func (m *Machine) SentSnapshot(now time.Time) {
	if m.emittedAt.IsZero() {
		m.emittedAt = now
	}
}

// EndSnapshot notes how the snapshot at offset went.
func (m *Machine) EndSnapshot(offset int64, whole bool, now time.Time) {
	s := &m.snapshots
	s.writing, s.last = false, now
	if whole {
		s.newest = offset
	}
}
