package variant

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vrs"
)

// Named is what a panel names: an allele, or a change of a protein, which several alleles
// make.
type Named struct {
	Name string
	// Pos is the 0-based position of its first base, which decides which tile reports it.
	Pos int
	// Alleles are what leads to it, each by itself; reads that show one of them are counted.
	Alleles []vrs.Edit
}

// count is the reads by strand that show something, and the reads of both strands
// that could show it.
type count struct {
	shows [2]int
	depth int
}

const (
	// maxRivals bounds the other gaps, and the other bases, at a place that named alleles are
	// compared with.
	maxRivals = 4
	// leastOdds are the log odds from which on an allele that no panel names is reported.
	leastOdds = -4.6
)

// carriers counts the reads that show what is named in a watched stretch of a tile, whose
// reads are in r.work.scratch. It also returns the other alleles that enough of them show and
// that are no part of a call that stands.
//
// Problem: an allele that nearly all reads carry can be missing among the calls, for the
// caller has filtered it, explained it by something beside it, or never proposed it.
//
// Strategy: reads are counted by their bases alone. For replaced bases these are the
// aligned columns; a read with a gap in or beside them, and gaps themselves, are realigned
// to the allele, to the reference, to the allele without each of its changes, and to the
// bases and the gaps that reads have there otherwise. Whatever a call explains, also by being wrong
// itself, is compared with the haplotype of the call.
//
// Consequences: counts are a function of the set of reads, and at the end of the calls
// that follow from them.
//
// proposed is what the columns show often enough for the caller to evaluate it.
func (r *Region) carriers(m *matrix, model *errorModel, w *watched, proposed []candidate, standing []vrs.Edit) []*streampb.Shown {
	var out []*streampb.Shown
	for i := range w.named {
		n := &w.named[i]
		c := r.countNamed(m, model, n)
		out = append(out, &streampb.Shown{
			Named: n.Name, Pos: int64(n.Pos) + 1, Forward: uint32(c.shows[0]), Reverse: uint32(c.shows[1]), Depth: uint32(c.depth),
		})
	}
	for _, a := range r.disagreeing(m, model, w.span, proposed) {
		c, ok := r.unexplained(m, model, &a, standing)
		if !ok {
			continue
		}
		out = append(out, &streampb.Shown{
			Pos: int64(a.pos) + 1, Ref: a.ref, Alt: a.alt, Forward: uint32(c.shows[0]), Reverse: uint32(c.shows[1]), Depth: uint32(c.depth),
		})
	}
	return out
}

// changed is an edit in normal form, gaps as far left as they go, and the reference
// positions that it changes in any of its places.
func changed(ref []byte, e vrs.Edit) (normal vrs.Edit, start, end int) {
	e = e.Trim()
	if len(e.Ref) > 0 && len(e.Alt) > 0 {
		return e, e.Start, e.End()
	}
	a := indel{pos: e.Start, del: len(e.Ref), ins: e.Alt}.leftmost(ref)
	return vrs.Edit{Start: a.pos, Ref: string(ref[a.pos : a.pos+a.del]), Alt: a.ins}, a.pos, a.pos + a.del + a.slack(ref)
}

// changeOf is an edit as haplotypes are spelled of.
func changeOf(e vrs.Edit) candidate { return candidate{from: e.Start, to: e.End(), seq: e.Alt} }

// countNamed counts the reads that show any allele of n.
func (r *Region) countNamed(m *matrix, model *errorModel, n *Named) (c count) {
	ref := r.contig.Seq
	lo, hi := math.MaxInt, 0
	replaced, longest, alleles := true, 0, make([]vrs.Edit, len(n.Alleles))
	for i, e := range n.Alleles {
		if len(e.Ref) == len(e.Alt) { // as it is, with the bases that stay
			alleles[i], lo, hi = e, min(lo, e.Start), max(hi, e.End())
			continue
		}
		var start, end int
		alleles[i], start, end = changed(ref, e)
		replaced, longest = false, max(longest, len(alleles[i].Ref), len(alleles[i].Alt))
		lo, hi = min(lo, start), max(hi, end)
	}
	from, to := max(lo-flank, m.lo), min(hi+flank, m.hi)
	switch {
	case len(alleles) == 0:
		return c
	case !replaced && (lo < m.lo || hi > m.hi || to-from > maxWindow || longest > maxIndel):
		return r.countLong(m, alleles)
	case lo < m.lo || hi > m.hi || hasAmbiguity(ref[from:to]):
		return c
	}
	var rows, doubtful []int
	g := &r.work.aligner
	for i := range m.rows {
		w := &m.rows[i]
		switch {
		case !g.setQuery(w, from-m.lo, to-m.lo):
		case replaced && w.plain(lo-1-m.lo, hi+1-m.lo):
			rows = append(rows, i)
		default:
			doubtful = append(doubtful, i)
		}
	}
	for _, i := range rows {
		w := &m.rows[i]
		c.depth++
		if slices.ContainsFunc(alleles, func(e vrs.Edit) bool { return w.spells(e, m.lo) }) {
			c.shows[strandIndex(w.seg.reverse)]++
		}
	}
	if len(doubtful) == 0 || to-from > maxWindow {
		return c
	}
	with, without := withAndWithout(alleles)
	for _, o := range m.spelled(rows, lo, hi) {
		without = append(without, []candidate{o})
	}
	var own [][]byte
	for _, h := range with {
		own = append(own, spell(ref, from, to, h))
	}
	gaps := r.rivals(m, lo, hi, alleles, c.shows[0]+c.shows[1])
	shows := func(h []candidate) bool { // the allele that is searched for, spelled otherwise
		seq := spell(ref, from, to, h)
		return slices.ContainsFunc(own, func(o []byte) bool { return bytes.Equal(o, seq) })
	}
	with, without = withGaps(with, gaps), slices.DeleteFunc(withGaps(slices.DeleteFunc(without, shows), gaps), shows)
	realigned := r.compare(m, model, from, to, doubtful, with, without)
	c.depth += realigned.depth
	for s := range c.shows {
		c.shows[s] += realigned.shows[s]
	}
	return c
}

