package crf

import (
	"fmt"
	"math"

	"github.com/porestream/porestream/basecall/scores"
)

// Problem: the probabilities of states and of transitions need sums over all
// paths. Their weights span hundreds of orders of magnitude over a window.
//
// Assumptions: a frame's scores are finite. Those of trained networks lie within
// ±5, by a clamp or a scaled tanh, or not far outside.
//
// Strategy: forward and backward sums (Rabiner 1989) over weights, not over their
// logarithms: one exponential per score, and after that multiplications. A frame's
// weights are relative to its highest. Sums of a frame are scaled by a power of
// two, which is exact, so that the highest is between 1 and 2; the exponents add up to the scale of Z. Sums
// are taken in one fixed order, which processors with vectors and GPUs can keep, too, and products
// are rounded before they are added to.
//
// Consequences: the result is a function of the scores alone, to the bit, on every processor; the kernels
// for GPUs (basecall/kernels) are held to that. Weights below
// minLogWeight of a frame's highest, and sums below tiny of a frame's highest, are
// held there: no path is impossible, nothing divides by zero, and no operation
// meets denormal numbers, which are slow. Scores within ±5 don't reach these bounds
// for state lengths up to 5, since every state can be reached by k moves.
const (
	minLogWeight = -32.0   // about 2^-46
	tiny         = 0x1p-80 // 2^-46 * 2^-80 is the smallest normal float32
)

// lattice holds the weights of a window and the sums over its paths. States are
// numbered from 0 to n-1; q = n/4, so that the state j*q+i is followed by the
// states 4i to 4i+3, of which it is the j-th predecessor.
type lattice struct {
	n, q   int
	frames int

	// moves holds the weights of moves, frames by states by dropped base, frames being stride apart: in memory of its own, or
	// where the scores were, if these are spent.
	moves, memory []float32
	stride        int
	// stays holds the weights of stays: frames by states, or one per frame if
	// fixed says that all states share it.
	stays []float32
	fixed bool
	// stayScore is the score of staying if it is fixed.
	stayScore float32
	// row holds the stays of one frame if they are fixed, and otherwise one frame's scores.
	row []float32
	// bytes weighs scores of eight bits.
	bytes byteWeights
	instructions

	// forward and backward hold for each frame boundary, frames+1 by states, the
	// sum over all paths from the window's beginning to a state, and from the state to
	// the end.
	forward, backward []float32
	// totals holds for each boundary the sum over states of forward times backward.
	totals []float32
	// scale is that of the next forward sums, and exponents those of the scales so far.
	scale     float32
	exponents int
	// logZ becomes the logarithm of the sum over all paths, without that of the last forward sums and of
	// exponents.
	logZ float64
}

// instructions says which of the processor's vector instructions are used: of AVX2, of AVX-512 where there are enough states,
// and of those parts of AVX-512 that a beam needs. All give the same bits.
type instructions struct{ vectors, wider, widerBeam bool }

// grow returns a slice of length n, of s's memory if that is large enough.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// begin allocates space for the weights of a window's scores. stay is the fixed
// score of staying, if that is fixed.
func (l *lattice) begin(w *scores.Window, stay float32) error {
	perFrame := 4 * l.n
	if !l.fixed {
		perFrame = 5 * l.n
	}
	if w.Classes != perFrame {
		return fmt.Errorf("%d scores a frame are not %d", w.Classes, perFrame)
	}
	l.frames = w.Frames
	if l.moves, l.stride = w.Floats, w.Stride; !w.Spent || w.Floats == nil || !l.fixed {
		l.memory, l.stride = grow(l.memory, 4*l.n*l.frames), 4*l.n
		l.moves = l.memory
	}
	l.stayScore = stay
	if l.fixed {
		l.stays = grow(l.stays, l.frames)
		l.row = grow(l.row, l.n)
	} else {
		l.stays = grow(l.stays, l.frames*l.n)
		l.row = grow(l.row, perFrame)
	}
	l.logZ = 0
	if w.Bytes != nil {
		l.bytes.set(w.Step, stay)
	}
	return nil
}

