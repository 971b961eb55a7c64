package sources

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Pauses between the attempts to run a source that fails.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	// healthy is for how long a source has to have been ready for its next failure
	// to count as the first.
	healthy = time.Minute
)

// table is what is known of the sources of the newest list, and of those that are
// being stopped.
//
// Problem: lists come at any time, sources end at any time, and some don't end when
// they are asked to. Strategy: every change is noted in the table, and then next
// compares what is with what is wanted: a source is stopped if the list has it no
// more or with other settings, and started once nothing is under way that has its
// name or what it claims. So a successor waits for the one before it, and nobody
// else waits. Consequences: what happens is a function of what was noted, and there
// is no order of events in which a source of the list is forgotten.
type table struct {
	// restarts states whether a source is started again after an error that passes,
	// and permanent reports whether an error doesn't pass.
	restarts  bool
	permanent func(error) bool

	order   []string          // of the list
	entries map[string]*entry // those of the list, by name
	lives   []*life           // in the order in which they began
	known   map[string]bool   // names that gone hasn't returned
}

// entry is a source of the list.
type entry struct {
	spec   Spec
	life   *life // nil: not under way
	parked bool  // is not started again for now: state says why
	due    time.Time
	pause  *backoff.ExponentialBackOff

	state       State
	since       time.Time
	reason      string
	restarts    int64
	lastError   string
	lastErrorAt time.Time
}

// life is a source that is under way, from its start until its Run has returned.
type life struct {
	spec    Spec
	state   State // Starting, Running or Stopping
	since   time.Time
	readyAt time.Time
}

func newTable(restarts bool, permanent func(error) bool) *table {
	return &table{restarts: restarts, permanent: permanent, entries: make(map[string]*entry), known: make(map[string]bool)}
}

func newPause() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstPause), backoff.WithMaxInterval(maxPause), backoff.WithMaxElapsedTime(0))
}

// list notes a new list, which has passed [Check]. A source that is the same stays
// as it is; one that has failed is tried again at once.
func (t *table) list(list []Spec, now time.Time) {
	was := t.entries
	t.entries = make(map[string]*entry, len(list))
	t.order = nil
	for _, spec := range list {
		t.order = append(t.order, spec.Name)
		t.known[spec.Name] = true
		e := was[spec.Name]
		if e == nil || !e.spec.same(&spec) {
			e = &entry{spec: spec, due: now, pause: newPause(), state: Waiting, since: now}
		} else if e.state == Failed || e.state == BackingOff {
			e.parked, e.due = false, now
			e.pause.Reset()
		}
		t.entries[spec.Name] = e
	}
}

// next is what is to be done now, and when to ask again if nothing happens; zero:
// not. What it returns is noted as done.
func (t *table) next(now time.Time) (stop, start []*life, wake time.Time) {
	for _, l := range t.lives {
		if e := t.entries[l.spec.Name]; l.state != Stopping && (e == nil || e.life != l) {
			l.state, l.since = Stopping, now
			stop = append(stop, l)
		}
	}
	for _, name := range t.order {
		e := t.entries[name]
		if e.life != nil || e.parked {
			continue
		}
		if e.due.After(now) {
			if wake.IsZero() || e.due.Before(wake) {
				wake = e.due
			}
			continue
		}
		if other := t.obstacle(&e.spec); other != nil {
			e.enter(Waiting, now)
			e.reason = fmt.Sprintf("waits for source %q to stop, which has what it claims", other.spec.Name)
			if other.spec.Name == name {
				e.reason = "waits for the one before it to stop"
			}
			continue
		}
		e.enter(Starting, now)
		e.reason = ""
		e.life = &life{spec: e.spec, state: Starting, since: now}
		t.lives = append(t.lives, e.life)
		start = append(start, e.life)
	}
	return stop, start, wake
}

// gone returns the names that the list has no more and nothing is under way of,
// each once.
func (t *table) gone() (names []string) {
	for name := range t.known {
		if t.entries[name] == nil && !slices.ContainsFunc(t.lives, func(l *life) bool { return l.spec.Name == name }) {
			names = append(names, name)
			delete(t.known, name)
		}
	}
	return names
}

