package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/porestream/porestream/ingest/contain"
)

// Config says how sources are run.
type Config struct {
	// Once returns from Run when all sources have come to their end.
	Once bool
	// Restarts starts sources again that have failed, after a pause that grows.
	Restarts bool
	// Permanent reports whether an error will not be mended by starting a source
	// again; nil: it always may be.
	Permanent func(error) bool
	// StopTimeout is for how long sources are waited for when all are to stop.
	StopTimeout time.Duration
	// Gone, if not nil, is called with the name of each source that the list has no
	// more, once the source has stopped.
	Gone   func(name string)
	Logger *slog.Logger // nil: none
}

// Supervisor runs the sources of the newest list.
type Supervisor struct {
	cfg Config
	log *slog.Logger

	mu    sync.Mutex // of table, which a source's ready and Status meet as well
	table *table

	ends    chan end
	cancels map[*life]context.CancelFunc // of Run's goroutine
}

// end is that of a source.
type end struct {
	life *life
	err  error
}

// New makes a supervisor without sources.
func New(cfg Config) *Supervisor {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Permanent == nil {
		cfg.Permanent = func(error) bool { return false }
	}
	return &Supervisor{
		cfg: cfg, log: cfg.Logger, table: newTable(cfg.Restarts, cfg.Permanent),
		ends: make(chan end), cancels: make(map[*life]context.CancelFunc),
	}
}

// Run runs the sources of a list, and of each one that comes in its place, until
// ctx ends; they must have passed [Check]. Then it stops all sources and returns
// when they have ended, or with an error when they don't. It is called once.
func (s *Supervisor) Run(ctx context.Context, list []Spec, lists <-chan []Spec) error {
	// Sources are stopped one by one.
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s.note(func(t *table, now time.Time) { t.list(list, now) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		wake, over := s.act(base)
		if over && s.cfg.Once {
			return s.verdict()
		}
		timer.Reset(time.Hour)
		if !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case list := <-lists:
			s.note(func(t *table, now time.Time) { t.list(list, now) })
		case e := <-s.ends:
			s.ended(e)
		}
	}
	return s.stop()
}

func (s *Supervisor) note(fn func(t *table, now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s.table, time.Now())
}

// act does what is to be done, and returns when to ask again.
func (s *Supervisor) act(ctx context.Context) (wake time.Time, over bool) {
	var stop, start []*life
	var gone []string
	s.note(func(t *table, now time.Time) {
		gone = t.gone()
		stop, start, wake = t.next(now)
		over = t.over()
	})
	for _, name := range gone {
		if s.cfg.Gone != nil {
			s.cfg.Gone(name)
		}
	}
	for _, l := range stop {
		s.log.Info("stopping a source", "source", l.spec.Name, "kind", l.spec.Kind)
		s.cancels[l]()
	}
	for _, l := range start {
		s.log.Info("starting a source", "source", l.spec.Name, "kind", l.spec.Kind)
		sourceCtx, cancel := context.WithCancel(ctx)
		s.cancels[l] = cancel
		go func() {
			err := s.live(sourceCtx, l)
			select {
			case s.ends <- end{l, err}:
			case <-ctx.Done(): // it was given up
			}
		}()
	}
	return wake, over
}

// live runs a source to its end.
func (s *Supervisor) live(ctx context.Context, l *life) error {
	return contain.Call(func() error {
		return l.spec.Run(ctx, func() { s.note(func(t *table, now time.Time) { t.ready(l, now) }) })
	})
}

// ended notes that a source has ended.
func (s *Supervisor) ended(e end) {
	name, kind := e.life.spec.Name, e.life.spec.Kind
	s.cancels[e.life]()
	delete(s.cancels, e.life)
	var status Status
	var stopping bool
	s.note(func(t *table, now time.Time) {
		stopping = e.life.state == Stopping
		t.ended(e.life, e.err, now)
		if entry := t.entries[name]; entry != nil {
			status = Status{State: entry.state, RetryAt: &entry.due}
		}
	})
	if bug, ok := errors.AsType[*contain.PanicError](e.err); ok {
		s.log.Error("a source has met a bug", "source", name, "kind", kind, "err", e.err, "stack", string(bug.Stack))
	}
	switch {
	case stopping && (e.err == nil || errors.Is(e.err, context.Canceled)):
		s.log.Info("a source has stopped", "source", name, "kind", kind)
	case stopping:
		s.log.Warn("a source has stopped with an error", "source", name, "kind", kind, "err", e.err)
	case e.err == nil:
		s.log.Info("a source has come to its end", "source", name, "kind", kind)
	case status.State == BackingOff:
		s.log.Warn("a source has failed and is started again", "source", name, "kind", kind, "err", e.err, "in", time.Until(*status.RetryAt).Round(time.Millisecond))
	default:
		s.log.Error("a source has failed and is not started again until the file changes", "source", name, "kind", kind, "err", e.err)
	}
}

// stop stops all sources.
func (s *Supervisor) stop() error {
	s.note(func(t *table, now time.Time) {
		for _, l := range t.stopAll(now) {
			s.cancels[l]()
		}
	})
	late := time.NewTimer(s.cfg.StopTimeout)
	defer late.Stop()
	for len(s.cancels) > 0 {
		select {
		case e := <-s.ends:
			s.ended(e)
		case <-late.C:
			var names []string
			for l := range s.cancels {
				names = append(names, l.spec.Name)
			}
			slices.Sort(names)
			return fmt.Errorf("these sources did not stop within %v: %s; what they had not acknowledged is sent again after a restart", s.cfg.StopTimeout, strings.Join(names, ", "))
		}
	}
	return nil
}

// verdict is what has become of sources that have all ended.
func (s *Supervisor) verdict() error {
	var failed []string
	s.note(func(t *table, _ time.Time) {
		for _, name := range t.order {
			if e := t.entries[name]; e.state == Failed {
				failed = append(failed, fmt.Sprintf("source %q: %s", name, e.reason))
			}
		}
	})
	if len(failed) == 0 {
		return nil
	}
	return errors.New(strings.Join(failed, "; "))
}

// Status returns the status of all sources. Any goroutine may call it.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.status()
}
