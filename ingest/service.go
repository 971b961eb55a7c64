package ingest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// ServiceConfig says how a source is ingested, recorded or live.
type ServiceConfig struct {
	Config
	Cluster Cluster
	// TransactionTimeout is the one that the cluster's writers have: a transaction
	// that is older may have been aborted by the broker.
	TransactionTimeout time.Duration
	// MaxBuffered is the number of bytes of signal that are held in memory.
	MaxBuffered int64
	// SpoolDir is the folder of the spool; empty means none.
	SpoolDir string
	// SpoolMax is the number of bytes that the spool may take.
	SpoolMax int64
	// Restart sends runs from their beginning, whatever is in Kafka.
	Restart bool

	openSpoolFile func(path string) (spool.File, error) // nil: the system's; for tests
}

// minBuffered is the least memory of a run, in bytes: some chunks of the largest
// size.
const minBuffered = 4 << 20

// patience is how long nothing has to be committed for Kafka to be held away.
const patience = 2 * time.Second

// service writes runs to Kafka: each goes on where Kafka says that it stopped, in
// transactions that only one process at a time can commit.
type service struct {
	cfg    ServiceConfig
	log    *slog.Logger
	player *Player // nil if the source is live
	owner  [stream.CursorOwnerLen]byte
	spools *spools // nil: none
	// sessions are those of the player's tracks, nil for tracks that need none, or
	// that of the live source, followed by those of runs that only the spool knows.
	sessions []*session
	writers  []Writer
	// others, if not nil, is the age of the oldest event of all the services of
	// this process, of which this is one.
	others func() time.Duration
}

// Run plays a recording until all of its runs have ended in Kafka. It returns
// what was sent, and an error if not all of it was: what is missing is sent when
// Run is called again.
func Run(ctx context.Context, rec Recording, cfg ServiceConfig) (Totals, error) {
	s, err := newService(cfg)
	if err != nil {
		return Totals{}, err
	}
	defer s.close(ctx)
	if s.player, err = newPlayer(rec, s, s.cfg.Config); err != nil {
		return Totals{}, err
	}
	if err := s.prepare(ctx); err != nil {
		return Totals{}, err
	}
	var totals Totals
	err = s.run(ctx, func(ctx context.Context) error {
		var err error
		totals, err = s.player.Play(ctx)
		return err
	})
	return totals, err
}

