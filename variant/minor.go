package variant

import "math"

// Problem: of a mixture a network that has seen few reads of a minor allele holds even one that a fifth of 300 reads show for an error.
//
// Assumptions: reads of the reference show a wrong base at the rate of its context, with sites that are worse than that; a strand is wrong
// systematically at few sites, with any share of its reads, and both strands at fewer still. An allele shows itself in both strands alike.
//
// Strategy: the reads that show a substitution, or a gap of several bases outside of repeats, are counted by strand. Their probability if no molecule has it, by errors alone, is compared
// with that if a share of the molecules has it, over a grid of shares. Counts are beta-binomial: reads of a site don't err independently.
//
// Reads with many gaps (R9.4) are left to the network: gaps beside each other look like other bases, in both strands.
//
// Consequences: one strand alone never convinces, whatever the depth, and the odds grow with the depth up to those against both strands
// being wrong at once. The result depends on counts alone, so it is the same for any order of reads.

// minorShares are shares of molecules that are equally likely beforehand, but for those below [Config.MinAlleleFraction].
var minorShares = [...]float64{0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.55, 0.75, 0.95}

const (
	// allShare is the share from which on all molecules have the allele.
	allShare = 0.9
	// errorSpread and shareSpread are concentrations of beta distributions: of a site's rate of errors around that of its context, and of a
	// strand's share of reads around the molecules'.
	errorSpread = 60
	shareSpread = 80
	// minorDepth is how many reads there have to be: of fewer a network knows better.
	minorDepth = 60
	// minorReads is how many reads of either strand have to show the allele.
	minorReads = 3
	// minorGap is the least change of length, in bases, that is counted: shorter ones are what reads err by.
	minorGap = 3
	// gapMistakes is how often a read shows a change of length of minorGap and more by mistake.
	gapMistakes = 0.01
	// rarerGaps is how many times more rarely than a base both strands show such a change together by mistake.
	rarerGaps = 5
	// maxMinorQual caps what counts alone are believed.
	maxMinorQual = 30
)

// Low shares of a strand's reads that are wrong together, and their probabilities: below the first of shares. In R10.4.1-like reads about one
// place and base in 5,000 of a strand has a tenth and more.
var (
	lowShares = [...]float64{0.08, 0.15}
	lowStrand = [...]float64{2e-3, 1.5e-3}
	lowBoth   = [...]float64{2e-5, 1e-5}
)

// minor is what the counts of c's reads say of an allele of a mixture, with the probabilities of none, some and all of the molecules; false: nothing.
func (r *Region) minor(c *candidate, model *errorModel) (opinion, bool) {
	w := c.likest()
	if c.ploidy != Mixture || c.depth < minorDepth || model.gapRate > noisyGaps || min(c.altReads[0], c.altReads[1]) < minorReads {
		return opinion{}, false
	}
	rates, sys, rarer := w.rates[0], w.sys[0], 1.0
	if w.indel || len(c.ref) != len(c.alt) {
		length := len(c.alt) - len(c.ref)
		if length = max(length, -length); !w.indel || length < minorGap || w.end-w.start-(w.to-w.from) >= length {
			return opinion{}, false
		}
		rates, sys = [2]float64{gapMistakes, gapMistakes}, systematic{}
		rarer = rarerGaps
	}
	var n, k [2]int
	for s := range n {
		k[s] = c.altReads[s]
		n[s] = k[s] + c.refReads[s] + c.otherReads[s]
	}
	absent := absence(k, n, &rates, &sys, rarer)
	there := [3]float64{absent, math.Inf(-1), math.Inf(-1)}
	counted := 0
	for _, f := range minorShares {
		if f < r.cfg.MinAlleleFraction {
			continue
		}
		counted++
		l := 0.0
		for s := range n {
			// A strand may hide a part of the allele.
			q := func(f float64) float64 { return f + float64((1-f)*rates[s]) }
			l += logAdd(math.Log(0.9)+logBetaBinomial(k[s], n[s], q(f), shareSpread), math.Log(0.1)+logBetaBinomial(k[s], n[s], q(float64(0.6*f)), shareSpread))
		}
		copies := 1
		if f >= allShare {
			copies = 2
		}
		there[copies] = logAdd(there[copies], l)
	}
	prior := math.Log(w.prior) - math.Log1p(-w.prior) - math.Log(float64(max(1, counted)))
	there[1] += prior
	there[2] += prior
	sum := logAdd(there[0], logAdd(there[1], there[2]))
	least := -maxMinorQual / 10.0 * math.Ln10
	var o opinion
	for i := range there {
		o.copies[i] = max(there[i]-sum, 2*least)
	}
	o.copies[0] = max(o.copies[0], least)
	o.zygosity = o.copies
	return o, true
}

