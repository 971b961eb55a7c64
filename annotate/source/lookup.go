package source

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// Entry is what a store found. It points into the file and is good until the store is closed.
type Entry struct {
	Match annotate.Match
	// Start and End are the entry's place: inter-residue, 0-based.
	Start, End int

	store  *Store
	record []byte
}

// Find appends the entries that concern change to dst: those of the same allele first, then those of its atoms (see
// [vrs.Edit.Atoms]), if it has several, then those of the same bases, then those that overlap; within these by place, and
// in the order of the source. The change's alleles may be spelled in any way; a change of a contig that the store has
// nothing about finds nothing. For a change that is its own only atom it allocates nothing but dst.
func (s *Store) Find(dst []Entry, c annotate.Change) ([]Entry, error) {
	m := s.contigs[c.Contig]
	if m == nil {
		return dst, nil
	}
	if c.Symbolic() {
		return s.intervals(dst, m, c.Start, c.End, "", c.Alt, nil)
	}
	e := c.Contig.Left(vrs.Edit{Start: c.Start, Ref: c.Ref, Alt: c.Alt})
	dst, err := s.alleles(dst, m, e, annotate.MatchExact)
	if err != nil {
		return dst, err
	}
	var atoms []vrs.Edit
	if s.exact {
		atoms = atomsOf(e, c.Contig)
	}
	for _, a := range atoms {
		if dst, err = s.alleles(dst, m, a, annotate.MatchAtom); err != nil {
			return dst, err
		}
	}
	if s.position {
		if dst, err = s.positions(dst, m, e, atoms); err != nil {
			return dst, err
		}
	}
	if !s.overlap {
		return dst, nil
	}
	return s.intervals(dst, m, e.Start, e.End(), e.Alt, "", atoms)
}

// atomsOf are the changes that a trimmed one is made of, left-aligned, by place; nil for one that is its own only atom.
func atomsOf(e vrs.Edit, contig *genome.Contig) []vrs.Edit {
	if e.Ref == "" || e.Alt == "" || len(e.Ref)+len(e.Alt) == 2 {
		return nil
	}
	atoms := e.Atoms()
	if len(atoms) < 2 {
		return nil
	}
	for i := range atoms {
		atoms[i] = contig.Left(atoms[i])
	}
	slices.SortStableFunc(atoms, func(a, b vrs.Edit) int { return cmp.Compare(a.Start, b.Start) })
	return atoms
}

