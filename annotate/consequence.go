package annotate

import "github.com/porestream/porestream/genome"

// variant is a change of one contig, trimmed and left-aligned.
type variant struct {
	contig     *genome.Contig
	start, end int    // replaced bases; equal for an insertion
	ref, alt   string // forward strand
	roll       int    // by how many bases it can move right without changing the result
	// fence is the stretch of the contig that it may move and be described in, between other changes of the same
	// molecule; nil if there are none.
	fence *Span
	// mitochondrial says that the contig is a mitochondrial genome.
	mitochondrial bool
	place         *place

	// Of structural variants only, which have no ref and alt:
	kind    svKind
	symbol  string // name of the alteration
	precise bool   // its ends are known exactly
}

func (v *variant) insertion() bool { return v.start == v.end }

// substitution reports whether v replaces one base by another.
func (v *variant) substitution() bool { return len(v.ref) == 1 && len(v.alt) == 1 }

// overlaps reports whether v changes the bases [start,end); an insertion must lie between two of them.
func (v *variant) overlaps(start, end int) bool {
	if v.insertion() {
		return v.start > start && v.start < end
	}
	return v.start < end && v.end > start
}

// placed is v where its consequence for t is evaluated: its leftmost position, unless an insertion or deletion that
// could as well lie inside an exon stands across or beyond the exon's edge. Evaluated there it would seem to destroy a
// splice site that the changed sequence still has. VEP evaluates the leftmost position only.
func (v *variant) placed(t *transcript) *variant {
	if v.roll == 0 {
		return v
	}
	inside := 0 // an insertion inside an exon has one of its bases on either side
	if v.insertion() {
		inside = 1
	}
	best := -1
	for _, x := range t.exons {
		shift := max(0, x.start+inside-v.start)
		if shift <= v.roll && v.end+shift <= x.end-inside && (best < 0 || shift < best) {
			best = shift
		}
	}
	if best <= 0 {
		return v
	}
	w := *v
	w.start, w.end, w.roll = v.start+best, v.end+best, v.roll-best
	w.ref, w.alt = rotate(v.ref, best), rotate(v.alt, best)
	return &w
}

// regions calls f for each run of changed bases: more than one only if v replaces bases by as many others and some
// between stay the same.
func (v *variant) regions(f func(start, end int)) {
	if len(v.ref) != len(v.alt) || v.kind != svNone {
		f(v.start, v.end)
		return
	}
	for i := 0; i < len(v.ref); i++ {
		if v.ref[i] == v.alt[i] {
			continue
		}
		j := i + 1
		for j < len(v.ref) && v.ref[j] != v.alt[j] {
			j++
		}
		f(v.start+i, v.start+j)
		i = j
	}
}

// effect is what a variant does to one transcript or regulatory feature, or that it touches none.
type effect struct {
	t        *transcript // nil if it is on none
	r        *regulatory // nil if it is on none
	seen     *variant    // v as it lies on the contig of t, which is unrolled if it is circular; nil without t
	terms    termSet
	distance int  // bases to the transcript, if the variant lies outside
	whole    bool // the transcript is untouched, or concerned as a whole: positions in it say nothing
	picked   bool
	// inIntronOnly says that the variant, wherever it can stand, lies in one intron and away from its splice sites.
	inIntronOnly bool

	relevance  uint64 // of an effect on a transcript, its place among others: the lower, the earlier
	preference uint64 // its place in the order that picks one: the lower, the better

	exonFirst, exonLast     int // numbers of the exons touched, from 1; 0 if none
	intronFirst, intronLast int

	// Offsets of the replaced bases, half open; -1 where a bound lies in an intron or outside; see transcript.span.
	cdnaFrom, cdnaTo int
	cdsFrom, cdsTo   int

	codon *codonChange // nil unless the whole change lies in the coding sequence
	// lostStart: translation no longer starts where it did.
	lostStart bool
}

// codonChange is the change of the smallest window of whole codons that holds all changed bases.
type codonChange struct {
	first          int    // index of the window's first codon, from 0
	ref, alt       string // codons in transcript direction; alt may end in a part of a codon
	lead           int    // unchanged bases before the change
	refLen, altLen int    // changed bases
	refPep, altPep string // amino acids; a part of a codon reads X
}

