// Package cluster is Kafka as package ingest needs it: transactions for each run
// and the newest cursor of a run.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
)

// idPrefix begins the transactional id of a run's writer.
const idPrefix = "ingest/"

// Config says how runs are written.
type Config struct {
	Topics stream.Topics
	// Prefix is that of the topics; it also distinguishes the transactional ids of deployments.
	Prefix string
	// TransactionTimeout is for how long the broker waits for a transaction's
	// end: a process that has died keeps readers from going on for so long.
	TransactionTimeout time.Duration
	// MaxBuffered is the number of bytes that all writers may have under way.
	MaxBuffered int64
	Logger      *slog.Logger // nil: none
}

// Cluster is a cluster with the topics of one deployment.
type Cluster struct {
	client *kafka.Client
	cfg    Config
	space  *kafka.Space
}

var _ ingest.Cluster = (*Cluster)(nil)

// New makes a cluster of a client's.
func New(client *kafka.Client, cfg Config) *Cluster {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Cluster{client: client, cfg: cfg, space: kafka.NewSpace(cfg.MaxBuffered)}
}

// TransactionalID is the transactional id under which a run is written.
func TransactionalID(prefix, run string) string { return prefix + idPrefix + run }

// Open takes a run's transactional id.
func (c *Cluster) Open(ctx context.Context, run string) (ingest.Writer, error) {
	t, err := kafka.NewTransactor(ctx, c.client, TransactionalID(c.cfg.Prefix, run), kafka.ProducerConfig{
		Space: c.space, TransactionTimeout: c.cfg.TransactionTimeout,
	})
	if err != nil {
		return nil, explain(err)
	}
	return &writer{transactor: t, log: c.cfg.Logger}, nil
}

// Cursor reads the topic of cursors backwards, in steps that double: the newest
// cursor of a run that is under way is among the last records.
func (c *Cluster) Cursor(ctx context.Context, run string, settled bool) (*streampb.Cursor, error) {
	cursor, err := c.cursor(ctx, run, settled)
	if err != nil {
		return nil, explain(fmt.Errorf("reading the cursor of run %s: %w", run, err))
	}
	return cursor, nil
}

// firstStep is how many records, transaction markers included, are read first.
const firstStep = 2000

func (c *Cluster) cursor(ctx context.Context, run string, settled bool) (*streampb.Cursor, error) {
	offsets, err := c.client.Offsets(ctx, c.cfg.Topics.Cursors)
	if err != nil {
		return nil, err
	}
	if len(offsets) != 1 {
		return nil, &ingest.PermanentError{Err: fmt.Errorf("topic %s has %d partitions, and must have one", c.cfg.Topics.Cursors, len(offsets))}
	}
	o := offsets[0]
	end := o.Stable
	if settled {
		// What lies behind an open transaction is not shown, though it may be
		// committed: it has to end first, at the latest by its timeout.
		end = o.End
		if o.Stable < o.End {
			c.cfg.Logger.Debug("waiting for open transactions of other runs", "run", run)
		}
	}
	for step := int64(firstStep); ; step *= 2 {
		from := max(o.Start, end-step)
		newest, err := c.scan(ctx, run, from, end)
		if err != nil || newest != nil || from == o.Start {
			return newest, err
		}
	}
}

// scan returns the newest cursor of a run among the committed records from one
// offset to another.
func (c *Cluster) scan(ctx context.Context, run string, from, end int64) (*streampb.Cursor, error) {
	newest, err := c.newest(ctx, c.cfg.Topics.Cursors, run, from, end)
	if err != nil || newest == nil {
		return nil, err
	}
	cursor, err := stream.DecodeCursor(newest)
	if err == nil && cursor.GetRun() != run {
		err = fmt.Errorf("it is of run %s", cursor.GetRun())
	}
	if err != nil {
		return nil, &ingest.PermanentError{Err: fmt.Errorf("%w; --restart sends the run again from its beginning", err)}
	}
	return cursor, nil
}

