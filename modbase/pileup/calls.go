package pileup

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/record"
)

// Units is how many units of probability make 1. What ML calls q is the middle of its range, 2q+1.
const Units = 512

// most is the highest sum of probabilities of one base that rounding can explain.
const most = Units + Units/100

// bases are the four bases by number; complements are 3 less the number.
const bases = "ACGT"

// number of a base; 4: none of the four.
var number = func() (t [256]uint8) {
	for i := range t {
		t[i] = uint8(len(bases))
	}
	for i := range len(bases) {
		t[bases[i]] = uint8(i)
	}
	return t
}()

// Kind is a modification of a base.
type Kind struct {
	Base byte // A, C, G or T: that which is modified
	Code modbase.Code
}

// Outcomes of a call; those from modified on are the read's kinds.
const (
	failed    = 0
	canonical = 1
	modified  = 2
)

// mark is a call of a read at a position of the reference.
type mark struct {
	at   int32
	p    uint16 // of what is most probable, in units
	what uint8
	base uint8 // that is called, by number
}

// Read is what is kept of an aligned read.
type Read struct {
	start, end int32
	reverse    bool
	group      int
	cigar      sam.Cigar
	seq        []sam.Doublet
	// Instead of these a segment has operations that are ahead, their bases, and the contig.
	ops, differ, contig []byte

	own      []mark    // of the strand that was sequenced
	opposite []mark    // of the other strand
	kinds    [2][]Kind // own and opposite, that the lists of the read name
	global   [2][]uint8
	observed [2]uint64

	// The cursor: the operation behind that at which counting is, where that ends in the reference, from there to
	// the read, where it ends in the read, whether it is a deletion or a skip, and marks that are behind.
	op            int
	ref           int32
	shift, query  int32
	gone, skipped bool
	same          bool // the bases of the operation are the contig's
	behind        [2]int
}

// overhead is about what a read takes in memory besides its alignment, bases and calls.
const overhead = 512

// Bytes is about how much memory the read takes.
func (r *Read) Bytes() int {
	const mark, operation = 8, 4
	return overhead + operation*cap(r.cigar) + cap(r.seq) + cap(r.ops) + cap(r.differ) + mark*(cap(r.own)+cap(r.opposite))
}

// Filter has the calls below thresholds fail, of a read that was made without any.
func (r *Read) Filter(thresholds *Thresholds) {
	for _, marks := range [2][]mark{r.own, r.opposite} {
		for i := range marks {
			if m := &marks[i]; int(m.p) < thresholds[m.base] {
				m.what = failed
			}
		}
	}
}

// Tagged reports whether the read's tags have a list.
func (r *Read) Tagged() bool { return len(r.kinds[0])+len(r.kinds[1]) > 0 }

// Thresholds are the least probability of a call that isn't failed, in units, by the number of the
// base that is called: A, C, G, T.
type Thresholds [len(bases)]int

// Threshold is a probability from 0 to 1 as units: the least number that isn't below it. It is taken in
// single precision, as modkit does.
func Threshold(p float64) int { return int(math.Ceil(float64(float32(p)) * Units)) }

// Histogram counts calls by base and the probability of what is most probable.
type Histogram [len(bases)][most + 1]int64

// Add adds another one's counts.
func (h *Histogram) Add(other *Histogram) {
	for b := range h {
		for i, n := range other[b] {
			h[b][i] += n
		}
	}
}

// Put adds calls of a base, by number, and a probability in units; those that no call can have count as the nearest.
func (h *Histogram) Put(base, p int, calls int64) { h[base][min(p, most)] += calls }

