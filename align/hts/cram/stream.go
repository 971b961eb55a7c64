package cram

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// failure is the first thing that was wrong. Series are read a value at a time and millions of times,
// and where one of them ends early all that follows is 0: so it is asked for once a record.
type failure struct{ err error }

func (f *failure) set(err error) {
	if f.err == nil {
		f.err = err
	}
}

var errEnds = errors.New("it ends too early")

// stream is the bytes of a block that have not been read yet.
type stream struct {
	data []byte
	name string // for errors
	fail *failure
}

func newStream(data []byte) *stream { return &stream{data: data, fail: new(failure)} }

func (s *stream) short() {
	if s.name == "" {
		s.fail.set(errEnds)
		return
	}
	s.fail.set(fmt.Errorf("%s: %w", s.name, errEnds))
}

func (s *stream) byte() byte {
	if len(s.data) == 0 {
		s.short()
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

// take returns the next n bytes, which stay the block's; nil if there are fewer.
func (s *stream) take(n int) []byte {
	if n < 0 || n > len(s.data) {
		s.short()
		return nil
	}
	b := s.data[:n:n]
	s.data = s.data[n:]
	return b
}

func (s *stream) int32() int32 {
	if b := s.take(4); b != nil {
		return int32(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// itf8 reads an integer of one to five bytes, whose first bits state how many (section 2.3).
func (s *stream) itf8() int32 {
	if d := s.data; len(d) >= 5 { // nearly always
		switch b := uint32(d[0]); {
		case b < 0x80:
			s.data = d[1:]
			return int32(b)
		case b < 0xc0:
			s.data = d[2:]
			return int32(b&0x3f<<8 | uint32(d[1]))
		case b < 0xe0:
			s.data = d[3:]
			return int32(b&0x1f<<16 | uint32(d[1])<<8 | uint32(d[2]))
		case b < 0xf0:
			s.data = d[4:]
			return int32(b&0x0f<<24 | uint32(d[1])<<16 | uint32(d[2])<<8 | uint32(d[3]))
		default:
			s.data = d[5:]
			return int32(b<<28 | uint32(d[1])<<20 | uint32(d[2])<<12 | uint32(d[3])<<4 | uint32(d[4])&15)
		}
	}
	b := s.byte()
	more := 0
	for bit := byte(0x80); b&bit != 0 && more < 4; bit >>= 1 {
		more++
	}
	if more == 4 {
		s.short()
		return 0
	}
	n := uint32(b) & (0xff >> (more + 1))
	for range more {
		n = n<<8 | uint32(s.byte())
	}
	return int32(n)
}

// ltf8 reads an integer of one to nine bytes.
func (s *stream) ltf8() int64 {
	b := s.byte()
	more := 0
	for bit := byte(0x80); b&bit != 0 && more < 8; bit >>= 1 {
		more++
	}
	n := uint64(b)
	if more < 7 {
		n &= 0xff >> (more + 1)
	} else {
		n = 0
	}
	for range more {
		n = n<<8 | uint64(s.byte())
	}
	return int64(n)
}

// array reads as many integers as it says.
func (s *stream) array() []int32 {
	n := int(s.itf8())
	if n < 0 || n > len(s.data) {
		s.short()
		return nil
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = s.itf8()
	}
	return list
}

// bits reads the core block: numbers of bits, the highest of a byte first.
type bits struct {
	data []byte
	at   int // in bits
	fail *failure
}

func (b *bits) bit() uint32 {
	i := b.at >> 3
	if i >= len(b.data) {
		b.fail.set(fmt.Errorf("the core block: %w", errEnds))
		return 0
	}
	bit := b.data[i] >> (7 - b.at&7) & 1
	b.at++
	return uint32(bit)
}

func (b *bits) read(n int) uint32 {
	var v uint32
	for range n {
		v = v<<1 | b.bit()
	}
	return v
}

// ones counts the bits that are one before the next that is zero, and reads all of them.
func (b *bits) ones() int {
	n := 0
	for b.bit() == 1 {
		n++
	}
	return n
}

// zeros counts the bits that are zero before the next that is one, and reads all of them.
func (b *bits) zeros() int {
	n := 0
	for b.fail.err == nil && b.bit() == 0 {
		n++
	}
	return n
}
