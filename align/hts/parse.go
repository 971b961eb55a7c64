package hts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
)

// What is wrong with an alignment that can't be used. Each is of its record alone: the
// others of the file may be right.
var (
	// ErrNoMatch is an alignment of no base to a base: all are clipped or inserted.
	ErrNoMatch = errors.New("no base is aligned to a base of the reference")
	// ErrSpliced is an alignment with CIGAR operation N.
	ErrSpliced = errors.New("CIGAR operation N: the alignment is spliced")
	// ErrBeyond is an alignment that isn't within its reference sequence.
	ErrBeyond = errors.New("the CIGAR is longer than the reference")
	// ErrCIGAR is an alignment whose CIGAR is missing or contradicts the read.
	ErrCIGAR = errors.New("the CIGAR doesn't fit the read")
)

// Parse turns a SAM record into a read, as far as the record holds it, and
// its alignment, and leaves the record as it is. ref is the reference sequence that it is
// aligned to. Errors are ErrNoMatch, ErrSpliced, ErrBeyond or ErrCIGAR, with details.
func Parse(rec *sam.Record, ref []byte) (*align.Read, *align.Alignment, error) {
	read, a, err := new(Parser).Parse(rec, ref)
	if err != nil {
		return nil, nil, err
	}
	read.OnReference = false
	if a.Reverse {
		// SAM holds the read on the reference's strand.
		genome.ReverseComplement(read.Seq)
		read.Qualities = slices.Clone(read.Qualities)
		slices.Reverse(read.Qualities)
	}
	return read, a, nil
}

// Parser parses records, and uses its memory again for the next one. It is not safe for concurrent
// use.
type Parser struct {
	seq []byte
	ops []align.Op
}

// checkPlace refuses a record whose alignment isn't to bases of the reference, without gaps for introns, and of the record's own bases.
func checkPlace(rec *sam.Record, ref []byte) error {
	if rec.Pos < 0 || rec.Pos >= len(ref) {
		return fmt.Errorf("%w: position %d of %d", ErrBeyond, rec.Pos+1, len(ref))
	}
	if len(rec.Cigar) == 0 {
		return fmt.Errorf("%w: there is none", ErrCIGAR)
	}
	span, query := rec.Cigar.Lengths()
	switch {
	case slices.ContainsFunc(rec.Cigar, func(op sam.CigarOp) bool { return op.Type() == sam.CigarSkipped }):
		return ErrSpliced
	case query != rec.Seq.Length:
		return fmt.Errorf("%w: %s for %d bases", ErrCIGAR, clip(rec.Cigar.String()), rec.Seq.Length)
	case span > len(ref)-rec.Pos:
		return fmt.Errorf("%w: %d bases from position %d of %d", ErrBeyond, span, rec.Pos+1, len(ref))
	}
	return nil
}

// Parse is [Parse], but what it returns is valid until the next call, and the read is left on the
// reference's strand, see [align.Read.OnReference], with N for what is none of the four bases.
func (p *Parser) Parse(rec *sam.Record, ref []byte) (*align.Read, *align.Alignment, error) {
	if err := checkPlace(rec, ref); err != nil {
		return nil, nil, err
	}
	seq := p.bases(rec, ref)
	read := &align.Read{ID: rec.Name, Seq: seq, Qualities: Qualities(rec), OnReference: true}
	if rec.Flags&sam.Read2 != 0 {
		read.Part = 1
	}
	a := &align.Alignment{
		Contig: rec.Ref.Name(), Start: rec.Pos, MappingQuality: rec.MapQ,
		Supplementary: rec.Flags&sam.Supplementary != 0, Ops: p.ops[:0],
	}
	defer func() { p.ops = a.Ops }()
	start, err := place(a, rec, seq, ref)
	if err != nil {
		return nil, nil, err
	}
	for a.Ops[len(a.Ops)-1].Kind >= align.Insertion {
		a.Ops = a.Ops[:len(a.Ops)-1]
	}
	a.QueryStart = start
	if rec.Flags&sam.Reverse != 0 {
		a.Reverse = true
		a.QueryStart, a.QueryEnd = len(seq)-a.QueryEnd, len(seq)-a.QueryStart
	}
	return read, a, nil
}

// place lays the bases of a record along the reference: it sets where they end, and what they differ by. It returns the first base
// that is opposite one of the reference; what is before it is no part of the alignment.
func place(a *align.Alignment, rec *sam.Record, seq, ref []byte) (start int, err error) {
	add := func(kind align.OpKind, n int) {
		switch k := len(a.Ops); {
		case n == 0:
		case k > 0 && a.Ops[k-1].Kind == kind:
			a.Ops[k-1].Len += n
		default:
			a.Ops = append(a.Ops, align.Op{Kind: kind, Len: n})
		}
	}
	qpos, rpos := 0, rec.Pos
	start = -1
	for _, op := range rec.Cigar {
		n := op.Len()
		if n == 0 {
			continue
		}
		switch op.Type() {
		case sam.CigarMatch, sam.CigarEqual, sam.CigarMismatch:
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
			return 0, fmt.Errorf("%w: operation %s", ErrCIGAR, op.Type())
		}
	}
	if start < 0 {
		return 0, fmt.Errorf("%w: %s", ErrNoMatch, clip(rec.Cigar.String()))
	}
	return start, nil
}

// Bases are the bases of a record, the caller's to keep, on the strand of the sequence ref
// that it is aligned to. A base that the record writes as = is the reference's, as samtools calmd
// -e leaves it; where no base of the reference is opposite, it is N.
func Bases(rec *sam.Record, ref []byte) []byte {
	seq := rec.Seq.Expand()
	if !bytes.ContainsRune(seq, '=') {
		return seq
	}
	qpos, rpos := 0, rec.Pos
	for _, op := range rec.Cigar {
		n, consumes := op.Len(), op.Type().Consumes()
		if consumes.Query == 1 {
			for i := qpos; i < min(qpos+n, len(seq)); i++ {
				if at := rpos + i - qpos; seq[i] == '=' && consumes.Reference == 1 && at >= 0 && at < len(ref) {
					seq[i] = ref[at]
				}
			}
		}
		qpos += n * consumes.Query
		rpos += n * consumes.Reference
	}
	return bytes.ReplaceAll(seq, []byte("="), []byte("N"))
}

// fourBases are the two bases of a byte of BAM, N for what is none of the four.
var fourBases = func() (t [256][2]byte) {
	const letters = "NACNGNNNTNNNNNNN"
	for i := range t {
		t[i] = [2]byte{letters[i>>4], letters[i&15]}
	}
	return t
}()

// bases are those of a record, N for what is none of the four.
func (p *Parser) bases(rec *sam.Record, ref []byte) []byte {
	n := rec.Seq.Length
	p.seq = slices.Grow(p.seq[:0], n+1)[:n+1]
	asReference := false // some bases are written as =
	for i, two := range rec.Seq.Seq[:(n+1)/2] {
		asReference = asReference || two>>4 == 0 || two&15 == 0 && 2*i+1 < n
		*(*[2]byte)(p.seq[2*i:]) = fourBases[two]
	}
	p.seq = p.seq[:n]
	if asReference {
		p.seq = Bases(rec, ref)
		for i, b := range p.seq {
			if !known[b] {
				p.seq[i] = 'N'
			}
		}
	}
	return p.seq
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

// known holds which letters are one of the four bases.
var known = [256]bool{'A': true, 'C': true, 'G': true, 'T': true}

// clip shortens a CIGAR for an error message.
func clip(s string) string { return textfile.Clip(s, 60) }
