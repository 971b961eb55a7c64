package check

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/porestream/porestream/stream"
)

// collector keeps what a handler emits.
type collector struct {
	mu     sync.Mutex
	outs   []stream.Out
	failed error
}

func (c *collector) Emit(_ context.Context, outs []stream.Out, _ []int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outs = append(c.outs, outs...)
	return nil
}

func (c *collector) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
}

// Stage is one of the stages that fold the records of a topic.
type Stage struct {
	Name, Input string
	New         stream.NewHandler
}

// Recompute hands the committed records of every partition to a handler of each stage that sees nothing else, and returns what these have written.
func (c *Contents) Recompute(ctx context.Context, stages []Stage) (Recomputed, error) {
	recomputed := make(Recomputed)
	for _, s := range stages {
		topic, partitions := s.Input, c.partitions(s.Input)
		for partition := range partitions {
			handler, err := s.New(topic, partition, partitions)
			if err != nil {
				return nil, fmt.Errorf("recomputing the %s stage from %s/%d: %w", s.Name, topic, partition, err)
			}
			var written collector
			for _, rec := range c.Records[topic] {
				if rec.Partition != partition {
					continue
				}
				if err := handler.Handle(ctx, rec, &written); err != nil {
					return nil, fmt.Errorf("recomputing the %s stage from %s/%d: offset %d: %w", s.Name, topic, partition, rec.Offset, err)
				}
			}
			if err := errors.Join(handler.Drain(ctx), handler.Close(), written.failed); err != nil {
				return nil, fmt.Errorf("recomputing the %s stage from %s/%d: %w", s.Name, topic, partition, err)
			}
			for _, out := range written.outs {
				recomputed[out.Topic] = append(recomputed[out.Topic], out)
			}
		}
	}
	// Dead letters have a check of their own.
	delete(recomputed, c.Topics.DeadLetters)
	return recomputed, nil
}
