package watchlist

import (
	"cmp"
	"math"
	"slices"
)

// Coverage is one revision of how deep a stretch of a contig is covered in a sample, and of what the reads show there, over
// all of its runs so far. Where stretches overlap, the least depth counts, and what reads show most.
type Coverage struct {
	Run        string // of the newest read; may be ""
	Contig     string
	Start, End int          // 0-based, half open
	Blocks     []DepthBlock // what they leave out has no reads
	Shown      []Shown      // all that the panels name there, and else what enough reads show
	Revision   uint64       // grows with every revision of the stretch
	Final      bool         // the runs of the sample have ended; what decides is [Tracker.RunEnd]
}

// DepthBlock is a run of positions: 0-based, half open.
type DepthBlock struct {
	Start, End int
	Depth      int // the least number of usable reads
}

// window is the newest revision of a stretch.
type window struct {
	start, end int
	revision   uint64
	blocks     []DepthBlock
	shown      []Shown
}

func compareWindows(a, b window) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
}

// depths is the known coverage of one contig.
type depths struct {
	windows []window // by start and end
	longest int

	changes uint64
	newest  map[int]uint64 // the last of the changes, by stretch of chunkBases
}

// set takes a revision of a stretch; false if nothing changes.
func (d *depths) set(c *Coverage) bool {
	i, ok := slices.BinarySearchFunc(d.windows, window{start: c.Start, end: c.End}, compareWindows)
	next := window{c.Start, c.End, c.Revision, c.Blocks, c.Shown}
	if !ok {
		d.windows = slices.Insert(d.windows, i, next)
		d.longest = max(d.longest, c.End-c.Start)
		d.change(c.Start, c.End)
		return true
	}
	old := &d.windows[i]
	if c.Revision <= old.revision {
		return false
	}
	same, silent := slices.Equal(old.blocks, next.blocks), slices.Equal(old.shown, next.shown)
	*old = next
	if !same {
		d.change(c.Start, c.End)
	}
	return !same || !silent
}

// change notes that the depth of [start,end) is another one.
func (d *depths) change(start, end int) {
	if d.newest == nil {
		d.newest = make(map[int]uint64)
	}
	d.changes++
	for i := start / chunkBases; i <= (end-1)/chunkBases; i++ {
		d.newest[i] = d.changes
	}
}

// changed grows whenever the depth of a position in [start,end) changes.
func (d *depths) changed(start, end int) uint64 {
	newest := uint64(0)
	for i := start / chunkBases; i <= (end-1)/chunkBases; i++ {
		newest = max(newest, d.newest[i])
	}
	return newest
}

// unknown stands for a position that no stretch has covered.
const unknown = -1

// fill sets depth[i] to the depth of position start+i.
func (d *depths) fill(depth []int, start int) {
	for i := range depth {
		depth[i] = unknown
	}
	end := start + len(depth)
	first, _ := slices.BinarySearchFunc(d.windows, start-d.longest, func(w window, at int) int { return cmp.Compare(w.start, at) })
	for _, w := range d.windows[first:] {
		if w.start >= end {
			break
		}
		w.lower(depth, start)
	}
	for i := range depth {
		depth[i] = max(depth[i], 0)
	}
}

// lower takes the window's depths where they are less than the present ones.
func (w *window) lower(depth []int, start int) {
	at := max(w.start, start) // positions before it are done
	end := min(w.end, start+len(depth))
	least := func(from, to, d int) {
		for i := max(from, start); i < min(to, end); i++ {
			if depth[i-start] == unknown || d < depth[i-start] {
				depth[i-start] = d
			}
		}
	}
	for _, b := range w.blocks { // ascending, see Tracker.Coverage
		least(at, b.Start, 0)
		least(max(at, b.Start), b.End, b.Depth)
		at = max(at, b.End)
	}
	least(at, end, 0)
}

// covered sums up a chunk for a depth that is needed.
type covered struct {
	below          int // positions that are less deep
	worst, worstAt int // the least depth and its first position
	least          int // the least depth that is enough
}

// sumUp evaluates one chunk.
func (d *depths) sumUp(chunk span, needed int, buffer []int) covered {
	depth := buffer[:chunk.end-chunk.start]
	d.fill(depth, chunk.start)
	c := covered{worst: depth[0], worstAt: chunk.start, least: math.MaxInt}
	for i, n := range depth {
		if n < needed {
			c.below++
		} else {
			c.least = min(c.least, n)
		}
		if n < c.worst {
			c.worst, c.worstAt = n, chunk.start+i
		}
	}
	return c
}
