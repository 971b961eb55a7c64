package variant

import (
	"iter"
	"slices"
)

// startWidth is how many positions count as one place to start at: amplicons are
// cut, and ends trimmed, with a few bases' difference.
const startWidth = 64

// chooser picks the reads that a tile uses.
//
// Problem: of thousands of reads over a position not all can be used. Reads of an
// amplicon begin at the same places; one place may have most of them, and so may
// one strand. The reads that remain must still show all that there is.
//
// Strategy: no column has more than MaxDepth reads. Where there are more, they are
// taken in rounds: in each round one read, the first in canonical order that is
// left, of every group that has one; a group is the reads of one strand that begin
// within startWidth bases. The last round takes those that come first in canonical
// order.
//
// Consequences: what a column shows is a function of the set of reads. A read
// that is left out of a column stays so, whatever else comes, and what comes is
// chosen as if it had never been there: another read of its own group, or of
// another, puts at most more reads before it. So a read that is left out of
// all columns can be let go of at any time.
//
// Segments of one read that overlap, as a supplementary alignment does that folds
// back, show a column once.
type chooser struct {
	picks []pick
	spans []span // of all picks, of one by its chain, in the order of columns

	depth   []int32 // reads over each column, chosen or not
	groups  map[int64]int32
	borders []int32
	ranks   []int32 // of the picks over a column, in the order of rounds
	sizes   []int32 // reads of each group
	rounds  []int32 // reads of each round
}

// pick is a read that reaches into a tile.
type pick struct {
	number      uint32
	from, to    int32 // columns
	group       int32
	first, last int32 // its spans, or none
}

// span is columns of a read that are used.
type span struct {
	from, to int32
	next     int32 // of the same read, or none
}

const none = -1

// choose picks among the reads over positions [lo, hi).
func (c *chooser) choose(x *reads, reach, lo, hi, maxDepth int) {
	c.limit(x.all(), x, reach, lo, hi, maxDepth)
	for i := range c.picks {
		if x.table[c.picks[i].number].is(readSupplementary) {
			c.once(x, i)
		}
	}
}

// limit chooses without regard to which segments are of one read.
func (c *chooser) limit(from iter.Seq2[uint32, *read], x *reads, reach, lo, hi, maxDepth int) {
	c.collect(from, reach, lo, hi)
	c.spans = c.spans[:0]
	if len(c.picks) == 0 {
		return
	}
	if limit := int32(maxDepth); slices.Max(c.depth) <= limit {
		for i := range c.picks {
			c.take(i, c.picks[i].from, c.picks[i].to)
		}
	} else {
		c.group(x)
		for k := range len(c.borders) - 1 {
			c.column(c.borders[k], c.borders[k+1], limit)
		}
	}
}

// collect finds these reads, in canonical order, and counts them.
func (c *chooser) collect(reads iter.Seq2[uint32, *read], reach, lo, hi int) {
	c.picks = c.picks[:0]
	c.depth = append(c.depth[:0], make([]int32, hi-lo+1)...)
	first, last := int32(lo-reach), int32(hi-reach)
	for n, rd := range reads {
		from, to := max(rd.start, first)-first, min(rd.end, last)-first
		if from < to {
			c.picks = append(c.picks, pick{number: n, from: from, to: to, first: none, last: none})
			c.depth[from]++
			c.depth[to]--
		}
	}
	for i := 1; i < len(c.depth); i++ { // until now, differences
		c.depth[i] += c.depth[i-1]
	}
	c.depth = c.depth[:hi-lo]
}

// group assigns the reads to groups, and finds the columns between which no
// read begins or ends.
func (c *chooser) group(x *reads) {
	if c.groups == nil {
		c.groups = make(map[int64]int32)
	}
	clear(c.groups)
	c.borders = c.borders[:0]
	for i := range c.picks {
		p := &c.picks[i]
		c.borders = append(c.borders, p.from, p.to)
		rd := &x.table[p.number]
		key := int64(rd.start/startWidth) << 1
		if rd.is(readReverse) {
			key = int64((rd.end-1)/startWidth)<<1 | 1 // where it began in the pore
		}
		group, ok := c.groups[key]
		if !ok {
			group = int32(len(c.groups))
			c.groups[key] = group
		}
		p.group = group
	}
	slices.Sort(c.borders)
	c.borders = slices.Compact(c.borders)
}

