package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/align/hts/cram"
	"github.com/porestream/porestream/basecall/input"
	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/signal"
)

// Pipe ingests the called reads of a pipe, as cfg.Files takes them, and ends their runs at
// its end. When it has broken off, the same reads may come again from their beginning: what
// was sent of them is known. ready is called when reading begins.
func Pipe(ctx context.Context, cfg Config, files *ReadFiles, name string, in io.Reader, ready func()) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := spool.Lock("journal", cfg.Journal)
	if err != nil {
		return err
	}
	defer lock.Close()
	cfg.Files = files
	group, ctx := errgroup.WithContext(ctx)
	w := newWatcher(cfg, func(fn func() error) { group.Go(contain.Panics(fn)) }, time.Now())
	ctx, stop := context.WithCancel(ctx)
	group.Go(contain.Panics(func() error {
		ready()
		if err := w.drain(ctx, newPipe(ctx, files, name, in)); err != nil {
			return err
		}
		stop()
		return nil
	}))
	err = group.Wait()
	stop()
	return err
}

// drain takes the reads of a pipe to its end, and ends their runs.
func (w *watcher) drain(ctx context.Context, p *pipe) error {
	f := &tracked{entry: Entry{Path: p.name}, runs: make(map[string]bool)}
	for ended := false; !ended; {
		if err := p.wait(ctx); err != nil {
			return err
		}
		var batch map[string][]Found
		var refused, err error
		batch, ended, refused, err = w.gather(ctx, f, p, time.Now())
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(batch)) {
			if err := w.send(ctx, w.runs[id], batch[id]); err != nil {
				return err
			}
		}
		if refused != nil {
			return w.breakOff(ctx, f, refused)
		}
	}
	var late int64
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		r := w.runs[id]
		late += r.late
		if r.ended {
			continue
		}
		if err := r.end(ctx, w.cfg.Metrics); err != nil {
			return err
		}
		r.log.Info("run ended")
	}
	switch {
	case late > 0:
		return fmt.Errorf("%d reads came after their run's end: see the log", late)
	case w.skipped > 0:
		return fmt.Errorf("%d reads can't be used: see the log", w.skipped)
	case len(f.runs) == 0:
		return fmt.Errorf("%s: there are no reads in it", p.name)
	}
	return nil
}

// breakOff leaves the runs of a pipe open that ends before its end, and returns why it does, once Kafka has what came before that.
func (w *watcher) breakOff(ctx context.Context, f *tracked, why error) error {
	if len(f.runs) == 0 {
		return why
	}
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		if r := w.runs[id]; !r.ended {
			if err := r.feed.Flush(ctx); err != nil {
				return errors.Join(why, err)
			}
		}
	}
	return fmt.Errorf("%w; what came before it was sent, and its runs stay open", why)
}

// pipe is a pipe as a file: where nothing has come yet it is unfinished.
type pipe struct {
	name  string
	files *ReadFiles
	reads chan piped
	next  *piped // that was waited for
}

// piped is a read, or why there is none.
type piped struct {
	read *input.Read
	err  error
}

// newPipe begins to read a pipe. Reading can't be interrupted: what comes after ctx has
// ended is dropped.
func newPipe(ctx context.Context, files *ReadFiles, name string, in io.Reader) *pipe {
	p := &pipe{name: name, files: files, reads: make(chan piped, batchReads)}
	go func() {
		err := contain.Call(func() error {
			r, err := input.NewReader(in, cram.Options{Reference: files.Reference, Names: "read"})
			for err == nil {
				var read *input.Read
				read, err = r.Next()
				if _, record := errors.AsType[*input.RecordError](err); record || err == nil {
					if !p.put(ctx, piped{read, err}) {
						return ctx.Err()
					}
					err = nil
				}
			}
			return err
		})
		p.put(ctx, piped{err: err})
	}()
	return p
}

func (p *pipe) put(ctx context.Context, r piped) bool {
	select {
	case p.reads <- r:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait returns when there is something.
func (p *pipe) wait(ctx context.Context) error {
	if p.next != nil {
		return nil
	}
	select {
	case r := <-p.reads:
		p.next = &r
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pipe) Next() (Found, error) {
	for {
		var r piped
		if p.next != nil {
			r, p.next = *p.next, nil
		} else {
			select {
			case r = <-p.reads:
			default:
				return nil, signal.ErrUnfinished
			}
		}
		_, record := errors.AsType[*input.RecordError](r.err)
		switch {
		case record:
			return nil, &SkippedError{fmt.Errorf("%s: %w", p.name, r.err)}
		case errors.Is(r.err, io.EOF):
			return nil, io.EOF
		case r.err != nil:
			return nil, fmt.Errorf("%s: %w", p.name, r.err)
		}
		if found := p.files.take(r.read, p.name, ""); found != nil {
			return found, nil
		}
	}
}

func (p *pipe) Holding() bool                { return false }
func (p *pipe) Place() (signal.Place, error) { return signal.Place{}, nil }
func (p *pipe) Close() error                 { return nil }
