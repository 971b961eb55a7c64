package genome

import (
	"fmt"
	"iter"

	"github.com/porestream/porestream/vrs"
)

// Len is the number of bases.
func (c *Contig) Len() int {
	if c.packed != nil {
		return c.packed.n
	}
	return len(c.Seq)
}

// At is base i, counted from 0: an upper-case IUPAC nucleotide letter.
func (c *Contig) At(i int) byte {
	if c.packed != nil {
		return c.packed.at(i)
	}
	return c.Seq[i]
}

// Append appends the bases [start,end) to dst.
func (c *Contig) Append(dst []byte, start, end int) []byte {
	if c.packed == nil {
		return append(dst, c.Seq[start:end]...)
	}
	c.check(start, end)
	return c.packed.appendTo(dst, start, end)
}

// Text is the bases [start,end).
func (c *Contig) Text(start, end int) string {
	if c.packed == nil {
		return string(c.Seq[start:end])
	}
	c.check(start, end)
	var few [64]byte
	return string(c.packed.appendTo(few[:0], start, end))
}

// check panics for bases that the contig hasn't, as slicing does.
func (c *Contig) check(start, end int) {
	if start < 0 || start > end || end > c.packed.n {
		panic(fmt.Sprintf("bases %d to %d of a contig of %d", start, end, c.packed.n))
	}
}

// Has says whether the contig has these bases from start on. It has none before its first and behind its last.
func (c *Contig) Has(start int, bases string) bool {
	if start < 0 || len(bases) > c.Len()-start {
		return false
	}
	if c.packed == nil {
		return string(c.Seq[start:start+len(bases)]) == bases
	}
	for i := range len(bases) {
		if c.packed.at(start+i) != bases[i] {
			return false
		}
	}
	return true
}

// Flat is all bases, a byte each, which must not be changed. Those of a packed contig are written out each time.
func (c *Contig) Flat() []byte {
	if c.packed == nil {
		return c.Seq
	}
	return c.Append(make([]byte, 0, c.Len()), 0, c.Len())
}

// pieces are all bases, in pieces that are overwritten.
func (c *Contig) pieces() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if c.packed == nil {
			yield(c.Seq)
			return
		}
		buf := make([]byte, 0, 16<<10)
		for start := 0; start < c.Len(); start += cap(buf) {
			if !yield(c.Append(buf, start, min(start+cap(buf), c.Len()))) {
				return
			}
		}
	}
}

// margin is how many bases beside an edit are examined first; few repeats are longer.
const margin = 16

// around returns a stretch of the contig in which e can move as far as on the whole contig, and where the stretch begins. The
// stretch is in buf if it fits. left and right are e, trimmed and moved as far as possible in either direction on the stretch.
func (c *Contig) around(buf []byte, e vrs.Edit) (seq []byte, start int, left, right vrs.Edit) {
	if c.packed == nil {
		left = e.Left(c.Seq)
		return c.Seq, 0, left, left.Right(c.Seq)
	}
	before, behind := margin, margin
	for {
		to := min(c.Len(), e.End()+behind)
		start = max(0, min(to, e.Start-before))
		seq = c.Append(buf[:0], start, to)
		left = vrs.Edit{Start: e.Start - start, Ref: e.Ref, Alt: e.Alt}.Left(seq)
		right = left.Right(seq)
		cutLeft, cutRight := start > 0 && left.Start == 0, to < c.Len() && right.End() == len(seq)
		if !cutLeft && !cutRight {
			return seq, start, left, right
		}
		if cutLeft {
			before *= 4
		}
		if cutRight {
			behind *= 4
		}
	}
}

// stays says of an edit that is trimmed that it can't move: most can't, and the bases beside them show it.
func (c *Contig) stays(e vrs.Edit) bool {
	if e.Ref != "" && e.Alt != "" || e.Ref == e.Alt {
		return true
	}
	moved := e.Ref + e.Alt // one of them is empty
	return (e.Start <= 0 || c.At(e.Start-1) != moved[len(moved)-1]) && (e.End() >= c.Len() || c.At(e.End()) != moved[0])
}

// Places are e, trimmed, as far left and as far right on the contig as it goes: [vrs.Edit.Left] and [vrs.Edit.Right].
func (c *Contig) Places(e vrs.Edit) (left, right vrs.Edit) {
	if e = e.Trim(); c.stays(e) {
		return e, e
	}
	var few [4 * margin]byte
	_, start, left, right := c.around(few[:], e)
	left.Start += start
	right.Start += start
	return left, right
}

// Left is [vrs.Edit.Left] on the contig.
func (c *Contig) Left(e vrs.Edit) vrs.Edit {
	e, _ = c.Places(e)
	return e
}

// Right is [vrs.Edit.Right] on the contig.
func (c *Contig) Right(e vrs.Edit) vrs.Edit {
	_, e = c.Places(e)
	return e
}

// LeftTo is [vrs.Edit.LeftTo] on the contig.
func (c *Contig) LeftTo(e vrs.Edit, first int) vrs.Edit {
	var few [4 * margin]byte
	seq, start, _, _ := c.around(few[:], e)
	e.Start -= start
	e = e.LeftTo(seq, first-start)
	e.Start += start
	return e
}

// RightTo is [vrs.Edit.RightTo] on the contig.
func (c *Contig) RightTo(e vrs.Edit, last int) vrs.Edit {
	var few [4 * margin]byte
	seq, start, _, _ := c.around(few[:], e)
	e.Start -= start
	e = e.RightTo(seq, last-start)
	e.Start += start
	return e
}

// Normal is [vrs.Edit.Normal] on the contig.
func (c *Contig) Normal(e vrs.Edit) vrs.Edit {
	return c.Anchored(c.Left(e))
}

// Anchored is [vrs.Edit.Anchored] on the contig.
func (c *Contig) Anchored(e vrs.Edit) vrs.Edit {
	from, to := max(0, e.Start-1), min(c.Len(), e.End()+1)
	if c.packed == nil || from > to {
		return e.Anchored(c.Seq)
	}
	e.Start -= from
	e = e.Anchored(c.Append(nil, from, to))
	e.Start += from
	return e
}

// AlleleID is [vrs.AlleleID] of the replacement of ref, at base pos (from 0), by alt.
func (c *Contig) AlleleID(pos int, ref, alt string) (string, error) {
	if c.packed == nil || !c.Has(pos, ref) { // if ref isn't there, the error states which bases are
		return vrs.AlleleID(c.Digest(), c.Flat(), pos, ref, alt)
	}
	seq, start, _, _ := c.around(nil, vrs.Edit{Start: pos, Ref: ref, Alt: alt})
	a, err := vrs.Normalize(seq, pos-start, ref, alt)
	if err != nil {
		return "", fmt.Errorf("identifying allele: %w", err)
	}
	a.Start, a.End = a.Start+start, a.End+start
	return a.ID(c.Digest()), nil
}

// AtomIDs is [vrs.AtomIDs] of the replacement of ref, at base pos (from 0), by alt.
func (c *Contig) AtomIDs(pos int, ref, alt string) ([]string, error) {
	if c.packed == nil || !c.Has(pos, ref) {
		return vrs.AtomIDs(c.Digest(), c.Flat(), pos, ref, alt)
	}
	atoms := vrs.Edit{Start: pos, Ref: ref, Alt: alt}.Atoms()
	if len(atoms) < 2 {
		return nil, nil
	}
	ids := make([]string, len(atoms))
	for i, a := range atoms {
		id, err := c.AlleleID(a.Start, a.Ref, a.Alt)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}
