package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// toy is a state whose sections come, grow, shrink and go, as a function of the
// offsets that were folded.
type toy struct {
	format   stream.StateFormat
	sections map[string]string
	versions map[string]uint64
	clock    uint64
}

var toyFormat = stream.StateFormat{Stage: "toy", Version: 3, Fingerprint: "f00d"}

func newToy() *toy {
	return &toy{format: toyFormat, sections: make(map[string]string), versions: make(map[string]uint64)}
}

// fold does what the record at an offset says; it says it by its hash.
func (s *toy) fold(offset int64) {
	h := rand.New(rand.NewPCG(uint64(offset), 1))
	name := fmt.Sprint("s", h.IntN(5))
	s.clock++
	switch h.IntN(6) {
	case 0:
		delete(s.sections, name)
		delete(s.versions, name)
		return
	case 1:
		s.sections[name] = ""
	case 2:
		s.sections[name] = strings.Repeat(string(rune('a'+h.IntN(26))), 20+h.IntN(20))
	default:
		s.sections[name] += fmt.Sprint(offset, " ")
	}
	s.versions[name] = s.clock
}

// toyAt is the state after all records below offset.
func toyAt(offset int64) *toy {
	s := newToy()
	for o := range offset {
		s.fold(o)
	}
	return s
}

func (s *toy) Format() stream.StateFormat { return s.format }

func (s *toy) Sections() []stream.Section {
	var out []stream.Section
	for _, name := range slices.Sorted(maps.Keys(s.sections)) {
		out = append(out, stream.Section{Name: name, Version: s.versions[name]})
	}
	return out
}

func (s *toy) AppendSection(b []byte, name string) ([]byte, error) {
	content, exists := s.sections[name]
	if !exists {
		return nil, fmt.Errorf("no section %q", name)
	}
	return append(b, content...), nil
}

func (s *toy) RestoreSection(name string, b []byte) error {
	if _, exists := s.sections[name]; exists {
		return fmt.Errorf("section %q comes twice", name)
	}
	s.sections[name] = string(b)
	s.clock++
	s.versions[name] = s.clock
	return nil
}

// topic is the place of a source on a state topic.
type topic struct {
	records []stream.Record
	next    int64
}

func (t *topic) append(out stream.Out) {
	t.records = append(t.records, stream.Record{Offset: t.next, Key: out.Key, Value: out.Value, Time: time.Unix(t.next, 0)})
	t.next++
}

// compact removes some of what compaction may remove: records that were
// overwritten before a point, and tombstones once nothing is before them. The
// newest record of the log stays.
func (t *topic) compact(rnd *rand.Rand) {
	if len(t.records) == 0 {
		return
	}
	clean := t.records[:rnd.IntN(len(t.records))]
	last := make(map[string]int64)
	for _, r := range clean {
		last[string(r.Key)] = r.Offset
	}
	dropTombstones := rnd.IntN(2) == 0
	var kept []stream.Record
	for _, r := range clean {
		if last[string(r.Key)] != r.Offset || dropTombstones && len(r.Value) == 0 {
			continue
		}
		kept = append(kept, r)
	}
	t.records = append(kept, t.records[len(clean):]...)
}

var toySource = Source{Group: "porestream-toy", Topic: "in", Partition: 2}

func (t *topic) index() *Index {
	x := NewIndex(toySource)
	for _, r := range t.records {
		x.Add(r)
	}
	return x
}

// restore gives a new toy the snapshot, from the log as it is now.
func (t *topic) restore(s *Snapshot) (*toy, error) {
	state := newToy()
	r := s.Restorer(state)
	for _, rec := range t.records {
		if err := r.Add(rec); err != nil {
			return nil, err
		}
	}
	if at, missing := r.Next(); missing {
		return nil, fmt.Errorf("%w: the record at offset %d is gone", ErrChanged, at)
	}
	return state, nil
}

// owner is a process that had the partition from some generation on, and may
// not know that it has lost it.
type owner struct {
	epoch    int32
	state    *toy
	position int64
	writer   *Writer
	queue    []stream.Out // sent and not in the log
	landed   []stream.Out // in the log since the snapshot began
}

