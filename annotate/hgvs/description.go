package hgvs

import (
	"strconv"
	"strings"
)

// Description is a parsed variant description.
type Description struct {
	Reference string // accession or name of the sequence
	Selector  string // what stands in parentheses behind it: a transcript, protein or gene; "" if nothing does
	Type      byte   // 'g', 'm', 'o', 'c' or 'n'
	Alleles   []Allele
}

// Allele is a list of changes on one molecule.
type Allele struct {
	Changes []Change
	// Unphased says that it is not known on which molecule this is, relative to the allele before: "(;)".
	Unphased bool
	// Bare says that the allele stands without brackets, which it can only with one change.
	Bare bool
}

// Kind is the kind of a change.
type Kind uint8

// The kinds of changes.
const (
	Equal Kind = iota // as the reference has it
	Substitution
	Deletion
	Duplication
	Inversion
	Insertion
	Delins
	Repeat
)

// Change is one change.
type Change struct {
	Kind Kind
	// Whole says that Equal is about the whole sequence: there is no Location.
	Whole    bool
	Location Location
	// Ref are the bases that the description says are there now, "" if it does not say; Size is their number where
	// only that is said, or 0.
	Ref  string
	Size int
	// New holds the bases that a substitution, insertion or delins puts in, or the units of a Repeat; a unit
	// without bases stands for the bases at Location.
	New []Part
}

// Location is a position, or a range of positions with both its ends.
type Location struct {
	Start Point
	End   Point // as Start unless Range
	Range bool
}

// Point is a position, or, if it is uncertain, the two that it lies between.
type Point struct {
	Position
	Uncertain bool
	To        Position // with Uncertain: the later bound
}

// Position counts bases as the nomenclature does, from 1.
type Position struct {
	Base    int
	Region  byte // '-' before the start codon, '*' behind the stop codon, else 0
	Offset  int  // into an intron: negative before Base, positive behind it
	Unknown bool // "?"
	// End is 'p' for "pter", the first base of the reference, and 'q' for "qter", its last; else 0.
	End byte
	// UnknownOffset is the sign of an offset that is not known, "+?" or "-?", else 0.
	UnknownOffset byte
}

// Part is a piece of sequence.
type Part struct {
	Bases string // upper case; "" if the piece is copied from elsewhere
	// Reference names another sequence that the piece is copied from, with the Type of its positions; "" if it is
	// the one described.
	Reference string
	Type      byte
	Location  *Location // where the piece is copied from, if Bases is ""
	Inverted  bool
	Copies    int // how many times; 1 unless said
	Counted   bool
}

// String prints d in the form that Parse reads.
func (d Description) String() string {
	var b strings.Builder
	b.WriteString(d.Reference)
	if d.Selector != "" {
		b.WriteString("(" + d.Selector + ")")
	}
	b.WriteString(":" + string(d.Type) + ".")
	for i, a := range d.Alleles {
		if i > 0 {
			if a.Unphased {
				b.WriteString("(;)")
			} else {
				b.WriteString(";")
			}
		}
		b.WriteString(a.String())
	}
	return b.String()
}

// String prints the changes, in brackets unless there are none.
func (a Allele) String() string {
	s := make([]string, len(a.Changes))
	for i, c := range a.Changes {
		s[i] = c.String()
	}
	if a.Bare {
		return strings.Join(s, ";")
	}
	return "[" + strings.Join(s, ";") + "]"
}

// String prints the change without its reference.
func (c Change) String() string {
	if c.Whole {
		return "="
	}
	ref := c.Ref
	if c.Size > 0 {
		ref = strconv.Itoa(c.Size)
	}
	at := c.Location.String()
	switch c.Kind {
	case Equal:
		return at + ref + "="
	case Substitution:
		return at + ref + ">" + parts(c.New)
	case Deletion:
		return at + "del" + ref
	case Duplication:
		return at + "dup" + ref
	case Inversion:
		return at + "inv" + ref
	case Insertion:
		return at + "ins" + parts(c.New)
	case Delins:
		return at + "del" + ref + "ins" + parts(c.New)
	}
	for _, u := range c.New {
		at += u.String()
	}
	return at
}

func parts(list []Part) string {
	if len(list) == 1 && list[0].Reference == "" {
		return list[0].String()
	}
	s := make([]string, len(list))
	for i, p := range list {
		s[i] = p.String()
	}
	return "[" + strings.Join(s, ";") + "]"
}

// String prints the piece.
func (p Part) String() string {
	s := p.Bases
	if p.Location != nil {
		if p.Reference != "" {
			s = p.Reference + ":" + string(p.Type) + "."
		}
		s += p.Location.String()
	}
	if p.Inverted {
		s += "inv"
	}
	if p.Counted {
		s += "[" + strconv.Itoa(p.Copies) + "]"
	}
	return s
}

// Uncertain reports whether some end of l is not known exactly.
func (l Location) Uncertain() bool {
	return l.Start.unknown() || l.End.unknown()
}

func (p Point) unknown() bool { return p.Uncertain || p.Unknown || p.UnknownOffset != 0 }

// String prints the location.
func (l Location) String() string {
	if !l.Range {
		return l.Start.String()
	}
	return l.Start.String() + "_" + l.End.String()
}

// String prints the point.
func (p Point) String() string {
	if p.Uncertain {
		return "(" + p.Position.String() + "_" + p.To.String() + ")"
	}
	return p.Position.String()
}

// String prints the position.
func (p Position) String() string {
	if p.Unknown {
		return "?"
	}
	if p.End != 0 {
		return string(p.End) + "ter"
	}
	s := strconv.Itoa(p.Base)
	if p.Region != 0 {
		s = string(p.Region) + s
	}
	switch {
	case p.UnknownOffset != 0:
		s += string(p.UnknownOffset) + "?"
	case p.Offset != 0:
		if p.Offset > 0 {
			s += "+"
		}
		s += strconv.Itoa(p.Offset)
	}
	return s
}
