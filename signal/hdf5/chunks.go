package hdf5

import (
	"fmt"
	"math/bits"
)

// chunks calls fn with the chunks of the dataset, n of them, in order.
func (d *Dataset) chunks(n uint64, fn func(i uint64, at chunk) error) error {
	if d.at == undefined {
		return fmt.Errorf("its chunks were never written")
	}
	switch d.index {
	case indexBTree1:
		return d.btree1(fn)
	case indexSingle:
		return fn(0, d.single)
	case indexImplicit:
		size := d.chunk * d.typ.size
		for i := range n {
			// The product stays below the file's length: fn refuses what lies beyond.
			if err := fn(i, chunk{address: d.at + i*size, size: size}); err != nil {
				return err
			}
		}
		return nil
	case indexFixed:
		return d.fixedArray(n, fn)
	}
	return d.extensibleArray(n, fn)
}

// btree1 walks the index of layouts up to version 3 (section III.A.1, "chunked
// raw data").
func (d *Dataset) btree1(fn func(uint64, chunk) error) error {
	const chunkTree = 1
	const keySize = 4 + 4 + 2*8 // size, filter mask, offsets of one dimension and of the bytes of an element
	return d.f.btree1(d.at, chunkTree, keySize, d.f.budget(24), func(key *cursor, child uint64) error {
		at := chunk{address: child, size: key.uint(4), skipped: uint32(key.uint(4))}
		offset := key.uint(8)
		if key.err != nil {
			return key.failed("chunk")
		}
		if offset%d.chunk != 0 {
			return fmt.Errorf("chunk at element %d: chunks have %d elements", offset, d.chunk)
		}
		return fn(offset/d.chunk, at)
	})
}

// entry reads an entry of a fixed or extensible array: where a chunk is, and with
// filters its size and which of them were skipped.
func (d *Dataset) entry(c *cursor, filtered bool, size int) chunk {
	at := chunk{address: c.address(), size: d.chunk * d.typ.size}
	if filtered {
		at.size, at.skipped = c.uint(size-d.f.offsetSize-4), uint32(c.uint(4))
	}
	return at
}

// entrySize checks the size of an array's entries against what they must hold.
func (d *Dataset) entrySize(filtered bool, size int) error {
	n := size - d.f.offsetSize
	if !filtered && n != 0 || filtered && (n < 5 || n > 12) {
		return fmt.Errorf("its chunk index has entries of %d bytes", size)
	}
	return nil
}

// fixedArray walks the index of a dataset that can't grow (section VII.D, "fixed
// array").
func (d *Dataset) fixedArray(n uint64, fn func(uint64, chunk) error) error {
	c := d.f.cursorAt(d.at, undefined)
	c.expect("FAHD")
	c.version(0)
	filtered, size, pageLog := c.uint(1) == 1, int(c.uint(1)), c.uint(1)
	entries, block := c.length(), c.address()
	c.checksum(d.at)
	if c.err != nil {
		return c.failed("fixed array")
	}
	if err := d.entrySize(filtered, size); err != nil {
		return err
	}
	if pageLog > 32 || entries < n || block == undefined {
		return fmt.Errorf("fixed array at byte %d: %d entries in pages of 2^%d, for %d chunks", d.at, entries, pageLog, n)
	}
	c = d.f.cursorAt(block, undefined)
	c.expect("FADB")
	c.version(0)
	c.skip(1)
	c.address() // of the header
	page := uint64(1) << pageLog
	if entries <= page {
		return d.entries(c, block, 0, entries, n, filtered, size, fn)
	}
	pages := (entries + page - 1) / page
	there := c.bytes((pages + 7) / 8)
	c.checksum(block)
	if c.err != nil {
		return c.failed("fixed array")
	}
	for p := uint64(0); p < pages && p*page < n; p++ {
		inPage := min(page, entries-p*page)
		if there[p/8]>>(7-p%8)&1 == 0 {
			return fmt.Errorf("chunk %d was never written", p*page)
		}
		from := c.at
		if err := d.entries(c, from, p*page, inPage, n, filtered, size, fn); err != nil {
			return err
		}
	}
	return nil
}

// entries reads count entries, beginning with that of chunk first, and the checksum
// behind them; from is where the bytes that the checksum covers begin. Chunks from n
// on are left out.
func (d *Dataset) entries(c *cursor, from, first, count, n uint64, filtered bool, size int, fn func(uint64, chunk) error) error {
	if c.err == nil && count > c.left()/uint64(size) {
		return fmt.Errorf("chunk index at byte %d: %d entries reach beyond the end of the file", from, count)
	}
	end := d.f.cursorAt(c.at+count*uint64(size), undefined)
	if c.err == nil {
		end.checksum(from)
		c.err = end.err
	}
	if c.err != nil {
		return c.failed("chunk index")
	}
	for i := range count {
		if first+i >= n {
			break
		}
		if err := fn(first+i, d.entry(c, filtered, size)); err != nil {
			return err
		}
	}
	c.at = end.at
	return nil
}

