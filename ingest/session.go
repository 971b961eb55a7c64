package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// ErrFenced says that another ingest process has taken over a run.
var ErrFenced = errors.New("another ingest process has taken over the run")

// ErrRefused says that Kafka answers, and refuses what is written until somebody has mended
// what is wrong here.
var ErrRefused = errors.New("the brokers refuse the signal for now")

// PermanentError is an error of a [Cluster] that trying again does not mend.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Cluster is what ingest needs of Kafka. Errors of it and its writers may be, or
// wrap, [ErrFenced], [ErrRefused] or a [*PermanentError]; any other is worth another try.
type Cluster interface {
	// Open returns a writer of transactions for a run, and fences all that were
	// opened for it before. What they have left open is settled then.
	Open(ctx context.Context, run string) (Writer, error)
	// Cursor returns a run's newest committed cursor, or nil if there is none.
	// Settled, it waits until no open transaction of other runs can hide one that
	// was committed before the call.
	Cursor(ctx context.Context, run string, settled bool) (*streampb.Cursor, error)
}

// Writer writes transactions, one after the other.
type Writer interface {
	// Send takes records for the open transaction, in order; it blocks while too
	// much is under way.
	Send(ctx context.Context, outs []stream.Out) error
	// Commit ends the transaction with all that was sent, and nil says that it is
	// committed.
	Commit(ctx context.Context) error
	// Close aborts what is open and lets go of the writer.
	Close(ctx context.Context)
}

// Timing of sessions.
const (
	// commitInterval is how long a transaction gathers signal.
	commitInterval = 100 * time.Millisecond
	// closeTimeout bounds what is done for the last transaction of a process that
	// has been asked to stop.
	closeTimeout = 5 * time.Second
	// reopenInterval is how often, at most, a cluster that is away is tried.
	reopenInterval = 2 * time.Second
)

// session writes the events of one run to Kafka, each in one transaction
// together with the cursor behind it.
type session struct {
	run     *streampb.Run
	chunk   int // samples
	filter  string
	owner   [stream.CursorOwnerLen]byte
	cfg     *ServiceConfig
	log     *slog.Logger
	queue   *queue
	ledger  Ledger   // nil: none
	written progress // what is committed
	before  []byte   // whose the run was when we claimed it; nil if nobody's
	// until, if not 0, is the number of the event to stop before: the run goes on
	// another time.
	until uint64
	away  outage
	spans *spans
}

// claim opens a run: the writer before is fenced, and the cursor is in our name from then
// on. With restart the run begins again. It returns the cursor that it found, or nil.
func (s *session) claim(ctx context.Context, restart bool) (Writer, *streampb.Cursor, error) {
	w, err := s.cfg.Cluster.Open(ctx, s.run.GetId())
	if err != nil {
		return nil, nil, err
	}
	found, err := s.cfg.Cluster.Cursor(ctx, s.run.GetId(), true)
	s.before = found.GetOwner()
	if err == nil && found != nil && !restart {
		s.written = progressOf(found)
	}
	if err == nil && (found == nil || restart || !found.GetEnded()) {
		claiming, cancel := s.finishing(ctx)
		err = s.commit(claiming, w, s.written, found)
		cancel()
	}
	if err != nil {
		s.close(ctx, w)
		return nil, nil, err
	}
	return w, found, nil
}

func progressOf(c *streampb.Cursor) progress {
	p := progress{next: c.GetNext(), ended: c.GetEnded()}
	copy(p.digest[:], c.GetDigest())
	return p
}

