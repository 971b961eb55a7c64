package hdf5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Signature is how the superblock begins.
const Signature = "\x89HDF\r\n\x1a\n"

// undefined is an address that points nowhere (all bits set, whatever the size of
// addresses in the file).
const undefined = ^uint64(0)

// ErrTruncated is wrapped by errors about files that are shorter than they say.
var ErrTruncated = errors.New("the file is truncated or still being written")

// File is an open file. Its methods, and those of what they return, may be called
// from several goroutines at once.
type File struct {
	data       []byte // from the superblock's base address on
	offsetSize int    // bytes of an address
	lengthSize int    // bytes of a length
	rootHeader uint64
	// unverified leaves checksums of metadata aside, so that tests can reach what
	// lies behind them.
	unverified bool
}

// Superblock is what a file says of itself as a whole.
type Superblock struct {
	Version    int
	EndOfFile  uint64 // the size that the file should have
	Writing    bool   // a writer has it open, or has not closed it
	base       uint64
	offsetSize int
	lengthSize int
	root       uint64
}

// Open reads a file that is in memory. The bytes must not change while the File is
// in use.
func Open(data []byte) (*File, error) { return open(data, false) }

func open(data []byte, unverified bool) (*File, error) {
	sb, err := ParseSuperblock(data)
	if err != nil {
		return nil, err
	}
	if sb.EndOfFile > uint64(len(data)) {
		return nil, fmt.Errorf("byte %d: the file should have %d bytes: %w", len(data), sb.EndOfFile, ErrTruncated)
	}
	f := &File{
		data: data[sb.base:], offsetSize: sb.offsetSize, lengthSize: sb.lengthSize,
		rootHeader: sb.root, unverified: unverified,
	}
	return f, nil
}

// ParseSuperblock reads the head of a file (section II). It needs the first bytes
// only, 4 KiB of a file of ours; errors that wrap ErrTruncated say that there are
// too few.
func ParseSuperblock(data []byte) (Superblock, error) {
	at := 0
	// A user block may come first; then the signature is at a power of two.
	for !bytes.HasPrefix(data[min(at, len(data)):], []byte(Signature)) {
		if at = max(512, 2*at); at+len(Signature) > len(data) {
			return Superblock{}, errors.New("byte 0: not an HDF5 signature")
		}
	}
	f := &File{data: data, offsetSize: 8, lengthSize: 8}
	c := f.cursorAt(uint64(at+len(Signature)), uint64(len(data)))
	sb := Superblock{Version: int(c.uint(1)), base: uint64(at)}
	switch sb.Version {
	case 0, 1:
		c.skip(4) // versions of the parts, and a reserved byte
		sb.sizes(c)
		c.skip(1 + 2 + 2 + 4) // reserved, leaf and internal node ranks, consistency flags
		if sb.Version == 1 {
			c.skip(4) // indexed storage rank, reserved
		}
	case 2, 3:
		sb.sizes(c)
		flags := c.uint(1)
		sb.Writing = sb.Version == 3 && flags&1 != 0
	default:
		if c.err == nil {
			return sb, fmt.Errorf("byte %d: superblock version %d is newer than this reader, which knows 0 to 3", at+8, sb.Version)
		}
	}
	if c.err != nil {
		return sb, fmt.Errorf("superblock: %w: %w", c.err, ErrTruncated)
	}
	for _, n := range []int{sb.offsetSize, sb.lengthSize} {
		if n != 2 && n != 4 && n != 8 {
			return sb, fmt.Errorf("byte %d: addresses of %d bytes and lengths of %d", at+9, sb.offsetSize, sb.lengthSize)
		}
	}
	f.offsetSize, f.lengthSize = sb.offsetSize, sb.lengthSize
	base := c.address()
	c.address() // free space, or the superblock's extension: nothing in it is needed to read
	end := c.address()
	var want uint32
	if sb.Version < 2 {
		c.address() // driver information
		c.offset()  // the root group's symbol table entry: its name has no meaning
		sb.root = c.address()
	} else {
		sb.root = c.address()
		want = lookup3(data[at:min(c.at, uint64(len(data)))])
		if got := uint32(c.uint(4)); c.err == nil && got != want {
			return sb, fmt.Errorf("byte %d: the superblock's checksum is wrong: the file is damaged", at)
		}
	}
	switch {
	case c.err != nil:
		return sb, fmt.Errorf("superblock: %w: %w", c.err, ErrTruncated)
	case base != uint64(at) && base != 0:
		return sb, fmt.Errorf("byte %d: the base address is %d", at, base)
	case end == undefined || end < uint64(at):
		return sb, fmt.Errorf("byte %d: the end-of-file address is %d", at, end)
	}
	// The library takes addresses from where it found the superblock.
	sb.EndOfFile = end - base + uint64(at)
	return sb, nil
}

