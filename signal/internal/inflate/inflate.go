// Package inflate unpacks zlib data that lie whole in memory, as records of BLOW5 do.
//
// compress/zlib and its relatives read from a stream, byte by byte, through a window.
// Here source and output are slices: bits are taken from the source eight bytes at a
// time, several literals are decoded for each such load, and the output is its own
// window. Signal is nearly all literals, for which this takes about half the time.
//
// Specification: RFC 1950 (zlib), RFC 1951 (DEFLATE). The layout of the tables follows
// Eric Biggers' libdeflate.
package inflate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"slices"
)

var (
	// ErrCorrupt is wrapped by the errors for data that are not zlib's.
	ErrCorrupt = errors.New("corrupt zlib data")
	// ErrLimit says that data unpack to more than is allowed.
	ErrLimit = errors.New("zlib data unpack to more than allowed")
)

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

var errTruncated = fmt.Errorf("%w: they end too early", ErrCorrupt)

// Decoder holds the tables that one piece of data at a time needs. The zero Decoder is
// ready for use.
type Decoder struct {
	lit     [litSize]entry
	dist    [distSize]entry
	pre     [1 << preBits]entry
	lengths [maxLit + maxDist]uint8
}

// Zlib appends what src unpacks to, which must be one zlib stream and nothing else, and
// no more than limit bytes. On an error it returns dst unchanged.
func (d *Decoder) Zlib(dst, src []byte, limit int) ([]byte, error) {
	const deflate, dictionary = 8, 1 << 5
	switch {
	case len(src) < 2:
		return dst, errTruncated
	case src[0]&0xf != deflate || src[0]>>4 > 7 || binary.BigEndian.Uint16(src)%31 != 0:
		return dst, corrupt("they begin with %x", src[:2])
	case src[1]&dictionary != 0:
		return dst, corrupt("they need a dictionary")
	}
	start := len(dst)
	out, rest, err := d.inflate(dst, src[2:], limit)
	switch {
	case err != nil:
		return dst, err
	case len(rest) < 4:
		return dst, errTruncated
	case len(rest) > 4:
		return dst, corrupt("%d bytes left over", len(rest)-4)
	case binary.BigEndian.Uint32(rest) != adler32.Checksum(out[start:]):
		return dst, corrupt("the checksum differs")
	}
	return out, nil
}

// Kinds of blocks.
const (
	stored = iota
	fixed
	dynamic
)

// inflate unpacks a DEFLATE stream and returns what follows it.
func (d *Decoder) inflate(dst, src []byte, limit int) (out, rest []byte, err error) {
	s := source{bytes: src}
	w := window{out: dst[:cap(dst)], start: len(dst), end: len(dst), limit: limit}
	for last := false; !last; {
		if err := s.fill(); err != nil {
			return dst, nil, err
		}
		last = s.take(1) == 1
		switch s.take(2) {
		case stored:
			err = s.copyStored(&w)
		case fixed:
			d.fixed()
			err = d.block(&s, &w)
		case dynamic:
			if err = d.dynamic(&s); err == nil {
				err = d.block(&s, &w)
			}
		default:
			err = corrupt("a block of an unknown kind")
		}
		if err != nil {
			return dst, nil, err
		}
	}
	if w.end-w.start > limit {
		return dst, nil, ErrLimit
	}
	rest, err = s.rest()
	return w.out[:w.end], rest, err
}

// window is the output.
type window struct {
	out        []byte // with room behind end
	start, end int
	limit      int
}

// slack is more than what is written between two looks at how much room there is.
const slack = 512

// grow makes room for n bytes.
func (w *window) grow(n int) error {
	if len(w.out)-w.end >= n {
		return nil
	}
	if w.end-w.start > w.limit {
		return ErrLimit
	}
	most := w.start + w.limit + n
	want := min(max(2*len(w.out), w.end+max(n, 4<<10)), most)
	w.out = slices.Grow(w.out[:w.end], want-w.end)
	w.out = w.out[:cap(w.out)]
	return nil
}

// source is the bits that are to be decoded.
type source struct {
	bytes []byte
	at    int    // of the bytes that are not in word
	word  uint64 // bits, the next in the lowest
	n     uint   // of them
	// beyond is how many of the bytes in word are zeros behind the end.
	beyond uint
}

