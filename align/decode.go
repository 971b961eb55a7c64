package align

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/porestream/porestream/stream/streampb"
)

// MaxSegmentSpan is the most reference bases, and MaxSegmentQuery the most read
// bases, that a segment covers. The second bounds what a record with absurd
// insertions can make a consumer hold.
const (
	MaxSegmentSpan  = RegionWidth + 2*RegionHalo
	MaxSegmentQuery = 4 * MaxSegmentSpan
)

// Ops reads the operations of a checked Segment.
type Ops []byte

// Next is the next operation and what follows it; ok is false at the end.
func (o Ops) Next() (op Op, rest Ops, ok bool) {
	if len(o) > 0 && o[0] < 0x80 { // as most are
		return Op{OpKind(o[0] & 7), int(o[0] >> 3)}, o[1:], true
	}
	v, n := binary.Uvarint(o)
	if n <= 0 {
		return Op{}, nil, false
	}
	return Op{OpKind(v & 7), int(v >> 3)}, o[n:], true
}

// Extent is the size of a segment.
type Extent struct {
	Reference int // reference bases from the first to the last column
	Query     int // read bases
}

// Check says whether a segment that came from outside is one that Segments could
// have made for a contig of the given length, and how far it extends. After it,
// Ops and slices of the segment's fields need no further checks.
func Check(s *streampb.Segment, contigLength int) (Extent, error) {
	var e Extent
	if s.GetReadId() == "" {
		return e, errors.New("checking segment: no read id")
	}
	if err := check(s, contigLength, &e); err != nil {
		return e, fmt.Errorf("checking segment of read %q on %s: %w", s.GetReadId(), s.GetContig(), err)
	}
	return e, nil
}

func check(s *streampb.Segment, contigLength int, e *Extent) error {
	bases := 0
	first, last := Insertion, Insertion
	for ops := s.GetOps(); len(ops) > 0; {
		v, n := binary.Uvarint(ops)
		if n <= 0 {
			return errors.New("truncated operation")
		}
		ops = ops[n:]
		kind := OpKind(v & 7)
		if kind > Deletion {
			return fmt.Errorf("unknown operation %d", kind)
		}
		// Bound before converting, so that sums can't overflow.
		if v>>3 == 0 || v>>3 > MaxSegmentQuery {
			return fmt.Errorf("operation of %d columns", v>>3)
		}
		length := int(v >> 3)
		if kind.onReference() {
			e.Reference += length
		}
		if kind.onQuery() {
			e.Query += length
		}
		if kind == Mismatch || kind == Insertion {
			bases += length
		}
		if e.Reference > MaxSegmentSpan || e.Query > MaxSegmentQuery {
			return errors.New("longer than a region")
		}
		if first == Insertion {
			first = kind
			if kind >= Insertion {
				return errors.New("starts with a gap")
			}
		}
		last = kind
	}
	if e.Reference == 0 {
		return errors.New("no operations")
	}
	if last >= Insertion {
		return errors.New("ends with a gap")
	}
	if bases != len(s.GetBases()) {
		return fmt.Errorf("%d bases, the operations need %d", len(s.GetBases()), bases)
	}
	for _, b := range s.GetBases() {
		if b != 'A' && b != 'C' && b != 'G' && b != 'T' && b != 'N' {
			return fmt.Errorf("base %q", b)
		}
	}
	if n := len(s.GetQualities()); n != 0 && n != e.Query {
		return fmt.Errorf("%d qualities for %d bases", n, e.Query)
	}
	if n := len(s.GetDwells()); n != 0 && n != e.Query {
		return fmt.Errorf("%d dwells for %d bases", n, e.Query)
	}

	region := int64(s.GetRegion())
	lo, hi := region*RegionWidth, min((region+1)*RegionWidth, int64(contigLength))
	if lo >= hi {
		return fmt.Errorf("region %d lies outside the contig of %d bases", region, contigLength)
	}
	start, end := s.GetStart(), s.GetStart()+int64(e.Reference)
	if start < max(0, lo-RegionHalo) || start >= hi || end > min(hi+RegionHalo, int64(contigLength)) || end <= lo {
		return fmt.Errorf("positions %d-%d lie outside region %d", start, end, region)
	}
	return nil
}

// Query rebuilds the read bases of a checked segment on the reference's strand;
// ref is the whole contig.
func Query(s *streampb.Segment, ref []byte) []byte {
	var out []byte
	rpos, bases := int(s.GetStart()), s.GetBases()
	for op, rest, ok := Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		switch op.Kind {
		case Match:
			out = append(out, ref[rpos:rpos+op.Len]...)
		case Mismatch, Insertion:
			out = append(out, bases[:op.Len]...)
			bases = bases[op.Len:]
		}
		if op.Kind.onReference() {
			rpos += op.Len
		}
	}
	return out
}
