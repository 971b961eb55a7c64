package infer

import "time"

// Dispatch is the reason for which a batch was sent to a runner.
type Dispatch uint8

// The reasons. A retry comes before all others.
const (
	DispatchNone  Dispatch = iota // not yet
	DispatchFull                  // as many requests as a batch holds
	DispatchDrain                 // nothing more can come
	DispatchDelay                 // the oldest request has waited long enough
	DispatchRetry                 // it has failed once
	DispatchShort                 // windows shorter than others: who waits for them waits for no more of them
)

// String returns the reason as metrics name it.
func (d Dispatch) String() string {
	switch d {
	case DispatchFull:
		return "full"
	case DispatchDrain:
		return "drain"
	case DispatchDelay:
		return "delay"
	case DispatchRetry:
		return "retry"
	case DispatchShort:
		return "short"
	default:
		return "none"
	}
}

// queueState is what the decision to send a batch depends on.
type queueState struct {
	queued    int           // requests waiting, of the usual length
	short     int           // those that are shorter
	urgent    int           // of these, those of producers that are not patient
	leisure   int           // shorter ones that nobody waits for
	due       bool          // of which there is a whole batch of a length, or one has waited long enough
	quiet     time.Duration // since a request came
	age       time.Duration // how long the oldest of them has waited
	producers int           // producers that may submit and are not patient
	waiting   int           // of these, those that are blocked until they get a result
	closing   bool          // no more requests are accepted
}

// plan decides whether a free runner takes a batch now. If it doesn't, recheck is
// the time after which it will although nothing has changed; 0 means that only a
// change can bring that about.
func plan(s queueState, batch int, maxDelay time.Duration) (reason Dispatch, recheck time.Duration) {
	switch {
	case s.queued == 0 && s.short == 0 && s.leisure == 0:
		return DispatchNone, 0
	case s.queued >= batch:
		return DispatchFull, 0
	case s.short > 0 || s.due:
		return DispatchShort, 0
	case s.closing || s.urgent+s.leisure > 0 && s.waiting >= s.producers:
		return DispatchDrain, 0
	case s.queued == 0 && s.quiet < maxDelay:
		return DispatchNone, maxDelay - s.quiet
	case s.queued == 0 || s.age >= maxDelay:
		return DispatchDelay, 0
	default:
		return DispatchNone, maxDelay - s.age
	}
}
