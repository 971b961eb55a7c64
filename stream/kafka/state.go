package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/snapshot"
)

// StatePartition is the partition of the state topic that holds a source's
// state.
func (c *Client) StatePartition(ctx context.Context, topic string, source snapshot.Source) (int32, error) {
	if err := source.Validate(); err != nil {
		return 0, fmt.Errorf("placing the state of %v: %w", source, err)
	}
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("placing the state of %v: %w", source, err)
	}
	return source.Place(int32(n)), nil
}

// ReadState reads what the state topic holds of a source: everything that was
// written before the call. Every earlier writer must be fenced by then, or
// confined to its own epoch as package snapshot describes.
//
// It waits for transactions of others that were open at the call: what is behind
// them can't be read before, and a writer that does not know all that is there
// would build on records that have been overwritten.
func (c *Client) ReadState(ctx context.Context, topic string, source snapshot.Source, cfg FetchConfig) (*snapshot.Index, error) {
	partition, err := c.StatePartition(ctx, topic, source)
	if err != nil {
		return nil, err
	}
	index := snapshot.NewIndex(source)
	err = c.scan(ctx, topic, partition, cfg, func(rec stream.Record) error {
		index.Add(rec)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the state of %v: %w", source, err)
	}
	return index, nil
}

// ReadStates hands everything that was written to a state topic before the call
// to fn, one partition after the other. It waits for open transactions as
// [Client.ReadState] does.
func (c *Client) ReadStates(ctx context.Context, topic string, cfg FetchConfig, fn func(stream.Record) error) error {
	n, err := c.Partitions(ctx, topic)
	if err != nil {
		return fmt.Errorf("reading states: %w", err)
	}
	for partition := range int32(n) {
		if err := c.scan(ctx, topic, partition, cfg, fn); err != nil {
			return fmt.Errorf("reading states: %w", err)
		}
	}
	return nil
}

// openTransactionAfter is how long a scan may wait for others before a line is
// logged for the operator. Transactions of processes that live last for a
// fraction of it.
const openTransactionAfter = 10 * time.Second

// scan reads a partition from its start to what is its end at the call, as far as
// it is committed.
func (c *Client) scan(ctx context.Context, topic string, partition int32, cfg FetchConfig, fn func(stream.Record) error) error {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	if int(partition) >= len(bounds) {
		return fmt.Errorf("topic %s has %d partitions, there is no partition %d", topic, len(bounds), partition)
	}
	return c.ReadRange(ctx, topic, partition, bounds[partition].Start, bounds[partition].End, cfg, fn)
}

// ReadRange calls fn with a partition's committed records from an offset up to another, in their order, until one of them is an error, which it returns.
func (c *Client) ReadRange(ctx context.Context, topic string, partition int32, from, to int64, cfg FetchConfig, fn func(stream.Record) error) error {
	fetcher := c.NewFetcher(topic, partition, from, cfg)
	moved := time.Now()
	for at := from; at < to; {
		batch, err := fetcher.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range batch.Records {
			if rec.Offset >= to {
				return nil
			}
			if err := fn(rec); err != nil {
				return err
			}
		}
		switch {
		case batch.Next > at:
			at, moved = batch.Next, time.Now()
		case time.Since(moved) > openTransactionAfter:
			moved = time.Now()
			c.log.Warn("waiting for a transaction that somebody has left open", slog.String("topic", topic),
				slog.Int("partition", int(partition)), slog.Int64("offset", at), slog.Int64("end", to))
		}
	}
	return nil
}

// RestoreState gives a snapshot that was chosen from what [Client.ReadState]
// read to a new handler's state. [snapshot.ErrUnusable] says to refuse it and
// choose again, with another handler; [snapshot.ErrChanged] to read the state
// again.
func (c *Client) RestoreState(ctx context.Context, topic string, s *snapshot.Snapshot, state stream.State, cfg FetchConfig) error {
	partition, err := c.StatePartition(ctx, topic, s.Source())
	if err != nil {
		return err
	}
	r := s.Restorer(state)
	next, ok := r.Next()
	if !ok {
		return nil
	}
	fetcher := c.NewFetcher(topic, partition, next, cfg)
	for ok {
		batch, err := fetcher.Next(ctx)
		if err != nil {
			return fmt.Errorf("restoring the state of %v: %w", s.Source(), err)
		}
		for _, rec := range batch.Records {
			if err := r.Add(rec); err != nil {
				return fmt.Errorf("restoring the state of %v: %w", s.Source(), err)
			}
		}
		if next, ok = r.Next(); ok && next < batch.Next {
			return fmt.Errorf("restoring the state of %v: %w: the record at offset %d is gone", s.Source(), snapshot.ErrChanged, next)
		}
		// What lies between is of other sources, or was overwritten.
		fetcher.next = next
	}
	return nil
}
