package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// t0 is when a test's time begins.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

func text(t *testing.T, p stream.Position) string {
	t.Helper()
	b, err := p.MarshalText()
	require.NoError(t, err)
	return string(b)
}

// ahead has dealt with 0..9 and 12, 13, and not with 10 and 11.
var ahead = stream.Position{Offset: 10, Next: 14, Open: []stream.Span{{Start: 10, End: 12}}}

// position is what m may commit.
func position(t *testing.T, m *Machine) stream.Position {
	t.Helper()
	p, ok := m.Position()
	require.True(t, ok)
	return p
}

func TestRestorePlan(t *testing.T) {
	origin := stream.PositionAt(5, 40)
	tests := map[string]struct {
		start     Start
		snapshots []int64
		want      Plan
		wantErr   string
	}{
		"nothing committed": {
			start: Start{LogStart: 3, LogEnd: 9, Committed: -1},
			want:  Plan{Position: stream.PositionAt(3, 3), From: 3},
		},
		"nothing committed, snapshots of an earlier life": {
			start: Start{LogStart: 3, LogEnd: 9, Committed: -1}, snapshots: []int64{3, 5},
			want: Plan{Position: stream.PositionAt(3, 3), From: 3},
		},
		"the whole log": {
			start: Start{LogEnd: 20, Committed: 10, Metadata: text(t, ahead)},
			want:  Plan{Position: ahead, From: 0},
		},
		"from where the state began": {
			start: Start{LogEnd: 50, Committed: 40, Metadata: text(t, origin)},
			want:  Plan{Position: origin, From: 5},
		},
		"newest usable snapshot": {
			start: Start{LogEnd: 20, Committed: 10, Metadata: text(t, ahead)}, snapshots: []int64{4, 9, 11},
			want: Plan{Position: ahead, Snapshot: true, From: 9},
		},
		"snapshot of the committed offset": {
			start: Start{LogEnd: 20, Committed: 10, Metadata: text(t, ahead)}, snapshots: []int64{10, 2},
			want: Plan{Position: ahead, Snapshot: true, From: 10},
		},
		"snapshot behind the position": {
			start: Start{LogEnd: 20, Committed: 10, Metadata: text(t, ahead)}, snapshots: []int64{12},
			want: Plan{Position: ahead, From: 0},
		},
		"snapshot of before the state began": {
			start: Start{LogEnd: 50, Committed: 40, Metadata: text(t, origin)}, snapshots: []int64{4},
			want: Plan{Position: origin, From: 5},
		},
		"cut log with a snapshot": {
			start: Start{LogStart: 8, LogEnd: 20, Committed: 10, Metadata: text(t, ahead)}, snapshots: []int64{4, 8},
			want: Plan{Position: ahead, Snapshot: true, From: 8},
		},
		"cut log without a snapshot": {
			start:   Start{LogStart: 8, LogEnd: 20, Committed: 10, Metadata: text(t, ahead)},
			wantErr: "the state at offset 10 can't be restored: there is no usable snapshot, and of the records since 0 the log holds only those from 8 on",
		},
		"cut log, snapshot too old": {
			start: Start{LogStart: 8, LogEnd: 20, Committed: 10, Metadata: text(t, ahead)}, snapshots: []int64{7},
			wantErr: "no usable snapshot",
		},
		"cut log, stateless": {
			start: Start{LogStart: 8, LogEnd: 20, Committed: 10, Metadata: text(t, ahead), Stateless: true},
			want:  Plan{Position: ahead, From: 10},
		},
		"from the end": {
			start: Start{LogStart: 8, LogEnd: 20, Committed: 10, Metadata: text(t, ahead), FromEnd: true}, snapshots: []int64{9},
			want: Plan{Position: stream.PositionAt(20, 20), From: 20},
		},
		"from the end, and what was committed is gone": {
			start: Start{LogStart: 15, LogEnd: 20, Committed: 10, Metadata: "hello", FromEnd: true},
			want:  Plan{Position: stream.PositionAt(20, 20), From: 20},
		},
		"from the end, warm": {
			start: Start{LogStart: 8, LogEnd: 50, Committed: 40, Metadata: text(t, origin), FromEnd: true, Warm: &origin},
			want:  Plan{Position: origin, Warm: true, From: 40},
		},
		"warm": {
			start: Start{LogStart: 8, LogEnd: 50, Committed: 40, Metadata: text(t, origin), Warm: &origin}, snapshots: []int64{20},
			want: Plan{Position: origin, Warm: true, From: 40},
		},
		"warm, but others went on": {
			start: Start{LogEnd: 20, Committed: 10, Metadata: text(t, ahead), Warm: &origin},
			want:  Plan{Position: ahead, From: 0},
		},
		"committed by a tool": {
			start: Start{LogEnd: 20, Committed: 10},
			want:  Plan{Position: stream.PositionAt(0, 10), From: 0},
		},
		"reset to the earliest": {
			start: Start{LogStart: 10, LogEnd: 20, Committed: 10},
			want:  Plan{Position: stream.PositionAt(10, 10), From: 10},
		},
		"committed by a tool within a cut log": {
			start:   Start{LogStart: 4, LogEnd: 20, Committed: 10},
			wantErr: "the state at offset 10 can't be restored: there is no usable snapshot, and the log, which begins at 4, may have lost records of it",
		},
		"before the log": {
			start:   Start{LogStart: 11, LogEnd: 20, Committed: 10, Metadata: text(t, ahead)},
			wantErr: "the committed offset 10 is not in the log, which holds 11 to 20",
		},
		"behind the log": {
			start:   Start{LogEnd: 13, Committed: 10, Metadata: text(t, ahead)},
			wantErr: "the committed offset 10 is not in the log, which holds 0 to 13",
		},
		"another's metadata": {
			start:   Start{LogEnd: 20, Committed: 10, Metadata: "hello"},
			wantErr: "reading what was committed with offset 10: decoding position: not a position",
		},
		"metadata of another offset": {
			start:   Start{LogEnd: 20, Committed: 11, Metadata: text(t, ahead)},
			wantErr: "reading what was committed with offset 11: it is about offset 10",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := New(Config{MaxUnresolved: 10, MaxUnresolvedBytes: 1000})
			got, err := m.Restore(tc.start, tc.snapshots, t0)
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				assert.Equal(t, Restoring, m.State())
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
			want := Live
			if tc.want.From < tc.want.Position.Next {
				want = Replaying
			}
			assert.Equal(t, want, m.State())
			assert.Equal(t, tc.want.From, m.Next())
		})
	}
}

