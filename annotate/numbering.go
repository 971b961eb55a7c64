package annotate

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/porestream/porestream/annotate/hgvs"
	"github.com/porestream/porestream/genome"
)

// numbering is a sequence and the way in which a description counts its bases.
type numbering struct {
	contig *genome.Contig
	t      *transcript // nil if bases are counted along the contig
	kind   byte        // 'g', 'm', 'o', 'c' or 'n'
	name   string      // of the reference, with the selector if it has one
	// onGenome says that the reference is the genome, so that c. goes on beside the transcript.
	onGenome bool
}

func (n *numbering) prefix() string { return n.name + ":" + string(n.kind) + "." }

// forward reports whether the numbers rise along the contig.
func (n *numbering) forward() bool { return n.t == nil || n.t.forward }

// circular reports whether the last base of the contig stands before its first.
func (n *numbering) circular() bool { return n.kind == 'm' || n.kind == 'o' }

// step is the direction in which the numbers rise.
func (n *numbering) step() int {
	if n.forward() {
		return 1
	}
	return -1
}

// base is the base of the contig that p numbers.
func (n *numbering) base(p hgvs.Position) (int, error) {
	if p.End != 0 {
		return n.terminal(p)
	}
	if n.t == nil {
		if p.Base > n.contig.Len() {
			return 0, fmt.Errorf("position %s lies outside %s, which has %d bases", p, n.contig.Name, n.contig.Len())
		}
		return p.Base - 1, nil
	}
	base, err := n.exonic(p)
	if err != nil || p.Offset == 0 {
		return base, err
	}
	if n.goesOn() && (base == n.t.edge(p.Offset < 0) || base < n.t.start || base >= n.t.end) {
		return n.inContig(p, base+p.Offset*n.step())
	}
	return n.t.beside(base, p)
}

// terminal is the first or the last base of the reference: of a transcript, or of the contig.
func (n *numbering) terminal(p hgvs.Position) (int, error) {
	first := p.End == 'p'
	switch {
	case n.t != nil && !n.t.implicit && !n.onGenome:
		return n.t.edge(first), nil
	case !n.forward():
		return 0, fmt.Errorf("%s is an end of %s, along which %s counts backwards: only g. can name it", p, n.contig.Name, n.t.id)
	case first:
		return 0, nil
	}
	return n.contig.Len() - 1, nil
}

// exonic is the base of the contig that p numbers but for its offset.
func (n *numbering) exonic(p hgvs.Position) (int, error) {
	t := n.t
	if n.kind == 'n' {
		if p.Base > t.cdnaLength {
			return 0, fmt.Errorf("position %s lies outside transcript %s, which has %d bases", p, t.id, t.cdnaLength)
		}
		return t.at(t.exons, p.Base-1), nil
	}
	first, last := t.cdsStart, t.cdsEnd-1
	if !t.forward {
		first, last = last, first
	}
	switch p.Region {
	case '-':
		o := t.locate(t.exons, first) - p.Base
		if o >= 0 {
			return t.at(t.exons, o), nil
		}
		return n.outside(p, o)
	case '*':
		o := t.locate(t.exons, last) + p.Base
		if o < t.cdnaLength {
			return t.at(t.exons, o), nil
		}
		return n.outside(p, o-t.cdnaLength+1)
	}
	if o := p.Base - 1 + t.pad; o < t.cdsLen {
		return t.at(t.cds, o), nil
	}
	return 0, fmt.Errorf("position %s lies outside the coding sequence of %s, which has %d bases: what follows it is *1, *2, …", p, t.id, t.cdsLen-t.pad)
}

// goesOn reports whether positions go on beside the transcript: where the ends of the transcript are not known, or
// the reference is the genome.
func (n *numbering) goesOn() bool { return n.t != nil && (n.t.implicit || n.onGenome) && n.kind == 'c' }

// outside is the base that lies by bases behind the transcript's last, or, if by is negative, before its first.
func (n *numbering) outside(p hgvs.Position, by int) (int, error) {
	if !n.goesOn() {
		return 0, fmt.Errorf("position %s lies outside transcript %s: only g., or c. on the genome, %s(%s):c.…, can describe it", p, n.t.id, n.contig.Name, n.t.id)
	}
	return n.inContig(p, n.t.edge(by < 0)+by*n.step())
}

// inContig is base, which p numbers, if the contig has it.
func (n *numbering) inContig(p hgvs.Position, base int) (int, error) {
	if base < 0 || base >= n.contig.Len() {
		return 0, fmt.Errorf("position %s lies outside %s, which has %d bases", p, n.contig.Name, n.contig.Len())
	}
	return base, nil
}

// edge is the transcript's first base in its direction, or else its last.
func (t *transcript) edge(first bool) int {
	if first == t.forward {
		return t.start
	}
	return t.end - 1
}

// at is the base of the contig at an offset in segs; it must be one.
func (t *transcript) at(segs []segment, offset int) int {
	i := 0
	for i+1 < len(segs) && segs[i+1].offset <= offset {
		i++
	}
	if t.forward {
		return segs[i].start + offset - segs[i].offset
	}
	return segs[i].end - 1 - (offset - segs[i].offset)
}

