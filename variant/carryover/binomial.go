package carryover

import "gonum.org/v1/gonum/mathext"

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
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}

// upper is the Clopper–Pearson bound of a rate from above: the one at which k or fewer successes of n have probability alpha.
func upper(k, n int, alpha float64) float64 {
	if k >= n {
		return 1
	}
	return mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-alpha)
}

// lower is the bound from below: the rate at which k or more of n have probability alpha.
func lower(k, n int, alpha float64) float64 {
	if k <= 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(k), float64(n-k+1), alpha)
}

// tailPoisson is the probability of k or more events of a mean.
func tailPoisson(k int, mean float64) float64 {
	if k <= 0 {
		return 1
	}
	return mathext.GammaIncReg(float64(k), mean)
}

// upperPoisson is the mean at which k or fewer events have probability alpha.
func upperPoisson(k int, alpha float64) float64 {
	return mathext.GammaIncRegInv(float64(k+1), 1-alpha)
}
