package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// Lives writes live runs that begin and end at any time, next to each other: one
// process, one spool, one writer for each run.
type Lives struct {
	all *service // settings, owner and spool; it has no runs of its own

	mu     sync.Mutex
	active map[string]*service // by run; nil while it is claimed
}

// OpenLives claims the spool. Every run gets an equal share of MaxBuffered, of
// which there are as many as runs says, with at least 4 MiB each.
func OpenLives(cfg ServiceConfig, runs int) (*Lives, error) {
	cfg.MaxBuffered = max(cfg.MaxBuffered/int64(max(runs, 1)), minBuffered)
	s, err := newService(cfg)
	if err != nil {
		return nil, err
	}
	return &Lives{all: s, active: make(map[string]*service)}, nil
}

// Run is [RunLive] for one run among others. A run that is under way already is an
// error.
func (l *Lives) Run(ctx context.Context, run *streampb.Run, feed func(context.Context, *Live) error) error {
	return l.RunWith(ctx, run, nil, feed)
}

// RunWith is Run for a source that keeps something beside the run's cursor.
func (l *Lives) RunWith(ctx context.Context, run *streampb.Run, ledger Ledger, feed func(context.Context, *Live) error) error {
	if err := l.enter(run.GetId()); err != nil {
		return err
	}
	defer l.leave(run.GetId())
	s := &service{cfg: l.all.cfg, log: l.all.log, owner: l.all.owner, spools: l.all.spools, others: l.oldest}
	defer s.closeWriters(ctx)
	live, err := s.live(ctx, run, ledger)
	if err != nil {
		return err
	}
	if err := s.makeQueues(); err != nil {
		return err
	}
	l.mu.Lock()
	l.active[run.GetId()] = s
	l.mu.Unlock()
	return s.feed(ctx, live, feed)
}

func (l *Lives) enter(run string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, exists := l.active[run]; exists {
		return fmt.Errorf("run %s is under way already", run)
	}
	l.active[run] = nil
	return nil
}

func (l *Lives) leave(run string) {
	if l.all.spools != nil {
		l.all.spools.release(run)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, run)
}

// oldest is the age of the oldest event that is not in Kafka, of all runs.
func (l *Lives) oldest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var age time.Duration
	for _, s := range l.active {
		if s != nil {
			age = max(age, s.oldest())
		}
	}
	return age
}

// Left names the runs of which an earlier process has left signal in the spool.
// It stays there until the run is gone on with.
func (l *Lives) Left() []string {
	if l.all.spools == nil {
		return nil
	}
	var runs []string
	for _, c := range l.all.spools.left {
		if log := l.all.spools.of(c.GetRun()); log != nil {
			if first, next := log.Bounds(); first < next {
				runs = append(runs, c.GetRun())
			}
		}
	}
	return runs
}

// Spooled is what a run was announced as, if the spool has its beginning, or nil.
func (l *Lives) Spooled(run string) (*streampb.Run, error) { return l.all.spools.announced(run) }

// Close lets go of the spool. All runs must have returned.
func (l *Lives) Close(ctx context.Context) { l.all.close(ctx) }
