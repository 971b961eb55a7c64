package variant

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// Reads are kept as bits: the changes that turn the reference into the read.
//
// Problem: reads are nearly all of a region's state, tens of gigabytes for a human
// genome if each base keeps its quality, and every tile has to find its part of
// each of them.
//
// Assumptions: a read differs from the reference in 1 to 10 columns of a hundred,
// at distances that are about geometrically distributed: on real reads knowing the
// homopolymer run, or the k-mer, saves 3 to 7 % of the bits of a distance, which
// isn't worth walking along every column.
//
// Strategy: a change is the number of matching columns before it, as a Rice code whose
// parameter fits the read, and a prefix code of what it is: which base (a transition
// is the likeliest; an inserted base mostly repeats the one behind it) and the bin of
// its quality. Every checkpointEvery changes a checkpoint records bit and position, so
// that a tile's part is found without reading all. Qualities of matching bases are
// gone: of these the read keeps its class (see quality.go).
//
// Consequences: a change takes about 12 bits in reads with 2 % of them, and the
// bits of a read mean something only beside the reference. The code is fixed: a
// read's bits depend on nothing but the read.
//
// The bytes of a read, with numbers as in package packed:
//
//	run          its number in the region's list of runs
//	lastChunk    time of its last chunk less that of its batch's first read, signed
//	head         two bytes: Rice parameter and, from bit 4 on, class; which of
//	             qualityCodes and, in bit 4, whether doubtful bases are kept
//	checkpoints  their number, and for each how many bits and columns it lies behind
//	             the one before (the first: behind the start)
//	bits         from the lowest of each byte on
const checkpointEvery = 256

// maxQuotient is the longest unary part of a Rice code: as many ones are followed
// by a distance of distanceBits.
const (
	maxQuotient  = 20
	distanceBits = 21 // more than a segment spans
	maxRice      = 15
)

// Prefixes of a change, from the lowest bit on: 0 mismatch, 01 deletion, 11
// insertion. In a read whose doubtful bases are kept, 011 is an insertion and 111
// a base that matches, of the quality that follows.
//
// A mismatching base is 0 for the transition of the reference's base, 01 and 011
// for the other two in the order of ACGT, and 111 with three bits for the code
// of any base where one of both is ambiguous. An inserted base is 0 if it is the
// reference's behind it, else 1 and two bits: by how much its code is higher
// (modulo 4), 0 for an ambiguous one.
//
// Lengths of gaps: 0 is one, 01 two, 11 an Exp-Golomb code of the length less 3.

// qualityCodes are prefix codes of the quality bins, from 1 on, of bases that were
// called wrong: the better the reads, the higher these are. A read takes what is
// shortest for it.
var qualityCodes = [...]qualityCode{
	newQualityCode(0, 1, 2, 3, 4, 5, 6, 6),
	newQualityCode(0, 2, 2, 2, 3, 4, 5, 5),
	newQualityCode(0, 4, 3, 2, 2, 2, 5, 5),
	newQualityCode(0, 5, 5, 4, 2, 2, 2, 3),
}

// qualityCode is a complete prefix code, read from the lowest bit on.
type qualityCode struct {
	codes [firstClass]bitCode
	// decode holds, by the next maxQualityBits, the bin and how many bits its code takes.
	decode [1 << maxQualityBits]struct{ bin, n uint8 }
}

const maxQualityBits = 6

// keepsDoubtful is set beside the number of a code in a read that keeps them.
const keepsDoubtful = 1 << 4

type bitCode struct {
	bits uint64
	n    uint
}

// newQualityCode is the canonical code with the given number of bits per bin.
func newQualityCode(lengths ...uint) (c qualityCode) {
	next := uint64(0) // as a fraction of 1<<maxQualityBits
	for n := uint(1); n <= maxQualityBits; n++ {
		for bin, length := range lengths {
			if length != n {
				continue
			}
			code := bits.Reverse64(next) >> (64 - maxQualityBits)
			c.codes[bin] = bitCode{code, n}
			for rest := uint64(0); rest < 1<<(maxQualityBits-n); rest++ {
				c.decode[code|rest<<n].bin, c.decode[code|rest<<n].n = uint8(bin), uint8(n)
			}
			next += 1 << (maxQualityBits - n)
		}
	}
	return c
}