// weights returns those of a frame's moves.
func (l *lattice) weights(t int) []float32 { return l.moves[t*l.stride:][:4*l.n] }

// weigh turns the scores of a frame into weights.
func (l *lattice) weigh(w *scores.Window, t int) error {
	moves := l.weights(t)
	if w.Bytes != nil {
		if err := w.Check(t); err != nil {
			return err
		}
		if l.fixed {
			top, weight := l.bytes.weigh(moves, w.ByteRow(t), l.vectors)
			l.stays[t] = weight
			l.logZ += float64(top)
			return nil
		}
	}
	row := moves
	if !l.fixed {
		row = l.row
	}
	row = l.floats(w, t, row)
	if l.widest() {
		if top, weight, finite := weighAVX512(&moves[0], &row[0], len(moves), l.stayScore, &exp, -4*framesAhead*w.Stride); finite {
			l.stays[t] = weight
			l.logZ += float64(top)
			return nil
		}
	}
	top, at := l.highest(row)
	if at >= 0 {
		return fmt.Errorf("score %d of frame %d is %v, not a finite number", at, t, row[at])
	}
	if l.fixed {
		top = max(top, l.stayScore)
		l.exponentials(moves, row, top, w.Stride)
		stay := [1]float32{l.stayScore}
		exponentials(stay[:], stay[:], top)
		l.stays[t] = stay[0]
	} else {
		l.exponentials(l.row, row, top, w.Stride)
		stays := l.stays[t*l.n:][:l.n]
		for s := range stays {
			stays[s] = l.row[5*s]
			copy(moves[4*s:4*s+4], l.row[5*s+1:5*s+5])
		}
	}
	l.logZ += float64(top)
	return nil
}

// floats returns the scores of a frame, in dst if they lie otherwise.
func (l *lattice) floats(w *scores.Window, t int, dst []float32) []float32 {
	if w.Halves != nil && l.vectors {
		if n := w.Classes; n%8 == 0 {
			halvesAVX2(&dst[0], &w.Halves[t*w.Stride], n)
			return dst[:n]
		}
	}
	return w.Row(t, dst)
}

// stay returns the weights of staying at a frame, valid until the next call.
func (l *lattice) stay(t int) []float32 {
	if !l.fixed {
		return l.stays[t*l.n:][:l.n]
	}
	for s, w := 0, l.stays[t]; s < len(l.row); s++ {
		l.row[s] = w
	}
	return l.row
}

// stayOf returns the weight of staying in a state at a frame.
func (l *lattice) stayOf(t, state int) float32 {
	if l.fixed {
		return l.stays[t]
	}
	return l.stays[t*l.n+state]
}

// back turns scores into weights and computes backward sums. A frame's weights are made where
// the sums need them, while they are in the processor's cache.
func (l *lattice) back(w *scores.Window) error {
	n := l.n
	l.backward = grow(l.backward, (l.frames+1)*n)
	l.forward = grow(l.forward, (l.frames+1)*n)
	l.totals = grow(l.totals, l.frames+1)

	fill(l.backward[l.frames*n:], 1)
	scale := float32(1)
	for t := l.frames - 1; t >= 0; t-- {
		if err := l.weigh(w, t); err != nil {
			return err
		}
		highest := l.stepBack(l.backward[(t+1)*n:][:n], l.backward[t*n:][:n], t, scale)
		scale, _ = reciprocal(highest)
	}
	fill(l.forward[:n], 1)
	l.totals[0] = l.dot(l.forward[:n], l.backward[:n])
	l.scale, l.exponents = 1, 0
	return nil
}

// forth computes the forward sums after frame t, those before it being computed.
func (l *lattice) forth(t int) {
	n := l.n
	before, after, backward := l.forward[t*n:][:n], l.forward[(t+1)*n:][:n], l.backward[(t+1)*n:][:n]
	var highest float32
	if l.widest() {
		moves := l.weights(t)
		highest, l.totals[t+1] = stepAVX512(&before[0], &after[0], &moves[0], &backward[0], l.q, l.stays[t], l.scale, tiny, &orders)
	} else {
		highest = l.step(before, after, t, l.scale)
		l.totals[t+1] = l.dot(after, backward)
	}
	var exponent int
	l.scale, exponent = reciprocal(highest)
	if t < l.frames-1 {
		l.exponents += exponent
	}
}

