package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// MaxPositionText bounds a position's text form, in bytes. Brokers take 4096 in
// the metadata of an offset commit unless configured otherwise
// (offset.metadata.max.bytes).
const MaxPositionText = 3072

// positionV1 begins the text form of version 1.
const positionV1 = "p1."

// ErrPositionTooLong says that a position has more open spans than an offset
// commit can carry.
var ErrPositionTooLong = errors.New("position has too many open records for an offset commit")

// Span is a range of offsets, from Start to before End.
type Span struct{ Start, End int64 }

// Position says which records of an input partition are dealt with: all before
// Offset, and those before Next that are in no open span. Records may be dealt
// with out of order, and a single offset could not express that.
//
// Its text form travels in the metadata of the commit of Offset, so that the
// partition's next owner neither leaves out a record nor deals with one twice.
type Position struct {
	// Origin is the offset that the handler's state began with: it is a fold of
	// the records from Origin on. A log that begins later can't restore it
	// without a snapshot.
	Origin int64
	// Offset is the first record that is not dealt with. It is what is committed.
	Offset int64
	// Next is behind the last record that is dealt with, and equal to Offset when
	// that is the one before Offset.
	Next int64
	// Open are the spans of records in [Offset, Next) that are not dealt with, in
	// order and not adjacent. The first begins with Offset; the last ends before
	// Next. Offsets in a span that are no records, such as transaction markers,
	// mean nothing.
	Open []Span
}

// PositionAt is the position of a handler that has dealt with all records from
// origin to before offset.
func PositionAt(origin, offset int64) Position {
	return Position{Origin: origin, Offset: offset, Next: offset}
}

// Done reports whether the record at offset is dealt with.
func (p Position) Done(offset int64) bool {
	switch {
	case offset < p.Offset:
		return true
	case offset >= p.Next:
		return false
	}
	i, _ := slices.BinarySearchFunc(p.Open, offset, func(s Span, offset int64) int {
		if s.End <= offset {
			return -1
		}
		return 1
	})
	return i == len(p.Open) || offset < p.Open[i].Start
}

// Trim returns the position with the first n open spans: it no longer lists the
// records behind them that are dealt with.
func (p Position) Trim(n int) Position {
	if n >= len(p.Open) {
		return p
	}
	p.Next = p.Offset
	if n > 0 {
		p.Next = p.Open[n].Start
	}
	p.Open = p.Open[:n:n]
	return p
}

// Equal reports whether p and q are the same.
func (p Position) Equal(q Position) bool {
	return p.Origin == q.Origin && p.Offset == q.Offset && p.Next == q.Next && slices.Equal(p.Open, q.Open)
}

// Validate says what is wrong with a position, if anything is.
func (p Position) Validate() error {
	if p.Origin < 0 || p.Offset < p.Origin || p.Next < p.Offset {
		return fmt.Errorf("origin %d, offset %d and next %d are out of order", p.Origin, p.Offset, p.Next)
	}
	if (len(p.Open) == 0) != (p.Next == p.Offset) {
		return fmt.Errorf("%d open spans from %d to %d", len(p.Open), p.Offset, p.Next)
	}
	at := p.Offset - 1
	for i, s := range p.Open {
		if s.Start <= at || s.End <= s.Start || s.End >= p.Next || i == 0 && s.Start != p.Offset {
			return fmt.Errorf("open span %d to %d does not fit", s.Start, s.End)
		}
		at = s.End
	}
	return nil
}

// MarshalText encodes the position. It fails with [ErrPositionTooLong] when the
// text exceeds MaxPositionText.
//
// The text is "p1." and then, in unpadded base64url, unsigned varints and a
// CRC-32C (little endian, of "p1." and the varints). The varints are Origin,
// Offset-Origin, and from Offset to Next the lengths of the spans in turn: open,
// dealt with, open and so on, ending with one that is dealt with.
func (p Position) MarshalText() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("encoding position: %w", err)
	}
	b := binary.AppendUvarint([]byte(positionV1), uint64(p.Origin))
	b = binary.AppendUvarint(b, uint64(p.Offset-p.Origin))
	for i, s := range p.Open {
		b = binary.AppendUvarint(b, uint64(s.End-s.Start))
		done := p.Next
		if i+1 < len(p.Open) {
			done = p.Open[i+1].Start
		}
		b = binary.AppendUvarint(b, uint64(done-s.End))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if base64.RawURLEncoding.EncodedLen(len(b)-len(positionV1)) > MaxPositionText-len(positionV1) {
		return nil, fmt.Errorf("encoding position: %w", ErrPositionTooLong)
	}
	return base64.RawURLEncoding.AppendEncode([]byte(positionV1), b[len(positionV1):]), nil
}

// UnmarshalText decodes what MarshalText has written.
func (p *Position) UnmarshalText(text []byte) error {
	if len(text) > MaxPositionText {
		return fmt.Errorf("decoding position: %d bytes, at most %d are possible", len(text), MaxPositionText)
	}
	encoded, ok := strings.CutPrefix(string(text), positionV1)
	if !ok || strings.ContainsAny(encoded, "\r\n") { // which base64 would pass over
		return errors.New("decoding position: not a position, or one of a newer version")
	}
	b, err := base64.RawURLEncoding.Strict().AppendDecode([]byte(positionV1), []byte(encoded))
	if err != nil {
		return fmt.Errorf("decoding position: %w", err)
	}
	sum := len(b) - crc32.Size
	if sum < len(positionV1) || crc32.Checksum(b[:sum], castagnoli) != binary.LittleEndian.Uint32(b[sum:]) {
		return errors.New("decoding position: truncated or damaged")
	}
	decoded, err := decodePosition(b[len(positionV1):sum])
	if err != nil {
		return fmt.Errorf("decoding position: %w", err)
	}
	*p = decoded
	return nil
}

func decodePosition(b []byte) (Position, error) {
	// at is where the lengths read so far lead to.
	var at int64
	step := func() error {
		n, size := binary.Uvarint(b)
		if size <= 0 || size > 1 && b[size-1] == 0 {
			return errors.New("malformed number")
		}
		if b = b[size:]; n > uint64(maxOffset-at) {
			return errors.New("offset out of range")
		}
		at += int64(n)
		return nil
	}
	var p Position
	if err := step(); err != nil {
		return Position{}, err
	}
	p.Origin = at
	if err := step(); err != nil {
		return Position{}, err
	}
	p.Offset = at
	for len(b) > 0 {
		s := Span{Start: at}
		if err := step(); err != nil {
			return Position{}, err
		}
		s.End = at
		if err := step(); err != nil {
			return Position{}, err
		}
		p.Open = append(p.Open, s)
	}
	p.Next = at
	return p, p.Validate()
}

// maxOffset is the highest offset that is taken for one.
const maxOffset int64 = 1<<62 - 1