// codeOf is the shortest code for bins that so many bases have.
func codeOf(histogram *[firstClass]int) int {
	best, least := 0, 0
	for i := range qualityCodes {
		size := 0
		for bin, n := range histogram {
			size += n * int(qualityCodes[i].codes[bin].n)
		}
		if i == 0 || size < least {
			best, least = i, size
		}
	}
	return best
}

// bitWriter appends bits.
type bitWriter struct {
	out []byte
	acc uint64
	n   uint // bits in acc, less than 8 between calls
	at  int  // bits written
}

// put writes the n lowest bits of v, n <= 32, the others being 0.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc |= v << w.n
	w.n += n
	w.at += int(n)
	for w.n >= 8 {
		w.out = append(w.out, byte(w.acc))
		w.acc >>= 8
		w.n -= 8
	}
}

// finish fills the last byte up.
func (w *bitWriter) finish() {
	if w.n > 0 {
		w.out = append(w.out, byte(w.acc))
		w.acc, w.n = 0, 0
	}
}

// window is the bits from the at-th of b on: 57 at least, zeros behind the end.
func window(b []byte, at int) uint64 {
	i := at >> 3
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:]) >> (at & 7)
	}
	v := uint64(0)
	for j := len(b) - 1; j >= i; j-- {
		v = v<<8 | uint64(b[j])
	}
	return v >> (at & 7)
}

// putLength writes the length of a gap.
func (w *bitWriter) putLength(n int) {
	switch n {
	case 1:
		w.put(0, 1)
	case 2:
		w.put(0b01, 2)
	default:
		v := uint64(n - 2) // at least 1
		size := uint(bits.Len64(v))
		w.put(0b11, 2)
		w.put(1<<(size-1)-1, size) // size-1 ones and a zero
		w.put(v&^(1<<(size-1)), size-1)
	}
}

// packer packs segments. It can be used again.
type packer struct {
	bits        bitWriter
	checkpoints []byte
}

// append appends the bytes of a checked segment; run and lastChunk are what they
// say of it.
func (p *packer) append(b []byte, s *streampb.Segment, run int, lastChunk int64, class byte, ref []byte) []byte {
	rice, code := parameters(s, class)
	w := &p.bits
	*w = bitWriter{out: w.out[:0]}
	p.checkpoints = p.checkpoints[:0]
	checkpoints, changes := 0, 0
	markBit, markPos := 0, int(s.GetStart())
	pos, query, base, matched := int(s.GetStart()), 0, 0, 0
	qualities := s.GetQualities()
	distance := func() {
		if q := uint(matched) >> rice; q < maxQuotient {
			w.put(1<<q-1, q+1)
			w.put(uint64(matched)&(1<<rice-1), rice)
		} else {
			w.put(1<<maxQuotient-1, maxQuotient)
			w.put(uint64(matched), distanceBits)
		}
		matched = 0
	}
	quality := func(i int) {
		if class != 0 {
			c := qualityCodes[code].codes[binOf(qualities[i])]
			w.put(c.bits, c.n)
		}
	}
	done := func() {
		if changes++; changes%checkpointEvery == 0 {
			p.checkpoints = packed.AppendLen(packed.AppendLen(p.checkpoints, w.at-markBit), pos-markPos)
			markBit, markPos = w.at, pos
			checkpoints++
		}
	}
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		switch op.Kind {
		case align.Match:
			if !isPoor(class) {
				matched, pos, query = matched+op.Len, pos+op.Len, query+op.Len
				continue
			}
			for range op.Len {
				if doubtful(qualities[query]) {
					distance()
					w.put(0b111, 3)
					quality(query)
					pos, query = pos+1, query+1
					done()
					continue
				}
				matched, pos, query = matched+1, pos+1, query+1
			}
		case align.Mismatch:
			for range op.Len {
				distance()
				w.put(0, 1)
				c := substitution(baseCode[ref[pos]], baseCode[s.GetBases()[base]])
				w.put(c.bits, c.n)
				quality(query)
				pos, query, base = pos+1, query+1, base+1
				done()
			}
		case align.Deletion:
			distance()
			w.put(0b01, 2)
			w.putLength(op.Len)
			pos += op.Len
			done()
		case align.Insertion:
			distance()
			if w.put(0b11, 2); isPoor(class) {
				w.put(0, 1)
			}
			w.putLength(op.Len)
			for range op.Len {
				c := inserted(baseCode[ref[pos]], baseCode[s.GetBases()[base]])
				w.put(c.bits, c.n)
				quality(query)
				query, base = query+1, base+1
			}
			done()
		}
	}
	distance()
	w.finish()

	b = packed.AppendInt(packed.AppendLen(b, run), lastChunk)
	b = append(b, byte(rice)|class<<4, byte(code))
	if isPoor(class) {
		b[len(b)-1] |= keepsDoubtful
	}
	b = packed.AppendLen(b, checkpoints)
	return append(append(b, p.checkpoints...), w.out...)
}

