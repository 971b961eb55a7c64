package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// ledger keeps a run's push state in Kafka; it is its [ingest.Ledger].
//
// Problem: a server that is killed forgets whose a run was, who sent it, and where
// its channels were, so another device could take the run over, and the first
// chunk of each channel would have to be believed. Strategy: the order of chunks
// is folded a second time, behind those of the open transaction, and what has
// changed is written with them; now and then the whole state is. Consequences: it
// costs about a hundredth of the signal, and the server that takes the run over knows
// exactly what was known behind the same chunk; what the spool has is folded again.
type ledger struct {
	run    *run
	topics stream.Topics
	states func(ctx context.Context, run string) ([]*streampb.PushState, error)

	state   *order // behind all that was folded in
	settled uint64 // chunks behind the last commit
	// undo has the channels that have changed since the last commit, as they were;
	// nil for those that were not there.
	undo map[uint32]*channel

	wrote   written // in the last transaction that was committed
	writing written // in the open one
}

// written is what was written of a state.
type written struct {
	whole bool // some whole state was, and the changes since
	base  uint64
	part  uint32
	as    identity
}

// identity is the part of a state that is not the channels'.
type identity struct {
	device, session string
	former          int
}

func newLedger(r *run, topics stream.Topics, states func(context.Context, string) ([]*streampb.PushState, error)) *ledger {
	return &ledger{run: r, topics: topics, states: states}
}

// Recall brings the run to where the process before has left it.
func (l *ledger) Recall(ctx context.Context, chunks uint64, spooled func(func([]stream.Out) error) error) error {
	var states []*streampb.PushState
	if chunks > 0 {
		var err error
		if states, err = l.states(ctx, l.run.description.GetId()); err != nil {
			return err
		}
	}
	if l.state = recalled(states, chunks); l.state == nil {
		// It was begun by a server that kept no such state.
		l.state = newOrder(Limits{}, chunks)
	}
	l.settled, l.undo, l.wrote = chunks, make(map[uint32]*channel), written{}
	if len(states) > 0 {
		l.run.recall(states[0], states[len(states)-1])
	}
	// The devices' next chunk comes behind what the spool has.
	front := l.state.clone()
	err := spooled(func(outs []stream.Out) error {
		for _, out := range outs {
			if out.Topic != l.topics.Cursors {
				continue
			}
			if state, err := stream.DecodePushState(out.Value); err == nil {
				l.run.recall(state, state)
			}
		}
		return fold(front, l.topics, outs, nil)
	})
	if err != nil {
		return err
	}
	l.run.front = front
	return nil
}

// recalled is the order behind some chunks, made of the newest whole state and the
// changes to it; nil if they don't lead there.
func recalled(states []*streampb.PushState, chunks uint64) *order {
	if len(states) == 0 {
		return nil
	}
	o := newOrder(Limits{}, 0)
	for i, s := range states {
		if s.GetPart() != uint32(i) || s.GetBase() != states[0].GetChunks() {
			return nil
		}
		o.next = s.GetChunks()
		for _, c := range s.GetChannels() {
			o.channels[c.GetChannel()] = &channel{
				read: read{
					id: c.GetReadId(), start: c.GetReadStart(), number: c.GetReadNumber(), well: c.GetWell(),
					offset: c.GetCalibrationOffset(), scale: c.GetCalibrationScale(),
				},
				open: c.GetOpen(), number: c.GetNumber(), end: c.GetEnd(),
			}
		}
	}
	if o.next != chunks {
		return nil
	}
	o.reopen()
	return o
}

// fold takes the chunk among an event's records, if there is one, into an order.
// before, if not nil, is called with the channel first.
func fold(o *order, topics stream.Topics, outs []stream.Out, before func(channel uint32)) error {
	for i := range outs {
		if outs[i].Topic != topics.Signal {
			continue
		}
		rec, err := stream.DecodeSignal(outs[i].Value)
		if err != nil {
			return fmt.Errorf("following a run's chunks: %w", err)
		}
		c := rec.GetChunk()
		if c == nil {
			continue
		}
		if before != nil {
			before(c.GetChannel())
		}
		o.take(&pushpb.Chunk{
			Sequence: o.next, Channel: c.GetChannel(), ReadId: c.GetReadId(), ReadStart: c.GetReadStart(), ReadNumber: c.GetReadNumber(),
			Well: c.GetWell(), CalibrationOffset: c.GetCalibrationOffset(), CalibrationScale: c.GetCalibrationScale(),
			Number: c.GetNumber(), FirstSample: c.GetFirstSample(), SampleCount: c.GetSampleCount(), EndOfRead: c.GetEndOfRead(),
		})
	}
	return nil
}

