package annotate

import (
	"fmt"
	"strings"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/vrs"
)

// edit is what a change does to the contig. Alleles that are equal stand for a change that leaves the reference as
// it is.
func (n *Normalizer) edit(on *numbering, c hgvs.Change) (vrs.Edit, error) {
	switch c.Kind {
	case hgvs.Insertion:
		return n.insertion(on, c)
	case hgvs.Repeat:
		return on.repeat(c)
	}
	start, end, err := on.interval(c.Location)
	if err != nil {
		return vrs.Edit{}, err
	}
	if end-start > maxAllele {
		return vrs.Edit{}, errTooLong
	}
	if err := on.check(c, start, end); err != nil {
		return vrs.Edit{}, err
	}
	ref := on.contig.Text(start, end)
	switch c.Kind {
	case hgvs.Deletion:
		return vrs.Edit{Start: start, Ref: ref}, nil
	case hgvs.Duplication:
		return vrs.Edit{Start: end, Alt: ref}, nil
	case hgvs.Inversion:
		return vrs.Edit{Start: start, Ref: ref, Alt: reverseComplement(ref)}, nil
	case hgvs.Substitution, hgvs.Delins:
		alt, err := n.sequence(on, c.New)
		return vrs.Edit{Start: start, Ref: ref, Alt: on.oriented(alt)}, err
	}
	return vrs.Edit{Start: start, Ref: ref, Alt: ref}, nil
}

// insertion is the edit of an insertion.
func (n *Normalizer) insertion(on *numbering, c hgvs.Change) (vrs.Edit, error) {
	at, err := on.point(c.Location)
	if err != nil {
		return vrs.Edit{}, err
	}
	alt, err := n.sequence(on, c.New)
	return vrs.Edit{Start: at, Alt: on.oriented(alt)}, err
}

// sequence puts pieces together, as the description reads them.
func (n *Normalizer) sequence(on *numbering, parts []hgvs.Part) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		s, err := n.piece(on, p)
		if err != nil {
			return "", err
		}
		if len(s) > 0 && p.Copies > (maxAllele-b.Len())/len(s) {
			return "", errTooLong
		}
		for range p.Copies {
			b.WriteString(s)
		}
	}
	return b.String(), nil
}

// piece is one copy of a piece.
func (n *Normalizer) piece(on *numbering, p hgvs.Part) (string, error) {
	if p.Location == nil {
		if i := strings.IndexFunc(p.Bases, func(r rune) bool { return !strings.ContainsRune("ACGTN", r) }); i >= 0 {
			return "", fmt.Errorf("%c stands for several bases: a sequence needs A, C, G, T or N", p.Bases[i])
		}
		if p.Inverted {
			return reverseComplement(p.Bases), nil
		}
		return p.Bases, nil
	}
	on, err := n.source(on, p)
	if err != nil {
		return "", fmt.Errorf("inserted %s: %w", p, err)
	}
	start, end, err := on.interval(*p.Location)
	if err != nil {
		return "", fmt.Errorf("inserted %s: %w", p, err)
	}
	if end-start > maxAllele {
		return "", errTooLong
	}
	s := on.spliced(start, end)
	if on.onGenome || p.Location.Start.Offset != 0 || p.Location.End.Offset != 0 {
		s = on.bases(start, end) // a piece of the genome has its introns, and so has one that begins in an intron
	}
	if p.Inverted {
		s = reverseComplement(s)
	}
	return s, nil
}

// source is the sequence that a piece is copied from: the one described, or the one that the piece names.
func (n *Normalizer) source(on *numbering, p hgvs.Part) (*numbering, error) {
	if p.Reference == "" {
		return on, nil
	}
	d := hgvs.Description{Reference: p.Reference, Type: p.Type}
	if outer, inner, ok := strings.Cut(strings.TrimSuffix(p.Reference, ")"), "("); ok {
		d.Reference, d.Selector = outer, inner
	}
	return n.numbering(d)
}

// repeat is the edit of a description by repeat units: the bases at its location, or from there on as many copies of
// the unit as follow each other, become as many as it says.
func (n *numbering) repeat(c hgvs.Change) (vrs.Edit, error) {
	start, end, err := n.interval(c.Location)
	if err != nil {
		return vrs.Edit{}, err
	}
	if len(c.New) > 1 && !c.Location.Range {
		return vrs.Edit{}, fmt.Errorf("%s: a repeat of several units needs the range of bases that it replaces", c)
	}
	unit := c.New[0].Bases
	if unit == "" {
		unit = n.bases(start, end)
	}
	if len(c.New) == 1 {
		if start, end, err = n.run(c, unit, start, end); err != nil {
			return vrs.Edit{}, err
		}
	}
	if end-start > maxAllele {
		return vrs.Edit{}, errTooLong
	}
	var b strings.Builder
	for _, u := range c.New {
		bases := u.Bases
		if bases == "" {
			bases = unit
		}
		if i := strings.IndexFunc(bases, func(r rune) bool { return !strings.ContainsRune("ACGTN", r) }); i >= 0 {
			return vrs.Edit{}, fmt.Errorf("%c stands for several bases: a sequence needs A, C, G, T or N", bases[i])
		}
		if u.Copies > (maxAllele-b.Len())/len(bases) {
			return vrs.Edit{}, errTooLong
		}
		b.WriteString(strings.Repeat(bases, u.Copies))
	}
	return vrs.Edit{Start: start, Ref: n.contig.Text(start, end), Alt: n.oriented(b.String())}, nil
}

// run is the interval of the copies of unit that the reference has at [start,end), if the description names both the
// unit and its range; and else, where it names one unit's place or its first base, of those that follow from there on.
func (n *numbering) run(c hgvs.Change, unit string, start, end int) (int, int, error) {
	size := end - start
	if c.Location.Range && (size > len(unit) || c.New[0].Bases != "" && size == len(unit)) {
		if size%len(unit) != 0 || n.bases(start, end) != strings.Repeat(unit, size/len(unit)) {
			return 0, 0, fmt.Errorf("%s: the reference has %s there, which is not made of %s", c, clip(n.bases(start, end)), clip(unit))
		}
		return start, end, nil
	}
	if c.Location.Range && size < len(unit) {
		return 0, 0, fmt.Errorf("%s: the range has %s, the unit %d", c, baseCount(size), len(unit))
	}
	on, first := n.oriented(unit), start
	if !n.forward() {
		first = end
	}
	copies := 0
	next := func() int {
		if n.forward() {
			return first + copies*len(on)
		}
		return first - (copies+1)*len(on)
	}
	for n.contig.Has(next(), on) {
		copies++
	}
	if copies == 0 {
		return 0, 0, fmt.Errorf("%s: the reference has no %s there", c, clip(unit))
	}
	if n.forward() {
		return first, first + copies*len(on), nil
	}
	return first - copies*len(on), first, nil
}
