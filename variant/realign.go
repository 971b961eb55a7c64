package variant

import (
	"math"
	"slices"
)

// realigner computes the cost of a read's bases in a window given each of several
// haplotypes: global alignment with affine gaps (Gotoh) whose prices depend on the
// homopolymer run and on the strand, in integers.
//
// Strategy: this is most of what calling costs. Reads whose bases and qualities in
// the window are equal are aligned once, and to a haplotype that they differ little from
// without a table; elsewhere a haplotype starts from the cells that the one it shares most
// columns with has left in the last column that they share, if it has computed them.
type realigner struct {
	haps  []haplotype // the first is the reference; memory of earlier windows follows
	count int         // haplotypes of this window
	model *errorModel

	query []byte
	bins  []byte

	known map[string]int // offset in costs by strand, bases and bins of a read
	key   []byte
	costs []int32

	cells []cell // of a row
	first []cell // of the first column
	sums  []int32
	round int // counts the reads that are aligned
}

// haplotype is one of the sequences that reads are aligned to.
type haplotype struct {
	seq   []byte      // base codes
	price [2][]prices // [strand]
	base  [2]int32    // cost of staying in every run, by strand
	// open is what opening an insertion costs, [strand][read base][columns before
	// it].
	open [2][baseN + 1][]int32

	// By strand: the earlier haplotype that shares the most columns, and the last
	// column up to which all cells are equal; -1 if not even the first are.
	parent, same [2]int
	children     [2][]int
	shared       []cell // cells of column same under parent, of all rows
	swept        int    // the last round in which all cells were computed

	// Least prices of opening a deletion and an insertion, by strand.
	leastDel, leastIns [2]int32
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

// begin starts a window without haplotypes.
func (g *realigner) begin(m *errorModel) {
	g.model, g.count = m, 0
	g.costs = g.costs[:0]
	if g.known == nil {
		g.known = make(map[string]int)
	}
	clear(g.known)
}

// add prepares the next haplotype.
func (g *realigner) add(seq []byte) {
	if g.count == len(g.haps) {
		g.haps = append(g.haps, haplotype{})
	}
	h := &g.haps[g.count]
	m := g.model
	h.seq = h.seq[:0]
	for _, b := range seq {
		h.seq = append(h.seq, baseCode[b])
	}
	for strand := range 2 {
		ps := h.price[strand][:0]
		base := int32(0)
		for i := 0; i < len(seq); {
			n := runFrom(seq, i)
			b := strandBase(h.seq[i], strand == 1)
			k := min(n, maxRun)
			base += m.stay[k][b]
			for range n {
				ps = append(ps, prices{m.openDel[k][b], m.openIns[k][b]})
			}
			i += n
		}
		h.price[strand] = ps
		h.base[strand] = base
		for q := range h.open[strand] {
			h.open[strand][q] = g.appendOpen(h.open[strand][q][:0], h.seq, ps, byte(q))
		}
		h.leastDel[strand], h.leastIns[strand] = leastPrices(ps, &h.open[strand])
		h.children[strand] = h.children[strand][:0]
		h.parent[strand], h.same[strand] = 0, -1
		for p := range g.count {
			if same := lastSame(&g.haps[p], h, strand); same > h.same[strand] {
				h.parent[strand], h.same[strand] = p, same
			}
		}
		if h.same[strand] >= 0 {
			parent := &g.haps[h.parent[strand]]
			parent.children[strand] = append(parent.children[strand], g.count)
		}
	}
	g.count++
}

// lastSame finds the last column up to which two haplotypes cost the same.
func lastSame(a, b *haplotype, strand int) int {
	for j := range min(len(a.seq), len(b.seq)) + 1 {
		same := j == 0 || a.seq[j-1] == b.seq[j-1] && a.price[strand][j-1] == b.price[strand][j-1]
		for q := range a.open[strand] {
			same = same && a.open[strand][q][j] == b.open[strand][q][j]
		}
		if !same {
			return j - 1
		}
	}
	return min(len(a.seq), len(b.seq))
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

// leastPrices are the least that a deletion and an insertion cost to open.
func leastPrices(ps []prices, open *[baseN + 1][]int32) (del, ins int32) {
	del, ins = infinite, infinite
	for i := range ps {
		del = min(del, ps[i].openDel)
	}
	for q := range open {
		ins = min(ins, slices.Min(open[q]))
	}
	return del, ins
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

// align is the cost of the query under every haplotype: the least over all
// alignments of the whole query to the whole haplotype. The result holds until the
// next call.
func (g *realigner) align(reverse bool) []int32 { return g.costs[g.offset(reverse):][:g.count] }

// offset is where in g.costs the costs that align returns are, until the next
// window begins.
func (g *realigner) offset(reverse bool) int {
	strand := strandIndex(reverse)
	g.key = append(append(append(g.key[:0], byte(strand)), g.query...), g.bins...)
	at, ok := g.known[string(g.key)]
	if !ok {
		at = len(g.costs)
		g.round++
		for h := range g.count {
			g.costs = append(g.costs, g.cost(h, strand))
		}
		g.known[string(g.key)] = at
	}
	return at
}

// cost aligns the query to a haplotype, those before it having been aligned to.
func (g *realigner) cost(h, strand int) int32 {
	hap := &g.haps[h]
	if cost, ok := g.straight(hap, strand); ok {
		return cost
	}
	hap.swept = g.round
	if hap.same[strand] >= 0 && g.haps[hap.parent[strand]].swept == g.round {
		return g.sweep(h, strand, hap.same[strand], hap.shared)
	}
	g.first = slices.Grow(g.first[:0], len(g.query)+1)[:len(g.query)+1]
	above := cell{0, infinite, infinite}
	g.first[0] = above
	for i, q := range g.query {
		above = cell{infinite, min(above.match+hap.open[strand][q][0], above.ins+g.model.extIns), infinite}
		g.first[i+1] = above
	}
	return g.sweep(h, strand, 0, g.first)
}

// straight is the least cost of the query against a haplotype with one gap at most, and whether
// no alignment with more gaps can cost less: most reads show most haplotypes so, and all the
// cells of sweep aren't needed.
//
// With lengths that are equal there is one alignment without a gap, and all others have an
// insertion and a deletion. With k bases too few or too many, others have two gaps of the
// kind that is needed, or a gap of the other kind and another k bases at least.
func (g *realigner) straight(hap *haplotype, strand int) (int32, bool) {
	m, query, bins, seq := g.model, g.query, g.bins[:len(g.query)], hap.seq
	leastDel, leastIns := hap.leastDel[strand], hap.leastIns[strand]
	if min(leastDel, leastIns, m.extendDel, m.extIns) < 0 || len(query) == 0 || len(seq) == 0 {
		return 0, false // more gaps may cost less
	}
	pairs := &m.pair[strand]
	least := leastDel + leastIns // of what has more gaps
	gap := len(query) - len(seq)
	if gap == 0 {
		cost := int32(0)
		for i, q := range query {
			cost += pairs[bins[i]][q][seq[i]&3]
			if cost > least {
				return 0, false
			}
		}
		return hap.base[strand] + cost, true
	}
	// What the bases behind each place of the gap cost.
	n := min(len(query), len(seq))
	sums := slices.Grow(g.sums[:0], n+1)[:n+1]
	g.sums = sums
	late, lateSeq, size := query, seq, int32(gap)
	lateBins := bins
	if gap > 0 {
		late, lateBins = query[gap:], bins[gap:]
	} else {
		lateSeq, size = seq[-gap:], int32(-gap)
	}
	sums[n] = 0
	for i := n - 1; i >= 0; i-- {
		sums[i] = sums[i+1] + pairs[lateBins[i]][late[i]][lateSeq[i]&3]
	}
	extend, open := m.extIns, leastIns
	if gap < 0 {
		extend, open = m.extendDel, leastDel
	}
	least += size * min(extend, open)
	if size > 1 {
		least = min(least, 2*open+(size-2)*extend)
	}
	best, before := int32(infinite), (size-1)*extend
	for i := 0; ; i++ {
		if gap > 0 {
			best = min(best, before+hap.open[strand][query[i]][i]+sums[i])
		} else {
			best = min(best, before+hap.price[strand][i].openDel+sums[i])
		}
		if i == n || before > least {
			break
		}
		before += pairs[bins[i]][query[i]][seq[i]&3]
	}
	return hap.base[strand] + best, best <= least
}

// sweep aligns the query to a haplotype from column from on, of which the cells of
// all rows are given, and leaves the cells that other haplotypes start from with
// them. Rows are query bases; columns are haplotype bases.
//
// Strategy: cells has what the last row left in each column; what this row has in
// the column before stays in variables, and what opening an insertion costs is
// looked up by base.
//
// The race detector leaves it alone: what it reads and writes is its realigner's,
// which the functions around it touch as well, and watching it was most of what tests of
// the caller took.
//
//go:norace
func (g *realigner) sweep(h, strand, from int, column []cell) int32 {
	own := &g.haps[h]
	hap, price, m := own.seq[from:], own.price[strand][from:], g.model
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
	children := own.children[strand]
	for _, c := range children {
		child := &g.haps[c]
		child.shared = append(child.shared[:0], cells[child.same[strand]-from])
	}
	extendIns, extendDel := m.extIns, m.extendDel
	row := cells[1:][:n]
	for i, q := range g.query {
		pair, open := &m.pair[strand][g.bins[i]][q], own.open[strand][q][from+1:][:n]
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
		for _, c := range children {
			child := &g.haps[c]
			child.shared = append(child.shared, cells[child.same[strand]-from])
		}
	}
	last := cells[n]
	return own.base[strand] + min(last.match, last.ins, last.del)
}
