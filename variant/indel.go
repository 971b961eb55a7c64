package variant

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"
)

const (
	maxIndel      = 50 // longest indel that is called, in bases
	maxTract      = 60 // longest repeat that an indel may slide in
	indelMinReads = 2  // reads with the very allele that make a candidate, if their share is enough
)

// indel is a pure insertion or deletion, leftmost: the reference bases
// [pos, pos+del) go, or ins comes before pos.
type indel struct {
	pos int
	del int
	ins string
}

func (a indel) compare(b indel) int {
	return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.del, b.del), strings.Compare(a.ins, b.ins))
}

// leftmost rolls a to the left end of the repeat it is in.
func (a indel) leftmost(ref []byte) indel { return a.leftmostFrom(ref, 0) }

// leftmostFrom is leftmost, but no further than to position least.
func (a indel) leftmostFrom(ref []byte, least int) indel {
	if a.del > 0 {
		for a.pos > least && ref[a.pos-1] == ref[a.pos-1+a.del] {
			a.pos--
		}
		return a
	}
	ins := []byte(a.ins)
	n := len(ins)
	rolled := 0
	for a.pos > least && ref[a.pos-1] == ins[(n-1-rolled%n+n)%n] {
		a.pos--
		rolled++
	}
	if k := rolled % n; k > 0 {
		a.ins = a.ins[n-k:] + a.ins[:n-k]
	}
	return a
}

// slack is how far a can roll to the right.
func (a indel) slack(ref []byte) int {
	n := 0
	if a.del > 0 {
		for a.pos+a.del+n < len(ref) && ref[a.pos+n] == ref[a.pos+a.del+n] {
			n++
		}
		return n
	}
	for a.pos+n < len(ref) && ref[a.pos+n] == a.ins[n%len(a.ins)] {
		n++
	}
	return n
}

// repeat is the length of the homopolymer that a changes, or its like in a repeat
// of longer units, where lengths go wrong less often.
func (a indel) repeat(ref []byte, slack int) int {
	unit := a.ins
	if a.del > 0 {
		unit = string(ref[a.pos : a.pos+a.del])
	}
	if strings.Trim(unit, unit[:1]) == "" {
		return max(1, slack+a.del)
	}
	return max(1, slack/2)
}

// proposeIndels appends the indels that enough reads show.
func (r *Region) proposeIndels(out []candidate, m *matrix) []candidate {
	seen, gaps := r.work.seen[:0], r.work.gaps[:0]
	ref := r.contig.Seq
	for i := range m.rows {
		w := &m.rows[i]
		own := len(gaps)
		for c := w.from; c < w.to; c++ {
			next := bytes.IndexByte(w.code[c:w.to], deleted)
			if next < 0 {
				break
			}
			c += next
			d := c
			for c < w.to && w.code[c] == deleted {
				c++
			}
			gaps = append(gaps, gap{i, d, c, d - c})
			if c-d <= maxIndel && d > w.from && c < w.to {
				seen = append(seen, indel{pos: m.lo + d, del: c - d}.leftmost(ref))
			}
		}
		for _, in := range w.ins {
			gaps = append(gaps, gap{i, in.after + 1, in.after + 1, len(in.seq)})
			if len(in.seq) <= maxIndel && !slices.Contains(in.seq, 'N') && w.code[in.after] != absent {
				seen = append(seen, indel{pos: m.lo + in.after + 1, ins: string(in.seq)}.leftmost(ref))
			}
		}
		slices.SortStableFunc(gaps[own:], func(a, b gap) int { return cmp.Compare(a.from, b.from) })
	}
	r.work.seen, r.work.gaps = seen, gaps
	for place := range r.work.places.of(seen, m) {
		insertions := 0
		for insertions < len(place) && place[insertions].del == 0 {
			insertions++
		}
		for _, alike := range [][]indel{place[:insertions], place[insertions:]} {
			if len(alike) >= indelMinReads {
				out = r.proposeAlike(out, m, alike)
			}
		}
	}
	return r.proposeLong(out, m, gaps)
}

// places is memory in which indels are sorted.
type places struct {
	sorted []indel
	ends   []int32
}

