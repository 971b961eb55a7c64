package hdf5

import "fmt"

// maxDepth is more levels than any tree has: each has several times the nodes of
// the one above.
const maxDepth = 32

// btree2 calls fn with every record of a version 2 B-tree, in their order (section
// III.A.2). The cursor that fn gets covers one record.
func (f *File) btree2(address uint64, typ int, fn func(*cursor) error) error {
	c := f.cursorAt(address, undefined)
	c.expect("BTHD")
	c.version(0)
	have := int(c.uint(1))
	t := tree2{f: f, fn: fn}
	t.nodeSize = c.uint(4)
	t.recordSize = c.uint(2)
	depth := c.uint(2)
	c.skip(2) // when nodes are split and merged
	root, records := c.address(), c.uint(2)
	c.length() // records in the whole tree
	c.checksum(address)
	switch {
	case c.err != nil:
		return c.failed("tree")
	case have != typ:
		return fmt.Errorf("tree at byte %d: type %d, not %d", address, have, typ)
	case depth > maxDepth || t.recordSize == 0 || t.nodeSize < 10+t.recordSize:
		return fmt.Errorf("tree at byte %d: depth %d, nodes of %d bytes, records of %d", address, depth, t.nodeSize, t.recordSize)
	case root == undefined:
		return nil
	}
	t.typ = uint64(typ)
	t.steps = f.budget(t.nodeSize)
	t.layout(int(depth))
	return t.node(root, records, int(depth))
}

type tree2 struct {
	f          *File
	fn         func(*cursor) error
	typ        uint64
	nodeSize   uint64
	recordSize uint64
	countSize  int   // bytes of a child's number of records
	totalSizes []int // by level: bytes of the number of records below a child
	steps      *budget
}

// layout finds how wide the counts in internal nodes are: as wide as the largest
// count that a node at that level can have.
func (t *tree2) layout(depth int) {
	const overhead = 4 + 1 + 1 + 4 // signature, version, type, checksum
	most := (t.nodeSize - overhead) / t.recordSize
	t.countSize = bytesFor(most)
	t.totalSizes = make([]int, depth+1)
	total := most
	for level := 1; level <= depth; level++ {
		if level > 1 {
			t.totalSizes[level] = bytesFor(total)
		}
		pointer := uint64(t.f.offsetSize + t.countSize + t.totalSizes[level])
		here := uint64(0)
		if t.nodeSize > overhead+pointer {
			here = (t.nodeSize - overhead - pointer) / (t.recordSize + pointer)
		}
		if total > undefined/(here+1)-here-1 {
			total = undefined - 1
		} else {
			total = (here+1)*total + here
		}
	}
}

// bytesFor is the number of bytes that hold a number.
func bytesFor(n uint64) int {
	size := 1
	for n >>= 8; n > 0; n >>= 8 {
		size++
	}
	return size
}

// node visits a node of some level and all below it; leaves are at level 0.
func (t *tree2) node(address, records uint64, level int) error {
	if err := t.steps.spend(address); err != nil {
		return err
	}
	c, err := t.f.sized(address, t.nodeSize)
	if err != nil {
		return fmt.Errorf("tree node: %w", err)
	}
	signature := "BTLF"
	if level > 0 {
		signature = "BTIN"
	}
	c.expect(signature)
	c.version(0)
	if typ := c.uint(1); c.err == nil && typ != t.typ {
		return fmt.Errorf("tree node at byte %d: type %d, not %d", address, typ, t.typ)
	}
	at := c.at
	c.skip(records * t.recordSize) // both have two bytes
	type child struct{ address, records uint64 }
	var children []child
	if level > 0 {
		for range records + 1 {
			if c.err != nil {
				break
			}
			children = append(children, child{c.address(), c.uint(t.countSize)})
			if n := t.totalSizes[level]; n > 0 {
				c.skip(uint64(n))
			}
		}
	}
	c.checksum(address)
	if c.err != nil {
		return c.failed("tree node")
	}
	for i := range records {
		if level > 0 {
			if err := t.node(children[i].address, children[i].records, level-1); err != nil {
				return err
			}
		}
		from := at + i*t.recordSize
		if err := t.fn(t.f.cursorAt(from, from+t.recordSize)); err != nil {
			return err
		}
	}
	if level > 0 {
		last := children[records]
		return t.node(last.address, last.records, level-1)
	}
	return nil
}