// restored is a machine at a position, which reads from offset from.
func restored(t *testing.T, cfg Config, p stream.Position) *Machine {
	t.Helper()
	if cfg.MaxUnresolved == 0 {
		cfg.MaxUnresolved, cfg.MaxUnresolvedBytes = 1000, 1<<20
	}
	m := New(cfg)
	_, err := m.Restore(Start{LogEnd: 1000, Committed: p.Offset, Metadata: text(t, p)}, nil, t0)
	require.NoError(t, err)
	return m
}

func TestWhatBecomesOfARecord(t *testing.T) {
	m := restored(t, Config{}, ahead)
	var got []Verdict
	for offset := range int64(16) {
		got = append(got, m.Record(offset, 1, t0))
		if offset < 13 {
			assert.Equal(t, Replaying, m.State(), "offset %d", offset)
			_, ok := m.Position()
			assert.False(t, ok, "a commit now would forget that 12 and 13 are dealt with")
		} else {
			assert.Equal(t, Live, m.State(), "offset %d", offset)
		}
	}
	want := []Verdict{Replay, Replay, Replay, Replay, Replay, Replay, Replay, Replay, Replay, Replay, Handle, Handle, Replay, Replay, Handle, Handle}
	assert.Equal(t, want, got)
	assert.Equal(t, Skip, m.Record(15, 1, t0), "seen")
	assert.Equal(t, ahead, position(t, m), "nothing is new")
	m.Drain()
	assert.Equal(t, Skip, m.Record(16, 1, t0), "draining")
}

