package demux

import "github.com/porestream/porestream/genome"

// Problem: a kit's 24 to 96 barcodes have to be found near both ends of each read, with
// one base in ten wrong, at a cost that doesn't show beside basecalling.
//
// Assumptions: the patterns are short, under 256 bases, and known beforehand.
//
// Strategy: semi-global edit distance by Myers' bit-vectors (Myers 1999, in blocks of 64
// rows by Hyyrö 2003): the whole pattern against any stretch of the text, one column
// per base of the text, 64 rows at a time. A pattern is compiled once to a bit mask
// per base; an N in it matches everything. Where a match begins is found by going back
// from its end with the pattern reversed.
//
// Consequences: exact, without allocation, about a nanosecond per column and word. Of
// several places that are equally good it reports the one that ends first, and of the
// beginnings that fit that end the earliest, as edlib does.

// maxPattern is the longest pattern, in bases.
const maxPattern = 64 * maxWords

const maxWords = 4

// pattern is a sequence of A, C, G, T and N that is ready for the search.
type pattern struct {
	length int
	words  int
	equal  [5][maxWords]uint64 // rows that a base matches, by its code
}

// codes numbers the bases; everything else is 4 and matches only N.
var codes = func() (c [256]uint8) {
	for i := range c {
		c[i] = 4
	}
	c['A'], c['C'], c['G'], c['T'] = 0, 1, 2, 3
	c['a'], c['c'], c['g'], c['t'] = 0, 1, 2, 3
	return c
}()

// newPattern compiles a sequence of at least one and at most maxPattern bases.
func newPattern(sequence string) *pattern {
	p := &pattern{length: len(sequence), words: (len(sequence) + 63) / 64}
	for i := range len(sequence) {
		word, bit := i/64, uint64(1)<<(i%64)
		if c := codes[sequence[i]]; c < 4 {
			p.equal[c][word] |= bit
			continue
		}
		for c := range p.equal {
			p.equal[c][word] |= bit
		}
	}
	return p
}

// column is a column of the matrix as the differences from row to row.
type column struct {
	plus, minus [maxWords]uint64
}

// infix returns the least edit distance of the pattern to any stretch of the text, and
// where the first such stretch ends.
func (p *pattern) infix(text []byte) (distance, end int) {
	if p.words == 1 {
		return p.infixWord(text)
	}
	c := column{plus: [maxWords]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}}
	score := p.length
	distance = score
	for j, base := range text {
		score += p.step(&c, base, 0)
		if score < distance {
			distance, end = score, j+1
		}
	}
	return distance, end
}

// infixWord is infix for patterns of up to 64 bases.
func (p *pattern) infixWord(text []byte) (distance, end int) {
	plus, minus := ^uint64(0), uint64(0)
	last := uint(p.length - 1)
	score := p.length
	distance = score
	for j, base := range text {
		equal := p.equal[codes[base]][0]
		vertical := equal | minus
		horizontal := (((equal & plus) + plus) ^ plus) | equal
		up := minus | ^(horizontal | plus)
		down := plus & horizontal
		score += int(up>>last&1) - int(down>>last&1)
		up <<= 1
		down <<= 1
		plus = down | ^(vertical | up)
		minus = up & vertical
		if score < distance {
			distance, end = score, j+1
		}
	}
	return distance, end
}

// longestPrefix returns the length of the longest prefix of the text that has the given
// edit distance to the pattern, 0 if none has.
func (p *pattern) longestPrefix(text []byte, distance int) int {
	c := column{plus: [maxWords]uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}}
	score, longest := p.length, 0
	// A longer prefix has more insertions than the distance allows.
	for j, base := range text[:min(len(text), p.length+distance)] {
		score += p.step(&c, base, 1)
		if score == distance {
			longest = j + 1
		}
	}
	return longest
}

// step goes on to the column of the next base of the text and returns how its last row
// differs from that of the column before. carry is the difference in the row above the
// first: 0 where a match may begin anywhere in the text, 1 where it begins with it.
func (p *pattern) step(c *column, base byte, carry int) int {
	equals := &p.equal[codes[base]]
	for w := range p.words {
		equal, plus, minus := equals[w], c.plus[w], c.minus[w]
		vertical := equal | minus
		if carry < 0 {
			equal |= 1
		}
		horizontal := (((equal & plus) + plus) ^ plus) | equal
		up := minus | ^(horizontal | plus)
		down := plus & horizontal
		last := uint(63)
		if w == p.words-1 {
			last = uint(p.length-1) % 64
		}
		next := int(up>>last&1) - int(down>>last&1)
		up <<= 1
		down <<= 1
		switch {
		case carry > 0:
			up |= 1
		case carry < 0:
			down |= 1
		}
		c.plus[w] = down | ^(vertical | up)
		c.minus[w] = up & vertical
		carry = next
	}
	return carry
}

// probe finds where a pattern matches best.
type probe struct {
	forward, backward *pattern
}

func newProbe(sequence string) probe {
	return probe{newPattern(sequence), newPattern(reverse(sequence))}
}

// match is a place in a text.
type match struct {
	distance   int
	start, end int
}

// find returns the best match of the probe in a text.
func (p probe) find(text []byte) match {
	distance, end := p.forward.infix(text)
	// The stretch has at most as many bases as the pattern and the distance together.
	from := max(0, end-p.forward.length-distance)
	var buffer [2 * maxPattern]byte
	backwards := buffer[:end-from]
	for i := range backwards {
		backwards[i] = text[end-1-i]
	}
	return match{distance, end - p.backward.longestPrefix(backwards, distance), end}
}

func reverse(s string) string {
	out := []byte(s)
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return string(out)
}

// appendReverseComplement appends the other strand of a sequence to dst.
func appendReverseComplement(dst, sequence []byte) []byte {
	begin := len(dst)
	dst = append(dst, sequence...)
	genome.ReverseComplement(dst[begin:])
	return dst
}

// ReverseComplement returns the other strand of a sequence; a letter that is no base becomes N.
func ReverseComplement(sequence []byte) []byte { return appendReverseComplement(nil, sequence) }

func reverseComplement(sequence string) string { return string(ReverseComplement([]byte(sequence))) }
