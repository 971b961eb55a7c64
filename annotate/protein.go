package annotate

import (
	"bytes"
	"strconv"
)

// proteinDiff compares the protein of a transcript with the one after its coding bases [from,to) became alt. It
// reads the new sequence lazily, on behind the coding sequence, as far as the new stop.
type proteinDiff struct {
	t        *transcript
	from, to int
	alt      string
	window   *codonChange
}

// base is base i of the changed coding sequence and what follows it, or 0 at its end.
func (p *proteinDiff) base(i int) byte {
	switch {
	case i < p.from:
		return p.t.codingBase(i)
	case i < p.from+len(p.alt):
		return p.alt[i-p.from]
	}
	if i += p.to - p.from - len(p.alt); i < p.t.cdsLen {
		return p.t.codingBase(i)
	}
	return p.t.after(i - p.t.cdsLen)
}

// amino is amino acid i of the changed protein; 0 if the sequence ends before its codon does.
func (p *proteinDiff) amino(i int) byte {
	b0, b1, b2 := p.base(3*i), p.base(3*i+1), p.base(3*i+2)
	if b0 == 0 || b1 == 0 || b2 == 0 {
		return 0
	}
	if 3*i+3 <= p.from {
		return p.t.reference(i)
	}
	if i == 0 && p.t.startCodon && isCodon(p.t.code.starts, b0, b1, b2) {
		return 'M'
	}
	if j := 3*i + p.to - p.from - len(p.alt); 3*i >= p.from+len(p.alt) && j%3 == 0 {
		if a := p.t.reference(j / 3); a != 0 { // the frame is the old one, with its exceptions
			return a
		}
	}
	return p.t.code.amino(b0, b1, b2)
}

// shifted describes a change of the reading frame.
func (p *proteinDiff) shifted() string {
	i := p.window.first
	for {
		ref, alt := p.t.reference(i), p.amino(i)
		switch {
		case ref == 0 || alt == 0:
			return "" // the sequence ends before anything differs
		case ref == alt && ref == '*':
			return residue('*', i) + "="
		case ref == alt:
			i++
		case alt == '*':
			return residue(ref, i) + "Ter"
		case ref == '*':
			return p.extension(i)
		default:
			return residue(ref, i) + threeLetter[alt] + "fsTer" + p.stopAfter(i)
		}
	}
}

// stopAfter counts from codon i, itself as 1, to the first stop; "?" if the sequence ends before there is one.
func (p *proteinDiff) stopAfter(i int) string {
	for k := i; ; k++ {
		k = p.beforeStop(k)
		switch p.amino(k) {
		case '*':
			return strconv.Itoa(k - i + 1)
		case 0:
			return "?"
		}
	}
}

// beforeStop is the first codon from k on that is a stop or has to be read base by base. Behind a change that shifts the
// reading frame the others are read many at once: it takes dozens of codons until one is a stop.
func (p *proteinDiff) beforeStop(k int) int {
	by := p.to - p.from - len(p.alt)
	if 3*k < p.from+len(p.alt) || by%3 == 0 {
		return k
	}
	const codons = 20
	var buf [3 * codons]byte
	for at := 3*k + by; at+3 <= p.t.cdsLen; {
		c := p.t.appendCodingPart(buf[:0], at, min(at+len(buf), p.t.cdsLen-(p.t.cdsLen-at)%3))
		for i := 0; i < len(c); i += 3 {
			if p.t.code.amino(c[i], c[i+1], c[i+2]) == '*' {
				return k
			}
			k++
		}
		at += len(c)
	}
	return k
}

// extension describes the loss of the stop at codon i, the first residue that differs.
func (p *proteinDiff) extension(i int) string {
	alt := p.amino(i)
	switch alt {
	case 0:
		return residue('*', i) + "ext?"
	case '*':
		return residue('*', i) + "="
	}
	for n := 0; ; n++ {
		switch p.amino(i + n) {
		case '*':
			return residue('*', i) + threeLetter[alt] + "extTer" + strconv.Itoa(n)
		case 0:
			return residue('*', i) + threeLetter[alt] + "extTer?"
		}
	}
}

