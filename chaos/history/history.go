// Package history is the record of a chaos run: what was done to whom and when, and what was seen from outside. It is a file of
// JSON lines, one event each, so that grep and jq can read what the checker reads.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Kind says what an event is about.
type Kind string

// The kinds of events.
const (
	// RunBegins is the first event: Name is the command line.
	RunBegins Kind = "run-begins"
	// Scheduled is a fault of the schedule, before anything has happened.
	Scheduled Kind = "scheduled"
	// FaultBegins and FaultEnds enclose a fault: Name is its kind, Target who it is done to, Fault its number. What is over at once, as a
	// kill is, has an end too: when the harness has put things right again.
	FaultBegins Kind = "fault-begins"
	FaultEnds   Kind = "fault-ends"
	// ProcessStarts and ProcessExits are the start and the end of Name with PID; an exit carries Code, negative for a signal, and
	// Expected if the harness wanted it.
	ProcessStarts Kind = "process-starts"
	ProcessExits  Kind = "process-exits"
	// StopsLate is a process that had to be killed because it did not stop in time when it was asked to.
	StopsLate Kind = "stops-late"
	// Sample is what a group has committed of a partition of its input, and where the last committed record of that ends. It is noted
	// whenever either changes.
	Sample Kind = "sample"
	// Output is where the last committed record of a topic's partition ends, noted whenever that changes.
	Output Kind = "output"
	// Healed is when the last fault was over, SignalEnds when every recording had been played, and RunEnds when every run had come to
	// its end downstream and all of it was committed.
	Healed     Kind = "healed"
	SignalEnds Kind = "signal-ends"
	RunEnds    Kind = "run-ends"
	// Note is for the reader alone.
	Note Kind = "note"
)

// Event is one line of a history. Which members are set depends on the kind.
type Event struct {
	// At is the time since the run began, in milliseconds.
	At   int64 `json:"at_ms"`
	Kind Kind  `json:"kind"`

	Name   string `json:"name,omitempty"`
	Target string `json:"target,omitempty"`
	Detail string `json:"detail,omitempty"`

	Fault    int  `json:"fault,omitempty"`
	PID      int  `json:"pid,omitempty"`
	Code     int  `json:"code,omitempty"`
	Expected bool `json:"expected,omitempty"`

	Group     string `json:"group,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition,omitempty"`
	Offset    int64  `json:"offset,omitempty"` // committed; -1 for none
	End       int64  `json:"end,omitempty"`
}

// Since is the time since the run began.
func (e Event) Since() time.Duration { return time.Duration(e.At) * time.Millisecond }

// Log writes a history and keeps it. It is safe for concurrent use.
type Log struct {
	now   func() time.Time
	begun time.Time

	mu     sync.Mutex
	out    *json.Encoder
	events []Event
	err    error
}

// NewLog begins a history that is written to w.
func NewLog(w io.Writer, now func() time.Time) *Log {
	return &Log{now: now, begun: now(), out: json.NewEncoder(w)}
}

// Add notes an event, which happens now.
func (l *Log) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = l.now().Sub(l.begun).Milliseconds()
	l.events = append(l.events, e)
	if err := l.out.Encode(e); err != nil && l.err == nil {
		l.err = fmt.Errorf("writing the history: %w", err)
	}
}

// Events returns what has been noted so far, and the first error of writing it.
func (l *Log) Events() ([]Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)], l.err
}

// maxLine bounds an event.
const maxLine = 1 << 20

// Read reads a history.
func Read(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("reading a history: line %d: %w", n, err)
		}
		if e.Kind == "" {
			return nil, fmt.Errorf("reading a history: line %d: %w", n, errNoKind)
		}
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading a history: %w", err)
	}
	return events, nil
}

var errNoKind = errors.New("an event without a kind")
