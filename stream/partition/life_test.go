package partition

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// effect is what follows from a record: it depends on all records before, so a
// state that was restored wrongly shows.
type effect struct {
	offset int64
	state  uint64
}

func fold(state uint64, offset int64) uint64 {
	return (state ^ uint64(offset+1)) * 0x9e3779b97f4a7c15
}

// broker is what survives a crash.
type broker struct {
	records   []int64 // offsets, with gaps
	start     int64
	end       int64
	committed int64
	metadata  string
	effects   []effect // that a reader of committed records sees
	slots     [2]kept
}

// kept is a snapshot.
type kept struct {
	whole  bool
	offset int64
	state  uint64
}

// owner is a worker with its handler.
type owner struct {
	*Machine
	state    uint64
	works    []effect // handled, not yet emitted
	numbered []sent   // emitted, on the way to the producer
	emitted  []sent   // not yet durable
	produced []effect // durable, in the open transaction
	slot     int      // of the newest snapshot
}

// sent is an emission.
type sent struct {
	n       int64
	effects []effect
}

// world runs one partition through one life after another.
type world struct {
	t           *testing.T
	rng         *rand.Rand
	cfg         Config
	broker      broker
	owner       *owner
	warm        *owner
	now         time.Time
	transaction bool
	counts      map[string]int
}

func newWorld(t *testing.T, seed uint64, transaction bool) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: t0, transaction: transaction, counts: make(map[string]int)}
	w.broker.committed = -1
	offset := w.rng.Int64N(5)
	w.broker.start = offset
	for range 20 + w.rng.IntN(100) {
		offset += w.rng.Int64N(4) / 3
		w.broker.records = append(w.broker.records, offset)
		offset++
	}
	w.broker.end = offset + w.rng.Int64N(3)
	w.cfg = Config{ProgressInterval: time.Second, SnapshotInterval: time.Minute, MaxUnresolved: 1 + w.rng.IntN(20), MaxUnresolvedBytes: 1 << 20}
	if transaction {
		w.cfg.Atomic = true
		w.cfg.CommitInterval, w.cfg.MaxOpenSpans = 100*time.Millisecond, 1+w.rng.IntN(5)
	}
	return w
}

func (w *world) begin() {
	start := Start{LogStart: w.broker.start, LogEnd: w.broker.end, Committed: w.broker.committed, Metadata: w.broker.metadata}
	if w.warm != nil {
		p := w.warm.LastCommitted()
		start.Warm = &p
	}
	var snapshots []int64
	for _, s := range w.broker.slots {
		if s.whole {
			snapshots = append(snapshots, s.offset)
		}
	}
	w.owner = &owner{Machine: New(w.cfg)}
	plan, err := w.owner.Restore(start, snapshots, w.now)
	require.NoError(w.t, err)
	switch {
	case plan.Warm:
		w.owner.state, w.owner.slot = w.warm.state, w.warm.slot
		w.owner.KeepSnapshot(w.warm.snapshots.newest)
		w.counts["warm"]++
	case plan.Snapshot:
		i := slices.IndexFunc(w.broker.slots[:], func(s kept) bool { return s.whole && s.offset == plan.From })
		w.owner.state, w.owner.slot = w.broker.slots[i].state, i
		w.counts["snapshot"]++
	default:
		w.counts["log"]++
	}
	w.warm = nil
}

// read hands the next record to the handler.
func (w *world) read() {
	o := w.owner
	i, _ := slices.BinarySearch(w.broker.records, o.Next())
	switch {
	case o.Full():
	case i == len(w.broker.records):
		o.Advance(w.broker.end, w.now)
	default:
		offset := w.broker.records[i]
		verdict := o.Record(offset, 1, w.now)
		if verdict == Skip {
			return
		}
		o.state = fold(o.state, offset)
		if verdict == Replay {
			w.counts["replayed"]++
			return
		}
		if w.rng.IntN(3) == 0 { // absorbed: dealt with, and nothing follows
			n, ok := o.Emit(0, []int64{offset}, w.now)
			require.True(w.t, ok)
			require.NoError(w.t, o.Settle(n, w.now))
			return
		}
		o.works = append(o.works, effect{offset, o.state})
	}
}