func TestGoesLiveInAGap(t *testing.T) {
	m := restored(t, Config{}, stream.PositionAt(0, 10))
	m.Record(7, 1, t0)
	m.Advance(9, t0)
	assert.Equal(t, Replaying, m.State())
	m.Advance(10, t0)
	assert.Equal(t, Live, m.State())
	_, ok := m.CommitDue()
	assert.False(t, ok, "there is no progress yet")
	m.Advance(13, t0)
	assert.Equal(t, stream.PositionAt(0, 13), position(t, m))
	_, ok = m.CommitDue()
	assert.True(t, ok)
}

func TestLifeMovesForwardOnly(t *testing.T) {
	m := restored(t, Config{}, stream.PositionAt(0, 0))
	m.Record(0, 1, t0)
	n, ok := m.Emit(1, []int64{0}, t0)
	require.True(t, ok)
	m.Drain()
	late, ok := m.Emit(1, nil, t0)
	require.True(t, ok, "a handler finishes its work while it is drained")
	require.NoError(t, m.Settle(n, t0))
	assert.Equal(t, 1, m.Emissions())
	m.Close()
	m.Drain()
	assert.Equal(t, Closed, m.State())
	_, ok = m.Emit(1, nil, t0)
	assert.False(t, ok)
	require.NoError(t, m.Settle(late, t0))
	assert.Equal(t, stream.PositionAt(0, 1), position(t, m))
	_, ok = m.CommitDue()
	assert.False(t, ok)

	fresh := New(Config{})
	_, ok = fresh.Emit(1, nil, t0)
	assert.False(t, ok, "restoring")
	assert.Equal(t, Skip, fresh.Record(0, 1, t0))
	assert.False(t, fresh.Full())
	assert.False(t, fresh.Clean())
}

func TestEmissionsSettleInOrder(t *testing.T) {
	m := restored(t, Config{}, stream.PositionAt(0, 0))
	for offset := range int64(3) {
		m.Record(offset, 1, t0)
	}
	call, _ := m.Emit(1, nil, t0)
	resolve, _ := m.Emit(0, []int64{0, 1}, t0)
	withdrawn, _ := m.Emit(1, []int64{2}, t0)
	require.NoError(t, m.Settle(resolve, t0))
	m.Withdraw(withdrawn, t0)
	assert.Equal(t, stream.PositionAt(0, 0), position(t, m), "the call is not durable")
	require.NoError(t, m.Settle(call, t0))
	assert.Equal(t, stream.PositionAt(0, 2), position(t, m), "what was withdrawn resolves nothing")
	wrong, _ := m.Emit(0, []int64{7}, t0)
	var unknown *UnknownOffsetError
	require.ErrorAs(t, m.Settle(wrong, t0), &unknown)
	assert.EqualValues(t, 7, unknown.Offset)
}

// In a transaction an emission is committed with its offsets, whatever becomes of
// one that another goroutine was about to send before.
func TestAtomicEmissionsSettleByThemselves(t *testing.T) {
	m := restored(t, Config{Atomic: true}, stream.PositionAt(0, 0))
	for offset := range int64(4) {
		m.Record(offset, 1, t0)
	}
	first, _ := m.Emit(1, []int64{0}, t0)
	second, _ := m.Emit(1, []int64{1}, t0)
	empty, _ := m.Emit(0, []int64{2}, t0)
	require.NoError(t, m.Settle(second, t0))
	require.NoError(t, m.Settle(empty, t0))
	want := stream.Position{Offset: 0, Next: 2, Open: []stream.Span{{Start: 0, End: 1}}}
	assert.Equal(t, want, position(t, m), "what was emitted without records may follow from the first")
	require.NoError(t, m.Settle(first, t0))
	assert.Equal(t, stream.PositionAt(0, 3), position(t, m))
	assert.Zero(t, m.Emissions())
	wrong, _ := m.Emit(1, []int64{7}, t0)
	require.Error(t, m.Settle(wrong, t0))
}

