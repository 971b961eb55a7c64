package genes

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// candidate is a gene that may be: a frame and one of its starts, in the coordinates of what is read, half open, with its stop codon.
type candidate struct {
	left, right int32
	reverse     bool
	kind        int8
	open        bool // no stop
	frame       int32
	coding      float32
	score       float64 // all but its neighbours
	density     float32 // coding score per base, for what two genes claim both
	posterior   float64 // of gene and start
	likeliest   int32   // where the frame's likeliest start is: the left of a gene that begins there, the right of one on the other strand
}

// path finds the set of candidates that is best together.
//
// Problem: which of the frames, and of their starts, are genes? They may overlap a little, and their
// positions relative to each other are evidence. Strategy: a chain of genes in the order of their right ends,
// each with a score of its own and one for its place behind the one before. What is farther apart than a few
// hundred bases knows nothing of each other, so a running maximum stands for all of it. Consequence: time is
// that of the candidates times those within reach. No gene lies within another.
type path struct {
	list    []candidate // by right end
	spacing *spacingModel
	best    []float64
	from    []int32
	total   float64
	heat    float64 // posterior probabilities are of scores times this
	shared  float64 // share of the odds of their codons that two genes lose where they overlap
	scanned bool    // the ribosome scans for the start
}

func order(list []candidate) {
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.right, b.right), cmp.Compare(a.left, b.left), cmp.Compare(strandIndex(a.reverse), strandIndex(b.reverse)))
	})
}

// reach calls do for each candidate that may stand before i and is within reach, with its log odds. It returns how many candidates end so
// far before that they don't know of it.
func (p *path) reach(i int, do func(j int, score float64)) int {
	c := &p.list[i]
	far := sort.Search(i, func(j int) bool { return p.list[j].right > c.left-farthest })
	for j := far; j < i; j++ {
		b := &p.list[j]
		distance := int(c.left) - int(b.right)
		if distance < -deepest {
			break
		}
		if b.left >= c.left || b.right >= c.right {
			continue
		}
		score, ok := p.between(b, c, distance)
		if ok {
			do(j, score)
		}
	}
	return far
}

// Overlaps longer than these are not believed. The two genes of IS1 share 82 bases, and genes that end in each other, such as bioP and metR of E. coli, up
// to 180.
var longestOverlap = [relations]int{sameStrand: 100, convergent: deepest, divergent: 40}

// deepest is the longest overlap of all. Too few genes overlap by more than spacing knows to learn from: such an overlap counts as the longest that it knows.
const deepest = 180

func (p *path) between(b, c *candidate, distance int) (float64, bool) {
	r := relation(b.reverse, c.reverse)
	if distance >= farthest {
		return p.spacing.far[r], true
	}
	if -distance > longestOverlap[r] || p.scanned && b.hides(c) {
		return 0, false
	}
	score := p.spacing.near[r][binOf(max(distance, nearest))]
	if distance < -fine/2 {
		score += float64(p.shared * float64(distance) * float64(max(0, min(b.density, c.density))))
	}
	return score, true
}

// hides reports whether of two neighbours on one strand the one is first in the way of the ribosome only because the other doesn't begin at its likeliest
// start, which is before it. A ribosome that scans begins there, and reads on through both.
func (c *candidate) hides(next *candidate) bool {
	if c.reverse != next.reverse {
		return false
	}
	if c.reverse {
		return c.likeliest > next.right
	}
	return next.likeliest < c.left
}

// run finds the best chain and returns the indices of its genes from left to right.
func (p *path) run() []int32 {
	n := len(p.list)
	p.best, p.from = make([]float64, n), make([]int32, n)
	// top[i] is the best candidate among the first i for each strand.
	top := [2][]int32{make([]int32, n+1), make([]int32, n+1)}
	top[0][0], top[1][0] = -1, -1
	end := int32(-1)
	for i := range n {
		c := &p.list[i]
		best, from := 0.0, int32(-1)
		far := p.reach(i, func(j int, score float64) {
			if v := p.best[j] + score; v > best {
				best, from = v, int32(j)
			}
		})
		for s := range top {
			if j := top[s][far]; j >= 0 {
				if v := p.best[j] + p.spacing.far[relation(s == 1, c.reverse)]; v > best {
					best, from = v, j
				}
			}
		}
		p.best[i], p.from[i] = best+c.score, from
		for s := range top {
			top[s][i+1] = top[s][i]
		}
		s := strandIndex(c.reverse)
		if j := top[s][i]; j < 0 || p.best[i] > p.best[j] {
			top[s][i+1] = int32(i)
		}
		if p.best[i] > p.total {
			p.total, end = p.best[i], int32(i)
		}
	}
	var chain []int32
	for ; end >= 0; end = p.from[end] {
		chain = append(chain, end)
	}
	slices.Reverse(chain)
	return chain
}

// posteriors works out the probability of each candidate over all chains, by sums forwards and backwards.
func (p *path) posteriors() {
	n := len(p.list)
	forward, backward := make([]float64, n), make([]float64, n)
	// before[s][i] is the sum over the first i candidates of strand s.
	var before [2][]float64
	for s := range before {
		before[s] = make([]float64, n+1)
		before[s][0] = math.Inf(-1)
	}
	fars := make([]int32, n)
	all := 0.0 // the chain without genes
	for i := range n {
		c := &p.list[i]
		sum := 0.0
		far := p.reach(i, func(j int, score float64) { sum = logAdd(sum, forward[j]+float64(p.heat*score)) })
		fars[i] = int32(far)
		for s := range before {
			sum = logAdd(sum, before[s][far]+float64(p.heat*p.spacing.far[relation(s == 1, c.reverse)]))
		}
		forward[i] = sum + float64(p.heat*c.score)
		for s := range before {
			before[s][i+1] = before[s][i]
		}
		s := strandIndex(c.reverse)
		before[s][i+1] = logAdd(before[s][i], forward[i])
		all = logAdd(all, forward[i])
	}
	// Backwards each candidate gives what follows it to those before: to those within reach one by one, to all farther ones by a sum that is
	// collected where they end.
	var behind [2][]float64 // by the number of candidates that are far before
	for s := range behind {
		behind[s] = make([]float64, n+1)
		for i := range behind[s] {
			behind[s][i] = math.Inf(-1)
		}
	}
	var running [2]float64
	running[0], running[1] = math.Inf(-1), math.Inf(-1)
	for i := n - 1; i >= 0; i-- {
		// Candidates whose far bound is beyond i have i far before them.
		for s := range running {
			running[s] = logAdd(running[s], behind[s][i+1])
		}
		c := &p.list[i]
		s := strandIndex(c.reverse)
		backward[i] = logAdd(backward[i], running[s])
		mine := backward[i] + float64(p.heat*c.score)
		p.reach(i, func(j int, score float64) { backward[j] = logAdd(backward[j], mine+float64(p.heat*score)) })
		for s := range behind {
			v := mine + float64(p.heat*p.spacing.far[relation(s == 1, c.reverse)])
			behind[s][fars[i]] = logAdd(behind[s][fars[i]], v)
		}
	}
	for i := range n {
		p.list[i].posterior = min(1, math.Exp(forward[i]+backward[i]-all))
	}
}

// logAdd is log(exp(a)+exp(b)).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if d := b - a; d > -40 {
		return a + math.Log1p(math.Exp(d))
	}
	return a
}
