package vrs

import (
	"fmt"
	"strconv"
)

// Allele is a VRS 2.x Allele after fully-justified normalisation: seq[Start:End] of the sequence replaced by State.
type Allele struct {
	Start, End int // inter-residue, 0-based
	// Reference-derived states (deletions, repeats, unchanged reference) carry their length and repeat unit;
	// all others carry the sequence itself.
	Derived       bool
	Length        int    // residues of the new state, when Derived
	RepeatSubunit int    // repeatSubunitLength, when Derived
	Sequence      string // LiteralSequenceExpression, when not Derived
}

// Normalize is VRS 2.x's fully-justified normalisation of the replacement of ref, at 0-based position pos0 of seq,
// by alt. Both may be empty, ref must be what seq holds there, and both must be upper-case.
func Normalize(seq []byte, pos0 int, ref, alt string) (Allele, error) {
	if err := check(seq, pos0, ref, alt); err != nil {
		return Allele{}, err
	}
	if ref == alt {
		return Allele{Start: pos0, End: pos0 + len(ref), Derived: true, Length: len(ref), RepeatSubunit: len(ref)}, nil
	}
	e := Edit{pos0, ref, alt}.Trim()
	if e.Ref != "" && e.Alt != "" {
		return Allele{Start: e.Start, End: e.End(), Sequence: e.Alt}, nil
	}

	left, right := e.rollLeft(seq), e.rollRight(seq)
	a := Allele{Start: e.Start - left, End: e.End() + right}
	span := a.End - a.Start
	if e.Alt == "" {
		a.Derived, a.Length, a.RepeatSubunit = true, span-len(e.Ref), len(e.Ref)
		return a, nil
	}
	// The new state is the span's left part, the insertion, and the span's right part.
	state := string(seq[a.Start:e.Start]) + e.Alt + string(seq[e.Start:a.End])
	if unit := repeatUnit(state, span, len(e.Alt)); unit > 0 {
		a.Derived, a.Length, a.RepeatSubunit = true, len(state), unit
		return a, nil
	}
	a.Sequence = state
	return a, nil
}

// repeatUnit is the longest divisor of inserted, not longer than the reference span, with which the state's tail
// continues the cycle that the reference span ends with; 0 if there is none and the insertion must be literal.
func repeatUnit(state string, span, inserted int) int {
next:
	for unit := min(inserted, span); unit > 0; unit-- {
		if inserted%unit != 0 {
			continue
		}
		for i := span; i < len(state); i++ {
			if state[i] != state[i-unit] {
				continue next
			}
		}
		return unit
	}
	return 0
}

// check validates what AlleleID and Normalize are given.
func check(seq []byte, pos0 int, ref, alt string) error {
	if pos0 < 0 || len(ref) > len(seq) || pos0 > len(seq)-len(ref) {
		return fmt.Errorf("position %d with %d reference residues lies outside the sequence of %d", pos0, len(ref), len(seq))
	}
	if got := seq[pos0 : pos0+len(ref)]; string(got) != ref {
		return fmt.Errorf("reference allele %q at position %d (0-based), but the sequence has %q", clip(ref), pos0, clip(string(got)))
	}
	for i := range len(alt) {
		if c := alt[i]; c < 'A' || c > 'Z' {
			return fmt.Errorf("alternate allele %q: %q is not an upper-case residue", clip(alt), c)
		}
	}
	return nil
}

// clip shortens an allele for an error message.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// AlleleID is the computed identifier "ga4gh:VA.…" of the variant that replaces ref, at 0-based position pos0 of
// the sequence seq whose refget accession is refgetDigest ("SQ.…"), by alt. Every spelling of the same change has
// the same identifier.
func AlleleID(refgetDigest string, seq []byte, pos0 int, ref, alt string) (string, error) {
	a, err := Normalize(seq, pos0, ref, alt)
	if err != nil {
		return "", fmt.Errorf("identifying allele: %w", err)
	}
	return a.ID(refgetDigest), nil
}

// ID is the computed identifier "ga4gh:VA.…" of a on the sequence with the given refget accession.
func (a Allele) ID(refgetDigest string) string {
	buf := make([]byte, 0, 256+len(a.Sequence))
	buf = a.appendLocation(buf, refgetDigest)
	var location [32]byte
	appendDigest(location[:0], buf)
	buf = a.appendAllele(buf[:0], location[:])
	id := make([]byte, 0, 48)
	return string(appendDigest(append(id, "ga4gh:VA."...), buf))
}

// LocationDigest is the digest of a's SequenceLocation, the part after "ga4gh:SL.".
func (a Allele) LocationDigest(refgetDigest string) string {
	return Digest(a.appendLocation(nil, refgetDigest))
}

// appendLocation appends the SequenceLocation's digest serialisation: RFC 8785 JSON of the digest keys only.
func (a Allele) appendLocation(b []byte, refgetDigest string) []byte {
	b = append(b, `{"end":`...)
	b = strconv.AppendInt(b, int64(a.End), 10)
	b = append(b, `,"sequenceReference":{"refgetAccession":"`...)
	b = append(b, refgetDigest...)
	b = append(b, `","type":"SequenceReference"},"start":`...)
	b = strconv.AppendInt(b, int64(a.Start), 10)
	return append(b, `,"type":"SequenceLocation"}`...)
}

// appendAllele appends the Allele's digest serialisation, with the location replaced by its digest.
func (a Allele) appendAllele(b, location []byte) []byte {
	b = append(b, `{"location":"`...)
	b = append(b, location...)
	if a.Derived {
		b = append(b, `","state":{"length":`...)
		b = strconv.AppendInt(b, int64(a.Length), 10)
		b = append(b, `,"repeatSubunitLength":`...)
		b = strconv.AppendInt(b, int64(a.RepeatSubunit), 10)
		return append(b, `,"type":"ReferenceLengthExpression"},"type":"Allele"}`...)
	}
	b = append(b, `","state":{"sequence":"`...)
	b = append(b, a.Sequence...)
	return append(b, `","type":"LiteralSequenceExpression"},"type":"Allele"}`...)
}
