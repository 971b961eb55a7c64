package codec

import (
	"errors"
	"fmt"
	"slices"
)

// What the first bytes of fqzcomp say (section 6.2): of all records, and of those of one set of
// parameters.
const (
	qualSeveral  = 1
	qualSelector = 2
	qualReversed = 4

	qualRepeats   = 2
	qualOneLength = 4 // the specification has it the other way round; files, its own among them, this way
	qualBySelect  = 8
	qualMap       = 16
	qualByPlace   = 32
	qualByChange  = 64
	qualTable     = 128
)

// qualities decodes the qualities of reads one after the other: each by a model that those before
// it choose, by its place and by how much it has changed so far (section 6).
type qualities struct {
	parameters []parameters
	selectors  [256]byte // to parameters
	reversed   bool

	in                       *ranges
	lengths                  [4]*model
	repeat, reverse, selects *model
	models                   [1 << 16]*model
	symbols                  int
}

// parameters say how the model of the next quality is chosen.
type parameters struct {
	start            uint32
	flags            byte
	qualBits         uint
	qualShift        uint
	qualAt, selectAt uint
	placeAt, changAt uint
	symbols          int
	values           []byte // of symbols; nil: they are the values
	quals            [256]byte
	places           [1024]byte
	changes          [256]byte

	length int // of the last record; -1: there is none
}

// decodeFQZComp decodes the qualities of size bases.
func decodeFQZComp(data []byte, size int) ([]byte, error) {
	c := &cursor{data: data}
	if n := c.uint7(); c.err == nil && n != size {
		return nil, errLong
	}
	q, err := c.qualities()
	if err != nil {
		return nil, err
	}
	return q.decode(size)
}

func (c *cursor) qualities() (*qualities, error) {
	if version := c.byte(); c.err == nil && version != 5 {
		return nil, fmt.Errorf("version %d, want 5", version)
	}
	q := new(qualities)
	flags := c.byte()
	sets, selectors := 1, 0
	if flags&qualSeveral != 0 {
		sets = int(c.byte())
		selectors = sets
	}
	for i := range q.selectors {
		q.selectors[i] = byte(min(i, max(sets, 1)-1))
	}
	if flags&qualSelector != 0 {
		selectors = int(c.byte())
		c.runs(q.selectors[:])
	}
	q.reversed = flags&qualReversed != 0
	for range sets {
		p := c.parameters()
		q.symbols = max(q.symbols, p.symbols)
		q.parameters = append(q.parameters, p)
	}
	if c.err != nil {
		return nil, c.err
	}
	if sets == 0 || int(slices.Max(q.selectors[:])) >= sets {
		return nil, errors.New("a record selects parameters that there aren't")
	}
	q.symbols = min(q.symbols+1, 256)
	q.in = newRanges(c.data)
	for i := range q.lengths {
		q.lengths[i] = newModel(256)
	}
	q.repeat, q.reverse = newModel(2), newModel(2)
	if selectors > 0 {
		q.selects = newModel(min(selectors+1, 256))
	}
	return q, nil
}

func (c *cursor) parameters() parameters {
	p := parameters{start: uint32(c.uint16()), flags: c.byte(), symbols: int(c.byte()), length: -1}
	halves := func() (high, low uint) {
		b := c.byte()
		return uint(b >> 4), uint(b & 15)
	}
	p.qualBits, p.qualShift = halves()
	p.qualAt, p.selectAt = halves()
	p.placeAt, p.changAt = halves()
	if p.flags&qualMap != 0 {
		p.values = c.take(p.symbols)
	}
	for i := range p.quals {
		p.quals[i] = byte(i)
	}
	if p.flags&qualTable != 0 {
		c.runs(p.quals[:])
	}
	if p.flags&qualByPlace != 0 {
		c.runs(p.places[:])
	}
	if p.flags&qualByChange != 0 {
		c.runs(p.changes[:])
	}
	return p
}

// runs reads a table of numbers that ascend from 0: how often each of them stands there, in parts of
// 255, and where two of these lengths are the same, how many more are.
func (c *cursor) runs(table []byte) {
	var lengths []int
	last := -1
	for sum := 0; sum < len(table) && c.err == nil; {
		n := int(c.byte())
		lengths = append(lengths, n)
		sum += n
		if n == last {
			more := int(c.byte())
			lengths = append(lengths, slices.Repeat([]int{n}, more)...)
			sum += n * more
		}
		if last = n; len(lengths) > 4*len(table) {
			c.err = errTable
		}
	}
	at := 0
	for value := 0; at < len(table) && c.err == nil; value++ {
		for part := 255; part == 255; {
			if len(lengths) == 0 {
				c.err = errTable
				return
			}
			part, lengths = lengths[0], lengths[1:]
			for range min(part, len(table)-at) {
				table[at] = byte(value)
				at++
			}
		}
	}
}

func (q *qualities) decode(size int) ([]byte, error) {
	type interval struct{ from, to int }
	var reversed []interval
	out := make([]byte, 0, size)
	for len(out) < size {
		p, selector := &q.parameters[q.selectors[0]], byte(0)
		if q.selects != nil {
			selector = q.selects.decode(q.in)
			p = &q.parameters[q.selectors[selector]]
		}
		if p.flags&qualOneLength == 0 || p.length < 0 {
			p.length = 0
			for i, m := range q.lengths {
				p.length |= int(m.decode(q.in)) << (8 * i)
			}
		}
		from, to := len(out), len(out)+p.length
		if q.in.err != nil {
			return nil, q.in.err
		}
		if p.length == 0 || to > size {
			return nil, errors.New("a record's length can't be")
		}
		if q.reversed && q.reverse.decode(q.in) != 0 {
			reversed = append(reversed, interval{from, to})
		}
		if p.flags&qualRepeats != 0 && q.repeat.decode(q.in) != 0 {
			if p.length > from {
				return nil, errors.New("a record repeats one that there isn't")
			}
			out = append(out, out[from-p.length:]...)
			continue
		}
		out = q.record(out, to, p, selector)
		if q.in.err != nil {
			return nil, q.in.err
		}
	}
	for _, t := range reversed {
		slices.Reverse(out[t.from:t.to])
	}
	return out, nil
}

// record decodes a record, which ends at to.
func (q *qualities) record(out []byte, to int, p *parameters, selector byte) []byte {
	context, recent, changes, last := p.start, uint32(0), 0, byte(0)
	for len(out) < to && q.in.err == nil {
		m := q.models[uint16(context)]
		if m == nil {
			m = newModel(q.symbols)
			q.models[uint16(context)] = m
		}
		symbol := m.decode(q.in)
		value := symbol
		if p.values != nil {
			if int(symbol) >= len(p.values) {
				q.in.err = errors.New("a quality has no value")
				break
			}
			value = p.values[symbol]
		}
		out = append(out, value)

		recent = recent<<p.qualShift + uint32(p.quals[symbol])
		context = p.start + recent&(1<<p.qualBits-1)<<p.qualAt
		if p.flags&qualByPlace != 0 {
			context += uint32(p.places[min(to-len(out)+1, len(p.places)-1)]) << p.placeAt
		}
		if p.flags&qualByChange != 0 {
			context += uint32(p.changes[min(changes, len(p.changes)-1)]) << p.changAt
			if last != symbol {
				changes++
			}
			last = symbol
		}
		if p.flags&qualBySelect != 0 {
			context += uint32(selector) << p.selectAt
		}
	}
	return out
}
