// Package record keeps the tags of modified bases in SAM records true: it reads them, cuts them
// with their read, and takes them away where they are of another read.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/modbase"
)

// names are those of the tags, and those that they had before the specification knew them.
var names = [...][2]string{{"MM", "Mm"}, {"ML", "Ml"}, {"MN", "Mn"}}

// find is where a tag is among the fields, by either name; -1: nowhere.
func find(fields sam.AuxFields, names [2]string) int {
	for _, name := range names {
		for i, aux := range fields {
			if len(aux) > 2 && string(aux[:2]) == name {
				return i
			}
		}
	}
	return -1
}

// Tags reads the tags of a record or a FASTQ title; nil, and no error, if there are none. Probabilities are
// parts of the fields, which must not be changed. Errors are
// those of [modbase.Parse], and modbase.ErrLength of an MN that is no number.
func Tags(fields sam.AuxFields) (*modbase.Tags, error) {
	at := find(fields, names[0])
	if at < 0 {
		return nil, nil //nolint:nilnil // a read need not have tags
	}
	if fields[at].Type() != 'Z' {
		return nil, fmt.Errorf("%w: it is no text", modbase.ErrSyntax)
	}
	mm := string(fields[at][3:])
	var ml []byte
	if at = find(fields, names[1]); at >= 0 {
		aux := fields[at]
		if len(aux) < 8 || aux.Type() != 'B' || aux[3] != 'C' {
			return nil, fmt.Errorf("%w: it is no array of bytes", modbase.ErrProbabilities)
		}
		ml = aux[8:len(aux):len(aux)]
	}
	length := 0
	if at = find(fields, names[2]); at >= 0 {
		var ok bool
		if length, ok = number(fields[at]); !ok || length < 1 {
			return nil, fmt.Errorf("%w: it is no length", modbase.ErrLength)
		}
	}
	return modbase.Parse(mm, ml, length)
}

// number is the value of a tag that is a whole number, of whatever width.
func number(aux sam.Aux) (int, bool) {
	switch value := aux[3:]; aux.Type() {
	case 'c':
		return int(int8(value[0])), true
	case 'C':
		return int(value[0]), true
	case 's':
		return int(int16(binary.LittleEndian.Uint16(value))), true
	case 'S':
		return int(binary.LittleEndian.Uint16(value)), true
	case 'i':
		return int(int32(binary.LittleEndian.Uint32(value))), true
	case 'I':
		return int(binary.LittleEndian.Uint32(value)), true
	}
	return 0, false
}

// Sequence is the sequence of a record, which has none of its bases written as =.
func Sequence(rec *sam.Record) modbase.Sequence {
	return modbase.Sequence{Bases: rec.Seq.Expand(), Reversed: rec.Flags&sam.Reverse != 0}
}

// Set writes tags in the places that they have among the fields, or as the last.
func Set(fields sam.AuxFields, tags *modbase.Tags) (sam.AuxFields, error) {
	values := [...]any{tags.MM(), tags.ML(), nil}
	if tags.Length > 0 {
		values[2] = uint32(tags.Length)
	}
	for i, value := range values {
		if b, ok := value.([]byte); value == nil || ok && b == nil {
			continue
		}
		aux, err := newAux(names[i][0], value)
		if err != nil {
			return nil, err
		}
		if at := find(fields, names[i]); at >= 0 {
			copy(aux, fields[at][:2])
			fields[at] = aux
		} else {
			fields = append(fields, aux)
		}
	}
	return fields, nil
}

// newAux makes a field. Texts and arrays may be empty, which the library doesn't take.
func newAux(name string, value any) (sam.Aux, error) {
	switch v := value.(type) {
	case string:
		return append(sam.Aux(name+"Z"), v...), nil
	case []byte:
		return append(binary.LittleEndian.AppendUint32(sam.Aux(name+"BC"), uint32(len(v))), v...), nil
	}
	return sam.NewAux(sam.NewTag(name), value)
}

// Drop takes the tags away.
func Drop(fields sam.AuxFields) sam.AuxFields {
	return slices.DeleteFunc(fields, func(aux sam.Aux) bool {
		return len(aux) > 2 && slices.ContainsFunc(names[:], func(of [2]string) bool {
			return string(aux[:2]) == of[0] || string(aux[:2]) == of[1]
		})
	})
}

// Kept are the fields of a read without its tags of modified bases, if those are not of this read: what
// they would say of it would be untrue. The error says why they were dropped.
func Kept(fields sam.AuxFields, s modbase.Sequence) (sam.AuxFields, error) {
	tags, err := Tags(fields)
	if err == nil && tags != nil {
		err = tags.Check(s)
	}
	if err != nil {
		return Drop(fields), err
	}
	return fields, nil
}

// Faults counts reads by what is wrong with their tags. The zero value is ready.
type Faults struct {
	reasons [len(kinds)]Fault
}

// Fault is one reason, with the first read that it is true of.
type Fault struct {
	Reason error  // one of package modbase's
	Reads  int64  // how many
	First  string // the first one's name
	Detail error  // what is wrong with it
}

// kinds are the reasons in the order of Faults.
var kinds = [...]error{modbase.ErrSyntax, modbase.ErrProbabilities, modbase.ErrBehind, modbase.ErrLength, modbase.ErrNoProbabilities, modbase.ErrSum, modbase.ErrKinds}

// Add counts a read by one of package modbase's errors.
func (f *Faults) Add(read string, err error) {
	for i, kind := range kinds {
		if !errors.Is(err, kind) {
			continue
		}
		if f.reasons[i].Reads++; f.reasons[i].Reads == 1 {
			f.reasons[i].Reason, f.reasons[i].First, f.reasons[i].Detail = kind, read, err
		}
		return
	}
}

// reasons are words for kinds.
var reasons = [len(kinds)]string{"syntax", "probabilities", "behind", "length", "no_probabilities", "sum", "kinds"}

// Reasons are the words of [Reason].
func Reasons() []string { return slices.Clone(reasons[:]) }

// Reason is a word for one of package modbase's errors, as a metric has it.
func Reason(err error) string {
	for i, kind := range kinds {
		if errors.Is(err, kind) {
			return reasons[i]
		}
	}
	return reasons[0]
}

// List are the reasons that there were.
func (f *Faults) List() []Fault {
	return slices.DeleteFunc(slices.Clone(f.reasons[:]), func(one Fault) bool { return one.Reads == 0 })
}

// Placed yields the calls of an aligned record that are opposite a base of the reference, with their
// place there, from 0 on, in the order of [modbase.Tags.Calls]. The tags must be of the record.
func Placed(rec *sam.Record, tags *modbase.Tags) iter.Seq2[modbase.Call, int] {
	return func(yield func(modbase.Call, int) bool) {
		s := Sequence(rec)
		places := make([]int, len(s.Bases))
		query, ref := 0, rec.Pos
		for _, op := range rec.Cigar {
			n, takes := op.Len(), op.Type().Consumes()
			for i := query; i < min(query+n*takes.Query, len(places)); i++ {
				if places[i] = -1; takes.Reference == 1 {
					places[i] = ref + i - query
				}
			}
			query += n * takes.Query
			ref += n * takes.Reference
		}
		for call := range tags.Calls(s) {
			at := call.At
			if s.Reversed {
				at = len(places) - 1 - at
			}
			if places[at] >= 0 && !yield(call, places[at]) {
				return
			}
		}
	}
}
