package crf

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

// hypothesis is an entry of the beam: a sequence with the state that it ends in.
type hypothesis struct {
	// hash stands for what has been emitted, and parent for it without its last base.
	// With the state it stands for the sequence, and without once whole says so.
	hash, parent uint64
	recent       uint32 // the last bases emitted, two bits each, the newest in the lowest
	state        uint16
	from         uint8 // entry of the last frame's beam that it extends
	moved        bool
	emitted      uint8 // bases, counted up to memory
	// weight is the probability of the sequence up to here, and guided that times the
	// backward sum; both on a scale of the frame's.
	weight, guided float32
}

// origin is what the way back needs of a hypothesis.
type origin struct {
	state uint16
	from  uint8
	moved bool
}

// beam holds the memory of the search.
type beam struct {
	beam, candidates []hypothesis
	guided           []float32 // of the candidates, to be reordered
	hashes           []uint64  // of the beam
	// stays holds for each entry of the beam and each base the candidate that says the same
	// as the entry moved on to the base, by staying; -1 if there is none.
	stays   []int16
	origins []origin // frames by width
	// length is the number of bases in a state, and whole says that all entries of the
	// beam have emitted as many: where they began no longer distinguishes them.
	length uint8
	whole  bool
}

func (b *beam) search(l *lattice, width int, cut float32, states []uint16, moved []bool) {
	n := l.n
	b.length = uint8(l.q2() + 1)
	b.origins = grow(b.origins, l.frames*width)
	b.start(l.backward[:n], width)
	for t := range l.frames {
		b.extend(l, t, cut)
		b.prune(width, cut)
		row := b.origins[t*width:]
		for i := range b.beam {
			h := &b.beam[i]
			row[i] = origin{state: h.state, from: h.from, moved: h.moved}
		}
	}
	at := uint8(0)
	for i := range b.beam {
		if b.beam[i].guided > b.beam[at].guided {
			at = uint8(i)
		}
	}
	for t := l.frames - 1; t >= 0; t-- {
		o := b.origins[t*width+int(at)]
		states[t], moved[t] = o.state, o.moved
		at = o.from
	}
}

// start fills the beam with the best states, by what follows them.
func (b *beam) start(backward []float32, width int) {
	b.candidates = b.candidates[:0]
	for s, w := range backward {
		b.candidates = append(b.candidates, hypothesis{
			hash: empty, state: uint16(s), weight: 1, guided: w,
		})
	}
	b.prune(width, 0)
}

// memory is the number of bases after which it no longer counts what was emitted
// before, at most 16. A state has no more than six.
const memory = 10

// empty is the hash of what has been emitted where a window begins.
const empty = 1

// extend fills the candidates for frame t: the stays of the beam, in its order,
// and then the moves but for those that others leave behind by more than the cut.
func (b *beam) extend(l *lattice, t int, cut float32) {
	n := l.n
	after, moves := l.backward[(t+1)*n:][:n], l.moves[4*t*n:][:4*n]
	b.candidates = b.candidates[:0]
	// No candidate is kept that is below this: it only grows, and up to what prune
	// goes by. Before all entries have emitted a whole state, what is little may be
	// added to by merge.
	least := float32(0)
	bounded := cut > 0 && b.whole
	for i := range b.beam {
		h := b.beam[i]
		h.from, h.moved = uint8(i), false
		h.weight *= l.stayOf(t, int(h.state))
		h.guided = h.weight * after[h.state]
		b.candidates = append(b.candidates, h)
		if bounded {
			least = max(least, h.guided/cut)
		}
	}
	b.matchStays()
	for i := range b.beam {
		from := &b.beam[i]
		dropped, first := int(from.state)/l.q, int(from.state)%l.q*4
		following := (*[4]float32)(after[first:])
		for base := range 4 {
			state := first + base
			weight := float32(from.weight * moves[4*state+dropped]) // rounded before it is added to another
			guided := weight * following[base]
			if guided < least && b.stays[4*i+base] < 0 {
				continue
			}
			if bounded {
				least = max(least, guided/cut)
			}
			if k := b.stays[4*i+base]; k >= 0 {
				known := &b.candidates[k]
				if weight > known.weight {
					known.from, known.moved = uint8(i), true
				}
				known.weight += weight
				known.guided = known.weight * following[base]
				continue
			}
			b.candidates = append(b.candidates, hypothesis{
				hash: extend(from.hash, uint64(base)+1), parent: from.hash, recent: from.recent<<2 | uint32(base), state: uint16(state),
				from: uint8(i), moved: true, emitted: min(from.emitted+1, memory), weight: weight, guided: guided,
			})
		}
	}
	if !b.whole {
		b.merge()
	}
}

