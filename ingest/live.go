package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Live feeds a run from a source that can't be made to wait, such as a
// sequencer. A chunk that fits into neither memory nor spool is lost: it is
// counted and gets no place in the run, so the next chunk of its read shows the
// gap by its first sample, and no base is called across it. The source may forget
// what [Live.Durable] covers; what was taken later is lost with the process.
//
// A Live belongs to one goroutine.
type Live struct {
	queue    *queue
	session  *session
	cfg      *Config
	run      *streampb.Run
	progress progress
	lost     int // samples since there was space; 0 while there is
}

// RunLive writes a run to Kafka while feed hands its signal to a [Live], until
// feed has returned and the run has ended. After an error it goes on when RunLive
// is called again, behind what was durable. A run that has ended is an error.
func RunLive(ctx context.Context, run *streampb.Run, cfg ServiceConfig, feed func(context.Context, *Live) error) error {
	s, err := newService(cfg)
	if err != nil {
		return err
	}
	defer s.close(ctx)
	l, err := s.live(ctx, run, nil)
	if err != nil {
		return err
	}
	if err := s.adoptOthers(ctx, map[string]bool{run.GetId(): true}); err != nil {
		return err
	}
	if err := s.makeQueues(); err != nil {
		return err
	}
	return s.feed(ctx, l, feed)
}

// EndedError says that a live run has ended in Kafka.
type EndedError struct {
	// Events is the number of the run's events, with its beginning and its end.
	Events uint64
}

func (e *EndedError) Error() string { return "it has ended in Kafka" }

// live claims a run and finds out where it goes on. ledger may be nil.
func (s *service) live(ctx context.Context, run *streampb.Run, ledger Ledger) (*Live, error) {
	sess := s.session(run, int(run.GetSampleRate()))
	w, _, err := sess.claim(ctx, s.cfg.Restart)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.GetId(), err)
	}
	s.sessions, s.writers = []*session{sess}, []Writer{w}
	if sess.written.ended {
		return nil, fmt.Errorf("run %s: %w", run.GetId(), &EndedError{sess.written.next})
	}
	l := &Live{cfg: &s.cfg.Config, run: run, progress: sess.written, session: sess}
	if s.spools != nil && s.cfg.Restart {
		err = s.spools.discard(run.GetId())
	}
	spooled, lastErr := s.spools.last(run.GetId())
	if err = errors.Join(err, lastErr); err != nil {
		return nil, fmt.Errorf("run %s: %w", run.GetId(), err)
	}
	sess.ledger = ledger
	if err := sess.recall(ctx, s.spools.of(run.GetId())); err != nil {
		return nil, fmt.Errorf("run %s: %w", run.GetId(), err)
	}
	if spooled.next > l.progress.next {
		l.progress = spooled
	}
	if l.progress.next > 0 {
		s.cfg.Metrics.resume()
	}
	return l, nil
}

// feed lets a live source feed its run, whose queue has been made.
func (s *service) feed(ctx context.Context, l *Live, feed func(context.Context, *Live) error) error {
	l.queue = l.session.queue
	return s.run(ctx, func(ctx context.Context) error {
		if l.progress.ended {
			return nil // the spool has it to its end
		}
		if err := l.announce(ctx); err != nil {
			return err
		}
		if err := feed(ctx, l); err != nil {
			return err
		}
		return l.end(ctx)
	})
}

// Chunk takes a chunk of the run without ever waiting. It returns false if the
// chunk is lost.
func (l *Live) Chunk(c *streampb.SignalChunk) (bool, error) {
	e, err := l.event(c)
	if err != nil {
		return false, err
	}
	err = l.queue.offer(e)
	switch {
	case errors.Is(err, errFull):
		if l.lost == 0 {
			l.session.log.Error("signal is lost: neither memory nor spool has space for it, until Kafka takes signal again")
		}
		l.lost += int(c.GetSampleCount())
		l.cfg.Metrics.lose(int(c.GetSampleCount()))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("taking signal: %w", err)
	case l.lost > 0:
		l.session.log.Warn("there is space for signal again", "lost_samples", l.lost)
		l.lost = 0
	}
	l.took(e, c)
	return true, nil
}

// Put takes a chunk of the run, and waits while there is no space for it: for sources
// that can be made to wait. If it returns an error, the chunk is not taken.
func (l *Live) Put(ctx context.Context, c *streampb.SignalChunk) error {
	e, err := l.event(c)
	if err != nil {
		return err
	}
	if err := l.queue.put(ctx, e); err != nil {
		return fmt.Errorf("taking signal: %w", err)
	}
	l.took(e, c)
	return nil
}

// event is a chunk as the run's next event.
func (l *Live) event(c *streampb.SignalChunk) (event, error) {
	value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
	if err != nil {
		return event{}, fmt.Errorf("read %s: %w", c.GetReadId(), err)
	}
	after := l.progress
	after.add([]byte(c.GetReadId())) // nobody can play a live run again: its reads have no other identity
	now := time.Now()
	e := event{after: after, at: now, samples: int(c.GetSampleCount()), outs: []stream.Out{{
		Topic: l.cfg.Topics.Signal, Partition: stream.AnyPartition, Time: now,
		Key: stream.SignalKey(l.run.GetId(), c.GetChannel()), Value: value,
	}}}
	e.traced = traced(l.cfg.Tracer, c, &e.outs[0])
	return e, nil
}

func (l *Live) took(e event, c *streampb.SignalChunk) {
	l.progress = e.after
	l.cfg.Metrics.chunk(c)
}

// announce takes the run's beginning, unless that was taken before; it may not
// be lost, so it waits for space.
func (l *Live) announce(ctx context.Context) error {
	if l.progress.next > 0 {
		return nil
	}
	outs, err := announcement(l.cfg.Topics, l.run, l.cfg.Partitions)
	if err != nil {
		return err
	}
	if l.session.ledger != nil {
		opening, err := l.session.ledger.Opening()
		if err != nil {
			return fmt.Errorf("announcing run %s: %w", l.run.GetId(), err)
		}
		outs = append(outs, opening...)
	}
	identity, err := proto.MarshalOptions{Deterministic: true}.Marshal(l.run)
	if err != nil {
		return fmt.Errorf("announcing run %s: %w", l.run.GetId(), err)
	}
	l.progress.add(identity)
	l.cfg.Metrics.run()
	return l.queue.put(ctx, event{after: l.progress, at: time.Now(), outs: outs})
}

// end takes the run's end, which may not be lost either.
func (l *Live) end(ctx context.Context) error {
	outs, err := ending(l.cfg.Topics, l.run, l.cfg.Partitions)
	if err != nil {
		return err
	}
	l.progress.add(nil)
	l.progress.ended = true
	l.cfg.Metrics.endRun(l.run.GetId())
	return l.queue.put(ctx, event{after: l.progress, at: time.Now(), outs: outs})
}

// Taken is the number of the run's events that were taken: its beginning and the
// chunks for which Chunk has returned true, in this process or one before it.
func (l *Live) Taken() uint64 { return l.progress.next }

// Durable is the number of the run's events, from the first on, that neither the
// end of the process nor a power cut can undo: they are in Kafka or synced to the
// spool. Any goroutine may call it, and Committed and Obstacle as well.
func (l *Live) Durable() uint64 { return l.queue.durable() }

// Committed is the number of the run's events, from the first on, that are
// committed in Kafka.
func (l *Live) Committed() uint64 { return l.queue.committed() }

// Obstacle is why the spool takes nothing now, or nil: it does, is not needed, or
// there is none.
func (l *Live) Obstacle() error { return l.queue.cfg.alarm.obstacle() }