// parameters are the Rice parameter that suits the distances of s, for a geometric
// distribution the logarithm of its median, and the code for the qualities.
func parameters(s *streampb.Segment, class byte) (rice uint, code int) {
	matched, changes, query := 0, 1, 0
	var histogram [firstClass]int
	for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
		switch op.Kind {
		case align.Match:
			matched += op.Len
			if isPoor(class) {
				for _, q := range s.GetQualities()[query : query+op.Len] {
					if doubtful(q) {
						matched--
						changes++
						histogram[binOf(q)]++
					}
				}
			}
		case align.Mismatch:
			changes += op.Len
		default:
			changes++
		}
		if class != 0 && (op.Kind == align.Mismatch || op.Kind == align.Insertion) {
			for _, q := range s.GetQualities()[query : query+op.Len] {
				histogram[binOf(q)]++
			}
		}
		if op.Kind != align.Deletion {
			query += op.Len
		}
	}
	const ln2 = 710 // of 1024
	return uint(min(maxRice, max(1, bits.Len(uint(matched*ln2/1024/changes)))-1)), codeOf(&histogram)
}

// transition is the base that is most often taken for another one, by code.
var transition = [4]byte{2, 3, 0, 1}

// substitution is the code of a read's base for another one of the reference.
func substitution(ref, read byte) bitCode {
	switch {
	case ref == baseN || read == baseN || ref == read:
		return bitCode{0b111 | uint64(read)<<3, 6}
	case read == transition[ref]:
		return bitCode{0, 1}
	case read == transversion(ref, 0):
		return bitCode{0b01, 2}
	}
	return bitCode{0b011, 3}
}

// transversion is one of the two bases that are neither b nor its transition.
func transversion(b byte, second byte) byte { return (b&1 ^ 1) | second<<1 }

// inserted is the code of an inserted base before ref.
func inserted(ref, read byte) bitCode {
	ref &= 3
	switch read {
	case baseN:
		return bitCode{0b001, 3}
	case ref:
		return bitCode{0, 1}
	}
	return bitCode{1 | uint64((read-ref)&3)<<1, 3}
}

// change is what a read has in place of the reference.
type change struct {
	kind align.OpKind
	pos  int  // of the first column, or of the one behind an insertion
	n    int  // columns or bases
	base byte // of a mismatch, as a code
	bin  byte // of its quality, or that of a matching base
}

// unpacker reads the changes of a read.
type unpacker struct {
	ref      []byte
	b        []byte
	at       int // next bit
	pos, end int // positions of the next column and behind the last
	rice     uint
	class    byte
	code     *qualityCode
	doubtful bool // matching bases that are doubtful are changes

	// Bases, as codes, and bins of the last insertion.
	bases, bins []byte

	run, checkpoints int
	lastChunk        int64
}

