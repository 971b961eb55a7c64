package partition

import (
	"fmt"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
)

// State is where a partition is in its life. It only moves forward.
type State int

const (
	// Restoring: what is durable is being read.
	Restoring State = iota
	// Replaying folds records that are dealt with into the handler's state,
	// muted, and hands it those that were open between them. Nothing is committed
	// until the restored position is reached, or what it records would be lost.
	Replaying
	// Live hands records to the handler, which may emit.
	Live
	// Draining takes no more records and lets the handler finish.
	Draining
	// Closed emits nothing and resolves nothing.
	Closed
)

func (s State) String() string {
	switch s {
	case Restoring:
		return "restoring"
	case Replaying:
		return "replaying"
	case Live:
		return "live"
	case Draining:
		return "draining"
	default:
		return "closed"
	}
}

// Config bounds a partition.
type Config struct {
	// CommitInterval is the least time between two commits that are made because
	// something was emitted; the first of them after a pause comes CommitLinger
	// after the emission. Zero means that emissions bring about no commit, as
	// where they are visible without.
	CommitInterval, CommitLinger time.Duration
	// ProgressInterval is how long progress may go uncommitted that is no
	// emission.
	ProgressInterval time.Duration
	// Atomic says that what is emitted becomes visible with the commit, in a
	// transaction that takes emissions in the order in which they are sent.
	Atomic bool
	// SnapshotInterval is the time from one snapshot to the next. Zero means that
	// there are none.
	SnapshotInterval time.Duration
	// MaxUnresolved and MaxUnresolvedBytes bound what the handler may hold
	// unresolved before reading pauses.
	MaxUnresolved      int
	MaxUnresolvedBytes int64
	// MaxOpenSpans pauses reading while so many spans of unresolved records lie
	// before resolved ones, since a commit can't carry more than some. Zero means
	// no bound: positions are then to be trimmed.
	MaxOpenSpans int
}

// Verdict is what to do with a record.
type Verdict int

const (
	// Skip: the record has been seen.
	Skip Verdict = iota
	// Replay: the record is dealt with. The handler folds it in, muted.
	Replay
	// Handle: the record is to be handled.
	Handle
)

// Machine is the life of one assigned partition. It is not safe for concurrent
// use.
type Machine struct {
	cfg   Config
	state State

	// at is the offset that is to be read next.
	at int64
	// committed is the position that is durable, as far as is known.
	committed stream.Position
	// restored is the position that was durable at the beginning. fresh says that
	// there was none, and that its like is not committed yet.
	restored stream.Position
	fresh    bool
	tracker  *stream.Tracker // nil while restoring

	emissions *stream.Tracker // emission numbers instead of offsets
	emitted   int64           // the next emission's number
	settled   int64           // emissions below have resolved their offsets
	resolves  map[int64]emission

	// Emissions that resolve records are what others wait for. Those that follow later from records which are resolved wait for the interval
	// after any commit, and delay none of the first.
	lastCommit, lastResolving time.Time // the latter: of a commit with emissions that resolve records
	emittedAt, resolvingAt    time.Time // of the oldest emission that no commit covers, and of the oldest of those that resolve records
	movedAt                   time.Time // of the oldest progress that no commit covers
	committing                bool      // the commit that has begun has emissions that resolve records

	snapshots snapshots
}

// emission is one that has not resolved its offsets.
type emission struct {
	records int
	offsets []int64
}

// New returns the machine of a partition that has just been assigned.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg, emissions: stream.NewTracker(0), resolves: make(map[int64]emission)}
}

// State is where the partition is in its life.
func (m *Machine) State() State { return m.state }

// Next is the offset that is to be read next.
func (m *Machine) Next() int64 { return m.at }

// Record decides about a record that was read. Records come in order, after
// Restore and before Drain.
func (m *Machine) Record(offset, bytes int64, now time.Time) Verdict {
	if m.state != Replaying && m.state != Live || offset < m.at {
		return Skip
	}
	m.at = offset + 1
	verdict := Replay
	if offset >= m.restored.Offset {
		m.tracker.Track(offset, bytes)
		if verdict = Handle; m.restored.Done(offset) {
			m.tracker.Resolve(offset)
			verdict = Replay
		}
	}
	m.reach(m.at, now)
	return verdict
}

