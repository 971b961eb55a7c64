package crf

import "math"

// Problem: a sequence is as probable as all its paths together, and those are
// spread over where its moves lie. Find the most probable sequence.
//
// Strategy: Dorado's beam search. The beam begins with the states from which the rest of
// the window is most probable. Each frame extends its sequences by a stay and by four
// moves. Two of the results may be one sequence, that of a stay and that of a move onto
// it: these are added up, and the more probable one's path is kept. So are, unlike in
// Dorado, those that have emitted the same from different first states, once they have
// come to the same state: they would take the places of others to the window's end, the
// more of them the longer states are. Sequences are ranked by their own probability times
// that of all continuations from their state, the backward sum, which sees the whole
// window. Those within the cut of the best are kept, at most the beam's width.
//
// What differs long ago is settled, again unlike in Dorado: of two sequences whose
// last bases are the same the more probable one stays. Both go on alike, in the same
// state and with their moves as late or early, so that the other can't win any more;
// it would take a place in the beam to the window's end. Two such differences would
// take the places of four sequences.
//
// Consequences: the backward sums make a narrow beam enough, and what is called hangs
// on what is near: windows call as the whole read does. Ties go to the
// stay, then to what came first before. Unlike Dorado, which finds a
// threshold that leaves between 80 and 100 % of the width, the best are kept
// exactly.
//
// A processor with AVX-512 has a narrow beam in its registers, 16 numbers in each (narrow): it comes to the same bits, and leaves to
// Go the frames in which the last place in the beam goes to one of several that weigh the same.

// entry is a sequence of the beam with the state that it ends in.
type entry struct {
	// hash stands for what has been emitted, and parent for it without its last base.
	// With the state it stands for the sequence, and without once whole says so.
	hash, parent uint64
	recent       uint32 // the last bases emitted, two bits each, the newest in the lowest
	// weight is the probability of the sequence up to here, and guided that times the
	// backward sum; both on a scale of the frame's.
	weight, guided float32
	state          uint16
	emitted        uint8 // bases, counted up to memory
}

// origin is what the way back needs of an entry: its state, the entry of the last frame's
// beam that it extends, and whether by a move.
type origin struct {
	state uint16
	from  uint8
	moved bool
}

// said is what a candidate has emitted, as a hash, with the state that it ends in.
type said struct {
	hash  uint64
	state uint16
}

// match says that an entry is what another becomes by moving.
type match struct{ entry, parent uint8 }

// beam holds the memory of the search.
//
// A frame has five candidates for each of n entries: from 0 to n-1 those that stay, and behind
// them four moves of each. To weigh one takes less time than a branch that a processor
// doesn't foresee, so all are weighed, and only those that are kept become entries.
type beam struct {
	entries, next []entry // of the last frame and of this one, n of them
	n             int

	weights, guided []float32 // of the candidates
	ways            []origin  // of candidates, without states: of those that stay, and of all until the beam is whole
	kept, ranked    []uint32  // candidates that are kept, in their order
	order           []float32 // numbers of which the largest are found
	origins         []origin  // frames by width

	sequences []said // of the candidates, until the beam is whole
	// seats finds them, by what they say; merges counts the frames in which it does.
	seats    [seats]seat
	merges   uint32
	matches  []match
	nMatches int
	// hashes and recents distinguish entries by their hashes and last bases. A slot holds the number of the frame
	// that took it last, and that of hashes the entry as well.
	hashes, recents [slots]uint32
	frame           uint32 // counted from 1 to mostFrames

	// length is the number of bases in a state, and whole says that all entries of the
	// beam have emitted as many: where they began no longer distinguishes them.
	length uint8
	whole  bool

	vectors bool // candidates are compared by the processor's vector instructions
	wider   bool // entries may go on in lanes
	packed  bool // they do: lanes has them, and entries has nothing
	lanes   *narrow
}

// memory is the number of bases after which it no longer counts what was emitted
// before, at most 16. A state has no more than six.
const (
	memory    = 10
	lastBases = 1<<(2*memory) - 1
)

// empty is the hash of what has been emitted where a window begins.
const empty = 1

// slots is far more than a beam has entries, so that two of them seldom meet in one.
const (
	slotBits = 10
	slots    = 1 << slotBits
)

// seats is more than a frame has candidates.
const (
	seatBits = 11
	seats    = 1 << seatBits
)

// seat is a candidate, of the frame that took the seat last.
type seat struct{ merge, candidate uint32 }

// mostFrames is how many frames are counted before the count begins anew: a slot of hashes has 24 bits for it.
const mostFrames = 1<<24 - 1

// gone is the guided weight of a candidate that was added to another: less than any.
const gone = -1