// world is a topic, a committed offset, and all who ever owned the partition.
// Nobody is fenced but at the commit.
type world struct {
	t         *testing.T
	rnd       *rand.Rand
	topic     topic
	committed int64
	owners    []*owner // the last one is the owner
	confirmed bool     // there was a snapshot to fall back on
	trace     []string
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// takeOver makes a new owner. The log may change between its two readings.
func (w *world) takeOver() {
	index := w.topic.index()
	chosen, refused := index.Choose(toyFormat, stream.PositionAt(0, w.committed), 0)
	if len(w.owners) > 0 && w.rnd.IntN(3) == 0 {
		for range w.rnd.IntN(4) {
			w.land(w.owners[w.rnd.IntN(len(w.owners))])
		}
		w.topic.compact(w.rnd)
	}
	o := &owner{epoch: int32(len(w.owners)) + 1, state: newToy()}
	if chosen != nil {
		state, err := w.topic.restore(chosen)
		if errors.Is(err, ErrChanged) {
			return // tries again some time
		}
		require.NoError(w.t, err)
		o.state, o.position = state, chosen.Offset()
	} else {
		require.False(w.t, w.confirmed, "nothing to restore at %d: %v\n%s", w.committed, refused, strings.Join(w.trace, "\n"))
	}
	w.note("owner %d begins at %d, committed %d", o.epoch, o.position, w.committed)
	o.writer = NewWriter(WriterConfig{Epoch: o.epoch}, index, chosen, o.state)
	o.writer.split = 8
	for o.position < w.committed {
		o.handle()
	}
	w.owners = append(w.owners, o)
}

func (o *owner) handle() {
	o.state.fold(o.position)
	o.position++
}

// land puts the next of an owner's records into the log, and sometimes some of
// the ones before once more, as producers do that can't number them.
func (w *world) land(o *owner) {
	if len(o.queue) == 0 {
		return
	}
	if len(o.landed) > 0 && w.rnd.IntN(8) == 0 {
		for _, out := range o.landed[w.rnd.IntN(len(o.landed)):] {
			w.topic.append(out)
		}
	}
	w.topic.append(o.queue[0])
	o.landed, o.queue = append(o.landed, o.queue[0]), o.queue[1:]
	if len(o.queue) == 0 {
		w.note("all of owner %d's snapshot is in the log", o.epoch)
		o.writer.Durable()
		o.landed = nil
	}
}

func (w *world) step() {
	current := w.owners[len(w.owners)-1]
	o := current
	if len(w.owners) > 0 && w.rnd.IntN(3) == 0 {
		o = w.owners[w.rnd.IntN(len(w.owners))]
	}
	switch n := w.rnd.IntN(100); {
	case n < 30:
		o.handle()
	case n < 50:
		if len(o.queue) > 0 || !o.writer.Ready() {
			return
		}
		w.note("owner %d takes a snapshot at %d", o.epoch, o.position)
		for out, err := range o.writer.Take(o.state, o.position) {
			require.NoError(w.t, err)
			o.queue = append(o.queue, out)
		}
	case n < 80:
		for range 1 + w.rnd.IntN(6) {
			w.land(o)
		}
	case n < 90:
		if o != current || o.position < w.committed {
			return // refused: another generation
		}
		w.committed += w.rnd.Int64N(o.position - w.committed + 1)
		was, had := o.writer.Offset()
		o.writer.Committed(w.committed)
		if at, has := o.writer.Offset(); has != had || at != was {
			w.confirmed = true
			w.note("owner %d relies on its snapshot at %d, committed %d", o.epoch, at, w.committed)
		}
	case n < 95:
		w.topic.compact(w.rnd)
	default:
		w.takeOver()
	}
}

// check verifies what a new owner would find now.
func (w *world) check() {
	chosen, refused := w.topic.index().Choose(toyFormat, stream.PositionAt(0, w.committed), 0)
	if chosen == nil {
		require.False(w.t, w.confirmed, "nothing to restore at %d: %v\n%s", w.committed, refused, strings.Join(w.trace, "\n"))
		return
	}
	require.LessOrEqual(w.t, chosen.Offset(), w.committed)
	state, err := w.topic.restore(chosen)
	require.NoError(w.t, err)
	require.Equal(w.t, toyAt(chosen.Offset()).sections, state.sections, strings.Join(w.trace, "\n"))
}

// TestASnapshotIsLeftAtEveryMoment lets owners crash, stall and be replaced
// between any two records, with their last records landing at any time later,
// twice too, and compaction at work.
func TestASnapshotIsLeftAtEveryMoment(t *testing.T) {
	confirmed := 0
	for seed := range uint64(100) {
		w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 2))}
		w.takeOver()
		for range 400 {
			w.step()
			w.check()
		}
		if w.confirmed {
			confirmed++
		}
	}
	require.Greater(t, confirmed, 90, "histories get as far as having something to lose")
}