// Advance notes that there is no record to deal with before offset next:
// transaction markers and what compaction removed leave such gaps.
func (m *Machine) Advance(next int64, now time.Time) {
	if m.state != Replaying && m.state != Live || next <= m.at {
		return
	}
	m.at = next
	m.reach(next, now)
	if next > m.restored.Offset {
		m.moved(now)
	}
}

// reach goes live once the restored position is reached.
func (m *Machine) reach(offset int64, now time.Time) {
	if offset >= m.restored.Offset {
		m.tracker.Advance(offset)
	}
	if m.state == Replaying && offset >= m.restored.Next {
		m.state = Live
		m.snapshots.last = now
	}
}

// reached reports whether the position covers the one that was restored.
func (m *Machine) reached() bool { return m.tracker != nil && m.at >= m.restored.Next }

// Full reports whether reading has to pause: the handler holds as much as it may.
func (m *Machine) Full() bool {
	if m.tracker == nil {
		return false
	}
	records, bytes := m.tracker.Unresolved()
	return records >= m.cfg.MaxUnresolved || bytes >= m.cfg.MaxUnresolvedBytes ||
		m.cfg.MaxOpenSpans > 0 && m.tracker.OpenSpans() >= m.cfg.MaxOpenSpans
}

// Unresolved counts the records that the handler holds, and their bytes.
func (m *Machine) Unresolved() (records int, bytes int64) {
	if m.tracker == nil {
		return 0, 0
	}
	return m.tracker.Unresolved()
}

// Emit numbers an emission of so many records. It reports false when the
// partition takes none.
func (m *Machine) Emit(records int, resolved []int64, now time.Time) (n int64, ok bool) {
	if m.state == Restoring || m.state == Closed {
		return 0, false
	}
	n = m.emitted
	m.emitted++
	m.emissions.Track(n, 0)
	m.resolves[n] = emission{records, slices.Clone(resolved)}
	if records > 0 && m.emittedAt.IsZero() {
		m.emittedAt = now
	}
	if records > 0 && len(resolved) > 0 && m.resolvingAt.IsZero() {
		m.resolvingAt = now
	}
	return n, true
}

// Withdraw forgets an emission of which nothing was taken: it resolves nothing.
func (m *Machine) Withdraw(n int64, now time.Time) {
	m.resolves[n] = emission{}
	// Nothing is left to be unknown.
	_ = m.Settle(n, now)
}

// UnknownOffsetError says that a handler has resolved an offset that it was not
// given.
type UnknownOffsetError struct{ Offset int64 }

func (e *UnknownOffsetError) Error() string {
	return fmt.Sprintf("the handler resolves offset %d, which it was not given", e.Offset)
}

// Settle notes that an emission is durable, and resolves the offsets of all that
// are so without a gap. An atomic emission with records resolves its offsets by
// itself: whatever it follows from was sent before it, and is in the same
// transaction or an earlier one.
//
// Once the partition is closed nothing moves any more: the last commit has been
// made, and another member may own the partition.
func (m *Machine) Settle(n int64, now time.Time) error {
	if m.state == Closed {
		return nil
	}
	var err error
	if m.cfg.Atomic && m.resolves[n].records > 0 {
		err = m.resolve(n, now)
	}
	m.emissions.Resolve(n)
	for ; m.settled < m.emissions.Committable(); m.settled++ {
		if unknown := m.resolve(m.settled, now); err == nil {
			err = unknown
		}
	}
	return err
}

// resolve resolves the offsets of an emission, once.
func (m *Machine) resolve(n int64, now time.Time) error {
	var err error
	for _, offset := range m.resolves[n].offsets {
		if !m.tracker.Resolve(offset) && err == nil {
			err = &UnknownOffsetError{Offset: offset}
		}
		m.moved(now)
	}
	delete(m.resolves, n)
	return err
}

// Emissions counts those that are not durable.
func (m *Machine) Emissions() int {
	n, _ := m.emissions.Unresolved()
	return n
}

// Drain takes no more records.
func (m *Machine) Drain() {
	if m.state < Draining {
		m.state = Draining
	}
}

// Close ends the life. It changes nothing any more.
func (m *Machine) Close() { m.state = Closed }

// Clean reports whether nothing is left to do for the records that were read, and
// all of it is committed: a handler that has been drained is then just the fold
// of the records before the committed offset.
func (m *Machine) Clean() bool {
	return m.reached() && m.Emissions() == 0 && len(m.committed.Open) == 0 && m.committed.Offset == m.at
}