// of yields the sorted indels of each place within the columns of m where enough reads for a candidate have some.
// They are counted by column first: most are the error of a single read, and need no order.
func (p *places) of(seen []indel, m *matrix) iter.Seq[[]indel] {
	width := m.hi - m.lo
	within := func(a indel) bool { return a.pos > m.lo && a.pos < m.hi }
	p.ends = slices.Grow(p.ends[:0], width)[:width]
	clear(p.ends)
	total := int32(0)
	for _, a := range seen {
		if within(a) {
			p.ends[a.pos-m.lo]++
			total++
		}
	}
	end := int32(0)
	for col, n := range p.ends { // where they begin, for now
		p.ends[col] = end
		end += n
	}
	p.sorted = slices.Grow(p.sorted[:0], int(total))[:total]
	for _, a := range seen {
		if within(a) {
			next := &p.ends[a.pos-m.lo]
			p.sorted[*next] = a
			*next++
		}
	}
	return func(yield func([]indel) bool) {
		start := int32(0)
		for _, end := range p.ends {
			place := p.sorted[start:end]
			start = end
			if len(place) < indelMinReads {
				continue
			}
			if slices.SortFunc(place, indel.compare); !yield(place) {
				return
			}
		}
	}
}

// proposeAlike appends those of the insertions, or deletions, at a place that
// enough reads show, and the most frequent one if enough reads show any.
func (r *Region) proposeAlike(out []candidate, m *matrix, seen []indel) []candidate {
	pos, ref := seen[0].pos, r.contig.Seq
	depth := int32(0)
	for _, strand := range r.work.counts[pos-m.lo] {
		for code := range deleted + 1 {
			depth += strand[code]
		}
	}
	var strongest indel
	most := int32(0)
	for a, n := range distinct(seen) {
		if n > most {
			strongest, most = a, n
		}
	}
	for a, n := range distinct(seen) {
		if n < indelMinReads || !r.enough(pos, n, depth) && (a != strongest || !r.enough(pos, int32(len(seen)), depth)) {
			continue
		}
		if c, ok := a.candidate(ref, r.cfg.IndelRate); ok {
			out = append(out, c)
		}
	}
	return out
}

// distinct counts how often each of sorted indels occurs.
func distinct(sorted []indel) iter.Seq2[indel, int32] {
	return func(yield func(indel, int32) bool) {
		for i := 0; i < len(sorted); {
			j := i + 1
			for j < len(sorted) && sorted[j] == sorted[i] {
				j++
			}
			if !yield(sorted[i], int32(j-i)) {
				return
			}
			i = j
		}
	}
}

// candidate is the allele as it is put to the reads.
func (a indel) candidate(ref []byte, prior float64) (candidate, bool) {
	slack := a.slack(ref)
	if slack > maxTract || hasAmbiguity(ref[a.pos-1:a.pos+a.del]) {
		return candidate{}, false
	}
	run := a.repeat(ref, slack)
	sys := indelSystematic(run)
	return candidate{
		pos: a.pos - 1, ref: string(ref[a.pos-1 : a.pos+a.del]), alt: string(ref[a.pos-1:a.pos]) + a.ins,
		from: a.pos, to: a.pos + a.del, seq: a.ins, start: a.pos, end: a.pos + a.del + slack, indel: true, run: run,
		prior: prior, sys: [2]systematic{sys, sys.plus(referenceBias)},
	}, true
}

// indelSystematic: the longer the homopolymer, the more often reads agree on a
// wrong length.
func indelSystematic(run int) systematic {
	strand := [...]float64{2e-2, 7e-3, 3e-3, 7e-4, 7e-5}
	both := [...]float64{1e-3, 1e-4, 1e-5, 1e-6, 1e-7}
	f := [...]float64{1, 1, 1, 1.7, 3, 5, 10}[min(run, 6)]
	for i := range shares {
		strand[i] = min(0.1, strand[i]*f)
		both[i] = min(0.05, both[i]*f*f)
	}
	return systematic{[2][len(shares)]float64{strand, strand}, both}
}
