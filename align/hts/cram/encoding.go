package cram

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// How a series is encoded (section 3).
const (
	codeNone      = 0
	codeExternal  = 1
	codeHuffman   = 3
	codeLength    = 4
	codeStop      = 5
	codeBeta      = 6
	codeSubexp    = 7
	codeGamma     = 9
	maxCodeLength = 31
)

// encoding says where the values of a series are, and how they are written there.
type encoding struct {
	code    int32
	block   int32 // content id of an external block
	stop    byte  // behind an array
	offset  int32 // taken from values
	width   int   // Beta: bits of a value; Subexp: k
	huffman *huffman
	length  *encoding // of arrays
	values  *encoding // in them
}

// readEncoding reads what a container's header says of a series.
func readEncoding(s *stream) (*encoding, error) { return nestedEncoding(s, false) }

func nestedEncoding(s *stream, inner bool) (*encoding, error) {
	e := &encoding{code: s.itf8()}
	p := newStream(s.take(int(s.itf8())))
	if s.fail.err != nil {
		return nil, s.fail.err
	}
	var err error
	switch e.code {
	case codeNone:
	case codeExternal:
		e.block = p.itf8()
	case codeHuffman:
		symbols, lengths := p.array(), p.array()
		if p.fail.err == nil {
			e.huffman, err = newHuffman(symbols, lengths)
		}
	case codeLength:
		if inner {
			return nil, errors.New("arrays of arrays")
		}
		if e.length, err = nestedEncoding(p, true); err == nil {
			e.values, err = nestedEncoding(p, true)
		}
	case codeStop:
		e.stop, e.block = p.byte(), p.itf8()
	case codeBeta, codeSubexp:
		e.offset, e.width = p.itf8(), int(p.itf8())
		if e.width < 0 || e.width > 32 {
			err = fmt.Errorf("values of %d bits", e.width)
		}
	case codeGamma:
		e.offset = p.itf8()
	default:
		return nil, fmt.Errorf("encoding %d, which no writer uses", e.code)
	}
	return e, cmp.Or(err, p.fail.err)
}

// huffman is a canonical code: of each length its first code, and the symbols of that length.
type huffman struct {
	only    bool // one symbol, which takes no bits
	symbols []int32
	lengths [maxCodeLength + 1]struct{ first, count, at int }
	longest int
}

func newHuffman(symbols, lengths []int32) (*huffman, error) {
	if len(symbols) == 0 || len(symbols) != len(lengths) {
		return nil, errors.New("a Huffman code of no symbols")
	}
	type entry struct{ symbol, length int32 }
	list := make([]entry, len(symbols))
	for i := range list {
		list[i] = entry{symbols[i], lengths[i]}
	}
	slices.SortFunc(list, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.symbol, b.symbol))
	})
	h := &huffman{symbols: make([]int32, len(list)), only: len(list) == 1 && list[0].length == 0}
	code, length := 0, list[0].length
	for i, e := range list {
		h.symbols[i] = e.symbol
		if e.length > maxCodeLength || e.length < 1 && !h.only {
			return nil, fmt.Errorf("a Huffman code of %d bits", e.length)
		}
		if e.length > length {
			code <<= e.length - length
			length = e.length
		}
		if code>>length != 0 {
			return nil, errors.New("a Huffman code of too many symbols")
		}
		l := &h.lengths[length]
		if l.count == 0 {
			l.first, l.at = code, i
		}
		l.count++
		code++
	}
	h.longest = int(length)
	return h, nil
}

func (h *huffman) next(b *bits) int32 {
	if h.only {
		return h.symbols[0]
	}
	code := 0
	for n := 1; n <= h.longest; n++ {
		code = code<<1 | int(b.bit())
		if l := &h.lengths[n]; code-l.first < l.count && l.count > 0 && code >= l.first {
			return h.symbols[l.at+code-l.first]
		}
	}
	b.fail.set(errors.New("the core block: a code that there isn't"))
	return 0
}