// begin fills the beam with the best states, by what follows them.
func (b *beam) begin(l *lattice, width int) {
	b.length, b.vectors = uint8(l.q2()+1), l.vectors
	b.wider, b.packed = l.vectors && l.widerBeam && l.fixed && width <= mostLanes, false
	if b.wider && b.lanes == nil {
		b.lanes = new(narrow)
	}
	b.entries, b.next, b.matches = grow(b.entries, width), grow(b.next, width), grow(b.matches, width)
	most := max(l.n, 5*width) + 8 // and what vector instructions write behind
	b.weights, b.guided, b.order = grow(b.weights, most), grow(b.guided, most), grow(b.order, most)
	b.ways, b.kept, b.ranked = grow(b.ways, 5*width), grow(b.kept, most), grow(b.ranked, most)
	b.origins = grow(b.origins, l.frames*width+behindOrigins)
	clear(b.hashes[:])
	clear(b.recents[:])
	b.frame, b.nMatches, b.whole = 0, 0, false

	copy(b.guided, l.backward[:l.n])
	kept, top := b.within(l.n, width, 0)
	scale, _ := reciprocal(top)
	for i, s := range kept {
		b.entries[i] = entry{hash: empty, state: uint16(s), weight: scale, guided: b.guided[s]}
	}
	b.n = len(kept)
}

// end writes the path of the most probable sequence.
func (b *beam) end(frames, width int, states []uint16, moved []bool) {
	if b.packed {
		b.unpack()
	}
	at := uint8(0)
	for i := range b.entries[:b.n] {
		if b.entries[i].guided > b.entries[at].guided {
			at = uint8(i)
		}
	}
	for t := frames - 1; t >= 0; t-- {
		o := b.origins[t*width+int(at)]
		states[t], moved[t] = o.state, o.moved
		at = o.from
	}
}

// advance extends the beam by frame t.
func (b *beam) advance(l *lattice, t, width int, cut float32) {
	after := l.backward[(t+1)*l.n:][:l.n]
	if b.packed {
		row := b.origins[t*width:][:behindOrigins]
		if advanceAVX512(b.lanes, &l.weights(t)[0], &after[0], l.n-1, 2*int(b.length)-2, width, cut, l.stays[t], &row[0], &laneConst) {
			return
		}
		b.unpack() // some are equal
	}
	b.weigh(l, t, after)
	if b.whole {
		b.add(after)
	} else {
		b.merge(l.n)
	}
	kept, top := b.within(5*b.n, width, cut)
	scale, _ := reciprocal(top)
	b.take(kept, scale, l.n-1, b.origins[t*width:][:width])
	b.pack()
}

// weigh computes the candidates' weights.
func (b *beam) weigh(l *lattice, t int, after []float32) {
	moves := l.weights(t)
	entries := b.entries[:b.n]
	weights, guided := b.weights[:len(entries)], b.guided[:len(entries)]
	for i := range entries {
		e := &entries[i]
		w := float32(e.weight * l.stayOf(t, int(e.state)))
		weights[i], guided[i] = w, float32(w*after[e.state])
	}
	oldest := 2 * (int(b.length) - 1)
	weights, guided = b.weights[len(entries):], b.guided[len(entries):]
	for i := range entries {
		e := &entries[i]
		dropped, first := int(e.state)>>oldest&3, int(e.state)<<2&(l.n-1)
		by, following := (*[16]float32)(moves[4*first:]), (*[4]float32)(after[first:])
		w, g := (*[4]float32)(weights[4*i:]), (*[4]float32)(guided[4*i:])
		// Rounded before they are added to others.
		w0, w1 := float32(e.weight*by[dropped]), float32(e.weight*by[4+dropped])
		w2, w3 := float32(e.weight*by[8+dropped]), float32(e.weight*by[12+dropped])
		w[0], w[1], w[2], w[3] = w0, w1, w2, w3
		g[0], g[1] = float32(w0*following[0]), float32(w1*following[1])
		g[2], g[3] = float32(w2*following[2]), float32(w3*following[3])
	}
}

// add adds moves to what they become, where that is in the beam and stays.
func (b *beam) add(after []float32) {
	for i := range b.n {
		b.ways[i] = origin{from: uint8(i)}
	}
	for _, m := range b.matches[:b.nMatches] {
		i, state := m.entry, b.entries[m.entry].state
		c := b.n + 4*int(m.parent) + int(state&3)
		if b.weights[c] > b.weights[i] {
			b.ways[i] = origin{from: m.parent, moved: true}
		}
		b.weights[i] += b.weights[c]
		b.guided[i] = b.weights[i] * after[state]
		b.guided[c] = gone
	}
}