func TestReadingPauses(t *testing.T) {
	tests := map[string]struct {
		cfg     Config
		resolve []int64
		want    bool
	}{
		"few":            {cfg: Config{MaxUnresolved: 9, MaxUnresolvedBytes: 1000}},
		"many":           {cfg: Config{MaxUnresolved: 8, MaxUnresolvedBytes: 1000}, want: true},
		"large":          {cfg: Config{MaxUnresolved: 9, MaxUnresolvedBytes: 80}, want: true},
		"resolved":       {cfg: Config{MaxUnresolved: 8, MaxUnresolvedBytes: 80}, resolve: []int64{3}},
		"two open spans": {cfg: Config{MaxUnresolved: 9, MaxUnresolvedBytes: 1000, MaxOpenSpans: 2}, resolve: []int64{2, 4}, want: true},
		"one open span":  {cfg: Config{MaxUnresolved: 9, MaxUnresolvedBytes: 1000, MaxOpenSpans: 2}, resolve: []int64{2, 3}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := restored(t, tc.cfg, stream.PositionAt(0, 0))
			for offset := range int64(8) {
				m.Record(offset, 10, t0)
			}
			n, _ := m.Emit(0, tc.resolve, t0)
			require.NoError(t, m.Settle(n, t0))
			assert.Equal(t, tc.want, m.Full())
		})
	}
}

func TestWhenACommitIsDue(t *testing.T) {
	m := restored(t, Config{CommitInterval: 150 * time.Millisecond, CommitLinger: 5 * time.Millisecond, ProgressInterval: time.Second}, stream.PositionAt(0, 0))
	due := func(want int) {
		t.Helper()
		got, ok := m.CommitDue()
		require.True(t, ok)
		assert.Equal(t, at(want), got)
	}
	none := func() {
		t.Helper()
		_, ok := m.CommitDue()
		assert.False(t, ok)
	}
	emit := func(ms, records int, resolved ...int64) {
		t.Helper()
		n, ok := m.Emit(records, resolved, at(ms))
		require.True(t, ok)
		require.NoError(t, m.Settle(n, at(ms)))
	}
	commit := func(ms int) {
		m.BeginCommit()
		m.Committed(position(t, m), at(ms))
	}
	none()
	m.Record(0, 1, at(2000))
	none() // a record that is being dealt with is no progress
	emit(2010, 1, 0)
	due(2015) // the first after a pause goes at once
	commit(2016)
	none()
	m.Record(1, 1, at(2020))
	emit(2020, 1, 1)
	due(2166) // the next has to wait
	commit(2166)
	m.Record(2, 1, at(2200))
	emit(2200, 0, 2)
	due(3200) // without an emission there is no hurry
	m.Record(3, 1, at(3190))
	emit(3190, 1, 3)
	due(3195)
	m.BeginCommit()
	m.Record(4, 1, at(3191))
	emit(3191, 1, 4) // while the commit is under way
	m.Committed(stream.PositionAt(0, 4), at(3200))
	assert.True(t, m.Dirty())
	due(3350)
	m.BeginCommit()
	m.CommitFailed(at(3400))
	due(4400)
	commit(4400)

	// What follows later from records that are resolved, as their scores do, delays no other record's.
	m.Record(5, 1, at(5000))
	emit(5000, 1, 5)
	due(5005)
	commit(5010)
	emit(5020, 1)
	due(5160)
	commit(5160)
	m.Record(6, 1, at(5162))
	emit(5162, 1, 6)
	due(5167)
	commit(5167)
	emit(5170, 1)
	due(5317)
	m.Record(7, 1, at(5180))
	emit(5180, 1, 7)
	due(5317) // with it
	m.BeginCommit()
	emit(5318, 1)
	m.Committed(stream.PositionAt(0, 8), at(5320))
	due(5470)
}