// commit ends a transaction with the cursor behind it. How a run is played is
// taken from as, if that is not nil.
func (s *session) commit(ctx context.Context, w Writer, p progress, as *streampb.Cursor) error {
	c := &streampb.Cursor{
		Run: s.run.GetId(), Next: p.next, Digest: p.digest[:], Ended: p.ended, Owner: s.owner[:],
		Sample: s.run.GetSample(), ChunkSamples: uint32(s.chunk), Partitions: uint32(s.cfg.Partitions),
		Filter: s.filter, Called: s.run.GetCalled(),
	}
	if as != nil && p.next > 0 {
		c.Sample, c.ChunkSamples, c.Partitions, c.Filter = as.GetSample(), as.GetChunkSamples(), as.GetPartitions(), as.GetFilter()
	}
	value, err := stream.EncodeCursor(c)
	if err != nil {
		return &PermanentError{err}
	}
	out := stream.Out{Topic: s.cfg.Topics.Cursors, Partition: stream.AnyPartition, Key: []byte(s.run.GetId()), Value: value}
	if err := w.Send(ctx, []stream.Out{out}); err != nil {
		return err
	}
	return w.Commit(ctx)
}

// publish writes the queue's events until the run has ended. It rides out
// whatever passes; a writer that is of no use any more is replaced.
func (s *session) publish(ctx context.Context, w Writer) error {
	defer func() { s.close(ctx, w) }()
	pause := s.pause(ctx)
	for {
		before := s.written.next
		err := s.write(ctx, w)
		if err == nil || ctx.Err() != nil || !passes(err) {
			return err
		}
		s.away.begin(s.log, err)
		s.close(ctx, w)
		// Who is refused gets a writer at once, which says nothing.
		refused := errors.Is(err, ErrRefused)
		if s.written.next > before {
			pause.Reset()
		}
		if refused {
			select {
			case <-time.After(pause.NextBackOff()):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if w, err = s.reopen(ctx); err != nil {
			return err
		}
		if !refused {
			s.away.end(s.log)
		}
	}
}

// pause is how long to wait between tries that go on for as long as they must.
func (s *session) pause(ctx context.Context) backoff.BackOff {
	return backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(reopenInterval), backoff.WithMaxElapsedTime(0)), ctx)
}

// write writes transactions until the run has ended or one fails.
func (s *session) write(ctx context.Context, w Writer) error {
	s.queue.rewind()
	if s.ledger != nil {
		if err := s.ledger.Rewind(s.written.chunks()); err != nil {
			return &PermanentError{err}
		}
	}
	for !s.written.ended && (s.until == 0 || s.written.next < s.until) {
		if err := s.transaction(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// transaction gathers events for a while and commits them. A request to stop ends the gathering.
func (s *session) transaction(ctx context.Context, w Writer) error {
	g := gathered{after: s.written}
	defer g.stop()
	if err := s.gather(ctx, w, &g); err != nil {
		return err
	}
	p := g.after
	if p.next == s.written.next {
		return context.Cause(ctx)
	}
	ctx, cancel := s.finishing(ctx)
	defer cancel()
	if err := s.record(ctx, w, p.ended); err != nil {
		return s.failed(g.begun, err)
	}
	if err := s.commit(ctx, w, p, nil); err != nil {
		return s.failed(g.begun, err)
	}
	if s.ledger != nil {
		s.ledger.Committed()
	}
	s.cfg.Metrics.transaction(nil)
	s.spans.sent(g.sent)
	if p.ended {
		s.spans.end()
	}
	g.stop()
	s.away.end(s.log)
	s.written = p
	if err := s.queue.commit(p.next); err != nil {
		return &PermanentError{err}
	}
	return nil
}

// gathered is what was sent in a transaction.
type gathered struct {
	after   progress // the position behind it
	begun   time.Time
	silence *time.Timer // says, unless it is stopped, that Kafka doesn't answer
	sent    []sentChunk
}

func (g *gathered) stop() {
	if g.silence != nil {
		g.silence.Stop()
	}
}

// gather sends events until a transaction has enough of them or has lasted long enough, the queue has
// no more or ctx ends.
func (s *session) gather(ctx context.Context, w Writer, g *gathered) error {
	var size int64
	var timer <-chan time.Time
	for {
		e, ok, err := s.queue.take(ctx, g.after.next, timer)
		if err != nil && ctx.Err() == nil {
			return &PermanentError{err}
		}
		if err != nil && g.after.next == s.written.next {
			return err
		}
		if err != nil || !ok || ctx.Err() != nil {
			return nil
		}
		if g.begun.IsZero() {
			g.begun = time.Now()
			t := time.NewTimer(commitInterval)
			defer t.Stop()
			timer = t.C
			g.silence = time.AfterFunc(silentFor, func() { s.away.begin(s.log, nil) })
		}
		if err := w.Send(ctx, e.outs); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return s.failed(g.begun, err)
		}
		if s.ledger != nil {
			if err := s.ledger.Fold(e.outs); err != nil {
				return &PermanentError{err}
			}
		}
		g.after, size = e.after, size+e.size()
		if e.traced != nil {
			g.sent = append(g.sent, sentChunk{e.traced, e.at, e.samples})
		}
		if g.after.ended || g.after.next == s.until || size >= s.queue.cfg.memory/4 || time.Since(g.begun) >= commitInterval {
			return nil
		}
	}
}

// finishing is a context to end a transaction with. A request to stop leaves closeTimeout for that, also one that comes meanwhile: a commit that it
// broke off would be in doubt.
func (s *session) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	}
	finishing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(closeTimeout):
			cancel()
		case <-finishing.Done():
		}
	})
	return finishing, func() { stop(); cancel() }
}

