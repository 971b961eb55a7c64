package ingest

import (
	"context"

	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/stream"
)

// Ledger is what the source of a live run keeps in Kafka beside the run's cursor:
// records that are committed in one transaction with the chunks that they follow
// from, so that they describe exactly the chunks that the cursor counts.
//
// Recall is called first, and then nothing at the same time as anything else.
type Ledger interface {
	// Recall is given how many of the run's chunks are in Kafka, and the records of
	// each event behind them that an earlier process left in the spool.
	Recall(ctx context.Context, chunks uint64, spooled func(each func([]stream.Out) error) error) error
	// Opening are records that go with the run's beginning, to the spool as well.
	Opening() ([]stream.Out, error)
	// Fold takes the records of the run's next event, which are in the open
	// transaction.
	Fold(outs []stream.Out) error
	// Outs are the records that end the open transaction. ended says that the run's
	// end is in it.
	Outs(ended bool) ([]stream.Out, error)
	// Committed says that the transaction was committed that Outs has ended.
	Committed()
	// Rewind says that so many of the run's chunks are in Kafka: all that were folded
	// in, or those behind the last commit, whatever was folded in since.
	Rewind(chunks uint64) error
}

// chunks is the number of chunks among a live run's events.
func (p progress) chunks() uint64 {
	n := p.next - min(p.next, 1)
	if p.ended {
		n -= min(n, 1)
	}
	return n
}

// recall lets the session's ledger recall the run, if there is one. log is the
// run's spool, or nil.
func (s *session) recall(ctx context.Context, log *spool.Log) error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Recall(ctx, s.written.chunks(), func(each func([]stream.Out) error) error {
		if log == nil {
			return nil
		}
		first, next := log.Bounds()
		for n := max(first, s.written.next); n < next; {
			payloads, err := log.Read(n, spoolBatch)
			if err != nil {
				return err
			}
			for _, b := range payloads {
				e, err := parseEvent(b, n)
				if err == nil {
					err = each(e.outs)
				}
				if err != nil {
					return err
				}
				n++
			}
		}
		return nil
	})
}

// record puts what the ledger has to say into the open transaction.
func (s *session) record(ctx context.Context, w Writer, ended bool) error {
	if s.ledger == nil {
		return nil
	}
	outs, err := s.ledger.Outs(ended)
	if err != nil {
		return &PermanentError{err}
	}
	if len(outs) == 0 {
		return nil
	}
	return w.Send(ctx, outs)
}
