package cram

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// What CF says of a record (section 10.1).
const (
	keptQualities = 1
	keptMate      = 2
	hasNext       = 4
	noBases       = 8
)

// Flags of SAM that the decoder uses.
const (
	flagPaired       = 0x1
	flagUnmapped     = 0x4
	flagMateUnmapped = 0x8
	flagReverse      = 0x10
	flagMateReverse  = 0x20
	flagFirst        = 0x40
)

// record is a decoded one. Its bytes are its slice's.
type record struct {
	number    int // in its slice, from 0
	flags     uint16
	kept      int32 // CF
	reference int32 // -1: none
	start     int32 // from 1; 0: none
	end       int32 // the last base of the reference that it covers
	length    int32 // in bases
	quality   byte  // of its mapping
	name      []byte

	mateReference, mateStart, span int32
	next                           int // number of the next record of its template; 0: there is none

	bases     []byte // nil: none
	qualities []byte // nil: none
	// Where its tags, as BAM has them, and its operations are in the slice's.
	tagsFrom, tagsTo, cigarFrom, cigarTo int
}

// read reads the next record. position is that of the one before.
func (s *slice) read(r *record, position *int32) error {
	in := s.series
	r.flags, r.kept = uint16(in.flags()), in.kept()
	if r.reference = s.head.reference; r.reference == severalReferences {
		r.reference = in.reference()
	}
	if r.reference < -1 || int(r.reference) >= len(s.file.references) {
		return fmt.Errorf("there is no reference sequence %d", r.reference)
	}
	r.length, r.start = in.length(), in.start()
	if s.scheme.delta {
		r.start += *position
		*position = r.start
	}
	group := in.group()
	if s.scheme.named {
		r.name = in.name()
	}
	s.readMate(r)
	if s.fail.err != nil {
		return s.fail.err
	}
	if r.length < 0 || r.start < 0 || !s.spend(2*int(r.length)) {
		return fmt.Errorf("a read of %d bases at position %d", r.length, r.start)
	}
	if err := checkName(r.name); err != nil {
		return err
	}
	r.tagsFrom = len(s.tags)
	hasMD, hasNM, err := s.readTags()
	if err != nil {
		return err
	}
	if r.flags&flagUnmapped == 0 {
		if err := s.readMapped(r); err != nil {
			return err
		}
		if err := s.addDifferences(r, hasMD, hasNM); err != nil {
			return err
		}
	} else {
		s.readUnmapped(r)
	}
	if group >= 0 {
		if int(group) >= len(s.file.groups) {
			return fmt.Errorf("there is no read group %d", group)
		}
		s.tags = append(append(append(s.tags, "RGZ"...), s.file.groups[group]...), 0)
	}
	r.tagsTo = len(s.tags)
	return nil
}

// checkName says whether BAM can hold a name.
func checkName(name []byte) error {
	const longest = 254
	if len(name) > longest || bytes.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("a name of %d bytes: BAM has 1 to %d", len(name), longest)
	}
	return nil
}

// readMate reads what a record says of the next of its template: all, or which record that is.
func (s *slice) readMate(r *record) {
	in := s.series
	r.mateReference = -1
	switch {
	case r.kept&keptMate != 0:
		flags := in.mateFlags()
		if flags&1 != 0 {
			r.flags |= flagMateReverse
		}
		if flags&2 != 0 {
			r.flags |= flagMateUnmapped
		}
		if !s.scheme.named {
			r.name = in.name()
		}
		r.mateReference, r.mateStart, r.span = in.mateReference(), in.mateStart(), in.span()
		if r.flags&flagPaired == 0 {
			r.mateReference = -1 // as other readers have it
		}
		if r.mateReference < -1 || int(r.mateReference) >= len(s.file.references) {
			s.fail.set(fmt.Errorf("there is no reference sequence %d", r.mateReference))
		}
	case r.kept&hasNext != 0:
		skipped := in.next()
		if r.next = r.number + int(skipped) + 1; skipped < 0 || r.next >= int(s.head.records) {
			s.fail.set(fmt.Errorf("the next record of the template is %d further of %d", skipped, s.head.records))
		}
	}
}

// widths are the bytes of tags of one size.
var widths = map[byte]int{'A': 1, 'c': 1, 'C': 1, 's': 2, 'S': 2, 'i': 4, 'I': 4, 'f': 4}

// ownTag is one that samtools writes for itself alone, and that is in no specification: it says of a
// record that it never had MD, or NM, or both, where the bases that are embedded aren't those of the
// reference that it was aligned to.
const (
	ownTag  = "cFC"
	ownNoMD = 1
	ownNoNM = 2
)

// readTags appends a record's tags, as BAM has them, to the slice's. It reports whether MD and NM are
// among them: the decoder makes these two where they are missing.
func (s *slice) readTags() (hasMD, hasNM bool, err error) {
	list := s.series.tagList()
	if list < 0 || int(list) >= len(s.scheme.tagLists) {
		return false, false, fmt.Errorf("there is no list %d of tags", list)
	}
	for _, key := range s.scheme.tagLists[list] {
		next := s.series.tags[key]
		if next == nil {
			return false, false, fmt.Errorf("there is no series of tag %v", key)
		}
		value := next()
		if string(key[:]) == ownTag && len(value) == 1 {
			hasMD = hasMD || value[0]&ownNoMD != 0
			hasNM = hasNM || value[0]&ownNoNM != 0
			continue
		}
		switch kind := key[2]; {
		case kind == 'Z' || kind == 'H':
			value = bytes.TrimRight(value, "\x00")
			if bytes.IndexByte(value, 0) >= 0 {
				return false, false, fmt.Errorf("tag %v has a text with a zero byte", key)
			}
		case kind == 'B':
			if err := checkArray(value); err != nil {
				return false, false, fmt.Errorf("tag %v: %w", key, err)
			}
		case widths[kind] == 0 || widths[kind] != len(value):
			return false, false, fmt.Errorf("tag %v has %d bytes", key, len(value))
		}
		if !s.spend(len(value) + 4) {
			return false, false, errLarge
		}
		s.tags = append(append(s.tags, key[:]...), value...)
		if key[2] == 'Z' || key[2] == 'H' {
			s.tags = append(s.tags, 0)
		}
		hasMD = hasMD || string(key[:2]) == "MD"
		hasNM = hasNM || string(key[:2]) == "NM"
	}
	return hasMD, hasNM, nil
}

// checkArray says whether a tag's array is as long as it says.
func checkArray(value []byte) error {
	in := newStream(value)
	kind, n := in.byte(), in.int32()
	if in.fail.err != nil || kind == 'A' || widths[kind] == 0 || int64(uint32(n))*int64(widths[kind]) != int64(len(in.data)) {
		return errors.New("the array isn't as long as it says")
	}
	return nil
}

// readUnmapped reads the bases of a record that is aligned to nothing.
func (s *slice) readUnmapped(r *record) {
	r.end = r.start
	if bases := s.series.base.take(int(r.length)); r.kept&noBases == 0 && r.length > 0 {
		r.bases = bases
	}
	s.readQualities(r)
}

// readQualities reads qualities that stand in a row.
func (s *slice) readQualities(r *record) {
	if r.kept&keptQualities != 0 {
		if r.qualities = s.series.score.take(int(r.length)); len(r.qualities) == 0 {
			r.qualities = nil
		}
	}
}

// generatedName is the name of a record whose name was left out.
func (s *slice) generatedName(r *record) []byte {
	name := append([]byte(s.names), ':')
	return strconv.AppendInt(name, s.head.first+int64(r.number)+1, 10)
}
