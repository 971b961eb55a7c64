package genes

import "math"

// Shine-Dalgarno sites, beside the motifs that are learnt: how much of AGGAGG, which the end of 16S ribosomal RNA pairs with, is before a start, and
// how far. A motif takes its bases for independent of each other. The ribosome doesn't: three bases in a row bind, three apart don't.
const (
	// siteWindow is how many bases before a start codon a site and its spacer take at most.
	siteWindow = 21
	siteWidth  = 6
	// alignments are the places of AGGAGG in the window.
	alignments = siteWindow - siteWidth + 1
	// siteClasses: three to six bases of AGGAGG in a row, then five or six with another one in the middle.
	siteClasses = 6
	fewestBound = 3
	// spacerClasses: 5 to 10 bases, 3 to 4, 11 to 12, 13 to 15.
	spacerClasses = 4
	siteBins      = siteClasses * spacerClasses
	// siteRounds: which of several sites before a start counts depends on the odds, and these on which count.
	siteRounds = 6
)

// siteMask has a bit for each class of site and spacer that is before a start.
type siteMask uint32

// sitesOf has the sites of each set of bases of AGGAGG that are right, its first base the lowest bit, for each alignment.
var sitesOf = func() (t [alignments][1 << siteWidth]siteMask) {
	for a := range t {
		for right := range t[a] {
			for from := range siteWidth {
				for n := fewestBound; from+n <= siteWidth; n++ {
					class := siteClass(right>>from, n)
					spacer := spacerClass(siteWindow - (a + from + n))
					if class >= 0 && spacer >= 0 {
						t[a][right] |= 1 << (class*spacerClasses + spacer)
					}
				}
			}
		}
	}
	return t
}()

// siteClass is the class of n bases of which those are right, -1 if there is none.
func siteClass(right, n int) int {
	all := 1<<n - 1
	right &= all
	if right == all {
		return n - fewestBound
	}
	for wrong := 2; wrong < n-2; wrong++ {
		if right == all&^(1<<wrong) {
			return n - 1
		}
	}
	return -1
}

func spacerClass(spacer int) int {
	switch {
	case spacer < 3 || spacer > 15:
		return -1
	case spacer < 5:
		return 1
	case spacer <= 10:
		return 0
	case spacer <= 12:
		return 2
	}
	return 3
}

// sitesBefore are the sites before a start.
func sitesBefore(s []byte, at int) (mask siteMask) {
	var a, g uint32
	for i := range siteWindow {
		j := at - siteWindow + i
		if j < 0 {
			continue
		}
		switch s[j] {
		case 0:
			a |= 1 << i
		case 2:
			g |= 1 << i
		}
	}
	const isA, isG = 0b001001, 0b110110 // AGGAGG
	for i := range sitesOf {
		mask |= sitesOf[i][a>>i&isA|g>>i&isG]
	}
	return mask
}

// siteOdds are the log odds of sites before starts of genes against before start codons anywhere; the last is of none. Of several sites the one with
// the highest odds counts.
type siteOdds [siteBins + 1]float64

// neutralSites are odds to begin with: longer ones at the usual distance count more.
func neutralSites() (o siteOdds) {
	for class := range siteClasses {
		length := class + 1
		if class >= 4 {
			length = class - 2
		}
		for spacer, more := range [spacerClasses]float64{1, 0, 0, -.5} {
			o[class*spacerClasses+spacer] = float64(length) + more
		}
	}
	return o
}

// best is the site that counts.
func (o *siteOdds) best(mask siteMask) int {
	best := siteBins
	for bin := 0; mask != 0; bin, mask = bin+1, mask>>1 {
		if mask&1 != 0 && o[bin] > o[best] {
			best = bin
		}
	}
	return best
}

func (o *siteOdds) value(mask siteMask) float64 { return o[o.best(mask)] }

// siteCounts are how many starts have each set of sites.
type siteCounts map[siteMask]int

// countStarts counts before all start codons of a strand.
func (c siteCounts) countStarts(s []byte, code *geneticCode) {
	for at := siteWindow; at+3 <= len(s); at++ {
		if codon := codonAt(s, at); codon >= 0 && code.start[codon] >= 0 {
			c[sitesBefore(s, at)]++
		}
	}
}

func (c siteCounts) countContexts(starts []startContext) {
	for i := range starts {
		c[sitesBefore(starts[i].base[:], flankUp)]++
	}
}

// share adds the counts of a genome, as if it had as many starts as any other.
func (c siteCounts) share(own siteCounts) {
	const starts = 100_000
	total := 0
	for _, n := range own {
		total += n
	}
	for mask, n := range own {
		c[mask] += n * starts / max(1, total)
	}
}

// bins counts the sites that count.
func (c siteCounts) bins(o *siteOdds) (out [siteBins + 1]float64, total float64) {
	for mask, n := range c { // in any order: whole numbers
		out[o.best(mask)] += float64(n)
		total += float64(n)
	}
	return out, total
}

// learn adapts odds to the starts of genes, and of any start codons. The prior's odds count as startPriorGenes genes.
func (o *siteOdds) learn(prior *siteOdds, genes, anywhere siteCounts) {
	*o = *prior
	for range siteRounds {
		in, genesTotal := genes.bins(o)
		plain, total := anywhere.bins(o)
		var pulled [siteBins + 1]float64
		sum := 0.0
		for b := range pulled {
			plain[b] = (plain[b] + 1) / (total + siteBins + 1)
			pulled[b] = plain[b] * math.Exp(prior[b])
			sum += pulled[b]
		}
		for b := range o {
			share := (in[b] + float64(startPriorGenes*pulled[b]/sum)) / (genesTotal + startPriorGenes)
			o[b] = math.Log(share / plain[b])
		}
	}
}