// q2 returns the logarithm of q to base 4.
func (l *lattice) q2() int {
	k := 0
	for 1<<(2*k) < l.q {
		k++
	}
	return k
}

// wide reports whether steps are made by vector instructions, which know one weight of
// staying and take four states of each quarter at a time.
func (l *lattice) wide() bool { return l.vectors && l.fixed && l.q%4 == 0 }

// widest reports whether steps are made by AVX-512, which takes four times 16 states at a time.
func (l *lattice) widest() bool { return l.wider && l.wide() && l.q%16 == 0 }

// orders are those in which AVX-512 takes 16 numbers, four in each quarter: the first to the fourth four, each number of them for a
// quarter; and the first of all quarters, the second, and so on.
var orders = func() (o [5][16]uint32) {
	for i := range 16 {
		for four := range 4 {
			o[four][i] = uint32(4*four + i/4)
		}
		o[4][i] = uint32(i%4*4 + i/4)
	}
	return o
}()

// step computes the forward sums after frame t from those before it, times scale,
// and returns the highest.
func (l *lattice) step(before, after []float32, t int, scale float32) float32 {
	moves := l.weights(t)
	if l.wide() {
		return stepAVX2(&before[0], &after[0], &moves[0], l.q, l.stays[t], scale, tiny)
	}
	return step(before, after, moves, l.stay(t), scale)
}

func step(before, after, moves, stay []float32, scale float32) float32 {
	q := len(before) / 4
	b0, b1, b2, b3 := before[:q], before[q:2*q], before[2*q:3*q], before[3*q:4*q]
	top := float32(0)
	for i := range q {
		w := (*[16]float32)(moves[16*i:])
		from, to, st := (*[4]float32)(before[4*i:]), (*[4]float32)(after[4*i:]), (*[4]float32)(stay[4*i:])
		a0, a1, a2, a3 := b0[i]*scale, b1[i]*scale, b2[i]*scale, b3[i]*scale
		t0 := float32(from[0]*scale*st[0]) + (float32(a0*w[0]) + float32(a1*w[1])) + (float32(a2*w[2]) + float32(a3*w[3])) + tiny
		t1 := float32(from[1]*scale*st[1]) + (float32(a0*w[4]) + float32(a1*w[5])) + (float32(a2*w[6]) + float32(a3*w[7])) + tiny
		t2 := float32(from[2]*scale*st[2]) + (float32(a0*w[8]) + float32(a1*w[9])) + (float32(a2*w[10]) + float32(a3*w[11])) + tiny
		t3 := float32(from[3]*scale*st[3]) + (float32(a0*w[12]) + float32(a1*w[13])) + (float32(a2*w[14]) + float32(a3*w[15])) + tiny
		to[0], to[1], to[2], to[3] = t0, t1, t2, t3
		top = max(top, t0, t1, t2, t3)
	}
	return top
}

// stepBack computes the backward sums before frame t from those after it, times
// scale, and returns the highest.
func (l *lattice) stepBack(after, before []float32, t int, scale float32) float32 {
	moves := l.weights(t)
	if l.widest() {
		return stepBackAVX512(&after[0], &before[0], &moves[0], l.q, l.stays[t], scale, tiny, &orders)
	}
	if l.wide() {
		return stepBackAVX2(&after[0], &before[0], &moves[0], l.q, l.stays[t], scale, tiny)
	}
	return stepBack(after, before, moves, l.stay(t), scale)
}

