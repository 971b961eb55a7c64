package kafka

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Space is a budget of bytes that producers and transactors share for what
// they have accepted and not yet written. Senders wait for it in the order in
// which they came.
type Space struct {
	bytes int64
	free  *semaphore.Weighted
}

// NewSpace returns a budget of bytes, at least 1.
func NewSpace(bytes int64) *Space {
	bytes = max(bytes, 1)
	return &Space{bytes: bytes, free: semaphore.NewWeighted(bytes)}
}

// acquire takes n bytes, or all there are of them if n is more.
func (s *Space) acquire(ctx context.Context, n int64) error {
	if err := s.free.Acquire(ctx, min(n, s.bytes)); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// release gives back what an acquire of n has taken.
func (s *Space) release(n int64) { s.free.Release(min(n, s.bytes)) }
