package variant

import (
	"slices"
	"sort"
)

// batchBytes is the size from which on a batch of reads takes no more: small
// enough that what is written anew for a few reads is little, large enough that
// a deep region has not too many.
const batchBytes = 2 << 20

// history is the segments of a region in the order in which they were applied.
//
// Problem: a region's reads are nearly all of its state, and few of them are new
// from one snapshot to the next.
//
// Strategy: the segments are kept in batches by arrival. A batch that is full
// changes only if the cap on depth lets go of one of its reads for good, of which
// the key stays, so that it isn't applied again.
//
// Consequences: a snapshot costs what has come since the last one. The batches
// are a function of the sequence of segments, not of their set.
type history struct {
	limit   int // batchBytes
	entries []entry
	batches []batch
}

// entry is a segment that was applied.
type entry struct {
	key segmentKey
	seg *segment // nil: no tile has a piece of it any more
}

// batch is entries up to the next one's first.
type batch struct {
	first   int
	bytes   int // of its segments when they came
	version uint64
}

// add takes the next segment.
func (h *history) add(seg *segment, key segmentKey) {
	if n := len(h.batches); n == 0 || h.batches[n-1].bytes >= h.limit {
		h.batches = append(h.batches, batch{first: len(h.entries)})
	}
	seg.number = len(h.entries)
	h.entries = append(h.entries, entry{key, seg})
	last := &h.batches[len(h.batches)-1]
	last.bytes += seg.bytes()
	last.version++
}

// bytes is about what the segment takes.
func (s *segment) bytes() int { return len(s.readID) + len(s.ops) + len(s.bases) + len(s.bins) }

// drop forgets what a segment says.
func (h *history) drop(number int) {
	h.entries[number].seg = nil
	i := sort.Search(len(h.batches), func(i int) bool { return h.batches[i].first > number })
	h.batches[i-1].version++
}

// batch is the entries of a batch.
func (h *history) batch(i int) []entry {
	end := len(h.entries)
	if i+1 < len(h.batches) {
		end = h.batches[i+1].first
	}
	return h.entries[h.batches[i].first:end]
}

// release notes that a tile has no use for a segment any more.
func (r *Region) release(seg *segment) {
	if seg.held--; seg.held == 0 {
		r.history.drop(seg.number)
	}
}

// prune lets go of those of a tile's pieces that [matrix.load] would have, had it
// seen the first n in the order of their arrival, and puts the others into
// canonical order.
func (r *Region) prune(t, n int) {
	tile := &r.tiles[t]
	seen, young := tile.pieces[:n], tile.pieces[n:]
	slices.SortFunc(seen, func(a, b piece) int { return a.seg.compare(b.seg) })
	kept := seen
	if n > r.cfg.MaxDepth {
		m, limit := &r.work.scratch, int32(r.cfg.MaxDepth)
		m.clear(r, t)
		kept = seen[:0]
		for _, p := range seen {
			from, to := max(p.ref, m.lo)-m.lo, min(p.seg.end, m.hi)-m.lo
			if from < to && !m.wanted(from, to, limit) {
				p.seg.held--
				continue
			}
			kept = append(kept, p)
			if from < to {
				m.take(from, to, limit)
			}
		}
	}
	tile.pieces = slices.Concat(kept, young)
	slices.SortFunc(tile.pieces, func(a, b piece) int { return a.seg.compare(b.seg) })
}
