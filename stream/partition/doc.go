// Package partition decides what the worker of one assigned partition does: how
// it restores the handler's state, what happens to each record, what may be
// committed and when, when a snapshot is due and when fetching has to pause.
//
// It is a state machine without goroutines, clock or I/O. A shell (see
// stream/kafka) reports to it what has happened and does what it decides; time comes in as
// values. That makes every interleaving of records, emissions, commits and crashes a test
// that runs in microseconds.
//
//	            Restore                 the restored           Drain          Close
//	                                 position is reached
//	Restoring ──────────▶ Replaying ──────────────────▶ Live ──────▶ Draining ──────▶ Closed
//	    │  nothing to replay                             ▲              ▲
//	    └────────────────────────────────────────────────┘              │
//	    └───────────── any state can be drained and closed ─────────────┘
//
// # What is kept
//
// A handler's state is a fold of the records of its partition. Three things about
// it are durable: the log of the input topic, the committed [stream.Position],
// and snapshots, each of which is the fold of all records before its offset S.
// With the committed offset C:
//
//   - A snapshot is usable if S ≤ C. A later one has folded in records that
//     are not dealt with, and a record is folded in and dealt with in one go.
//   - From S on records are folded in without emission, muted, as long as the
//     position says that they are dealt with. The others are handled. So the
//     state sees every record once and in order, and every effect of a record
//     comes about once.
//   - Snapshots are written to two slots in turn. The older one is overwritten
//     only once the newer one is usable, so that there is one at any moment.
//   - Without a usable snapshot the records are replayed from where the state
//     began, the position's Origin. If the log no longer reaches back so far,
//     the partition is refused: a state that lacks records would be wrong in
//     silence.
//
// # Emissions
//
// Emissions are numbered. The offsets that one resolves count once it and all
// emissions before it are durable: a handler may emit a call first and resolve
// the record behind it later without records, and the record is dealt with only
// when the call is.
//
// In transactions an emission and the offsets it resolves have to be committed
// together, even when one that was numbered before it, by another goroutine, has
// not been sent yet. There order comes from the transaction: it takes emissions
// as they are sent, and all that it has taken are durable before it commits. So
// an emission with records resolves its offsets as soon as it is durable itself.
package partition