// alleles finds entries of e, as matches of a kind.
func (s *Store) alleles(dst []Entry, m *contigMeta, e vrs.Edit, match annotate.Match) ([]Entry, error) {
	if m.Rows == 0 || e.Start > m.Length {
		return dst, nil
	}
	rows, err := s.bucket(m, e.Start)
	if err != nil {
		return dst, err
	}
	key := rowKey(e.Start, code(e))
	for i := search(rows, key); i < len(rows)/rowSize && binary.LittleEndian.Uint64(rows[i*rowSize:]) == key; i++ {
		if dst, err = s.allele(dst, rows[i*rowSize:], e, match); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// positions finds entries of other changes of the bases that e changes, but for its atoms.
func (s *Store) positions(dst []Entry, m *contigMeta, e vrs.Edit, atoms []vrs.Edit) ([]Entry, error) {
	if m.Rows == 0 || e.Start > m.Length {
		return dst, nil
	}
	rows, err := s.bucket(m, e.Start)
	if err != nil {
		return dst, err
	}
	for i := search(rows, rowKey(e.Start, 0)); i < len(rows)/rowSize; i++ {
		if k := binary.LittleEndian.Uint64(rows[i*rowSize:]); int(k>>32) != e.Start {
			break
		}
		before := len(dst)
		for _, a := range atoms {
			if a.Start == e.Start && len(a.Ref) == len(e.Ref) {
				if dst, err = s.allele(dst, rows[i*rowSize:], a, annotate.MatchAtom); err != nil {
					return dst, err
				}
			}
		}
		if len(dst) > before { // it was found as an atom
			dst = dst[:before]
			continue
		}
		if dst, err = s.allele(dst, rows[i*rowSize:], e, annotate.MatchPosition); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// bucket is the rows among which those that begin at start are.
func (s *Store) bucket(m *contigMeta, start int) ([]byte, error) {
	ends, err := s.bytes(m.BucketsAt+4*int64(start>>m.Shift), 8)
	if err != nil {
		return nil, err
	}
	from, to := binary.LittleEndian.Uint32(ends), binary.LittleEndian.Uint32(ends[4:])
	if from > to || int64(to) > int64(m.Rows) {
		return nil, fmt.Errorf("index of %s: %w", m.Name, ErrDamaged)
	}
	return s.bytes(m.RowsAt+rowSize*int64(from), rowSize*int64(to-from))
}

// search is the number of the first row with at least that key.
func search(rows []byte, key uint64) int {
	lo, hi := 0, len(rows)/rowSize
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if binary.LittleEndian.Uint64(rows[mid*rowSize:]) < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// allele appends the entry of a row if it matches so.
func (s *Store) allele(dst []Entry, row []byte, e vrs.Edit, match annotate.Match) ([]Entry, error) {
	c := uint32(binary.LittleEndian.Uint64(row))
	record, err := s.record(int64(binary.LittleEndian.Uint64(row[8:])))
	if err != nil {
		return dst, err
	}
	span, same := codedRef(c), c == code(e)
	if isLong(c) {
		ref, alt, err := spelled(record)
		if err != nil {
			return dst, fmt.Errorf("source %s: %w", s.Meta.Name, err)
		}
		span, same = ref, ref == len(e.Ref) && string(alt) == e.Alt
	}
	if same == (match == annotate.MatchPosition) || span != len(e.Ref) && match == annotate.MatchPosition {
		return dst, nil
	}
	return append(dst, Entry{Match: match, Start: e.Start, End: e.Start + span, store: s, record: record}), nil
}

// record is the record at an offset.
func (s *Store) record(at int64) ([]byte, error) {
	head, err := s.bytes(at, min(binary.MaxVarintLen64, int64(len(s.data))-at))
	if err != nil {
		return nil, fmt.Errorf("source %s: record: %w", s.Meta.Name, err)
	}
	size, n := binary.Uvarint(head)
	if n <= 0 || size > uint64(len(s.data)) {
		return nil, fmt.Errorf("source %s: record: %w", s.Meta.Name, ErrDamaged)
	}
	return s.bytes(at+int64(n), int64(size))
}

// spelled is the allele that a record spells: the number of reference bases, and the new bases.
func spelled(record []byte) (int, []byte, error) {
	text, err := ownText(record, fieldAllele)
	if err != nil {
		return 0, nil, err
	}
	for i, b := range text {
		if b == ':' {
			n, err := strconv.Atoi(string(text[:i]))
			return n, text[i+1:], err
		}
	}
	return 0, nil, errRecord
}

// ownText is the text of one of the fields before the source's own; nil if there is none.
func ownText(record []byte, field int) ([]byte, error) {
	for len(record) > 0 {
		v, rest, err := nextValue(record)
		if err != nil {
			return nil, err
		}
		if v.field == field {
			return v.text, nil
		}
		if v.field >= ownFields {
			break
		}
		record = rest
	}
	return nil, nil
}

// ID is the entry's identifier, or "".
func (e *Entry) ID() (string, error) {
	b, err := ownText(e.record, fieldID)
	return string(b), err
}

// Known renders the entry. What it returns does not depend on the store any more.
func (e *Entry) Known() (annotate.Known, error) {
	m := &e.store.Meta
	k := annotate.Known{Source: m.Name, Version: m.Version, Date: m.Date, Match: e.Match}
	for record := e.record; len(record) > 0; {
		v, rest, err := nextValue(record)
		if err != nil {
			return k, fmt.Errorf("source %s: %w", m.Name, err)
		}
		record = rest
		switch {
		case v.field == fieldID:
			k.ID = string(v.text)
			continue
		case v.field < ownFields:
			continue
		case v.field-ownFields >= len(m.Fields):
			return k, fmt.Errorf("source %s: %w", m.Name, errRecord)
		}
		text, err := e.store.text(&v)
		if err != nil {
			return k, fmt.Errorf("source %s: %w", m.Name, err)
		}
		f := &m.Fields[v.field-ownFields]
		k.Fields = append(k.Fields, annotate.KnownField{Name: f.Name, Type: f.Type, List: f.List(), Value: text})
	}
	return k, nil
}

// text is a value's text.
func (s *Store) text(v *value) (string, error) {
	switch v.form {
	case formFlag:
		return "", nil
	case formText:
		return string(v.text), nil
	case formDict:
		b, err := s.dictionary(v.dict)
		return string(b), err
	}
	var b [48]byte
	return string(v.num.append(b[:0])), nil
}

// dictionary is text n of the dictionary.
func (s *Store) dictionary(n uint64) ([]byte, error) {
	d := &s.Meta.Dictionary
	if n >= uint64(d.Count) {
		return nil, errRecord
	}
	from := uint64(0)
	at := d.At + 8*int64(n)
	if n > 0 {
		b, err := s.bytes(at-8, 8)
		if err != nil {
			return nil, err
		}
		from = binary.LittleEndian.Uint64(b)
	}
	b, err := s.bytes(at, 8)
	if err != nil {
		return nil, err
	}
	to := binary.LittleEndian.Uint64(b)
	if from > to || to > uint64(d.Size) {
		return nil, ErrDamaged
	}
	return s.bytes(d.At+8*int64(d.Count)+int64(from), int64(to-from))
}

// place names the entry's place on a contig, 1-based.
func (e *Entry) place(contig string) string {
	var b strings.Builder
	b.WriteString(contig)
	b.WriteByte(':')
	first, last := e.Start+1, e.End
	if first > last {
		first, last = last, first
	}
	b.WriteString(strconv.Itoa(first))
	b.WriteByte('-')
	b.WriteString(strconv.Itoa(last))
	return b.String()
}
