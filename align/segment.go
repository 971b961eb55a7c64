package align

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
)

// Regions of a contig are windows of RegionWidth bases; a segment reaches up to
// RegionHalo bases beyond its region, further than any allele and window that a
// caller evaluates.
const (
	RegionWidth = 1_000_000
	RegionHalo  = 1_000
)

// RegionBounds is the 0-based half-open interval of a region's core on a contig
// of the given length.
func RegionBounds(region, contigLength int) (start, end int) {
	return region * RegionWidth, min((region+1)*RegionWidth, contigLength)
}

// Read is a called read as it was sequenced.
type Read struct {
	Run, Sample, ID string
	Part            uint32 // which part of a read that a signal gap split
	Seq             []byte // A, C, G, T or N
	Qualities       []byte // Phred per base, or empty when unknown
	Dwells          []byte // network frames per base, saturating at 255, or empty
	LastChunkMs     int64  // record time of the read's last signal chunk
	// OnReference says that bases, qualities and dwells are on the reference's strand already, as SAM has
	// them, and the bases in upper case. An alignment's query interval is of the read as sequenced
	// all the same.
	OnReference bool
}

// Segments clips one alignment of a read to every region whose core it touches,
// in the order of the regions. ref is the whole contig, upper-case.
//
// Problem: an aligner places a gap inside a repeat anywhere that scores the same,
// regions cut alignments, and a consumer must not need the read.
//
// Assumptions: ref is what the read was aligned to; alignments are a few percent
// to 20 percent apart from it.
//
// Strategy: gaps are moved left while the read still spells the same through
// matching columns, then the columns of each region with its halo are
// cut out and stored as differences. A segment starts and ends with a base on
// the reference, so a gap at a cut is dropped.
//
// Consequences: segments of two overlapping regions agree in every column of the
// overlap; a segment and the reference give back the read.
func Segments(r *Read, a *Alignment, ref []byte) ([]*streampb.Segment, error) {
	return new(Cutter).Segments(r, a, ref)
}

// Cutter makes segments, and uses its memory again for the next ones. It is not safe for concurrent use.
type Cutter struct {
	aligned, kept []Op
	ops, bases    []byte
}

// Segments is [Segments], of which the result is valid until the next call, and as long as the
// read if that is [Read.OnReference].
func (c *Cutter) Segments(r *Read, a *Alignment, ref []byte) ([]*streampb.Segment, error) {
	q, err := orient(r, a)
	if err != nil {
		return nil, fmt.Errorf("cutting read %s into segments: %w", r.ID, err)
	}
	if err := a.check(q.seq, ref); err != nil {
		return nil, fmt.Errorf("cutting read %s into segments: %w", r.ID, err)
	}
	c.aligned = appendLeftAligned(c.aligned[:0], a.Ops, q.seq, ref[a.Start:a.End])
	c.ops, c.bases = c.ops[:0], c.bases[:0]

	var out []*streampb.Segment
	for region := a.Start / RegionWidth; region <= (a.End-1)/RegionWidth; region++ {
		lo, hi := RegionBounds(region, len(ref))
		s := &streampb.Segment{
			Run: r.Run, Sample: r.Sample, ReadId: r.ID, Part: r.Part,
			Contig: a.Contig, Region: uint32(region),
			Reverse: a.Reverse, Supplementary: a.Supplementary,
			MappingQuality: uint32(a.MappingQuality),
			ReadLength:     uint32(len(r.Seq)), LastChunkMs: r.LastChunkMs,
		}
		if c.clip(s, q, a.Start, max(0, lo-RegionHalo), min(len(ref), hi+RegionHalo)) {
			out = append(out, s)
		}
	}
	return out, nil
}

// query is the aligned part of a read on the reference's strand.
type query struct {
	seq, qualities, dwells []byte
}

// orient cuts the aligned part out of the read and turns it to the reference's
// strand.
func orient(r *Read, a *Alignment) (query, error) {
	n := len(r.Seq)
	if a.QueryStart < 0 || a.QueryEnd > n || a.QueryStart >= a.QueryEnd {
		return query{}, fmt.Errorf("query interval %d-%d of a read of %d bases", a.QueryStart, a.QueryEnd, n)
	}
	from, to := a.QueryStart, a.QueryEnd
	if r.OnReference && a.Reverse {
		from, to = n-to, n-from
	}
	cut := func(what string, s []byte) ([]byte, error) {
		if len(s) == 0 {
			return nil, nil
		}
		if len(s) != n {
			return nil, fmt.Errorf("%d %s for %d bases", len(s), what, n)
		}
		if r.OnReference {
			return s[from:to], nil
		}
		c := slices.Clone(s[from:to])
		if a.Reverse {
			slices.Reverse(c)
		}
		return c, nil
	}
	var q query
	var err error
	if q.seq, err = cut("bases", r.Seq); err != nil {
		return query{}, err
	}
	if !r.OnReference {
		for i, b := range q.seq {
			if a.Reverse {
				q.seq[i] = genome.Complement(b)
			} else {
				q.seq[i] = normalBases[b]
			}
		}
	}
	if q.qualities, err = cut("qualities", r.Qualities); err != nil {
		return query{}, err
	}
	q.dwells, err = cut("dwells", r.Dwells)
	return q, err
}

