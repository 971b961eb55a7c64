package modbase

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// Sequence is a read's bases as capital letters. Reversed says that they are its reverse complement,
// as SAM has those of a read that is aligned to the other strand.
type Sequence struct {
	Bases    []byte
	Reversed bool
}

// complement of bases; others stay what they are.
var complement = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
	}
	t['A'], t['C'], t['G'], t['T'], t['U'] = 'T', 'G', 'C', 'A', 'A'
	return t
}()

// base is the letter that a list's base has in BAM.
func (l *List) base() byte {
	if l.Base == 'U' {
		return 'T'
	}
	return l.Base
}

// at is the base at a place of the read as sequenced.
func (s Sequence) at(i int) byte {
	if s.Reversed {
		return complement[s.Bases[len(s.Bases)-1-i]]
	}
	return s.Bases[i]
}

// Places appends where the bases of a list are: from 0 on, ascending, in the read as it was
// sequenced. The error is ErrBehind, with details.
func (l *List) Places(places []int32, s Sequence) ([]int32, error) {
	if l.Base == 'N' {
		return l.counted(places, len(s.Bases))
	}
	return l.find(places, letters{bases: s.Bases, want: l.letter(s.Reversed)}, s.Reversed)
}

// letter is the letter that a list's base has in BAM, in a read that is reversed or not.
func (l *List) letter(reversed bool) byte {
	if reversed {
		return complement[l.base()]
	}
	return l.base()
}

// Packed is a read's bases as BAM has them, two in a byte, the first in the higher half, of whatever type a
// reader of BAM has for these bytes. It is else as a Sequence.
type Packed[Pair ~byte] struct {
	Pairs    []Pair
	Length   int
	Reversed bool
}

// PlacesPacked is [List.Places] of bases that needn't be unpacked.
func PlacesPacked[Pair ~byte](places []int32, l *List, s Packed[Pair]) ([]int32, error) {
	if l.Base == 'N' {
		return l.counted(places, s.Length)
	}
	h := halves[Pair]{s.Pairs, s.Length, packed(l.letter(s.Reversed))}
	var short bool
	if s.Reversed {
		places, short = h.backward(places, l.Skips)
	} else {
		places, short = h.forward(places, l.Skips)
	}
	if short {
		return places, l.behind(s.Length)
	}
	return places, nil
}

// counted are the places of a list of any base.
func (l *List) counted(places []int32, bases int) ([]int32, error) {
	at := int64(-1)
	for _, n := range l.Skips {
		if at += int64(n) + 1; at >= int64(bases) {
			return places, l.behind(bases)
		}
		places = append(places, int32(at))
	}
	return places, nil
}

// find appends where what a list names is.
func (l *List) find(places []int32, m letters, reversed bool) ([]int32, error) {
	bases := len(m.bases)
	// The block before the first one. Of bases that end within a block, the last one is as if more followed.
	m.at = -letterLanes
	if reversed {
		m.at = (bases + letterLanes - 1) / letterLanes * letterLanes
	}
	for _, n := range l.Skips {
		var at int
		if reversed {
			if at = m.before(int(n)); at >= 0 {
				at = bases - 1 - at
			}
		} else {
			at = m.behind(int(n))
		}
		if at < 0 {
			return places, l.behind(bases)
		}
		places = append(places, int32(at))
	}
	return places, nil
}

// letters are bases, one in a byte. It goes through the places of one letter, a block of 64 bits at a time: most are skipped, and only
// how many they are is wanted.
type letters struct {
	bases []byte
	want  byte
	at    int    // where the block begins
	left  uint64 // of the block, those that weren't passed
}

// letterLanes is how many bases a block of letters has.
const letterLanes = 8

// behind is the place behind n that are skipped, forwards; -1: there is none.
func (m *letters) behind(n int) int {
	for {
		k := bits.OnesCount64(m.left)
		if n < k {
			break
		}
		n -= k
		if m.at += letterLanes; m.at >= len(m.bases) {
			m.at, m.left = len(m.bases), 0
			return -1
		}
		m.left = m.block(m.at)
	}
	for ; n > 0; n-- {
		m.left &^= highest(m.left)
	}
	first := bits.LeadingZeros64(m.left)
	m.left &^= highest(m.left)
	return m.at + first*letterLanes/64
}

