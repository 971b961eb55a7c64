package codec

import (
	"encoding/binary"
)

// slots is what a context's states decode to: per cumulative frequency the symbol (8 bits), its
// frequency less one (12 bits), and how far into it that frequency is (12 bits).
type slots []uint32

// newSlots makes the table of symbols with their frequencies, which add up to at most 1<<bits.
// Where they add up to less, no encoder's state comes.
func newSlots(frequencies *[256]int, bits uint) (slots, error) {
	table, at := make(slots, 1<<bits), 0
	for symbol, f := range frequencies {
		if f > len(table)-at {
			return nil, errTable
		}
		entry := uint32(symbol) | uint32(f-1)<<8
		for i := range f {
			table[at+i] = entry | uint32(i)<<20
		}
		at += f
	}
	if at == 0 {
		return nil, errTable
	}
	return table, nil
}

// advance is the next state and its symbol.
func (s slots) advance(state uint32, bits uint) (uint32, byte) {
	entry := s[state&(1<<bits-1)]
	return (entry>>8&0xfff+1)*(state>>bits) + entry>>20, byte(entry)
}

// alphabet calls each with the symbols that c lists, ascending: one that follows its predecessor is
// behind it with how many more do. 0 ends the list.
func (c *cursor) alphabet(each func(symbol byte)) {
	symbol, run := c.byte(), 0
	for c.err == nil {
		each(symbol)
		last := symbol
		if run > 0 {
			run--
			symbol++
		} else if symbol = c.byte(); symbol != 0 && symbol == last+1 {
			run = int(c.byte())
		}
		if symbol == 0 {
			return
		}
		if symbol <= last {
			c.err = errTable
		}
	}
}

// states are the first states of n interleaved coders.
func (c *cursor) states(n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		list[i] = c.uint32()
	}
	return list
}

// decodeRANS4x8 decodes CRAM 3.0's rANS: four coders, renormalised by bytes (section 2).
func decodeRANS4x8(data []byte, size int) ([]byte, error) {
	c := &cursor{data: data}
	order, packed, n := c.byte(), c.uint32(), c.uint32()
	switch {
	case c.err != nil:
		return nil, c.err
	case uint64(n) != uint64(size):
		return nil, errLong
	case uint64(packed) > uint64(len(c.data)) || order > 1:
		return nil, errShort
	}
	c.data = c.data[:packed]
	out := make([]byte, size)
	if order == 0 {
		table, err := c.slots4x8()
		if err != nil {
			return nil, err
		}
		return out, table.decode4x8(c, out)
	}
	var tables [256]slots
	var err error
	c.alphabet(func(context byte) {
		if err == nil {
			tables[context], err = c.slots4x8()
		}
	})
	if err != nil || c.err != nil {
		return nil, errTable
	}
	return out, decodeContexts4x8(&tables, c, out)
}

const bits4x8 = 12

func (c *cursor) slots4x8() (slots, error) {
	var frequencies [256]int
	c.alphabet(func(symbol byte) { frequencies[symbol] = c.itf8() })
	if c.err != nil {
		return nil, c.err
	}
	return newSlots(&frequencies, bits4x8)
}

// refill4x8 reads bytes into a state until it is in its range again. at is where they stand.
func refill4x8(state uint32, data []byte, at int) (uint32, int) {
	for state < 1<<23 && at < len(data) {
		state = state<<8 | uint32(data[at])
		at++
	}
	return state, at
}

func (s slots) decode4x8(c *cursor, out []byte) error {
	state := c.states(4)
	if c.err != nil {
		return c.err
	}
	at := 0
	for i := range out {
		x := &state[i&3]
		*x, out[i] = s.advance(*x, bits4x8)
		if *x < 1<<23 {
			if *x, at = refill4x8(*x, c.data, at); *x < 1<<23 {
				return errShort
			}
		}
	}
	return nil
}

