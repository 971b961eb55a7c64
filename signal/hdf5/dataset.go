package hdf5

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxElements is the longest dataset that is read: two to four hours of one
// channel, as in package vbz.
const MaxElements = 1 << 26

// maxChunk bounds what a chunk may unpack to.
const maxChunk = 8 * MaxElements

// layoutKind is where a dataset's data are.
type layoutKind uint8

const (
	layoutCompact    layoutKind = 0 // in the header
	layoutContiguous layoutKind = 1
	layoutChunked    layoutKind = 2
)

// Dataset is a list of integers.
type Dataset struct {
	f       *File
	address uint64
	typ     *datatype
	n       uint64 // elements
	layout  layoutKind
	at      uint64 // of compact and contiguous data, or of the chunk index
	size    uint64 // bytes of compact and contiguous data
	chunk   uint64 // elements of a chunk
	index   indexKind
	single  chunk // for indexSingle
	unpart  bool  // a chunk that is part of an edge is not filtered
	filters []filter
	pageLog uint8 // for indexFixed
}

// indexKind is how a dataset's chunks are found.
type indexKind uint8

const (
	indexSingle     indexKind = 1
	indexImplicit   indexKind = 2
	indexFixed      indexKind = 3
	indexExtensible indexKind = 4
	indexBTree2     indexKind = 5
	indexBTree1     indexKind = 100 // layouts up to version 3 have no number for it
)

// chunk is where a chunk is stored.
type chunk struct {
	address uint64
	size    uint64 // bytes as stored
	skipped uint32 // bit for each filter that was not applied
}

// IsDataset reports whether the object is a dataset.
func (o *Object) IsDataset() bool {
	return slices.ContainsFunc(o.msgs, func(m message) bool { return m.kind == msgLayout })
}

// Dataset returns the object as a list of integers, without reading them.
func (o *Object) Dataset() (*Dataset, error) {
	d := &Dataset{f: o.f, address: o.address}
	if err := d.parse(o); err != nil {
		return nil, fmt.Errorf("dataset at byte %d: %w", o.address, err)
	}
	return d, nil
}

// Len returns the number of elements.
func (d *Dataset) Len() int { return int(d.n) }

// Address is where the dataset is: that of its object.
func (d *Dataset) Address() uint64 { return d.address }

// Filters returns the names of the filters in the order in which they were applied.
func (d *Dataset) Filters() (names []string) {
	for _, f := range d.filters {
		names = append(names, f.String())
	}
	return names
}

// part reads one of the messages that every dataset has.
func (o *Object) part(kind uint16, what string) (*cursor, error) {
	c, err := o.message(kind)
	if err == nil && c == nil {
		err = fmt.Errorf("has no %s", what)
	}
	return c, err
}

func (d *Dataset) parse(o *Object) error {
	c, err := o.part(msgDatatype, "datatype")
	if err != nil {
		return err
	}
	if d.typ, err = o.f.datatype(c, 0); err != nil {
		return err
	}
	switch {
	case d.typ.unread != "":
		return fmt.Errorf("holds %s, which is not supported", d.typ.unread)
	case d.typ.class != classInteger:
		return fmt.Errorf("is of class %d, not of integers", d.typ.class)
	}
	if c, err = o.part(msgDataspace, "dataspace"); err != nil {
		return err
	}
	space, err := o.f.dataspace(c)
	if err != nil {
		return err
	}
	n, ok := space.elements()
	switch {
	case len(space.dims) != 1 && !space.null:
		return fmt.Errorf("has %d dimensions, not one", len(space.dims))
	case !ok || n > MaxElements:
		return fmt.Errorf("has %d elements: at most %d are read", space.dims[0], MaxElements)
	}
	d.n = n
	if c, err = o.message(msgExternal); c != nil || err != nil {
		return cmpErr(err, errExternal)
	}
	if c, err = o.message(msgFilters); err != nil {
		return err
	}
	if c != nil {
		if d.filters, err = parseFilters(c); err != nil {
			return err
		}
	}
	if c, err = o.part(msgLayout, "layout"); err != nil {
		return err
	}
	return d.parseLayout(c)
}