// before is the place behind n that are skipped, backwards; -1: there is none.
func (m *letters) before(n int) int {
	for {
		k := bits.OnesCount64(m.left)
		if n < k {
			break
		}
		n -= k
		if m.at <= 0 {
			m.left = 0
			return -1
		}
		m.at -= letterLanes
		m.left = m.block(m.at)
	}
	for ; n > 0; n-- {
		m.left &= m.left - 1
	}
	last := 63 - bits.TrailingZeros64(m.left)
	m.left &= m.left - 1
	return m.at + last*letterLanes/64
}

// highest is the highest bit of a number that isn't 0.
func highest(x uint64) uint64 { return 1 << (bits.Len64(x) - 1) }

// block has a bit for each base from a block's first one on that is the letter: the highest of its lane. The first base is in the highest lane.
func (m *letters) block(at int) uint64 {
	var padded [letterLanes]byte // of which none is a base
	eight := m.bases[at:min(at+len(padded), len(m.bases))]
	if len(eight) < len(padded) {
		copy(padded[:], eight)
		eight = padded[:]
	}
	const low = 0x7f7f7f7f7f7f7f7f
	// A byte is 0 where the letter is, and only there adding 127 to its lower bits leaves the highest one 0.
	x := binary.BigEndian.Uint64(eight) ^ uint64(m.want)*0x0101010101010101
	return ^((x&low + low) | x | low)
}

// halves are bases, two in a byte.
type halves[Pair ~byte] struct {
	pairs []Pair
	bases int
	want  uint64 // the letter, sixteen times
}

// packed is what BAM writes for a base, sixteen times.
func packed(base byte) uint64 {
	const once = 0x1111111111111111
	return once << strings.IndexByte("ACGT", base)
}

// block has a bit for each base from a block's first one on that is the letter: the highest of its lane. The first base is in the highest lane.
func (h *halves[Pair]) block(at int) uint64 {
	if at+lanes <= h.bases {
		return h.found(h.pairs[at/2 : at/2+lanes/2])
	}
	var padded [lanes / 2]Pair // of which none is a base
	copy(padded[:], h.pairs[at/2:])
	// Of an odd number of bases what follows the last may be anything.
	return h.found(padded[:]) &^ (1<<(4*(at+lanes-h.bases)) - 1)
}

// lanes is how many bases a block has, and four how many four of them have.
const lanes, four = 16, 64

// four is of four blocks: how many of their bases are the letter. Each lane of a block has one bit of its four, so that those of all blocks are counted at once.
func (h *halves[Pair]) four(at int) int {
	p := h.pairs[at/2 : at/2+four/2]
	return bits.OnesCount64(h.found(p[:8]) | h.found(p[8:16])>>1 | h.found(p[16:24])>>2 | h.found(p[24:32])>>3)
}

// found is block of eight whole bytes.
func (h *halves[Pair]) found(eight []Pair) uint64 {
	const low = 0x7777777777777777
	_ = eight[7]
	x := uint64(eight[0])<<56 | uint64(eight[1])<<48 | uint64(eight[2])<<40 | uint64(eight[3])<<32 |
		uint64(eight[4])<<24 | uint64(eight[5])<<16 | uint64(eight[6])<<8 | uint64(eight[7])
	x ^= h.want
	return ^((x&low + low) | x | low)
}

// forward appends the places behind skipped ones; short says that there are fewer bases than that.
func (h *halves[Pair]) forward(places, skips []int32) (_ []int32, short bool) {
	places = slices.Grow(places, len(skips))
	at, left := -lanes, uint64(0)
	within := 0 // of four blocks that have the next place, the end
	for _, skip := range skips {
		n, k := int(skip), bits.OnesCount64(left)
		for n >= k {
			n -= k
			at += lanes
			for at >= within && at+four <= h.bases {
				if k = h.four(at); n < k {
					within = at + four
					break
				}
				n -= k
				at += four
			}
			if at >= h.bases {
				return places, true
			}
			left = h.block(at)
			k = bits.OnesCount64(left)
		}
		for ; n > 0; n-- {
			left &^= highest(left)
		}
		first := bits.LeadingZeros64(left)
		left &^= 1 << (63 - first)
		places = append(places, int32(at+first/4))
	}
	return places, false
}