// absence is the log likelihood of k of n reads, by strand, that show an allele by mistake.
func absence(k, n [2]int, rates *[2]float64, sys *systematic, rarer float64) float64 {
	var strand [2]float64
	both := math.Inf(-1)
	sound, soundBoth := [2]float64{1, 1}, 1.0
	for s := range strand {
		strand[s] = math.Inf(-1)
	}
	wrong := func(share float64, own [2]float64, together float64) {
		sum := 0.0
		for s := range strand {
			l := logBetaBinomial(k[s], n[s], share, shareSpread/4)
			strand[s] = logAdd(strand[s], math.Log(own[s])+l)
			sound[s] -= own[s]
			sum += l
		}
		both = logAdd(both, math.Log(together)+sum)
		soundBoth -= together
	}
	for i, share := range lowShares {
		wrong(share, [2]float64{lowStrand[i], lowStrand[i]}, lowBoth[i]/rarer)
	}
	for i, share := range shares {
		wrong(share, [2]float64{sys.strand[0][i], sys.strand[1][i]}, max(sys.both[i], 1e-9))
	}
	for s := range strand {
		strand[s] = logAdd(strand[s], math.Log(sound[s])+logBetaBinomial(k[s], n[s], rates[s], errorSpread))
	}
	return logAdd(math.Log(soundBoth)+strand[0]+strand[1], both)
}

// logBetaBinomial is the log probability of one set of k among n trials, whose chance of success is beta distributed with a mean and a concentration.
func logBetaBinomial(k, n int, mean, concentration float64) float64 {
	mean = min(max(mean, 1e-4), 1-1e-4)
	a, b := float64(mean*concentration), float64((1-mean)*concentration)
	return logBeta(float64(k)+a, float64(n-k)+b) - logBeta(a, b)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// networkDepth is how many reads a network is shown of a mixture at most: it has learned from no more.
const networkDepth = 120

// deep reports whether c may have more reads than that: in a mixture, and in a stretch of another ploidy beside one.
func (e *encoder) deep(c *candidate) bool { return c.ploidy == Mixture || e.cfg.Ploidy == Mixture }

// thinned is c with as many of its reads as a network is shown, taken evenly from those of a strand that prefer the allele, and from the others.
func (e *encoder) thinned(c *candidate) *candidate {
	if !e.deep(c) || len(c.reads) <= networkDepth {
		return c
	}
	var byGroup [groups][]int
	for i := range c.reads {
		g := e.group(&c.reads[i])
		byGroup[g] = append(byGroup[g], i)
	}
	kept := make([]bool, len(c.reads))
	at := 0 // of all reads, group by group
	for _, reads := range byGroup {
		for _, i := range reads {
			kept[i] = (at+1)*networkDepth/len(c.reads) > at*networkDepth/len(c.reads)
			at++
		}
	}
	out := *c
	out.reads, out.haps.reads, out.depth = nil, nil, networkDepth
	if c.paint != nil {
		paint := *c.paint
		paint.shown = nil
		out.paint = &paint
	}
	for i, keep := range kept {
		if !keep {
			continue
		}
		out.reads = append(out.reads, c.reads[i])
		if i < len(c.haps.reads) {
			out.haps.reads = append(out.haps.reads, c.haps.reads[i])
		}
		if c.paint != nil {
			out.paint.shown = append(out.paint.shown, c.paint.shown[i])
		}
	}
	return &out
}
