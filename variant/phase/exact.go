package phase

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// maxActive bounds the reads that are weighed together at a site: 2^maxActive
// ways to split them are tried. At most 16.
const maxActive = 12

// column is what is known at a site of the reads that are active there.
type column struct {
	llr     []int64  // per active read, what it shows here; 0: nothing
	carried int      // how many of them, the first, were active at the site before
	best    []uint16 // per split of those that are active at the next, the best split of all
}

// solve turns the sites as the best split of some of the reads asks for, at most
// maxActive at a site: with no more reads than that, it is the best of all.
//
// Strategy: a split of the reads active at a site is a bit for each, 1 for haplotype
// 1. At a site it is worth the weight that agrees less the weight that
// doesn't, whichever way round the site is better; and that comes on top of the
// best split of the sites before in which the reads active at both lie alike.
//
// Consequences: of equally good splits the one that comes first as a number is
// taken, reads being ordered by what they show.
func (g *graph) solve() {
	starting := g.choose()
	columns := make([]column, len(g.sites))
	var active []*read
	cursor := make(map[*read]int)
	worth := []int64{0} // per split of the active reads, of the sites so far
	var memory projection
	for j := range g.sites {
		c := &columns[j]
		c.carried = len(active)
		active = append(active, starting[j]...)
		on := 0 // which of the active reads go on
		c.llr = make([]int64, len(active))
		for i, r := range active {
			if e := r.entries[cursor[r]]; e.site == j {
				c.llr[i] = e.llr
				cursor[r]++
			}
			if r.last() > j {
				on |= 1 << i
			}
		}
		worth, c.best = c.project(worth, on, &memory)
		active = slices.DeleteFunc(active, func(r *read) bool { return r.last() <= j })
	}

	split := uint16(0)
	for j := len(columns) - 1; j >= 0; j-- {
		c := &columns[j]
		split = c.best[split]
		g.turn[j] = -1
		if c.balance(split) > 0 {
			g.turn[j] = 1
		}
		split &= 1<<c.carried - 1
	}
}

// projection is memory of [column.project].
type projection struct {
	next, balance []int64
	kept          []uint16
}

// project adds what the column is worth to worth, which is by split of the reads
// it carries, and keeps the best for every split of the reads in on.
//
// What worth is in becomes m's.
func (c *column) project(worth []int64, on int, m *projection) (next []int64, best []uint16) {
	n := len(c.llr)
	size := 1 << bits.OnesCount(uint(on))
	next, best = slices.Grow(m.next[:0], size)[:size], make([]uint16, size)
	for i := range next {
		next[i] = math.MinInt64
	}
	m.next = worth
	// A split's balance and its bits in on follow from those of the split without
	// its lowest bit.
	m.balance, m.kept = slices.Grow(m.balance[:0], 1<<n)[:1<<n], slices.Grow(m.kept[:0], 1<<n)[:1<<n]
	balance, kept := m.balance, m.kept
	balance[0], kept[0] = c.balance(0), 0
	mask := 1<<c.carried - 1
	for s := range balance {
		if s > 0 {
			low := bits.TrailingZeros(uint(s))
			rest := s & (s - 1)
			balance[s] = balance[rest] + 2*c.llr[low]
			kept[s] = kept[rest]
			if on>>low&1 == 1 {
				kept[s] |= 1 << bits.OnesCount(uint(on)&(1<<low-1))
			}
		}
		value := worth[s&mask] + max(balance[s], -balance[s])
		if k := kept[s]; value > next[k] {
			next[k], best[k] = value, uint16(s)
		}
	}
	return next, best
}

// balance is what speaks for haplotype 1 having the second allele.
func (c *column) balance(split uint16) int64 {
	sum := int64(0)
	for i, llr := range c.llr {
		if split>>i&1 == 1 {
			sum += llr
		} else {
			sum -= llr
		}
	}
	return sum
}

// choose takes reads, those that weigh most first, as long as no site gets more
// than maxActive active ones, and lists them by their first site.
func (g *graph) choose() [][]*read {
	type weighed struct {
		*read
		weight int64
	}
	order := make([]weighed, len(g.reads))
	for i := range g.reads {
		order[i].read = &g.reads[i]
		for _, e := range g.reads[i].entries {
			order[i].weight += max(e.llr, -e.llr)
		}
	}
	slices.SortStableFunc(order, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	starting := make([][]*read, len(g.sites))
	active := make([]int, len(g.sites))
	for _, r := range order {
		span := active[r.first() : r.last()+1]
		if slices.Max(span) >= maxActive {
			continue
		}
		for i := range span {
			span[i]++
		}
		starting[r.first()] = append(starting[r.first()], r.read)
	}
	return starting
}
