package variant

import (
	"cmp"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream/streampb"
)

// Span is a stretch of a contig, 0-based and half open.
type Span struct{ Start, End int }

// Targets are what panels watch on a contig.
type Targets struct {
	Spans []Span
	Named []Named // each begins in one of the spans
}

// coverage is what has been said about watched stretches: how deep they are, and how many
// reads show what panels name there, or something that nobody has called.
//
// Problem: that nothing was called means something only where enough reads would
// have shown it and few do, and the reads stay in the stage that calls.
//
// Strategy: reads are counted whenever a tile is evaluated, and that is said again when
// the depth of a position, or a count, has passed a power of two, or at the end.
//
// Consequences: revisions are a function of the sequence of segments, like those
// of calls, and grow with the logarithm of the depth; the counts of the last one
// are a function of the set of segments.
type coverage struct {
	tiles   map[int][]*watched // by tile, by position within
	pending []*streampb.Coverage
}

// watched is the last revision about a stretch within one tile.
type watched struct {
	span  Span
	named []Named            // that begin there, by position and name
	said  *streampb.Coverage // nil: nothing yet
}

// SetTargets makes the region say how deep parts of its contig are covered, and how many reads
// show what is named there; see [Region.Coverage]. What lies outside its core is left to
// other regions. It replaces the targets before and belongs before the first segment.
func (r *Region) SetTargets(targets Targets) {
	r.coverage = coverage{tiles: make(map[int][]*watched)}
	named := slices.SortedFunc(slices.Values(targets.Named), compareNamed)
	for _, s := range Union(targets.Spans) {
		for at := max(s.Start, r.start); at < min(s.End, r.end); {
			t := r.tileAt(at)
			end := min(s.End, r.tileEnd(t))
			first, _ := slices.BinarySearchFunc(named, at, func(n Named, at int) int { return cmp.Compare(n.Pos, at) })
			last, _ := slices.BinarySearchFunc(named, end, func(n Named, at int) int { return cmp.Compare(n.Pos, at) })
			r.coverage.tiles[t] = append(r.coverage.tiles[t], &watched{span: Span{at, end}, named: named[first:last]})
			at = end
		}
	}
}

func compareNamed(a, b Named) int {
	return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Name, b.Name))
}

// Union is the positions of spans as disjoint spans, ascending.
func Union(spans []Span) []Span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b Span) int { return a.Start - b.Start })
	out := sorted[:0]
	for _, s := range sorted {
		switch last := len(out) - 1; {
		case s.Start >= s.End:
		case last >= 0 && s.Start <= out[last].End:
			out[last].End = max(out[last].End, s.End)
		default:
			out = append(out, s)
		}
	}
	return out
}

// Coverage returns the revisions about watched stretches that follow from the
// Evaluate or Finalize before, by position. Stretches without a read are never
// mentioned.
func (r *Region) Coverage() []*streampb.Coverage {
	out := r.coverage.pending
	r.coverage.pending = nil
	slices.SortStableFunc(out, func(a, b *streampb.Coverage) int { return int(a.GetStart() - b.GetStart()) })
	return out
}

// survey makes the next revisions of the watched stretches of tiles from the reads, where a
// change is worth one. It is given what is called there. final asks for a revision even if
// nothing has passed a power of two.
func (r *Region) survey(tiles []evaluatedTile, final bool) {
	var model *errorModel
	m := &r.work.scratch
	for i := range tiles {
		t := tiles[i].tile
		stretches := r.coverage.tiles[t]
		if len(stretches) == 0 {
			continue
		}
		if model == nil {
			model = r.errorModel()
		}
		m.load(r, t)
		r.work.counts = m.pileup(r.work.counts)
		r.work.depth = m.usable(&r.work.aligner, r.contig.Seq, r.work.depth)
		standing, proposed := r.standing(t), r.propose(m, model)
		for _, w := range stretches {
			next := &streampb.Coverage{
				Sample: r.cfg.Sample, Contig: r.contig.Name, Start: int64(w.span.Start), End: int64(w.span.End), Final: r.final || final,
				Counted: true, Shown: r.carriers(m, model, w, proposed, standing),
			}
			next.Lengths, next.Depths = blocks(r.work.depth[w.span.Start-m.lo : w.span.End-m.lo])
			if !worthSaying(w.said, next, final) {
				continue
			}
			if s := m.newest(w.span.Start-m.lo, w.span.End-m.lo); s != nil {
				next.Run = s.run
			}
			next.Revision = w.said.GetRevision() + 1
			w.said = next
			r.coverage.pending = append(r.coverage.pending, proto.CloneOf(next))
		}
	}
}