// withAndWithout are the haplotypes that show one of the alleles each, and those that a read without
// them may be of: the reference, and each allele but for one of the changes that it is made of.
func withAndWithout(alleles []vrs.Edit) (with, without [][]candidate) {
	without = append(without, nil)
	for _, e := range alleles {
		with = append(with, []candidate{changeOf(e)})
		atoms := e.Atoms()
		for i := range atoms {
			if len(atoms) == 1 {
				break
			}
			var rest []candidate
			for j, a := range atoms {
				if j != i {
					rest = append(rest, changeOf(a))
				}
			}
			without = append(without, rest)
		}
	}
	return with, without
}

// withGaps is haplotypes, and each of them with each of some gaps that doesn't touch its
// changes.
func withGaps(haplotypes [][]candidate, gaps []candidate) [][]candidate {
	out := slices.Clone(haplotypes)
	for _, h := range haplotypes {
		for i := range gaps {
			g := &gaps[i]
			if !slices.ContainsFunc(h, func(c candidate) bool { return g.from <= c.to && c.from <= g.to }) {
				out = append(out, append(slices.Clone(h), *g))
			}
		}
	}
	return out
}

// plain reports whether a row has nothing but bases in columns [from, to), and no insertion
// between them.
func (w *row) plain(from, to int) bool {
	from, to = max(from, 0), min(to, len(w.code))
	for _, code := range w.code[from:to] {
		if code >= deleted {
			return false
		}
	}
	return !slices.ContainsFunc(w.ins, func(in insertion) bool { return in.after >= from && in.after < to-1 })
}

// spells reports whether a row's columns spell an allele that replaces bases; lo is the
// position of column 0.
func (w *row) spells(e vrs.Edit, lo int) bool {
	for i := range len(e.Alt) {
		if w.code[e.Start-lo+i] != baseCode[e.Alt[i]] {
			return false
		}
	}
	return true
}

// spelled are the bases in place of [lo, hi) that rows show most often, as changes.
func (m *matrix) spelled(rows []int, lo, hi int) []candidate {
	seen := make(map[string]int)
	for _, i := range rows {
		seen[letters(m.rows[i].code[lo-m.lo:hi-m.lo])]++
	}
	seqs := slices.DeleteFunc(slices.Sorted(maps.Keys(seen)), func(seq string) bool { return seen[seq] < minSupport || strings.Contains(seq, "N") })
	slices.SortStableFunc(seqs, func(a, b string) int { return cmp.Compare(seen[b], seen[a]) })
	var out []candidate
	for _, seq := range seqs[:min(len(seqs), maxRivals)] {
		out = append(out, candidate{from: lo, to: hi, seq: seq})
	}
	return out
}

// countLong counts the reads that show alleles too long to be realigned: that lack, or have
// more, at least half of the bases.
func (r *Region) countLong(m *matrix, alleles []vrs.Edit) (c count) {
	for i := range m.rows {
		w := &m.rows[i]
		spans, shows := false, false
		for _, e := range alleles {
			from, to := max(e.Start-flank-m.lo, 0), min(e.End()+flank-m.lo, m.hi-m.lo)
			if from >= to || w.from > from || w.to < to || slices.Contains(w.code[from:to], absent) {
				continue
			}
			spans = true
			lost, gained := 0, 0
			for col := from; col < to; col++ {
				if w.code[col] == deleted {
					lost++
				}
			}
			for _, in := range w.ins {
				if in.after >= from && in.after < to {
					gained += len(in.seq)
				}
			}
			seen := min(e.End(), m.hi) - max(e.Start, m.lo) // of what it replaces
			shows = shows || len(e.Ref) > len(e.Alt) && 2*(lost-gained) >= min(seen, len(e.Ref)-len(e.Alt)) ||
				len(e.Alt) > len(e.Ref) && 2*(gained-lost) >= len(e.Alt)-len(e.Ref)
		}
		if !spans {
			continue
		}
		c.depth++
		if shows {
			c.shows[strandIndex(w.seg.reverse)]++
		}
	}
	return c
}

