package align

import (
	"strconv"
	"strings"
)

// OpKind says what one run of alignment columns does. The values are those of
// the ops field of a Segment.
type OpKind uint8

// The kinds of columns.
const (
	Match     OpKind = iota // query and reference bases are equal
	Mismatch                // they differ, or one of them is not A, C, G or T
	Insertion               // query bases without reference
	Deletion                // reference bases without query
)

// String is the kind's letter in an extended CIGAR.
func (k OpKind) String() string { return "=XID"[k : k+1] }

// onReference says whether columns of the kind consume reference bases.
func (k OpKind) onReference() bool { return k != Insertion }

// onQuery says whether columns of the kind consume query bases.
func (k OpKind) onQuery() bool { return k != Deletion }

// Op is a run of equal columns.
type Op struct {
	Kind OpKind
	Len  int // at least 1
}

// Alignment is one placement of a read on a contig.
type Alignment struct {
	Contig     string
	Start, End int  // reference interval, 0-based half open
	Reverse    bool // the reverse complement of the read is what aligns

	QueryStart, QueryEnd int // interval of the read as it was given, 0-based half open

	MappingQuality uint8 // 0 to 60
	Supplementary  bool  // another part of the read has the primary alignment

	Ops        []Op    // reference strand, left to right, without clips
	Score      int     // AS: the alignment's score
	NM         int     // mismatches, inserted and deleted bases
	Divergence float64 // de: share of differing columns, a gap counting once
}

// Cigar is the extended CIGAR of the aligned part, without clips.
func (a *Alignment) Cigar() string {
	var b strings.Builder
	for _, op := range a.Ops {
		b.WriteString(strconv.Itoa(op.Len))
		b.WriteString(op.Kind.String())
	}
	return b.String()
}

// Identity is matching columns over all columns, the usual "BLAST identity".
func (a *Alignment) Identity() float64 {
	matches, columns := 0, 0
	for _, op := range a.Ops {
		columns += op.Len
		if op.Kind == Match {
			matches += op.Len
		}
	}
	if columns == 0 {
		return 0
	}
	return float64(matches) / float64(columns)
}
