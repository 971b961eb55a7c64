package annotate

import (
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
)

// hgvsKind is the kind of change in HGVS's order of preference.
type hgvsKind uint8

const (
	hgvsSubstitution hgvsKind = iota
	hgvsDeletion
	hgvsInversion
	hgvsDuplication
	hgvsInsertion
	hgvsDelins
	hgvsRepeat
)

// described is a change at the place and of the kind that HGVS gives it.
type described struct {
	kind       hgvsKind
	start, end int    // the bases changed, removed or duplicated; for an insertion its point
	ref, alt   string // forward strand
	shift      int    // by how many bases it was moved from where the variant stands
	copies     int    // of alt, that a repeat has instead of the bases
}

// describe applies the 3' rule in the given direction, without leaving [first,last) of the contig, and finds the
// kind.
func (v *variant) describe(forward bool, first, last int) described {
	d := described{start: v.start, end: v.end, ref: v.ref, alt: v.alt}
	first, last = v.within(first, last)
	if len(v.ref) == 0 || len(v.alt) == 0 {
		// The variant is left-aligned: that is the 3' end already for a sequence on the reverse strand.
		shift := 0
		if forward {
			shift = max(0, min(v.roll, last-v.end))
		} else if v.start < first {
			shift = min(v.roll, first-v.start)
		}
		d.start, d.end, d.shift = v.start+shift, v.end+shift, shift
		d.ref, d.alt = rotate(v.ref, shift), rotate(v.alt, shift)
	}
	switch {
	case len(d.ref) == 1 && len(d.alt) == 1:
		d.kind = hgvsSubstitution
	case len(d.alt) == 0:
		d.kind = hgvsDeletion
	case len(d.ref) == 0:
		d.kind = hgvsInsertion
		n := len(d.alt)
		if from := d.start - n; forward && from >= first && v.contig.Has(from, d.alt) {
			d.kind, d.start = hgvsDuplication, from
		} else if to := d.start + n; !forward && to <= last && v.contig.Has(d.start, d.alt) {
			d.kind, d.end = hgvsDuplication, to
		}
	case len(d.ref) == len(d.alt) && reverseComplement(d.ref) == d.alt:
		d.kind = hgvsInversion
	default:
		d.kind = hgvsDelins
	}
	return d
}

// within is the part of [first,last) that v may be described in.
func (v *variant) within(first, last int) (int, int) {
	if v.fence == nil {
		return first, last
	}
	return max(first, v.fence.Start), min(last, v.fence.End)
}

// multiplied is d, or, if d inserts several copies of a unit beside fewer of them, the repeat that they make
// together: more than one additional copy is no duplication.
func (v *variant) multiplied(d described, forward bool, first, last int) described {
	if d.kind != hgvsInsertion {
		return d
	}
	p := period(d.alt)
	if p == len(d.alt) {
		return d
	}
	start, end := d.start, d.start
	unit := d.alt[:p]
	first, last = v.within(first, last)
	// Where another change of the molecule is in the way, copies that follow would be taken to be part of the repeat.
	if v.fence != nil && (forward && v.contig.Has(d.start, unit) || !forward && v.contig.Has(d.start-p, unit)) {
		return d
	}
	if forward {
		for start-p >= first && v.contig.Has(start-p, unit) {
			start -= p
		}
	} else {
		for end+p <= last && v.contig.Has(end, unit) {
			end += p
		}
	}
	if start == end {
		return d
	}
	return described{kind: hgvsRepeat, start: start, end: end, alt: unit, shift: d.shift, copies: (end-start)/p + len(d.alt)/p}
}

// multipliedIn is what multiplied returns in the direction of t, whose bases are counted from its start codon: in the
// coding sequence only units that cannot shift the reading frame may be counted. Introns and untranslated regions are no
// part of it.
func (v *variant) multipliedIn(t *transcript, d described, first, last int) described {
	r := v.multiplied(d, t.forward, first, last)
	if r.kind == hgvsRepeat && len(r.alt)%3 != 0 && t.codes(r.start, r.end) {
		return d
	}
	return r
}

// codes reports whether some base of [start,end) is coding.
func (t *transcript) codes(start, end int) bool {
	for _, s := range t.cds {
		if s.start < end && start < s.end {
			return true
		}
	}
	return false
}

// period is the length of the shortest unit that s is made of.
func period(s string) int {
	for p := 1; p <= len(s)/2; p++ {
		if len(s)%p == 0 && s[p:] == s[:len(s)-p] {
			return p
		}
	}
	return len(s)
}

