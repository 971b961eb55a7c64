package hts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
)

// Parse turns a SAM record into a read, as far as the record holds it, and
// its alignment. ref is the reference sequence that it is aligned to, which the
// alignment lies in.
func Parse(rec *sam.Record, ref []byte) (*align.Read, *align.Alignment, error) {
	seq := rec.Seq.Expand()
	read := &align.Read{ID: rec.Name, Seq: seq, Qualities: rec.Qual}
	if len(rec.Qual) > 0 && rec.Qual[0] == 0xff {
		read.Qualities = nil
	}
	if rec.Flags&sam.Read2 != 0 {
		read.Part = 1
	}
	a := &align.Alignment{
		Contig: rec.Ref.Name(), Start: rec.Pos, MappingQuality: rec.MapQ,
		Supplementary: rec.Flags&sam.Supplementary != 0,
	}
	add := func(kind align.OpKind, n int) {
		switch k := len(a.Ops); {
		case n == 0:
		case k > 0 && a.Ops[k-1].Kind == kind:
			a.Ops[k-1].Len += n
		default:
			a.Ops = append(a.Ops, align.Op{Kind: kind, Len: n})
		}
	}
	operations, err := cigar(rec)
	if err != nil {
		return nil, nil, err
	}
	if len(operations) == 0 {
		return nil, nil, errors.New("the record has no CIGAR")
	}
	qpos, rpos, start := 0, rec.Pos, -1
	for _, op := range operations {
		n := op.Len()
		switch op.Type() {
		case sam.CigarMatch, sam.CigarEqual, sam.CigarMismatch:
			if n > len(seq)-qpos || n > len(ref)-rpos {
				return nil, nil, errors.New("the CIGAR is longer than the read or the reference")
			}
			if start < 0 {
				start = qpos
			}
			for x, y := seq[qpos:qpos+n], ref[rpos:rpos+n]; len(x) > 0; {
				same := matches(x, y)
				add(align.Match, same)
				x, y = x[same:], y[same:]
				if len(x) > 0 {
					add(align.Mismatch, 1)
					x, y = x[1:], y[1:]
				}
			}
			qpos += n
			rpos += n
			a.QueryEnd = qpos
			a.End = rpos
		case sam.CigarInsertion:
			if start >= 0 {
				add(align.Insertion, n)
			}
			qpos += n
		case sam.CigarDeletion:
			if start < 0 {
				a.Start += n
			} else {
				add(align.Deletion, n)
			}
			rpos += n
		case sam.CigarSoftClipped:
			qpos += n
		case sam.CigarHardClipped, sam.CigarPadded:
		default:
			return nil, nil, fmt.Errorf("CIGAR operation %s: spliced alignments can't be called", op.Type())
		}
	}
	for len(a.Ops) > 0 && a.Ops[len(a.Ops)-1].Kind >= align.Insertion {
		a.Ops = a.Ops[:len(a.Ops)-1]
	}
	if start < 0 || qpos != len(seq) {
		return nil, nil, fmt.Errorf("the CIGAR %s doesn't fit the read's %d bases", clip(operations.String()), len(seq))
	}
	a.QueryStart = start
	if rec.Flags&sam.Reverse != 0 {
		// SAM holds the read on the reference's strand; a Read is as sequenced.
		align.ReverseComplement(read.Seq)
		slices.Reverse(read.Qualities)
		a.Reverse = true
		a.QueryStart, a.QueryEnd = len(seq)-a.QueryEnd, len(seq)-a.QueryStart
	}
	return read, a, nil
}

// matches is how many of the first bases are the same and among A, C, G and T. Both are
// of one length.
func matches(seq, ref []byte) int {
	ref = ref[:len(seq)]
	for i, b := range seq {
		if b != ref[i] || !known[b] {
			return i
		}
	}
	return len(seq)
}

// known tells which letters are one of the four bases.
var known = [256]bool{'A': true, 'C': true, 'G': true, 'T': true}

// clip shortens a CIGAR for an error message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// cigar is the record's CIGAR: one of more than 65,535 operations is in a tag, and
// a placeholder in its place (SAM specification, section 4.2.2).
func cigar(rec *sam.Record) (sam.Cigar, error) {
	c := rec.Cigar
	if len(c) != 2 || c[0].Type() != sam.CigarSoftClipped || c[0].Len() != rec.Seq.Length || c[1].Type() != sam.CigarSkipped {
		return c, nil
	}
	tag, ok := rec.Tag([]byte("CG"))
	if !ok {
		return c, nil
	}
	const head = 8 // CG, B, I and the number of operations
	if len(tag) < head || tag[2] != 'B' || tag[3] != 'I' || (len(tag)-head)%4 != 0 {
		return nil, errors.New("the tag CG holds no CIGAR")
	}
	list := make(sam.Cigar, 0, (len(tag)-head)/4)
	for b := tag[head:]; len(b) > 0; b = b[4:] {
		list = append(list, sam.CigarOp(binary.LittleEndian.Uint32(b)))
	}
	return list, nil
}