// extensibleArray walks the index of a dataset that can grow in one dimension
// (section VII.C, "extensible array").
//
// The array's first entries are in its index block. Then come super blocks, each a
// list of data blocks: super block s has 2^(s/2) data blocks of 2^((s+1)/2) times
// the least number of entries. The first super blocks have no block of their own:
// the index block points at their data blocks. Data blocks with more entries than a
// page are cut into pages.
func (d *Dataset) extensibleArray(n uint64, fn func(uint64, chunk) error) error {
	e := extensible{d: d, n: n, fn: fn}
	c := d.f.cursorAt(d.at, undefined)
	c.expect("EAHD")
	c.version(0)
	e.filtered, e.size = c.uint(1) == 1, int(c.uint(1))
	maxBits := c.uint(1)
	inIndex, least, minPointers, pageLog := c.uint(1), c.uint(1), c.uint(1), c.uint(1)
	for range 6 {
		c.length() // counts of its blocks and entries
	}
	index := c.address()
	c.checksum(d.at)
	if c.err != nil {
		return c.failed("extensible array")
	}
	if err := d.entrySize(e.filtered, e.size); err != nil {
		return err
	}
	power := func(n uint64) bool { return n > 0 && n&(n-1) == 0 }
	if maxBits == 0 || maxBits > 64 || !power(least) || !power(minPointers) || pageLog > 32 || index == undefined {
		return fmt.Errorf("extensible array at byte %d: offsets of %d bits, blocks of %d entries and %d pointers, pages of 2^%d", d.at, maxBits, least, minPointers, pageLog)
	}
	e.offsetSize, e.page, e.least = int(maxBits+7)/8, 1<<pageLog, least
	// Of the 1 + bits - log2(least) super blocks, those with fewer data blocks than
	// minPointers have their data blocks' addresses in the index block.
	supers := 1 + int(maxBits) - (bits.Len64(least) - 1)
	direct := 2 * (bits.Len64(minPointers) - 1)
	c = d.f.cursorAt(index, undefined)
	c.expect("EAIB")
	c.version(0)
	c.skip(1)
	c.address() // of the header
	at := c.at + inIndex*uint64(e.size)
	inBlock := c
	c = d.f.cursorAt(at, undefined)
	// The checksum behind the addresses covers the entries, too.
	blocks := uint64(0)
	for s := range min(direct, supers) {
		blocks += 1 << (s / 2)
	}
	pointers := blocks + uint64(max(supers-direct, 0))
	end := d.f.cursorAt(at+pointers*uint64(d.f.offsetSize), undefined)
	if end.checksum(index); end.err != nil {
		return end.failed("extensible array")
	}
	for i := range min(inIndex, n) {
		if err := fn(i, d.entry(inBlock, e.filtered, e.size)); err != nil {
			return err
		}
	}
	e.next = inIndex
	for s := 0; s < supers && e.next < n; s++ {
		if s < direct {
			for range uint64(1) << (s / 2) {
				if err := e.block(c.address(), e.least<<((s+1)/2), nil); err != nil {
					return err
				}
			}
			continue
		}
		if err := e.super(c.address(), s); err != nil {
			return err
		}
	}
	return c.failed("extensible array")
}

// extensible is the walk of an extensible array.
type extensible struct {
	d          *Dataset
	n          uint64
	fn         func(uint64, chunk) error
	filtered   bool
	size       int // bytes of an entry
	offsetSize int // bytes of the offset within the array that blocks carry
	page       uint64
	least      uint64
	next       uint64 // chunk of the next entry
}

// super reads the data blocks of a super block.
func (e *extensible) super(address uint64, s int) error {
	if e.next >= e.n {
		return nil
	}
	f := e.d.f
	c := f.cursorAt(address, undefined)
	c.expect("EASB")
	c.version(0)
	c.skip(1)
	c.address()
	c.skip(uint64(e.offsetSize))
	blocks, entries := uint64(1)<<(s/2), e.least<<((s+1)/2)
	var pages []byte
	perBlock := (entries + e.page - 1) / e.page
	bitmap := (perBlock + 7) / 8
	if entries > e.page && c.err == nil {
		if bitmap > c.left()/blocks {
			return fmt.Errorf("extensible array block at byte %d: its pages reach beyond the end of the file", address)
		}
		pages = c.bytes(blocks * bitmap)
	}
	if c.err == nil && blocks > c.left()/uint64(f.offsetSize) {
		return fmt.Errorf("extensible array block at byte %d: its blocks reach beyond the end of the file", address)
	}
	end := f.cursorAt(c.at+blocks*uint64(f.offsetSize), undefined)
	if c.err == nil {
		end.checksum(address)
		c.err = end.err
	}
	if c.err != nil {
		return c.failed("extensible array block")
	}
	for i := range blocks {
		if e.next >= e.n {
			break
		}
		var there []byte
		if pages != nil {
			there = pages[i*bitmap : (i+1)*bitmap]
		}
		if err := e.block(c.address(), entries, there); err != nil {
			return err
		}
	}
	return c.failed("extensible array block")
}

// block reads a data block; there has a bit for each of its pages that is written.
func (e *extensible) block(address, entries uint64, there []byte) error {
	if e.next >= e.n {
		return nil
	}
	if address == undefined {
		return fmt.Errorf("chunk %d was never written", e.next)
	}
	first := e.next
	e.next += entries
	c := e.d.f.cursorAt(address, undefined)
	c.expect("EADB")
	c.version(0)
	c.skip(1)
	c.address()
	c.skip(uint64(e.offsetSize))
	if entries <= e.page {
		return e.d.entries(c, address, first, entries, e.n, e.filtered, e.size, e.fn)
	}
	c.checksum(address)
	for p := uint64(0); p*e.page < entries && first+p*e.page < e.n; p++ {
		if there != nil && there[p/8]>>(7-p%8)&1 == 0 {
			return fmt.Errorf("chunk %d was never written", first+p*e.page)
		}
		if err := e.d.entries(c, c.at, first+p*e.page, e.page, e.n, e.filtered, e.size, e.fn); err != nil {
			return err
		}
	}
	return c.failed("extensible array block")
}