// rotate moves the first n bases (counted around) of s to its end.
func rotate(s string, n int) string {
	if len(s) == 0 || n%len(s) == 0 {
		return s
	}
	n %= len(s)
	return s[n:] + s[:n]
}

// positions write the numbers of bases of a contig.
type positions interface {
	appendPosition(b []byte, base int) []byte
}

// appendDescribed appends the description of d with the positions of on.
func appendDescribed(b []byte, d described, forward bool, on positions) []byte {
	first, last := d.start, d.end-1
	if d.kind == hgvsInsertion {
		first, last = d.start-1, d.start
	}
	if !forward {
		first, last = last, first
	}
	b = on.appendPosition(b, first)
	ref, alt := d.ref, d.alt
	if !forward {
		ref, alt = reverseComplement(ref), reverseComplement(alt)
	}
	if d.kind == hgvsSubstitution {
		b = append(b, ref...)
		b = append(b, '>')
		return append(b, alt...)
	}
	if first != last {
		b = append(b, '_')
		b = on.appendPosition(b, last)
	}
	switch d.kind {
	case hgvsDeletion:
		return append(b, "del"...)
	case hgvsInversion:
		return append(b, "inv"...)
	case hgvsDuplication:
		return append(b, "dup"...)
	case hgvsInsertion:
		b = append(b, "ins"...)
	case hgvsRepeat:
		b = append(append(b, alt...), '[')
		return append(appendNumber(b, d.copies), ']')
	default:
		b = append(b, "delins"...)
	}
	return append(b, alt...)
}

// hgvsG is the genomic description, such as "NC_045512.2:g.23403A>G"; mitochondria have "m.".
func (v *variant) hgvsG() string {
	return string(v.appendHGVSG(make([]byte, 0, len(v.contig.Name)+24+len(v.alt))))
}

// appendHGVSG appends what hgvsG returns.
func (v *variant) appendHGVSG(b []byte) []byte {
	if v.substitution() {
		return append(appendBase(v.appendContig(b), v.start), v.ref[0], '>', v.alt[0])
	}
	d := v.describe(true, 0, v.contig.Len())
	if d.kind == hgvsInsertion && (d.start == 0 || d.start == v.contig.Len()) {
		return b // there is no base on one side of it to name
	}
	if d.kind == hgvsInsertion {
		d = v.multiplied(d, true, 0, v.contig.Len())
	}
	return appendDescribed(v.appendContig(b), d, true, contigPositions{})
}

// appendContig appends what stands before the positions of g. and m.
func (v *variant) appendContig(b []byte) []byte {
	b = append(b, v.contig.Name...)
	if v.mitochondrial {
		return append(b, ":m."...)
	}
	return append(b, ":g."...)
}

// contigPositions are counted along the contig.
type contigPositions struct{}

func (contigPositions) appendPosition(b []byte, base int) []byte { return appendBase(b, base) }

// appendBase appends the number of a base counted along the contig.
func appendBase(b []byte, base int) []byte { return appendNumber(b, base+1) }

// isMitochondrion recognises the usual names of mitochondrial genomes.
func isMitochondrion(contig string) bool {
	switch contig {
	case "MT", "Mt", "chrM", "chrMT", "chrMt", "M", "mitochondrion", "Mito", "NC_012920.1", "NC_001807.4", "NC_005089.1":
		return true
	}
	return false
}

// mitochondrial reports whether c is a mitochondrial genome: by its name, or by vertebrate mitochondrial code in it.
func (m *Model) mitochondrial(c *genome.Contig) bool {
	if isMitochondrion(c.Name) {
		return true
	}
	k := m.contigs[c]
	return k != nil && k.mitochondrial
}

// hgvsC is the description in transcript coordinates, c. or n., and by how many bases it stands from the variant;
// "" where the change reaches outside the transcript.
func (v *variant) hgvsC(t *transcript) (string, int) {
	b, shift := v.appendHGVSC(make([]byte, 0, len(t.id)+32+len(v.alt)), t)
	return string(b), shift
}

// appendHGVSC appends what hgvsC returns.
func (v *variant) appendHGVSC(b []byte, t *transcript) ([]byte, int) {
	if v.substitution() {
		if v.start < t.start || v.end > t.end {
			return b, 0
		}
		return t.appendReplaced(t.appendPosition(t.appendReference(b), v.start), v), 0
	}
	d := v.describe(t.forward, t.start, t.end)
	if d.start < t.start || d.end > t.end || d.kind == hgvsInsertion && (d.start == t.start || d.start == t.end) {
		return b, 0
	}
	switch {
	case d.kind != hgvsInsertion:
	case t.cds == nil:
		d = v.multiplied(d, t.forward, t.start, t.end)
	default:
		d = v.multipliedIn(t, d, t.start, t.end)
	}
	return appendDescribed(t.appendReference(b), d, t.forward, t), d.shift
}

