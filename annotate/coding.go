package annotate

import (
	"bytes"
	"slices"
	"strings"
)

// coding adds the terms of the coding sequence.
func (e *effect) coding(w *workspace, v *variant, inExon, frameIntron bool) {
	t := e.t
	lo, hi := t.codingOverlap(v)
	if lo < 0 {
		if frameIntron && v.overlaps(t.cdsStart, t.cdsEnd) {
			e.terms.add(codingSequence)
		}
		return
	}
	e.cdsFrom, e.cdsTo = t.span(t.cds, v.start, v.end)
	if e.cdsFrom < 0 || e.cdsTo < 0 {
		e.partlyCoding(v, lo, hi)
		return
	}
	alt := v.alt
	if !t.forward {
		alt = reverseComplement(alt)
	}
	e.cdsFrom, e.cdsTo, alt = t.slipped(v, e.cdsFrom, e.cdsTo, alt)
	e.codon = take(&w.codons)
	t.codonChange(e.codon, e.cdsFrom, e.cdsTo, alt)
	e.peptideTerms(v, alt)
}

// codingOverlap is the interval of coding offsets that v touches, from the first to the last; -1 if it touches
// none. An insertion must lie strictly inside the coding sequence.
func (t *transcript) codingOverlap(v *variant) (lo, hi int) {
	if v.insertion() {
		at, _ := t.span(t.cds, v.start, v.end)
		if at <= t.pad || at >= t.cdsLen {
			return -1, -1
		}
		return at, at
	}
	lo, hi = -1, -1
	for _, s := range t.cds {
		start, end := max(s.start, v.start), min(s.end, v.end)
		if start >= end {
			continue
		}
		from, to := s.offset+start-s.start, s.offset+end-s.start
		if !t.forward {
			from, to = s.offset+s.end-end, s.offset+s.end-start
		}
		if lo < 0 {
			lo = from
		}
		hi = to
	}
	return lo, hi
}

// readsTwice reports whether v changes bases that the coding sequence has twice.
func (t *transcript) readsTwice(v *variant) bool {
	for i := 1; i < len(t.cds); i++ {
		if start, end := max(t.cds[i-1].start, t.cds[i].start), min(t.cds[i-1].end, t.cds[i].end); start < end && v.overlaps(start, end) {
			return true
		}
	}
	return false
}

// slipped widens a substitution of a base that the coding sequence has twice, where the ribosome slips back, to
// both of its copies.
func (t *transcript) slipped(v *variant, from, to int, alt string) (int, int, string) {
	if len(t.cds) < 2 || len(v.ref) != len(v.alt) {
		return from, to, alt
	}
	lo, hi := t.codingOverlap(v)
	if !t.readsTwice(v) {
		return from, to, alt
	}
	changed := t.appendCodingPart(nil, lo, hi)
	for i := range len(v.ref) {
		for _, s := range t.cds {
			pos := v.start + i
			if pos < s.start || pos >= s.end {
				continue
			}
			if t.forward {
				changed[s.offset+pos-s.start-lo] = v.alt[i]
			} else {
				changed[s.offset+s.end-1-pos-lo] = complement[v.alt[i]]
			}
		}
	}
	return lo, hi, string(changed)
}

// partlyCoding adds the terms of a change that removes coding bases together with bases of an intron, of an
// untranslated region or outside the transcript.
func (e *effect) partlyCoding(v *variant, lo, hi int) {
	t := e.t
	longer := len(v.alt) != len(v.ref)
	switch {
	case lo < 3 && t.startCodon && e.cdsFrom < 0 && !e.endsInIntron(v, true):
		if t.startKept(v, hi, longer) {
			e.terms.add(startRetained)
		} else {
			e.lostStart = true
			e.terms.add(startLost)
		}
	case hi > t.cdsLen-3 && t.hasStop() && e.cdsTo < 0 && !e.endsInIntron(v, false):
		if t.stopKept(v, lo) {
			e.terms.add(stopRetained)
		} else {
			e.terms.add(stopLost)
		}
	default:
		e.terms.add(codingSequence)
	}
}