// work finishes one record of those that the handler works on.
func (w *world) work() {
	o := w.owner
	if len(o.works) == 0 {
		return
	}
	i := w.rng.IntN(len(o.works))
	e := o.works[i]
	o.works = slices.Delete(o.works, i, i+1)
	resolved := []int64{e.offset}
	if !w.transaction && w.rng.IntN(2) == 0 {
		resolved = nil // it resolves the offset in an emission of its own
	}
	n, ok := o.Emit(1, resolved, w.now)
	require.True(w.t, ok)
	if o.numbered = append(o.numbered, sent{n, []effect{e}}); resolved != nil {
		return
	}
	n, ok = o.Emit(0, []int64{e.offset}, w.now)
	require.True(w.t, ok)
	require.NoError(w.t, o.Settle(n, w.now))
}

// send hands an emission to the producer. Those of several goroutines come in
// any order.
func (w *world) send() {
	o := w.owner
	if len(o.numbered) > 0 {
		i := w.rng.IntN(len(o.numbered))
		o.emitted = append(o.emitted, o.numbered[i])
		o.numbered = slices.Delete(o.numbered, i, i+1)
	}
}

// settle makes an emission durable, in any order.
func (w *world) settle() {
	o := w.owner
	if len(o.emitted) == 0 {
		return
	}
	i := w.rng.IntN(len(o.emitted))
	e := o.emitted[i]
	o.emitted = slices.Delete(o.emitted, i, i+1)
	if w.transaction {
		o.produced = append(o.produced, e.effects...)
	} else {
		w.broker.effects = append(w.broker.effects, e.effects...)
	}
	require.NoError(w.t, o.Settle(e.n, w.now))
}

// commit commits; it reports false when the owner crashed doing so.
func (w *world) commit() bool {
	o := w.owner
	o.BeginCommit()
	if w.transaction {
		for len(o.emitted) > 0 {
			w.settle()
		}
	}
	p, ok := o.Position()
	if !ok {
		return true
	}
	metadata, err := p.MarshalText()
	if errors.Is(err, stream.ErrPositionTooLong) {
		o.CommitFailed(w.now)
		return true
	}
	require.NoError(w.t, err)
	if w.rng.IntN(20) == 0 {
		return false // before it was applied
	}
	require.GreaterOrEqual(w.t, p.Offset, w.broker.committed, "a commit went back")
	w.broker.effects = append(w.broker.effects, o.produced...)
	o.produced = nil
	w.broker.committed, w.broker.metadata = p.Offset, string(metadata)
	if w.rng.IntN(20) == 0 {
		return false // before the answer came
	}
	o.Committed(p, w.now)
	return true
}

// snapshot writes one; it reports false when the owner crashed doing so.
func (w *world) snapshot() bool {
	o := w.owner
	if !o.SnapshotAllowed() {
		return true
	}
	offset := o.BeginSnapshot()
	slot := 1 - o.slot
	w.broker.slots[slot] = kept{}
	switch w.rng.IntN(8) {
	case 0:
		return false // half of it is there
	case 1:
		o.EndSnapshot(offset, false, w.now)
		return true
	}
	w.broker.slots[slot] = kept{true, offset, o.state}
	o.slot = slot
	o.EndSnapshot(offset, true, w.now)
	return true
}

// expire removes records that a usable snapshot makes superfluous.
func (w *world) expire() {
	for _, s := range w.broker.slots {
		if s.whole && s.offset <= w.broker.committed {
			w.broker.start = max(w.broker.start, s.offset)
		}
	}
}