var errExternal = errors.New("has its data in other files, which is not supported")

// cmpErr is the first of two errors that is one.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// parseLayout reads the data layout message (section IV.A.2.i).
func (d *Dataset) parseLayout(c *cursor) error {
	var err error
	switch version := c.version(1, 2, 3, 4, 5); version {
	case 1, 2:
		err = d.layout1(c)
	case 3, 4, 5:
		err = d.layout3(c, version)
	}
	if err == nil {
		err = c.failed("layout")
	}
	if err == nil && d.layout == layoutChunked && (d.chunk == 0 || d.chunk > maxChunk/d.typ.size) {
		err = fmt.Errorf("has chunks of %d elements", d.chunk)
	}
	return err
}

// layout1 reads versions 1 and 2, of libraries before 1.6.3.
func (d *Dataset) layout1(c *cursor) error {
	rank := c.uint(1)
	d.layout = layoutKind(c.uint(1))
	c.skip(5)
	if d.layout != layoutCompact {
		d.at = c.address()
	}
	want := uint64(1)
	if d.layout == layoutChunked {
		want = 2 // the last dimension is an element's size
	}
	if c.err == nil && rank != want {
		return fmt.Errorf("has a layout of %d dimensions, not of one", rank)
	}
	first := c.uint(4)
	switch d.layout {
	case layoutCompact:
		d.size = c.uint(4)
		d.at = c.at
		c.skip(d.size)
	case layoutContiguous:
		d.size = first * d.typ.size
	case layoutChunked:
		d.chunk, d.index = first, indexBTree1
		return d.elementSize(c.uint(4), c)
	default:
		return fmt.Errorf("has a layout of class %d, which is not supported", d.layout)
	}
	return nil
}

// elementSize refuses chunks of other elements than the dataset's.
func (d *Dataset) elementSize(n uint64, c *cursor) error {
	if c.err == nil && n != d.typ.size {
		return fmt.Errorf("has elements of %d bytes, but %d in its chunks", d.typ.size, n)
	}
	return nil
}

func (d *Dataset) layout3(c *cursor, version int) error {
	d.layout = layoutKind(c.uint(1))
	switch d.layout {
	case layoutCompact:
		d.size = c.uint(2)
		d.at = c.at
		c.skip(d.size)
		return nil
	case layoutContiguous:
		d.at, d.size = c.address(), c.length()
		return nil
	case layoutChunked:
	default:
		return fmt.Errorf("has a layout of class %d, which is not supported", d.layout)
	}
	if version >= 4 {
		return d.layout4(c)
	}
	if rank := c.uint(1); c.err == nil && rank != 2 {
		return fmt.Errorf("has chunks of %d dimensions, not of one", rank-1)
	}
	d.at = c.address()
	d.chunk, d.index = c.uint(4), indexBTree1
	return d.elementSize(c.uint(4), c)
}

// layout4 reads chunks as libraries since 1.10 write them when older libraries need not
// read them. Version 5, of library 2.0, differs in the width of chunks' sizes in the
// index; the index itself states the width.
func (d *Dataset) layout4(c *cursor) error {
	flags := c.uint(1)
	d.unpart = flags&1 != 0
	if rank := c.uint(1); c.err == nil && rank != 2 {
		return fmt.Errorf("has chunks of %d dimensions, not of one", rank-1)
	}
	size := int(c.uint(1))
	if c.err == nil && (size < 1 || size > 8) {
		return fmt.Errorf("has dimensions of %d bytes", size)
	}
	if c.err != nil {
		return c.failed("layout")
	}
	d.chunk = c.uint(size)
	if err := d.elementSize(c.uint(size), c); err != nil {
		return err
	}
	d.index = indexKind(c.uint(1))
	switch d.index {
	case indexSingle:
		d.single.size = d.chunk * d.typ.size
		if flags&2 != 0 {
			d.single.size, d.single.skipped = c.length(), uint32(c.uint(4))
		}
	case indexImplicit:
	case indexFixed:
		d.pageLog = uint8(c.uint(1))
	case indexExtensible:
		c.skip(5) // repeated where the array is
	default:
		return fmt.Errorf("has a chunk index of type %d, which is not supported for one dimension", d.index)
	}
	d.at = c.address()
	d.single.address = d.at
	return nil
}

