package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
)

// Place is where a record is on a topic.
type Place struct {
	Partition int32
	Offset    int64
}

func (p Place) String() string { return fmt.Sprintf("%d/%d", p.Partition, p.Offset) }

// Selection chooses dead letters. The zero value chooses all.
type Selection struct {
	// Stage and Code are those of the letter; empty means any.
	Stage, Code string
	// From and To bound when it was given up, To excluded; zero means no bound.
	From, To time.Time
	// Place is the letter's own; nil means any.
	Place *Place
}

func (s *Selection) chooses(at Place, l *stream.BadLetter) bool {
	return (s.Stage == "" || s.Stage == l.Stage) && (s.Code == "" || s.Code == l.Code) &&
		(s.From.IsZero() || !l.Record.Time.Before(s.From)) && (s.To.IsZero() || l.Record.Time.Before(s.To)) &&
		(s.Place == nil || *s.Place == at)
}

// Letter is a dead letter on its topic.
type Letter struct {
	Place
	*stream.BadLetter
	// Redriven says that it was sent back.
	Redriven bool

	rec stream.Record
}

// DeadLetters hands the chosen dead letters that are on a topic now to fn, in
// order within a partition, and returns the number of records on the topic that
// are neither a letter nor a mark. It reads the topic twice, for the marks of
// letters that were sent back come behind them.
func DeadLetters(ctx context.Context, client *kafka.Client, topic string, which Selection, fn func(Letter) error) (foreign int, err error) {
	redriven := make(map[Place]bool)
	all := kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}
	err = consume(ctx, client, topic, all, func(rec stream.Record) error {
		if offset, is := stream.RedrivenOffset(rec); is {
			redriven[Place{rec.Partition, offset}] = true
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = consume(ctx, client, topic, all, func(rec stream.Record) error {
		if _, is := stream.RedrivenOffset(rec); is {
			return nil
		}
		l, err := stream.ParseDeadLetter(rec)
		if err != nil {
			foreign++
			return nil //nolint:nilerr // whatever else is there is counted
		}
		at := Place{rec.Partition, rec.Offset}
		if !which.chooses(at, l) {
			return nil
		}
		return fn(Letter{Place: at, BadLetter: l, Redriven: redriven[at], rec: rec})
	})
	return foreign, err
}

// consume is Consume that says when it was cut short.
func consume(ctx context.Context, client *kafka.Client, topic string, options kafka.ConsumeOptions, fn func(stream.Record) error) error {
	if err := client.Consume(ctx, topic, options, fn); err != nil {
		return err
	}
	return ctx.Err()
}

// Redriven counts what became of dead letters that were to be sent back.
type Redriven struct {
	// Sent were written to where they came from, each once.
	Sent int
	// Before had been sent already, Cut are not whole, and Unknown come from
	// topics or partitions that are none of the deployment's.
	Before, Cut, Unknown int
	// Topics counts the letters that were sent, by topic.
	Topics map[string]int
}

// Limits of one transaction: what is sent becomes visible with it.
const (
	redriveRecords = 500
	redriveBytes   = 4 << 20
)

// Redrive sends the chosen dead letters back to the topics and partitions that
// they came from, with their keys and headers, and marks them in the same
// transaction: none is sent twice, also when two do it at once or one is
// interrupted. inputs are the topics that records may go to; id is the
// transactional id. A dry run only counts.
func Redrive(ctx context.Context, client *kafka.Client, id, deadLetters string, inputs []string, which Selection, dry bool) (_ Redriven, err error) {
	r := redrive{counts: Redriven{Topics: make(map[string]int)}, partitions: make(map[string]int)}
	for _, topic := range inputs {
		n, err := client.Partitions(ctx, topic)
		if err != nil {
			return r.counts, err
		}
		r.partitions[topic] = n
	}
	if !dry {
		// Before reading: it waits for the transaction of an earlier run, so
		// that the marks are right.
		if r.tx, err = kafka.NewTransactor(ctx, client, id, kafka.ProducerConfig{}); err != nil {
			return r.counts, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, r.tx.Abort(context.WithoutCancel(ctx)))
			}
			err = errors.Join(err, r.tx.Close(context.WithoutCancel(ctx)))
		}()
	}
	if _, err := DeadLetters(ctx, client, deadLetters, which, func(l Letter) error { return r.take(ctx, l) }); err != nil {
		return r.counts, err
	}
	return r.counts, r.commit(ctx)
}

// redrive is one run of Redrive.
type redrive struct {
	tx         *kafka.Transactor
	partitions map[string]int
	counts     Redriven

	open  []string // topics of the letters in the open transaction
	bytes int
}

func (r *redrive) take(ctx context.Context, l Letter) error {
	n, known := r.partitions[l.Record.Topic]
	switch {
	case l.Redriven:
		r.counts.Before++
		return nil
	case !known || int(l.Record.Partition) >= n:
		r.counts.Unknown++
		return nil
	case len(l.Cut) > 0:
		r.counts.Cut++
		return nil
	}
	again, mark, err := stream.Redrive(l.rec, l.BadLetter)
	if err != nil {
		return fmt.Errorf("redriving %s: %w", l.Place, err)
	}
	r.open = append(r.open, l.Record.Topic)
	if r.tx == nil {
		return r.commit(ctx)
	}
	// The record's bytes are the fetcher's, which does not reuse them.
	if err := r.tx.Send(ctx, []stream.Out{again, mark}, nil); err != nil {
		return fmt.Errorf("redriving %s: %w", l.Place, err)
	}
	if r.bytes += len(again.Value); len(r.open) >= redriveRecords || r.bytes >= redriveBytes {
		return r.commit(ctx)
	}
	return nil
}

func (r *redrive) commit(ctx context.Context) error {
	if r.tx != nil && len(r.open) > 0 {
		if err := r.tx.Commit(ctx, nil); err != nil {
			return fmt.Errorf("redriving %d records: %w", len(r.open), err)
		}
	}
	r.counts.Sent += len(r.open)
	for _, topic := range r.open {
		r.counts.Topics[topic]++
	}
	r.open, r.bytes = r.open[:0], 0
	return nil
}

// Inputs are the topics that stages read, which a dead letter may come from.
func Inputs(t stream.Topics, panels bool) []string {
	inputs := []string{t.Signal, t.Called, t.Reads, t.Calls}
	if panels {
		inputs = append(inputs, t.Watch)
	}
	return slices.Clip(inputs)
}