// open starts reading at the last checkpoint at or before position from, or at
// the start. b begins with the read's bytes, which were checked; see [unpacker.check].
func (u *unpacker) open(b []byte, start, end, from int, ref []byte) {
	u.ref, u.pos, u.end, u.at = ref, start, end, 0
	b = u.header(b)
	mark, pos, bit := b, start, 0
	for range u.checkpoints {
		skip, n := binary.Uvarint(mark)
		columns, k := binary.Uvarint(mark[n:])
		mark = mark[n+k:]
		bit, pos = bit+int(skip), pos+int(columns)
		if pos <= from {
			u.at, u.pos = bit, pos
		}
	}
	u.b = mark
}

// header reads what is before the checkpoints.
func (u *unpacker) header(b []byte) []byte {
	run, n := binary.Uvarint(b)
	b = b[n:]
	u.run = int(run)
	u.lastChunk, n = binary.Varint(b)
	b = b[n:]
	u.rice, u.class = uint(b[0]&0xf), b[0]>>4
	u.code, u.doubtful = &qualityCodes[b[1]&^keepsDoubtful], b[1]&keepsDoubtful != 0
	checkpoints, n := binary.Uvarint(b[2:])
	u.checkpoints = int(checkpoints)
	return b[2+n:]
}

// next is the next change; ok is false behind the last.
func (u *unpacker) next() (c change, ok bool) {
	v := window(u.b, u.at)
	q := uint(bits.TrailingZeros64(^v))
	var distance int
	if q < maxQuotient {
		distance = int(q)<<u.rice | int(v>>(q+1)&(1<<u.rice-1))
		u.at += int(q + 1 + u.rice)
	} else {
		distance = int(v >> maxQuotient & (1<<distanceBits - 1))
		u.at += maxQuotient + distanceBits
	}
	u.pos += distance
	if u.pos >= u.end {
		return change{}, false
	}
	v = window(u.b, u.at)
	c.pos = u.pos
	switch {
	case v&1 == 0:
		c.kind, c.n = align.Mismatch, 1
		ref := baseCode[u.ref[u.pos]] & 3
		switch n := bits.TrailingZeros64(^(v >> 1)); n {
		case 0:
			c.base = transition[ref]
			v, u.at = v>>2, u.at+2
		case 1:
			c.base = transversion(ref, 0)
			v, u.at = v>>3, u.at+3
		case 2:
			c.base = transversion(ref, 1)
			v, u.at = v>>4, u.at+4
		default:
			c.base = byte(v>>4) & 7
			v, u.at = v>>7, u.at+7
		}
		if u.class != 0 {
			q := u.code.decode[v&(1<<maxQualityBits-1)]
			c.bin = q.bin
			u.at += int(q.n)
		}
		u.pos++
	case v&2 == 0:
		u.at += 2
		c.kind, c.n = align.Deletion, u.length()
		u.pos += c.n
	case u.doubtful && v&4 != 0:
		c.kind, c.n = align.Match, 1
		q := u.code.decode[v>>3&(1<<maxQualityBits-1)]
		c.bin = q.bin
		u.at += 3 + int(q.n)
		u.pos++
	default:
		if u.at += 2; u.doubtful {
			u.at++
		}
		c.kind, c.n = align.Insertion, u.length()
		u.insertion(c.n)
	}
	return c, true
}

// length reads the length of a gap.
func (u *unpacker) length() int {
	v := window(u.b, u.at)
	switch {
	case v&1 == 0:
		u.at++
		return 1
	case v&2 == 0:
		u.at += 2
		return 2
	}
	v >>= 2
	more := uint(bits.TrailingZeros64(^v)) // bits behind the first one
	if more > maxLengthBits {
		more = maxLengthBits // damaged; check reports it
	}
	u.at += 2 + 2*int(more) + 1
	return int(1<<more|v>>(more+1)&(1<<more-1)) + 2
}

