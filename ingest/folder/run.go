package folder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// Feed is what a run's reads are sent to; *ingest.Feed is one.
type Feed interface {
	Position() ingest.Position
	ChunkSamples() int
	Partitions() int32
	Put(ctx context.Context, rd *signal.Read, samples []int16, from int) error
	PutCalled(ctx context.Context, r *ingest.Called) error
	// Flush waits until what was put is in Kafka.
	Flush(ctx context.Context) error
	End(ctx context.Context) error
}

// Sink opens a run and calls fn with its feed, as [ingest.RunFeed] does.
type Sink func(ctx context.Context, run *streampb.Run, fn func(context.Context, Feed) error) error

// run is a run of which there are reads in the folders, or were.
type run struct {
	id      string
	log     *slog.Logger
	desc    *streampb.Run
	dir     string
	journal *journal
	seen    *seen
	partial map[string]int // chunks that were sent of reads that were not sent whole
	dirs    map[string]bool
	read    time.Time // when something was last read of it
	ended   bool
	late    int64 // reads that were found after its end

	feed   Feed
	ctx    context.Context //nolint:containedctx // of the feed, which ends by itself when the run is lost
	done   chan struct{}
	result chan error
	chunk  int
}

// open claims the run and brings its journal to where Kafka is.
func (r *run) open(ctx context.Context, spawn func(func() error), sink Sink, restart bool, file func(fingerprint, int)) error {
	type handle struct {
		feed Feed
		ctx  context.Context //nolint:containedctx // handed over once
	}
	opened := make(chan handle)
	r.done, r.result = make(chan struct{}), make(chan error, 1)
	spawn(func() error {
		err := sink(ctx, r.desc, func(ctx context.Context, f Feed) error {
			select {
			case opened <- handle{f, ctx}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			select {
			case <-r.done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		r.result <- err
		return err
	})
	select {
	case h := <-opened:
		r.feed, r.ctx = h.feed, h.ctx
	case err := <-r.result:
		return err
	}
	r.chunk = r.feed.ChunkSamples()
	r.ended = r.feed.Position().Ended()
	if err := r.remember(restart, file); err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	if !r.ended {
		return nil
	}
	return r.close()
}

// remember reads the journal up to where Kafka is, or begins it.
func (r *run) remember(restart bool, file func(fingerprint, int)) error {
	at := r.feed.Position()
	if at.Next() <= 1 || restart {
		// Nothing of it is in Kafka but that it has begun.
		if r.journal != nil {
			if err := errors.Join(r.journal.f.Close(), os.Remove(r.journal.path)); err != nil {
				return err
			}
		}
		var err error
		if r.journal, err = beginJournal(r.dir, r.desc, r.chunk, r.feed.Partitions()); err != nil {
			return err
		}
	}
	if r.journal == nil {
		if r.ended {
			return nil
		}
		return fmt.Errorf("%d events of it are in Kafka, and there is no journal in %s that says which: give the --journal that the run was begun with, or --restart to send it again from its beginning", at.Next(), r.dir)
	}
	r.seen = newSeen(r.dir, freshReads)
	err := r.journal.rewind(at, known{file: file, read: func(id string, sum uint32, next, total int) error {
		if next < total {
			r.partial[id] = next
			return nil
		}
		delete(r.partial, id)
		return r.seen.add(id, sum)
	}})
	if err != nil || !r.ended {
		return err
	}
	if said, err := r.journal.ended(); said || err != nil {
		return err
	}
	return r.journal.append(record{kind: kindEnd})
}

// has reports whether a read was sent whole, and returns the sum of what was sent.
func (r *run) has(id string) (known bool, sum uint32, err error) {
	if r.seen == nil {
		return false, 0, nil
	}
	return r.seen.has(id)
}

// check refuses a read that can't be sent.
func (r *run) check(f Found) error {
	if from, total := r.partial[f.ID()], f.Chunks(r.chunk); from >= total {
		return fmt.Errorf("read %s has %d chunks here, and %d of it were sent: it has changed", f.ID(), total, from)
	}
	return f.Fits(r.desc)
}

// take sends reads, once the journal has them. It waits while the journal's disk
// is full, and while Kafka is away.
func (r *run) take(ctx context.Context, reads []Found, metrics *Metrics) error {
	records := make([]record, len(reads))
	for i, f := range reads {
		total := f.Chunks(r.chunk)
		from := r.partial[f.ID()]
		records[i] = record{kind: kindRead, id: f.ID(), from: from, count: total - from, total: total, sum: f.Sum()}
	}
	if err := r.write(ctx, metrics, records...); err != nil {
		return err
	}
	for i, f := range reads {
		if err := f.Put(r.ctx, r.feed, records[i].from); err != nil {
			return fmt.Errorf("run %s: %w", r.id, err)
		}
		delete(r.partial, f.ID())
		r.seen.put(f.ID(), f.Sum())
	}
	return nil
}

// write adds records to the journal, however long its disk is full or fails.
func (r *run) write(ctx context.Context, metrics *Metrics, records ...record) error {
	pause := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0)), ctx)
	warned := false
	err := backoff.Retry(func() error {
		var err error
		if len(r.seen.fresh) >= r.seen.limit {
			err = r.seen.spill()
		}
		if err == nil {
			err = r.journal.append(records...)
		}
		if err != nil {
			metrics.journalFailed()
			if !warned {
				r.log.Error("the journal takes nothing: no reads are sent until it does; make space on its disk", "err", err)
			}
			warned = true
		}
		return err
	}, pause)
	if err == nil && warned {
		r.log.Info("the journal takes reads again")
	}
	return err
}

// end ends the run in Kafka.
func (r *run) end(ctx context.Context, metrics *Metrics) error {
	if err := r.feed.End(r.ctx); err != nil {
		return fmt.Errorf("run %s: %w", r.id, err)
	}
	r.ended = true
	if err := r.close(); err != nil {
		return err
	}
	// What is in memory for the run goes to disk: it may stay ended for weeks.
	if err := r.seen.spill(); err != nil {
		r.log.Warn("an ended run stays in memory", "err", err)
	}
	return r.write(ctx, metrics, record{kind: kindEnd})
}

// close lets go of the run's feed, and returns when what was put is in Kafka.
func (r *run) close() error {
	close(r.done)
	return <-r.result
}

// journals lists the folders in which there are journals.
func journals(dir string) (dirs []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), journalFile)); err == nil {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, nil
}
