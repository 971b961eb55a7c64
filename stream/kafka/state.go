package kafka

import (
	"context"
	"fmt"

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
// committed before the call. Whoever may have written before must be fenced by
// then, or confined to its own epoch as package snapshot tells.
func (c *Client) ReadState(ctx context.Context, topic string, source snapshot.Source, cfg FetchConfig) (*snapshot.Index, error) {
	partition, err := c.StatePartition(ctx, topic, source)
	if err != nil {
		return nil, err
	}
	index := snapshot.NewIndex(source)
	if err := c.scan(ctx, topic, partition, cfg, func(rec stream.Record) error {
		index.Add(rec)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading the state of %v: %w", source, err)
	}
	return index, nil
}

// scan reads a partition from its start to what is committed at the call.
func (c *Client) scan(ctx context.Context, topic string, partition int32, cfg FetchConfig, fn func(stream.Record) error) error {
	bounds, err := c.Offsets(ctx, topic)
	if err != nil {
		return err
	}
	if int(partition) >= len(bounds) {
		return fmt.Errorf("topic %s has %d partitions, there is no partition %d", topic, len(bounds), partition)
	}
	b := bounds[partition]
	if b.Start >= b.Stable {
		return nil
	}
	fetcher := c.NewFetcher(topic, partition, b.Start, cfg)
	for {
		batch, err := fetcher.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range batch.Records {
			if rec.Offset >= b.Stable {
				return nil
			}
			if err := fn(rec); err != nil {
				return err
			}
		}
		if batch.Next >= b.Stable {
			return nil
		}
	}
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
