package codec

import "errors"

// errNested bounds recursion: writers stripe once.
var errNested = errors.New("a stripe within a stripe")

// coder decodes the bytes of a stream behind its flags to size bytes.
type coder func(c *cursor, flags byte, size int) ([]byte, error)

// transformed decodes a stream of size bytes, which begins with its flags. It undoes what CRAM 3.1 may do to bytes before either of
// its coders: dealing them out to several streams, and packing. inner says that the stream is one of those.
func (c *cursor) transformed(size int, inner bool, decode coder) ([]byte, error) {
	flags := c.byte()
	if flags&flagNoSize == 0 {
		if n := c.uint7(); c.err == nil && n != size {
			return nil, errLong
		}
	}
	if flags&flagStripe != 0 {
		if inner {
			return nil, errNested
		}
		return c.stripe(size, decode)
	}
	if flags&flagPack == 0 {
		if c.err != nil {
			return nil, c.err
		}
		return decode(c, flags, size)
	}
	p, packed := c.packing()
	if packed > size {
		return nil, errLong
	}
	if c.err != nil {
		return nil, c.err
	}
	out, err := decode(c, flags, packed)
	if err != nil {
		return nil, err
	}
	return p.unpack(out, size)
}

// stripe decodes streams that each have every nth byte (section 3.6).
func (c *cursor) stripe(size int, decode coder) ([]byte, error) {
	n := int(c.byte())
	if n == 0 {
		return nil, errors.New("a stripe of no streams")
	}
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = c.uint7()
	}
	out := make([]byte, size)
	for i, length := range lengths {
		stream := cursor{data: c.take(length)}
		if c.err != nil {
			return nil, c.err
		}
		want := size / n
		if size%n > i {
			want++
		}
		part, err := stream.transformed(want, true, decode)
		if err != nil {
			return nil, err
		}
		if len(part) != want {
			return nil, errShort
		}
		for k, b := range part {
			out[k*n+i] = b
		}
	}
	return out, nil
}

// packing are the symbols, at most 16, that several are in a byte of (section 3.5).
type packing []byte

// packing reads them, and the length of what is packed.
func (c *cursor) packing() (p packing, size int) {
	p = c.take(int(c.byte()))
	size = c.uint7()
	if len(p) == 0 || len(p) > 16 {
		c.err = errors.New("packed bytes have 1 to 16 symbols")
	}
	return p, size
}

func (p packing) unpack(data []byte, size int) ([]byte, error) {
	out := make([]byte, size)
	var width uint // of a symbol, in bits
	switch {
	case len(p) == 1:
		for i := range out {
			out[i] = p[0]
		}
		return out, nil
	case len(p) == 2:
		width = 1
	case len(p) <= 4:
		width = 2
	default:
		width = 4
	}
	perByte := int(8 / width)
	if len(data) < (size+perByte-1)/perByte {
		return nil, errShort
	}
	var symbols [16]byte // those that there aren't are 0
	copy(symbols[:], p)
	mask := byte(1<<width - 1)
	for i := range out {
		out[i] = symbols[data[i/perByte]>>(uint(i%perByte)*width)&mask]
	}
	return out, nil
}