// worthSaying reports whether next is worth a revision after said.
func worthSaying(said, next *streampb.Coverage, exact bool) bool {
	same := slices.Equal(said.GetLengths(), next.GetLengths()) && slices.Equal(said.GetDepths(), next.GetDepths()) &&
		slices.EqualFunc(said.GetShown(), next.GetShown(), func(a, b *streampb.Shown) bool { return proto.Equal(a, b) })
	switch {
	case said == nil:
		return exact || slices.ContainsFunc(next.GetDepths(), func(d uint32) bool { return d > 0 })
	case exact:
		return !same || said.GetFinal() != next.GetFinal()
	}
	return !same && (passedPowerOfTwo(said, next) || showsOther(said.GetShown(), next.GetShown()))
}

// showsOther reports whether other alleles are listed, or the number of reads that show one has
// passed a power of two.
func showsOther(a, b []*streampb.Shown) bool {
	return !slices.EqualFunc(a, b, func(a, b *streampb.Shown) bool {
		return a.GetNamed() == b.GetNamed() && a.GetPos() == b.GetPos() && a.GetRef() == b.GetRef() && a.GetAlt() == b.GetAlt() &&
			bits.Len32(a.GetForward()+a.GetReverse()) == bits.Len32(b.GetForward()+b.GetReverse())
	})
}

// passedPowerOfTwo reports whether the depth of any position has.
func passedPowerOfTwo(a, b *streampb.Coverage) bool {
	for i, j, left, right := 0, 0, uint32(0), uint32(0); ; {
		if left == 0 {
			if i == len(a.GetLengths()) {
				return false
			}
			left, i = a.GetLengths()[i], i+1
		}
		if right == 0 {
			right, j = b.GetLengths()[j], j+1
		}
		if bits.Len32(a.GetDepths()[i-1]) != bits.Len32(b.GetDepths()[j-1]) {
			return true
		}
		n := min(left, right)
		left, right = left-n, right-n
	}
}

// blocks run-length encodes depths.
func blocks(depth []int32) (lengths, depths []uint32) {
	for i, d := range depth {
		if i > 0 && d == depth[i-1] {
			lengths[len(lengths)-1]++
			continue
		}
		lengths, depths = append(lengths, 1), append(depths, uint32(d))
	}
	return lengths, depths
}

// usable counts, per column, the reads that [Region.test] would put a
// substitution there to: those that span its window. Columns whose window the
// matrix doesn't hold, or in which no allele can be distinguished, have none.
func (m *matrix) usable(g *realigner, ref []byte, depth []int32) []int32 {
	width := m.hi - m.lo
	depth = append(depth[:0], make([]int32, width+1)...)
	for i := range m.rows {
		w := &m.rows[i]
		long := w.inserted() > 3*windowWidth // only then may a window's bases exceed the realigner's limit
		for from := w.from; from < w.to; {
			if w.code[from] == absent {
				from++
				continue
			}
			to := w.to
			if w.capped {
				for to = from; to < w.to && w.code[to] != absent; {
					to++
				}
			}
			first, last := from+flank, to-flank // columns whose window lies within
			if from == 0 {
				first = 0
			}
			if to == width {
				last = width
			}
			switch {
			case long:
				for c := first; c < last; c++ {
					if g.setQuery(w, max(0, c-flank), min(width, c+1+flank)) {
						depth[c]++
						depth[c+1]--
					}
				}
			case first < last:
				depth[first]++
				depth[last]--
			}
			from = to
		}
	}
	for c := 1; c < width; c++ { // until now, differences
		depth[c] += depth[c-1]
	}
	for c := range width {
		if baseCode[ref[m.lo+c]] > 3 {
			clear(depth[max(0, c-flank):min(width, c+1+flank)])
		}
	}
	return depth[:width]
}

// windowWidth is how many positions a substitution is evaluated with.
const windowWidth = 2*flank + 1

// inserted counts the bases of the row's insertions.
func (w *row) inserted() int {
	n := 0
	for _, ins := range w.ins {
		n += len(ins.seq)
	}
	return n
}

// newest is the newest read in columns [from, to); the first in canonical order
// of equals.
func (m *matrix) newest(from, to int) *segment {
	var newest *segment
	for i := range m.rows {
		w := &m.rows[i]
		if newest != nil && w.seg.lastChunk <= newest.lastChunk {
			continue
		}
		lo, hi := max(from, w.from), min(to, w.to)
		if lo < hi && slices.ContainsFunc(w.code[lo:hi], func(code byte) bool { return code != absent }) {
			newest = w.seg
		}
	}
	return newest
}