// newest returns the newest value of a key among the committed records of a
// topic's partition 0, from one offset to another, or nil.
func (c *Cluster) newest(ctx context.Context, topic, key string, from, end int64) ([]byte, error) {
	var value []byte
	err := c.client.ReadRange(ctx, topic, 0, from, end, kafka.FetchConfig{}, func(rec stream.Record) error {
		if string(rec.Key) == key {
			value = rec.Value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return value, nil
}

// PushStates returns what was committed of a run's push state: the newest whole one
// and what came behind it, or nothing.
func (c *Cluster) PushStates(ctx context.Context, run string) ([]*streampb.PushState, error) {
	states, err := c.pushStates(ctx, run)
	if err != nil {
		return nil, explain(fmt.Errorf("reading the push state of run %s: %w", run, err))
	}
	return states, nil
}

func (c *Cluster) pushStates(ctx context.Context, run string) ([]*streampb.PushState, error) {
	offsets, err := c.client.Offsets(ctx, c.cfg.Topics.Cursors)
	if err != nil {
		return nil, err
	}
	if len(offsets) != 1 {
		return nil, &ingest.PermanentError{Err: fmt.Errorf("topic %s has %d partitions, and must have one", c.cfg.Topics.Cursors, len(offsets))}
	}
	o := offsets[0]
	for step := int64(firstStep); ; step *= 2 {
		from := max(o.Start, o.End-step)
		states, err := c.scanPushStates(ctx, run, from, o.End)
		if err != nil || len(states) > 0 || from == o.Start {
			return states, err
		}
	}
}

// scanPushStates returns the newest whole state of a run and what is behind it,
// among the committed records from one offset to another.
func (c *Cluster) scanPushStates(ctx context.Context, run string, from, end int64) (states []*streampb.PushState, err error) {
	prefix := []byte(stream.PushStatePrefix(run))
	err = c.client.ReadRange(ctx, c.cfg.Topics.Cursors, 0, from, end, kafka.FetchConfig{}, func(rec stream.Record) error {
		if !bytes.HasPrefix(rec.Key, prefix) {
			return nil
		}
		state, err := stream.DecodePushState(rec.Value)
		if err != nil {
			return &ingest.PermanentError{Err: err}
		}
		if state.GetPart() == 0 {
			states = states[:0]
		}
		if state.GetPart() == 0 || len(states) > 0 {
			states = append(states, state)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return states, nil
}

// Announced returns what a run was announced as on the topic of runs, or nil if it
// was not. It reads what is committed and behind no open transaction.
func (c *Cluster) Announced(ctx context.Context, run string) (*streampb.Run, error) {
	m, err := c.announced(ctx, run)
	if err != nil {
		return nil, explain(fmt.Errorf("searching for run %s: %w", run, err))
	}
	return m, nil
}

func (c *Cluster) announced(ctx context.Context, run string) (*streampb.Run, error) {
	offsets, err := c.client.Offsets(ctx, c.cfg.Topics.Runs)
	if err != nil {
		return nil, err
	}
	if len(offsets) != 1 {
		return nil, fmt.Errorf("topic %s has %d partitions, and must have one", c.cfg.Topics.Runs, len(offsets))
	}
	value, err := c.newest(ctx, c.cfg.Topics.Runs, run, offsets[0].Start, offsets[0].Stable)
	if err != nil || value == nil {
		return nil, err
	}
	return stream.DecodeRun(value)
}

// writer is a run's transactor.
type writer struct {
	transactor *kafka.Transactor
	log        *slog.Logger
}

func (w *writer) Send(ctx context.Context, outs []stream.Out) error {
	// A record that can't be written fails the transaction: Commit reports it.
	return explain(w.transactor.Send(ctx, outs, nil))
}

func (w *writer) Commit(ctx context.Context) error {
	return explain(w.transactor.Commit(ctx, nil))
}

func (w *writer) Close(ctx context.Context) {
	if err := w.transactor.Close(ctx); err != nil {
		w.log.Debug("closing a transaction's writer", "err", err)
	}
}

// explain puts an error of the client into the terms of package ingest.
func explain(err error) error {
	var tooLarge *kafka.RecordTooLargeError
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, kafka.ErrFenced):
		return fmt.Errorf("%w: %w", ingest.ErrFenced, err)
	case errors.As(err, &tooLarge):
		return &ingest.PermanentError{Err: fmt.Errorf("%w: choose a shorter --chunk with --restart, or allow larger messages on topic %s (max.message.bytes)", err, tooLarge.Topic)}
	case kafka.IsMissingTopic(err):
		return &ingest.PermanentError{Err: fmt.Errorf("%w: topics are made when ingest starts; start it again", err)}
	case kafka.IsClock(err):
		return fmt.Errorf("%w, as they take the time of its records for wrong: check this machine's clock: %w", ingest.ErrRefused, err)
	case kafka.IsTransient(err):
		return err
	}
	if permanent := new(ingest.PermanentError); errors.As(err, &permanent) {
		return err
	}
	return &ingest.PermanentError{Err: err}
}
