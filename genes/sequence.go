package genes

import (
	"bytes"
	"slices"

	"github.com/porestream/porestream/genes/rna"
)

// Bases are numbers: A 0, C 1, G 2, T 3, so that 3-b is the complement, and any other letter is unknown.
const unknown = 4

var baseOf = func() (t [256]byte) {
	for i := range t {
		t[i] = unknown
	}
	for i, c := range []byte("ACGT") {
		t[c], t[c|0x20] = byte(i), byte(i)
	}
	return t
}()

// encode turns letters into bases.
func encode(seq []byte) []byte {
	out := make([]byte, len(seq))
	for i, c := range seq {
		out[i] = baseOf[c]
	}
	return out
}

// piece is a stretch that is searched for genes: a contig, or a part of one between runs of N.
//
// Problem: floating-point sums, ties and iterations depend on the direction that a sequence is read in, and for a circular one on where it is
// cut. So a genome and its reverse complement, or its rotation, would have genes that differ a little.
// Strategy: every piece is brought to a form that depends on the molecule alone. Of the two strands the one that sorts first is read, and a
// circular piece is read from the rotation that sorts first.
// Consequence: the mirrored genome has the mirrored genes, and a rotated one the rotated genes, exactly.
type piece struct {
	contig   int // index in the caller's list
	offset   int // of the piece in its contig
	length   int // bases of the molecule
	circular bool
	flipped  bool   // what is read is the other strand
	turn     int    // where in the strand that is read, the reading begins
	forward  []byte // what is read; a circular piece goes on behind its end with its first bases again
	reverse  []byte // its complement
}

// overhang is how far a circular piece goes on behind its end. The genes there and those at its beginning agree from some
// gene on, as what is best on either side of a clear gene doesn't depend on what is beyond it.
const overhang = 30_000

// longestGap is the longest run of unknown bases that a gene may lie across. A longer one ends the piece, and genes end there unfinished.
const longestGap = 30

// pieces cuts a contig.
func pieces(contig int, letters []byte, circular bool) []*piece {
	s := encode(letters)
	var out []*piece
	begin := 0
	for i := 0; i < len(s); {
		if s[i] != unknown {
			i++
			continue
		}
		end := i
		for end < len(s) && s[end] == unknown {
			end++
		}
		if end-i >= longestGap {
			circular = false // as far as is known it is open here
			if i > begin {
				out = append(out, newPiece(contig, begin, s[begin:i], false))
			}
			begin = end
		}
		i = end
	}
	if begin < len(s) {
		out = append(out, newPiece(contig, begin, s[begin:], circular))
	}
	return out
}

func newPiece(contig, offset int, s []byte, circular bool) *piece {
	p := &piece{contig: contig, offset: offset, length: len(s), circular: circular}
	other := rna.Complemented(s)
	if circular {
		turn, otherTurn := leastRotation(s), leastRotation(other)
		a, b := slices.Concat(s[turn:], s[:turn]), slices.Concat(other[otherTurn:], other[:otherTurn])
		if p.flipped = bytes.Compare(b, a) < 0; p.flipped {
			a, turn = b, otherTurn
		}
		p.turn = turn
		for wanted := len(s) + min(len(s), overhang); len(a) < wanted; {
			a = append(a, a[:wanted-len(s)]...)
		}
		p.forward, p.reverse = a, rna.Complemented(a)
		return p
	}
	p.forward, p.reverse = s, other
	if p.flipped = bytes.Compare(other, s) < 0; p.flipped {
		p.forward, p.reverse = other, s
	}
	return p
}

// leastRotation is where the rotation of s begins that sorts first, by comparing two candidates side by side, in linear time.
func leastRotation(s []byte) int {
	n := len(s)
	i, j, k := 0, 1, 0
	for i < n && j < n && k < n {
		a, b := s[(i+k)%n], s[(j+k)%n]
		if a == b {
			k++
			continue
		}
		if a > b {
			i += k + 1
		} else {
			j += k + 1
		}
		if i == j {
			j++
		}
		k = 0
	}
	return min(i, j)
}

// place translates a stretch of what is read, half open, into the contig's own coordinates and strand. Of a circular piece the end may lie behind
// the contig's: the stretch crosses the origin.
func (p *piece) place(left, right int, reverse bool) (start, end int, minus bool) {
	n := p.length
	if p.circular {
		width := right - left
		left = (left + p.turn) % n
		right = left + width
	}
	if p.flipped {
		left, right, reverse = n-right, n-left, !reverse
		if left < 0 {
			left, right = left+n, right+n
		}
	}
	return left + p.offset, right + p.offset, reverse
}

// unknown says that hardly a base is known.
func (p *piece) unknown() bool {
	n := 0
	for _, b := range p.forward[:p.length] {
		if b != unknown {
			n++
		}
	}
	return n < shortest
}