func (sb *Superblock) sizes(c *cursor) {
	sb.offsetSize, sb.lengthSize = int(c.uint(1)), int(c.uint(1))
}

// slice returns n bytes at an address.
func (f *File) slice(address, n uint64) ([]byte, error) {
	size := uint64(len(f.data))
	switch {
	case address == undefined:
		return nil, errors.New("an address is undefined")
	case address > size || n > size-address:
		return nil, fmt.Errorf("byte %d: %d bytes reach beyond the end of the file at %d", address, n, size)
	}
	return f.data[address : address+n : address+n], nil
}

// cursor reads fields one after another and remembers the first that doesn't fit.
type cursor struct {
	f   *File
	at  uint64 // address of the next field
	end uint64 // address behind the last
	err error
}

// cursorAt reads from an address on, not further than end.
func (f *File) cursorAt(at, end uint64) *cursor {
	return &cursor{f: f, at: at, end: min(end, uint64(len(f.data)))}
}

// sized reads n bytes from an address on.
func (f *File) sized(at, n uint64) (*cursor, error) {
	if _, err := f.slice(at, n); err != nil {
		return nil, err
	}
	return f.cursorAt(at, at+n), nil
}

func (c *cursor) left() uint64 {
	if c.at > c.end {
		return 0
	}
	return c.end - c.at
}

func (c *cursor) bytes(n uint64) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.left() {
		c.err = fmt.Errorf("byte %d: %d bytes are needed, but only %d are there", c.at, n, c.left())
		return nil
	}
	b := c.f.data[c.at : c.at+n : c.at+n]
	c.at += n
	return b
}

func (c *cursor) skip(n uint64) { c.bytes(n) }

// uint reads a little-endian number of 1 to 8 bytes.
func (c *cursor) uint(n int) uint64 {
	b := c.bytes(uint64(n))
	if b == nil {
		return 0
	}
	if n == 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var v uint64
	for i := n - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// offset reads an address as it stands.
func (c *cursor) offset() uint64 { return c.uint(c.f.offsetSize) }

// address reads an address, undefined if all its bits are set.
func (c *cursor) address() uint64 {
	a := c.offset()
	if n := c.f.offsetSize; n < 8 && a == 1<<(8*n)-1 {
		return undefined
	}
	return a
}

// length reads a length; all bits set are the largest number.
func (c *cursor) length() uint64 {
	v := c.uint(c.f.lengthSize)
	if n := c.f.lengthSize; n < 8 && v == 1<<(8*n)-1 {
		return undefined
	}
	return v
}

// expect reads a signature.
func (c *cursor) expect(signature string) {
	at := c.at
	if b := c.bytes(uint64(len(signature))); b != nil && string(b) != signature {
		c.err = fmt.Errorf("byte %d: not the signature %q: the file is damaged", at, signature)
	}
}

// version reads a version and refuses those that aren't known.
func (c *cursor) version(known ...int) int {
	at := c.at
	v := int(c.uint(1))
	if c.err != nil {
		return 0
	}
	for _, k := range known {
		if v == k {
			return v
		}
	}
	c.err = fmt.Errorf("byte %d: version %d is not known", at, v)
	return v
}

// checksum reads the checksum of what lies between an address and here.
func (c *cursor) checksum(from uint64) {
	if c.err != nil {
		return
	}
	if from > c.at || c.at > uint64(len(c.f.data)) { // what is covered was not read yet
		c.err = fmt.Errorf("byte %d: what the checksum covers reaches beyond the end of the file", from)
		return
	}
	want := lookup3(c.f.data[from:c.at])
	at := c.at
	if got := uint32(c.uint(4)); c.err == nil && got != want && !c.f.unverified {
		c.err = fmt.Errorf("byte %d: a checksum is wrong: the file is damaged", at)
	}
}

// failed is the cursor's error with what was being read.
func (c *cursor) failed(what string) error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, c.err)
}

// budget bounds how many nodes of some least size a walk may visit: as many as fit
// in the file. Chains and trees that lead back to themselves, or that have one
// branch many times, exhaust it.
type budget struct{ left uint64 }

func (f *File) budget(least uint64) *budget { return &budget{uint64(len(f.data))/least + 1} }

func (b *budget) spend(at uint64) error {
	if b.left == 0 {
		return fmt.Errorf("byte %d: a tree or chain runs in a circle: the file is damaged", at)
	}
	b.left--
	return nil
}