// compare puts reads to haplotypes over [from, to), each a list of changes: those that fit
// one of the first list better than all of the second show what these have in common. Of
// haplotypes with the same bases the one of the second list counts.
func (r *Region) compare(m *matrix, model *errorModel, from, to int, rows []int, with, without [][]candidate) (c count) {
	g := &r.work.aligner
	g.begin(model)
	var seqs [][]byte
	add := func(haplotypes [][]candidate) {
		for _, h := range haplotypes {
			seq := spell(r.contig.Seq, from, to, h)
			if !slices.ContainsFunc(seqs, func(o []byte) bool { return bytes.Equal(o, seq) }) {
				seqs = append(seqs, seq)
				g.add(seq)
			}
		}
	}
	add(without)
	others := len(seqs)
	add(with)
	if len(seqs) == others {
		return c
	}
	for _, i := range rows {
		w := &m.rows[i]
		if !g.setQuery(w, from-m.lo, to-m.lo) {
			continue
		}
		costs := g.align(w.seg.reverse)
		llr := ratio(slices.Min(costs[:others]), slices.Min(costs[others:]), maxReadSupport)
		switch {
		case llr > informative:
			c.shows[strandIndex(w.seg.reverse)]++
			c.depth++
		case llr < -informative:
			c.depth++
		}
	}
	return c
}

// gapReads are the reads, by strand, that are aligned with a gap.
type gapReads struct {
	indel
	shows [2]int
}

// gapsOf lists the insertions and deletions that rows have in columns of [lo, hi), as far
// left as they go, with the reads that have them.
func (r *Region) gapsOf(m *matrix, lo, hi int) []gapReads {
	ref := r.contig.Seq
	var all []gapReads
	for i := range m.rows {
		w := &m.rows[i]
		note := func(a indel) {
			g := gapReads{indel: a.leftmost(ref)}
			g.shows[strandIndex(w.seg.reverse)] = 1
			all = append(all, g)
		}
		from, to := max(lo-m.lo, w.from, 1), min(hi-m.lo, w.to)
		for c := from; c < to; c++ {
			if w.code[c] != deleted {
				continue
			}
			d := c
			for c < w.to && w.code[c] == deleted {
				c++
			}
			if d > from && c-d <= maxIndel && c < w.to { // a gap that began before is counted where it began
				note(indel{pos: m.lo + d, del: c - d})
			}
		}
		for _, in := range w.ins {
			if in.after >= from-1 && in.after < to-1 && len(in.seq) <= maxIndel && !slices.Contains(in.seq, 'N') && w.code[in.after] != absent {
				note(indel{pos: m.lo + in.after + 1, ins: string(in.seq)})
			}
		}
	}
	slices.SortFunc(all, func(a, b gapReads) int { return a.compare(b.indel) })
	out := all[:0]
	for _, g := range all {
		if n := len(out); n > 0 && out[n-1].indel == g.indel {
			out[n-1].shows[0] += g.shows[0]
			out[n-1].shows[1] += g.shows[1]
		} else {
			out = append(out, g)
		}
	}
	return out
}

// rivals are the most frequent gaps in and beside [lo, hi), as changes. Of those that touch an
// allele only what more reads have than it: where most reads have the allele, a longer or a
// shorter gap in its place is the allele and an error beside it. plain is how many reads are
// known to show one of the alleles.
func (r *Region) rivals(m *matrix, lo, hi int, alleles []vrs.Edit, plain int) []candidate {
	gaps := slices.DeleteFunc(r.gapsOf(m, lo-flank, hi+flank), func(g gapReads) bool {
		return g.reads() < minSupport || g.pos+g.del+g.slack(r.contig.Seq) < lo-1 || g.pos > hi
	})
	own := plain
	for _, g := range gaps {
		if slices.ContainsFunc(alleles, func(e vrs.Edit) bool { return e.Start == g.pos && e.End() == g.pos+g.del && e.Alt == g.ins }) {
			own += g.reads()
		}
	}
	gaps = slices.DeleteFunc(gaps, func(g gapReads) bool {
		return g.reads() <= own && slices.ContainsFunc(alleles, func(e vrs.Edit) bool { return g.pos <= e.End() && e.Start <= g.pos+g.del })
	})
	slices.SortStableFunc(gaps, func(a, b gapReads) int { return cmp.Compare(b.reads(), a.reads()) })
	var out []candidate
	for _, g := range gaps[:min(len(gaps), maxRivals)] {
		out = append(out, candidate{from: g.pos, to: g.pos + g.del, seq: g.ins})
	}
	return out
}

