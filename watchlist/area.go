package watchlist

import (
	"cmp"
	"slices"

	"github.com/porestream/porestream/vrs"
)

// chunkBases bounds the stretches that an area is kept in: the bases to evaluate again when the depth of a stretch
// changes.
const chunkBases = 4096

// span is a stretch of a contig: 0-based, half open, not empty.
type span struct {
	contig     string
	start, end int
}

func compareSpans(a, b span) int {
	return cmp.Or(cmp.Compare(a.contig, b.contig), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
}

// area is a set of positions, the same whatever stretches it was made of.
type area struct {
	chunks    []span // disjoint, in order, of at most chunkBases
	positions int
}

// newArea is the union of spans.
func newArea(spans []span) *area {
	a := &area{}
	for _, s := range union(spans) {
		a.positions += s.end - s.start
		for at := s.start; at < s.end; at += chunkBases {
			a.chunks = append(a.chunks, span{s.contig, at, min(at+chunkBases, s.end)})
		}
	}
	return a
}

// union sorts spans and joins those that overlap or touch.
func union(spans []span) []span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, compareSpans)
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].contig == s.contig && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// intersect is what two unions share.
func intersect(a, b []span) []span {
	var out []span
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if a[i].contig == b[j].contig {
			if s := (span{a[i].contig, max(a[i].start, b[j].start), min(a[i].end, b[j].end)}); s.start < s.end {
				out = append(out, s)
			}
		}
		if cmp.Or(cmp.Compare(a[i].contig, b[j].contig), cmp.Compare(a[i].end, b[j].end)) < 0 {
			i++
		} else {
			j++
		}
	}
	return out
}

// wrapped cuts a stretch of a circular contig of that length, which may go on behind its end, into ones that do not.
func wrapped(s span, length int) []span {
	switch {
	case s.end <= length:
		return []span{s}
	case s.start >= length:
		return []span{{s.contig, s.start - length, s.end - length}}
	}
	return []span{{s.contig, s.start, length}, {s.contig, 0, s.end - length}}
}

// touched are the bases of seq that the replacement of ref, at 0-based pos, by alt concerns in any of its spellings:
// for a deletion or an insertion the whole region in which it may be placed, at least the two bases beside an
// insertion.
func touched(seq []byte, pos int, ref, alt string) (start, end int, err error) {
	a, err := vrs.Normalize(seq, pos, ref, alt)
	if err != nil {
		return 0, 0, err
	}
	if a.Start < a.End {
		return a.Start, a.End, nil
	}
	return max(0, a.Start-1), min(len(seq), a.End+1), nil
}

// interval is an entry of an index.
type interval struct {
	start, end int
	reach      int // the greatest end in the subtree
	id         int32
}

// index finds the intervals of one contig that overlap another: a balanced tree laid out in the order of the starts.
type index []interval

// newIndex sorts intervals into an index.
func newIndex(list []interval) index {
	slices.SortFunc(list, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id))
	})
	t := index(list)
	t.build()
	return t
}

func (t index) build() int {
	if len(t) == 0 {
		return 0
	}
	mid := len(t) / 2
	t[mid].reach = max(t[mid].end, t[:mid].build(), t[mid+1:].build())
	return t[mid].reach
}

// overlapping appends the ids of the intervals that share a base with [start,end) to dst.
func (t index) overlapping(dst []int32, start, end int) []int32 {
	for len(t) > 0 {
		mid := len(t) / 2
		root := &t[mid]
		if root.reach <= start {
			return dst
		}
		dst = t[:mid].overlapping(dst, start, end)
		if root.start >= end {
			return dst
		}
		if root.end > start {
			dst = append(dst, root.id)
		}
		t = t[mid+1:]
	}
	return dst
}