// Percentile are the thresholds below which a share q of the calls of each base is, between
// neighbours in proportion. Of a base without a call it is 0.
func (h *Histogram) Percentile(q float64) (t Thresholds) {
	for b := range h {
		n := int64(0)
		for _, k := range h[b] {
			n += k
		}
		if n == 0 {
			continue
		}
		// What is whole but for how q is written in binary is whole.
		place := float64(float64(n-1) * q)
		if whole := math.Round(place); math.Abs(place-whole) < 1e-6 {
			place = whole
		}
		low := math.Floor(place)
		x, y := h.nth(b, int64(low)), h.nth(b, int64(math.Ceil(place)))
		t[b] = x + int(math.Ceil(float64(y-x)*(place-low)))
	}
	return t
}

// nth is the n-th lowest probability of a base's calls.
func (h *Histogram) nth(b int, n int64) int {
	for p, k := range h[b] {
		if n -= k; n < 0 {
			return p
		}
	}
	return most
}

// Calls makes reads of records. It reuses its buffers, and is not safe for concurrent use.
type Calls struct {
	Thresholds Thresholds
	// Histogram counts the calls at bases that are aligned to the reference; nil: they aren't counted.
	Histogram *Histogram

	letters  []byte
	places   [][]int32 // of each list; lists that are the same share one of rooms
	buffers  [][]int32
	next     []int
	lists    []int
	first    []mark
	codes    []modbase.Code
	probs    []int
	possible []int32
	counted  [][2]uint16 // for the histogram, if the read can be used: base and probability
}

// Read makes a read of an aligned record, of a group from 0 on. The record's CIGAR and sequence are kept.
// With an error, which is one that [record.Faults] counts, the read has no calls, but counts as a read.
// Unlisted are the codes to which the specification gives no meaning.
func (c *Calls) Read(rec *sam.Record, group int) (read *Read, unlisted []modbase.Code, err error) {
	span := int32(0)
	for _, op := range rec.Cigar {
		span += int32(op.Len()) & consumes[op.Type()&15].ref
	}
	r := &Read{
		start: int32(rec.Pos), end: int32(rec.Pos) + span, reverse: rec.Flags&sam.Reverse != 0, group: group,
		cigar: rec.Cigar, seq: rec.Seq.Seq, ref: int32(rec.Pos),
	}
	tags, err := record.Tags(rec.AuxFields)
	if err != nil || tags == nil {
		return r, nil, err
	}
	if tags.Length != 0 && tags.Length != rec.Seq.Length {
		return r, nil, tags.Check(modbase.Sequence{Bases: make([]byte, rec.Seq.Length)})
	}
	c.letters = c.letters[:0]
	return r, tags.Unlisted(), c.take(r, tags, packedBases{Pairs: rec.Seq.Seq, Length: rec.Seq.Length, Reversed: r.reverse})
}

// packedBases are a read's bases as they lie in its record; of one whose letters are known their number alone.
type packedBases = modbase.Packed[sam.Doublet]

// take gives a read the calls of its tags. Its bases are the letters, if there are some.
func (c *Calls) take(r *Read, tags *modbase.Tags, s packedBases) error {
	c.counted = c.counted[:0]
	if err := c.add(r, tags, s); err != nil {
		r.own, r.opposite, r.kinds = nil, nil, [2][]Kind{}
		return err
	}
	for _, call := range c.counted {
		c.Histogram[call[0]][call[1]]++
	}
	return nil
}

// pairs are the two letters of a byte of BAM, the first one the lower.
var pairs = func() (t [256]uint16) {
	for i := range t {
		t[i] = uint16(letters[i>>4]) | uint16(letters[i&15])<<8
	}
	return t
}()

// expand unpacks bases, which common models' lists do without.
func (c *Calls) expand(s packedBases) {
	n := s.Length
	if len(c.letters) == n {
		return
	}
	c.letters = slices.Grow(c.letters[:0], n+1)[:n+n%2]
	for i, d := range s.Pairs[:(n+1)/2] {
		binary.LittleEndian.PutUint16(c.letters[2*i:], pairs[d])
	}
	c.letters = c.letters[:n]
}

