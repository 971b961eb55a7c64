package carryover

import "math"

// bounds are bounds at Alpha/2 that were asked for: all samples of a run have the same ones at an allele.
type bounds struct {
	uppers, lowers map[[2]int]float64
	poisson        map[int]float64
}

func newBounds() *bounds {
	return &bounds{uppers: make(map[[2]int]float64), lowers: make(map[[2]int]float64), poisson: make(map[int]float64)}
}

func (b *bounds) upper(k, n int) float64 {
	return known(b.uppers, [2]int{k, n}, func() float64 { return upper(k, n, Alpha/2) })
}

func (b *bounds) lower(k, n int) float64 {
	return known(b.lowers, [2]int{k, n}, func() float64 { return lower(k, n, Alpha/2) })
}

func (b *bounds) upperPoisson(k int) float64 {
	return known(b.poisson, k, func() float64 { return upperPoisson(k, Alpha/2) })
}

// known is what a map has for a key, computed once.
func known[K comparable](of map[K]float64, key K, compute func() float64) float64 {
	v, ok := of[key]
	if !ok {
		v = compute()
		of[key] = v
	}
	return v
}

// tail is the probability of k or more successes of n trials at rate p.
func tail(k, n int, p float64) float64 {
	switch {
	case k <= 0:
		return 1
	case k > n || p <= 0:
		return 0
	case p >= 1:
		return 1
	}
	return beta(float64(k), float64(n-k+1), p)
}

// upper is the Clopper–Pearson bound of a rate from above: the one at which k or fewer successes of n have probability alpha.
func upper(k, n int, alpha float64) float64 {
	if k >= n {
		return 1
	}
	return bisect(0, 1, func(p float64) bool { return 1-tail(k+1, n, p) > alpha })
}

// lower is the bound from below: the rate at which k or more of n have probability alpha.
func lower(k, n int, alpha float64) float64 {
	if k <= 0 {
		return 0
	}
	return bisect(0, 1, func(p float64) bool { return tail(k, n, p) < alpha })
}

// tailPoisson is the probability of k or more events of a mean.
func tailPoisson(k int, mean float64) float64 {
	if k <= 0 {
		return 1
	}
	sum := 0.0
	if float64(k) > mean { // from its largest term on
		term := math.Exp(logPoisson(k, mean))
		for i := k; term > sum*1e-17; i++ {
			sum += term
			term *= mean / float64(i+1)
		}
		return min(1, sum)
	}
	term := math.Exp(logPoisson(k-1, mean))
	for i := k - 1; i >= 0 && term > sum*1e-17; i-- {
		sum += term
		term *= float64(i) / mean
	}
	return max(0, 1-sum)
}

func logPoisson(k int, mean float64) float64 {
	g, _ := math.Lgamma(float64(k) + 1)
	return float64(k)*math.Log(mean) - mean - g
}

// upperPoisson is the mean at which k or fewer events have probability alpha.
func upperPoisson(k int, alpha float64) float64 {
	n := float64(k)
	return bisect(n, n+10*math.Sqrt(n+1)+10, func(mean float64) bool { return 1-tailPoisson(k+1, mean) > alpha })
}

// bisect is where below turns from true to false between two numbers.
func bisect(lo, hi float64, below func(float64) bool) float64 {
	for range 100 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi || hi-lo < 1e-14*hi {
			break
		}
		if below(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// beta is the regularised incomplete beta function, by Lentz's evaluation of its continued fraction (Abramowitz and Stegun 26.5.8).
func beta(a, b, x float64) float64 {
	ga, _ := math.Lgamma(a)
	gb, _ := math.Lgamma(b)
	gab, _ := math.Lgamma(a + b)
	front := math.Exp(gab - ga - gb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * fraction(a, b, x) / a
	}
	return 1 - front*fraction(b, a, 1-x)/b
}

func fraction(a, b, x float64) float64 {
	const tiny, precise = 1e-300, 1e-15
	apart := func(v float64) float64 { // from zero
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/apart(1-(a+b)*x/(a+1))
	h := d
	for i := 1; i <= 10_000; i++ {
		m := float64(i)
		step := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / apart(1+step*d)
		c = apart(1 + step/c)
		h *= d * c
		step = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / apart(1+step*d)
		c = apart(1 + step/c)
		change := d * c
		h *= change
		if math.Abs(change-1) < precise {
			break
		}
	}
	return h
}
