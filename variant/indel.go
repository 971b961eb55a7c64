package variant

import (
	"cmp"
	"slices"
	"strings"
)

const (
	maxIndel      = 50  // longest indel that is called, in bases
	maxTract      = 60  // longest repeat that an indel may slide in
	indelFlank    = 10  // reference bases on either side of the repeat that are realigned
	indelMinReads = 2   // reads with the very allele that make a candidate
	indelMinShare = 0.2 // and their share of the reads at the site
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
func (a indel) leftmost(ref []byte) indel {
	if a.del > 0 {
		for a.pos > 0 && ref[a.pos-1] == ref[a.pos-1+a.del] {
			a.pos--
		}
		return a
	}
	ins := []byte(a.ins)
	n := len(ins)
	rolled := 0
	for a.pos > 0 && ref[a.pos-1] == ins[(n-1-rolled%n+n)%n] {
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
func (r *Region) proposeIndels(out []candidate, m *matrix, model *errorModel) []candidate {
	seen := r.work.seen[:0]
	ref := r.contig.Seq
	for i := range m.rows {
		w := &m.rows[i]
		for c := w.from; c < w.to; c++ {
			if w.code[c] != deleted {
				continue
			}
			d := c
			for c < w.to && w.code[c] == deleted {
				c++
			}
			if c-d <= maxIndel && d > w.from && c < w.to {
				seen = append(seen, indel{pos: m.lo + d, del: c - d}.leftmost(ref))
			}
		}
		for _, in := range w.ins {
			if len(in.seq) <= maxIndel && !slices.Contains(in.seq, 'N') && w.code[in.after] != absent {
				seen = append(seen, indel{pos: m.lo + in.after + 1, ins: string(in.seq)}.leftmost(ref))
			}
		}
	}
	r.work.seen = seen
	slices.SortFunc(seen, indel.compare)
	for i := 0; i < len(seen); {
		j := i + 1
		for j < len(seen) && seen[j] == seen[i] {
			j++
		}
		n := j - i
		a := seen[i]
		i = j
		if n < indelMinReads || a.pos == 0 || a.pos <= m.lo || a.pos >= m.hi {
			continue
		}
		depth := int32(0)
		for _, strand := range r.work.counts[a.pos-m.lo] {
			for code := range deleted + 1 {
				depth += strand[code]
			}
		}
		if float64(n) >= indelMinShare*float64(depth) {
			if c, ok := a.candidate(ref, r.cfg.IndelRate); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// candidate is the allele as it is put to the reads.
func (a indel) candidate(ref []byte, prior float64) (candidate, bool) {
	slack := a.slack(ref)
	if slack > maxTract || hasAmbiguity(ref[a.pos-1:a.pos+a.del]) {
		return candidate{}, false
	}
	sys := indelSystematic(a.repeat(ref, slack))
	return candidate{
		pos: a.pos - 1, ref: string(ref[a.pos-1 : a.pos+a.del]), alt: string(ref[a.pos-1:a.pos]) + a.ins,
		from: a.pos, to: a.pos + a.del, seq: a.ins, start: a.pos, end: a.pos + a.del + slack, indel: true,
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
