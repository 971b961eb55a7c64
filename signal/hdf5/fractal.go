package hdf5

import (
	"fmt"
	"math/bits"
)

// fractalHeap holds the links or attributes of an object that has many of them
// (section III.G).
type fractalHeap struct {
	f          *File
	address    uint64
	idLength   uint64
	width      uint64 // of the doubling table
	start      uint64 // size of a block in its first row
	maxDirect  uint64
	maxBits    uint64 // of an offset within the heap
	root       uint64
	rows       uint64 // of the root, 0 if it is a direct block
	offsetSize int
	lengthSize int
	directHead uint64 // bytes of a direct block's head
}

func (f *File) fractalHeap(address uint64) (*fractalHeap, error) {
	h := &fractalHeap{f: f, address: address}
	c := f.cursorAt(address, undefined)
	c.expect("FRHP")
	c.version(0)
	h.idLength = c.uint(2)
	filters := c.uint(2)
	flags := c.uint(1)
	maxManaged := c.uint(4)
	c.length()  // next huge object
	c.address() // B-tree of huge objects
	c.length()  // free space
	c.address() // its manager
	for range 8 {
		c.length() // sizes and counts of the heap's objects
	}
	h.width = c.uint(2)
	h.start, h.maxDirect = c.length(), c.length()
	h.maxBits = c.uint(2)
	c.skip(2) // rows of the root when it was made
	h.root = c.address()
	h.rows = c.uint(2)
	if filters > 0 && c.err == nil {
		return nil, fmt.Errorf("heap at byte %d: filtered heaps are not supported", address)
	}
	c.checksum(address)
	if c.err != nil {
		return nil, c.failed("heap")
	}
	power := func(n uint64) bool { return n > 0 && n&(n-1) == 0 }
	if !power(h.width) || !power(h.start) || !power(h.maxDirect) || h.maxDirect < h.start || h.maxDirect > 1<<32 || h.maxBits == 0 || h.maxBits > 64 || h.idLength < 2 || h.rows > 64 {
		return nil, fmt.Errorf("heap at byte %d: its table is %d wide, of blocks of %d to %d bytes, and offsets have %d bits", address, h.width, h.start, h.maxDirect, h.maxBits)
	}
	h.offsetSize = int(h.maxBits+7) / 8
	h.lengthSize = min((bits.Len64(h.maxDirect)-1+7)/8, bytesFor(maxManaged))
	h.directHead = uint64(5 + f.offsetSize + h.offsetSize)
	if flags&2 != 0 {
		h.directHead += 4
	}
	return h, nil
}

// object returns the object of a heap id (section III.G, "heap ID").
func (h *fractalHeap) object(id *cursor) (*cursor, error) {
	at := id.at
	kind := id.uint(1)
	switch {
	case id.err != nil:
		return nil, id.failed("heap id")
	case kind>>6 != 0:
		return nil, fmt.Errorf("heap id at byte %d: version %d is not known", at, kind>>6)
	case kind>>4&3 == 2: // tiny: the object is in the id
		n := kind&15 + 1
		if h.idLength > 18 { // the length has twelve bits then
			n = kind&15<<8 + id.uint(1) + 1
		}
		if n > id.left() {
			return nil, fmt.Errorf("heap id at byte %d: %d bytes, but only %d are there", at, n, id.left())
		}
		return h.f.cursorAt(id.at, id.at+n), nil
	case kind>>4&3 != 0:
		return nil, fmt.Errorf("heap id at byte %d: objects that lie outside of their heap (over 64 KiB) are not supported", at)
	}
	offset, n := id.uint(h.offsetSize), id.uint(h.lengthSize)
	if id.err != nil {
		return nil, id.failed("heap id")
	}
	block, within, size, err := h.find(offset)
	if err != nil {
		return nil, err
	}
	if within < h.directHead || n > size-within {
		return nil, fmt.Errorf("heap id at byte %d: %d bytes at %d of a block of %d", at, n, within, size)
	}
	return h.f.sized(block+within, n)
}

// find returns the direct block that holds an offset of the heap's space, the
// offset within it, and its size.
func (h *fractalHeap) find(offset uint64) (block, within, size uint64, err error) {
	if h.rows == 0 {
		if offset >= h.start {
			return 0, 0, 0, fmt.Errorf("heap at byte %d: offset %d is outside of its block", h.address, offset)
		}
		return h.root, offset, h.start, h.check(h.root, "FHDB", h.start)
	}
	address, rows := h.root, h.rows
	for range maxDepth {
		row := h.row(offset)
		if row >= rows {
			break
		}
		size = h.start << max(int(row)-1, 0)
		if size == 0 || size > undefined/h.width {
			break
		}
		first := uint64(0)
		if row > 0 {
			first = size * h.width
		}
		column := (offset - first) / size
		within = (offset - first) % size
		head := uint64(5 + h.f.offsetSize + h.offsetSize)
		if err := h.check(address, "FHIB", head); err != nil {
			return 0, 0, 0, err
		}
		// Entries of direct and of indirect blocks alike are addresses, as there are no filters.
		c := h.f.cursorAt(address+head+(row*h.width+column)*uint64(h.f.offsetSize), undefined)
		block = c.address()
		if c.err != nil {
			return 0, 0, 0, c.failed("heap block")
		}
		if size <= h.maxDirect {
			return block, within, size, h.check(block, "FHDB", size)
		}
		if size < h.start*h.width {
			break
		}
		// An indirect block of a size has as many rows as give it that size.
		address, offset = block, within
		rows = uint64(bits.Len64(size/(h.start*h.width)-1) + 1)
	}
	return 0, 0, 0, fmt.Errorf("heap at byte %d: offset %d is outside of its blocks", h.address, offset)
}

// row is the row of the doubling table that an offset lies in: the first two have
// blocks of the first size, each one after that of twice the size before it.
func (h *fractalHeap) row(offset uint64) uint64 {
	return uint64(bits.Len64(offset / (h.start * h.width)))
}

// check refuses a block that isn't one.
func (h *fractalHeap) check(address uint64, signature string, size uint64) error {
	c, err := h.f.sized(address, size)
	if err != nil {
		return fmt.Errorf("heap block: %w", err)
	}
	c.expect(signature)
	c.version(0)
	return c.failed("heap block")
}