// backward appends places counted from the end, likewise.
func (h *halves[Pair]) backward(places, skips []int32) (_ []int32, short bool) {
	places = slices.Grow(places, len(skips))
	at, left := (h.bases+lanes-1)/lanes*lanes, uint64(0)
	within := at // of four blocks that have the next place, the begin
	for _, skip := range skips {
		n, k := int(skip), bits.OnesCount64(left)
		for n >= k {
			n -= k
			for at >= four && at <= min(within, h.bases) {
				if k = h.four(at - four); n < k {
					within = at - four
					break
				}
				n -= k
				at -= four
			}
			if at <= 0 {
				return places, true
			}
			at -= lanes
			left = h.block(at)
			k = bits.OnesCount64(left)
		}
		for ; n > 0; n-- {
			left &= left - 1
		}
		last := 63 - bits.TrailingZeros64(left)
		left &= left - 1
		places = append(places, int32(h.bases-1-(at+last/4)))
	}
	return places, false
}

func (l *List) behind(bases int) error {
	return fmt.Errorf("%w: %s lists more bases than there are %c in its %d", ErrBehind, l.head(nil), l.base(), bases)
}

// Check returns nil if the tags are of a read, and else ErrLength or ErrBehind, with details.
func (t *Tags) Check(s Sequence) error {
	if t.Length != 0 && t.Length != len(s.Bases) {
		return fmt.Errorf("%w: it is %d, and there are %d bases", ErrLength, t.Length, len(s.Bases))
	}
	var places []int32
	for i := range t.Lists {
		var err error
		if places, err = t.Lists[i].Places(places[:0], s); err != nil {
			return err
		}
	}
	return nil
}

// Call is what a read says of one base and one modification.
type Call struct {
	// At is the base's place in the read as it was sequenced, from 0 on.
	At int
	// Base, Opposite and Code are those of the list.
	Base     byte
	Opposite bool
	Code     Code
	// Probability is that of the modification in 256ths, as [List] has it; -1: it isn't said.
	Probability int
}

// Calls yields what the lists name, by place, and at one place in the order of MM. Bases that a list
// implies to be unmodified aren't named. The read must be the tags' own, which [Tags.Check] reports.
func (t *Tags) Calls(s Sequence) iter.Seq[Call] {
	var all []Call
	var places []int32
	for i := range t.Lists {
		l := &t.Lists[i]
		places, _ = l.Places(places[:0], s)
		for k, at := range places {
			for c, code := range l.Codes {
				call := Call{At: int(at), Base: l.Base, Opposite: l.Opposite, Code: code, Probability: -1}
				if l.Probabilities != nil {
					call.Probability = int(l.Probabilities[k*len(l.Codes)+c])
				}
				all = append(all, call)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Call) int { return a.At - b.At })
	return slices.Values(all)
}

// Slice are the tags of the bases [start, end) of a read as it was sequenced: of what is left when it is
// trimmed or clipped, or of a part when it is split. MN is written whether or not there was one, as what
// is cut again needs it. Lists of which nothing is left stay, as they state which modifications were
// searched for. Errors are those of Check.
func (t *Tags) Slice(s Sequence, start, end int) (*Tags, error) {
	if start < 0 || end > len(s.Bases) || start > end {
		return nil, fmt.Errorf("cutting the tags of %d bases to [%d, %d)", len(s.Bases), start, end)
	}
	if err := t.Check(s); err != nil {
		return nil, err
	}
	out := &Tags{Lists: make([]List, len(t.Lists)), Length: end - start}
	var places []int32
	for i := range t.Lists {
		l := &t.Lists[i]
		places, _ = l.Places(places[:0], s)
		first, _ := slices.BinarySearch(places, int32(start))
		behind, _ := slices.BinarySearch(places, int32(end))
		part := *l
		part.Skips = slices.Clone(l.Skips[first:behind])
		if l.Probabilities != nil {
			part.Probabilities = slices.Clone(l.Probabilities[first*len(l.Codes) : behind*len(l.Codes)])
		}
		if first < behind && first == 0 {
			// Of those that are skipped before it, the ones that are cut off don't count.
			part.Skips[0] -= int32(s.count(l, 0, start))
		} else if first < behind {
			part.Skips[0] -= int32(s.count(l, int(places[first-1])+1, start))
		}
		out.Lists[i] = part
	}
	return out, nil
}

// count is how many bases of a list's kind are in [start, end) of the read as sequenced.
func (s Sequence) count(l *List, start, end int) int {
	if l.Base == 'N' {
		return end - start
	}
	n := 0
	for i := start; i < end; i++ {
		if s.at(i) == l.base() {
			n++
		}
	}
	return n
}