// decodeContexts4x8 decodes symbols whose frequencies are those in the context of the symbol before.
// Each coder has a quarter of them, the last the rest, too.
func decodeContexts4x8(tables *[256]slots, c *cursor, out []byte) error {
	state := c.states(4)
	if c.err != nil {
		return c.err
	}
	at, quarter := 0, len(out)/4
	var last [4]byte
	next := func(j, to int) bool {
		table := tables[last[j]]
		if table == nil {
			return false
		}
		x, symbol := table.advance(state[j], bits4x8)
		if x < 1<<23 {
			if x, at = refill4x8(x, c.data, at); x < 1<<23 {
				return false
			}
		}
		state[j], last[j], out[to] = x, symbol, symbol
		return true
	}
	for i := range quarter {
		if !next(0, i) || !next(1, i+quarter) || !next(2, i+2*quarter) || !next(3, i+3*quarter) {
			return errShort
		}
	}
	for i := 4 * quarter; i < len(out); i++ {
		if !next(3, i) {
			return errShort
		}
	}
	return nil
}

// What the first byte of rANS Nx16 and of arithmetic coding says (sections 3.7 and 4.4).
const (
	flagOrder    = 1
	flagWide     = 4 // rANS: 32 coders
	flagExternal = 4 // arithmetic: bzip2
	flagStripe   = 8
	flagNoSize   = 16
	flagCat      = 32
	flagRuns     = 64
	flagPack     = 128
)

// decodeRANSNx16 decodes CRAM 3.1's rANS: 4 or 32 coders, renormalised by 16 bits, and what may be
// done to bytes before (section 3).
func decodeRANSNx16(data []byte, size int) ([]byte, error) {
	c := &cursor{data: data}
	return c.transformed(size, false, (*cursor).ransNx16)
}

// ransNx16 decodes size bytes, of which runs may have been taken out.
func (c *cursor) ransNx16(flags byte, size int) ([]byte, error) {
	coders := 4
	if flags&flagWide != 0 {
		coders = 32
	}
	if flags&flagRuns == 0 {
		return c.entropy(flags, size, coders)
	}
	runs, literals, err := c.runLengths(coders, size)
	if err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	out, err := c.entropy(flags, literals, coders)
	if err != nil {
		return nil, err
	}
	return runs.expand(out, size)
}

// entropy decodes size bytes before anything that was done to them is undone.
func (c *cursor) entropy(flags byte, size, coders int) ([]byte, error) {
	switch {
	case flags&flagCat != 0:
		out := c.take(size)
		return out, c.err
	case size == 0:
		return nil, nil
	case flags&flagOrder != 0:
		return c.contextsNx16(size, coders)
	}
	return c.plainNx16(size, coders)
}

const bitsNx16 = 12

// slotsNx16 makes the table of frequencies that add up to a power of two, brought to 1<<bits; nil
// if all are 0, as those of a context that only the last symbol is.
func slotsNx16(frequencies *[256]int, bits uint) (slots, error) {
	total := 0
	for _, f := range frequencies {
		total += f
	}
	if total == 0 {
		return nil, nil
	}
	shift := 0
	for ; total < 1<<bits; total *= 2 {
		shift++
	}
	if total != 1<<bits {
		return nil, errTable
	}
	for i := range frequencies {
		frequencies[i] <<= shift
	}
	return newSlots(frequencies, bits)
}

// plainNx16 decodes size bytes whose frequencies are the same everywhere.
func (c *cursor) plainNx16(size, coders int) ([]byte, error) {
	var frequencies [256]int
	var listed []byte
	c.alphabet(func(symbol byte) { listed = append(listed, symbol) })
	for _, symbol := range listed {
		frequencies[symbol] = c.uint7()
	}
	if c.err != nil {
		return nil, c.err
	}
	table, err := slotsNx16(&frequencies, bitsNx16)
	if err != nil || table == nil {
		return nil, errTable
	}
	state := c.states(coders)
	if c.err != nil {
		return nil, c.err
	}
	out, data, at := make([]byte, size), c.data, 0
	for i := range out {
		x, symbol := table.advance(state[i&(coders-1)], bitsNx16)
		if x < 1<<15 {
			if at+2 > len(data) {
				return nil, errShort
			}
			x = x<<16 | uint32(binary.LittleEndian.Uint16(data[at:]))
			at += 2
		}
		state[i&(coders-1)], out[i] = x, symbol
	}
	c.data = data[at:]
	return out, nil
}