// inFrame describes a change that keeps the reading frame.
func (p *proteinDiff) inFrame() string {
	first := p.window.first
	ref := []byte(p.window.refPep)
	var alt []byte
	for i := range len(p.window.alt) / 3 {
		a := p.amino(first + i)
		if a == 0 {
			return ""
		}
		alt = append(alt, a)
		if a == '*' {
			break
		}
	}
	stops := bytes.IndexByte(alt, '*') >= 0
	// What both begin with did not change.
	same := 0
	for same < len(ref) && same < len(alt) && ref[same] == alt[same] && ref[same] != '*' {
		same++
	}
	first, ref, alt = first+same, ref[same:], alt[same:]
	// New residues that end in a stop may begin as the old ones went on.
	for stops && len(ref) == 0 && alt[0] != '*' && alt[0] == p.t.reference(first) {
		first, alt = first+1, alt[1:]
	}
	if len(ref) == 0 && len(alt) == 0 {
		return p.silent()
	}
	if len(ref) > 0 && len(alt) > 0 && ref[0] == '*' && alt[0] == '*' {
		return residue('*', first) + "="
	}
	if len(ref) > 0 && ref[0] == '*' {
		if stops {
			return p.inserted(first, alt[:bytes.IndexByte(alt, '*')])
		}
		return p.extension(first)
	}
	if stops && alt[0] == '*' {
		if len(ref) == 0 {
			ref = []byte{p.t.reference(first)}
		}
		if ref[0] == '*' {
			return residue('*', first) + "="
		}
		return residue(ref[0], first) + "Ter"
	}
	if stops {
		// The new protein ends here: everything after it is gone, but only what the change touches is named.
		return p.replaced(first, ref, alt)
	}
	if bytes.IndexByte(ref, '*') >= 0 {
		return p.beyondStop(first, ref)
	}
	for len(ref) > 0 && len(alt) > 0 && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	switch {
	case len(alt) == 0:
		return p.deleted(first, len(ref))
	case len(ref) == 0:
		return p.inserted(first, alt)
	}
	return p.replaced(first, ref, alt)
}

// silent describes a change of codons that leaves their amino acids as they were.
func (p *proteinDiff) silent() string {
	n := len(p.window.refPep)
	if n == 0 {
		return ""
	}
	first, last := p.window.first, p.window.first+n-1
	if n == 1 {
		return residue(p.window.refPep[0], first) + "="
	}
	return residue(p.window.refPep[0], first) + "_" + residue(p.window.refPep[n-1], last) + "="
}

// span names the residues [first,first+n) of the unchanged protein.
func (p *proteinDiff) span(first, n int) string {
	s := residue(p.t.reference(first), first)
	if n > 1 {
		s += "_" + residue(p.t.reference(first+n-1), first+n-1)
	}
	return s
}

// deleted describes the loss of n residues, moved as far to the end of the protein as they can be.
func (p *proteinDiff) deleted(first, n int) string {
	for {
		next := p.t.reference(first + n)
		if next == 0 || next == '*' || next != p.t.reference(first) {
			return p.span(first, n) + "del"
		}
		first++
	}
}

// inserted describes residues put before residue first, moved as far to the end of the protein as they can be.
func (p *proteinDiff) inserted(first int, ins []byte) string {
	for {
		next := p.t.reference(first)
		if next == 0 || next == '*' || next != ins[0] {
			break
		}
		ins = append(ins[1:], ins[0])
		first++
	}
	n := len(ins)
	dup := first >= n
	for i := 0; dup && i < n; i++ {
		dup = p.t.reference(first-n+i) == ins[i]
	}
	if dup {
		return p.span(first-n, n) + "dup"
	}
	next := p.t.reference(first)
	switch {
	case first == 0 || next == 0:
		return ""
	case next == '*':
		return p.extension(first) // nothing but the stop follows
	}
	return residue(p.t.reference(first-1), first-1) + "_" + residue(next, first) + "ins" + names(ins)
}

// replaced describes ref, which begins at residue first, becoming alt.
func (p *proteinDiff) replaced(first int, ref, alt []byte) string {
	if len(ref) == 0 {
		return p.inserted(first, alt)
	}
	if len(ref) == 1 && len(alt) == 1 {
		return residue(ref[0], first) + threeLetter[alt[0]]
	}
	return p.span(first, len(ref)) + "delins" + names(alt)
}

// beyondStop describes a change that begins before the stop and takes it away, as the nomenclature has it: as a shift
// of the reading frame.
func (p *proteinDiff) beyondStop(first int, ref []byte) string {
	return residue(ref[0], first) + threeLetter[p.amino(first)] + "fsTer" + p.stopAfter(first)
}
