package crf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// TestBeamIsTheSimpleOne compares the search with one that is written down simply, with and
// without vector instructions: scores as networks give them, such that favour nothing, and such of which many tie.
func TestBeamIsTheSimpleOne(t *testing.T) {
	kinds := map[string]func(*rand.Rand, Config, int) []float32{
		"uncertain": uncertain,
		"random":    func(rng *rand.Rand, cfg Config, frames int) []float32 { return randomScores(rng, cfg, frames, 1) },
		"ties": func(rng *rand.Rand, cfg Config, frames int) []float32 {
			x := randomScores(rng, cfg, frames, 1)
			for i := range x {
				x[i] = float32(int(x[i]))
			}
			return x
		},
		"equal": func(_ *rand.Rand, cfg Config, frames int) []float32 { return make([]float32, frames*cfg.Scores()) },
	}
	for kind, scores := range kinds {
		for k := 1; k <= 4; k++ {
			for _, width := range []int{1, 2, 5, 12, 32, MaxBeamWidth} {
				for _, cut := range []float32{0, 1, 10, 100} {
					cfg := Config{StateLength: k, StayScore: fixed(2), BeamWidth: width, BeamCut: cut}
					if kind == "random" && width == 5 {
						cfg.StayScore = nil
					}
					rng := rand.New(rand.NewPCG(21, uint64(100*k+width)))
					const frames = 120
					x := scores(rng, cfg, frames)
					for set, instructions := range sets() {
						d, err := NewDecoder(cfg)
						require.NoError(t, err)
						d.lattice.instructions = instructions
						require.NoError(t, d.sums(floatsOf(d, x)))
						states, moved := make([]uint16, frames), make([]bool, frames)
						wantStates, wantMoved := make([]uint16, frames), make([]bool, frames)
						new(simpleBeam).search(&d.lattice, width, cut, wantStates, wantMoved)
						d.beam.begin(&d.lattice, width)
						for t := range frames {
							d.beam.advance(&d.lattice, t, width, cut)
						}
						d.beam.end(frames, width, states, moved)
						what := fmt.Sprintf("%s, k=%d, width %d, cut %v, %s", kind, k, width, cut, set)
						require.Equal(t, wantStates, states, what)
						require.Equal(t, wantMoved, moved, what)
					}
				}
			}
		}
	}
}

// TestWithinIsGos compares how the best candidates are found by vector instructions and without, where memory ends
// behind the eight numbers that these may write, and with candidates that tie, that are 0 and that were added to others.
func TestWithinIsGos(t *testing.T) {
	if !processor().vectors {
		t.Skip("the processor has no AVX2")
	}
	rng := rand.New(rand.NewPCG(4, 2))
	for n := 1; n <= 2*mostRanked; n++ {
		guarded := func() []byte { return testenv.BeforeGuard(t, make([]byte, 4*(n+8))) }
		floats := func() []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&guarded()[0])), n+8) }
		numbers := func() []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&guarded()[0])), n+8) }
		vector := beam{vectors: true, guided: floats(), order: floats(), kept: numbers(), ranked: numbers()}
		plain := beam{guided: make([]float32, n+8), order: make([]float32, n+8), kept: make([]uint32, n+8)}
		for _, distinct := range []int{1, 3, 1 << 20} {
			for i := range n {
				vector.guided[i] = float32(rng.IntN(distinct)) / float32(distinct)
				if rng.IntN(8) == 0 {
					vector.guided[i] = gone
				}
			}
			vector.guided[rng.IntN(n)] = 1.5
			copy(plain.guided, vector.guided)
			for _, width := range []int{1, 2, 7, 8, 9, 12, 63, 64, 256} {
				for _, cut := range []float32{0, 1, 4, 100} {
					want, wantTop := plain.within(n, width, cut)
					have, top := vector.within(n, width, cut)
					require.Equal(t, slices.Clone(want), have, "%d numbers of %d, width %d, cut %v", n, distinct, width, cut)
					require.Equal(t, wantTop, top) //nolint:testifylint // to the bit
				}
			}
		}
	}
}

// TestFramesAreCountedAnew decodes across the frame at which a slot has no bits left for the frame's number.
func TestFramesAreCountedAnew(t *testing.T) {
	const frames, width, cut = 400, 12, 100
	cfg := Config{StateLength: 3, StayScore: fixed(2), BeamWidth: width, BeamCut: cut}
	d, err := NewDecoder(cfg)
	require.NoError(t, err)
	require.NoError(t, d.sums(floatsOf(d, uncertain(rand.New(rand.NewPCG(5, 5)), cfg, frames))))
	var paths [2][]uint16
	for i, before := range []uint32{0, mostFrames - frames/2} {
		d.beam.begin(&d.lattice, width)
		d.beam.frame = before
		for t := range frames {
			d.beam.advance(&d.lattice, t, width, cut)
		}
		paths[i] = make([]uint16, frames)
		d.beam.end(frames, width, paths[i], make([]bool, frames))
	}
	require.Equal(t, paths[0], paths[1])
}

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

// simpleBeam is the search as one would write it down: each candidate is a hypothesis, and
// each is compared with the others.
type simpleBeam struct {
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

func (b *simpleBeam) search(l *lattice, width int, cut float32, states []uint16, moved []bool) {
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
func (b *simpleBeam) start(backward []float32, width int) {
	b.candidates = b.candidates[:0]
	for s, w := range backward {
		b.candidates = append(b.candidates, hypothesis{
			hash: empty, state: uint16(s), weight: 1, guided: w,
		})
	}
	b.prune(width, 0)
}

// extend fills the candidates for frame t: the stays of the beam, in its order,
// and then the moves but for those that others leave behind by more than the cut.
func (b *simpleBeam) extend(l *lattice, t int, cut float32) {
	n := l.n
	after, moves := l.backward[(t+1)*n:][:n], l.weights(t)
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
func (b *simpleBeam) merge() {
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
func (b *simpleBeam) matchStays() {
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
func (b *simpleBeam) prune(width int, cut float32) {
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
func (b *simpleBeam) settle() {
	kept := b.beam[:0]
next:
	for _, h := range b.beam {
		if h.emitted == memory {
			for i := range kept {
				if one := &kept[i]; one.emitted == memory && (one.recent^h.recent)&lastBases == 0 {
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
