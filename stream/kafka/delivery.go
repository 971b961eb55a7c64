package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/partition"
	"github.com/porestream/porestream/stream/planted"
)

// Delivery is what holds between a group's input and what its handlers emit.
type Delivery int

const (
	// ExactlyOnce emits in transactions, together with the input's offsets: a
	// reader of committed records sees every effect once. It costs a commit's
	// wait until what was emitted is visible.
	ExactlyOnce Delivery = iota
	// AtLeastOnce emits at once and commits offsets afterwards: a crash makes
	// some effects appear again, with the same keys, ids and revisions.
	AtLeastOnce
)

func (d Delivery) String() string {
	if d == AtLeastOnce {
		return "at-least-once"
	}
	return "exactly-once"
}

// MarshalText implements [encoding.TextMarshaler].
func (d Delivery) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads exactly-once or at-least-once.
func (d *Delivery) UnmarshalText(text []byte) error {
	switch string(text) {
	case ExactlyOnce.String():
		*d = ExactlyOnce
	case AtLeastOnce.String():
		*d = AtLeastOnce
	default:
		return fmt.Errorf("delivery %q: want %v or %v", text, ExactlyOnce, AtLeastOnce)
	}
	return nil
}

// output is how a partition's emissions and its position become durable.
type output interface {
	Send(ctx context.Context, outs []stream.Out, onWritten func(error)) error
	// hold makes later Sends belong to the next commit and waits for those
	// before.
	hold(ctx context.Context) error
	// commit makes what was sent before hold visible, and offsets durable. With
	// nil offsets the position stays.
	commit(ctx context.Context, offsets *GroupOffsets) error
	// encode is a position's text, or as much of it as a commit can carry.
	encode(p stream.Position) (stream.Position, string, error)
	close(ctx context.Context) error
}

// transactions is exactly-once delivery.
type transactions struct{ *Transactor }

func (t transactions) hold(ctx context.Context) error { return t.Hold(ctx) }

func (t transactions) commit(ctx context.Context, offsets *GroupOffsets) error {
	if planted.Is(planted.SkipOffsets) {
		offsets = nil
	}
	if planted.Is(planted.NoFencing) && offsets != nil {
		unfenced := *offsets
		unfenced.Generation, unfenced.Member = -1, ""
		offsets = &unfenced
	}
	return t.Commit(ctx, offsets)
}

func (t transactions) encode(p stream.Position) (stream.Position, string, error) {
	text, err := p.MarshalText()
	return p, string(text), err
}

func (t transactions) close(ctx context.Context) error { return t.Close(ctx) }

// direct is at-least-once delivery.
type direct struct {
	*Producer
	client *Client
}

func (d direct) hold(context.Context) error { return nil }

func (d direct) commit(ctx context.Context, offsets *GroupOffsets) error {
	if offsets == nil {
		return nil
	}
	return d.client.CommitOffsets(ctx, *offsets)
}

// encode leaves the last spans away if there are too many: what they say is dealt
// with is then done once more, which is what at least once allows.
func (d direct) encode(p stream.Position) (stream.Position, string, error) {
	for {
		text, err := p.MarshalText()
		if len(p.Open) == 0 || err == nil {
			return p, string(text), err
		}
		p = p.Trim(len(p.Open) / 2)
	}
}

func (d direct) close(context.Context) error { return nil }

// deliver takes the partition: from now on no earlier owner can commit or emit
// in a transaction.
func (w *worker) deliver(ctx context.Context) (output, error) {
	if w.cfg.Delivery == AtLeastOnce {
		return direct{w.cfg.Producer, w.client}, nil
	}
	id := transactionalID(w.place)
	if planted.Is(planted.NoFencing) {
		id = strings.Join([]string{id, w.place.Member}, "/")
	}
	t, err := NewTransactor(ctx, w.client, id, w.cfg.Transactions)
	if err != nil {
		return nil, err
	}
	return transactions{t}, nil
}

// transactionalID is one of a group's input partition, not of a member: so a new
// owner fences the one before.
func transactionalID(o GroupOffsets) string {
	return fmt.Sprintf("%s/%s/%d", o.Group, o.Topic, o.Partition)
}

// commitWhenDue commits until it is enough, ctx ends or a transaction fails. A
// commit that has begun is brought to its end.
func (w *worker) commitWhenDue(ctx context.Context, enough <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		at, ok := w.machine.CommitDue()
		over := w.failed && w.cfg.Delivery == ExactlyOnce
		w.mu.Unlock()
		if over { // what is due stays due
			return
		}
		wait := time.Hour
		if ok {
			wait = time.Until(at)
		}
		if wait <= 0 {
			select {
			case <-enough:
				return
			case <-ctx.Done():
				return
			default:
			}
			if w.commit(ctx) != nil && w.cfg.Delivery == ExactlyOnce {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-enough:
			return
		case <-ctx.Done():
			return
		case <-w.due:
		case <-timer.C:
		}
	}
}

// commit commits what has been finished, if anything has. With transactions an
// error ends the generation: the transaction is aborted and its records are
// processed again. Without, the next commit makes up for it.
func (w *worker) commit(ctx context.Context) error {
	w.mu.Lock()
	_, ok := w.machine.Position()
	if ok = ok && !(w.failed && w.cfg.Delivery == ExactlyOnce); ok {
		w.machine.BeginCommit()
	}
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.tryCommit(ctx)
	if err == nil {
		return nil
	}
	w.client.metrics.commitErrors.WithLabelValues(w.cfg.Group).Inc()
	w.update(func(m *partition.Machine, now time.Time) { m.CommitFailed(now) })
	if w.cfg.Delivery == AtLeastOnce {
		w.log.Warn("committing offsets failed; the records will be processed again if this lasts", slog.Any("error", err))
		return err
	}
	w.fail(fmt.Errorf("committing topic %s partition %d: %w", w.place.Topic, w.place.Partition, err))
	return err
}

func (w *worker) tryCommit(ctx context.Context) error {
	// What is sent from here on may be for the next transaction.
	w.mu.Lock()
	sent := w.snapshots != nil && w.snapshots.sent
	w.mu.Unlock()
	if err := w.out.hold(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	position, _ := w.machine.Position()
	dirty, snapshot := w.machine.Dirty(), sent && w.snapshots.covers()
	direct := w.snapshots != nil && w.snapshots.durable
	w.mu.Unlock()
	if planted.Is(planted.CommitBeforeProduce) {
		position = stream.PositionAt(position.Origin, w.machine.Next())
	}
	var offsets *GroupOffsets
	if dirty {
		var metadata string
		var err error
		if position, metadata, err = w.out.encode(position); err != nil {
			return err
		}
		o := w.place
		o.Offset, o.Metadata = position.Offset, metadata
		offsets = &o
	}
	if err := w.out.commit(ctx, offsets); err != nil {
		return err
	}
	w.update(func(m *partition.Machine, now time.Time) {
		m.Committed(position, now)
		if snapshot && w.cfg.Delivery == ExactlyOnce {
			w.endSnapshot(m, now)
		}
		// Only a commit that the coordinator has seen proves that the partition was
		// ours when the snapshot was durable.
		if (direct || snapshot) && (offsets != nil || w.cfg.Delivery == ExactlyOnce) {
			w.snapshots.committed = position.Offset
		}
	})
	return nil
}