// beside is the base of an intron that lies p.Offset bases from an exon's edge, base.
func (t *transcript) beside(base int, p hgvs.Position) (int, error) {
	edge := hgvs.Position{Base: p.Base, Region: p.Region}
	// Between coding segments of one exon lie the bases that a ribosome skips.
	for _, segs := range [][]segment{t.exons, t.cds} {
		gap, ok := t.gap(segs, base, p.Offset > 0)
		switch {
		case !ok || gap <= 0:
			continue
		case abs(p.Offset) > gap:
			return 0, fmt.Errorf("position %s lies outside the intron, which has %d bases", p, gap)
		case t.forward:
			return base + p.Offset, nil
		}
		return base - p.Offset, nil
	}
	if base == t.start || base == t.end-1 {
		return 0, fmt.Errorf("position %s lies outside transcript %s: no intron is beside %s", p, t.id, edge)
	}
	return 0, fmt.Errorf("position %s: %s is not the edge of an exon of %s", p, edge, t.id)
}

// gap is the number of bases between the segment that ends with base, or else begins with it, and its neighbour; ok
// is false if there is no such segment or neighbour.
func (t *transcript) gap(segs []segment, base int, after bool) (gap int, ok bool) {
	for i, s := range segs {
		last := base == s.end-1
		if after != t.forward {
			last = base == s.start
		}
		j := i + 1
		if !after {
			j = i - 1
		}
		if !last || j < 0 || j >= len(segs) {
			continue
		}
		return max(segs[j].start-s.end, s.start-segs[j].end), true
	}
	return 0, false
}

// interval is the half-open interval of the contig that l names.
func (n *numbering) interval(l hgvs.Location) (start, end int, err error) {
	first, last, err := n.ends(l)
	if err != nil {
		return 0, 0, err
	}
	if (last-first)*n.step() < 0 {
		if n.circular() && !l.End.Uncertain {
			return 0, 0, fmt.Errorf("range %s is inverted, or crosses the origin of %s, which is not supported", l, n.contig.Name)
		}
		return 0, 0, fmt.Errorf("range %s is inverted: its first position is behind its last", l)
	}
	if n.slips(l) {
		return 0, 0, fmt.Errorf("range %s crosses the place where the ribosome slips and reads bases twice: only g. can describe it", l)
	}
	return min(first, last), max(first, last) + 1, nil
}

// ends are the bases of the contig that the two ends of l number.
func (n *numbering) ends(l hgvs.Location) (first, last int, err error) {
	if l.Uncertain() {
		return 0, 0, fmt.Errorf("uncertain position %s: a place that is not known exactly has no single sequence", l)
	}
	if first, err = n.base(l.Start.Position); err != nil {
		return 0, 0, err
	}
	last, err = n.base(l.End.Position)
	return first, last, err
}

// slips reports whether coding positions of l lie on both sides of a place where the ribosome slips back.
func (n *numbering) slips(l hgvs.Location) bool {
	if n.kind != 'c' || l.Start.Region != 0 || l.End.Region != 0 || l.Start.End != 0 || l.End.End != 0 {
		return false
	}
	from, to := l.Start.Base-1+n.t.pad, l.End.Base-1+n.t.pad
	for i := 1; i < len(n.t.cds); i++ {
		a, b := n.t.cds[i-1], n.t.cds[i]
		if from < b.offset && b.offset <= to && a.start < b.end && b.start < a.end {
			return true
		}
	}
	return false
}

// point is the inter-residue point of the contig between the two neighbouring positions of l.
func (n *numbering) point(l hgvs.Location) (int, error) {
	if l.Uncertain() {
		return 0, fmt.Errorf("uncertain position %s: a place that is not known exactly has no single sequence", l)
	}
	if !l.Range {
		return 0, fmt.Errorf("an insertion stands between two neighbouring positions, not at %s", l)
	}
	first, last, err := n.ends(l)
	if err != nil {
		return 0, err
	}
	switch (last - first) * n.step() {
	case 1:
		return max(first, last), nil
	case -1:
		return 0, fmt.Errorf("range %s is inverted: its first position is behind its last", l)
	}
	if n.circular() && first == n.contig.Len()-1 && last == 0 {
		return n.contig.Len(), nil
	}
	if n.t != nil && l.Start.Offset == 0 && l.End.Offset == 0 &&
		n.t.locate(n.t.exons, first) >= 0 && n.t.locate(n.t.exons, first)+1 == n.t.locate(n.t.exons, last) {
		return 0, fmt.Errorf("an intron lies between the positions of %s: say on which side of it the insertion is, %s_%s+1 or %s-1_%s", l, l.Start, l.Start, l.End, l.End)
	}
	return 0, fmt.Errorf("an insertion stands between two neighbouring positions, which those of %s are not", l)
}

// bases are the bases [start,end) of the contig as the description reads them, introns included.
func (n *numbering) bases(start, end int) string { return n.oriented(n.contig.Text(start, end)) }

