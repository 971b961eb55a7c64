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

	// open is what opening an insertion costs, [haplotype][strand][read base][columns
	// before it].
	open [2][2][baseN + 1][]int32
	// same is the last column up to which all cells are equal under both
	// haplotypes, by strand; -1 if not even the first are.
	same [2]int

	cells         []cell // of a row
	first, shared []cell // of a column
}

// cell is the least cost of a prefix of the query against a prefix of a haplotype,
// by what the alignment ends with.
type cell struct{ match, ins, del int32 }

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
			for q := range g.open[h][strand] {
				g.open[h][strand][q] = g.appendOpen(g.open[h][strand][q][:0], g.haps[h], ps, byte(q))
			}
		}
	}
	for strand := range g.same {
		g.same[strand] = g.lastSame(strand)
	}
}

// lastSame finds the last column up to which the haplotypes cost the same.
func (g *realigner) lastSame(strand int) int {
	for j := range min(len(g.haps[0]), len(g.haps[1])) + 1 {
		same := j == 0 || g.haps[0][j-1] == g.haps[1][j-1] && g.price[0][strand][j-1] == g.price[1][strand][j-1]
		for q := range g.open[0][strand] {
			same = same && g.open[0][strand][q][j] == g.open[1][strand][q][j]
		}
		if !same {
			return j - 1
		}
	}
	return min(len(g.haps[0]), len(g.haps[1]))
}

// appendOpen appends what it costs to open an insertion of base q after each
// number of haplotype bases: it lengthens the run that ends there, or the next.
func (g *realigner) appendOpen(open []int32, hap []byte, ps []prices, q byte) []int32 {
	for j := range len(hap) + 1 {
		switch {
		case j > 0 && q == hap[j-1]:
			open = append(open, ps[j-1].openIns)
		case j < len(hap) && q == hap[j]:
			open = append(open, ps[j].openIns)
		default:
			open = append(open, g.model.openOther)
		}
	}
	return open
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

// align is the cost of the query under both haplotypes: the least over all
// alignments of the whole query to the whole haplotype.
//
// Strategy: this is most of what calling costs. The haplotypes are equal up to the
// candidate, so the second one starts from the cells that the first has left in
// the last column that they share.
func (g *realigner) align(reverse bool) (costs [2]int32) {
	strand := strandIndex(reverse)
	rows := len(g.query) + 1
	if cap(g.first) < rows {
		g.first, g.shared = make([]cell, 2*rows), make([]cell, 2*rows)
	}
	first, shared := g.first[:rows], g.shared[:rows]
	g.beginning(0, strand, first)
	at := g.same[strand]
	if at < 0 {
		costs[0] = g.sweep(0, strand, 0, first, 0, shared)
		g.beginning(1, strand, first)
		costs[1] = g.sweep(1, strand, 0, first, 0, shared)
		return costs
	}
	costs[0] = g.sweep(0, strand, 0, first, at, shared)
	costs[1] = g.sweep(1, strand, at, shared, at, first)
	return costs
}

// beginning fills column 0, before the haplotype's first base, of every row.
func (g *realigner) beginning(h, strand int, column []cell) {
	above := cell{0, infinite, infinite}
	column[0] = above
	for i, q := range g.query {
		above = cell{infinite, min(above.match+g.open[h][strand][q][0], above.ins+g.model.extIns), infinite}
		column[i+1] = above
	}
}

// sweep aligns the query to a haplotype from column from on, of which the cells of
// all rows are given, and puts those of column at into kept. Rows are query bases;
// columns are haplotype bases.
//
// Strategy: cells has what the last row left in each column; what this row has in
// the column before stays in variables, and what opening an insertion costs is
// looked up by base.
func (g *realigner) sweep(h, strand, from int, column []cell, at int, kept []cell) int32 {
	hap, price, m := g.haps[h][from:], g.price[h][strand][from:], g.model
	n := len(hap)
	price = price[:n]
	if cap(g.cells) <= n {
		g.cells = make([]cell, 2*n+2)
	}
	cells := g.cells[:n+1]
	cells[0] = column[0]
	for j := 1; j <= n; j++ {
		left := cells[j-1]
		cells[j] = cell{infinite, infinite, min(left.match+price[j-1].openDel, left.del+m.extendDel)}
	}
	kept[0] = cells[at-from]
	extendIns, extendDel := m.extIns, m.extendDel
	row := cells[1:][:n]
	for i, q := range g.query {
		pair, open := &m.pair[strand][g.bins[i]][q], g.open[h][strand][q][from+1:][:n]
		above, left := column[i], column[i+1]
		cells[0] = left
		diagonal := min(above.match, above.ins, above.del)
		for j, b := range hap {
			up := row[j]
			left = cell{
				match: diagonal + pair[b&3],
				ins:   min(up.match+open[j], up.ins+extendIns),
				del:   min(left.match+price[j].openDel, left.del+extendDel),
			}
			row[j] = left
			diagonal = min(up.match, up.ins, up.del)
		}
		kept[i+1] = cells[at-from]
	}
	last := cells[n]
	return g.base[h][strand] + min(last.match, last.ins, last.del)
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