// shiftIn is by how many bases the description in transcript coordinates stands from the variant; 0 if there is none.
func (v *variant) shiftIn(t *transcript) int {
	d := v.describe(t.forward, t.start, t.end)
	if d.start < t.start || d.end > t.end || d.kind == hgvsInsertion && (d.start == t.start || d.start == t.end) {
		return 0
	}
	return d.shift
}

// appendReference appends what stands before the positions of c. and n.
func (t *transcript) appendReference(b []byte) []byte {
	if t.implicit {
		// There is no transcript to name: the reference is the contig, and the protein selects the reading frame.
		b = append(b, t.contig.Name...)
		b = append(b, '(')
		b = append(b, t.id...)
		b = append(b, ')')
	} else {
		b = append(b, t.accession...)
	}
	if t.cds != nil {
		return append(b, ":c."...)
	}
	return append(b, ":n."...)
}

// appendPosition appends the HGVS number of a base inside the transcript: counted from the start codon, with - and *
// outside the coding sequence, and with an offset from the nearest exon in an intron.
func (t *transcript) appendPosition(b []byte, base int) []byte {
	exonic, offset, beside := t.nearest(base)
	return appendBeside(t.appendExonic(b, exonic, offset), beside)
}

// appendBeside appends by how many bases a base of an intron lies beside an exon.
func appendBeside(b []byte, beside int) []byte {
	if beside == 0 {
		return b
	}
	if beside > 0 {
		b = append(b, '+')
	}
	return appendNumber(b, beside)
}

// nearest is the exonic base next to a base inside the transcript, its offset in the exons, and by how many bases the given one
// lies behind it in transcript direction; negative before it, and 0 if it is that base itself.
func (t *transcript) nearest(base int) (exonic, offset, beside int) {
	n := t.exonsUpTo(base)
	if n < len(t.exons) {
		if x := t.byPosition(n); base >= x.start {
			if t.forward {
				return base, x.offset + base - x.start, 0
			}
			return base, x.offset + x.end - 1 - base, 0
		}
	}
	if !t.forward {
		n = len(t.exons) - n
	}
	return t.besideIntron(n, base)
}

// besideIntron is nearest for a base of the intron of the given number, from 1.
func (t *transcript) besideIntron(number, base int) (exonic, offset, beside int) {
	// The exon before and the exon after the intron, in transcript direction.
	prev, next := &t.exons[number-1], &t.exons[number]
	before, after := prev.end-1, next.start
	fromBefore, toAfter := base-before, after-base
	if !t.forward {
		before, after = prev.start, next.end-1
		fromBefore, toAfter = before-base, base-after
	}
	if fromBefore <= toAfter {
		return before, next.offset - 1, fromBefore
	}
	return after, next.offset, -toAfter
}

// appendSubstitution appends the description of v, one base replaced in the intron of the given number, without what stands
// before its position.
func (t *transcript) appendSubstitution(b []byte, v *variant, number int) []byte {
	exonic, offset, beside := t.besideIntron(number, v.start)
	return t.appendReplaced(appendBeside(t.appendExonic(b, exonic, offset), beside), v)
}

// appendReplaced appends which base of the transcript's strand the substitution v replaces by which.
func (t *transcript) appendReplaced(b []byte, v *variant) []byte {
	ref, alt := v.ref[0], v.alt[0]
	if !t.forward {
		ref, alt = complement[ref], complement[alt]
	}
	return append(b, ref, '>', alt)
}

// appendExonic appends the number of an exonic base; offset is its offset in the exons.
func (t *transcript) appendExonic(b []byte, base, offset int) []byte {
	if t.cds == nil {
		return appendNumber(b, offset+1)
	}
	if t.unbroken {
		switch {
		case offset < t.codingFrom:
			return appendNumber(b, offset-t.codingFrom)
		case offset >= t.codingTo:
			return appendNumber(append(b, '*'), offset-t.codingTo+1)
		}
		return appendNumber(b, offset-t.codingFrom+1)
	}
	first, last := t.cdsStart, t.cdsEnd-1
	if !t.forward {
		first, last = last, first
	}
	if c := t.locate(t.cds, base); c >= 0 {
		return appendNumber(b, c-t.pad+1)
	}
	if start := t.locate(t.exons, first); offset < start {
		return appendNumber(b, offset-start)
	}
	end := t.locate(t.exons, last)
	if offset > end {
		b = append(b, '*')
		return appendNumber(b, offset-end)
	}
	// A base that the ribosome skips: counted from the coding base before it.
	for back := 1; ; back++ {
		p := base - back
		if !t.forward {
			p = base + back
		}
		if c := t.locate(t.cds, p); c >= 0 {
			b = appendNumber(b, c-t.pad+1)
			b = append(b, '+')
			return appendNumber(b, back)
		}
	}
}