// normalBases maps the letters of a read to upper-case A, C, G and T, which are the complements of their complements;
// everything else to N.
var normalBases = func() (t [256]byte) {
	for i := range t {
		t[i] = genome.Complement(genome.Complement(byte(i)))
	}
	return t
}()

// check says whether the operations fit the query and the reference, base by
// base.
func (a *Alignment) check(seq, ref []byte) error {
	if a.Start < 0 || a.End > len(ref) || a.Start >= a.End {
		return fmt.Errorf("alignment %s:%d-%d lies outside the contig of %d bases", a.Contig, a.Start, a.End, len(ref))
	}
	qpos, rpos := 0, a.Start
	for _, op := range a.Ops {
		if op.Len <= 0 || op.Kind > Deletion {
			return errors.New("invalid alignment operation")
		}
		if op.Kind.onQuery() && op.Len > len(seq)-qpos || op.Kind.onReference() && op.Len > a.End-rpos {
			return errors.New("alignment operations are longer than the alignment")
		}
		if op.Kind == Match || op.Kind == Mismatch {
			for i := range op.Len {
				if equal := seq[qpos+i] == ref[rpos+i] && seq[qpos+i] != 'N'; equal != (op.Kind == Match) {
					return fmt.Errorf("column at reference position %d contradicts the sequences", rpos+i+1)
				}
			}
		}
		if op.Kind.onQuery() {
			qpos += op.Len
		}
		if op.Kind.onReference() {
			rpos += op.Len
		}
	}
	if qpos != len(seq) || rpos != a.End {
		return errors.New("alignment operations are shorter than the alignment")
	}
	return nil
}

// clip fills s with the columns of c.aligned, which start at reference position start,
// that lie in [lo, hi). It reports whether any are left.
func (c *Cutter) clip(s *streampb.Segment, q query, start, lo, hi int) bool {
	type column struct{ qlo, qhi, rlo int }
	kept := c.kept[:0]
	var span column
	qpos, rpos := 0, start
	for _, op := range c.aligned {
		n, qskip := op.Len, 0
		if op.Kind.onReference() {
			from, to := max(rpos, lo), min(rpos+op.Len, hi)
			n = to - from
			qskip = from - rpos
		} else if rpos <= lo || rpos >= hi {
			n = 0
		}
		aligned := op.Kind == Match || op.Kind == Mismatch
		if n > 0 && (aligned || len(kept) > 0) {
			if len(kept) == 0 {
				span = column{qlo: qpos + qskip, rlo: rpos + qskip}
			}
			kept = append(kept, Op{op.Kind, n})
			if aligned {
				span.qhi = qpos + qskip + n
			}
		}
		if op.Kind.onQuery() {
			qpos += op.Len
		}
		if op.Kind.onReference() {
			rpos += op.Len
		}
	}
	c.kept = kept
	for len(kept) > 0 && kept[len(kept)-1].Kind >= Insertion {
		kept = kept[:len(kept)-1]
	}
	if len(kept) == 0 {
		return false
	}

	s.Start = int64(span.rlo)
	i := span.qlo
	ops, bases := len(c.ops), len(c.bases)
	for _, op := range kept {
		c.ops = binary.AppendUvarint(c.ops, uint64(op.Len)<<3|uint64(op.Kind))
		if op.Kind == Mismatch || op.Kind == Insertion {
			c.bases = append(c.bases, q.seq[i:i+op.Len]...)
		}
		if op.Kind.onQuery() {
			i += op.Len
		}
	}
	s.Ops = c.ops[ops:len(c.ops):len(c.ops)]
	if len(c.bases) > bases {
		s.Bases = c.bases[bases:len(c.bases):len(c.bases)]
	}
	if q.qualities != nil {
		s.Qualities = q.qualities[span.qlo:span.qhi:span.qhi]
	}
	if q.dwells != nil {
		s.Dwells = q.dwells[span.qlo:span.qhi:span.qhi]
	}
	return true
}