// merge adds up candidates that are one sequence, in the place of the first of them, while
// it still counts where they began.
func (b *beam) merge(states int) {
	n := b.n
	b.sequences = grow(b.sequences, 5*n)
	for i := range n {
		e := &b.entries[i]
		b.sequences[i], b.ways[i] = said{e.hash, e.state}, origin{from: uint8(i)}
		for base := range 4 {
			c := n + 4*i + base
			b.sequences[c] = said{extend(e.hash, uint64(base)+1), uint16((int(e.state)<<2 | base) & (states - 1))}
			b.ways[c] = origin{from: uint8(i), moved: true}
		}
	}
	if b.merges++; b.merges == 0 {
		clear(b.seats[:])
		b.merges = 1
	}
next:
	for c, s := range b.sequences {
		at := (s.hash + uint64(s.state)) * hashMultiplier >> (64 - seatBits)
		for ; b.seats[at].merge == b.merges; at = (at + 1) % seats {
			one := b.seats[at].candidate
			if b.sequences[one] != s {
				continue
			}
			if b.weights[c] > b.weights[one] {
				b.ways[one] = b.ways[c]
			}
			b.weights[one] += b.weights[c]
			b.guided[one] += b.guided[c]
			b.guided[c] = gone
			continue next
		}
		b.seats[at] = seat{merge: b.merges, candidate: uint32(c)}
	}
}

// within returns which of n guided weights are within the cut of the highest, which it returns as well, and
// if these are more than width the best of them, in their order. It leaves negative ones out.
func (b *beam) within(n, width int, cut float32) (kept []uint32, top float32) {
	x := b.guided[:n]
	if !b.vectors {
		kept, top = within(b.kept, x, cut)
		if len(kept) > width {
			kept = b.best(kept, width)
		}
		return kept, top
	}
	*(*[8]float32)(b.guided[n:]) = negatives
	top, count := withinAVX2(&b.kept[0], &b.order[0], &x[0], n, cut, &lanes)
	kept = b.kept[:count]
	switch {
	case count <= width:
		return kept, top
	case count > mostRanked:
		return b.best(kept, width), top
	}
	*(*[8]float32)(b.order[count:]) = negatives
	if n := bestAVX2(&b.ranked[0], &b.kept[0], &b.order[0], count, width, &lanes); n != width {
		return b.best(kept, width), top // some are equal
	}
	return b.ranked[:width], top
}

// mostRanked is how many numbers are compared with one another at most; of more it is faster to find
// the least that is kept.
const mostRanked = 64

// negatives are behind numbers that vector instructions take eight at a time.
var negatives = [8]float32{gone, gone, gone, gone, gone, gone, gone, gone}

// lanes holds for each set of eight lanes, a bit for each, which they are, and then others.
var lanes = func() (table [256][8]uint8) {
	for set := range table {
		n := 0
		for lane := range 8 {
			if set>>lane&1 != 0 {
				table[set][n] = uint8(lane)
				n++
			}
		}
	}
	return table
}()

// within returns which numbers are within the cut of the highest, and that. It writes each index, and counts those that
// stay, so that there is no branch.
func within(kept []uint32, x []float32, cut float32) (_ []uint32, top float32) {
	// Numbers that aren't negative are in the order of their bits, and those of negative ones are negative.
	most := int32(0)
	for _, v := range x {
		most = max(most, int32(math.Float32bits(v)))
	}
	top = math.Float32frombits(uint32(most))
	least := int64(0)
	if cut > 0 {
		least = int64(math.Float32bits(top / cut))
	}
	n := 0
	kept = kept[:len(x)]
	for i, v := range x {
		kept[n] = uint32(i)
		below := uint64(int64(int32(math.Float32bits(v)))-least) >> 63
		n += 1 - int(below)
	}
	return kept[:n], top
}

// best returns the best of some candidates, so many of them, in their order.
func (b *beam) best(kept []uint32, width int) []uint32 {
	order := b.order[:len(kept)]
	for i, c := range kept {
		order[i] = b.guided[c]
	}
	last := largest(order, width)
	// Those that tie with the last one share the places that are left.
	left := width
	for _, v := range order {
		if v > last {
			left--
		}
	}
	best := kept[:0]
	for _, c := range kept {
		if b.guided[c] > last {
			best = append(best, c)
		} else if b.guided[c] == last && left > 0 {
			best, left = append(best, c), left-1
		}
	}
	return best
}

