package crf

// Problem: a sequence is as probable as all its paths together, and those are
// spread over where its moves lie. Find the most probable sequence.
//
// Strategy: Dorado's beam search. The beam begins with the states from which the
// rest of the window is most probable. Each frame extends its sequences by a stay
// and by four moves. Two of the results may be one sequence, that of a stay and that of a
// move onto it: these are added up, and the more probable one's path is kept.
// Sequences are ranked by their own probability times that of all continuations from
// their state, the backward sum, which sees the whole window. Those within the cut
// of the best are kept, at most the beam's width.
//
// Consequences: the backward sums make a narrow beam enough. Ties go to the
// stay, then to what was ahead before. Unlike Dorado, which finds a
// threshold that leaves between 80 and 100 % of the width, the best are kept
// exactly.

// hypothesis is an entry of the beam: a sequence with the state that it ends in.
type hypothesis struct {
	// hash stands for the sequence, from its first state on, and parent for it
	// without its last base.
	hash, parent uint64
	state        uint16
	from         uint8 // entry of the last frame's beam that it extends
	moved        bool
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
	origins          []origin // frames by width
}

func (b *beam) search(l *lattice, width int, cut float32, states []uint16, moved []bool) {
	n := l.n
	b.origins = grow(b.origins, l.frames*width)
	b.start(l.backward[:n], width)
	for t := range l.frames {
		b.extend(l, t)
		b.prune(width, cut)
		row := b.origins[t*width:]
		for i := range b.beam {
			h := &b.beam[i]
			row[i] = origin{state: h.state, from: h.from, moved: h.moved}
		}
	}
	at := uint8(0) // the beam is in descending order
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
			hash: extend(0, uint64(s)+1), state: uint16(s), weight: 1, guided: w,
		})
	}
	b.prune(width, 0)
}

// extend fills the candidates for frame t: the stays of the beam, in its order,
// and then the moves.
func (b *beam) extend(l *lattice, t int) {
	n := l.n
	after, moves, stay := l.backward[(t+1)*n:][:n], l.moves[4*t*n:][:4*n], l.stay(t)
	b.candidates = b.candidates[:0]
	for i := range b.beam {
		h := b.beam[i]
		h.from, h.moved = uint8(i), false
		h.weight *= stay[h.state]
		h.guided = h.weight * after[h.state]
		b.candidates = append(b.candidates, h)
	}
	for i := range b.beam {
		from := &b.beam[i]
		dropped, first := int(from.state)/l.q, int(from.state)%l.q*4
		for base := range 4 {
			state := first + base
			weight := from.weight * moves[4*state+dropped]
			hash := extend(from.hash, uint64(base)+1)
			if known := b.stayOf(hash, from.hash); known != nil {
				if weight > known.weight {
					known.from, known.moved = uint8(i), true
				}
				known.weight += weight
				known.guided = known.weight * after[state]
				continue
			}
			b.candidates = append(b.candidates, hypothesis{
				hash: hash, parent: from.hash, state: uint16(state), from: uint8(i), moved: true,
				weight: weight, guided: weight * after[state],
			})
		}
	}
}

// stayOf returns the candidate that has stayed with a sequence; nil if there is none.
func (b *beam) stayOf(hash, parent uint64) *hypothesis {
	for i := range b.beam {
		if h := &b.candidates[i]; h.parent == parent && h.hash == hash {
			return h
		}
	}
	return nil
}

// prune moves the best candidates to the beam, in descending order.
func (b *beam) prune(width int, cut float32) {
	top := float32(0)
	for i := range b.candidates {
		top = max(top, b.candidates[i].guided)
	}
	threshold := float32(0)
	if cut > 0 {
		threshold = top / cut
	}
	kept := b.beam[:0]
	for i := range b.candidates {
		h := &b.candidates[i]
		if h.guided < threshold || len(kept) == width && h.guided <= kept[width-1].guided {
			continue
		}
		if len(kept) < width {
			kept = append(kept, hypothesis{})
		}
		at := len(kept) - 1
		for ; at > 0 && h.guided > kept[at-1].guided; at-- {
			kept[at] = kept[at-1]
		}
		kept[at] = *h
	}
	scale, _ := reciprocal(top)
	for i := range kept {
		kept[i].weight *= scale
	}
	b.beam = kept
}

// extend returns the hash of a sequence with one more base. Multiplying by an odd
// number and folding the high bits down are both reversible, so that different
// bases after one sequence never collide.
func extend(hash, code uint64) uint64 {
	hash = (hash + code) * 0x9e3779b97f4a7c15
	return hash ^ hash>>29
}
