package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Live feeds a run from a source that can't be made to wait, such as a
// sequencer. A chunk that neither memory nor spool has room for is lost: it is
// counted and gets no place in the run, so the next chunk of its read shows the
// gap by its first sample, and no base is called across it. The source may
// forget what [Live.Durable] covers; what was taken later is lost with the
// process.
//
// A Live belongs to one goroutine.
type Live struct {
	queue    *queue
	topics   stream.Topics
	run      *streampb.Run
	progress progress
	metrics  *Metrics
}

// Chunk takes a chunk of the run without ever waiting. It returns false if the
// chunk is lost.
func (l *Live) Chunk(c *streampb.SignalChunk) (bool, error) {
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", c.GetReadId(), err)
	}
	after := l.progress
	after.add([]byte(c.GetReadId())) // nobody can play a live run again: its reads have no other identity
	now := time.Now()
	err = l.queue.offer(event{after: after, at: now, samples: int(c.GetSampleCount()), outs: []stream.Out{{
		Topic: l.topics.Signal, Partition: stream.AnyPartition, Time: now,
		Key: stream.SignalKey(l.run.GetId(), c.GetChannel()), Value: value,
	}}})
	switch {
	case errors.Is(err, errFull):
		l.metrics.lose(int(c.GetSampleCount()))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("taking signal: %w", err)
	}
	l.progress = after
	l.metrics.chunk(int(c.GetSampleCount()), c.GetEndOfRead())
	return true, nil
}

// Announce takes the run's beginning, and End its end, on the so many partitions
// of the signal topic. Neither may be lost, so they wait for room.
func (l *Live) Announce(ctx context.Context, partitions int32) error {
	outs, err := announcement(l.topics, l.run, partitions)
	if err != nil {
		return err
	}
	identity, err := proto.MarshalOptions{Deterministic: true}.Marshal(l.run)
	if err != nil {
		return fmt.Errorf("announcing run %s: %w", l.run.GetId(), err)
	}
	l.progress.add(identity)
	return l.queue.put(ctx, event{after: l.progress, at: time.Now(), outs: outs})
}

// End takes the run's end; see [Live.Announce].
func (l *Live) End(ctx context.Context, partitions int32) error {
	outs, err := ending(l.topics, l.run, partitions)
	if err != nil {
		return err
	}
	l.progress.add(nil)
	l.progress.ended = true
	return l.queue.put(ctx, event{after: l.progress, at: time.Now(), outs: outs})
}

// Durable is the number of events, from the run's first, that neither the end of
// the process nor a power cut can undo: they are in Kafka or synced to the spool.
func (l *Live) Durable() uint64 { return l.queue.durable() }

// Taken is the number of events that were taken.
func (l *Live) Taken() uint64 { return l.progress.next }