// take makes entries of candidates, and notes where they come from. mask is that of states.
func (b *beam) take(kept []uint32, scale float32, mask int, row []origin) {
	next := b.next[:len(kept)]
	row = row[:len(kept)]
	youngest := uint8(memory)
	j := 0
	for ; j < len(kept) && int(kept[j]) < b.n; j++ {
		c, e := kept[j], &next[j]
		*e = b.entries[c]
		e.weight, e.guided = b.weights[c]*scale, b.guided[c]
		row[j] = origin{state: e.state, from: b.ways[c].from, moved: b.ways[c].moved}
		youngest = min(youngest, e.emitted)
	}
	for ; j < len(kept); j++ {
		c, e := int(kept[j]), &next[j]
		move := c - b.n
		from, base := &b.entries[move>>2], uint32(move&3)
		e.hash, e.parent, e.recent = extend(from.hash, uint64(base)+1), from.hash, from.recent<<2|base
		e.weight, e.guided = b.weights[c]*scale, b.guided[c]
		e.state, e.emitted = uint16((uint32(from.state)<<2|base)&uint32(mask)), min(from.emitted+1, memory)
		row[j] = origin{state: e.state, from: uint8(move >> 2), moved: true}
		if !b.whole {
			row[j].from, row[j].moved = b.ways[c].from, b.ways[c].moved
		}
		youngest = min(youngest, e.emitted)
	}
	b.entries, b.next = b.next, b.entries
	b.n = len(kept)
	b.whole = youngest >= b.length
	b.nextFrame()
	if youngest < memory || b.alike() {
		b.settle(row)
	}
	b.match()
}

// nextFrame counts a frame, and begins anew where a slot couldn't hold its number.
func (b *beam) nextFrame() {
	if b.frame == mostFrames {
		clear(b.hashes[:])
		clear(b.recents[:])
		b.frame = 0
	}
	b.frame++
}

// alike reports whether the last bases of two entries may be the same.
func (b *beam) alike() bool {
	met := uint32(0)
	for i := range b.entries[:b.n] {
		slot := &b.recents[(b.entries[i].recent&lastBases)*0x9e3779b1>>(32-slotBits)]
		met |= isZero(*slot ^ b.frame)
		*slot = b.frame
	}
	return met != 0
}

// isZero returns whether a number below 1<<31 is 0, as a bit, without a branch.
func isZero(x uint32) uint32 { return (x - 1) >> 31 }

// settle leaves the more probable one of entries whose last bases are the same.
func (b *beam) settle(row []origin) {
	n := 0
next:
	for i, e := range b.entries[:b.n] {
		if e.emitted == memory {
			for k := range n {
				if one := &b.entries[k]; one.emitted == memory && (one.recent^e.recent)&lastBases == 0 {
					if e.weight > one.weight {
						*one, row[k] = e, row[i]
					}
					continue next
				}
			}
		}
		b.entries[n], row[n] = e, row[i]
		n++
	}
	b.n = n
}

// match finds the entries that are another one with one more base: a stay of the one and a move of the
// other then say the same.
func (b *beam) match() {
	b.nMatches = 0
	if !b.whole {
		return // merge finds them
	}
	met := uint32(0)
	for i := range b.entries[:b.n] {
		slot := &b.hashes[b.entries[i].hash%slots]
		met |= isZero(*slot>>8 ^ b.frame)
		*slot = b.frame<<8 | uint32(i)
	}
	if met != 0 {
		b.matchAll()
		return
	}
	for i := range b.entries[:b.n] {
		e := &b.entries[i]
		slot := b.hashes[e.parent%slots]
		b.matches[b.nMatches] = match{entry: uint8(i), parent: uint8(slot)}
		if slot>>8 == b.frame && b.entries[uint8(slot)].hash == e.parent {
			b.nMatches++
		}
	}
}

// matchAll is match where two hashes have one slot.
func (b *beam) matchAll() {
	for i := range b.entries[:b.n] {
		for k := range b.entries[:b.n] {
			if b.entries[k].hash == b.entries[i].parent {
				b.matches[b.nMatches] = match{entry: uint8(i), parent: uint8(k)}
				b.nMatches++
				break // sequences of a beam are different
			}
		}
	}
}

// largest returns the n-th largest of some numbers, counted from 1, and reorders
// them (Hoare 1961).
func largest(x []float32, n int) float32 {
	low, high := 0, len(x)-1
	for low < high {
		pivot := x[(low+high)/2]
		i, j := low, high
		for i <= j {
			for x[i] > pivot {
				i++
			}
			for x[j] < pivot {
				j--
			}
			if i <= j {
				x[i], x[j] = x[j], x[i]
				i++
				j--
			}
		}
		switch {
		case n-1 <= j:
			high = j
		case n-1 >= i:
			low = i
		default:
			return x[n-1]
		}
	}
	return x[n-1]
}

// extend returns the hash of a sequence with one more base. Multiplying by an odd
// number and folding the high bits down are both reversible, so that different
// bases after one sequence never collide.
func extend(hash, code uint64) uint64 {
	hash = (hash + code) * hashMultiplier
	return hash ^ hash>>29
}

// hashMultiplier is odd, and 2^64 over the golden ratio (Knuth 1973).
const hashMultiplier = 0x9e3779b97f4a7c15
