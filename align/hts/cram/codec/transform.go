package codec

import "errors"

// errNested bounds recursion: writers stripe once.
var errNested = errors.New("a stripe within a stripe")

// stripe decodes streams that each have every nth byte (section 3.6).
func (c *cursor) stripe(size int, decode func(c *cursor, size int, inner bool) ([]byte, error)) ([]byte, error) {
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
		part, err := decode(&stream, want, true)
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