func stepBack(after, before, moves, stay []float32, scale float32) float32 {
	q := len(before) / 4
	// Stays first: a state's moves are spread over blocks.
	for s, w := range stay[:len(before)] {
		before[s] = float32(after[s]*scale*w) + tiny
	}
	b0, b1, b2, b3 := before[:q], before[q:2*q], before[2*q:3*q], before[3*q:4*q]
	top := float32(0)
	for i := range q {
		w, to := (*[16]float32)(moves[16*i:]), (*[4]float32)(after[4*i:])
		a0, a1, a2, a3 := to[0]*scale, to[1]*scale, to[2]*scale, to[3]*scale
		t0 := b0[i] + (float32(a0*w[0]) + float32(a1*w[4])) + (float32(a2*w[8]) + float32(a3*w[12]))
		t1 := b1[i] + (float32(a0*w[1]) + float32(a1*w[5])) + (float32(a2*w[9]) + float32(a3*w[13]))
		t2 := b2[i] + (float32(a0*w[2]) + float32(a1*w[6])) + (float32(a2*w[10]) + float32(a3*w[14]))
		t3 := b3[i] + (float32(a0*w[3]) + float32(a1*w[7])) + (float32(a2*w[11]) + float32(a3*w[15]))
		b0[i], b1[i], b2[i], b3[i] = t0, t1, t2, t3
		top = max(top, t0, t1, t2, t3)
	}
	return top
}

// transitions writes the posterior probabilities of frame t's transitions:
// states by five, the stay first and then the moves by dropped base.
func (l *lattice) transitions(t int, dst []float32) {
	n, q := l.n, l.q
	before, after := l.forward[t*n:][:n], l.backward[(t+1)*n:][:n]
	moves, stay := l.weights(t), l.stay(t)
	// Forward sums of this frame and of the next differ by a power of two, so the
	// total is taken over the transitions themselves.
	var total blockSums
	for i := range q {
		w, st := (*[16]float32)(moves[16*i:]), (*[4]float32)(stay[4*i:])
		from, to, out := (*[4]float32)(before[4*i:]), (*[4]float32)(after[4*i:]), (*[20]float32)(dst[20*i:])
		a0, a1, a2, a3 := before[i], before[q+i], before[2*q+i], before[3*q+i]
		sum := float32(0)
		for b := range 4 {
			z := to[b]
			p0, p1, p2 := float32(from[b]*st[b]*z), float32(a0*w[4*b]*z), float32(a1*w[4*b+1]*z)
			p3, p4 := float32(a2*w[4*b+2]*z), float32(a3*w[4*b+3]*z)
			out[5*b], out[5*b+1], out[5*b+2], out[5*b+3], out[5*b+4] = p0, p1, p2, p3, p4
			sum += p0 + (p1 + p2) + (p3 + p4)
		}
		total.add(i, sum)
	}
	inverse := 1 / total.sum()
	for i := range dst {
		dst[i] *= inverse
	}
}

// posterior returns the probability of a state at the boundary after t frames.
func (l *lattice) posterior(t, state int) float32 {
	i := t*l.n + state
	return float32(l.forward[i]*l.backward[i]) / l.totals[t]
}

// reciprocal returns the power of two that brings a positive number between 1 and
// 2, and the exponent that this takes away.
func reciprocal(x float32) (scale float32, exponent int) {
	e := int(math.Float32bits(x)>>23) - 127
	return math.Float32frombits(uint32(127-e) << 23), e
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}

// blockSums adds up numbers, one for each block of four states, as a warp of a GPU does, whose
// lanes take blocks in turns: 32 sums, and of these the halves, and the halves of these.
type blockSums [32]float32

func (s *blockSums) add(block int, v float32) { s[block%len(s)] += v }

func (s *blockSums) sum() float32 {
	for half := len(s) / 2; half > 0; half /= 2 {
		for i := range half {
			s[i] += s[i+half]
		}
	}
	return s[0]
}

// dot returns the scalar product of two vectors whose length is a multiple of 4.
func (l *lattice) dot(x, y []float32) float32 {
	if l.vectors && len(x)%64 == 0 {
		return dotAVX2(&x[0], &y[:len(x)][0], len(x))
	}
	return dot(x, y)
}

