package hdf5

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Floats are a dataset of floating-point numbers of any shape, as networks' weights are kept.
type Floats struct {
	Shape []int
	Data  []float32 // the last dimension changes fastest
}

// Floats reads a dataset of floating-point numbers in single or double precision, stored in one piece, not in chunks.
func (o *Object) Floats() (*Floats, error) {
	v, err := o.floats()
	if err != nil {
		return nil, fmt.Errorf("dataset at byte %d: %w", o.address, err)
	}
	return v, nil
}

func (o *Object) floats() (*Floats, error) {
	c, err := o.part(msgDatatype, "datatype")
	if err != nil {
		return nil, err
	}
	t, err := o.f.datatype(c, 0)
	if err != nil {
		return nil, err
	}
	switch {
	case t.unread != "":
		return nil, fmt.Errorf("holds %s, which is not supported", t.unread)
	case t.class != classFloat:
		return nil, fmt.Errorf("is of class %d, not of floating-point numbers", t.class)
	}
	if c, err = o.part(msgDataspace, "dataspace"); err != nil {
		return nil, err
	}
	space, err := o.f.dataspace(c)
	if err != nil {
		return nil, err
	}
	n, ok := space.elements()
	if !ok || n > MaxElements {
		return nil, fmt.Errorf("has more than %d elements", MaxElements)
	}
	v := &Floats{}
	for _, d := range space.dims {
		if d > MaxElements {
			return nil, fmt.Errorf("has a dimension of %d", d)
		}
		v.Shape = append(v.Shape, int(d))
	}
	if c, err = o.message(msgExternal); c != nil || err != nil {
		return nil, cmpErr(err, errExternal)
	}
	if c, err = o.part(msgLayout, "layout"); err != nil {
		return nil, err
	}
	b, err := o.whole(c, n*t.size)
	if err != nil {
		return nil, err
	}
	v.Data = make([]float32, n)
	var order binary.ByteOrder = binary.LittleEndian
	if t.bigEndian {
		order = binary.BigEndian
	}
	for i := range v.Data {
		if t.size == 4 {
			v.Data[i] = math.Float32frombits(order.Uint32(b[4*i:]))
		} else {
			v.Data[i] = float32(math.Float64frombits(order.Uint64(b[8*i:])))
		}
	}
	return v, nil
}

// whole is the data of a dataset that isn't in chunks, as its layout message says.
func (o *Object) whole(c *cursor, need uint64) ([]byte, error) {
	version := c.version(3, 4, 5)
	kind := layoutKind(c.uint(1))
	var at, size uint64
	switch kind {
	case layoutCompact:
		size = c.uint(2)
		at = c.at
		c.skip(size)
	case layoutContiguous:
		at, size = c.address(), c.length()
	default:
		return nil, fmt.Errorf("is in chunks (layout %d of version %d), which is not supported for such numbers", kind, version)
	}
	if err := c.failed("layout"); err != nil {
		return nil, err
	}
	if need == 0 {
		return nil, nil
	}
	if at == undefined {
		return nil, errors.New("was never written")
	}
	if size < need {
		return nil, fmt.Errorf("has %d bytes of data, and needs %d", size, need)
	}
	return o.f.slice(at, need)
}