// merge adds up candidates that are one sequence, in the place of the first of them.
func (b *beam) merge() {
	kept := b.candidates[:0]
next:
	for _, h := range b.candidates {
		for i := range kept {
			one := &kept[i]
			if one.hash != h.hash || one.state != h.state {
				continue
			}
			if h.weight > one.weight {
				one.from, one.moved = h.from, h.moved
			}
			one.weight += h.weight
			one.guided += h.guided
			continue next
		}
		kept = append(kept, h)
	}
	b.candidates = kept
}

// matchStays finds the entries of the beam that are another entry with one more
// base: a stay of the one and a move of the other then say the same.
func (b *beam) matchStays() {
	n := len(b.beam)
	b.hashes, b.stays = grow(b.hashes, n), grow(b.stays, 4*n)
	for i := range b.beam {
		b.hashes[i] = b.beam[i].hash
	}
	for i := range b.stays {
		b.stays[i] = -1
	}
	if !b.whole {
		return // merge finds them
	}
	for i := range b.beam {
		parent := b.beam[i].parent
		for k, hash := range b.hashes {
			if hash == parent {
				b.stays[4*k+int(b.beam[i].state&3)] = int16(i)
				break // sequences of a beam are different
			}
		}
	}
}

// prune moves the best candidates to the beam, in the order in which they are.
func (b *beam) prune(width int, cut float32) {
	top := float32(0)
	b.guided = grow(b.guided, len(b.candidates))
	for i := range b.candidates {
		b.guided[i] = b.candidates[i].guided
		top = max(top, b.guided[i])
	}
	threshold := float32(0)
	if cut > 0 {
		threshold = top / cut
	}
	// Sequences that tie with the last one to be kept share the places that are left.
	left := width
	if len(b.guided) > width {
		if last := largest(b.guided, width); last >= threshold {
			threshold = last
		}
		for i := range b.candidates {
			if b.candidates[i].guided > threshold {
				left--
			}
		}
	}
	scale, _ := reciprocal(top)
	b.beam, b.whole = b.beam[:0], true
	for i := range b.candidates {
		h := &b.candidates[i]
		if h.guided < threshold {
			continue
		}
		if h.guided == threshold {
			if left == 0 {
				continue
			}
			left--
		}
		b.beam = append(b.beam, *h)
		b.beam[len(b.beam)-1].weight *= scale
		b.whole = b.whole && h.emitted >= b.length
	}
	b.settle()
}

// settle leaves the more probable one of entries whose last bases are the same.
func (b *beam) settle() {
	const last = 1<<(2*memory) - 1
	kept := b.beam[:0]
next:
	for _, h := range b.beam {
		if h.emitted == memory {
			for i := range kept {
				if one := &kept[i]; one.emitted == memory && (one.recent^h.recent)&last == 0 {
					if h.weight > one.weight {
						*one = h
					}
					continue next
				}
			}
		}
		kept = append(kept, h)
	}
	b.beam = kept
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
	hash = (hash + code) * 0x9e3779b97f4a7c15
	return hash ^ hash>>29
}
