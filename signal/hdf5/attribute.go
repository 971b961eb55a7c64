package hdf5

import (
	"fmt"
	"math"
	"strings"
)

// maxText is the longest text of an attribute that is read.
const maxText = 1 << 20

// Value is an attribute's first element. The zero Value is that of an attribute
// that isn't there.
type Value struct {
	kind kind
	text string
	bits uint64 // of an integer with its sign spread, or of a float64
	neg  bool   // the integer is negative
	size uint8  // bytes of a number as stored
}

type kind uint8

const (
	none kind = iota
	isInteger
	isFloat
	isText
	isEnum
	isOther
)

// Present reports whether the attribute is there.
func (v Value) Present() bool { return v.kind != none }

// Text returns text, or the name of an enumeration's value.
func (v Value) Text() (string, bool) { return v.text, v.kind == isText || v.kind == isEnum }

// Uint returns an integer that isn't negative; also the number of an
// enumeration's value, and a floating-point number without a fraction.
func (v Value) Uint() (uint64, bool) {
	switch v.kind {
	case isInteger, isEnum:
		return v.bits, !v.neg
	case isFloat:
		x := math.Float64frombits(v.bits)
		if x >= 0 && x < 1<<63 && x == math.Trunc(x) {
			return uint64(x), true
		}
	}
	return 0, false
}

// Float returns a number.
func (v Value) Float() (float64, bool) {
	switch {
	case v.kind == isFloat:
		return math.Float64frombits(v.bits), true
	case v.kind == isInteger && v.neg:
		return float64(int64(v.bits)), true
	case v.kind == isInteger:
		return float64(v.bits), true
	}
	return 0, false
}

// String is the value as text, however it is stored; empty for what has no such
// form.
func (v Value) String() string {
	switch v.kind {
	case isText, isEnum:
		return v.text
	case isInteger:
		if v.neg {
			return fmt.Sprint(int64(v.bits))
		}
		return fmt.Sprint(v.bits)
	case isFloat:
		if v.size == 4 {
			return fmt.Sprint(float32(math.Float64frombits(v.bits)))
		}
		return fmt.Sprint(math.Float64frombits(v.bits))
	}
	return ""
}

// Attribute is a name and a value.
type Attribute struct {
	Name  string
	Value Value
}

