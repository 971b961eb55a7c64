package pileup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

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
// tags look for nothing. The tags must be of all of the read's bases. The error
// is as of [Calls.Read], and unlisted are the codes to which the specification gives no meaning.
func (c *Calls) Pack(a Aligned, tags *modbase.Tags, spans []Span) (packed [][]byte, unlisted []modbase.Code, err error) {
	if tags.Length != 0 && tags.Length != len(a.Bases) {
		return nil, nil, tags.Check(modbase.Sequence{Bases: a.Bases})
	}
	r := &Read{start: int32(a.Start), reverse: a.Reverse, cigar: a.Cigar}
	c.letters = append(c.letters[:0], a.Bases...)
	if err := c.take(r, tags); err != nil {
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

// strand reads what is said of a strand: kinds, and each call in turn.
func (u *unpacker) strand(kinds *[]Kind, s Span, call func(mark)) {
	for range u.uint(maxKinds) {
		k := Kind{u.byte(), u.code()}
		if number[k.Base] > 3 {
			u.bad = true
			return
		}
		*kinds = append(*kinds, k)
	}
	shown := u.byte()
	n := u.uint(uint64(s.End - s.Start))
	outcomes, first := uint(outcomesOf(shown, len(*kinds))), bits.OnesCount8(shown)
	if shown > 15 || n > 0 && outcomes == 0 {
		u.bad = true
		return
	}
	var bare [len(bases)]uint8 // bases of canonical outcomes
	k := 0
	for b := range uint8(len(bases)) {
		if shown>>b&1 == 1 {
			bare[k] = b
			k++
		}
	}
	at := s.Origin
	for i := range n {
		step := u.uint(math.MaxInt32)
		v := uint(u.uint(uint64(most+1) * uint64(outcomes)))
		at += step
		if u.bad || i > 0 && step == 0 || at < s.Start || at >= s.End || v/outcomes > most {
			u.bad = true
			return
		}
		m := mark{at: int32(at), p: uint16(most - v/outcomes)}
		if what := int(v % outcomes); what < first {
			m.what, m.base = canonical, bare[what]
		} else {
			m.what = uint8(what-first) + modified
			m.base = number[(*kinds)[what-first].Base]
		}
		call(m)
	}
}

// Unpack makes a read of its packed calls, of which those below the thresholds fail. Bases may be of the span alone.
func Unpack(a Aligned, packed []byte, s Span, thresholds *Thresholds) (*Read, error) {
	span, query := a.Cigar.Lengths()
	if query != len(a.Bases) {
		return nil, fmt.Errorf("an alignment of %d bases has %d", query, len(a.Bases))
	}
	r := &Read{
		start: int32(a.Start), end: int32(a.Start + span), ref: int32(a.Start), reverse: a.Reverse, cigar: a.Cigar, seq: sam.NewSeq(a.Bases).Seq,
	}
	if len(packed) == 0 {
		return r, nil
	}
	u := unpacker{b: packed}
	for strand := range r.kinds {
		marks := r.marks(strand)
		u.strand(&r.kinds[strand], s, func(m mark) {
			if int(m.p) < thresholds[m.base] {
				m.what = failed
			}
			*marks = append(*marks, m)
		})
	}
	if u.bad || len(u.b) > 0 {
		return nil, errPacked
	}
	return r, nil
}

// Count adds packed calls to a histogram.
func (h *Histogram) Count(packed []byte, s Span) error {
	if len(packed) == 0 {
		return nil
	}
	u := unpacker{b: packed}
	for range 2 {
		var kinds []Kind
		u.strand(&kinds, s, func(m mark) { h[m.base][m.p]++ })
	}
	if u.bad || len(u.b) > 0 {
		return errPacked
	}
	return nil
}
