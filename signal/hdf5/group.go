package hdf5

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Link is a name in a group. A soft link has the path that it stands for instead of
// an address.
type Link struct {
	Name    string
	address uint64
	soft    string
	outside bool // leads to another file
}

// maxSoft is how many soft links may follow each other.
const maxSoft = 16

// IsGroup reports whether the object is a group.
func (o *Object) IsGroup() bool {
	return slices.ContainsFunc(o.msgs, func(m message) bool {
		return m.kind == msgSymbolTable || m.kind == msgLinkInfo || m.kind == msgLink
	})
}

// Links returns the links of a group, by name.
func (o *Object) Links() ([]Link, error) {
	l := links{f: o.f, names: uint64(len(o.f.data))}
	err := l.of(o)
	if err != nil {
		return nil, fmt.Errorf("group at byte %d: %w", o.address, err)
	}
	slices.SortStableFunc(l.all, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
	return l.all, nil
}

// Find returns the link of a name among those that [Object.Links] gave.
func Find(all []Link, name string) (Link, bool) {
	i, ok := slices.BinarySearchFunc(all, name, func(l Link, name string) int { return cmp.Compare(l.Name, name) })
	if !ok {
		return Link{}, false
	}
	return all[i], true
}

// links collects the links of a group.
type links struct {
	f     *File
	all   []Link
	names uint64 // bytes that names may still take: they don't lie on each other in a whole file
}

func (l *links) of(o *Object) error {
	for _, m := range o.msgs {
		if m.kind != msgLink {
			continue
		}
		c, err := o.body(m)
		if err == nil {
			err = l.link(c)
		}
		if err != nil {
			return err
		}
	}
	if c, err := o.message(msgSymbolTable); c != nil || err != nil {
		if err != nil {
			return err
		}
		return l.symbolTable(c)
	}
	c, err := o.message(msgLinkInfo)
	if c == nil || err != nil {
		return err
	}
	return l.dense(c)
}

func (l *links) add(link Link) error {
	n := uint64(len(link.Name) + len(link.soft) + 1)
	if n > l.names {
		return fmt.Errorf("its names are longer than the file: the file is damaged")
	}
	l.names -= n
	l.all = append(l.all, link)
	return nil
}

// link reads a link message (section IV.A.2.g).
func (l *links) link(c *cursor) error {
	c.version(1)
	flags := c.uint(1)
	typ := uint64(0)
	if flags&8 != 0 {
		typ = c.uint(1)
	}
	if flags&4 != 0 {
		c.skip(8) // creation order
	}
	if flags&16 != 0 {
		c.skip(1) // character set
	}
	n := c.uint(1 << (flags & 3))
	if c.err == nil && n > maxName {
		return fmt.Errorf("link at byte %d: %w", c.at, errLongName)
	}
	link := Link{Name: string(c.bytes(n))}
	switch typ {
	case 0:
		link.address = c.address()
	case 1:
		link.soft = string(c.bytes(c.uint(2)))
	default:
		link.outside = true
	}
	if c.err != nil {
		return c.failed("link")
	}
	return l.add(link)
}

// dense reads links from a heap (section IV.A.2.c, "link info").
func (l *links) dense(c *cursor) error {
	c.version(0)
	if flags := c.uint(1); flags&1 != 0 {
		c.skip(8) // largest creation index
	}
	heapAt, names := c.address(), c.address()
	if c.err != nil || heapAt == undefined {
		return c.failed("link info")
	}
	heap, err := l.f.fractalHeap(heapAt)
	if err != nil {
		return err
	}
	if names == undefined {
		return fmt.Errorf("heap at byte %d: has no index of names", heapAt)
	}
	const byName = 5
	return l.f.btree2(names, byName, func(c *cursor) error {
		c.skip(4) // hash of the name
		id := l.f.cursorAt(c.at, min(c.end, c.at+heap.idLength))
		body, err := heap.object(id)
		if err != nil {
			return err
		}
		return l.link(body)
	})
}

// symbolTable reads links from a version 1 B-tree of symbol table nodes, whose
// names are in a local heap (sections III.A.1, III.B, III.C and III.D).
func (l *links) symbolTable(c *cursor) error {
	tree, heapAt := c.address(), c.address()
	if c.err != nil {
		return c.failed("symbol table")
	}
	h := l.f.cursorAt(heapAt, undefined)
	h.expect("HEAP")
	h.version(0)
	h.skip(3)
	size := h.length()
	h.length() // free list
	at := h.address()
	if h.err != nil {
		return h.failed("heap of names")
	}
	names, err := l.f.sized(at, size)
	if err != nil {
		return fmt.Errorf("heap of names: %w", err)
	}
	nodes := l.f.budget(24)
	entries := l.f.budget(uint64(2*l.f.offsetSize + 24))
	return l.f.btree1(tree, 0, uint64(l.f.lengthSize), nodes, func(_ *cursor, node uint64) error {
		return l.symbols(node, names, entries)
	})
}

// symbols reads a symbol table node.
func (l *links) symbols(at uint64, names *cursor, entries *budget) error {
	c := l.f.cursorAt(at, undefined)
	c.expect("SNOD")
	c.version(1)
	c.skip(1)
	n := c.uint(2)
	for range n {
		name, address, cache := c.offset(), c.address(), c.uint(4)
		c.skip(4)
		scratch := c.bytes(16)
		if c.err != nil {
			break
		}
		if err := entries.spend(c.at); err != nil {
			return err
		}
		link, err := l.named(names, name)
		if err != nil {
			return err
		}
		link.address = address
		if cache == 2 { // a soft link; its path is in the heap, too
			value, err := l.named(names, uint64(scratch[0])|uint64(scratch[1])<<8|uint64(scratch[2])<<16|uint64(scratch[3])<<24)
			if err != nil {
				return err
			}
			link.soft = value.Name
		}
		if err := l.add(link); err != nil {
			return err
		}
	}
	return c.failed("symbol table node")
}

// named reads a name from a local heap.
func (l *links) named(heap *cursor, offset uint64) (Link, error) {
	if offset > heap.left() {
		return Link{}, fmt.Errorf("heap of names at byte %d: has no byte %d", heap.at, offset)
	}
	c := l.f.cursorAt(heap.at+offset, heap.end)
	name := c.text()
	return Link{Name: name}, c.failed("heap of names")
}

// btree1 calls fn with every leaf entry of a version 1 B-tree: the key to its left
// and the address of what it leads to (section III.A.1).
func (f *File) btree1(address uint64, typ uint64, keySize uint64, nodes *budget, fn func(key *cursor, child uint64) error) error {
	return f.node1(address, typ, keySize, -1, nodes, fn)
}

// node1 visits a node; level is what it has to be, -1 for the root's.
func (f *File) node1(address uint64, typ uint64, keySize uint64, level int, nodes *budget, fn func(*cursor, uint64) error) error {
	if err := nodes.spend(address); err != nil {
		return err
	}
	c := f.cursorAt(address, undefined)
	c.expect("TREE")
	have, at, n := c.uint(1), int(c.uint(1)), c.uint(2)
	c.address() // neighbours
	c.address()
	switch {
	case c.err != nil:
		return c.failed("tree node")
	case have != typ:
		return fmt.Errorf("tree node at byte %d: type %d, not %d", address, have, typ)
	case level >= 0 && at != level || at > maxDepth:
		return fmt.Errorf("tree node at byte %d: level %d is not below the one before", address, at)
	}
	for range n {
		key := f.cursorAt(c.at, c.at+keySize)
		c.skip(keySize)
		child := c.address()
		if c.err != nil {
			return c.failed("tree node")
		}
		var err error
		if at > 0 {
			err = f.node1(child, typ, keySize, at-1, nodes, fn)
		} else {
			err = fn(key, child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Follow returns the object that a link of the group leads to.
func (o *Object) Follow(link Link) (*Object, error) {
	soft := maxSoft
	return o.follow(link, &soft)
}

// follow takes from soft for each soft link on its way: they may lead in circles, or
// have many more behind each.
func (o *Object) follow(link Link, soft *int) (*Object, error) {
	switch {
	case link.outside:
		return nil, fmt.Errorf("%q leads to another file: external links are not supported", clip(link.Name))
	case link.soft == "":
		return o.f.Object(link.address)
	case *soft == 0:
		return nil, fmt.Errorf("%q: too many soft links", clip(link.Name))
	}
	*soft--
	from := o
	if strings.HasPrefix(link.soft, "/") {
		root, err := o.f.Root()
		if err != nil {
			return nil, err
		}
		from = root
	}
	return from.open(link.soft, soft)
}

// Open returns the object at a path below the group. If a name isn't there, NotThere
// reports true of the error.
func (o *Object) Open(path string) (*Object, error) {
	soft := maxSoft
	return o.open(path, &soft)
}

func (o *Object) open(path string, soft *int) (*Object, error) {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		all, err := o.Links()
		if err != nil {
			return nil, err
		}
		link, ok := Find(all, name)
		if !ok {
			return nil, fmt.Errorf("group at byte %d: %q is %w", o.address, clip(name), errNotThere)
		}
		if o, err = o.follow(link, soft); err != nil {
			return nil, err
		}
	}
	return o, nil
}
