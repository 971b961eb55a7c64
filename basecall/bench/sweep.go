package bench

import (
	"context"
	"fmt"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
)

// Step is one batch size of a sweep.
type Step struct {
	Batch int `json:"batch"`
	// Throughput with that batch; nil if it was not to be had.
	Throughput *Throughput `json:"throughput,omitempty"`
	// OutOfMemory is what the runtime says of a batch that the device has no memory for.
	OutOfMemory string `json:"out_of_memory,omitempty"`
}

// Sweep measures the throughput with batches of each of the sizes, which should
// grow, and hands over each step as it is done. It ends with the first size that the
// device has no memory for, as a step that says so.
func Sweep(ctx context.Context, model *basecall.Model, cfg basecall.Config, reads []basecall.Read, effort Effort, batches []int, done func(Step)) error {
	return sweep(batches, done, func(batch int) (Throughput, error) {
		cfg.Batch = batch
		return MeasureThroughput(ctx, model, cfg, reads, effort)
	})
}

func sweep(batches []int, done func(Step), measure func(batch int) (Throughput, error)) error {
	for _, batch := range batches {
		t, err := measure(batch)
		switch {
		case err == nil:
			done(Step{Batch: batch, Throughput: &t})
		case infer.OutOfMemory(err):
			done(Step{Batch: batch, OutOfMemory: err.Error()})
			return nil
		default:
			return fmt.Errorf("measuring batches of %d windows: %w", batch, err)
		}
	}
	return nil
}

// Doubling returns batch sizes from first to last, each twice the one before.
func Doubling(first, last int) []int {
	var sizes []int
	for size := max(1, first); size <= last; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}