// reads is how many have the gap.
func (g *gapReads) reads() int { return g.shows[0] + g.shows[1] }

// disagreement is an allele that no panel names, and the reads that show it.
type disagreement struct {
	candidate
	count
}

// disagreeing lists those of the proposed alleles with a base in span that enough reads
// show, by position.
//
// Problem: in noisy reads some wrong base or length is shown by a third of the reads in one
// place in a hundred, mostly on one strand or in a homopolymer.
//
// Strategy: each allele that the caller would evaluate is put to the reads alone, without
// whatever is beside it. Of a haploid sample it is left out if by the model of systematic
// errors the odds are more than a hundred to one against it; of others if it isn't likelier
// than nothing in any share of the molecules.
func (r *Region) disagreeing(m *matrix, model *errorModel, span Span, proposed []candidate) []disagreement {
	var out []disagreement
	for _, c := range proposed {
		if c.start > span.End || max(c.end, c.start+1) <= span.Start {
			continue
		}
		r.work.supports = r.work.supports[:0]
		c.ploidy = r.ploidy(c.pos)
		if !r.likely(m, model, &c) {
			continue
		}
		c.weigh(m, &r.work.evidence)
		if c.ploidy == Haploid && c.logOdds < leastOdds {
			continue
		}
		if r.enough(c.pos, int32(c.altReads[0]+c.altReads[1]), int32(c.depth)) {
			out = append(out, disagreement{c, count{c.altReads, c.depth}})
		}
	}
	slices.SortFunc(out, func(a, b disagreement) int { return a.compare(&b.candidate) })
	return slices.CompactFunc(out, func(a, b disagreement) bool { return a.compare(&b.candidate) == 0 })
}

// unexplained is how many reads show an allele beyond the calls that stand; false if too few
// for the caller to evaluate it.
func (r *Region) unexplained(m *matrix, model *errorModel, a *disagreement, standing []vrs.Edit) (count, bool) {
	ref := r.contig.Seq
	lo, hi := a.start, a.end
	var near []candidate
	for _, e := range standing {
		e, start, end := changed(ref, e)
		switch {
		case start >= a.end+flank || a.start-flank >= end:
			continue
		case slices.ContainsFunc(e.Atoms(), func(atom vrs.Edit) bool {
			atom, _, _ = changed(ref, atom)
			return atom.Start == a.from && atom.End() == a.to && atom.Alt == a.seq
		}):
			return count{}, false
		case max(hi, end)-min(lo, start) > maxWindow-2*flank || start < m.lo+1 || end > m.hi-1:
			if start < a.end && a.start < end { // in what a long event takes away
				return count{}, false
			}
			continue
		}
		lo, hi = min(lo, start), max(hi, end)
		near = append(near, changeOf(e))
	}
	from, to := max(lo-flank, m.lo), min(hi+flank, m.hi)
	if len(near) == 0 || hasAmbiguity(ref[from:to]) {
		return a.count, true
	}
	own := candidate{from: a.from, to: a.to, seq: a.seq}
	with, without := [][]candidate{{own}}, [][]candidate{nil, near}
	compatible, instead := []candidate{own}, false
	for _, o := range near {
		without = append(without, []candidate{o})
		if o.to < own.from || o.from > own.to {
			with, compatible = append(with, []candidate{own, o}), append(compatible, o)
		} else {
			instead = true
		}
	}
	rows := make([]int, len(m.rows))
	for i := range rows {
		rows[i] = i
	}
	c := r.compare(m, model, from, to, rows, append(with, compatible), without)
	n := c.shows[0] + c.shows[1]
	if instead && a.ploidy == Haploid && 2*n <= c.depth {
		return c, false // of two that exclude each other, one is there: the other is it and an error beside it
	}
	return c, n >= minSupport && r.enough(a.pos, int32(n), int32(c.depth))
}

// standing are the calls that stand in a tile and those beside it.
func (r *Region) standing(t int) []vrs.Edit {
	var out []vrs.Edit
	for i := max(0, t-1); i <= min(len(r.tiles)-1, t+1); i++ {
		for _, a := range r.publishing.alive(i) {
			out = append(out, vrs.Edit{Start: int(a.call.GetPos()) - 1, Ref: a.call.GetRef(), Alt: a.call.GetAlt()})
		}
	}
	return out
}