// add adds the calls of all lists: of those that are of one strand and one base together.
func (c *Calls) add(r *Read, tags *modbase.Tags, s packedBases) error {
	for len(c.places) < len(tags.Lists) {
		c.places, c.buffers, c.next = append(c.places, nil), append(c.buffers, nil), append(c.next, 0)
	}
	for i := range tags.Lists {
		l := &tags.Lists[i]
		if l.Probabilities == nil && len(l.Skips) > 0 {
			return modbase.ErrNoProbabilities
		}
		// Models of several modifications that write a list for each name the same bases in all of
		// them.
		if i > 0 && l.Base == tags.Lists[i-1].Base && slices.Equal(l.Skips, tags.Lists[i-1].Skips) {
			c.places[i] = c.places[i-1]
			continue
		}
		var err error
		if len(c.letters) > 0 {
			c.places[i], err = l.Places(c.buffers[i][:0], modbase.Sequence{Bases: c.letters, Reversed: s.Reversed})
		} else {
			c.places[i], err = modbase.PlacesPacked(c.buffers[i][:0], l, s)
		}
		if err != nil {
			return err
		}
		c.buffers[i] = c.places[i]
	}
	for strand := range 2 {
		// Lists of any base may name the bases of all others.
		any := slices.ContainsFunc(tags.Lists, func(l modbase.List) bool { return l.Base == 'N' && l.Opposite == (strand == 1) })
		for _, base := range []byte("ACGTN") {
			c.lists = c.lists[:0]
			for i := range tags.Lists {
				if l := &tags.Lists[i]; l.Opposite == (strand == 1) && (letter(l) == base || any && base == 'N') {
					c.lists = append(c.lists, i)
				}
			}
			if len(c.lists) == 0 || any && base != 'N' {
				continue
			}
			before := len(*r.marks(strand))
			if err := c.group(r, tags, s, strand, base); err != nil {
				clear(c.probs)
				return err
			}
			c.merge(*r.marks(strand), before)
		}
		if len(r.kinds[strand]) > maxKinds {
			return modbase.ErrKinds
		}
	}
	return nil
}

// letter is the letter that a list's base has in BAM.
func letter(l *modbase.List) byte {
	if l.Base == 'U' {
		return 'T'
	}
	return l.Base
}

// alike reports whether the lists of a group name the same bases, as those of common models do, each for
// codes of its own: then each place has its probabilities at one place of all lists.
func (c *Calls) alike(tags *modbase.Tags, base byte) bool {
	if base == 'N' {
		return false
	}
	c.codes = c.codes[:0]
	first := &tags.Lists[c.lists[0]]
	for _, i := range c.lists {
		l := &tags.Lists[i]
		if l.Implicit() != first.Implicit() || !slices.Equal(c.places[i], c.places[c.lists[0]]) {
			return false
		}
		for _, code := range l.Codes {
			if slices.Contains(c.codes, code) {
				return false
			}
			c.codes = append(c.codes, code)
		}
	}
	return true
}

// together is group for lists that are alike.
func (c *Calls) together(r *Read, tags *modbase.Tags, s packedBases, strand int, base byte, implicit bool) error {
	places, marks := c.places[c.lists[0]], r.marks(strand)
	steps := len(places)
	if implicit {
		steps = len(c.possible)
	}
	if steps == 0 {
		return nil
	}
	called := number[base]
	if strand == 1 {
		called = 3 - called
	}
	for _, code := range c.codes {
		r.kind(strand, Kind{bases[called], code})
	}
	first := uint8(len(r.kinds[strand])-len(c.codes)) + modified
	walk := walker{cigar: r.cigar, ref: r.start, off: true}
	last, least := int32(s.Length)-1, c.Thresholds[called]
	done := 0 // of the places
	for step := range steps {
		// The list's places are in the direction of the read, and the reference's are wanted to ascend.
		k, place := done, int32(-1)
		if done < len(places) {
			if place = places[k]; s.Reversed {
				k = len(places) - 1 - done
				place = last - places[k]
			}
		}
		best, what := Units, uint8(canonical)
		if implicit && c.possible[step] != place {
			place = c.possible[step]
		} else {
			done++
			sum, most512, of, kind := 0, -1, uint8(0), first
			for _, i := range c.lists {
				l := &tags.Lists[i]
				n := len(l.Codes)
				for j, q := range l.Probabilities[k*n : k*n+n] {
					p := 2*int(q) + 1
					sum += p
					if p > most512 || p == most512 && l.Codes[j].Compare(c.codes[of-first]) > 0 {
						most512, of = p, kind
					}
					kind++
				}
			}
			if sum > most {
				return modbase.ErrSum
			}
			if best = max(0, Units-sum); best < most512 {
				best, what = most512, of
			}
		}
		if best < least {
			what = failed
		}
		ref := walk.to(place)
		if ref < 0 {
			continue
		}
		if c.Histogram != nil {
			c.counted = append(c.counted, [2]uint16{uint16(called), uint16(best)})
		}
		*marks = append(*marks, mark{ref, uint16(best), what, called})
	}
	return nil
}