// fill makes sure of 56 bits, of which those behind the end are zeros; but bits behind
// the end that were taken are an error.
func (s *source) fill() error {
	if s.n < 8*s.beyond {
		return errTruncated
	}
	if s.at+8 <= len(s.bytes) {
		// What is in the word above its n bits is what is loaded there again.
		s.word |= binary.LittleEndian.Uint64(s.bytes[s.at:]) << (s.n & 63)
		s.at += int((63 - s.n) >> 3)
		s.n |= 56
		return nil
	}
	s.word &= 1<<s.n - 1
	for ; s.n < 56; s.n += 8 {
		if s.at == len(s.bytes) {
			s.beyond++
			continue
		}
		s.word |= uint64(s.bytes[s.at]) << s.n
		s.at++
	}
	return nil
}

// take takes n bits that are there.
func (s *source) take(n uint) uint {
	v := uint(s.word) & (1<<n - 1)
	s.word >>= n
	s.n -= n
	return v
}

// rest returns the whole bytes behind the bits that were taken, and goes there.
func (s *source) rest() ([]byte, error) {
	if s.n < 8*s.beyond {
		return nil, errTruncated
	}
	s.at -= int(s.n/8 - s.beyond)
	s.word, s.n, s.beyond = 0, 0, 0
	return s.bytes[s.at:], nil
}

// copyStored copies a block that is not compressed.
func (s *source) copyStored(w *window) error {
	rest, err := s.rest()
	if err != nil {
		return err
	}
	if len(rest) < 4 {
		return errTruncated
	}
	n := binary.LittleEndian.Uint16(rest)
	if n != ^binary.LittleEndian.Uint16(rest[2:]) {
		return corrupt("a stored block's length differs from its complement")
	}
	if len(rest) < 4+int(n) {
		return errTruncated
	}
	if err := w.grow(int(n)); err != nil {
		return err
	}
	w.end += copy(w.out[w.end:], rest[4:4+int(n)])
	s.at += 4 + int(n)
	return nil
}

// block unpacks a compressed block by the tables.
func (d *Decoder) block(s *source, w *window) error {
	const litMask, distMask = 1<<litBits - 1, 1<<distBits - 1
	for {
		if len(w.out)-w.end < slack {
			if err := w.grow(slack); err != nil {
				return err
			}
		}
		if err := s.fill(); err != nil {
			return err
		}
		word, n := s.word, s.n
		e := d.lit[word&litMask]
		if e&literal != 0 {
			// Four literals of the table take 44 of 56 bits at most. With anything
			// else behind them it goes on after the next load.
			out := (*[4]byte)(w.out[w.end:])
			i := 1
			out[0] = byte(e >> baseAt)
			word, n = word>>(e&codeBits), n-uint(e&codeBits)
			if e = d.lit[word&litMask]; e&literal != 0 {
				out[1] = byte(e >> baseAt)
				word, n = word>>(e&codeBits), n-uint(e&codeBits)
				i = 2
				if e = d.lit[word&litMask]; e&literal != 0 {
					out[2] = byte(e >> baseAt)
					word, n = word>>(e&codeBits), n-uint(e&codeBits)
					i = 3
					if e = d.lit[word&litMask]; e&literal != 0 {
						out[3] = byte(e >> baseAt)
						word, n = word>>(e&codeBits), n-uint(e&codeBits)
						i = 4
					}
				}
			}
			w.end += i
			s.word, s.n = word, n
			continue
		}
		if e&subtable != 0 {
			s.take(litBits)
			e = d.lit[(uint64(e>>baseAt)+s.word&(1<<(e>>extraAt&extraBits)-1))%litSize]
			if e&literal != 0 {
				s.take(uint(e & codeBits))
				w.out[w.end] = byte(e >> baseAt)
				w.end++
				continue
			}
		}
		if e&special != 0 {
			if e&endOfBlock == 0 {
				return corrupt("a code that there is not")
			}
			s.take(uint(e & codeBits))
			return nil
		}
		s.take(uint(e & codeBits))
		length := int(e>>baseAt) + int(s.take(uint(e>>extraAt&extraBits)))

		e = d.dist[s.word&distMask]
		if e&subtable != 0 {
			s.take(distBits)
			e = d.dist[(uint64(e>>baseAt)+s.word&(1<<(e>>extraAt&extraBits)-1))%distSize]
		}
		if e&special != 0 {
			return corrupt("a distance that there is not")
		}
		s.take(uint(e & codeBits))
		distance := int(e>>baseAt) + int(s.take(uint(e>>extraAt&extraBits)))
		if distance > w.end-w.start {
			return corrupt("a distance of %d, %d bytes behind the beginning", distance, w.end-w.start)
		}
		// Where the two overlap, what was copied is copied on.
		for to := w.out[w.end : w.end+length]; len(to) > 0; {
			n := copy(to, w.out[w.end-distance:w.end])
			to = to[n:]
			w.end += n
		}
	}
}
