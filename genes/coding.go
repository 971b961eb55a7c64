package genes

import "math"

// hexamers counts pairs of neighbouring codons, the first times 64 plus the second.
type hexamers [codons * codons]float64

// The strengths with which a context of k bases is pulled towards that of k-1: what it has seen counts fully once it is much more than this.
const (
	codingInertia = 16
	otherInertia  = 16
)

// background is a Markov chain of fifth order over bases that aren't in genes: the log probability of a codon behind another.
// Counts are of hexamers at all places, on both strands.
func background(n *hexamers) *hexamers {
	// prob[k] are the probabilities of a base behind a context of k bases, as context times 4 plus base.
	counts := make([][]float64, 6)
	counts[5] = make([]float64, 4096)
	copy(counts[5], n[:])
	for k := 4; k >= 0; k-- {
		counts[k] = make([]float64, 1<<(2*(k+1)))
		for i, v := range counts[k+1] {
			counts[k][i&(len(counts[k])-1)] += v
		}
	}
	lower := []float64{.25, .25, .25, .25}
	prob := make([][]float64, 6)
	for k := range prob {
		prob[k] = interpolated(counts[k], lower, otherInertia)
		lower = prob[k]
	}
	var out hexamers
	for i := range out {
		// Third codon's bases are predicted behind 3, 4 and 5 bases.
		out[i] = math.Log(prob[3][i>>4&255]) + math.Log(prob[4][i>>2&1023]) + math.Log(prob[5][i])
	}
	return &out
}

// interpolated turns counts of context and base into probabilities, pulled towards those of the shorter context.
func interpolated(counts, shorter []float64, inertia float64) []float64 {
	out := make([]float64, len(counts))
	for c := 0; c < len(counts); c += 4 {
		total := inertia
		for b := range 4 {
			total += counts[c+b]
		}
		for b := range 4 {
			out[c+b] = (counts[c+b] + float64(inertia*shorter[(c+b)&(len(shorter)-1)])) / total
		}
	}
	return out
}

// coding is the log probability of a codon behind another within a gene: a Markov chain whose order is 3, 4 and 5 at
// the three places of the codon. usage are the pseudo-counts of single codons that the genome's own are added to.
func coding(n *hexamers, usage *[codons]float64, code *geneticCode) *hexamers {
	var single [codons]float64
	for i, v := range n {
		single[i&63] += v
	}
	total := 0.0
	for i := range single {
		single[i] += usage[i]
		if code.stops(i) {
			single[i] = 0
		}
		total += single[i]
	}
	// Without context: P(codon) as a chain over its three bases.
	chain := [3][]float64{make([]float64, 4), make([]float64, 16), make([]float64, 64)}
	for i, v := range single {
		v = (v + 1e-3) / (total + 0.064)
		chain[0][i>>4] += v
		chain[1][i>>2] += v
		chain[2][i] += v
	}
	var out hexamers
	for place := range 3 {
		lower := interpolated(chain[place], []float64{.25, .25, .25, .25}, 0)
		// One more base of the codon before at a time.
		for behind := 1; behind <= 3; behind++ {
			width := behind + place + 1 // bases of context and the base itself
			counts := make([]float64, 1<<(2*width))
			for i, v := range n {
				counts[i>>(2*(2-place))&(len(counts)-1)] += v
			}
			lower = interpolated(counts, lower, codingInertia)
		}
		for i := range out {
			out[i] += math.Log(lower[i>>(2*(2-place))&(len(lower)-1)])
		}
	}
	// A stop has no place within a gene: what little is left to it goes to the others.
	for a := range codons {
		kept := 0.0
		for b := range codons {
			if !code.stops(b) {
				kept += math.Exp(out[a<<6|b])
			}
		}
		for b := range codons {
			if code.stops(b) {
				out[a<<6|b] = math.Inf(-1)
			} else {
				out[a<<6|b] -= math.Log(kept)
			}
		}
	}
	return &out
}

// countAll counts the hexamers of a stretch at all places.
func (h *hexamers) countAll(s []byte) {
	word, known := 0, 0
	for _, b := range s {
		if b == unknown {
			known = 0
			continue
		}
		word = (word<<2 | int(b)) & 4095
		if known++; known >= 6 {
			h[word]++
		}
	}
}

// countCodons counts the pairs of neighbouring codons of a coding stretch.
func (h *hexamers) countCodons(s []byte, weight float64) {
	last := -1
	for i := 0; i+3 <= len(s); i += 3 {
		codon := codonAt(s, i)
		if last >= 0 && codon >= 0 {
			h[last<<6|codon] += weight
		}
		last = codon
	}
}

// codonAt is the codon that begins at i, or -1 if one of its bases is unknown.
func codonAt(s []byte, i int) int {
	a, b, c := s[i], s[i+1], s[i+2]
	if a|b|c >= unknown {
		return -1
	}
	return int(a)<<4 | int(b)<<2 | int(c)
}

// weighed is the sum of the log odds of all pairs counted, and their number.
func (h *hexamers) weighed(odds *[codons * codons]float32) (sum, n float64) {
	for i, v := range h {
		if v > 0 {
			sum += float64(v * float64(odds[i]))
			n += v
		}
	}
	return sum, n
}