// merge puts marks in order, of which the first n are, and the others.
func (c *Calls) merge(marks []mark, n int) {
	if n == 0 || n == len(marks) || marks[n-1].at < marks[n].at {
		return
	}
	c.first = append(c.first[:0], marks[:n]...)
	first, second := c.first, marks[n:]
	for i := range marks {
		if len(second) == 0 || len(first) > 0 && first[0].at < second[0].at {
			marks[i], first = first[0], first[1:]
		} else {
			marks[i], second = second[0], second[1:]
		}
		if len(first) == 0 {
			return // the rest is where it belongs
		}
	}
}

func (r *Read) marks(strand int) *[]mark {
	if strand == 0 {
		return &r.own
	}
	return &r.opposite
}

// group adds the calls of c.lists, which are of one strand and one base, or with base N of all.
func (c *Calls) group(r *Read, tags *modbase.Tags, s packedBases, strand int, base byte) error {
	lists, implicit := c.lists, false
	for _, i := range lists {
		l := &tags.Lists[i]
		implicit = implicit || l.Implicit()
		c.next[i] = 0
	}
	if implicit {
		c.all(s, base)
	}
	marks := r.marks(strand)
	capacity := len(c.possible)
	if !implicit {
		capacity = 0
		for _, i := range lists {
			capacity = max(capacity, len(c.places[i]))
		}
	}
	*marks = slices.Grow(*marks, capacity)
	if c.alike(tags, base) {
		return c.together(r, tags, s, strand, base, implicit)
	}
	c.expand(s)
	walk := walker{cigar: r.cigar, ref: r.start, off: true}
	n := int32(s.Length)
	// The record's direction is that of ascending places of the reference, the list's that of the read.
	at := func(i, k int) int32 {
		p := c.places[i]
		if s.Reversed {
			return n - 1 - p[len(p)-1-k]
		}
		return p[k]
	}
	for step := 0; ; step++ {
		place := int32(math.MaxInt32)
		if implicit {
			if step == len(c.possible) {
				break
			}
			place = c.possible[step]
		} else {
			for _, i := range lists {
				if k := c.next[i]; k < len(c.places[i]) {
					place = min(place, at(i, k))
				}
			}
			if place == math.MaxInt32 {
				break
			}
		}
		shown := number[c.letters[place]]
		if s.Reversed {
			shown = 3 - shown
		}
		called := shown
		if strand == 1 {
			called = 3 - shown
		}
		sum, best, what, covered := 0, -1, uint8(0), false
		for _, i := range lists {
			l := &tags.Lists[i]
			n := len(l.Codes)
			k := c.next[i]
			listed := k < len(c.places[i]) && at(i, k) == place
			if !listed && !(l.Implicit() && called < 4 && (l.Base == 'N' || letter(l) == bases[shown])) {
				continue
			}
			var probabilities []byte
			if listed {
				c.next[i]++
				if s.Reversed {
					k = len(c.places[i]) - 1 - k
				}
				probabilities = l.Probabilities[k*n : k*n+n]
			}
			if called > 3 {
				continue
			}
			covered = true
			for j, code := range l.Codes {
				kind := r.kind(strand, Kind{bases[called], code})
				if !listed {
					continue
				}
				p := 2*int(probabilities[j]) + 1
				sum += p
				if kind >= len(c.probs) {
					c.probs = append(c.probs, make([]int, kind+1-len(c.probs))...)
				}
				c.probs[kind] += p
			}
		}
		if !covered {
			continue
		}
		if sum > most {
			return modbase.ErrSum
		}
		for kind := range r.kinds[strand] {
			if kind >= len(c.probs) || c.probs[kind] == 0 {
				continue
			}
			p := c.probs[kind]
			c.probs[kind] = 0
			if p > best || p == best && r.kinds[strand][kind].Code.Compare(r.kinds[strand][what-modified].Code) > 0 {
				best, what = p, uint8(kind)+modified
			}
		}
		rest := max(0, Units-sum)
		if rest >= best {
			best, what = rest, canonical
		}
		if best < c.Thresholds[called] {
			what = failed
		}
		ref := walk.to(place)
		if ref < 0 {
			continue
		}
		if c.Histogram != nil {
			c.counted = append(c.counted, [2]uint16{uint16(called), uint16(best)})
		}
		*marks = append(*marks, mark{ref, uint16(best), what, called})
	}
	return nil
}

