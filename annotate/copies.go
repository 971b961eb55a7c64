package annotate

import (
	"strings"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/genome"
)

// longCopy is the number of bases from which on a copy that a description gives as a range of the reference stays a range: the
// nomenclature has it so for larger insertions, and nobody reads thousands of bases. That is the size from which on
// variants are called structural.
const longCopy = 50

// seedLength is the number of bases in the middle of a copied range by which it is found again.
const seedLength = 32

// maxPlaces bounds the places of a seed that are examined: in a long run of one unit there are as many as it has bases. Where
// there are more, other bases beside the run are spelt out with it.
const maxPlaces = 100

// copies are the stretches of the contig that changes copy, those that are long. The changes are resolved already.
func (n *Normalizer) copies(on *numbering, changes []hgvs.Change) []Span {
	if on.t != nil && on.t.track.circle > 0 {
		return nil
	}
	var list []Span
	for _, c := range changes {
		for _, p := range c.New {
			if p.Location == nil {
				continue
			}
			of, err := n.source(on, p)
			if err != nil || of.contig != on.contig {
				continue
			}
			if start, end, err := of.interval(*p.Location); err == nil && end-start >= longCopy {
				list = append(list, Span{start, end})
			}
		}
	}
	return list
}

// copied is a piece of an inserted sequence that the contig has, too.
type copied struct {
	at, start, end int // in the sequence; on the contig
	inverted       bool
}

// findCopy is the longest of the pieces of alt by which it can be a copy of a span, perhaps without some bases at its ends
// that belong elsewhere in normal form. It depends on alt and on the bases of the contig alone, so that a span which comes
// of it gives the same. ok is false if no piece is long.
func findCopy(of *genome.Contig, alt string, spans []Span) (best copied, ok bool) {
	for _, span := range spans {
		c, found := findSpan(of, alt, span)
		if found && (!ok || c.end-c.start > best.end-best.start) {
			best, ok = c, true
		}
	}
	return best, ok && best.end-best.start >= longCopy
}

// findSpan is what findCopy finds for one span: the longest piece that has all of it, and if there is none the longest that
// has its middle.
func findSpan(of *genome.Contig, alt string, span Span) (best copied, ok bool) {
	middle := (span.Start + span.End - seedLength) / 2
	seed := of.Text(middle, middle+seedLength)
	whole := false
	for _, inverted := range []bool{false, true} {
		want, before := seed, middle-span.Start
		if inverted {
			want, before = reverseComplement(want), span.End-middle-seedLength
		}
		if before+seedLength <= len(alt) && alt[before:before+seedLength] == want {
			c := extend(of, alt, copied{before, middle, middle + seedLength, inverted})
			if c.end-c.start == len(alt) {
				return c, true // nothing else is put in
			}
		}
		for from, places := 0, 0; ; from, places = from+1, places+1 {
			i := strings.Index(alt[from:], want)
			if i < 0 {
				break
			}
			if places == maxPlaces {
				return copied{}, false
			}
			from += i
			c := extend(of, alt, copied{from, middle, middle + seedLength, inverted})
			all := c.start <= span.Start && c.end >= span.End
			if !ok || all && !whole || all == whole && c.end-c.start > best.end-best.start {
				best, ok, whole = c, true, all
			}
		}
	}
	return best, ok
}

// extend makes c as long as alt and the contig agree.
func extend(of *genome.Contig, alt string, c copied) copied {
	last := c.at + c.end - c.start // behind c in alt
	// pair reports whether base i of alt is what the copy has where the contig has base j.
	pair := func(i, j int) bool {
		if i < 0 || i >= len(alt) || j < 0 || j >= of.Len() {
			return false
		}
		if c.inverted {
			return alt[i] == complement[of.At(j)]
		}
		return alt[i] == of.At(j)
	}
	if c.inverted {
		for pair(c.at-1, c.end) {
			c.at, c.end = c.at-1, c.end+1
		}
		for pair(last, c.start-1) {
			last, c.start = last+1, c.start-1
		}
		return c
	}
	for pair(c.at-1, c.start-1) {
		c.at, c.start = c.at-1, c.start-1
	}
	for pair(last, c.end) {
		last, c.end = last+1, c.end+1
	}
	return c
}

// copyIn is the piece of what d puts in that n gives as a copy of one of the spans; ok is false if there is none.
func (n *numbering) copyIn(d *described, spans []Span) (c copied, ok bool) {
	if d.kind != hgvsInsertion && d.kind != hgvsDelins || len(d.alt) < longCopy || len(spans) == 0 {
		return copied{}, false
	}
	c, ok = findCopy(n.contig, d.alt, spans)
	return c, ok && n.nameable(c.start, c.end)
}

// kept are the spans that the description of an allele gives as copies.
func (n *numbering) kept(a resolved) []Span {
	var list []Span
	for _, c := range a.changes {
		if len(a.copies) == 0 || c.v == nil {
			continue
		}
		d, err := n.place(n.t.sees(c.v))
		if err != nil {
			continue
		}
		if c, ok := n.copyIn(&d, a.copies); ok {
			list = append(list, Span{c.start, c.end})
		}
	}
	return list
}

// appendCopied appends alt, new bases of the contig's strand, as the description reads them, c by the positions of what it is
// a copy of.
func (n *numbering) appendCopied(b []byte, alt string, c copied) []byte {
	before, after := alt[:c.at], alt[c.at+c.end-c.start:]
	first, last := c.start, c.end-1
	if !n.forward() {
		before, after = reverseComplement(after), reverseComplement(before)
		first, last = last, first
	}
	list := before != "" || after != ""
	if list {
		b = append(b, '[')
	}
	if before != "" {
		b = append(append(b, before...), ';')
	}
	b = n.appendPosition(b, first)
	b = n.appendPosition(append(b, '_'), last)
	if c.inverted {
		b = append(b, "inv"...)
	}
	if after != "" {
		b = append(append(b, ';'), after...)
	}
	if list {
		b = append(b, ']')
	}
	return b
}

// nameable reports whether a range of positions means the bases [start,end) of the contig where a description copies it.
func (n *numbering) nameable(start, end int) bool {
	t := n.t
	switch {
	case t == nil:
		return true
	case t.slipsBack():
		return false
	case n.onGenome && n.kind == 'c':
		return true
	}
	return start >= t.start && end <= t.end && n.spliced(start, end) == n.bases(start, end)
}

// slipsBack reports whether the ribosome reads some bases of t twice.
func (t *transcript) slipsBack() bool {
	for i := 1; i < len(t.cds); i++ {
		if a, b := t.cds[i-1], t.cds[i]; a.start < b.end && b.start < a.end {
			return true
		}
	}
	return false
}