// hgvsP is the description of the protein, such as "YP_009724390.1:p.Asp614Gly"; "" where none can be given.
func (e *effect) hgvsP() string {
	p := e.proteinChange()
	if p == "" {
		return ""
	}
	return e.t.protein + ":p." + e.style().change(p)
}

// style is how descriptions of proteins are written.
func (e *effect) style() ProteinStyle {
	if e.seen == nil {
		return ProteinStyle{}
	}
	return e.seen.place.style
}

// appendHGVSP appends what hgvsP returns. Most changes are of one amino acid, and made without a string for each part.
func (e *effect) appendHGVSP(b []byte) []byte {
	c := e.codon
	if c == nil || c.refLen != c.altLen || len(c.refPep) != 1 || c.refPep == "*" || e.lostStart ||
		e.terms&(1<<startRetained|1<<incompleteTerminalCodon) != 0 || e.style() != (ProteinStyle{}) {
		return append(b, e.hgvsP()...)
	}
	ref, alt := c.refPep[0], c.altPep[0]
	if ref == unknownAmino || alt == unknownAmino {
		return b
	}
	b = append(append(b, e.t.protein...), ":p."...)
	b = append(b, threeLetter[ref]...)
	b = appendNumber(b, c.first+1)
	if ref == alt {
		return append(b, '=')
	}
	return append(b, threeLetter[alt]...)
}

// proteinChange compares the protein with the changed one.
func (e *effect) proteinChange() string {
	t, c := e.t, e.codon
	if e.lostStart {
		return lostStart
	}
	if e.terms.has(startRetained) {
		return "Met1="
	}
	if c == nil {
		return e.pastStop()
	}
	if e.terms.has(incompleteTerminalCodon) {
		return ""
	}
	if c.refLen == c.altLen && len(c.refPep) == 1 {
		return e.oneAmino(c.first, c.refPep[0], c.altPep[0])
	}
	shifts := (c.altLen-c.refLen)%3 != 0
	p := proteinDiff{t: t, from: e.cdsFrom, to: e.cdsTo, alt: c.alt[c.lead : c.lead+c.altLen], window: c}
	if shifts {
		return p.shifted()
	}
	return p.inFrame()
}

// pastStop describes a change from inside the coding sequence to the untranslated bases behind it; "" for others.
func (e *effect) pastStop() string {
	t := e.t
	if e.seen == nil || t.cds == nil || e.cdsFrom < 0 || e.cdsTo >= 0 || e.cdnaTo < 0 || t.endNF || t.cdsLen%3 != 0 {
		return ""
	}
	v := e.seen.placed(t)
	alt, last := v.alt, t.cdsEnd-1
	if !t.forward {
		alt, last = reverseComplement(alt), t.cdsStart
	}
	behind := e.cdnaTo - 1 - t.locate(t.exons, last)
	if behind <= 0 || e.touchesStart() {
		return ""
	}
	p := proteinDiff{t: t, from: e.cdsFrom, to: t.cdsLen + behind, alt: alt, window: &codonChange{first: e.cdsFrom / 3}}
	return p.shifted()
}

// oneAmino describes the change of one amino acid.
func (e *effect) oneAmino(codon int, ref, alt byte) string {
	switch {
	case ref == unknownAmino || alt == unknownAmino:
		return "" // the codon is incomplete or has bases that are not known
	case ref == alt:
		return residue(ref, codon) + "="
	case ref == '*':
		p := proteinDiff{t: e.t, from: e.cdsFrom, to: e.cdsTo, alt: e.codon.alt[e.codon.lead : e.codon.lead+e.codon.altLen], window: e.codon}
		return p.extension(codon)
	}
	return residue(ref, codon) + threeLetter[alt]
}

// residue names an amino acid and its number, from the codon's index.
func residue(amino byte, codon int) string {
	return threeLetter[amino] + strconv.Itoa(codon+1)
}

// names are the three-letter names of a peptide.
func names(pep []byte) string {
	var b strings.Builder
	for _, a := range pep {
		b.WriteString(threeLetter[a])
	}
	return b.String()
}