func dot(x, y []float32) float32 {
	var s blockSums
	y = y[:len(x)]
	for i := 0; i+4 <= len(x); i += 4 {
		a, b := (*[4]float32)(x[i:]), (*[4]float32)(y[i:])
		s.add(i/4, (float32(a[0]*b[0])+float32(a[1]*b[1]))+(float32(a[2]*b[2])+float32(a[3]*b[3])))
	}
	return s.sum()
}

// highest returns the highest of some numbers, and the index of the first that is
// not finite; -1 if all are.
func (l *lattice) highest(x []float32) (top float32, notFinite int) {
	if l.vectors && len(x)%16 == 0 {
		if top, finite := highestAVX2(&x[0], len(x)); finite {
			return top, -1
		}
	}
	return highest(x)
}

func highest(x []float32) (top float32, notFinite int) {
	const infinity = 0x7f800000
	top = x[0]
	for i, v := range x {
		if math.Float32bits(v)&^(1<<31) >= infinity {
			return 0, i
		}
		if v > top {
			top = v
		}
	}
	return top, -1
}

// exponentials writes exp(x-top) for each x to dst, with a relative error below 3e-7,
// where no x is higher than top. It doesn't go below minLogWeight.
// The scores of earlier frames, which are stride numbers apart, are fetched meanwhile.
func (l *lattice) exponentials(dst, x []float32, top float32, stride int) {
	eights := 0
	if l.vectors {
		if eights = len(x) &^ 7; eights > 0 {
			exponentialsAVX2(&dst[0], &x[0], eights, top, &exp, -4*framesAhead*stride)
		}
	}
	exponentials(dst[eights:], x[eights:], top)
}

// framesAhead is how many frames before they are weighed scores are fetched: with three, the sums of r9.4-fast take 175 ns a
// frame, with one 231.
const framesAhead = 3

// exponentials splits x into (8a + b) * ln2/8 + r with |r| <= ln2/16: exp(r) is a
// polynomial of degree three, whose error there is 2e-8, 2^(b/8) comes from a table,
// and 2^a is put together from bits. Products are rounded before they are added to,
// also where the processor could do without.
func exponentials(dst, x []float32, top float32) {
	dst = dst[:len(x)]
	for i, v := range x {
		v -= top
		if v < exp.least {
			v = exp.least
		}
		k := float32(v*exp.perPower) + exp.round
		n := k - exp.round
		r := v - float32(n*exp.high) - float32(n*exp.low)
		whole := int32(math.Float32bits(k) - math.Float32bits(exp.round))
		p := exp.roots[whole&(powers-1)]
		r += float32(float32(r*r) * (exp.square + float32(r*exp.cube)))
		dst[i] = (p + float32(p*r)) * math.Float32frombits(uint32(whole>>3+exp.bias)<<23)
	}
}

// powers is the number of roots of two.
const powers = 8

// expConstants are what exponentials need, in the order in which the assembly has them.
type expConstants struct {
	least     float32
	perPower  float32         // powers/ln2
	round     float32         // adding it leaves a whole number in the low bits
	high, low float32         // ln2/powers, high with so few bits that multiplying by it is exact
	square    float32         // 1/2, and what a term of degree four would add at most evenly
	cube      float32         // 1/6
	bias      int32           // of a float32's exponent
	roots     [powers]float32 // 2^(b/powers)
	shifted   [powers]uint32  // bits of the roots, less what the number of the root leaves below the exponent
}

var exp = func() expConstants {
	const widest = math.Ln2 / powers / 2
	c := expConstants{
		least: minLogWeight, perPower: powers / math.Ln2, round: 3 << 22, high: 0x1.62p-4, low: math.Ln2/powers - 0x1.62p-4,
		square: 0.5 + widest*widest/24, cube: 1.0 / 6, bias: 127,
	}
	for b := range c.roots {
		c.roots[b] = float32(math.Exp2(float64(b) / powers))
		c.shifted[b] = math.Float32bits(c.roots[b]) - uint32(b)<<20
	}
	return c
}()