// column chooses for columns [from, to), which the same reads cover.
func (c *chooser) column(from, to, limit int32) {
	if c.depth[from] <= limit {
		for i := range c.picks {
			if p := &c.picks[i]; p.from <= from && from < p.to {
				c.take(i, from, to)
			}
		}
		return
	}
	c.sizes = append(c.sizes[:0], make([]int32, len(c.groups))...)
	c.ranks, c.rounds = c.ranks[:0], c.rounds[:0]
	for i := range c.picks {
		p := &c.picks[i]
		if p.from > from || from >= p.to {
			continue
		}
		rank := c.sizes[p.group]
		c.sizes[p.group]++
		c.ranks = append(c.ranks, rank)
		if int(rank) == len(c.rounds) {
			c.rounds = append(c.rounds, 0)
		}
		c.rounds[rank]++
	}
	round, left := int32(0), limit // the round in which not all fit
	for left >= c.rounds[round] {
		left -= c.rounds[round]
		round++
	}
	k := 0
	for i := range c.picks {
		p := &c.picks[i]
		if p.from > from || from >= p.to {
			continue
		}
		rank := c.ranks[k]
		k++
		switch {
		case rank < round:
		case rank == round && left > 0:
			left--
		default:
			continue
		}
		c.take(i, from, to)
	}
}

// take adds columns [from, to) to those of a pick, which lie before.
func (c *chooser) take(i int, from, to int32) {
	p := &c.picks[i]
	if p.last != none && c.spans[p.last].to == from {
		c.spans[p.last].to = to
		return
	}
	n := int32(len(c.spans))
	c.spans = append(c.spans, span{from, to, none})
	if p.last == none {
		p.first = n
	} else {
		c.spans[p.last].next = n
	}
	p.last = n
}

// once takes from a supplementary segment the columns that another segment of its
// read shows: one that isn't supplementary, or comes first in canonical order.
// Segments of a read are neighbours in that order.
func (c *chooser) once(x *reads, i int) {
	own := &x.table[c.picks[i].number]
	for _, step := range []int{-1, 1} {
		for j := i + step; j >= 0 && j < len(c.picks); j += step {
			other := &x.table[c.picks[j].number]
			if !other.key.sameRead(own.key) {
				break
			}
			if step > 0 && other.is(readSupplementary) {
				continue
			}
			for s := c.picks[j].first; s != none; s = c.spans[s].next {
				c.cut(i, c.spans[s].from, c.spans[s].to)
			}
		}
	}
}

// cut takes columns [from, to) from a pick.
func (c *chooser) cut(i int, from, to int32) {
	s := c.picks[i].first
	c.picks[i].first, c.picks[i].last = none, none
	for s != none {
		old := c.spans[s]
		s = old.next
		if left := min(old.to, from); old.from < left {
			c.take(i, old.from, left)
		}
		if right := max(old.from, to); right < old.to {
			c.take(i, right, old.to)
		}
	}
}

// rest makes the region, of which all calls are final, as small as it can be while
// late reads can still amend them.
func (r *Region) rest() {
	if slices.ContainsFunc(r.tiles, func(t tile) bool { return int(t.reads) > r.cfg.MaxDepth }) {
		r.cull()
	}
	r.reads.rest()
	r.publishing.rest()
}

// cull lets go of the reads that no column has capacity for. Those that only another
// segment of their read keeps out stay: it may be let go of itself. Reads that go on
// keep none out, as they may not be here at the end, and stay.
func (r *Region) cull() {
	c := &r.work.chooser
	wanted := make([]bool, len(r.reads.table))
	for t := range r.tiles {
		lo, hi := r.columns(t)
		c.limit(r.reads.ended(), &r.reads, r.reach(), lo, hi, r.cfg.MaxDepth)
		for _, p := range c.picks {
			if p.first != none {
				wanted[p.number] = true
			}
		}
	}
	for n := range r.reads.table {
		wanted[n] = wanted[n] || r.reads.table[n].is(readPartial)
	}
	r.reads.drop(wanted)
	r.reads.survived = r.reads.kept
}