// next returns the next value of a series in the core block.
func (e *encoding) next(b *bits) int32 {
	switch e.code {
	case codeHuffman:
		return e.huffman.next(b)
	case codeBeta:
		return int32(b.read(e.width)) - e.offset
	case codeGamma:
		n := b.zeros()
		if n > 31 {
			b.fail.set(errors.New("the core block: a value of too many bits"))
			return 0
		}
		return int32(1<<n|b.read(n)) - e.offset
	}
	n := b.ones() // Subexp
	if n == 0 {
		return int32(b.read(e.width)) - e.offset
	}
	if n += e.width - 1; n > 31 {
		b.fail.set(errors.New("the core block: a value of too many bits"))
		return 0
	}
	return int32(1<<n|b.read(n)) - e.offset
}

// Series of a slice. Those that a container doesn't have can be made; reading one fails.
type (
	integers func() int32
	arrays   func() []byte
)

// letters is a series of bytes.
type letters struct {
	in    *stream // nil: they are in the core block
	next  func() byte
	arena *arena
}

// take returns the next n.
func (l *letters) take(n int) []byte {
	if l.in != nil {
		return l.in.take(n)
	}
	out := l.arena.take(n)
	for i := range out {
		out[i] = l.next()
	}
	return out
}

// integers opens a series of integers.
func (s *slice) integers(name string) integers { return s.integersOf(name, s.scheme.series[name]) }

func (s *slice) integersOf(name string, e *encoding) integers {
	switch {
	case e == nil || e.code == codeNone || e.code == codeLength || e.code == codeStop:
		return func() int32 {
			s.fail.set(fmt.Errorf("there is no series %s of integers", name))
			return 0
		}
	case e.code == codeExternal:
		return s.external(e.block).itf8
	case e.code == codeHuffman && e.huffman.only:
		constant := e.huffman.symbols[0]
		return func() int32 { return constant }
	}
	return func() int32 { return e.next(&s.core) }
}

// letters opens a series of bytes.
func (s *slice) letters(name string) *letters { return s.lettersOf(name, s.scheme.series[name]) }

func (s *slice) lettersOf(name string, e *encoding) *letters {
	if e != nil && e.code == codeExternal {
		in := s.external(e.block)
		return &letters{in: in, next: in.byte}
	}
	values := s.integersOf(name, e)
	return &letters{next: func() byte { return byte(values()) }, arena: &s.arena}
}

// arrays opens a series of arrays of bytes, which stay the slice's.
func (s *slice) arrays(name string) arrays { return s.arraysOf(name, s.scheme.series[name]) }

func (s *slice) arraysOf(name string, e *encoding) arrays {
	switch {
	case e != nil && e.code == codeStop:
		in := s.external(e.block)
		return func() []byte {
			n := bytes.IndexByte(in.data, e.stop)
			if n < 0 {
				in.short()
				return nil
			}
			array := in.take(n)
			in.data = in.data[1:]
			return array
		}
	case e != nil && e.code == codeLength:
		length, values := s.integersOf(name, e.length), s.lettersOf(name, e.values)
		return func() []byte {
			n := int(length())
			if n < 0 || !s.spend(n) {
				s.fail.set(fmt.Errorf("an array of %d bytes in series %s", n, name))
				return nil
			}
			return values.take(n)
		}
	}
	return func() []byte {
		s.fail.set(fmt.Errorf("there is no series %s of arrays", name))
		return nil
	}
}

// arena is memory for data that live as long as a piece of a slice.
type arena struct{ all, free []byte }

func (a *arena) take(n int) []byte {
	if n > len(a.free) {
		a.all = make([]byte, max(n, pieceBases))
		a.free = a.all
	}
	out := a.free[:n:n]
	a.free = a.free[n:]
	return out
}

// reset takes back all that was given, as far as it is at hand.
func (a *arena) reset() { a.free = a.all }
