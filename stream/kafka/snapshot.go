package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/partition"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/snapshot"
)

// StateConfig says where the handlers' states are kept.
type StateConfig struct {
	// Topic takes the snapshots. Empty means that there are none: then a handler
	// is restored from the records alone, all of which the log must hold.
	Topic string
	// Interval is the time between two snapshots of a partition. Zero means
	// 1 min.
	Interval time.Duration
}

// snapshotter takes a handler's snapshots, one after the other.
type snapshotter struct {
	writer *snapshot.Writer // belongs to the goroutine that calls the handler

	// Guarded by the worker's mu. The snapshot at offset has been sent as a whole
	// and, but for so many records of it, acknowledged.
	offset    int64
	sent      bool
	unwritten int
	broken    bool // a record of it could not be written
	durable   bool
	committed int64 // the last offset that was committed since
	began     time.Time
	bytes     int
	unsaved   unsaved
}

// covers reports whether all of the snapshot has been written.
func (s *snapshotter) covers() bool {
	return s.sent && !s.broken && s.unwritten == 0
}

// restoreState restores the newest snapshot that can be used into a handler, and
// prepares for the next ones. It returns the handler and the snapshot's offset,
// if there is one: a handler into which a damaged one went is replaced.
func (w *worker) restoreState(ctx context.Context, start partition.Start, position stream.Position, handler stream.Handler) (stream.Handler, []int64, error) {
	state := handler.State()
	if w.cfg.State.Topic == "" || w.cfg.Stateless || state == nil {
		return handler, nil, nil
	}
	done := w.phase(phaseSnapshot)
	source := snapshot.Source{Group: w.place.Group, Topic: w.place.Topic, Partition: w.place.Partition}
	place, err := w.client.StatePartition(ctx, w.cfg.State.Topic, source)
	if err != nil {
		return handler, nil, err
	}
	r, err := w.restoreNewest(ctx, source, start, position, restored{handler: handler, state: state})
	if err != nil {
		return r.handler, nil, err
	}
	handler, chosen := r.handler, r.chosen
	w.snapshots = &snapshotter{writer: snapshot.NewWriter(snapshot.WriterConfig{
		Topic: w.cfg.State.Topic, Partition: place, Epoch: w.place.Generation, Origin: position.Origin,
	}, r.index, chosen, r.state)}
	done()
	if chosen == nil {
		return handler, nil, nil
	}
	w.snapshotAt(chosen.Time())
	w.snapshots.unsaved.restored = chosen.Time()
	if planted.Is(planted.NoTrailer) {
		return handler, []int64{position.Offset}, nil // nothing says otherwise
	}
	return handler, []int64{chosen.Offset()}, nil
}

// restored is a handler, and the snapshot that went into its state.
type restored struct {
	handler stream.Handler // nil: a damaged snapshot went into one, and no other could be made
	state   stream.State   // of handler
	index   *snapshot.Index
	chosen  *snapshot.Snapshot // nil: none
}

// restoreNewest restores the newest snapshot that can be used into the handler of r, which has none yet. A handler that may hold
// half of a damaged one is closed, and another made; the caller closes the one that is returned, with an error, too.
func (w *worker) restoreNewest(ctx context.Context, source snapshot.Source, start partition.Start, position stream.Position, r restored) (_ restored, err error) {
	for {
		if r.index == nil {
			if r.index, err = w.client.ReadState(ctx, w.cfg.State.Topic, source, w.cfg.Fetch); err != nil {
				return r, err
			}
		}
		if r.chosen, err = w.choose(r.index, r.state.Format(), start, position); err != nil || r.chosen == nil {
			return r, err
		}
		err = w.client.RestoreState(ctx, w.cfg.State.Topic, r.chosen, r.state, w.cfg.Fetch)
		switch {
		case err == nil:
			return r, nil
		case ctx.Err() != nil:
			return r, context.Cause(ctx)
		case errors.Is(err, snapshot.ErrUnusable):
			w.log.Warn("a snapshot is of no use; trying the one before", slog.Int64("snapshot", r.chosen.Offset()), slog.Any("error", err))
			r.index.Refuse(r.chosen, err)
		case errors.Is(err, snapshot.ErrChanged):
			r.index = nil
		default:
			return r, err
		}
		damaged := r.handler
		r.handler, r.state = nil, nil
		if err := damaged.Close(); err != nil {
			return r, fmt.Errorf("closing the handler of a snapshot that is of no use: %w", err)
		}
		if r.handler, err = w.newHandler(); err != nil {
			r.handler = nil
			return r, err
		}
		r.state = r.handler.State()
	}
}

// choose picks the snapshot to restore; nil if there is none.
func (w *worker) choose(index *snapshot.Index, format stream.StateFormat, start partition.Start, position stream.Position) (*snapshot.Snapshot, error) {
	if start.Committed < 0 {
		// Without transactions the first snapshot may come before the first commit.
		if !index.Empty() && (w.cfg.Delivery == ExactlyOnce || start.LogStart > 0) {
			return nil, fmt.Errorf("topic %s holds a state of group %s, but the group has no offset: it was deleted or has expired; "+
				"to begin anew: %s", w.cfg.State.Topic, w.place.Group, w.resetCommand())
		}
		return nil, nil
	}
	chosen, refused := index.Choose(format, position, start.LogStart)
	for _, r := range refused {
		w.log.Warn("a snapshot can't be used", slog.String("snapshot", r.String()))
	}
	if position.Offset == position.Origin {
		return nil, nil // the state begins here
	}
	return chosen, nil
}