// Opening says whose the run is, for the spool as well.
func (l *ledger) Opening() ([]stream.Out, error) {
	m := l.run.identity()
	m.Channels = nil
	out, err := l.out(m)
	if err != nil {
		return nil, err
	}
	return []stream.Out{out}, nil
}

// Fold takes an event.
func (l *ledger) Fold(outs []stream.Out) error {
	return fold(l.state, l.topics, outs, func(n uint32) {
		if _, known := l.undo[n]; known {
			return
		}
		l.undo[n] = nil
		if ch := l.state.channels[n]; ch != nil {
			was := *ch
			l.undo[n] = &was
		}
	})
}

// Outs are a change, or the whole state if there were many changes, or the sender is
// another.
func (l *ledger) Outs(ended bool) ([]stream.Out, error) {
	m := l.run.identity()
	m.Chunks, m.Base = l.state.next, l.state.next
	l.writing = written{whole: true, base: m.Base, as: identity{m.GetDevice(), string(m.GetSession()), len(m.GetFormer())}}
	if ended {
		return l.closing(m)
	}
	if l.wrote.whole && l.wrote.as == l.writing.as && l.wrote.part < stream.PushParts {
		if len(l.undo) == 0 {
			l.writing = l.wrote
			return nil, nil
		}
		l.writing.base, l.writing.part = l.wrote.base, l.wrote.part+1
		m.Part, m.Base, m.Former = l.writing.part, l.writing.base, nil
		m.Channels = l.channels(maps.Keys(l.undo))
	} else {
		m.Channels = l.channels(maps.Keys(l.state.channels))
	}
	out, err := l.out(m)
	if err != nil {
		return nil, err
	}
	return []stream.Out{out}, nil
}

// closing leaves little behind of a run that has ended.
func (l *ledger) closing(m *streampb.PushState) (outs []stream.Out, err error) {
	m.Former = nil
	for part := range uint32(stream.PushParts + 1) {
		m.Part = part
		out, err := l.out(m)
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}

func (l *ledger) channels(numbers func(func(uint32) bool)) (out []*streampb.PushChannel) {
	for _, n := range slices.Sorted(numbers) {
		ch := l.state.channels[n]
		out = append(out, &streampb.PushChannel{
			Channel: n, ReadId: ch.read.id, ReadStart: ch.read.start, ReadNumber: ch.read.number, Well: ch.read.well,
			CalibrationOffset: ch.read.offset, CalibrationScale: ch.read.scale, Open: ch.open, Number: ch.number, End: ch.end,
		})
	}
	return out
}

func (l *ledger) out(m *streampb.PushState) (stream.Out, error) {
	value, err := stream.EncodePushState(m)
	if err != nil {
		return stream.Out{}, fmt.Errorf("keeping the state of run %s: %w", m.GetRun(), err)
	}
	return stream.Out{Topic: l.topics.Cursors, Partition: stream.AnyPartition, Key: stream.PushStateKey(m.GetRun(), m.GetPart()), Value: value}, nil
}

// Committed makes the open transaction's state the one to go on from.
func (l *ledger) Committed() {
	l.wrote, l.settled = l.writing, l.state.next
	clear(l.undo)
}

var errAstray = errors.New("the run's cursor is where its push state has never been")

// Rewind goes back to the last commit, or stays. What was written last is not known
// then, so the whole state comes next.
func (l *ledger) Rewind(chunks uint64) error {
	l.wrote = written{}
	switch chunks {
	case l.state.next:
	case l.settled:
		for n, was := range l.undo {
			if was == nil {
				delete(l.state.channels, n)
			} else {
				l.state.channels[n] = was
			}
		}
		l.state.next = l.settled
		l.state.reopen()
	default:
		return fmt.Errorf("%w: %d chunks, and it is behind %d or %d", errAstray, chunks, l.settled, l.state.next)
	}
	l.settled = chunks
	clear(l.undo)
	return nil
}

// identity is whose the run is now, and who sends it.
func (r *run) identity() *streampb.PushState {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &streampb.PushState{Run: r.description.GetId(), Device: r.device, Session: bytes.Clone(r.session)}
	for _, f := range r.former {
		m.Former = append(m.Former, bytes.Clone(f))
	}
	return m
}

// recall makes the run whose it was: newest is the newest state, and whole the one
// that it belongs to.
func (r *run) recall(whole, newest *streampb.PushState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if newest.GetDevice() != "" {
		r.device = newest.GetDevice()
	}
	if len(newest.GetSession()) > 0 {
		r.session = newest.GetSession()
	}
	r.former = whole.GetFormer()
}
