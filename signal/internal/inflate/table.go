package inflate

import "math/bits"

// entry says what the next bits are: a literal, a length, a distance, or something
// special.
//
//	bit 31      a literal, which is in bits 16 to 23
//	bits 16-30  base of a length or distance; beginning of a subtable
//	bit 15      none of those, but
//	bit 14      ... a subtable
//	bit 13      ... the end of the block; neither: no code
//	bits 8-11   number of extra bits, or of bits that index the subtable
//	bits 0-5    length of the code, in a subtable less what the table has of it
type entry uint32

const (
	literal    entry = 1 << 31
	special    entry = 1 << 15
	subtable   entry = 1 << 14
	endOfBlock entry = 1 << 13
	codeBits   entry = 0x3f
	extraBits  entry = 0xf

	baseAt  = 16
	extraAt = 8
)

// How many bits index the tables, and how many entries these have with all subtables:
// powers of two not below zlib's ENOUGH for those bits, 2,342 and 402.
const (
	litBits  = 11
	litSize  = 4096
	distBits = 8
	distSize = 512
	preBits  = 7
)

// Most symbols of each code (RFC 1951, 3.2.7).
const (
	maxLit  = 286
	maxDist = 30
	maxPre  = 19
)

const maxCode = 15 // bits

// What the symbols of the codes stand for (RFC 1951, 3.2.5).
var litSymbols = func() (t [288]entry) {
	for i := range t {
		switch {
		case i < 256:
			t[i] = literal | entry(i)<<baseAt
		case i == 256:
			t[i] = special | endOfBlock
		case i < 265:
			t[i] = entry(i-254) << baseAt
		case i < 285:
			extra := (i - 261) / 4
			t[i] = entry(3+(4+(i-265)%4)<<extra)<<baseAt | entry(extra)<<extraAt
		case i == 285:
			t[i] = 258 << baseAt
		default:
			t[i] = special
		}
	}
	return t
}()

var distSymbols = func() (t [32]entry) {
	for i := range t {
		switch {
		case i < 4:
			t[i] = entry(i+1) << baseAt
		case i < 30:
			extra := i/2 - 1
			t[i] = entry(1+(2+i%2)<<extra)<<baseAt | entry(extra)<<extraAt
		default:
			t[i] = special
		}
	}
	return t
}()

var preSymbols = func() (t [maxPre]entry) {
	for i := range t {
		t[i] = entry(i) << baseAt
	}
	return t
}()

// build makes a table of a canonical code from the lengths of its symbols' codes, and
// says whether there is such a code: one that is complete, has one symbol with a code of
// one bit, or none at all.
func build(table []entry, root uint, lengths []uint8, symbols []entry) bool {
	var count [maxCode + 1]int
	for _, l := range lengths {
		count[l]++
	}
	count[0] = 0
	var next [maxCode + 1]uint16
	left, most := 1, 0
	code := uint16(0)
	for l := 1; l <= maxCode; l++ {
		if left = left<<1 - count[l]; left < 0 {
			return false
		}
		code = (code + uint16(count[l-1])) << 1
		next[l] = code
		if count[l] > 0 {
			most = l
		}
	}
	if left > 0 && (most > 1 || count[1] > 1) {
		return false
	}
	if left > 0 {
		for i := range table[:1<<root] {
			table[i] = special
		}
	}
	// Codes come with their bits the other way round. Of those that share the bits
	// which index the table, the longest says how large their subtable is.
	var codes [288]uint16
	var longest [1 << litBits]uint8
	for i, l := range lengths {
		if l == 0 {
			continue
		}
		codes[i] = bits.Reverse16(next[l]) >> (16 - l)
		next[l]++
		if uint(l) > root {
			at := &longest[codes[i]&(1<<root-1)]
			*at = max(*at, l)
		}
	}
	free := 1 << root // where the next subtable begins
	for prefix, l := range longest[:1<<root] {
		if l > 0 {
			n := uint(l) - root
			table[prefix] = special | subtable | entry(free)<<baseAt | entry(n)<<extraAt
			free += 1 << n
		}
	}
	for i, l := range lengths {
		if l == 0 {
			continue
		}
		at, n, size, part := uint(codes[i]), uint(l), 1<<root, table
		if n > root {
			e := table[at&(1<<root-1)]
			part = table[e>>baseAt:]
			size = 1 << (e >> extraAt & extraBits)
			at, n = at>>root, n-root
		}
		for ; at < uint(size); at += 1 << n {
			part[at] = symbols[i] | entry(n)
		}
	}
	return true
}

// fixed makes the tables of a block with the fixed codes.
func (d *Decoder) fixed() {
	var lengths [288]uint8
	for i := range lengths {
		switch {
		case i < 144:
			lengths[i] = 8
		case i < 256:
			lengths[i] = 9
		case i < 280:
			lengths[i] = 7
		default:
			lengths[i] = 8
		}
	}
	build(d.lit[:], litBits, lengths[:], litSymbols[:])
	var five [32]uint8
	for i := range five {
		five[i] = 5
	}
	build(d.dist[:], distBits, five[:], distSymbols[:])
}

// order is that of the lengths of the code in which lengths are written (RFC 1951, 3.2.7).
var order = [maxPre]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic makes the tables of a block that brings its codes.
func (d *Decoder) dynamic(s *source) error {
	if err := s.fill(); err != nil {
		return err
	}
	nlit, ndist, npre := int(s.take(5))+257, int(s.take(5))+1, int(s.take(4))+4
	if nlit > maxLit || ndist > maxDist {
		return corrupt("a code of %d lengths and %d distances", nlit, ndist)
	}
	var pre [maxPre]uint8
	for _, symbol := range order[:npre] {
		if err := s.fill(); err != nil {
			return err
		}
		pre[symbol] = uint8(s.take(3))
	}
	if !build(d.pre[:], preBits, pre[:], preSymbols[:]) {
		return corrupt("no code for lengths of codes")
	}
	lengths := d.lengths[:nlit+ndist]
	clear(lengths)
	for i := 0; i < len(lengths); {
		if err := s.fill(); err != nil {
			return err
		}
		e := d.pre[s.word%(1<<preBits)]
		if e&special != 0 {
			return corrupt("a code of a length that there is not")
		}
		s.take(uint(e & codeBits))
		var repeated uint8
		n := 1
		switch symbol := e >> baseAt; {
		case symbol < 16:
			repeated = uint8(symbol)
		case symbol == 16:
			if i == 0 {
				return corrupt("a repeated length behind none")
			}
			repeated, n = lengths[i-1], 3+int(s.take(2))
		case symbol == 17:
			n = 3 + int(s.take(3))
		default:
			n = 11 + int(s.take(7))
		}
		if n > len(lengths)-i {
			return corrupt("more lengths of codes than there are codes")
		}
		for range n {
			lengths[i] = repeated
			i++
		}
	}
	if !build(d.lit[:], litBits, lengths[:nlit], litSymbols[:]) || !build(d.dist[:], distBits, lengths[nlit:], distSymbols[:]) {
		return corrupt("no code")
	}
	return nil
}
