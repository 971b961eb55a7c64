package kafka

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/stream"
)

// Position is where reading a partition begins: [FromStart], [FromEnd] or an
// offset.
type Position int64

const (
	// FromStart begins with the oldest record.
	FromStart Position = -2
	// FromEnd begins with the next record to be written.
	FromEnd Position = -1
)

// ConsumeOptions says which part of a topic to read.
type ConsumeOptions struct {
	// From is where every partition begins. The zero value is offset 0; an
	// offset before the log's start means that start, one after its end that
	// end.
	From Position
	// UntilEnd returns once everything that was committed in the topic at the
	// call has been read; otherwise reading goes on until the context ends.
	UntilEnd bool
	// Fetch bounds the reading of each partition.
	Fetch FetchConfig
}

// Consume reads all partitions of a topic outside any group and hands every
// committed record to fn: one at a time, in order within a partition. It
// returns fn's error as it is, and nil when ctx ends.
func (c *Client) Consume(ctx context.Context, topic string, opts ConsumeOptions, fn func(stream.Record) error) error {
	if opts.From < FromStart {
		return fmt.Errorf("consuming topic %s: no position %d", topic, opts.From)
	}
	offsets, err := c.Offsets(ctx, topic)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // being asked to stop is no failure
		}
		return fmt.Errorf("consuming topic %s: %w", topic, err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	batches := make(chan []stream.Record)
	readers, readersCtx := errgroup.WithContext(groupCtx)
	for _, o := range offsets {
		at := startOffset(opts.From, o)
		if opts.UntilEnd && at >= o.Stable {
			continue
		}
		readers.Go(func() error {
			return c.readPartition(readersCtx, topic, o, at, opts, batches)
		})
	}
	group.Go(func() error {
		defer close(batches)
		return readers.Wait()
	})
	group.Go(func() error {
		for batch := range batches {
			for _, rec := range batch {
				// What has been fetched when ctx ends is not worth a race: the
				// caller that ends ctx wants no further call.
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := fn(rec); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil && (ctx.Err() == nil || !errors.Is(err, ctx.Err())) {
		return err
	}
	return nil
}

func startOffset(from Position, o PartitionOffsets) int64 {
	switch from {
	case FromStart:
		return o.Start
	case FromEnd:
		return o.End
	default:
		return min(max(int64(from), o.Start), o.End)
	}
}

func (c *Client) readPartition(ctx context.Context, topic string, o PartitionOffsets, at int64, opts ConsumeOptions, out chan<- []stream.Record) error {
	f := c.NewFetcher(topic, o.Partition, at, opts.Fetch)
	for {
		batch, err := f.Next(ctx)
		if err != nil {
			return err
		}
		recs := batch.Records
		if opts.UntilEnd {
			for len(recs) > 0 && recs[len(recs)-1].Offset >= o.Stable {
				recs = recs[:len(recs)-1]
			}
		}
		if len(recs) > 0 {
			bytes := 0
			for i := range recs {
				bytes += len(recs[i].Key) + len(recs[i].Value)
			}
			select {
			case out <- recs:
				c.metrics.moved(topic, directionIn, len(recs), bytes)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if opts.UntilEnd && batch.Next >= o.Stable {
			return nil
		}
	}
}
