package hdf5

import (
	"errors"
	"fmt"
)

// class is what kind of values a datatype has (section IV.A.2.d).
type class uint8

const (
	classInteger class = 0
	classFloat   class = 1
	classString  class = 3
	classEnum    class = 8
	classVarLen  class = 9
)

// datatype is the type of an attribute or of a dataset's elements. Classes other
// than those above are kept by number and size only.
type datatype struct {
	class     class
	size      uint64 // bytes of an element
	bigEndian bool
	signed    bool
	padding   uint8 // of a string: 0 ends at a zero byte, 1 and 2 are padded with zero bytes or spaces
	text      bool  // a variable-length one is text
	names     []string
	values    []uint64 // of an enumeration
	base      *datatype
	// unread says why values of the type can't be read; it is empty if they can. An attribute
	// that nobody asks for is no reason to refuse an object.
	unread string
}

// maxEnum is more members than any enumeration has.
const maxEnum = 1 << 12

// datatype reads a datatype; nesting is how many surround it.
func (f *File) datatype(c *cursor, nesting int) (*datatype, error) {
	at := c.at
	head := c.uint(1)
	flags := c.uint(3)
	t := &datatype{class: class(head & 15), size: c.uint(4)}
	version := head >> 4
	switch {
	case c.err != nil:
		return nil, c.failed("datatype")
	case version < 1 || version > 5:
		return nil, fmt.Errorf("datatype at byte %d: version %d is not known", at, version)
	case nesting > 3:
		return nil, fmt.Errorf("datatype at byte %d: types within types within types", at)
	}
	var err error
	switch t.class {
	case classInteger:
		t.bigEndian, t.signed = flags&1 != 0, flags&8 != 0
		offset, precision := c.uint(2), c.uint(2)
		if c.err == nil && (t.size == 0 || t.size > 8 || offset != 0 || precision != 8*t.size) {
			t.unread = fmt.Sprintf("integers of %d bits at bit %d of %d bytes", precision, offset, t.size)
		}
	case classFloat:
		t.bigEndian = flags&1 != 0
		_, precision := c.uint(2), c.uint(2)
		exponentAt, exponentBits, mantissaAt, mantissaBits := c.uint(1), c.uint(1), c.uint(1), c.uint(1)
		bias := c.uint(4)
		single := t.size == 4 && precision == 32 && exponentAt == 23 && exponentBits == 8 && mantissaBits == 23 && bias == 127
		double := t.size == 8 && precision == 64 && exponentAt == 52 && exponentBits == 11 && mantissaBits == 52 && bias == 1023
		if c.err == nil && (flags&(1<<6) != 0 || mantissaAt != 0 || !single && !double) {
			t.unread = fmt.Sprintf("numbers of %d bytes that aren't IEEE 754's", t.size)
		}
	case classString:
		t.padding = uint8(flags & 15)
	case classEnum:
		err = t.enum(f, c, version, flags&0xffff, nesting)
	case classVarLen:
		t.text = flags&15 == 1
		t.base, err = f.datatype(c, nesting+1)
	default:
		t.unread = fmt.Sprintf("class %d", t.class)
	}
	if err == nil {
		err = c.failed("datatype")
	}
	return t, err
}

// enum reads the members of an enumeration.
func (t *datatype) enum(f *File, c *cursor, version, members uint64, nesting int) (err error) {
	if members > maxEnum {
		return fmt.Errorf("datatype at byte %d: an enumeration of %d members", c.at, members)
	}
	if t.base, err = f.datatype(c, nesting+1); err != nil {
		return err
	}
	if t.base.class != classInteger || t.base.size != t.size || t.base.unread != "" {
		return fmt.Errorf("datatype at byte %d: an enumeration of %d bytes over a type of %d", c.at, t.size, t.base.size)
	}
	for range members {
		from := c.at
		name := c.text()
		if version < 3 {
			c.skip((8 - (c.at-from)%8) % 8)
		}
		if c.err != nil {
			return c.failed("datatype")
		}
		t.names = append(t.names, name)
	}
	for range members {
		b := c.bytes(t.size)
		if c.err != nil {
			return c.failed("datatype")
		}
		t.values = append(t.values, t.base.integer(b))
	}
	return nil
}

// maxName is the longest name that is read.
const maxName = 1 << 12

var errLongName = errors.New("a name is longer than 4096 bytes")

// text reads text up to a zero byte.
func (c *cursor) text() string {
	if c.err != nil {
		return ""
	}
	for i := c.at; i < min(c.end, c.at+maxName); i++ {
		if c.f.data[i] == 0 {
			s := string(c.f.data[c.at:i])
			c.at = i + 1
			return s
		}
	}
	c.err = fmt.Errorf("byte %d: %w, or has no end", c.at, errLongName)
	return ""
}

// integer returns the bits of an integer, with the sign spread to all of them.
func (t *datatype) integer(b []byte) uint64 {
	var v uint64
	for i := range b {
		j := i
		if !t.bigEndian {
			j = len(b) - 1 - i
		}
		v = v<<8 | uint64(b[j])
	}
	if unused := 64 - 8*len(b); t.signed {
		v = uint64(int64(v<<unused) >> unused)
	}
	return v
}

// dataspace is the shape of an attribute or a dataset (section IV.A.2.b).
type dataspace struct {
	null bool
	dims []uint64 // none for a scalar
}

// maxRank is the most dimensions that the format has.
const maxRank = 32

func (f *File) dataspace(c *cursor) (s dataspace, err error) {
	at := c.at
	version := c.version(1, 2)
	rank, flags := c.uint(1), c.uint(1)
	if version == 1 {
		c.skip(5)
	} else {
		s.null = c.uint(1) == 2
	}
	if rank > maxRank {
		return s, fmt.Errorf("dataspace at byte %d: %d dimensions", at, rank)
	}
	for range rank {
		s.dims = append(s.dims, c.length())
	}
	if flags&1 != 0 {
		for range rank {
			c.length() // the most that a dimension may become
		}
	}
	return s, c.failed("dataspace")
}

// elements is the number of elements; ok is false if that overflows.
func (s dataspace) elements() (n uint64, ok bool) {
	if s.null {
		return 0, true
	}
	n = 1
	for _, d := range s.dims {
		if d != 0 && n > undefined/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}