// Attributes returns the object's attributes in the order in which the file keeps
// them.
func (o *Object) Attributes() ([]Attribute, error) {
	var all []Attribute
	err := o.attributes(func(c *cursor) error {
		a, err := o.f.attribute(c)
		if err == nil {
			all = append(all, a)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("object at byte %d: %w", o.address, err)
	}
	return all, nil
}

// attributes calls fn with the body of every attribute message, in the header or
// in a heap (section IV.A.2.v, "attribute info").
func (o *Object) attributes(fn func(*cursor) error) error {
	for _, m := range o.msgs {
		if m.kind != msgAttribute {
			continue
		}
		c, err := o.body(m)
		if err == nil {
			err = fn(c)
		}
		if err != nil {
			return err
		}
	}
	c, err := o.message(msgAttrInfo)
	if c == nil || err != nil {
		return err
	}
	c.version(0)
	if flags := c.uint(1); flags&1 != 0 {
		c.skip(2) // largest creation index
	}
	heapAt, names := c.address(), c.address()
	if c.err != nil || heapAt == undefined {
		return c.failed("attribute info")
	}
	heap, err := o.f.fractalHeap(heapAt)
	if err != nil {
		return err
	}
	if names == undefined {
		return fmt.Errorf("heap at byte %d: has no index of names", heapAt)
	}
	const byName = 8
	return o.f.btree2(names, byName, func(c *cursor) error {
		id := o.f.cursorAt(c.at, min(c.end, c.at+heap.idLength))
		c.skip(heap.idLength)
		flags := c.uint(1)
		if c.err != nil {
			return c.failed("attribute record")
		}
		body, err := heap.object(id)
		if err == nil && flags&flagShared != 0 {
			body, err = o.f.shared(body, msgAttribute)
		}
		if err != nil {
			return err
		}
		return fn(body)
	})
}

// attribute reads an attribute message (section IV.A.2.m).
func (f *File) attribute(c *cursor) (a Attribute, err error) {
	version := c.version(1, 2, 3)
	flags := c.uint(1)
	nameSize, typeSize, spaceSize := c.uint(2), c.uint(2), c.uint(2)
	if version == 3 {
		c.skip(1) // character set: bytes are kept as they are
	}
	if version == 1 {
		nameSize, typeSize, spaceSize = padded(nameSize), padded(typeSize), padded(spaceSize)
		flags = 0 // was reserved
	}
	name := c.bytes(nameSize)
	typeAt := c.at
	c.skip(typeSize)
	spaceAt := c.at
	c.skip(spaceSize)
	if c.err != nil {
		return a, c.failed("attribute")
	}
	if i := strings.IndexByte(string(name), 0); i >= 0 {
		name = name[:i]
	}
	a.Name = string(name)
	wrap := func(err error) error { return fmt.Errorf("attribute %q: %w", clip(a.Name), err) }
	typeBody := f.cursorAt(typeAt, spaceAt)
	if flags&1 != 0 {
		if typeBody, err = f.shared(typeBody, msgDatatype); err != nil {
			return a, wrap(err)
		}
	}
	spaceBody := f.cursorAt(spaceAt, c.at)
	if flags&2 != 0 {
		if spaceBody, err = f.shared(spaceBody, msgDataspace); err != nil {
			return a, wrap(err)
		}
	}
	t, err := f.datatype(typeBody, 0)
	if err != nil {
		return a, wrap(err)
	}
	space, err := f.dataspace(spaceBody)
	if err != nil {
		return a, wrap(err)
	}
	if a.Value, err = f.value(t, space, c); err != nil {
		return a, wrap(err)
	}
	return a, nil
}

func padded(n uint64) uint64 { return (n + 7) &^ 7 }

// clip keeps names short enough to be quoted in an error line.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// value reads the first element.
func (f *File) value(t *datatype, space dataspace, c *cursor) (v Value, err error) {
	n, ok := space.elements()
	if ok && n == 0 || t.unread != "" {
		return Value{kind: isOther}, nil
	}
	b := c.bytes(t.size)
	if c.err != nil {
		return v, c.err
	}
	switch t.class {
	case classInteger:
		v = Value{kind: isInteger, bits: t.integer(b), size: uint8(t.size)}
		v.neg = t.signed && int64(v.bits) < 0
	case classFloat:
		u := (&datatype{bigEndian: t.bigEndian}).integer(b)
		v = Value{kind: isFloat, bits: u, size: uint8(t.size)}
		if t.size == 4 {
			v.bits = math.Float64bits(float64(math.Float32frombits(uint32(u))))
		}
	case classEnum:
		v = Value{kind: isEnum, bits: t.base.integer(b), size: uint8(t.size)}
		v.neg = t.base.signed && int64(v.bits) < 0
		for i, have := range t.values {
			if have == v.bits {
				v.text = t.names[i]
			}
		}
		if v.text == "" {
			v.kind = isInteger // a number without a name
		}
	case classString:
		v = Value{kind: isText, text: t.trim(b)}
	case classVarLen:
		if !t.text {
			return Value{kind: isOther}, nil
		}
		b, err := f.varLen(b)
		return Value{kind: isText, text: (&datatype{}).trim(b)}, err
	default:
		v = Value{kind: isOther}
	}
	return v, nil
}

// trim takes the padding off a string.
func (t *datatype) trim(b []byte) string {
	s := string(b[:min(len(b), maxText)])
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	if t.padding == 2 {
		s = strings.TrimRight(s, " ")
	}
	return s
}

// varLen returns what a variable-length element points at, which lies in a global
// heap collection (sections III.E and IV.B).
func (f *File) varLen(b []byte) ([]byte, error) {
	if len(b) < 8+f.offsetSize {
		return nil, fmt.Errorf("a variable-length element has %d bytes", len(b))
	}
	// The element is in the file: its place is not needed, so it is read from its own bytes.
	e := (&File{data: b, offsetSize: f.offsetSize, lengthSize: f.lengthSize}).cursorAt(0, uint64(len(b)))
	n, address, index := e.uint(4), e.address(), e.uint(4)
	if n == 0 {
		return nil, nil
	}
	head := f.cursorAt(address, undefined)
	head.expect("GCOL")
	head.version(1)
	head.skip(3)
	size := head.length()
	if head.err != nil {
		return nil, head.failed("heap collection")
	}
	c, err := f.sized(address, size)
	if err != nil {
		return nil, fmt.Errorf("heap collection: %w", err)
	}
	c.skip(head.at - address)
	for c.left() >= uint64(8+f.lengthSize) {
		at := c.uint(2)
		c.skip(6) // references, reserved
		size := c.length()
		if at == 0 {
			break // the rest is free
		}
		if at == index {
			if n > size {
				return nil, fmt.Errorf("heap collection at byte %d: object %d has %d bytes, not %d", address, index, size, n)
			}
			b := c.bytes(n)
			return b, c.failed("heap collection")
		}
		if size > c.left() {
			break
		}
		c.skip(min(padded(size), c.left()))
	}
	return nil, fmt.Errorf("heap collection at byte %d: has no object %d", address, index)
}