// newService checks the settings and claims the spool.
func newService(cfg ServiceConfig) (*service, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBuffered < minBuffered {
		return nil, fmt.Errorf("a buffer of %d bytes is too small, at least %d are needed", cfg.MaxBuffered, int64(minBuffered))
	}
	s := &service{cfg: cfg, log: cfg.Logger}
	if _, err := rand.Read(s.owner[:]); err != nil {
		return nil, fmt.Errorf("naming this process: %w", err)
	}
	if cfg.SpoolDir != "" {
		var err error
		if s.spools, err = openSpools(&s.cfg); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close lets go of the runs and of the spool.
func (s *service) close(ctx context.Context) {
	s.closeWriters(ctx)
	if s.spools != nil {
		s.spools.close()
	}
}

func (s *service) closeWriters(ctx context.Context) {
	for i, w := range s.writers {
		if w != nil {
			s.sessions[i].close(ctx, w)
		}
	}
}

// put hands an event to its run's queue.
func (s *service) put(ctx context.Context, track int, e event) error {
	return s.sessions[track].queue.put(ctx, e)
}

// flush does nothing: the sessions end when all is in Kafka.
func (s *service) flush(context.Context) error { return nil }

// prepare finds out where every run goes on, and refuses what doesn't fit
// before anything is sent.
func (s *service) prepare(ctx context.Context) error {
	known := make(map[string]bool)
	for _, t := range s.player.tracks {
		known[t.run.GetId()] = true
		sess := s.session(t.run, t.chunk)
		w, err := s.resume(ctx, t, sess)
		if err != nil {
			return fmt.Errorf("run %s: %w", t.run.GetId(), err)
		}
		if w == nil {
			sess = nil
		}
		s.sessions, s.writers = append(s.sessions, sess), append(s.writers, w)
	}
	if err := s.adoptOthers(ctx, known); err != nil {
		return err
	}
	return s.makeQueues()
}

// adoptOthers makes sessions for runs that only the spool knows.
func (s *service) adoptOthers(ctx context.Context, known map[string]bool) error {
	if s.spools == nil {
		return nil
	}
	for _, left := range s.spools.left {
		if known[left.GetRun()] {
			continue
		}
		if err := s.adopt(ctx, left); err != nil {
			return fmt.Errorf("run %s, of which the spool has signal: %w", left.GetRun(), err)
		}
	}
	return nil
}

func (s *service) session(run *streampb.Run, chunk int) *session {
	return &session{run: run, chunk: chunk, filter: s.cfg.Filter, owner: s.owner, cfg: &s.cfg, log: s.log.With("run", run.GetId()), spans: newSpans(s.cfg.Tracer)}
}

// resume claims a track's run and puts the track where it goes on: behind what is
// in Kafka and what is in the spool. It returns nil if nothing is left to do.
func (s *service) resume(ctx context.Context, t *track, sess *session) (Writer, error) {
	w, cursor, err := sess.claim(ctx, s.cfg.Restart)
	if err != nil {
		return nil, err
	}
	err = s.position(t, sess, cursor)
	if err != nil || sess.written.ended {
		sess.close(ctx, w)
		return nil, err
	}
	return w, nil
}

func (s *service) position(t *track, sess *session, cursor *streampb.Cursor) error {
	if cursor != nil && s.cfg.Restart {
		sess.log.Warn("sending the run again from its beginning", "sent_before", cursor.GetNext())
		if s.spools != nil {
			return s.spools.discard(t.run.GetId())
		}
		return nil
	}
	spooled, err := s.spools.last(t.run.GetId())
	if err != nil {
		return err
	}
	if cursor != nil && max(cursor.GetNext(), spooled.next) > 0 && cursor.GetFilter() != s.cfg.Filter {
		return otherFilter(cursor.GetFilter(), s.cfg.Filter)
	}
	if got := s.player.seek(t, sess.written.next); got != sess.written {
		return mismatch(t, cursor, s.cfg.Partitions, got)
	}
	if sess.written.ended {
		sess.log.Info("the run is in Kafka to its end: nothing is sent; --restart sends it again", "events", sess.written.next)
		return nil
	}
	if spooled.next > sess.written.next {
		if got := s.player.seek(t, spooled.next); got != spooled {
			return fmt.Errorf("the recording is not the one of which signal waits in the spool: give the files and settings it was begun with, or --restart to send it again from its beginning: %w", mismatch(t, cursor, s.cfg.Partitions, got))
		}
	}
	if sess.written.next > 0 || spooled.next > 0 {
		s.cfg.Metrics.resume()
		sess.log.Info("going on where an earlier ingest stopped", "events_in_kafka", sess.written.next, "events_in_spool", max(spooled.next, sess.written.next)-sess.written.next)
	}
	return nil
}

// otherFilter says that another part of the recording was begun. It would not show
// in the events if the parts begin alike.
func otherFilter(was, is string) error {
	name := func(filter string) string {
		if filter == "" {
			return "all reads"
		}
		return "the reads chosen by " + filter
	}
	return fmt.Errorf("it was begun with %s, and now it has %s: give the same --reads, --channels, --from and --to, or --restart to send it again from its beginning", name(was), name(is))
}

// mismatch says why a recording is not the continuation of what was sent.
func mismatch(t *track, was *streampb.Cursor, partitions int32, got progress) error {
	const restart = ", or --restart to send it again from its beginning"
	switch {
	case was.GetCalled() && !t.run.GetCalled():
		return fmt.Errorf("it was begun with called reads, and now there is signal of it: attach a run one way%s", restart)
	case !was.GetCalled() && t.run.GetCalled():
		return fmt.Errorf("it was begun with signal, and now there are called reads of it: attach a run one way%s", restart)
	case was.GetChunkSamples() != uint32(t.chunk):
		return fmt.Errorf("it was begun with chunks of %d samples, and now they have %d: give the same --chunk%s", was.GetChunkSamples(), t.chunk, restart)
	case was.GetSample() != t.run.GetSample():
		return fmt.Errorf("it was begun as sample %q, and now it is %q: give the same --sample%s", was.GetSample(), t.run.GetSample(), restart)
	case was.GetPartitions() != uint32(partitions):
		return fmt.Errorf("it was begun when its topic had %d partitions, and now it has %d, which separates its reads: --restart sends it again from its beginning", was.GetPartitions(), partitions)
	case was.GetEnded():
		return fmt.Errorf("it has ended in Kafka after %d events, and the recording has other reads: give the files it was begun with%s", was.GetNext(), restart)
	case got.next < was.GetNext():
		return fmt.Errorf("%d events of it are in Kafka, and the recording has only %d: reads are missing; give the files it was begun with%s", was.GetNext(), got.next, restart)
	}
	return fmt.Errorf("the first %d events of the recording are not those that are in Kafka: it lacks reads, or has others before that point; give the files it was begun with%s", was.GetNext(), restart)
}

// adopt makes a session for a run that is not in the recording, for what the
// spool has of it.
func (s *service) adopt(ctx context.Context, left *streampb.Cursor) error {
	spooled, err := s.spools.last(left.GetRun())
	if err != nil || spooled.next == 0 {
		return err
	}
	sess := s.session(&streampb.Run{Id: left.GetRun(), Sample: left.GetSample()}, int(left.GetChunkSamples()))
	sess.filter = left.GetFilter()
	w, cursor, err := sess.claim(ctx, false)
	if err != nil {
		return err
	}
	if cursor.GetNext() >= spooled.next {
		sess.close(ctx, w)
		return s.spools.discard(left.GetRun())
	}
	sess.log.Warn("sending what the spool has of a run that is not in the recording", "events", spooled.next-cursor.GetNext())
	sess.until = spooled.next
	s.sessions, s.writers = append(s.sessions, sess), append(s.writers, w)
	return nil
}

// makeQueues shares the memory among the runs.
func (s *service) makeQueues() error {
	active := 0
	for _, sess := range s.sessions {
		if sess != nil {
			active++
		}
	}
	for _, sess := range s.sessions {
		if sess == nil {
			continue
		}
		cfg := queueConfig{
			memory: max(s.cfg.MaxBuffered/int64(active), minBuffered), eager: s.player == nil || s.cfg.Pace > 0, patience: patience,
			log: sess.log, metrics: s.cfg.Metrics,
		}
		var err error
		if s.spools != nil {
			cfg.alarm = s.spools.alarm
			cfg.spool, err = s.spools.log(sess)
		}
		if err == nil {
			sess.queue, err = newQueue(cfg, sess.written.next)
		}
		if err != nil {
			return fmt.Errorf("run %s: %w", sess.run.GetId(), err)
		}
	}
	return nil
}

// observe shows the age of the oldest event until ctx ends.
func (s *service) observe(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	oldest := s.oldest
	if s.others != nil {
		oldest = s.others
	}
	for {
		select {
		case <-tick.C:
			s.cfg.Metrics.waiting(oldest())
		case <-ctx.Done():
			s.cfg.Metrics.waiting(0)
			return
		}
	}
}

// oldest is the age of the oldest event that is not in Kafka.
func (s *service) oldest() time.Duration {
	var age time.Duration
	for _, sess := range s.sessions {
		if sess == nil {
			continue
		}
		if at := sess.queue.oldest(); !at.IsZero() {
			age = max(age, time.Since(at))
		}
	}
	return age
}

// run lets the source play, sends and spools, all at the same time.
func (s *service) run(ctx context.Context, source func(context.Context) error) error {
	// What serves the sessions goes on until they have ended.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, abort := context.WithCancelCause(ctx)
	var servants sync.WaitGroup
	defer func() {
		stop()
		servants.Wait()
		abort(nil)
		for _, sess := range s.sessions {
			if sess != nil {
				sess.queue.abandon()
			}
		}
	}()
	// One that fails ends the runs.
	serve := func(fn func(context.Context)) {
		servants.Go(func() {
			if err := contain.Call(func() error { fn(serving); return nil }); err != nil {
				abort(err)
			}
		})
	}
	serve(s.observe)
	group, ctx := errgroup.WithContext(ctx)
	for i, sess := range s.sessions {
		if sess == nil {
			continue
		}
		if s.spools != nil {
			serve(sess.queue.run)
		}
		w := s.writers[i]
		s.writers[i] = nil // publish closes it
		s.cfg.Metrics.begin(sess)
		defer s.cfg.Metrics.finish(sess)
		group.Go(contain.Panics(func() error {
			err := sess.publish(ctx, w)
			switch {
			case errors.Is(err, ErrFenced):
				s.cfg.Metrics.fence()
				return fmt.Errorf("run %s: %w; this one stops, and nothing is sent twice: see that only one ingest has the run", sess.run.GetId(), err)
			case err != nil:
				return fmt.Errorf("run %s: %w", sess.run.GetId(), err)
			}
			return nil
		}))
	}
	group.Go(contain.Panics(func() error { return source(ctx) }))
	return group.Wait()
}