// Where emissions are visible without a commit, progress is all there is.
func TestCommitsWithoutTransactions(t *testing.T) {
	m := restored(t, Config{ProgressInterval: time.Second}, stream.PositionAt(0, 0))
	m.Record(0, 1, t0)
	n, _ := m.Emit(1, []int64{0}, at(10))
	_, ok := m.CommitDue()
	assert.False(t, ok)
	require.NoError(t, m.Settle(n, at(20)))
	due, ok := m.CommitDue()
	require.True(t, ok)
	assert.Equal(t, at(1020), due)
	assert.False(t, m.Progress())
	m.BeginCommit()
	m.Committed(position(t, m), at(1020))
	assert.True(t, m.Progress())
	assert.True(t, m.Clean())
}

// The first owner commits where the state begins, though nothing is dealt with.
func TestTheBeginningIsCommitted(t *testing.T) {
	m := New(Config{ProgressInterval: time.Second})
	_, err := m.Restore(Start{LogStart: 7, LogEnd: 9, Committed: -1}, nil, t0)
	require.NoError(t, err)
	due, ok := m.CommitDue()
	require.True(t, ok)
	assert.Equal(t, at(1000), due)
	assert.True(t, m.Dirty())
	m.BeginCommit()
	m.Committed(position(t, m), at(1000))
	assert.Equal(t, stream.PositionAt(7, 7), m.LastCommitted())
	assert.False(t, m.Dirty())
	assert.False(t, m.Progress())
}

func TestWhenASnapshotIsDue(t *testing.T) {
	m := restored(t, Config{SnapshotInterval: time.Minute, ProgressInterval: time.Second}, stream.PositionAt(0, 2))
	never := func(why string) {
		t.Helper()
		_, ok := m.SnapshotDue()
		assert.False(t, ok, why)
	}
	due := func(want int) {
		t.Helper()
		got, ok := m.SnapshotDue()
		require.True(t, ok)
		assert.Equal(t, at(want), got)
	}
	never("replaying")
	m.Record(0, 1, at(10))
	m.Record(1, 1, at(10))
	m.Record(2, 1, at(20))
	due(60_010)
	first := m.BeginSnapshot()
	assert.EqualValues(t, 3, first)
	never("one is being written")
	m.EndSnapshot(first, false, at(60_100))
	due(120_100) // it failed; the slot is written again
	first = m.BeginSnapshot()
	m.EndSnapshot(first, true, at(120_200))
	never("nothing is new")
	m.Record(3, 1, at(120_300))
	never("record 2 is not dealt with: the first snapshot is not usable, and the other slot may hold the only one that is")
	m.Committed(stream.PositionAt(0, 3), at(120_400))
	due(180_200)
	m.Drain()
	never("draining")
	assert.True(t, m.SnapshotAllowed(), "a last one may be taken")
}

func TestKeptHandlerKeepsItsSnapshot(t *testing.T) {
	warm := stream.PositionAt(0, 5)
	m := New(Config{SnapshotInterval: time.Minute, MaxUnresolved: 1, MaxUnresolvedBytes: 1})
	_, err := m.Restore(Start{LogEnd: 9, Committed: 5, Metadata: text(t, warm), Warm: &warm}, nil, t0)
	require.NoError(t, err)
	m.KeepSnapshot(5)
	_, ok := m.SnapshotDue()
	assert.False(t, ok, "nothing is new")
	m.Record(5, 1, t0)
	_, ok = m.SnapshotDue()
	assert.True(t, ok)
}