// hasStop reports whether the coding sequence is complete at its end.
func (t *transcript) hasStop() bool {
	return !t.endNF && t.cdsLen%3 == 0 && t.reference(t.cdsLen/3-1) == '*'
}

// endsInIntron reports whether the first (or else the last) changed base in transcript direction lies in an
// intron.
func (e *effect) endsInIntron(v *variant, first bool) bool {
	pos := v.end - 1
	if first == e.t.forward {
		pos = v.start
	}
	return pos >= e.t.start && pos < e.t.end && e.t.locate(e.t.exons, pos) < 0
}

// startKept reports whether the bases up to coding offset hi, all of them replaced or moved by v, are there again
// right before what follows v: then translation starts as before. If the length does not change it is enough that
// the new first codon is a start codon.
func (t *transcript) startKept(v *variant, hi int, lengthChanges bool) bool {
	now := t.upTo(v, hi)
	if len(now) < hi {
		return false
	}
	if lengthChanges {
		return bytes.Equal(now, t.appendCodingPart(nil, 0, hi))
	}
	var codon [3]byte
	copy(codon[:], now)
	t.appendCodingPart(codon[:min(hi, 3)], min(hi, 3), min(3, t.cdsLen))
	return isCodon(t.code.starts, codon[0], codon[1], codon[2])
}

// upTo are the n bases of the changed transcript that end with v; before the transcript, the contig's bases count.
// There are fewer where the contig begins.
func (t *transcript) upTo(v *variant, n int) []byte {
	var buf [64]byte
	b := buf[:0] // from the last to the first
	for i := len(v.alt) - 1; i >= 0 && len(b) < n; i-- {
		if t.forward {
			b = append(b, v.alt[i])
		} else {
			b = append(b, complement[v.alt[len(v.alt)-1-i]])
		}
	}
	p := v.start - 1
	if !t.forward {
		p = v.end
	}
	for ; len(b) < n && p >= 0 && p < t.contig.Len(); p = t.before(p) {
		if p = t.exonicBefore(p); t.forward {
			b = append(b, t.contig.At(p))
		} else {
			b = append(b, complement[t.contig.At(p)])
		}
	}
	slices.Reverse(b)
	return b
}

// before is the neighbour of base p of the contig in the direction of the transcript's start.
func (t *transcript) before(p int) int {
	if t.forward {
		return p - 1
	}
	return p + 1
}

// exonicBefore is p, or, where p lies in an intron, the last base of the exon before it.
func (t *transcript) exonicBefore(p int) int {
	for i := 1; i < len(t.exons); i++ {
		x, next := t.exons[i-1], t.exons[i]
		if t.forward && p >= x.end && p < next.start {
			return x.end - 1
		}
		if !t.forward && p < x.start && p >= next.end {
			return x.start
		}
	}
	return p
}

// stopKept reports whether, after a change from coding offset lo to somewhere behind the coding sequence, the last
// codon still is a stop.
func (t *transcript) stopKept(v *variant, lo int) bool {
	alt, removed := v.alt, v.end-t.cdsEnd
	if !t.forward {
		alt, removed = reverseComplement(v.alt), t.cdsStart-v.start
	}
	var codon [3]byte
	for i := range codon {
		j := t.cdsLen - 3 + i
		switch {
		case j < lo:
			codon[i] = t.codingBase(j)
		case j < lo+len(alt):
			codon[i] = alt[j-lo]
		default:
			codon[i] = t.after(j - lo - len(alt) + removed)
		}
	}
	return t.code.amino(codon[0], codon[1], codon[2]) == '*'
}

