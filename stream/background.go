package stream

import (
	"context"
	"fmt"
	"sync"
)

// Background is what a handler does of its records in goroutines of its own. It outlives the call of
// Handle that began it; the first failure ends all of it.
type Background struct {
	ctx     context.Context //nolint:containedctx // it is the life of the goroutines
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewBackground returns one in which nothing goes on yet.
func NewBackground() *Background {
	b := &Background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Context ends with the first failure, and with Stop and Close.
func (b *Background) Context() context.Context { return b.ctx }

// Go calls f in a goroutine.
func (b *Background) Go(f func()) { b.running.Go(f) }

// Stop has everything end, and doesn't wait for it.
func (b *Background) Stop() { b.cancel() }

// Fail ends the worker with err, unless something has ended it before: nothing may be called final
// behind a record that failed.
func (b *Background) Fail(err error, emit Emitter) {
	if b.ctx.Err() == nil {
		emit.Fail(err)
	}
	b.cancel()
}

// Wait returns when nothing goes on any more, with an error if something has failed.
func (b *Background) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { b.running.Wait(); close(done) }()
	select {
	case <-done:
		return b.ctx.Err()
	case <-ctx.Done():
		return fmt.Errorf("waiting for reads in the works: %w", ctx.Err())
	}
}

// Close drops what goes on, and waits for its end: records that are not resolved are delivered again.
func (b *Background) Close() {
	b.cancel()
	b.running.Wait()
}
