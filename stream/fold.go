package stream

import (
	"context"
	"log/slog"
)

// Folder is the logic of a stage that is done with a record as soon as it has
// seen it: what follows from a record is a function of the records before it, so
// folding them in again restores it, revision numbers included.
type Folder interface {
	// Fold applies a record and returns the records that follow from it. A bad record
	// (see IsBadRecord) must leave no trace but its error.
	Fold(rec Record) ([]Out, error)
	// Refold applies a record that lies before the committed offset: what follows is
	// downstream already, so Refold need not make it, and must not count it.
	Refold(rec Record) error
}

// Fold is the handler of a Folder: bad records go to the dead letters, and
// nothing is left behind to wait for.
type Fold struct {
	Folder Folder
	// Stage names the stage in dead letters, which go to the topic DeadLetters.
	Stage, DeadLetters string
	Logger             *slog.Logger
	// OnDeadLetter is called with the error of every bad record.
	OnDeadLetter func(err error)
}

// Replay folds in a record whose effects are downstream already, dead letters
// included.
func (f Fold) Replay(_ context.Context, rec Record) error {
	if err := f.Folder.Refold(rec); err != nil && !IsBadRecord(err) {
		return err
	}
	return nil
}

// Handle folds in a live record and emits what follows.
func (f Fold) Handle(ctx context.Context, rec Record, emit Emitter) error {
	outs, err := f.Folder.Fold(rec)
	if err != nil {
		if !IsBadRecord(err) {
			return err
		}
		f.OnDeadLetter(err)
		f.Logger.Warn("record goes to the dead letters", "offset", rec.Offset, "err", err)
		outs = []Out{DeadLetter(f.DeadLetters, rec, f.Stage, err)}
	}
	return emit.Emit(ctx, outs, []int64{rec.Offset})
}

// Drain has nothing to wait for: Handle leaves no work behind.
func (f Fold) Drain(context.Context) error { return nil }

// Close has nothing to release.
func (f Fold) Close() error { return nil }

// State is the Folder's, if it is a [State].
func (f Fold) State() State {
	s, _ := f.Folder.(State)
	return s
}