// maxLengthBits is more than the logarithm of the longest insertion.
const maxLengthBits = 24

// insertion reads n bases.
func (u *unpacker) insertion(n int) {
	u.bases, u.bins = u.bases[:0], u.bins[:0]
	ref := baseCode[u.ref[u.pos]] & 3
	for range n {
		if u.at > 8*len(u.b) {
			return // damaged; check reports it
		}
		v := window(u.b, u.at)
		b := ref
		switch step := byte(v>>1) & 3; {
		case v&1 == 0:
			v, u.at = v>>1, u.at+1
		case step == 0:
			b = baseN
			v, u.at = v>>3, u.at+3
		default:
			b = (ref + step) & 3
			v, u.at = v>>3, u.at+3
		}
		bin := byte(noQuality)
		if u.class != 0 {
			q := u.code.decode[v&(1<<maxQualityBits-1)]
			bin = q.bin
			u.at += int(q.n)
		}
		u.bases, u.bins = append(u.bases, b), append(u.bins, bin)
	}
}

// check reports whether b is what packer.append writes of some segment from start
// to end: packing the segment that it stands for gives b again. u.run is then its
// run.
func (u *unpacker) check(b []byte, start, end int, ref []byte, p *packer) error {
	in := packed.NewReader(b)
	in.Len(math.MaxInt32)
	in.Int()
	if head, code := in.Byte(), in.Byte(); head>>7 != 0 || code&keepsDoubtful != 0 != isPoor(head>>4) || int(code&^keepsDoubtful) >= len(qualityCodes) {
		in.Fail("head %#x %#x", head, code)
	}
	for n := in.Count(2); n > 0; n-- {
		in.Len(8 * len(b))
		in.Len(end - start)
	}
	rest := in.Rest()
	if in.Err() != nil {
		return in.Err()
	}
	u.open(b, start, end, start-1, ref)
	s := &streampb.Segment{Start: int64(start)}
	add := func(kind align.OpKind, n int) {
		s.Ops = binary.AppendUvarint(s.Ops, uint64(n)<<3|uint64(kind))
	}
	query, at := 0, start
	for {
		c, ok := u.next()
		if u.at > 8*len(rest) {
			return errors.New("ends in the middle")
		}
		if !ok {
			break
		}
		if c.pos > at {
			add(align.Match, c.pos-at)
			query += c.pos - at
		}
		at = c.pos
		if c.kind != align.Insertion {
			at += c.n
		}
		if at > end || c.base > baseN || query+c.n > align.MaxSegmentQuery {
			return fmt.Errorf("a change of %d bases at %d, beyond the end", c.n, c.pos)
		}
		add(c.kind, c.n)
		switch c.kind {
		case align.Match:
			s.Qualities = append(fill(s.Qualities, query), qualityOf[c.bin])
		case align.Mismatch:
			s.Bases = append(s.Bases, "ACGTN"[c.base])
			s.Qualities = append(fill(s.Qualities, query), qualityOf[c.bin])
		case align.Insertion:
			for i, base := range u.bases {
				s.Bases = append(s.Bases, "ACGTN"[base])
				s.Qualities = append(fill(s.Qualities, query+i), qualityOf[u.bins[i]])
			}
		}
		if c.kind != align.Deletion {
			query += c.n
		}
	}
	if u.pos != end {
		return fmt.Errorf("ends at %d, not at %d", u.pos, end)
	}
	if end > at {
		add(align.Match, end-at)
	}
	s.Qualities = fill(s.Qualities, query+end-at)
	if again := p.append(nil, s, u.run, u.lastChunk, u.class, ref); string(again) != string(b) {
		return errors.New("other bytes than the read that they stand for has")
	}
	return nil
}

// fill makes q as long as n, with what isn't doubtful.
func fill(q []byte, n int) []byte {
	for len(q) < n {
		q = append(q, math.MaxUint8)
	}
	return q
}