// AppendInt16 appends the elements to dst. It refuses numbers that don't fit. On an
// error it returns dst unchanged.
func (d *Dataset) AppendInt16(dst []int16, w *Workspace) ([]int16, error) {
	out, err := d.append(dst, w)
	if err != nil {
		return dst, fmt.Errorf("dataset at byte %d: %w", d.address, err)
	}
	return out, nil
}

func (d *Dataset) append(dst []int16, w *Workspace) ([]int16, error) {
	if d.n == 0 {
		return dst, nil
	}
	if d.layout != layoutChunked {
		need := d.n * d.typ.size
		if d.at == undefined || d.size < need {
			return nil, fmt.Errorf("has %d elements, but %d bytes of data", d.n, d.size)
		}
		b, err := d.f.slice(d.at, need)
		if err != nil {
			return nil, err
		}
		return d.convert(dst, b)
	}
	chunks := (d.n + d.chunk - 1) / d.chunk
	if chunks > uint64(len(d.f.data)) {
		return nil, fmt.Errorf("has %d chunks, more than the file has bytes", chunks)
	}
	var next uint64
	err := d.chunks(chunks, func(i uint64, at chunk) error {
		switch {
		case i != next || i >= chunks:
			return fmt.Errorf("chunk %d follows where chunk %d is expected: part of the data was never written, or the file is damaged", i, next)
		case at.address == undefined:
			return fmt.Errorf("chunk %d was never written", i)
		}
		next++
		var err error
		if dst, err = d.unpack(dst, at, min(d.chunk, d.n-i*d.chunk), w); err != nil {
			return fmt.Errorf("chunk %d at byte %d: %w", i, at.address, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if next != chunks {
		return nil, fmt.Errorf("has %d chunks, but %d are needed: part of the data was never written", next, chunks)
	}
	return dst, nil
}

// unpack appends the first n elements of a chunk.
func (d *Dataset) unpack(dst []int16, at chunk, n uint64, w *Workspace) ([]int16, error) {
	b, err := d.f.slice(at.address, at.size)
	if err != nil {
		return nil, err
	}
	filters := d.filters
	if n < d.chunk && d.unpart {
		filters = nil
	}
	whole := d.chunk * d.typ.size
	if out, done, err := d.samples(dst, b, filters, at.skipped, n, w); done {
		return out, err
	}
	if b, err = w.undo(filters, at.skipped, b, whole); err != nil {
		return nil, err
	}
	if uint64(len(b)) != whole {
		return nil, fmt.Errorf("unpacks to %d bytes, not %d", len(b), whole)
	}
	return d.convert(dst, b[:n*d.typ.size])
}

// convert appends elements that are stored as b.
func (d *Dataset) convert(dst []int16, b []byte) ([]int16, error) {
	size := int(d.typ.size)
	n := len(b) / size
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	out := dst[start:]
	if d.isInt16() {
		for i := range out {
			out[i] = int16(b[2*i]) | int16(b[2*i+1])<<8
		}
		return dst, nil
	}
	for i := range out {
		v := d.typ.integer(b[i*size : (i+1)*size])
		if s := int64(v); s < math.MinInt16 || s > math.MaxInt16 {
			return nil, fmt.Errorf("element %d does not fit 16 bits", i)
		}
		out[i] = int16(v)
	}
	return dst, nil
}

// isInt16 reports whether the values have the type in which signal is stored.
func (d *Dataset) isInt16() bool { return d.typ.size == 2 && d.typ.signed && !d.typ.bigEndian }
