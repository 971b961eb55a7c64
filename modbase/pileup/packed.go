package pileup

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/modbase"
)

// A read's calls can be packed, with their probabilities, before anybody knows the threshold, and for a stretch of
// the reference alone. stream/FORMAT.md describes the bytes.

// Aligned is where a read lies on the reference.
type Aligned struct {
	Start   int
	Reverse bool
	// Cigar is that of SAM, and Bases what it is of, both on the reference's strand.
	Cigar sam.Cigar
	Bases []byte
}

// Pack is what tags say of an aligned read in each of some stretches of the reference; nothing, if the
// tags have no list. The tags must be of all of the read's bases. The error is as of [Calls.Read], and
// unlisted are the codes to which the specification gives no meaning.
func (c *Calls) Pack(a Aligned, tags *modbase.Tags, spans []Span) (packed [][]byte, unlisted []modbase.Code, err error) {
	if tags.Length != 0 && tags.Length != len(a.Bases) {
		return nil, nil, tags.Check(modbase.Sequence{Bases: a.Bases})
	}
	r := &Read{start: int32(a.Start), reverse: a.Reverse, cigar: a.Cigar}
	c.letters = append(c.letters[:0], a.Bases...)
	if err := c.take(r, tags, packedBases{Length: len(a.Bases), Reversed: r.reverse}); err != nil {
		return nil, nil, err
	}
	for _, s := range spans {
		var b []byte
		if r.Tagged() {
			b = r.pack(nil, s)
		}
		packed = append(packed, b)
	}
	return packed, tags.Unlisted(), nil
}

// Span is positions of the reference, [Start, End), that are counted from an Origin.
type Span struct{ Origin, Start, End int }

func (r *Read) pack(b []byte, s Span) []byte {
	for strand, kinds := range r.kinds {
		marks := within(*r.marks(strand), s)
		var shown uint8 // bases with canonical calls
		for _, m := range marks {
			if m.what == canonical {
				shown |= 1 << m.base
			}
		}
		b = binary.AppendUvarint(b, uint64(len(kinds)))
		for _, k := range kinds {
			b = binary.AppendVarint(append(b, k.Base), int64(k.Code))
		}
		b = binary.AppendUvarint(append(b, shown), uint64(len(marks)))
		outcomes, first := outcomesOf(shown, len(kinds)), bits.OnesCount8(shown)
		at := int32(s.Origin)
		for _, m := range marks {
			what := first + int(m.what) - modified
			if m.what == canonical {
				what = bits.OnesCount8(shown & (1<<m.base - 1))
			}
			b = binary.AppendUvarint(b, uint64(m.at-at))
			b = binary.AppendUvarint(b, uint64((most-int(m.p))*outcomes+what))
			at = m.at
		}
	}
	return b
}

func outcomesOf(shown uint8, kinds int) int { return bits.OnesCount8(shown) + kinds }

func within(marks []mark, s Span) []mark {
	for len(marks) > 0 && int(marks[0].at) < s.Start {
		marks = marks[1:]
	}
	for len(marks) > 0 && int(marks[len(marks)-1].at) >= s.End {
		marks = marks[:len(marks)-1]
	}
	return marks
}

// errPacked is the error of bytes that aren't a read's packed calls.
var errPacked = errors.New("packed calls of modified bases are damaged")

// unpacker reads packed calls.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) uint(limit uint64) int {
	if len(u.b) > 0 && u.b[0] < 0x80 && limit >= 0x80 { // as most are
		v := u.b[0]
		u.b = u.b[1:]
		return int(v)
	}
	v, n := binary.Uvarint(u.b)
	if n <= 0 || v > limit {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return int(v)
}

func (u *unpacker) byte() byte {
	if len(u.b) == 0 {
		u.bad = true
		return 0
	}
	v := u.b[0]
	u.b = u.b[1:]
	return v
}

func (u *unpacker) code() modbase.Code {
	v, n := binary.Varint(u.b)
	if n <= 0 || v < math.MinInt32 || v > math.MaxUint8 || v == 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[n:]
	return modbase.Code(v)
}