// drain finishes everything and keeps the handler.
func (w *world) drain() bool {
	o := w.owner
	o.Drain()
	for len(o.works) > 0 {
		w.work()
	}
	for len(o.numbered) > 0 {
		w.send()
	}
	for len(o.emitted) > 0 {
		w.settle()
	}
	if !w.commit() || !w.snapshot() {
		return false
	}
	if o.Clean() {
		w.warm = o
	}
	o.Close()
	return true
}

// run lives until everything is committed.
func (w *world) run() {
	w.begin()
	for step := 0; w.broker.committed < w.broker.end; step++ {
		require.Less(w.t, step, 1_000_000, "no end: %+v", w.owner.LastCommitted())
		w.now = w.now.Add(time.Duration(w.rng.IntN(200)) * time.Millisecond)
		alive := true
		switch w.rng.IntN(100) {
		case 0:
			alive = false // kill -9
		case 1, 2:
			alive = false
			w.drain()
		case 3, 4:
			w.expire()
		default:
			switch w.rng.IntN(5) {
			case 0:
				w.read()
			case 1:
				w.work()
			case 2:
				w.settle()
			case 3:
				w.send()
			case 4:
				if at, due := w.owner.CommitDue(); due && !at.After(w.now) {
					alive = w.commit()
				}
				if at, due := w.owner.SnapshotDue(); alive && due && !at.After(w.now.Add(time.Minute)) {
					alive = w.snapshot()
				}
			}
		}
		if !alive {
			w.begin()
		}
	}
}

// reference is what a life without a crash comes to.
func (w *world) reference() map[int64]uint64 {
	out := make(map[int64]uint64)
	var state uint64
	for _, offset := range w.broker.records {
		state = fold(state, offset)
		out[offset] = state
	}
	return out
}

// Whatever crashes when, in committed output every effect is there once and is
// the one that the records before it lead to; and the state ends up as the fold
// of all records. Without transactions effects may be there more than once, but
// are the same.
func TestEveryEffectOnce(t *testing.T) {
	for _, transaction := range []bool{true, false} {
		t.Run(fmt.Sprintf("transaction=%t", transaction), func(t *testing.T) {
			total := make(map[string]int)
			for seed := range uint64(600) {
				w := newWorld(t, seed, transaction)
				w.run()
				// Once more, to check what can be restored.
				w.begin()
				for w.owner.Next() < w.broker.end {
					w.read()
				}
				want := w.reference()
				last := w.broker.records[len(w.broker.records)-1]
				require.Equal(t, want[last], w.owner.state, "seed %d: state", seed)
				seen := make(map[int64]int)
				for _, e := range w.broker.effects {
					require.Equal(t, want[e.offset], e.state, "seed %d: effect of offset %d", seed, e.offset)
					if seen[e.offset]++; transaction {
						require.Equal(t, 1, seen[e.offset], "seed %d: offset %d has its effect twice", seed, e.offset)
					} else if seen[e.offset] == 2 {
						total["repeated"]++
					}
				}
				require.NotEmpty(t, seen)
				for how, n := range w.counts {
					total[how] += n
				}
			}
			// The test is of use only if it has been everywhere.
			for _, how := range []string{"warm", "snapshot", "log", "replayed"} {
				require.Greater(t, total[how], 200, how)
			}
			require.Equal(t, !transaction, total["repeated"] > 0)
			t.Logf("%v", total)
		})
	}
}

func BenchmarkRecord(b *testing.B) {
	m := New(Config{MaxUnresolved: 1 << 20, MaxUnresolvedBytes: 1 << 40, MaxOpenSpans: 1 << 20})
	if _, err := m.Restore(Start{Committed: -1}, nil, t0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	offset := int64(0)
	for b.Loop() {
		m.Record(offset, 1000, t0)
		n, _ := m.Emit(1, []int64{offset}, t0)
		if err := m.Settle(n, t0); err != nil || m.Full() {
			b.Fatal(err)
		}
		offset++
	}
}