// codonChange sets c to the change of codons when the coding bases [from,to) become alt.
func (t *transcript) codonChange(c *codonChange, from, to int, alt string) {
	*c = codonChange{first: from / 3, lead: from % 3, refLen: to - from, altLen: len(alt)}
	begin := 3 * c.first
	end := begin
	if to > from || c.lead > 0 {
		end = min(3*((max(to, from+1)-1)/3)+3, t.cdsLen)
	}
	var buf, altered [32]byte
	ref := t.appendCodingPart(buf[:0], begin, end)
	c.ref = codonText(ref)
	c.alt = codonText(append(append(append(altered[:0], ref[:c.lead]...), alt...), ref[to-begin:]...))
	c.refPep = t.translateRef(c.first, c.ref)
	c.altPep = t.translateAlt(c, end)
}

// translateRef translates codons of the unchanged sequence, the first of which has the given index.
func (t *transcript) translateRef(first int, codons string) string {
	var buf [8]byte
	pep := buf[:0]
	for i := 0; i+3 <= len(codons); i += 3 {
		pep = append(pep, t.amino(first+i/3, codons[i], codons[i+1], codons[i+2]))
	}
	if len(codons)%3 != 0 {
		pep = append(pep, unknownAmino)
	}
	return string(pep)
}

// translateAlt translates the changed codons. end is the coding offset after the window: where that is the end of
// the coding sequence, a part of a codon is completed by what follows.
func (t *transcript) translateAlt(c *codonChange, end int) string {
	codons := c.alt
	if rest := len(codons) % 3; rest != 0 && end == t.cdsLen {
		for i := 0; i < 3-rest; i++ {
			if b := t.after(i); b != 0 {
				codons += string(rune(b))
			}
		}
	}
	var buf [8]byte
	pep := buf[:0]
	for i := 0; i+3 <= len(codons); i += 3 {
		b0, b1, b2 := codons[i], codons[i+1], codons[i+2]
		switch {
		case i+3 <= len(c.ref) && codons[i:i+3] == c.ref[i:i+3]:
			pep = append(pep, t.amino(c.first+i/3, b0, b1, b2))
		case c.first == 0 && i == 0 && t.startCodon && isCodon(t.code.starts, b0, b1, b2):
			pep = append(pep, 'M')
		default:
			pep = append(pep, t.code.amino(b0, b1, b2))
		}
	}
	if len(codons)%3 != 0 {
		pep = append(pep, unknownAmino)
	}
	return string(pep)
}

// peptideTerms adds the terms that the change of codons decides. alt is the new sequence in transcript direction.
func (e *effect) peptideTerms(v *variant, alt string) {
	t, c := e.t, e.codon
	if rest := t.cdsLen - 3*c.first; rest > 0 && rest < 3 {
		e.terms.add(incompleteTerminalCodon)
		e.terms.add(codingSequence)
		return
	}
	changesLength := c.refLen != c.altLen
	shifts := (c.altLen-c.refLen)%3 != 0
	unknown := strings.IndexByte(c.refPep, unknownAmino) >= 0 || strings.IndexByte(c.altPep, unknownAmino) >= 0
	atStop := strings.HasPrefix(c.altPep, "*") && (strings.HasPrefix(c.refPep, "*") || t.reference(c.first) == '*')
	refStop, altStop := strings.IndexByte(c.refPep, '*') >= 0, strings.IndexByte(c.altPep, '*') >= 0

	insertion := changesLength && !shifts && len(c.alt) > len(c.ref) && insertsOnly(c.refPep, c.altPep)
	deletion := changesLength && !shifts && len(c.alt) < len(c.ref) && deletesOnly(c.ref, c.alt)

	startKept := e.touchesStart() && e.decideStart(v, alt, insertion)

	switch {
	case e.lostStart:
		e.terms.add(startLost)
		e.terms.addIf(shifts, frameshift)
		e.terms.addIf(deletion, inframeDeletion)
	case startKept:
		e.terms.add(startRetained)
	case atStop:
		e.terms.add(stopRetained)
		e.terms.addIf(insertion, inframeInsertion)
	default:
		e.terms.addIf(altStop && !refStop, stopGained)
		// An insertion right before the stop codon that shifts it out of the frame does away with it too.
		pushed := shifts && c.refPep == "" && t.reference(c.first) == '*'
		e.terms.addIf((refStop || pushed) && !altStop, stopLost)
		e.terms.addIf(shifts, frameshift)
		e.terms.addIf(insertion, inframeInsertion)
		e.terms.addIf(deletion, inframeDeletion)
		e.terms.addIf(!changesLength && !unknown && c.refPep == c.altPep, synonymous)
		e.terms.addIf(!changesLength && !unknown && c.refPep != c.altPep && !altStop && !refStop, missense)
		sameCount := len(c.refPep) == len(c.altPep)
		e.terms.addIf(changesLength && !shifts && !sameCount && !insertion && !deletion &&
			!strings.HasPrefix(c.refPep, "*") && !strings.HasPrefix(c.altPep, "*"), proteinAltering)
		e.terms.addIf(unknown && !shifts && !changesLength, codingSequence)
		if refStop && altStop && !changesLength && c.refPep != c.altPep {
			e.stopsMoved()
		}
	}
}

