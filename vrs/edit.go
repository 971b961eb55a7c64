package vrs

// Edit replaces Ref, found at inter-residue position Start (0-based), by Alt.
type Edit struct {
	Start    int
	Ref, Alt string
}

// End is the inter-residue position after the replaced residues.
func (e Edit) End() int { return e.Start + len(e.Ref) }

// Trim removes what Ref and Alt share, first at the end, then at the start. An insertion is left with an empty
// Ref, a deletion with an empty Alt; equal alleles are left with both empty.
func (e Edit) Trim() Edit {
	ref, alt := e.Ref, e.Alt
	for len(ref) > 0 && len(alt) > 0 && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	start := e.Start
	for len(ref) > 0 && len(alt) > 0 && ref[0] == alt[0] {
		ref, alt = ref[1:], alt[1:]
		start++
	}
	return Edit{start, ref, alt}
}

// moved is the inserted or deleted sequence of a trimmed Edit that is a pure insertion or deletion, and "" for
// every other Edit: only these have more than one place.
func (e Edit) moved() string {
	switch {
	case e.Ref == "":
		return e.Alt
	case e.Alt == "":
		return e.Ref
	}
	return ""
}

// at places the pure insertion or deletion e at start, with its sequence rotated left by shift residues.
func (e Edit) at(start, shift int) Edit {
	s := e.moved()
	shift %= len(s)
	if shift < 0 {
		shift += len(s)
	}
	s = s[shift:] + s[:shift]
	if e.Ref == "" {
		return Edit{start, "", s}
	}
	return Edit{start, s, ""}
}

// rollLeft is by how many residues a pure insertion or deletion can move towards the start of seq without changing
// the resulting sequence.
func (e Edit) rollLeft(seq []byte) int {
	s := e.moved()
	if s == "" {
		return 0
	}
	n, j := 0, len(s)-1
	for n < e.Start && seq[e.Start-1-n] == s[j] {
		n++
		if j--; j < 0 {
			j = len(s) - 1
		}
	}
	return n
}

// rollRight is rollLeft's mirror image: the freedom towards the end of seq.
func (e Edit) rollRight(seq []byte) int {
	s := e.moved()
	if s == "" {
		return 0
	}
	n, j, end := 0, 0, e.End()
	for end+n < len(seq) && seq[end+n] == s[j] {
		n++
		if j++; j == len(s) {
			j = 0
		}
	}
	return n
}

// Left trims e and moves a pure insertion or deletion as far as possible towards the start of seq.
func (e Edit) Left(seq []byte) Edit { return e.LeftTo(seq, 0) }

// LeftTo is Left, but a pure insertion or deletion does not begin before first; where it does already, it stays.
func (e Edit) LeftTo(seq []byte, first int) Edit {
	e = e.Trim()
	if n := min(e.rollLeft(seq), e.Start-first); n > 0 {
		return e.at(e.Start-n, -n)
	}
	return e
}

// Right trims e and moves a pure insertion or deletion as far as possible towards the end of seq: HGVS's 3' rule
// on the forward strand.
func (e Edit) Right(seq []byte) Edit { return e.RightTo(seq, len(seq)) }

// RightTo is Right, but a pure insertion or deletion does not end behind last; where it does already, it stays.
func (e Edit) RightTo(seq []byte, last int) Edit {
	e = e.Trim()
	if n := min(e.rollRight(seq), last-e.End()); n > 0 {
		return e.at(e.Start+n, n)
	}
	return e
}

// Normal is e in VCF's normal form: parsimonious, left-aligned, Ref and Alt not empty. A pure insertion or
// deletion is anchored on the base before it, or, at the start of seq, on the base after it.
func (e Edit) Normal(seq []byte) Edit {
	return e.Left(seq).Anchored(seq)
}

// Anchored is e, where one of Ref and Alt is empty, with the base before it, or, at the start of seq, with the base
// after it: a row of VCF.
func (e Edit) Anchored(seq []byte) Edit {
	if e.Ref != "" && e.Alt != "" {
		return e
	}
	if e.Start > 0 {
		b := string(seq[e.Start-1])
		return Edit{e.Start - 1, b + e.Ref, b + e.Alt}
	}
	if e.End() < len(seq) {
		b := string(seq[e.End()])
		return Edit{e.Start, e.Ref + b, e.Alt + b}
	}
	return e
}
