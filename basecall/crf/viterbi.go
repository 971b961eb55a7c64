package crf

// Problem: the most probable path is one of very many, and most of its
// probability may hang on where exactly it moves.
//
// Strategy: as Bonito does, the path whose transitions have the highest product of
// posterior probabilities (Viterbi over posteriors). Each is sum over all paths
// that take this transition, so that no single one decides.
//
// Consequences: linear in frames and scores; a byte per state and frame is kept
// for the way back. Ties go to the stay, then to the lower dropped base, and at the
// end to the lower state.

// floor is added to posterior probabilities, as in Bonito, so that a transition
// that is impossible in float32 doesn't end a path.
const floor = 1e-8

// viterbi holds the memory of the search.
type viterbi struct {
	best, next []float32
	posteriors []float32 // of one frame's transitions
	choices    []uint8   // frames by states: 0 for the stay, 1 to 4 for the move
}

func (v *viterbi) search(l *lattice, states []uint16, moved []bool) {
	n := l.n
	v.best, v.next = grow(v.best, n), grow(v.next, n)
	v.posteriors = grow(v.posteriors, 5*n)
	v.choices = grow(v.choices, l.frames*n)
	fill(v.best, 1)
	scale := float32(1)
	for t := range l.frames {
		l.transitions(t, v.posteriors)
		scale = v.step(l.q, v.choices[t*n:][:n], scale)
		v.best, v.next = v.next, v.best
	}
	state := 0
	for s, p := range v.best {
		if p > v.best[state] {
			state = s
		}
	}
	for t := l.frames - 1; t >= 0; t-- {
		choice := int(v.choices[t*n+state])
		states[t], moved[t] = uint16(state), choice != 0
		if choice != 0 {
			state = (choice-1)*l.q + state>>2
		}
	}
}

// step extends the best paths by a frame and returns the scale for the next.
func (v *viterbi) step(q int, choices []uint8, scale float32) float32 {
	top := float32(0)
	best := v.best
	b0, b1, b2, b3 := best[:q], best[q:2*q], best[2*q:3*q], best[3*q:4*q]
	for i := range q {
		p := (*[20]float32)(v.posteriors[20*i:])
		stay, to, way := (*[4]float32)(best[4*i:]), (*[4]float32)(v.next[4*i:]), (*[4]uint8)(choices[4*i:])
		a0, a1, a2, a3 := b0[i], b1[i], b2[i], b3[i]
		for b := range 4 {
			x, choice := stay[b]*(p[5*b]+floor), uint8(0)
			if y := a0 * (p[5*b+1] + floor); y > x {
				x, choice = y, 1
			}
			if y := a1 * (p[5*b+2] + floor); y > x {
				x, choice = y, 2
			}
			if y := a2 * (p[5*b+3] + floor); y > x {
				x, choice = y, 3
			}
			if y := a3 * (p[5*b+4] + floor); y > x {
				x, choice = y, 4
			}
			x = float32(x*scale) + tiny
			to[b], way[b] = x, choice
			if x > top {
				top = x
			}
		}
	}
	scale, _ = reciprocal(top)
	return scale
}
