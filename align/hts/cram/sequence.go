package cram

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// sequences are the reference sequences of a file, as far as they have been needed.
type sequences struct {
	bases func(name string) []byte

	mu      sync.Mutex
	checked map[int32]bool // whole
}

// contig is a reference sequence, or the part of it that a slice has.
type contig struct {
	id    int32 // -2: none yet
	bases []byte
	from  int32 // position of the first, from 1
	known bool  // false: all bases stand in the records
}

// use makes the reference sequence of a record, which needs it, the slice's.
func (s *slice) use(id int32) {
	if id == s.contig.id {
		return
	}
	c := contig{id: id, from: 1}
	switch {
	case id < 0:
	case s.head.embedded >= 0:
		c.bases, c.from, c.known = s.external(s.head.embedded).data, s.head.start, true
	case s.scheme.byReference:
		var err error
		if c.bases, err = s.source.get(id, s.file.references[id], s.head); err != nil {
			s.fail.set(err)
		}
		c.known = true
	}
	s.contig = c
}

// get returns a reference sequence, which is made sure to be what the slice was written with.
func (q *sequences) get(id int32, r reference, head *sliceHeader) ([]byte, error) {
	if q.bases == nil {
		return nil, wrongReference("the reads of this CRAM file are kept by their differences to %s: name the FASTA that they are aligned to", r.name)
	}
	bases := q.bases(r.name)
	if bases == nil {
		return nil, wrongReference("the reference FASTA has no sequence %s, to which reads are aligned: name the FASTA that the file was written with", r.name)
	}
	if len(bases) != r.length {
		return nil, wrongReference("%s has %d bases in the file's header and %d in the reference FASTA: name the FASTA that the file was written with", r.name, r.length, len(bases))
	}
	if head.reference == id && head.sum != [16]byte{} {
		from := min(max(int(head.start)-1, 0), len(bases))
		to := min(max(from+int(head.span), from), len(bases))
		if md5.Sum(bases[from:to]) != head.sum { //nolint:gosec // CRAM has no other
			return nil, wrongReference("bases %d to %d of %s are others in the reference FASTA than those that the file was written with (MD5): name that FASTA", from+1, to, r.name)
		}
		return bases, nil
	}
	return bases, q.check(id, r, bases)
}

// check compares a sequence with what the file's header has of it, once: slices of several references
// have no sums.
func (q *sequences) check(id int32, r reference, bases []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.checked[id] || r.sum == nil {
		return nil
	}
	if sum := md5.Sum(bases); !bytes.Equal(sum[:], r.sum) { //nolint:gosec // CRAM has no other
		return wrongReference("%s is another in the reference FASTA than the file was written with (MD5 %x in its header, %x there): name that FASTA", r.name, r.sum, sum)
	}
	if q.checked == nil {
		q.checked = make(map[int32]bool)
	}
	q.checked[id] = true
	return nil
}

func (c *contig) has(position int32) bool {
	i := int(position) - int(c.from)
	return i >= 0 && i < len(c.bases)
}

// at is the base at a position, N where there is none.
func (c *contig) at(position int32) byte {
	if c.has(position) {
		return c.bases[position-c.from]
	}
	return 'N'
}

// fill writes the bases from a position on, N where there are none.
func (c *contig) fill(to []byte, position int32) {
	i := int(position) - int(c.from)
	for len(to) > 0 && (i < 0 || i >= len(c.bases)) {
		to[0], to = 'N', to[1:]
		i++
	}
	n := 0
	if len(to) > 0 {
		n = copy(to, c.bases[i:])
	}
	for k := n; k < len(to); k++ {
		to[k] = 'N'
	}
}

// Operations of a CIGAR, as BAM numbers them.
const (
	opMatch = iota
	opInsertion
	opDeletion
	opSkip
	opSoft
	opHard
	opPad
)

// aligned is a record whose features are read.
type aligned struct {
	*slice
	*record
	covered  int   // bases of the read so far
	position int32 // of the reference that comes next
	sequence []byte
	scores   []byte // qualities that the record gives one by one; nil: none
}

// readMapped reads the features of an aligned record: where it isn't its reference (section 10.6).
// What they leave out is the reference's.
func (s *slice) readMapped(r *record) error {
	in := s.series
	a := &aligned{slice: s, record: r, position: r.start, sequence: s.arena.take(int(r.length))}
	r.cigarFrom = len(s.cigars)
	features := int(in.features())
	if features < 0 || features > 8*int(r.length)+1<<16 {
		return fmt.Errorf("%d differences in %d bases", features, r.length)
	}
	place := 0
	for range features {
		code := in.feature.next()
		place += int(in.place())
		if s.fail.err != nil {
			return s.fail.err
		}
		if place < 1 || place > int(r.length)+1 {
			return fmt.Errorf("a difference at base %d of %d", place, r.length)
		}
		if err := a.feature(code, place); err != nil {
			return err
		}
	}
	a.reach(int(r.length) + 1)
	r.end = a.position - 1
	r.cigarTo = len(s.cigars)
	r.quality = byte(in.quality())
	r.qualities = a.givenQualities()
	s.readQualities(r)
	if r.kept&noBases == 0 && r.length > 0 {
		r.bases = a.sequence
	} else {
		r.qualities = nil
	}
	return s.fail.err
}

