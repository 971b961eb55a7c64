// Package packed is the compact binary form that stages keep their state in:
// unsigned varints, and byte strings behind their length.
//
// Append functions write; a [Reader] reads what may be damaged or hostile. It
// never gives out more than it was given, so what a caller allocates for a
// count that Count has passed is in proportion to the input.
package packed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
)

// AppendUint appends v.
func AppendUint[T ~uint8 | ~uint32 | ~uint64](b []byte, v T) []byte {
	return binary.AppendUvarint(b, uint64(v))
}

// AppendLen appends a count or an offset, which is not negative.
func AppendLen(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

// AppendInt appends a signed number.
func AppendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendBool appends v.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendBytes appends s behind its length.
func AppendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendStrings appends a list behind how many it has.
func AppendStrings(b []byte, list []string) []byte {
	b = AppendLen(b, len(list))
	for _, s := range list {
		b = AppendBytes(b, s)
	}
	return b
}

// AppendMessage appends a protobuf message behind its length. The same message
// gives the same bytes in one build of the program.
func AppendMessage(b []byte, m proto.Message) ([]byte, error) {
	opts := proto.MarshalOptions{Deterministic: true}
	b = binary.AppendUvarint(b, uint64(opts.Size(m)))
	return opts.MarshalAppend(b, m)
}

// Reader reads what the Append functions wrote. The first error sticks: every
// later read gives zero, and [Reader.Done] returns the error.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b, of which it keeps no copy.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// errShort is what every read of too few bytes says.
var errShort = errors.New("ends in the middle")

// Fail notes that what was read makes no sense, unless something was wrong
// before.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
		r.b = nil
	}
}

// Err is what was wrong so far.
func (r *Reader) Err() error { return r.err }

// Done is what was wrong, bytes that nobody read included.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		return fmt.Errorf("%d bytes too many", len(r.b))
	}
	return r.err
}

// Version reads the byte that says which version of its encoding follows, from
// 1 to newest.
func (r *Reader) Version(newest byte) byte {
	v := r.Byte()
	if v == 0 || v > newest {
		r.Fail("version %d, and this program reads up to %d: it was written by a newer one", v, newest)
	}
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) == 0 {
		r.fail(errShort)
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Bool reads a bool.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail("%d is neither yes nor no", v)
	}
	return v == 1
}

// Uint reads a number of at most limit.
func (r *Reader) Uint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if !r.took(n) {
		return 0
	}
	if v > limit {
		r.Fail("%d is more than %d", v, limit)
		return 0
	}
	return v
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.b)
	if !r.took(n) {
		return 0
	}
	return v
}

// Len reads a count or an offset of at most limit.
func (r *Reader) Len(limit int) int { return int(r.Uint(uint64(max(0, limit)))) }

// Count reads how many elements follow, each of at least size bytes, size > 0.
func (r *Reader) Count(size int) int {
	n := r.Uint(math.MaxUint64)
	if most := uint64(len(r.b) / size); n > most {
		r.Fail("%d elements where there is space for %d", n, most)
		return 0
	}
	return int(n)
}

// Bytes reads at most limit bytes, which stay part of the input.
func (r *Reader) Bytes(limit int) []byte { return r.Fixed(r.Len(limit)) }

// Fixed reads n bytes that no length is in front of; they stay part of the
// input.
func (r *Reader) Fixed(n int) []byte {
	if n > len(r.b) {
		r.fail(errShort)
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// Rest reads all that is left.
func (r *Reader) Rest() []byte { return r.Fixed(len(r.b)) }

// String reads a string of at most limit bytes.
func (r *Reader) String(limit int) string { return string(r.Bytes(limit)) }

// Strings reads a list of strings of at most limit bytes each.
func (r *Reader) Strings(limit int) []string {
	var list []string
	for range r.Count(1) {
		list = append(list, r.String(limit))
	}
	return list
}

// Message reads a protobuf message into m.
func (r *Reader) Message(m proto.Message) {
	b := r.Bytes(len(r.b))
	if r.err != nil {
		return
	}
	if err := proto.Unmarshal(b, m); err != nil {
		r.fail(err)
	}
}

// took moves on by the n bytes of a varint; n <= 0 is a varint that isn't one.
func (r *Reader) took(n int) bool {
	switch {
	case n > 0:
		r.b = r.b[n:]
		return true
	case n == 0:
		r.fail(errShort)
	default:
		r.Fail("number of more than 64 bits")
	}
	return false
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
		r.b = nil
	}
}
