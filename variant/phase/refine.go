package phase

import "math"

// maxSweeps bounds the rounds of refinement. Each lessens the errors, so none goes
// in a circle; more than a few have not been seen.
const maxSweeps = 64

// refine flips sites, and switches all that follows a link, while that makes more of
// what all reads show agree.
func (g *graph) refine() {
	g.sum()
	showing := g.showing()
	for range maxSweeps {
		flipped := g.flip(showing)
		if !g.switchOver() && !flipped {
			return
		}
	}
}

// sum finds each read's haplotype from the sites' orientations.
func (g *graph) sum() {
	for i := range g.reads {
		r := &g.reads[i]
		r.sum = 0
		for _, e := range r.entries {
			r.sum += int64(g.turn[e.site]) * e.llr
		}
	}
}

// showing lists for each site the reads that show an allele there, and which.
func (g *graph) showing() [][]sight {
	out := make([][]sight, len(g.sites))
	for i := range g.reads {
		for _, e := range g.reads[i].entries {
			out[e.site] = append(out[e.site], sight{&g.reads[i], e.llr})
		}
	}
	return out
}

// sight is a read at a site.
type sight struct {
	*read
	llr int64
}

// flip turns every site for which the reads' other sites ask for it, one after the
// other, and reports whether there was one.
func (g *graph) flip(showing [][]sight) (changed bool) {
	for site, reads := range showing {
		gain := int64(0)
		for _, r := range reads {
			gain += abs(r.sum-2*int64(g.turn[site])*r.llr) - abs(r.sum)
		}
		if gain <= 0 {
			continue
		}
		changed = true
		for _, r := range reads {
			r.sum -= 2 * int64(g.turn[site]) * r.llr
		}
		g.turn[site] = -g.turn[site]
	}
	return changed
}

// switchOver turns all sites behind each link across which the reads ask for it, and
// reports whether there was one.
func (g *graph) switchOver() (changed bool) {
	g.walk(func(_ int, links []link) bool {
		gain := int64(0)
		for _, l := range links {
			gain += abs(l.before-l.after) - abs(l.before+l.after)
		}
		changed = changed || gain > 0
		return gain > 0
	})
	g.sum()
	return changed
}

// link is a read that shows alleles on either side of a boundary: how much it
// is of haplotype 1 by what lies before and by what lies after.
type link struct{ before, after int64 }

// walk goes through the sites and passes each boundary, with the reads across it,
// to boundary, which reports whether all sites that follow are to be flipped.
func (g *graph) walk(boundary func(site int, links []link) bool) {
	type walking struct {
		*read
		next          int
		before, after int64 // after: as the sites were
	}
	var active []walking
	var links []link
	reads := g.reads // by first site
	turn := int8(1)  // of what follows
	for site := range g.sites {
		was := int64(g.turn[site])
		g.turn[site] *= turn
		for ; len(reads) > 0 && reads[0].first() == site; reads = reads[1:] {
			active = append(active, walking{read: &reads[0], after: reads[0].sum})
		}
		links = links[:0]
		kept := active[:0]
		for _, w := range active {
			if e := w.entries[w.next]; e.site == site {
				w.before += int64(g.turn[site]) * e.llr
				w.after -= was * e.llr
				w.next++
			}
			if w.next < len(w.entries) {
				links = append(links, link{w.before, int64(turn) * w.after})
				kept = append(kept, w)
			}
		}
		active = kept
		if site+1 < len(g.sites) && boundary(site, links) {
			turn = -turn
		}
	}
}

// settle refines g and takes it apart until every site and every link stands
// against its opposite, and returns the phase sets.
func (g *graph) settle() []*graph {
	var out []*graph
	for work := []*graph{g}; len(work) > 0; {
		g := work[len(work)-1]
		work = work[:len(work)-1]
		g.refine()
		part, sound := g.partition()
		if sound {
			out = append(out, g)
			continue
		}
		work = append(work, g.divide(part)...)
	}
	return out
}

// partition returns the part of g that each site belongs to, and whether there is
// but one. Sites that the haplotypes don't explain go first, since they speak
// against their neighbours; then those whose place is in doubt, and doubtful
// links.
func (g *graph) partition() (part []int, sound bool) {
	part = make([]int, len(g.sites))
	places := g.places()
	for _, doubt := range []func(ballot) bool{ballot.divided, ballot.weak} {
		sound = true
		for i, b := range places {
			if doubt(b) {
				part[i], sound = dropped, false
			}
		}
		if !sound {
			return part, false
		}
	}
	n := 0
	g.walk(func(site int, links []link) bool {
		var b ballot
		for _, l := range links {
			b.cast(l.before, l.after)
		}
		if b.divided() || b.weak() {
			n++
		}
		part[site+1] = n
		return false
	})
	return part, n == 0
}

// places is, per site, how far the reads that show it support its orientation.
func (g *graph) places() []ballot {
	out := make([]ballot, len(g.sites))
	for i := range g.reads {
		r := &g.reads[i]
		for _, e := range r.entries {
			own := int64(g.turn[e.site]) * e.llr
			out[e.site].cast(own, r.sum-own)
		}
	}
	return out
}

// ballot is how reads stand to two things lying on haplotypes as they do, not the
// other way round.
type ballot struct {
	llr           int64 // log likelihood ratio, in milli-Phred
	agree, differ int64 // weight of the reads for either
}

// cast adds a read that is of haplotype 1 by a according to the one and by b
// according to the other.
func (v *ballot) cast(a, b int64) {
	v.llr += min(maxLink, max(-maxLink, spread(a+b)-spread(a-b)))
	weight := min(abs(a), abs(b))
	if (a > 0) == (b > 0) {
		v.agree += weight
	} else {
		v.differ += weight
	}
}

// divided: too many reads disagree for the two to have to do with each other.
func (v ballot) divided() bool {
	return float64(v.agree) < minAgreement*float64(v.agree+v.differ)
}

// weak: too little is known.
func (v ballot) weak() bool { return v.llr < minQuality }

// spread is the log likelihood, in milli-Phred and up to a constant, of a read of
// either haplotype alike, when x is the log likelihood ratio of the haplotypes.
func spread(x int64) int64 {
	x = abs(x)
	if x > 80_000 {
		return x / 2
	}
	return x/2 + int64(math.Round(10_000*math.Log10(1+math.Pow(10, -float64(x)/10_000))))
}

func abs(x int64) int64 { return max(x, -x) }
