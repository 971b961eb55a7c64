package adaptive

import "fmt"

// Mode is what targets are for.
type Mode int

const (
	// Off decides nothing.
	Off Mode = iota
	// Enrich ejects reads that lie elsewhere than on the targets.
	Enrich
	// Deplete ejects reads that lie on the targets.
	Deplete
)

func (m Mode) String() string { return [...]string{"off", "enrich", "deplete"}[m] }

// MarshalText implements [encoding.TextMarshaler].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads off, enrich or deplete.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, mode := range []Mode{Off, Enrich, Deplete} {
		if string(text) == mode.String() {
			*m = mode
			return nil
		}
	}
	return fmt.Errorf("%q is neither off nor enrich nor deplete", text)
}

// Action is what is to become of a read.
type Action int

const (
	// Wait says that the read is to be evaluated again when there is more of it.
	Wait Action = iota
	// Continue sequences the read to its end.
	Continue
	// Unblock ejects the read from its pore.
	Unblock
)

func (a Action) String() string { return [...]string{"wait", "continue", "unblock"}[a] }

// MarshalText implements [encoding.TextMarshaler].
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads continue or unblock.
func (a *Action) UnmarshalText(text []byte) error {
	for _, action := range []Action{Continue, Unblock} {
		if string(text) == action.String() {
			*a = action
			return nil
		}
	}
	return fmt.Errorf("%q is neither continue nor unblock", text)
}

// Reason is why an action was chosen.
type Reason int

const (
	// OnTarget: the read lies on a target.
	OnTarget Reason = iota
	// OffTarget: the read lies elsewhere.
	OffTarget
	// Mixed: some parts of the read lie on a target and some elsewhere.
	Mixed
	// Ambiguous: where the read lies is not certain, as in a repeat.
	Ambiguous
	// Unaligned: the read lies nowhere on the reference.
	Unaligned
	// TooShort: too few bases could be called.
	TooShort
	reasons
)

func (r Reason) String() string {
	return [...]string{"on_target", "off_target", "mixed", "ambiguous", "unaligned", "too_short"}[r]
}

// Reasons lists all reasons.
func Reasons() []Reason {
	all := make([]Reason, reasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