// TestASnapshotIsLeftAfterEveryRecord is the same for owners that are fenced:
// each ends with its last record, and the next one goes on from there.
func TestASnapshotIsLeftAfterEveryRecord(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var log topic
		var committed int64
		confirmed := false
		for epoch := range int32(8) {
			index := log.index()
			chosen, refused := index.Choose(toyFormat, stream.PositionAt(0, committed), 0)
			require.Equal(t, confirmed, chosen != nil, "%v", refused)
			state, position := newToy(), int64(0)
			if chosen != nil {
				var err error
				state, err = log.restore(chosen)
				require.NoError(t, err)
				position = chosen.Offset()
			}
			w := NewWriter(WriterConfig{Epoch: epoch / 2}, index, chosen, state) // some begin with an epoch that was there before
			w.split = 8
			for ; position < committed; position++ {
				state.fold(position)
			}
			crash := rnd.IntN(60)
		life:
			for range 4 {
				for range 1 + rnd.IntN(6) {
					state.fold(position)
					position++
				}
				for out, err := range w.Take(state, position) {
					require.NoError(t, err)
					if crash--; crash < 0 {
						break life
					}
					log.append(out)
					if rnd.IntN(4) == 0 {
						log.compact(rnd)
					}
					chosen, refused := log.index().Choose(toyFormat, stream.PositionAt(0, committed), 0)
					require.Equal(t, confirmed, chosen != nil, "%v", refused)
					if chosen != nil {
						restored, err := log.restore(chosen)
						require.NoError(t, err)
						require.Equal(t, toyAt(chosen.Offset()).sections, restored.sections)
					}
				}
				w.Durable()
				committed = position
				w.Committed(committed)
				confirmed = true
			}
		}
	}
}

// TestADamagedSnapshotFallsBack damages every record of a snapshot in turn.
func TestADamagedSnapshotFallsBack(t *testing.T) {
	var log topic
	state := newToy()
	w := NewWriter(WriterConfig{Epoch: 1}, log.index(), nil, state)
	w.split = 8
	position := int64(0)
	var begins []int
	var offsets []int64
	for range 2 {
		for len(state.sections) < 5 || position < 40*int64(len(begins)+1) {
			state.fold(position)
			position++
		}
		for name := range state.versions { // all of it is written
			state.clock++
			state.versions[name] = state.clock
		}
		begins, offsets = append(begins, len(log.records)), append(offsets, position)
		for out, err := range w.Take(state, position) {
			require.NoError(t, err)
			log.append(out)
		}
		w.Durable()
		w.Committed(position)
	}
	for i := begins[1]; i < len(log.records); i++ {
		for name, damage := range map[string]func([]byte) []byte{
			"flipped":  func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
			"cut":      func(b []byte) []byte { return b[:len(b)-1] },
			"foreign":  func([]byte) []byte { return []byte("x") },
			"replaced": func([]byte) []byte { return encodePart(position, []byte("other")) },
			"gone":     func([]byte) []byte { return nil },
		} {
			t.Run(fmt.Sprint(i, name), func(t *testing.T) {
				bad := topic{records: slices.Clone(log.records)}
				r := &bad.records[i]
				if len(r.Value) == 0 {
					return // a tombstone: it holds nothing that could be damaged
				}
				r.Value = damage(bytes.Clone(r.Value))
				chosen, refused := bad.index().Choose(toyFormat, stream.PositionAt(0, position), 0)
				require.NotNil(t, chosen)
				require.Equal(t, offsets[0], chosen.Offset())
				if i < len(log.records)-1 || name != "gone" {
					require.Len(t, refused, 1)
				}
				restored, err := bad.restore(chosen)
				require.NoError(t, err)
				require.Equal(t, toyAt(offsets[0]).sections, restored.sections)
			})
		}
	}
	for _, at := range []int64{offsets[0] - 1, offsets[0], offsets[1] - 1, offsets[1]} {
		chosen, _ := log.index().Choose(toyFormat, stream.PositionAt(0, at), 0)
		switch {
		case at < offsets[0]:
			require.Nil(t, chosen)
		case at < offsets[1]:
			require.Equal(t, offsets[0], chosen.Offset())
		default:
			require.Equal(t, offsets[1], chosen.Offset())
		}
	}
}