// reach fills the bases before a place from the reference, where the record gives none.
func (a *aligned) reach(place int) {
	n := place - 1 - a.covered
	if n <= 0 {
		return
	}
	if a.kept&noBases == 0 {
		a.use(a.reference)
		a.contig.fill(a.sequence[a.covered:place-1], a.position)
	}
	a.covered += n
	a.move(opMatch, n)
}

// move adds an operation to the CIGAR.
func (a *aligned) move(op uint32, n int) {
	if n == 0 {
		return
	}
	if last := len(a.cigars) - 1; last >= a.cigarFrom && a.cigars[last]&15 == op {
		a.cigars[last] += uint32(n) << 4
	} else {
		a.cigars = append(a.cigars, uint32(n)<<4|op)
	}
	if op == opMatch || op == opDeletion || op == opSkip {
		a.position += int32(n)
	}
}

// put writes bases of the read that the record gives.
func (a *aligned) put(op uint32, text ...byte) error {
	if len(text) > len(a.sequence)-a.covered {
		return fmt.Errorf("%d bases at base %d of %d", len(text), a.covered+1, len(a.sequence))
	}
	a.covered += copy(a.sequence[a.covered:], text)
	a.move(op, len(text))
	return nil
}

// score writes qualities that the record gives at a place.
func (a *aligned) score(place int, values ...byte) error {
	if place-1+len(values) > len(a.sequence) {
		return fmt.Errorf("%d qualities at base %d of %d", len(values), place, len(a.sequence))
	}
	if a.scores == nil {
		a.scores = bytes.Repeat([]byte{0xff}, len(a.sequence))
	}
	copy(a.scores[place-1:], values)
	return nil
}

// givenQualities returns the qualities of a record that gives qualities one by one, nil if it gives none. A quality
// that the record doesn't give is 30, as in other readers.
func (a *aligned) givenQualities() []byte {
	const unspecified = 30
	if !slices.ContainsFunc(a.scores, func(q byte) bool { return q != 0xff }) {
		return nil
	}
	return bytes.ReplaceAll(a.scores, []byte{0xff}, []byte{unspecified})
}

// feature reads one.
func (a *aligned) feature(code byte, place int) error {
	in := a.series
	a.reach(place)
	if code != 'Q' && code != 'q' && a.covered != place-1 {
		return fmt.Errorf("two differences at base %d", place)
	}
	stretch := func(op uint32, n int32) error {
		const longest = 1<<28 - 1 // that an operation can be
		if n < 0 || n > longest || int64(a.position)+int64(n) > 1<<31-1 {
			return fmt.Errorf("a difference of %d bases", n)
		}
		a.move(op, int(n))
		return nil
	}
	switch code {
	case 'X':
		a.use(a.reference)
		return a.put(opMatch, a.scheme.substitute(a.contig.at(a.position), in.substitution.next()))
	case 'B':
		if err := a.put(opMatch, in.base.next()); err != nil {
			return err
		}
		return a.score(place, in.score.next())
	case 'b':
		return a.put(opMatch, in.stretch()...)
	case 'I':
		return a.put(opInsertion, in.inserted()...)
	case 'i':
		return a.put(opInsertion, in.base.next())
	case 'S':
		return a.put(opSoft, in.soft()...)
	case 'D':
		return stretch(opDeletion, in.deleted())
	case 'N':
		return stretch(opSkip, in.skipped())
	case 'P':
		return stretch(opPad, in.padded())
	case 'H':
		return stretch(opHard, in.clipped())
	case 'Q':
		return a.score(place, in.score.next())
	case 'q':
		return a.score(place, in.scores()...)
	}
	return fmt.Errorf("a difference of kind %q", code)
}

// addDifferences adds the tags MD and NM to an aligned record that lacks them, where the reference is
// known (SAM optional fields specification 1.1).
func (s *slice) addDifferences(r *record, hasMD, hasNM bool) error {
	if hasMD && hasNM || r.bases == nil || s.source.bases == nil && s.head.embedded < 0 {
		return nil
	}
	if s.use(r.reference); !s.contig.known {
		return s.fail.err
	}
	from := len(s.tags)
	s.tags = append(s.tags, "MDZ"...)
	base, position, same, edits := 0, r.start, int64(0), uint32(0)
	for _, op := range s.cigars[r.cigarFrom:r.cigarTo] {
		n := int(op >> 4)
		switch op & 15 {
		case opMatch:
			for range n {
				other := s.contig.at(position)
				switch {
				case !s.contig.has(position): // behind the contig's end there is no base to compare with
				case other == r.bases[base] && other != 'N': // to the specification of tags, N matches nothing
					same++
				default:
					s.tags = append(strconv.AppendInt(s.tags, same, 10), other)
					same = 0
					edits++
				}
				base++
				position++
			}
		case opInsertion:
			base += n
			edits += uint32(n)
		case opSoft:
			base += n
		case opDeletion:
			if !s.spend(n) {
				return errLarge
			}
			s.tags = append(strconv.AppendInt(s.tags, same, 10), '^')
			same = 0
			edits += uint32(n)
			for range n {
				s.tags = append(s.tags, s.contig.at(position))
				position++
			}
		case opSkip:
			position += int32(n)
		}
	}
	s.tags = append(strconv.AppendInt(s.tags, same, 10), 0)
	if hasMD {
		s.tags = s.tags[:from]
	}
	if !hasNM {
		s.tags = append(s.tags, 'N', 'M', 'I', byte(edits), byte(edits>>8), byte(edits>>16), byte(edits>>24))
	}
	return nil
}