// oriented turns a sequence from the contig's strand to the description's, or back.
func (n *numbering) oriented(s string) string {
	if n.forward() {
		return s
	}
	return reverseComplement(s)
}

// spliced are the exonic bases among [start,end).
func (n *numbering) spliced(start, end int) string {
	if n.t == nil {
		return n.bases(start, end)
	}
	var b []byte
	for _, x := range n.t.exons {
		if s, e := max(start, x.start), min(end, x.end); s < e {
			b = n.t.appendStrand(b, s, e)
		}
	}
	return string(b)
}

// check compares what a change says about the bases [start,end) with what they are.
func (n *numbering) check(c hgvs.Change, start, end int) error {
	if c.Ref == "" && c.Size == 0 {
		return nil
	}
	size := max(c.Size, len(c.Ref))
	all, spliced := n.bases(start, end), n.spliced(start, end)
	if c.Size > 0 || size != len(all) && size != len(spliced) {
		if size == len(all) || size == len(spliced) {
			return nil
		}
		return fmt.Errorf("%s says %d bases, but %s has %s", c, size, c.Location, baseCount(len(all)))
	}
	if c.Ref == all || c.Ref == spliced {
		return nil
	}
	return fmt.Errorf("%s says %s, but the reference has %s there", c, clip(c.Ref), clip(all))
}

func baseCount(n int) string {
	if n == 1 {
		return "1 base"
	}
	return strconv.Itoa(n) + " bases"
}

// appendPosition appends the number of a base.
func (n *numbering) appendPosition(b []byte, base int) []byte {
	switch {
	case n.t == nil:
		return appendBase(b, base)
	case base < n.t.start || base >= n.t.end:
		return n.t.appendOutside(b, base)
	case n.kind == 'n':
		_, offset, beside := n.t.nearest(base)
		return appendBeside(strconv.AppendInt(b, int64(offset)+1, 10), beside)
	}
	return n.t.appendPosition(b, base)
}

// appendOutside appends the number of a base beside a coding transcript: its first and last exon go on.
func (t *transcript) appendOutside(b []byte, base int) []byte {
	before, after := t.start-base, base-(t.end-1)
	first, last := t.cdsStart, t.cdsEnd-1
	if !t.forward {
		before, after = after, before
		first, last = last, first
	}
	if before > 0 {
		return strconv.AppendInt(append(b, '-'), int64(t.locate(t.exons, first)+before), 10)
	}
	return strconv.AppendInt(append(b, '*'), int64(t.cdnaLength-1-t.locate(t.exons, last)+after), 10)
}

// errNoDescription is the error for changes that have no place in the numbering.
var errNoDescription = errors.New("the change reaches outside the reference sequence")

// describe is the description of v without its reference. It stays inside a transcript if it can. What it puts in is given
// by the bases, or by one of the copies if it is that.
func (n *numbering) describe(v *variant, copies []Span) (string, error) {
	d, err := n.place(v)
	if errors.Is(err, errAtOrigin) {
		return fmt.Sprintf("%d_1ins%s", n.contig.Len(), d.alt), nil
	}
	if err != nil {
		return "", err
	}
	if c, ok := n.copyIn(&d, copies); ok {
		alt := d.alt
		d.alt = ""
		return string(n.appendCopied(appendDescribed(nil, d, n.forward(), n), alt, c)), nil
	}
	return string(appendDescribed(nil, d, n.forward(), n)), nil
}

// errAtOrigin is what place returns for an insertion between the last base of a circular contig and its first.
var errAtOrigin = errors.New("the insertion is at the origin")

// stepInside is an insertion that the 3' rule has moved beyond the last base of the sequence, moved a base less: an
// insertion lies between two bases, and there are none behind.
func (v *variant) stepInside(d described, first, last int) described {
	shift := d.shift
	switch {
	case d.kind != hgvsInsertion:
		return d
	case d.start == last && shift > 0:
		shift--
	case d.start == first && shift < v.roll:
		shift++
	default:
		return d
	}
	d.start, d.end, d.shift, d.alt = v.start+shift, v.end+shift, shift, rotate(v.alt, shift)
	return d
}

// place is v where n has it.
func (n *numbering) place(v *variant) (described, error) {
	first, last := 0, n.contig.Len()
	if n.t != nil {
		first, last = n.t.start, n.t.end
	}
	d := v.describe(n.forward(), first, last)
	outside := func() bool {
		return d.start < first || d.end > last || d.kind == hgvsInsertion && (d.start == first || d.start == last)
	}
	if outside() && n.goesOn() {
		first, last = 0, n.contig.Len()
		d = v.describe(n.forward(), first, last)
	}
	if outside() && n.t == nil && n.circular() {
		return d, errAtOrigin
	}
	if outside() {
		d = v.stepInside(d, first, last)
	}
	if outside() {
		return d, errNoDescription
	}
	if n.kind == 'c' {
		return v.multipliedIn(n.t, d, first, last), nil
	}
	return v.multiplied(d, n.forward(), first, last), nil
}
