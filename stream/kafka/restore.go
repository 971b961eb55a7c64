package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/partition"
)

// kept is a handler that was drained, for the next generation.
type kept struct {
	handler    stream.Handler
	position   stream.Position
	partitions int32 // of the topic
	generation int32 // that it is from
	snapshots  *snapshotter
}

// restore takes the partition, asks what is durable of it and makes a handler
// with the state that this amounts to, but for what is to be replayed. A handler
// that is not nil has to be closed.
//
// The order matters: only once earlier owners are fenced does the committed
// position stand still.
func (w *worker) restore(ctx context.Context, warm *kept) (stream.Handler, error) {
	var err error
	done := w.phase(phaseFence)
	if w.out, err = w.deliver(ctx); err != nil {
		return nil, w.discard(warm, err)
	}
	done()
	done = w.phase(phasePosition)
	offset, metadata, err := w.client.CommittedOffset(ctx, w.place.Group, w.place.Topic, w.place.Partition)
	if err != nil {
		return nil, w.discard(warm, err)
	}
	bounds, err := w.client.Offsets(ctx, w.place.Topic)
	if err != nil {
		return nil, w.discard(warm, err)
	}
	done()
	if int(w.place.Partition) >= len(bounds) {
		return nil, w.discard(warm, fmt.Errorf("the topic has %d partitions", len(bounds)))
	}
	w.partitions = int32(len(bounds))
	w.sized(w.partitions)
	b := bounds[w.place.Partition]
	start := partition.Start{LogStart: b.Start, LogEnd: b.End, Committed: offset, Metadata: metadata, Stateless: w.cfg.Stateless, FromEnd: w.cfg.FromEnd}
	// In a generation between, another member may have taken snapshots of the same
	// state, beside which ours can't go on.
	if warm != nil && warm.partitions == w.partitions && warm.generation+1 == w.place.Generation {
		start.Warm = &warm.position
	}
	handler, err := w.restoreFrom(ctx, start, warm)
	return handler, w.refusal(err)
}

// discard gives up a handler that was kept, and returns err.
func (w *worker) discard(warm *kept, err error) error {
	if warm == nil {
		return err
	}
	return errors.Join(err, warm.handler.Close())
}

// restoreFrom makes the handler that a plan of the machine asks for.
func (w *worker) restoreFrom(ctx context.Context, start partition.Start, warm *kept) (stream.Handler, error) {
	position, err := partition.CommittedPosition(start)
	if err != nil {
		return nil, w.discard(warm, err)
	}
	if start.Warm != nil && start.Warm.Equal(position) {
		w.snapshots = warm.snapshots
		return warm.handler, w.begin(start, nil)
	}
	if err := w.discard(warm, nil); err != nil {
		return nil, fmt.Errorf("closing the handler of the generation before: %w", err)
	}
	start.Warm = nil
	handler, err := w.newHandler()
	if err != nil {
		return nil, err
	}
	handler, snapshots, err := w.restoreState(ctx, start, position, handler)
	if err != nil {
		return handler, err
	}
	return handler, w.begin(start, snapshots)
}

func (w *worker) newHandler() (stream.Handler, error) {
	handler, err := w.cfg.NewHandler(w.place.Topic, w.place.Partition, w.partitions)
	if err != nil {
		return nil, fmt.Errorf("making the handler: %w", err)
	}
	return handler, nil
}

// begin makes the plan and starts it.
func (w *worker) begin(start partition.Start, snapshots []int64) error {
	var plan partition.Plan
	var err error
	w.update(func(m *partition.Machine, now time.Time) {
		if plan, err = m.Restore(start, snapshots, now); plan.Warm && w.snapshots != nil {
			if offset, ok := w.snapshots.writer.Offset(); ok {
				m.KeepSnapshot(offset)
			}
		}
	})
	if err != nil {
		return err
	}
	w.from = plan.From
	if plan.Warm {
		w.client.metrics.warm.WithLabelValues(w.cfg.Group).Inc()
	}
	w.log.Debug("restoring", slog.Bool("warm", plan.Warm), slog.Bool("snapshot", plan.Snapshot),
		slog.Int64("from", plan.From), slog.Int64("committed", plan.Position.Offset))
	return nil
}

// refusal adds to an error what can be done about it.
func (w *worker) refusal(err error) error {
	var lost *partition.LostPlaceError
	var cut *partition.CutError
	switch {
	case errors.As(err, &lost):
		gone := &OffsetError{Topic: w.place.Topic, Partition: w.place.Partition, Offset: lost.Offset, Start: lost.LogStart, End: lost.LogEnd}
		return fmt.Errorf("group %s has lost its place: %w; retention may be too short, or the topic was made anew; to go on from what there is: %s",
			w.place.Group, gone, w.resetCommand())
	case errors.As(err, &cut):
		return fmt.Errorf("%w: retention is too short, or snapshots were switched off; to go on from what there is: %s", err, w.resetCommand())
	}
	return err
}

// resetCommand is what an operator runs to begin anew with what the log holds.
func (w *worker) resetCommand() string {
	if w.cfg.State.Topic != "" { // snapshots have to go as well
		return fmt.Sprintf("pore reset --brokers %s --stage STAGE --to-earliest, for the stage of the group", w.client.cfg.Brokers[0])
	}
	return fmt.Sprintf("kafka-consumer-groups.sh --bootstrap-server %s --group %s --topic %s:%d --reset-offsets --to-earliest --execute",
		w.client.cfg.Brokers[0], w.place.Group, w.place.Topic, w.place.Partition)
}

// phase measures a part of restoring, until done is called.
func (w *worker) phase(name string) (done func()) {
	began := time.Now()
	return func() {
		w.client.metrics.restorePhase.WithLabelValues(w.cfg.Group, name).Observe(time.Since(began).Seconds())
	}
}
