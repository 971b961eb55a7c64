package main

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/minknow"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// adaptiveFlags say whether decisions about reads are acted upon, and how.
type adaptiveFlags struct {
	on       bool
	settings minknow.Adaptive
}

func (f *adaptiveFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "adaptive", false, "eject reads as the topic of decisions says (docs/attach/adaptive.md)")
	flags.BoolVar(&f.settings.DryRun, "adaptive-dry-run", false, "with --adaptive: count what would have been done, and do nothing")
	flags.Float64Var(&f.settings.Rate, "adaptive-rate", 500, "actions that a position is sent a second, at most")
	flags.DurationVar(&f.settings.Unblock, "unblock-duration", 100*time.Millisecond, "for how long the voltage is reversed to eject a read")
	flags.DurationVar(&f.settings.MaxRead, "max-unblock-read", 0, "longest read that MinKNOW may eject; 0 leaves that to MinKNOW")
}

// complete checks the flags, and has decisions acted upon if they ask for it.
func (f *adaptiveFlags) complete(flags *pflag.FlagSet, source *minknow.Config) error {
	if !f.on {
		for _, name := range []string{"adaptive-dry-run", "adaptive-rate", "unblock-duration", "max-unblock-read"} {
			if flags.Changed(name) {
				return cli.Usagef("--%s does nothing without --adaptive", name)
			}
		}
		return nil
	}
	if f.settings.Rate <= 0 || f.settings.Unblock <= 0 {
		return cli.Usagef("--adaptive-rate and --unblock-duration must be positive")
	}
	var err error
	if source.Decisions, err = minknow.NewDecisions(f.settings); err != nil {
		return cli.Usagef("%w", err)
	}
	return nil
}

// followDeciding follows MinKNOW and the decisions about its reads.
func followDeciding(ctx context.Context, to *destination, source minknow.Config) error {
	c := to.connection
	if err := c.client.EnsureTopics(ctx, c.topics.DecisionSettings(c.process.partitions), c.process.kafka.Replication); err != nil {
		return err
	}
	following, over := context.WithCancel(ctx)
	defer over()
	group, ctx := errgroup.WithContext(following)
	group.Go(contain.Panics(func() error {
		defer over()
		return minknow.Follow(ctx, source)
	}))
	group.Go(contain.Panics(func() error {
		readDecisions(ctx, to, source)
		return nil
	}))
	return group.Wait()
}

// readDecisions passes on the decisions that are written from now on, until ctx ends.
// Faulty decisions do not keep signal from being taken.
func readDecisions(ctx context.Context, to *destination, source minknow.Config) {
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		err := to.connection.client.Consume(ctx, to.connection.topics.Decisions, kafka.ConsumeOptions{From: kafka.FromEnd}, func(rec stream.Record) error {
			pause.Reset()
			decision, err := stream.DecodeDecision(rec.Value)
			if err != nil {
				source.Metrics.BadDecision(err)
				to.logger.Warn("a decision can't be read", "partition", rec.Partition, "offset", rec.Offset, "err", err)
				return nil
			}
			source.Decisions.Deliver(decision)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		source.Metrics.Interrupted()
		to.logger.Warn("decisions about reads can't be read for now; reads are sequenced as if there were none", "err", err)
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}