// obstacle is a source under way beside which a spec can't be started, or nil.
func (t *table) obstacle(spec *Spec) *life {
	for _, l := range t.lives {
		if _, _, met := conflict(l.spec.Claims, spec.Claims); met || l.spec.Name == spec.Name {
			return l
		}
	}
	return nil
}

// ready notes that a source has what it needs.
func (t *table) ready(l *life, now time.Time) {
	if l.state != Starting {
		return
	}
	l.state, l.since, l.readyAt = Running, now, now
	if e := t.entries[l.spec.Name]; e != nil && e.life == l {
		e.enter(Running, now)
	}
}

// ended notes that a source has returned.
func (t *table) ended(l *life, err error, now time.Time) {
	t.lives = slices.DeleteFunc(t.lives, func(other *life) bool { return other == l })
	e := t.entries[l.spec.Name]
	if e == nil || e.life != l {
		return // it was asked to stop
	}
	e.life = nil
	if l.state == Stopping {
		e.parked = true
		e.enter(Stopped, now)
		return
	}
	if err == nil {
		e.parked, e.reason = true, ""
		e.enter(Stopped, now)
		return
	}
	e.reason = strings.Join(strings.Fields(err.Error()), " ")
	e.lastError, e.lastErrorAt = e.reason, now
	if !t.restarts || t.permanent(err) {
		e.parked = true
		e.enter(Failed, now)
		return
	}
	if !l.readyAt.IsZero() && now.Sub(l.readyAt) >= healthy {
		e.pause.Reset()
	}
	e.restarts++
	e.due = now.Add(e.pause.NextBackOff())
	e.enter(BackingOff, now)
}

// stopAll notes that all that is under way is to be stopped and nothing started
// any more, and returns the sources that are to be stopped.
func (t *table) stopAll(now time.Time) (stop []*life) {
	for _, l := range t.lives {
		if l.state == Stopping {
			continue
		}
		l.state, l.since = Stopping, now
		if e := t.entries[l.spec.Name]; e != nil && e.life == l {
			e.enter(Stopping, now)
		}
		stop = append(stop, l)
	}
	for _, e := range t.entries {
		e.parked = true
	}
	return stop
}

// over reports whether all sources of the list have come to an end.
func (t *table) over() bool {
	for _, e := range t.entries {
		if !e.parked {
			return false
		}
	}
	return len(t.lives) == 0
}

func (e *entry) enter(s State, now time.Time) {
	if e.state != s {
		e.state, e.since = s, now
	}
}

// status returns the status of all sources: those of the list in its order, and
// then those that are being stopped and are not in it, or not so any more.
func (t *table) status() []Status {
	all := make([]Status, 0, len(t.order))
	for _, name := range t.order {
		e := t.entries[name]
		s := Status{
			Name: name, Kind: e.spec.Kind, State: e.state, Since: e.since, Reason: e.reason,
			Restarts: e.restarts, LastError: e.lastError,
		}
		if !e.lastErrorAt.IsZero() {
			s.LastErrorAt = &e.lastErrorAt
		}
		if due := e.due; e.state == BackingOff {
			s.RetryAt = &due
		}
		if e.spec.Figures != nil {
			s.put(e.spec.Figures())
		}
		if s.State == Running && e.spec.Figures != nil && s.Runs == 0 {
			s.State = Waiting
			s.Reason = "there is no run"
		}
		all = append(all, s)
	}
	for _, l := range t.lives {
		if e := t.entries[l.spec.Name]; e == nil || e.life != l {
			s := Status{Name: l.spec.Name, Kind: l.spec.Kind, State: l.state, Since: l.since, Reason: "the file has it no more, or with other settings"}
			if e == nil && l.spec.Figures != nil {
				s.put(l.spec.Figures())
			}
			all = append(all, s)
		}
	}
	return all
}