// snapshotWhenDue takes a snapshot if it is time. It is called between records.
func (w *worker) snapshotWhenDue(ctx context.Context, handler stream.Handler, now time.Time) error {
	if w.snapshots == nil {
		return nil
	}
	w.noteSnapshot()
	w.mu.Lock()
	at, ok := w.machine.SnapshotDue()
	w.mu.Unlock()
	if !ok || now.Before(at) || !w.snapshots.writer.Ready() {
		return nil
	}
	return w.takeSnapshot(ctx, handler)
}

// noteSnapshot reports to the writer what has become of its last snapshot.
func (w *worker) noteSnapshot() {
	s := w.snapshots
	w.mu.Lock()
	durable, committed, broken := s.durable, s.committed, s.broken
	s.broken = false
	w.mu.Unlock()
	if broken {
		s.writer.Abandon()
	}
	if durable {
		s.writer.Durable()
		s.writer.Committed(committed)
	}
}

// takeSnapshot writes the handler's state. The handler waits meanwhile, for as
// long as it takes to encode what has changed and to hand it over. A snapshot
// that fails is no failure of the partition: the one before is still there.
func (w *worker) takeSnapshot(ctx context.Context, handler stream.Handler) error {
	s := w.snapshots
	w.mu.Lock()
	offset := w.machine.BeginSnapshot()
	s.offset, s.began, s.bytes = offset, time.Now(), 0
	s.sent, s.broken, s.durable, s.unwritten = false, false, false, 0
	s.unsaved.begin()
	w.mu.Unlock()
	err := w.sendSnapshot(ctx, handler.State(), offset)
	if err == nil {
		w.update(func(m *partition.Machine, now time.Time) {
			s.sent = true
			m.SentSnapshot(now)
			w.endDirectSnapshot(m, now)
		})
		return nil
	}
	s.writer.Abandon()
	w.update(func(m *partition.Machine, now time.Time) { m.EndSnapshot(offset, false, now) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.client.metrics.snapshotErrors.WithLabelValues(w.cfg.Group).Inc()
	w.log.Warn("taking a snapshot failed; the one before stays", slog.Any("error", err))
	return nil
}

func (w *worker) sendSnapshot(ctx context.Context, state stream.State, offset int64) error {
	s := w.snapshots
	for out, err := range s.writer.Take(state, offset) {
		if err != nil {
			return err
		}
		w.mu.Lock()
		s.unwritten++
		s.bytes += len(out.Key) + len(out.Value)
		w.mu.Unlock()
		if err := w.out.Send(ctx, []stream.Out{out}, func(err error) { w.snapshotWritten(offset, err) }); err != nil {
			return err
		}
	}
	return nil
}

// snapshotWritten notes what became of a record of the snapshot at offset.
func (w *worker) snapshotWritten(offset int64, err error) {
	w.update(func(m *partition.Machine, now time.Time) {
		s := w.snapshots
		if s.offset != offset {
			return
		}
		s.unwritten--
		if err == nil {
			w.endDirectSnapshot(m, now)
			return
		}
		if s.broken = true; s.sent {
			m.EndSnapshot(offset, false, now)
		}
	})
	if err != nil && w.cfg.Delivery == ExactlyOnce {
		// The transaction can't be committed.
		w.fail(fmt.Errorf("writing a snapshot of topic %s partition %d: %w", w.place.Topic, w.place.Partition, err))
	}
}

// endDirectSnapshot ends a snapshot that needs no commit to be durable. mu is
// held.
func (w *worker) endDirectSnapshot(m *partition.Machine, now time.Time) {
	if w.cfg.Delivery == AtLeastOnce && w.snapshots.covers() {
		w.endSnapshot(m, now)
	}
}

// endSnapshot notes that the snapshot is durable. mu is held.
func (w *worker) endSnapshot(m *partition.Machine, now time.Time) {
	s := w.snapshots
	s.sent, s.durable, s.committed = false, true, -1
	m.EndSnapshot(s.offset, true, now)
	w.client.metrics.snapshotBytes.WithLabelValues(w.cfg.Group).Add(float64(s.bytes))
	w.client.metrics.snapshotTime.WithLabelValues(w.cfg.Group).Observe(now.Sub(s.began).Seconds())
	w.snapshotAt(now)
	s.unsaved.end()
	w.exportUnsaved(s.unsaved.since)
}

// snapshotAt exports when the newest snapshot was taken.
func (w *worker) snapshotAt(t time.Time) {
	w.client.metrics.snapshotAt.WithLabelValues(w.place.Topic, strconv.Itoa(int(w.place.Partition))).Set(float64(t.UnixMilli()) / 1000)
}

// exportUnsaved exports since when the state has changed without a snapshot.
func (w *worker) exportUnsaved(since time.Time) {
	seconds := 0.0
	if !since.IsZero() {
		seconds = float64(since.UnixMilli()) / 1000
	}
	w.client.metrics.unsaved.WithLabelValues(w.place.Topic, strconv.Itoa(int(w.place.Partition))).Set(seconds)
}

// lastSnapshot saves the next owner the replay of what has been read since the
// snapshot before.
func (w *worker) lastSnapshot(ctx context.Context, handler stream.Handler) {
	if w.snapshots == nil {
		return
	}
	w.noteSnapshot()
	w.mu.Lock()
	allowed := w.machine.SnapshotAllowed() && !w.failed
	w.mu.Unlock()
	if !allowed || !w.snapshots.writer.Ready() {
		return
	}
	if err := w.takeSnapshot(ctx, handler); err != nil {
		return
	}
	// Without an error it is part of the transaction; the drain's own commit was
	// before.
	if w.commit(ctx) == nil {
		w.noteSnapshot()
	}
}