// all finds the bases of a kind, as they stand in the record.
func (c *Calls) all(s packedBases, base byte) {
	c.expand(s)
	if s.Reversed && base != 'N' {
		base = bases[3-number[base]]
	}
	// Each is written where the next one goes, as it isn't known beforehand which one matches.
	c.possible = slices.Grow(c.possible[:0], len(c.letters))[:len(c.letters)]
	n := 0
	for i, b := range c.letters {
		c.possible[n] = int32(i)
		if b == base || base == 'N' {
			n++
		}
	}
	c.possible = c.possible[:n]
}

// kind is the number of a kind among those of a read, which gets it if it is new.
func (r *Read) kind(strand int, k Kind) int {
	for i, known := range r.kinds[strand] {
		if known == k {
			return i
		}
	}
	r.kinds[strand] = append(r.kinds[strand], k)
	return len(r.kinds[strand]) - 1
}

// walker finds the places of the reference that bases of a record are aligned to.
type walker struct {
	cigar sam.Cigar
	op    int   // that which is next
	end   int32 // of the operation before it, in the record
	shift int32 // from a place of the record to that of the reference
	off   bool  // the operation has no place of the reference
	ref   int32 // behind the operation
}

// to is the place of the base at a place of the record, not before that of the call before; -1: none.
func (w *walker) to(place int32) int32 {
	if place >= w.end {
		w.walk(place)
	}
	if w.off {
		return -1
	}
	return place + w.shift
}

func (w *walker) walk(place int32) {
	cigar, end, ref := w.cigar[w.op:], w.end, w.ref
	var op sam.CigarOp
	i := 0
	for ; place >= end && i < len(cigar); i++ {
		op = cigar[i]
		n, takes := int32(op>>4), &consumes[op&15]
		end += n & takes.query
		ref += n & takes.ref
	}
	if i > 0 {
		n, takes := int32(op>>4), &consumes[op&15]
		w.off, w.shift = takes.ref == 0, ref-n&takes.ref-(end-n&takes.query)
	}
	w.op, w.end, w.ref = w.op+i, end, ref
	w.off = w.off || place >= end
}

// consumes has masks for the length of an operation: all bits of what it consumes.
var consumes = func() (t [16]struct{ query, ref int32 }) {
	for op := range sam.CigarOpType(9) {
		takes := op.Consumes()
		t[op].query, t[op].ref = -int32(takes.Query), -int32(takes.Reference)
	}
	return t
}()

// maxKinds is how many kinds are kept apart.
const maxKinds = 64
