package crf

import "math"

// byteWeights turns scores of eight bits into weights.
//
// Problem: exponentials are a good part of what decoding takes.
//
// Strategy: a score lies a whole number of steps below the one that weighs 1, 0 to 254, and
// the exponential of such a number is the product of those of its lowest three bits, of the
// next three, and of the rest: eight numbers each, which lie in a processor's registers, or
// 256 in a table.
//
// Consequences: a weight is rounded twice, as a product of three. The table holds the same
// numbers, so that the processor doesn't decide what is called.
type byteWeights struct {
	step, stay float32
	ready      bool
	// below weighs scores by how many steps they are below the highest of a frame, and belowStay
	// below MaxByte where staying is the highest.
	below, belowStay stepWeights
}

// stepWeights are the weights of 0 to 255 steps.
type stepWeights struct {
	low, middle, high [8]float32
	all               [256]float32
	exact             bool // all are the products
}

// newStepWeights returns the weights for which 0 steps weigh exp(top).
func newStepWeights(step, top float32) stepWeights {
	var w stepWeights
	for i := range w.low {
		w.low[i] = float32(math.Exp(-float64(i) * float64(step)))
		w.middle[i] = float32(math.Exp(-8 * float64(i) * float64(step)))
		w.high[i] = float32(math.Exp(float64(top) - float64(64*float64(i)*float64(step))))
	}
	w.exact = true
	least := float32(math.Exp(minLogWeight))
	for d := range w.all {
		w.all[d] = float32(w.high[d>>6]*w.middle[d>>3&7]) * w.low[d&7]
		if w.all[d] < least {
			w.all[d], w.exact = least, false
		}
	}
	return w
}

// set prepares for a step, and for a score of staying.
func (b *byteWeights) set(step, stay float32) {
	if b.ready && b.step == step && b.stay == stay {
		return
	}
	*b = byteWeights{step: step, stay: stay, ready: true, below: newStepWeights(step, 0), belowStay: newStepWeights(step, float32(127*step)-stay)}
}

// weigh writes the weights of a frame's moves to dst, relative to its highest score or that of
// staying. It returns the highest score and the weight of staying.
func (b *byteWeights) weigh(dst []float32, x []int8, vectors bool) (top, stay float32) {
	highest := highestByte(x, vectors)
	top = float32(float32(highest) * b.step) // rounded before anything is added or taken away
	if top >= b.stay {
		b.below.weigh(dst, x, int32(highest), vectors)
		return top, float32(math.Exp(max(minLogWeight, float64(b.stay-top))))
	}
	b.belowStay.weigh(dst, x, 127, vectors)
	return b.stay, 1
}

func (w *stepWeights) weigh(dst []float32, x []int8, base int32, vectors bool) {
	if vectors && w.exact {
		weighBytesAVX2(&dst[0], &x[0], len(x), base, &w.low, &w.middle, &w.high)
		return
	}
	dst = dst[:len(x)]
	for i, v := range x {
		dst[i] = w.all[uint8(base-int32(v))]
	}
}

// highestByte returns the highest of some numbers, a multiple of 16.
func highestByte(x []int8, vectors bool) int8 {
	if vectors {
		return highestByteAVX2(&x[0], len(x))
	}
	top := x[0]
	for _, v := range x {
		top = max(top, v)
	}
	return top
}
