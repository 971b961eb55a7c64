// Package inorder has pieces of work done side by side, and what comes of them taken up in
// the order in which they were read.
package inorder

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"
)

// Do has batches worked on side by side and finished in the order in which they are read:
// read emits them, work is what one of the workers does with those that come to it, and
// finish takes one after the other. Four batches a worker may wait to be finished, which
// bounds what is in memory. The first error, or the end of ctx, ends all of it.
func Do[Batch any](ctx context.Context, workers int, read func(ctx context.Context, emit func(Batch) error) error,
	work func(worker int, batches iter.Seq[Batch]) error, finish func(Batch) error) error {
	type piece struct {
		batch Batch
		done  chan struct{}
	}
	group, ctx := errgroup.WithContext(ctx)
	todo := make(chan piece)
	ordered := make(chan piece, 4*workers)
	group.Go(func() error {
		defer close(todo)
		defer close(ordered)
		return read(ctx, func(b Batch) error {
			p := piece{b, make(chan struct{})}
			for _, to := range []chan piece{ordered, todo} {
				select {
				case to <- p:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	})
	for worker := range workers {
		group.Go(func() error {
			return work(worker, func(yield func(Batch) bool) {
				for p := range todo {
					if !yield(p.batch) {
						return
					}
					close(p.done)
				}
			})
		})
	}
	group.Go(func() error {
		for p := range ordered {
			select {
			case <-p.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := finish(p.batch); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}
