package hdf5

import (
	"errors"
	"fmt"
)

// Types of header messages (section IV.A.2).
const (
	msgDataspace    = 0x01
	msgLinkInfo     = 0x02
	msgDatatype     = 0x03
	msgLink         = 0x06
	msgExternal     = 0x07
	msgLayout       = 0x08
	msgFilters      = 0x0b
	msgAttribute    = 0x0c
	msgContinuation = 0x10
	msgSymbolTable  = 0x11
	msgAttrInfo     = 0x15
)

const flagShared = 1 << 1 // of a message: its body lies elsewhere

// Object is a group or a dataset.
type Object struct {
	f       *File
	address uint64
	msgs    []message
}

// message is a header message: where its body lies and how long that is.
type message struct {
	kind     uint16
	flags    uint8
	at, size uint64
}

// Root returns the root group.
func (f *File) Root() (*Object, error) { return f.Object(f.rootHeader) }

// Object returns the object whose header is at an address that [Object.Address]
// or a [Link] gave.
func (f *File) Object(address uint64) (*Object, error) {
	o := &Object{f: f, address: address}
	if err := o.parse(); err != nil {
		return nil, fmt.Errorf("object at byte %d: %w", address, err)
	}
	return o, nil
}

// Address distinguishes the object from all others in the file.
func (o *Object) Address() uint64 { return o.address }

// parse lists the header's messages (sections IV.A.1.a and b).
func (o *Object) parse() error {
	head, err := o.f.slice(o.address, 4)
	if err != nil {
		return err
	}
	if string(head) == "OHDR" {
		return o.parse2()
	}
	return o.parse1()
}

func (o *Object) parse1() error {
	c := o.f.cursorAt(o.address, undefined)
	c.version(1)
	c.skip(1)
	c.skip(2 + 4) // number of messages, which the blocks' lengths give again; references
	size := c.uint(4)
	c.skip(4) // to a multiple of eight
	if c.err != nil {
		return c.failed("header")
	}
	block, err := o.f.sized(c.at, size)
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	pending := []*cursor{block}
	steps := o.f.budget(16)
	for len(pending) > 0 {
		c, pending = pending[0], pending[1:]
		if err := steps.spend(c.at); err != nil {
			return err
		}
		for c.left() >= 8 {
			m := message{kind: uint16(c.uint(2)), size: c.uint(2), flags: uint8(c.uint(1))}
			c.skip(3)
			m.at = c.at
			c.skip(m.size)
			if c.err != nil {
				return c.failed("header message")
			}
			if pending, err = o.add(m, pending, steps); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Object) parse2() error {
	c := o.f.cursorAt(o.address, undefined)
	c.expect("OHDR")
	c.version(2)
	flags := c.uint(1)
	if flags&0x20 != 0 {
		c.skip(16) // times
	}
	if flags&0x10 != 0 {
		c.skip(4) // when attributes become dense
	}
	size := c.uint(1 << (flags & 3))
	if c.err != nil {
		return c.failed("header")
	}
	if size > c.left() {
		return fmt.Errorf("header: byte %d: %d bytes, but only %d are there", c.at, size, c.left())
	}
	end := o.f.cursorAt(c.at+size, undefined)
	if end.checksum(o.address); end.err != nil {
		return end.failed("header")
	}
	prefix := uint64(4)
	if flags&4 != 0 {
		prefix += 2 // creation order
	}
	c.end = c.at + size
	pending := []*cursor{c}
	steps := o.f.budget(8)
	first := true
	for len(pending) > 0 {
		c, pending = pending[0], pending[1:]
		if err := steps.spend(c.at); err != nil {
			return err
		}
		if !first {
			if err := c.enterContinuation(); err != nil {
				return err
			}
		}
		first = false
		for c.left() >= prefix { // less is a gap
			m := message{kind: uint16(c.uint(1)), size: c.uint(2), flags: uint8(c.uint(1))}
			c.skip(prefix - 4)
			m.at = c.at
			c.skip(m.size)
			if c.err != nil {
				return c.failed("header message")
			}
			var err error
			if pending, err = o.add(m, pending, steps); err != nil {
				return err
			}
		}
	}
	return nil
}

// enterContinuation moves to the first message of a version 2 continuation block.
func (c *cursor) enterContinuation() error {
	from := c.at
	if c.left() < 8 {
		return fmt.Errorf("header: byte %d: a continuation of %d bytes", from, c.left())
	}
	c.end -= 4
	end := c.f.cursorAt(c.end, c.end+4)
	c.expect("OCHK")
	end.checksum(from)
	return cmpErr(c.failed("header continuation"), end.failed("header continuation"))
}

// add notes a message; a continuation's block is put behind those that are to be
// read.
func (o *Object) add(m message, pending []*cursor, steps *budget) ([]*cursor, error) {
	if err := steps.spend(m.at); err != nil {
		return nil, err
	}
	switch m.kind {
	case msgContinuation:
		c := o.f.cursorAt(m.at, m.at+m.size)
		at, size := c.address(), c.length()
		if c.err != nil {
			return nil, c.failed("header continuation")
		}
		block, err := o.f.sized(at, size)
		if err != nil {
			return nil, fmt.Errorf("header continuation: %w", err)
		}
		return append(pending, block), nil
	case msgDataspace, msgLinkInfo, msgDatatype, msgLink, msgExternal, msgLayout, msgFilters, msgAttribute, msgSymbolTable, msgAttrInfo:
		o.msgs = append(o.msgs, m)
	}
	return pending, nil
}

// message returns the body of the first message of a kind, nil if there is none.
func (o *Object) message(kind uint16) (*cursor, error) {
	for _, m := range o.msgs {
		if m.kind == kind {
			return o.body(m)
		}
	}
	return nil, nil
}

// body returns a message's body, which for a shared one is in another object
// (section IV.A.2, "shared message").
func (o *Object) body(m message) (*cursor, error) {
	c := o.f.cursorAt(m.at, m.at+m.size)
	if m.flags&flagShared == 0 {
		return c, nil
	}
	return o.f.shared(c, m.kind)
}

// shared reads a reference to a message that lies in another object's header.
func (f *File) shared(c *cursor, kind uint16) (*cursor, error) {
	version, typ := c.version(1, 2, 3), c.uint(1)
	if version == 1 {
		c.skip(6)
	}
	if version == 3 && typ == 1 {
		return nil, fmt.Errorf("byte %d: messages in a shared message table are not supported", c.at)
	}
	address := c.address()
	if c.err != nil {
		return nil, c.failed("shared message")
	}
	other, err := f.Object(address)
	if err != nil {
		return nil, err
	}
	for _, m := range other.msgs {
		if m.kind == kind && m.flags&flagShared == 0 {
			return f.cursorAt(m.at, m.at+m.size), nil
		}
	}
	return nil, fmt.Errorf("object at byte %d: has no message of type %d, though others share it", address, kind)
}

var errNotThere = errors.New("not there")

// NotThere reports whether an error says that a name stands for nothing.
func NotThere(err error) bool { return errors.Is(err, errNotThere) }
