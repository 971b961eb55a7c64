package variant

import (
	"cmp"
	"slices"
)

// painting is what a network is shown of the reads at an allele with others beside it on
// the same haplotype: each read as if the allele were the only change there.
//
// Strategy: a read is aligned to the haplotype that it fits best. What it has otherwise
// than that stays, at the column of the reference that belongs to it; of what the
// haplotype has otherwise than the reference, the allele alone is shown, or, if that is
// complex, the most doubtful part of it.
type painting struct {
	lo, hi     int // reference interval
	haplotypes *lattice
	alleles    []candidate // of the lattice's sets
	focus      int         // the allele that is shown
	shown      []int       // haplotype by read, as in candidate.reads
	// changes are the simple changes of haplotypes, by position, once they have been asked for. The
	// alleles of a cluster share them: dozens of reads fit each haplotype.
	changes [][]candidate
}

// changesOf are those of a haplotype, which has some.
func (p *painting) changesOf(haplotype int) []candidate {
	if p.changes[haplotype] == nil {
		p.changes[haplotype] = changesOf(p.haplotypes.members(p.alleles, haplotype))
	}
	return p.changes[haplotype]
}

// row is the i-th read of c as a network is shown it; it holds until the next call.
func (e *encoder) row(c *candidate, i int) *row {
	w, p := &e.m.rows[c.reads[i].row], c.paint
	if p == nil {
		return w
	}
	set := p.haplotypes.sets[p.shown[i]]
	focus := &p.alleles[p.focus]
	if set == 0 || set == 1<<p.focus && !focus.isComplex() {
		return w
	}
	g := &e.work.aligner
	lo, hi := p.lo-e.m.lo, p.hi-e.m.lo
	if !g.setQuery(w, lo, hi) {
		return w
	}
	e.spellColumns(p.changesOf(p.shown[i]), lo, hi)
	e.where = e.work.voter.trace(e.where, e.hap, g.query)
	e.copyAsReference(w, lo, hi)
	d, view := &e.painted, focus.likest()
	visible := set&(1<<p.focus) != 0
	e.paintDifferences(view, visible, lo)
	if visible && view.indel {
		if view.from == view.to {
			d.ins = append(d.ins, insertion{after: view.from - 1 - e.m.lo, seq: []byte(view.seq)})
		}
		for column := view.from - e.m.lo; column < view.to-e.m.lo; column++ {
			d.code[column], d.qual[column] = deleted, noQuality
		}
	}
	slices.SortStableFunc(d.ins, func(a, b insertion) int { return cmp.Compare(a.after, b.after) })
	return d
}

// spellColumns spells a haplotype between two columns, and says which column each of its bases
// belongs to; -1: none.
func (e *encoder) spellColumns(changes []candidate, lo, hi int) {
	hap, columns := e.hap[:0], e.columns[:0]
	at := lo
	keep := func(to int) {
		for ; at < to; at++ {
			hap, columns = append(hap, e.m.ref[at]), append(columns, at)
		}
	}
	for n := range changes {
		ch := &changes[n]
		keep(ch.from - e.m.lo)
		for k := range len(ch.seq) {
			column := -1
			if !ch.indel {
				column = ch.from - e.m.lo
			}
			hap, columns = append(hap, baseCode[ch.seq[k]]), append(columns, column)
		}
		at = ch.to - e.m.lo
	}
	keep(hi)
	e.hap, e.columns = hap, columns
}

// copyAsReference begins the painted row as a copy of the read that matches the reference between two columns.
func (e *encoder) copyAsReference(w *row, lo, hi int) {
	d := &e.painted
	width := len(w.code)
	d.code, d.qual = slices.Grow(d.code[:0], width)[:width], slices.Grow(d.qual[:0], width)[:width]
	d.seg, d.from, d.to, d.capped = w.seg, w.from, w.to, w.capped
	copy(d.code, w.code)
	copy(d.qual, w.qual)
	copy(d.code[lo:hi], e.m.ref[lo:hi])
	class := e.class(w)
	setAll(d.qual[lo:hi], class)
	d.ins = d.ins[:0]
	for _, in := range w.ins {
		if in.after < lo || in.after >= hi-1 {
			d.ins = append(d.ins, in)
		}
	}
}

// paintDifferences paints, from column lo on, what the read has otherwise than its haplotype: the
// haplotype's other changes are hidden, and that of the allele in question is only if it isn't visible.
func (e *encoder) paintDifferences(view *candidate, visible bool, lo int) {
	d, g := &e.painted, &e.work.aligner
	next, before := int32(0), lo-1 // base of the read; column of the base before it
	for j, column := range e.columns {
		x := e.where[j]
		if column < 0 {
			next = max(next, x+1) // bases that are inserted
			continue
		}
		own := column == view.from-e.m.lo && e.hap[j] != e.m.ref[column]
		hidden := !own && e.hap[j] != e.m.ref[column]
		switch {
		case x < 0:
			if !hidden && (!own || visible) {
				d.code[column], d.qual[column] = deleted, noQuality
			}
		default:
			if x > next && before >= lo {
				d.ins = append(d.ins, insertion{after: before, seq: []byte(letters(g.query[next:x]))})
			}
			if b := g.query[x]; b != e.m.ref[column] && (!hidden || b != e.hap[j]) && (!own || visible) {
				d.code[column], d.qual[column] = b, g.bins[x]
			}
			next = x + 1
		}
		before = column
	}
}

// class is the quality of a read's bases that match.
func (e *encoder) class(w *row) byte {
	for c := w.from; c < w.to; c++ {
		if w.qual[c] >= firstClass {
			return w.qual[c]
		}
	}
	return firstClass
}
