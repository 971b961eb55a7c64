package snapshot

import (
	"errors"
	"fmt"

	"github.com/porestream/porestream/stream"
)

// ErrChanged says that records which the index had found are no longer there:
// somebody has written meanwhile, and the index is to be made anew.
var ErrChanged = errors.New("the state has changed while it was read")

// Restorer gives a snapshot's sections to a handler, as their records come by.
// It holds one section at a time, or several where the parts of large ones lie
// interleaved in the log.
type Restorer struct {
	snapshot *Snapshot
	state    stream.State
	left     []located
	open     map[int32]*opened
}

// opened is a section of several parts, of which some are there.
type opened struct {
	content []byte
	missing int
}

// Restorer begins to restore into the state of a new handler.
func (s *Snapshot) Restorer(state stream.State) *Restorer {
	return &Restorer{snapshot: s, state: state, left: s.parts, open: make(map[int32]*opened)}
}

// Next is the offset, in the partition of the state topic, of the next record
// that is needed; ok is false when all have been taken.
func (r *Restorer) Next() (offset int64, ok bool) {
	if len(r.left) == 0 {
		return 0, false
	}
	return r.left[0].offset, true
}

// Add takes a record of the state topic's partition, in the order of the log,
// from Next on. Those that are not needed are passed over. After an error the
// handler is of no use any more: [ErrUnusable] says to try the snapshot before
// with a new one, after [Index.Refuse]; [ErrChanged] to read the state again.
func (r *Restorer) Add(rec stream.Record) error {
	if len(r.left) == 0 || rec.Offset < r.left[0].offset {
		return nil
	}
	want := r.left[0]
	if rec.Offset > want.offset {
		return fmt.Errorf("%w: the record at offset %d is gone", ErrChanged, want.offset)
	}
	e := &r.snapshot.entries[want.entry]
	taken, content, err := decodePart(rec.Value)
	if err != nil || taken != e.taken || sumOf(content) != e.parts[want.part] {
		return fmt.Errorf("%w: the record at offset %d holds something else", ErrChanged, want.offset)
	}
	r.left = r.left[1:]
	if len(e.parts) > 1 {
		if content = r.assemble(want, e, content); content == nil {
			return nil
		}
	}
	if err := r.state.RestoreSection(e.name, content); err != nil {
		return fmt.Errorf("%w: section %q of the one at offset %d: %w", ErrUnusable, e.name, r.snapshot.offset, err)
	}
	return nil
}

// assemble puts a part in its place and returns the section when it is complete.
func (r *Restorer) assemble(at located, e *entry, content []byte) []byte {
	o := r.open[at.entry]
	if o == nil {
		o = &opened{content: make([]byte, e.bytes()), missing: len(e.parts)}
		r.open[at.entry] = o
	}
	var begin int64
	for _, p := range e.parts[:at.part] {
		begin += int64(p.length)
	}
	copy(o.content[begin:], content)
	if o.missing--; o.missing > 0 {
		return nil
	}
	delete(r.open, at.entry)
	return o.content
}