// decideStart sets whether a change of the start codon loses it. It returns whether the start stays and is all that the change concerns;
// insertion says that whole amino acids are inserted and none is changed.
func (e *effect) decideStart(v *variant, alt string, insertion bool) (kept bool) {
	t, c := e.t, e.codon
	begins := func() bool { // with a start codon still
		return isCodon(t.code.starts, e.altBase(alt, 0), e.altBase(alt, 1), e.altBase(alt, 2))
	}
	switch {
	case c.refLen == c.altLen:
		e.lostStart = !begins()
		// A change after the first codon is classified like any other.
		return !e.lostStart && len(c.refPep) == 1
	case t.startKept(v, e.cdsTo, true):
		return true
	}
	e.lostStart = !begins() && !(insertion && (strings.HasSuffix(c.altPep, c.refPep) || strings.HasPrefix(c.altPep, c.refPep)))
	return false
}

// stopsMoved classifies a substitution of several codons that has a stop before and after.
func (e *effect) stopsMoved() {
	c := e.codon
	before, after := strings.IndexByte(c.refPep, '*'), strings.IndexByte(c.altPep, '*')
	switch {
	case after < before:
		e.terms.add(stopGained)
	case after > before:
		e.terms.add(stopLost)
	default:
		e.terms.add(missense)
	}
}

// touchesStart reports whether the change lies in the start codon.
func (e *effect) touchesStart() bool {
	return e.cdsFrom < 3 && e.t.startCodon
}

// altBase is base i of the changed coding sequence, going on behind it.
func (e *effect) altBase(alt string, i int) byte {
	switch {
	case i < e.cdsFrom:
		return e.t.codingBase(i)
	case i < e.cdsFrom+len(alt):
		return alt[i-e.cdsFrom]
	}
	j := i - len(alt) + e.cdsTo - e.cdsFrom
	if j < e.t.cdsLen {
		return e.t.codingBase(j)
	}
	return e.t.after(j - e.t.cdsLen)
}

// insertsOnly reports whether the peptide alt, up to its first stop, is ref with something before or after it.
func insertsOnly(ref, alt string) bool {
	if i := strings.IndexByte(alt, '*'); i >= 0 {
		alt = alt[:i+1]
	}
	return strings.HasPrefix(alt, ref) || strings.HasSuffix(alt, ref)
}

// deletesOnly reports whether the codons alt are ref with whole codons' worth of bases left out.
func deletesOnly(ref, alt string) bool {
	if strings.HasPrefix(ref, alt) || strings.HasSuffix(ref, alt) {
		return true
	}
	for len(alt) > 0 && ref[0] == alt[0] {
		ref, alt = ref[1:], alt[1:]
	}
	for len(alt) > 0 && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	return len(alt) == 0 && len(ref)%3 == 0
}