// expiredError is an ErrFenced that may well be the broker's answer to a
// transaction that took too long, as after an outage.
type expiredError struct{ error }

func (e expiredError) Unwrap() error { return e.error }

// failed explains why a transaction has failed that was begun at a time.
func (s *session) failed(begun time.Time, err error) error {
	s.cfg.Metrics.transaction(err)
	if errors.Is(err, ErrFenced) && time.Since(begun) >= s.cfg.TransactionTimeout {
		return expiredError{err}
	}
	return err
}

// passes reports whether trying again may help after an error.
func passes(err error) bool {
	var expired expiredError
	var permanent *PermanentError
	return !errors.As(err, &permanent) && (!errors.Is(err, ErrFenced) || errors.As(err, &expired))
}

// reopen gets a new writer and finds out what is committed, however long that
// takes.
func (s *session) reopen(ctx context.Context) (Writer, error) {
	pause := s.pause(ctx)
	for {
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		w, err := s.retake(ctx)
		if err == nil || !passes(err) {
			return w, err
		}
		s.log.Debug("trying again", "err", err)
	}
}

// retake opens the run again, if nobody else has done so meanwhile.
func (s *session) retake(ctx context.Context) (Writer, error) {
	// Read before the others are fenced: a process that has the run keeps it. Our own
	// cursors may be hidden for now, so the one before them says nothing.
	cursor, err := s.cfg.Cluster.Cursor(ctx, s.run.GetId(), false)
	if err == nil && cursor != nil && !bytes.Equal(cursor.GetOwner(), s.before) {
		err = s.mine(cursor)
	}
	if err != nil {
		return nil, err
	}
	w, err := s.cfg.Cluster.Open(ctx, s.run.GetId())
	if err != nil {
		return nil, err
	}
	if cursor, err = s.cfg.Cluster.Cursor(ctx, s.run.GetId(), true); err == nil {
		err = s.mine(cursor)
	}
	if err == nil {
		s.written = progressOf(cursor)
		if err = s.queue.commit(s.written.next); err != nil {
			err = &PermanentError{fmt.Errorf("going on with run %s: %w", s.run.GetId(), err)}
		}
	}
	if err != nil {
		s.close(ctx, w)
		return nil, err
	}
	return w, nil
}

// mine returns an error if a cursor is not in this process' name.
func (s *session) mine(c *streampb.Cursor) error {
	switch {
	case c == nil:
		return &PermanentError{fmt.Errorf("the cursor of run %s is gone: was topic %s made anew? Start ingest again to begin the run again", s.run.GetId(), s.cfg.Topics.Cursors)}
	case !bytes.Equal(c.GetOwner(), s.owner[:]):
		return ErrFenced
	}
	return nil
}

func (s *session) close(ctx context.Context, w Writer) {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	w.Close(ctx)
}
