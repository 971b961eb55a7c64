package annotate

import (
	"slices"

	"github.com/porestream/porestream/vrs"
)

// unroll moves the parts of a feature that come after the origin of its circular contig, of the given length, behind
// the parts that come before it. Most annotations write them so, with ends greater than the length; others begin again
// at 1.
func (f *feature) unroll(length int) {
	n := int32(length)
	all := [][]part{f.exons, f.cds, f.utrs, f.starts, f.stops, f.seleno}
	each := func(do func(p *part)) {
		for _, parts := range all {
			for i := range parts {
				do(&parts[i])
			}
		}
	}
	if pivot := f.pivot(length); pivot > 0 {
		each(func(p *part) {
			if p.end <= pivot {
				p.start, p.end = p.start+n, p.end+n
			}
		})
		f.joinCDS()
	}
	first := int32(2 * length)
	each(func(p *part) { first = min(first, p.start) })
	if first >= n {
		each(func(p *part) { p.start, p.end = p.start-n, p.end-n })
	}
	for i, m := range f.mature {
		if m.Start >= length && first >= n {
			f.mature[i] = Span{m.Start - length, m.End - length}
		}
	}
}

// pivot is a position between the parts of f after the origin and those before it; 0 if there are none after it, or
// they stand behind the contig's end already.
func (f *feature) pivot(length int) int32 {
	parts := slices.Concat(f.exons, f.cds, f.utrs, f.stops)
	slices.SortFunc(parts, func(x, y part) int { return int(x.start - y.start) })
	if len(parts) == 0 || parts[0].start > 0 && f.end <= length {
		return 0
	}
	var end, pivot, gap int32
	for i, p := range parts {
		if i > 0 && p.start-end > gap {
			gap, pivot = p.start-end, p.start
		}
		end = max(end, p.end)
	}
	if f.end > length && f.start >= 0 {
		return int32(f.start)
	}
	if parts[0].start == 0 && int(end) == length {
		return pivot
	}
	return 0
}

// sighting is a transcript in reach of a variant, and the variant as it lies beside or in it: on a circular contig it may
// be a turn further on, or before.
type sighting struct {
	t *transcript
	v *variant
}

// sightings appends the transcripts within reach of v to dst, each once. It takes memory of mem.
func (k *track) sightings(mem *workspace, dst []sighting, v *variant, reach int) []sighting {
	var near [32]*transcript
	if k.circle == 0 {
		for _, t := range k.overlapping(near[:0], &mem.found, v.start-reach, v.end+reach) {
			dst = append(dst, sighting{t, v})
		}
		return dst
	}
	distance := func(s sighting) int {
		if s.v.overlaps(s.t.start, s.t.end) {
			return -1
		}
		return max(0, s.t.start-s.v.end, s.v.start-s.t.end)
	}
	for _, turn := range [...]int{0, k.circle, -k.circle} {
		if !k.near(v.start+turn-reach, v.end+turn+reach) {
			continue
		}
		w := take(&mem.variants)
		*w = k.moved(v, turn)
		for _, t := range k.overlapping(near[:0], &mem.found, w.start-reach, w.end+reach) {
			s := sighting{t, w}
			if i := slices.IndexFunc(dst, func(o sighting) bool { return o.t == t }); i < 0 {
				dst = append(dst, s)
			} else if distance(s) < distance(dst[i]) {
				dst[i] = s
			}
		}
	}
	return dst
}

// near reports whether a transcript can share a base or an edge with [start,end].
func (k *track) near(start, end int) bool {
	n := len(k.transcripts)
	return n > 0 && k.transcripts[0].start <= end && k.reach[n-1] >= start
}

// turn is by how much the bases [start,end) of a circular contig must move to lie in t, which crosses its origin; 0 if
// they need not.
func (t *transcript) turn(start, end int) int {
	if t == nil {
		return 0
	}
	length := t.contig.Len() / 2
	if t.end <= length || t.track.circle == 0 || start >= t.start || end+length > t.end {
		return 0
	}
	return length
}

// sees is v as it lies in t.
func (t *transcript) sees(v *variant) *variant {
	if t == nil || t.track.circle == 0 || v.contig == t.contig {
		return v
	}
	w := t.track.moved(v, t.turn(v.start, v.end))
	return &w
}

// moved is v on the unrolled contig, moved by that many bases. An insertion or deletion may move across the origin
// there.
func (k *track) moved(v *variant, by int) variant {
	w := *v
	w.contig = k.unrolled
	w.start, w.end = v.start+by, v.end+by
	if v.fence != nil {
		w.fence = &Span{v.fence.Start + by, v.fence.End + by}
		return w
	}
	if v.kind != svNone || len(v.ref) > 0 && len(v.alt) > 0 || w.start < 0 {
		return w
	}
	return w.rolledOut()
}

// rolledOut is v, as far left as it can stand on its contig, with the number of bases that it can move right.
func (v *variant) rolledOut() variant {
	left, right := v.contig.Places(vrs.Edit{Start: v.start, Ref: v.ref, Alt: v.alt})
	w := *v
	w.start, w.end, w.ref, w.alt = left.Start, left.End(), left.Ref, left.Alt
	w.roll = right.Start - left.Start
	return w
}
