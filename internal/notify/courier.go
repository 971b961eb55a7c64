package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
)

// Name is the stage's name in dead letters and logs.
const Name = "notify"

// Codes of dead letters: what was wrong with the message, or with time.
const (
	codeUnreadable = "unreadable"
	codeRefused    = "refused"
	codeExpired    = "expired"
)

// courier brings alerts to one destination, for all of its partitions.
type courier struct {
	name            string
	states          []watchlist.State
	when            condition
	sender          sender
	timeout, giveUp time.Duration
	deadLetters     string
	metrics         *destinationMetrics
	log             *slog.Logger
	dealt           func(destination string, rec stream.Record, givenUp bool) // nil: nobody asks
}

// newCourier makes the courier of a destination.
func newCourier(d *Destination, deadLetters string, metrics *Metrics, log *slog.Logger) (*courier, error) {
	log = log.With("destination", d.Name)
	c := &courier{name: d.Name, states: d.States, timeout: d.Timeout, giveUp: d.GiveUp, deadLetters: deadLetters, metrics: metrics.of(d.Name), log: log}
	var err error
	if c.when, err = compileWhen(d.When); err != nil {
		return nil, err
	}
	if d.Webhook != nil {
		c.sender, err = newWebhook(d.Webhook)
	} else {
		c.sender, err = newPost(d.Mail, log)
	}
	return c, err
}

// Times between tries: a receiver that restarts is back in seconds, one that is broken is not hammered.
const (
	firstWait = time.Second
	maxWait   = 5 * time.Minute
)

// bring hands a message over, however often that takes. It returns nil when the destination has it, ctx's error when ctx
// ends before, and else why it was given up.
func (c *courier) bring(ctx context.Context, m *message) error {
	waits := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstWait), backoff.WithMultiplier(2), backoff.WithMaxInterval(maxWait), backoff.WithMaxElapsedTime(0))
	end := m.at.Add(c.giveUp)
	for tries := 1; ; tries++ {
		err := c.try(ctx, m)
		if err == nil {
			if tries > 1 {
				c.log.Info("alert delivered", "alert", m.ID, "tries", tries)
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if no := (*refusedError)(nil); errors.As(err, &no) {
			return &stream.DecodeError{Code: codeRefused, Reason: fmt.Sprintf("destination %s: %v", c.name, err)}
		}
		left := time.Until(end)
		if left <= 0 {
			return &stream.DecodeError{Code: codeExpired, Reason: fmt.Sprintf("destination %s: not delivered within %v, in %d tries: %v", c.name, c.giveUp, tries, err)}
		}
		wait := waits.NextBackOff()
		if later := (*laterError)(nil); errors.As(err, &later) {
			wait = max(wait, later.after)
		}
		wait = min(wait, left)
		c.log.Warn("alert not delivered yet", "alert", m.ID, "tries", tries, "again_in", wait.Round(time.Millisecond), "err", err)
		if err := c.rest(ctx, wait); err != nil {
			return err
		}
	}
}

// rest waits between two tries.
func (c *courier) rest(ctx context.Context, wait time.Duration) error {
	c.metrics.waiting.Inc()
	defer c.metrics.waiting.Dec()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try sends once. When the program is stopped, a request that is under way may end, within its time: if it were cut off,
// it would be sent again although the destination may have it.
func (c *courier) try(ctx context.Context, m *message) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	attempt, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), c.timeout, fmt.Errorf("no answer within %v", c.timeout))
	defer cancel()
	err := c.sender.send(attempt, m)
	if err != nil && attempt.Err() != nil {
		err = context.Cause(attempt)
	}
	c.metrics.tried(err, attempt.Err() != nil)
	return err
}

// handler is a courier's work on one partition of the alerts topic.
type handler struct{ *courier }

var _ stream.Handler = handler{}

// Handle deals with one record: when it returns, the destination has the alert, wants none of it, or it was given up.
func (h handler) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	outs, err := h.deal(ctx, rec)
	if err != nil {
		return err
	}
	if err := emit.Emit(ctx, outs, []int64{rec.Offset}); err != nil {
		return err
	}
	if h.dealt != nil {
		h.dealt(h.name, rec, len(outs) > 0)
	}
	return nil
}

func (h handler) deal(ctx context.Context, rec stream.Record) ([]stream.Out, error) {
	m, err := newMessage(rec)
	if err != nil {
		return h.dead(rec, "", &stream.DecodeError{Code: codeUnreadable, Reason: err.Error()}), nil //nolint:nilerr // it is on the dead-letter topic
	}
	switch {
	case m == nil:
		return nil, nil // the end of a run, or an event of a kind to come
	case !h.wanted(m):
		h.metrics.done(outcomeUnwanted)
		return nil, nil
	}
	err = h.bring(ctx, m)
	if bad := (*stream.DecodeError)(nil); errors.As(err, &bad) {
		return h.dead(rec, m.ID, bad), nil
	}
	if err != nil {
		return nil, err
	}
	h.metrics.delivered(time.Since(rec.Time))
	return nil, nil
}

// wanted reports whether the destination is to have an alert. An alert for which its expression fails is sent: too much
// is better than silence.
func (h handler) wanted(m *message) bool {
	if !wants(h.states, m.Alert) {
		return false
	}
	keep, err := h.when(m.document)
	if err != nil {
		h.log.Warn("the destination's expression fails, so the alert is sent", "alert", m.ID, "err", err)
		return true
	}
	return keep
}

// dead is what is kept of an alert that was given up.
func (h handler) dead(rec stream.Record, id string, why *stream.DecodeError) []stream.Out {
	h.metrics.done(why.Code)
	h.log.Error("alert given up, it is on the dead-letter topic", "alert", id, "partition", rec.Partition, "offset", rec.Offset, "code", why.Code, "err", why.Reason)
	return []stream.Out{stream.DeadLetter(h.deadLetters, rec, Name, why)}
}

// Replay has nothing to fold in.
func (h handler) Replay(context.Context, stream.Record) error { return nil }

// Drain has nothing to wait for: Handle leaves nothing behind.
func (h handler) Drain(context.Context) error { return nil }

// Close has nothing to release; the courier outlives it.
func (h handler) Close() error { return nil }

// State is none.
func (h handler) State() stream.State { return nil }