// effectOn decides what v does to t; reach is the distance up to which the neighbourhood of a gene counts.
// e is a zero value, and keeps what it takes from w.
func (v *variant) effectOn(w *workspace, e *effect, t *transcript, upstream, downstream int) {
	e.t, e.cdnaFrom, e.cdnaTo, e.cdsFrom, e.cdsTo = t, -1, -1, -1, -1
	if !v.overlaps(t.start, t.end) {
		e.outside(v, upstream, downstream)
		e.whole = true
		return
	}
	if i := v.intronOf(t); i > 0 {
		e.inIntron(v, i)
		return
	}
	v = v.placed(t)
	switch {
	case v.start <= t.start && v.end >= t.end && v.loss():
		e.terms.add(transcriptAblation)
		e.whole = true
		return
	case v.kind != svNone:
		e.structural(v)
		return
	}
	inExon := e.exons(v)
	splice := e.introns(v)
	e.cdnaFrom, e.cdnaTo = t.span(t.exons, v.start, v.end)
	if t.cds == nil {
		e.nonCoding(v, inExon)
	} else {
		e.coding(w, v, inExon, splice.frameIntron)
		e.untranslated(v, inExon || splice.frameIntron)
	}
	e.finish()
}

// awayFromExons is how far from both ends of an intron a variant has no splice term: behind all windows of the terms, and
// behind what an insertion or deletion reads beside itself.
const awayFromExons = polypyrimidine + regionInIntron

// intronOf is the number of the intron of t that v lies in, wherever it can stand, away from the intron's ends; 0 if there is
// none. So it is with most variants of a genome that lie in a transcript, and little is left to decide about them.
func (v *variant) intronOf(t *transcript) int {
	if v.kind != svNone {
		return 0
	}
	n := t.exonsUpTo(v.start)
	if n == 0 || n == len(t.exons) {
		return 0
	}
	before, after := t.byPosition(n-1), t.byPosition(n)
	if v.start < before.end+awayFromExons || v.end+v.roll > after.start-awayFromExons {
		return 0
	}
	if t.forward {
		return n
	}
	return len(t.exons) - n
}

// inIntron adds the terms of a variant that lies in the given intron and away from its ends.
func (e *effect) inIntron(v *variant, number int) {
	e.inIntronOnly = true
	e.intronFirst, e.intronLast = number, number
	e.terms.add(intron)
	if e.t.cds == nil {
		e.nonCoding(v, false)
	}
	e.finish()
}

// nonCoding adds the terms of a transcript that is not translated.
func (e *effect) nonCoding(v *variant, inExon bool) {
	for _, m := range e.t.mature {
		if v.overlaps(m.Start, m.End) {
			e.terms = 1 << matureMiRNA // VEP asks no further
			return
		}
	}
	if inExon {
		e.terms.add(nonCodingExon)
	} else {
		e.terms.add(nonCodingTranscript)
	}
}

// finish adds the terms that the transcript alone decides, or that there is no other one.
func (e *effect) finish() {
	e.terms.addIf(e.t.decays, nmdTranscript)
	if e.terms == 0 {
		e.terms.add(codingTranscript)
	}
}

// outside classifies a variant beside the transcript.
func (e *effect) outside(v *variant, upstream, downstream int) {
	// As VEP has it, in 1-based closed coordinates, in which an insertion ends before it starts.
	first, last := v.start+1, v.end
	tFirst, tLast := e.t.start+1, e.t.end
	before := last < tFirst
	limit := downstream
	if before == e.t.forward {
		limit = upstream
	}
	if before && last < tFirst-limit || !before && first > tLast+limit {
		return
	}
	e.distance = min(abs(first-tFirst), abs(first-tLast), abs(last-tFirst), abs(last-tLast))
	if before == e.t.forward {
		e.terms.add(upstreamGene)
	} else {
		e.terms.add(downstreamGene)
	}
}

func abs(n int) int { return max(n, -n) }

// exons notes the exons touched, and reports whether there are any. An insertion at the edge of an exon touches it.
func (e *effect) exons(v *variant) bool {
	for i, x := range e.t.exons {
		if v.overlaps(x.start, x.end) || v.insertion() && v.start >= x.start && v.start <= x.end {
			if e.exonFirst == 0 {
				e.exonFirst = i + 1
			}
			e.exonLast = i + 1
		}
	}
	return e.exonFirst > 0
}

// untranslated adds the terms of untranslated regions.
func (e *effect) untranslated(v *variant, inExon bool) {
	if !inExon {
		return
	}
	t := e.t
	before := v.start < t.cdsStart && v.end > t.start
	after := v.end > t.cdsEnd && v.start < t.end
	if v.insertion() {
		before = v.start > t.start && v.start <= t.cdsStart
		after = v.start >= t.cdsEnd && v.start < t.end
	}
	if !t.forward {
		before, after = after, before
	}
	// A change that also removes bases outside the transcript touches untranslated sequence only if there is some.
	e.terms.addIf(before && t.hasUTR5(), fivePrimeUTR)
	e.terms.addIf(after && t.hasUTR3(), threePrimeUTR)
}

func (t *transcript) hasUTR5() bool {
	if t.forward {
		return t.start < t.cdsStart
	}
	return t.end > t.cdsEnd
}

func (t *transcript) hasUTR3() bool {
	if t.forward {
		return t.end > t.cdsEnd
	}
	return t.start < t.cdsStart
}
