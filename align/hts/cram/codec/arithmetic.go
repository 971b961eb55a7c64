package codec

import (
	"bytes"
	"compress/bzip2"
	"errors"
)

// ranges decodes symbols: each symbol has a part of the current range (section 4).
type ranges struct {
	data         []byte
	at           int
	width, value uint32
	err          error
}

func newRanges(data []byte) *ranges {
	r := &ranges{data: data, width: 1<<32 - 1}
	for range 5 {
		r.value = r.value<<8 | uint32(r.next())
	}
	return r
}

func (r *ranges) next() byte {
	if r.at >= len(r.data) {
		r.err = errShort
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

// model learns how often each of its symbols comes (section 4.1). The frequent stand in front.
type model struct {
	total   uint32
	symbols []modelled
}

type modelled struct{ frequency, symbol uint16 }

func newModel(n int) *model {
	m := new(model)
	m.init(make([]modelled, n))
	return m
}

func (m *model) init(symbols []modelled) {
	m.symbols, m.total = symbols, uint32(len(symbols))
	for i := range symbols {
		symbols[i] = modelled{1, uint16(i)}
	}
}

// decode decodes the next symbol, 0 where r has failed.
func (m *model) decode(r *ranges) byte {
	const (
		step = 16
		most = 1<<16 - 17
	)
	r.width /= m.total
	if r.width == 0 {
		r.err = errShort
		return 0
	}
	at, below, i := r.value/r.width, uint32(0), 0
	symbols := m.symbols
	for ; i < len(symbols) && below+uint32(symbols[i].frequency) <= at; i++ {
		below += uint32(symbols[i].frequency)
	}
	if i == len(symbols) {
		r.err = errors.New("the data doesn't decode")
		return 0
	}
	s := &symbols[i]
	r.value -= below * r.width
	r.width *= uint32(s.frequency)
	for r.width < 1<<24 {
		r.width <<= 8
		r.value = r.value<<8 | uint32(r.next())
		if r.err != nil {
			return 0
		}
	}
	s.frequency += step
	if m.total += step; m.total > most {
		m.halve()
	}
	symbol := byte(s.symbol)
	if i > 0 && s.frequency > symbols[i-1].frequency {
		symbols[i-1], symbols[i] = symbols[i], symbols[i-1]
	}
	return symbol
}

func (m *model) halve() {
	m.total = 0
	for i := range m.symbols {
		s := &m.symbols[i]
		s.frequency -= s.frequency / 2
		m.total += uint32(s.frequency)
	}
}

// decodeArithmetic decodes bytes by adaptive models, which are updated with each byte (section 4.4).
func decodeArithmetic(data []byte, size int) ([]byte, error) {
	c := &cursor{data: data}
	return c.transformed(size, false, (*cursor).arithmetic)
}

// arithmetic decodes size bytes before anything but runs, which the models know, was done to them.
func (c *cursor) arithmetic(flags byte, size int) ([]byte, error) {
	switch {
	case flags&flagCat != 0:
		out := c.take(size)
		return out, c.err
	case size == 0:
		return nil, nil
	case flags&flagExternal != 0:
		// A stream that is no bzip2 is refused by its first bytes.
		return readAll(bzip2.NewReader(bytes.NewReader(c.data)), size)
	}
	return c.adaptive(size, flags&flagOrder != 0, flags&flagRuns != 0)
}

// adaptive decodes size bytes, by the byte before or not, and as runs or not.
func (c *cursor) adaptive(size int, byLast, asRuns bool) ([]byte, error) {
	n := int(c.byte())
	if n == 0 {
		n = 256
	}
	var literals [256]model
	literal := func(context byte) *model {
		if !byLast {
			context = 0
		}
		m := &literals[context]
		if m.symbols == nil {
			m.init(make([]modelled, n))
		}
		return m
	}
	var runs [258]*model
	r := newRanges(c.data)
	out := make([]byte, 0, size)
	var last byte
	for len(out) < size && r.err == nil {
		last = literal(last).decode(r)
		out = append(out, last)
		if !asRuns {
			continue
		}
		for context, part := int(last), byte(maxPart); part == maxPart && r.err == nil; context = min(max(context, 255)+1, 257) {
			if runs[context] == nil {
				runs[context] = newModel(maxPart + 1)
			}
			part = runs[context].decode(r)
			if int(part) > size-len(out) {
				return nil, errLong
			}
			for range part {
				out = append(out, last)
			}
		}
	}
	return out, r.err
}

// maxPart is the longest part of a run, behind which there is another part.
const maxPart = 3
