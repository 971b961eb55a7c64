package stream

import (
	"context"
	"time"
)

// State is what a handler has folded its records into, in a form that can be
// kept and given back. Its methods are called between records, from the
// goroutine that calls the handler's, and are pure: no clock, no I/O.
//
// The state is divided into sections, so that only what has changed is written
// anew. Taken together, the sections written after a record are a function of
// the records up to it: a handler that was given them, and then the records
// behind, can't be distinguished from one that has seen all records.
type State interface {
	// Format says how sections are to be read and what they depend on.
	Format() StateFormat
	// Sections lists all sections, ordered by name.
	Sections() []Section
	// AppendSection appends the content of a section to b. The bytes are a
	// function of the records: equal states give equal bytes.
	AppendSection(b []byte, name string) ([]byte, error)
	// RestoreSection gives a section back to a new handler. The sections of a
	// state come in any order. b is not kept.
	RestoreSection(name string, b []byte) error
}

// StateFormat identifies what can read a state.
type StateFormat struct {
	// Stage is the stage's name.
	Stage string
	// Version counts changes of the encoding. A newer program reads every older
	// version.
	Version int
	// Fingerprint is a hash over everything besides the records that the state
	// depends on: reference, models, thresholds. A state with another
	// fingerprint is of no use.
	Fingerprint string
}

// Section is one part of a state.
type Section struct {
	// Name identifies it within the state.
	Name string
	// Version changes whenever the content may have: it is compared with an
	// earlier one's of the same handler alone.
	Version uint64
}

// Ticker is a Handler to which the passing of time matters, such as for closing
// what never ends. Whatever a tick brings about has to become a record: the
// result stays a function of the records.
type Ticker interface {
	// Tick is called about every 2 s while the partition is live. now is the
	// worker's clock.
	Tick(ctx context.Context, now time.Time, emit Emitter) error
}