// strand appends what is said of a strand: its kinds and calls.
func (u *unpacker) strand(kinds []Kind, marks []mark, s Span) ([]Kind, []mark) {
	for range u.uint(maxKinds) {
		k := Kind{u.byte(), u.code()}
		if number[k.Base] > 3 {
			u.bad = true
			return kinds, marks
		}
		kinds = append(kinds, k)
	}
	shown := u.byte()
	n := u.uint(uint64(s.End - s.Start))
	outcomes, first := uint(outcomesOf(shown, len(kinds))), bits.OnesCount8(shown)
	if shown > 15 || n > 0 && outcomes == 0 || n > len(u.b)/2 { // a call takes two bytes at least
		u.bad = true
		return kinds, marks
	}
	// What a call is by the number of its outcome.
	var what [len(bases) + maxKinds]mark
	k := 0
	for b := range uint8(len(bases)) {
		if shown>>b&1 == 1 {
			what[k] = mark{what: canonical, base: b}
			k++
		}
	}
	for i, kind := range kinds {
		what[first+i] = mark{what: uint8(i) + modified, base: number[kind.Base]}
	}
	before := len(marks)
	marks = slices.Grow(marks, n)[:before+n]
	at, b := s.Origin, u.b
	for i := range n {
		step, width := binary.Uvarint(b)
		if width <= 0 || step > math.MaxInt32 || i > 0 && step == 0 {
			u.bad = true
			return kinds, marks[:before]
		}
		b = b[width:]
		// Most take two bytes.
		var v uint64
		if len(b) > 1 && b[0] >= 0x80 && b[1] < 0x80 {
			v, width = uint64(b[0]&0x7f)|uint64(b[1])<<7, 2
		} else {
			v, width = binary.Uvarint(b)
		}
		at += int(step)
		p := uint(v) / outcomes
		if width <= 0 || v > math.MaxInt32 || at < s.Start || at >= s.End || p > most {
			u.bad = true
			return kinds, marks[:before]
		}
		b = b[width:]
		m := &marks[before+i]
		*m = what[uint(v)-p*outcomes]
		m.at, m.p = int32(at), uint16(most-p)
	}
	u.b = b
	return kinds, marks
}

// Kinds of a segment's operations.
const (
	opMatch = iota // its bases are the contig's
	opMismatch
	opInsertion
	opDeletion
)

// Segment is a read on a stretch of the reference, as differences from it.
type Segment struct {
	Group      int
	Start, End int
	Reverse    bool
	Ops        []byte // uvarints, length<<3 | kind, as stream/FORMAT.md has them
	Bases      []byte // of mismatches and insertions, on the reference's strand
	Contig     []byte // all of it
}

// Unpack makes a read of its packed calls, of which those below the thresholds fail. The segment must have been
// checked, as align.Check does.
func Unpack(of Segment, packed []byte, s Span, thresholds *Thresholds) (*Read, error) {
	r := &Read{start: int32(of.Start), end: int32(of.End), ref: int32(of.Start), reverse: of.Reverse, group: of.Group, ops: of.Ops, differ: of.Bases, contig: of.Contig}
	if len(packed) == 0 {
		return r, nil
	}
	u := unpacker{b: packed}
	for strand := range r.kinds {
		marks := r.marks(strand)
		r.kinds[strand], *marks = u.strand(nil, nil, s)
	}
	if u.bad || len(u.b) > 0 {
		return nil, errPacked
	}
	r.Filter(thresholds)
	return r, nil
}

// Counter counts packed calls. It reuses its buffers, and is not safe for concurrent use.
type Counter struct {
	Histogram
	kinds []Kind
	marks [2][]mark
}

// Check reads packed calls, which [Counter.CountChecked] counts then, and returns an error if they are damaged.
func (c *Counter) Check(packed []byte, s Span) error {
	u := unpacker{b: packed}
	for strand := range c.marks {
		c.marks[strand] = c.marks[strand][:0]
		if len(packed) > 0 {
			c.kinds, c.marks[strand] = u.strand(c.kinds[:0], c.marks[strand], s)
		}
	}
	if u.bad || len(u.b) > 0 {
		c.marks[0], c.marks[1] = c.marks[0][:0], c.marks[1][:0]
		return errPacked
	}
	return nil
}

// Count adds packed calls, or takes them away again, by a number of times. If they are damaged it adds nothing.
func (c *Counter) Count(packed []byte, s Span, times int64) error {
	if err := c.Check(packed, s); err != nil {
		return err
	}
	c.CountChecked(times)
	return nil
}

// CountChecked is [Counter.Count] of the calls that were checked last.
func (c *Counter) CountChecked(times int64) {
	for _, marks := range c.marks {
		for _, m := range marks {
			c.Histogram[m.base][m.p] += times
		}
	}
}