// contextTables reads the frequencies of symbols, a table for each preceding symbol (the
// context); the frequencies of a table add up to 1<<bits.
func (c *cursor) contextTables() (tables *[256]slots, bits uint, err error) {
	head := c.byte()
	if bits = uint(head >> 4); bits != 10 && bits != 12 {
		return nil, 0, errTable
	}
	from := c
	if head&1 != 0 {
		plain, packed := c.uint7(), c.uint7()
		from = &cursor{data: c.take(packed)}
		if c.err != nil {
			return nil, 0, c.err
		}
		// Two bytes for each of 256 times 256 frequencies, and their alphabet.
		const most = 2*256*256 + 2*256
		if plain > most {
			return nil, 0, errTable
		}
		if from.data, err = from.plainNx16(plain, 4); err != nil {
			return nil, 0, err
		}
	}
	var listed []byte
	from.alphabet(func(symbol byte) { listed = append(listed, symbol) })
	tables = new([256]slots)
	for _, context := range listed {
		var frequencies [256]int
		zeros := 0
		for _, symbol := range listed {
			if zeros > 0 {
				zeros--
			} else if frequencies[symbol] = from.uint7(); frequencies[symbol] == 0 {
				zeros = int(from.byte())
			}
		}
		if from.err != nil {
			return nil, 0, from.err
		}
		if tables[context], err = slotsNx16(&frequencies, bits); err != nil {
			return nil, 0, err
		}
	}
	return tables, bits, from.err
}

// contextsNx16 decodes size bytes whose frequencies are those in the context of the byte before.
func (c *cursor) contextsNx16(size, coders int) ([]byte, error) {
	tables, bits, err := c.contextTables()
	if err != nil {
		return nil, err
	}
	state, last := c.states(coders), make([]byte, coders)
	if c.err != nil {
		return nil, c.err
	}
	out, data, at, part := make([]byte, size), c.data, 0, size/coders
	next := func(j, to int) bool {
		table := tables[last[j]]
		if table == nil {
			return false
		}
		x, symbol := table.advance(state[j], bits)
		if x < 1<<15 {
			if at+2 > len(data) {
				return false
			}
			x = x<<16 | uint32(binary.LittleEndian.Uint16(data[at:]))
			at += 2
		}
		state[j], last[j], out[to] = x, symbol, symbol
		return true
	}
	for i := range part {
		for j := range coders {
			if !next(j, i+j*part) {
				return nil, errShort
			}
		}
	}
	for i := part * coders; i < size; i++ {
		if !next(coders-1, i) {
			return nil, errShort
		}
	}
	c.data = data[at:]
	return out, nil
}

// runLengths are the lengths of runs of the symbols that have them (section 3.4).
type runLengths struct {
	has     [256]bool
	lengths cursor
}

// runLengths reads the lengths of runs, and the number of literals; expanded, these are at most limit
// bytes.
func (c *cursor) runLengths(coders, limit int) (runLengths, int, error) {
	var r runLengths
	meta, literals := c.uint7(), c.uint7()
	size := meta / 2
	if literals > limit || size > 5*limit+257 {
		return r, 0, errLong
	}
	if meta&1 != 0 {
		r.lengths.data = c.take(size)
	} else {
		packed := cursor{data: c.take(c.uint7())}
		if c.err != nil {
			return r, 0, c.err
		}
		var err error
		if r.lengths.data, err = packed.plainNx16(size, coders); err != nil {
			return r, 0, err
		}
	}
	n := int(r.lengths.byte())
	if n == 0 {
		n = 256
	}
	for range n {
		r.has[r.lengths.byte()] = true
	}
	if r.lengths.err != nil {
		return r, 0, r.lengths.err
	}
	return r, literals, nil
}

func (r *runLengths) expand(literals []byte, size int) ([]byte, error) {
	out := make([]byte, 0, size)
	for _, b := range literals {
		n := 1
		if r.has[b] {
			n += r.lengths.uint7()
		}
		if r.lengths.err != nil {
			return nil, r.lengths.err
		}
		if n > size-len(out) {
			return nil, errLong
		}
		for range n {
			out = append(out, b)
		}
	}
	return out, nil
}
