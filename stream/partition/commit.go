package partition

import (
	"time"

	"github.com/porestream/porestream/stream"
)

// moved notes progress that a commit has to cover.
func (m *Machine) moved(now time.Time) {
	if m.movedAt.IsZero() {
		m.movedAt = now
	}
}

// CommitDue says when the next commit is to be made; ok is false if there is
// nothing to commit.
func (m *Machine) CommitDue() (at time.Time, ok bool) {
	if !m.reached() || m.state == Closed {
		return time.Time{}, false
	}
	if !m.movedAt.IsZero() {
		at, ok = m.movedAt.Add(m.cfg.ProgressInterval), true
	}
	if m.cfg.CommitInterval == 0 {
		return at, ok
	}
	for _, e := range [...]struct{ emitted, last time.Time }{{m.emittedAt, m.lastCommit}, {m.resolvingAt, m.lastResolving}} {
		if e.emitted.IsZero() {
			continue
		}
		due := e.emitted.Add(m.cfg.CommitLinger)
		if rested := e.last.Add(m.cfg.CommitInterval); due.Before(rested) {
			due = rested
		}
		if !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// BeginCommit begins a commit: emissions from now on are for the next one. In a
// transaction the shell then waits until those before are durable, asks for the
// Position and commits it.
func (m *Machine) BeginCommit() {
	m.committing = !m.resolvingAt.IsZero()
	m.emittedAt, m.resolvingAt, m.movedAt = time.Time{}, time.Time{}, time.Time{}
}

// Position is what may be committed now; ok is false as long as nothing may.
func (m *Machine) Position() (p stream.Position, ok bool) {
	if !m.reached() {
		return m.committed, false
	}
	return m.tracker.Position(m.committed.Origin), true
}

// Dirty reports whether there is a position to commit that is not committed.
func (m *Machine) Dirty() bool {
	p, ok := m.Position()
	return ok && (m.fresh || !p.Equal(m.committed))
}

// Committed notes that a position is durable, together with everything that was
// durable when it was asked for.
func (m *Machine) Committed(p stream.Position, now time.Time) {
	m.committed, m.fresh = p, false
	m.lastCommit = now
	if m.committing {
		m.lastResolving = now
	}
}

// CommitFailed makes up for a commit that was not made: it is due again after
// the interval.
func (m *Machine) CommitFailed(now time.Time) {
	m.lastCommit, m.lastResolving = now, now
	m.moved(now)
}

// Progress reports whether records have been dealt with, and committed, since
// the partition was assigned.
func (m *Machine) Progress() bool { return m.committed.Offset > m.restored.Offset }

// LastCommitted is the position that is durable, as far as is known.
func (m *Machine) LastCommitted() stream.Position { return m.committed }
