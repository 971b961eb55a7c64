package eval

import (
	"errors"
	"fmt"
	"slices"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
)

// Letters beside the four bases.
const (
	noBase  = 'N' // anything that is no base
	deleted = '-'
)

// codes are the numbers of the bases, -1 for other letters.
var codes = func() (c [256]int8) {
	for i := range c {
		c[i] = -1
	}
	for i, b := range "ACGT" {
		c[b], c[b|0x20] = int8(i), int8(i)
	}
	return c
}()

// code is 0 to 3 for A, C, G, T, -1 for other letters.
func code(b byte) int { return int(codes[b]) }

// workspace holds one alignment in the direction of the read, gaps at their leftmost
// place. It is used again and again.
type workspace struct {
	query, qualities []byte     // the aligned part; qualities empty if they are not known
	target           []byte     // the stretch of the reference that it is aligned to
	ops              []align.Op // from the read's start to its end
	runs             []int32    // by position of target: the length of the run of equal bases that it is in
	called           []byte     // by position of target: the base in its column, or deleted
	inserted         [][]byte   // by position of target, and its end: what is inserted before it
}

// load turns an alignment to the direction of the read and checks it.
func (w *workspace) load(read *align.Read, a *align.Alignment, ref []byte) error {
	switch {
	case a.QueryStart < 0 || a.QueryEnd > len(read.Seq) || a.QueryStart >= a.QueryEnd:
		return fmt.Errorf("bases %d-%d of %d are said to be aligned", a.QueryStart, a.QueryEnd, len(read.Seq))
	case a.Start < 0 || a.End > len(ref) || a.Start >= a.End:
		return fmt.Errorf("it is said to be aligned to %s:%d-%d, which has %d bases", a.Contig, a.Start, a.End, len(ref))
	}
	w.query = plain(w.query[:0], read.Seq[a.QueryStart:a.QueryEnd])
	w.qualities = w.qualities[:0]
	if len(read.Qualities) > 0 {
		w.qualities = append(w.qualities, read.Qualities[a.QueryStart:a.QueryEnd]...)
	}
	w.target = plain(w.target[:0], ref[a.Start:a.End])
	ops := slices.Clone(a.Ops)
	if a.Reverse {
		genome.ReverseComplement(w.target)
		slices.Reverse(ops)
	}
	if err := w.check(ops); err != nil {
		return err
	}
	w.ops = align.LeftAlign(ops, w.query, w.target)
	n := len(w.target)
	w.called = slices.Grow(w.called[:0], n)[:n]
	w.inserted = slices.Grow(w.inserted[:0], n+1)[:n+1]
	clear(w.inserted)
	w.runs = slices.Grow(w.runs[:0], n)[:n]
	for start := 0; start < n; {
		end := start + 1
		for end < n && w.target[end] == w.target[start] {
			end++
		}
		for i := start; i < end; i++ {
			w.runs[i] = int32(end - start)
		}
		start = end
	}
	return nil
}

// check reports whether operations fit the sequences, base by base.
func (w *workspace) check(ops []align.Op) error {
	q, r := 0, 0
	for _, op := range ops {
		if op.Len <= 0 || op.Kind > align.Deletion {
			return errors.New("an operation of its alignment is none")
		}
		onQuery, onTarget := op.Kind != align.Deletion, op.Kind != align.Insertion
		if onQuery && op.Len > len(w.query)-q || onTarget && op.Len > len(w.target)-r {
			return errors.New("its alignment is longer than the sequences")
		}
		if onQuery && onTarget {
			for i := range op.Len {
				equal := w.query[q+i] == w.target[r+i] && w.query[q+i] != noBase
				if equal != (op.Kind == align.Match) {
					return errors.New("its alignment contradicts the sequences: is it to this reference?")
				}
			}
		}
		if onQuery {
			q += op.Len
		}
		if onTarget {
			r += op.Len
		}
	}
	if q != len(w.query) || r != len(w.target) {
		return errors.New("its alignment is shorter than the sequences")
	}
	return nil
}

// plain appends letters in upper-case, all but the four bases as N.
func plain(out, letters []byte) []byte {
	for _, b := range letters {
		if c := code(b); c >= 0 {
			out = append(out, "ACGT"[c])
		} else {
			out = append(out, noBase)
		}
	}
	return out
}
