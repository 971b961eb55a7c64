package variant

import "math"

// realigner computes the cost of a read's bases in a window given each of two
// haplotypes: global alignment with affine gaps (Gotoh) whose prices depend on the
// homopolymer run and on the strand, in integers.
type realigner struct {
	haps  [2][]byte      // base codes
	price [2][2][]prices // [haplotype][strand]
	base  [2][2]int32    // cost of staying in every run
	model *errorModel

	query []byte
	bins  []byte

	match, ins, del []int32
}

// prices of the gaps at one haplotype base.
type prices struct {
	openDel int32
	openIns int32 // insertion, before this base, of the base of the run that starts or goes on here
}

const infinite = math.MaxInt32 / 4

// setHaplotypes prepares the two sequences.
func (g *realigner) setHaplotypes(m *errorModel, ref, alt []byte) {
	g.model = m
	for h, seq := range [2][]byte{ref, alt} {
		g.haps[h] = g.haps[h][:0]
		for _, b := range seq {
			g.haps[h] = append(g.haps[h], baseCode[b])
		}
		for strand := range 2 {
			ps := g.price[h][strand][:0]
			base := int32(0)
			for i := 0; i < len(seq); {
				n := runFrom(seq, i)
				b := strandBase(g.haps[h][i], strand == 1)
				k := min(n, maxRun)
				base += m.stay[k][b]
				for range n {
					ps = append(ps, prices{m.openDel[k][b], m.openIns[k][b]})
				}
				i += n
			}
			g.price[h][strand] = ps
			g.base[h][strand] = base
		}
	}
}

// setQuery takes the bases that a row has over columns [lo, hi); false when the
// row doesn't span them.
func (g *realigner) setQuery(w *row, lo, hi int) bool {
	if w.from > lo || w.to < hi {
		return false
	}
	g.query, g.bins = g.query[:0], g.bins[:0]
	next := 0
	for next < len(w.ins) && w.ins[next].after < lo {
		next++
	}
	for c := lo; c < hi; c++ {
		switch code := w.code[c]; code {
		case absent:
			return false
		case deleted:
		default:
			g.query = append(g.query, code)
			g.bins = append(g.bins, w.qual[c])
		}
		for next < len(w.ins) && w.ins[next].after == c {
			if c < hi-1 {
				for i, b := range w.ins[next].seq {
					g.query = append(g.query, baseCode[b])
					g.bins = append(g.bins, w.seg.bin(w.ins[next].query+i))
				}
			}
			next++
		}
	}
	return len(g.query) <= 4*(hi-lo)
}

// align is the cost of the query under both haplotypes.
func (g *realigner) align(reverse bool) (costs [2]int32) {
	for h := range costs {
		costs[h] = g.cost(h, strandIndex(reverse))
	}
	return costs
}

// cost is the least cost over all alignments of the whole query to the whole
// haplotype. Rows are query bases; columns are haplotype bases.
func (g *realigner) cost(h, strand int) int32 {
	hap, price, m := g.haps[h], g.price[h][strand], g.model
	n := len(hap)
	if cap(g.match) <= n {
		g.match, g.ins, g.del = make([]int32, 2*n+2), make([]int32, 2*n+2), make([]int32, 2*n+2)
	}
	match, ins, del := g.match[:n+1], g.ins[:n+1], g.del[:n+1]
	match[0], ins[0], del[0] = 0, infinite, infinite
	for j := 1; j <= n; j++ {
		match[j], ins[j] = infinite, infinite
		del[j] = min(match[j-1]+price[j-1].openDel, del[j-1]+m.extendDel)
	}
	for i, q := range g.query {
		pair := &m.pair[strand][g.bins[i]][q]
		diagonal := min(match[0], ins[0], del[0])
		openAt := m.openOther
		if q == hap[0] {
			openAt = price[0].openIns
		}
		ins[0] = min(match[0]+openAt, ins[0]+m.extIns)
		match[0], del[0] = infinite, infinite
		for j := 1; j <= n; j++ {
			up := min(match[j], ins[j], del[j])
			// An insertion after haplotype base j-1 lengthens its run, or the next.
			open := m.openOther
			if q == hap[j-1] {
				open = price[j-1].openIns
			} else if j < n && q == hap[j] {
				open = price[j].openIns
			}
			ins[j] = min(match[j]+open, ins[j]+m.extIns)
			match[j] = diagonal + pair[hap[j-1]]
			del[j] = min(match[j-1]+price[j-1].openDel, del[j-1]+m.extendDel)
			diagonal = up
		}
	}
	return g.base[h][strand] + min(match[n], ins[n], del[n])
}

const (
	// maxReadSupport bounds what one read may contribute: log odds of 100 to 1.
	maxReadSupport = 4.6
	// maxGapSupport is the same, for a substitution, of a read that has no base at
	// the site: which base it has lost is a guess from homopolymer rates.
	maxGapSupport = 1.0
	// noSite is the column of an allele that isn't a substitution.
	noSite = -1
	// informative is the log odds from which a read counts for an allele.
	informative = 0.5
)

// realign fills r.work.evidence with what every read that spans reference positions
// [lo, hi) says about base in their place (hypothesis 0) against alt (1),
// and counts the reads in c. site is the column of a substitution.
func (r *Region) realign(m *matrix, model *errorModel, c *candidate, lo, hi int, base, alt []byte, site int) {
	g, ev := &r.work.aligner, &r.work.evidence
	g.setHaplotypes(model, base, alt)
	ev.reset()
	c.raw, c.depth, c.refReads, c.altReads = 0, 0, [2]int{}, [2]int{}
	for i := range m.rows {
		w := &m.rows[i]
		if !g.setQuery(w, lo-m.lo, hi-m.lo) {
			continue
		}
		costs := g.align(w.seg.reverse)
		// Only the ratio matters, as a natural logarithm.
		llr := float64(costs[0]-costs[1]) / 1000 * math.Ln10 / 10
		c.raw += int64(costs[0] - costs[1])
		limit := maxReadSupport
		if site != noSite && w.code[site] > 3 {
			limit = maxGapSupport
		}
		llr = min(limit, max(-limit, llr))
		ev.add(w.seg.reverse, [2]float64{math.Exp(min(0, -llr)), math.Exp(min(0, llr))})
		s := strandIndex(w.seg.reverse)
		c.depth++
		switch {
		case llr > informative:
			c.altReads[s]++
		case llr < -informative:
			c.refReads[s]++
		}
	}
}
