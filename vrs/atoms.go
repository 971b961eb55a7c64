package vrs

import "fmt"

// maxAlignment bounds the cells of the alignment that takes a complex change apart: 1,000 bases by 1,000.
const maxAlignment = 1 << 20

// Atoms are the least changes that e is made of, trimmed and in their order: replaced bases one by one, insertions and
// deletions. Together, on one haplotype, they are e. Equal alleles have none, and an insertion, a deletion or one replaced
// base is its own only atom.
//
// Alleles of one length have an atom for each position at which they differ, as "bcftools norm --atomize" takes them
// apart. Others are aligned from end to end: a replaced base costs 3, a gap 4 and 1 for each base after its first, so that
// the fewest events win; of alignments that cost the same it is the one whose gaps lie furthest to the left. Complex
// changes of more than some thousand bases aren't aligned and are their own only atom. An atom isn't left-aligned, which
// takes the sequence: see [Edit.Left].
func (e Edit) Atoms() []Edit {
	e = e.Trim()
	switch {
	case e.Ref == "" && e.Alt == "":
		return nil
	case e.Ref == "" || e.Alt == "":
		return []Edit{e}
	case len(e.Ref) == len(e.Alt):
		var edits []Edit
		for i := range len(e.Ref) {
			if e.Ref[i] != e.Alt[i] {
				edits = append(edits, Edit{e.Start + i, e.Ref[i : i+1], e.Alt[i : i+1]})
			}
		}
		return edits
	case (len(e.Ref)+1)*(len(e.Alt)+1) > maxAlignment:
		return []Edit{e}
	}
	return e.align()
}

// AtomIDs are the computed identifiers of the atoms ([Edit.Atoms]) of the variant that replaces ref, at 0-based position
// pos0 of the sequence seq whose refget accession is refgetDigest, by alt; nil for a variant that is its own only atom. The
// identifier of an atom is that of the same change by itself, so it finds the one among the other.
func AtomIDs(refgetDigest string, seq []byte, pos0 int, ref, alt string) ([]string, error) {
	if err := check(seq, pos0, ref, alt); err != nil {
		return nil, fmt.Errorf("identifying atoms: %w", err)
	}
	atoms := Edit{pos0, ref, alt}.Atoms()
	if len(atoms) < 2 {
		return nil, nil
	}
	ids := make([]string, len(atoms))
	for i, a := range atoms {
		id, err := AlleleID(refgetDigest, seq, a.Start, a.Ref, a.Alt)
		if err != nil {
			return nil, err
		}
		ids[i] = id
	}
	return ids, nil
}

// Costs of an alignment: a gap is dearer than a substitution, and a longer gap cheaper than another one, so that the
// fewest events win.
const (
	costMismatch = 3
	costOpen     = 4 // of the first base of a gap
	costExtend   = 1
)

// The states of an alignment's cell: how it was reached.
const (
	across = iota // a base against a base
	down          // a base of the reference deleted
	right         // a base inserted
)

// align aligns both alleles from end to end with affine gaps (Gotoh) and returns what differs. Of alignments that cost
// the same it takes the one whose gaps lie furthest to the left.
func (e Edit) align() []Edit {
	ref, alt := e.Ref, e.Alt
	rows, cols := len(ref)+1, len(alt)+1
	const far = int32(1) << 29
	// cost[state][i*cols+j] is the least cost of aligning ref[i:] and alt[j:] given that the step before was state: the
	// table is filled from the end so that walking it from the beginning can prefer gaps early.
	var cost [3][]int32
	for s := range cost {
		cost[s] = make([]int32, rows*cols)
	}
	gap := func(before, s int) int32 {
		if before == s {
			return costExtend
		}
		return costOpen
	}
	step := func(before, i, j int) (best int32, by int) {
		best, by = far, across
		if j < cols-1 {
			if c := cost[right][i*cols+j+1] + gap(before, right); c < best {
				best, by = c, right
			}
		}
		if i < rows-1 {
			if c := cost[down][(i+1)*cols+j] + gap(before, down); c < best {
				best, by = c, down
			}
		}
		if i < rows-1 && j < cols-1 {
			c := cost[across][(i+1)*cols+j+1]
			if ref[i] != alt[j] {
				c += costMismatch
			}
			if c < best {
				best, by = c, across
			}
		}
		return best, by
	}
	for i := rows - 1; i >= 0; i-- {
		for j := cols - 1; j >= 0; j-- {
			if i == rows-1 && j == cols-1 {
				continue
			}
			for s := range cost {
				cost[s][i*cols+j], _ = step(s, i, j)
			}
		}
	}
	var edits []Edit
	before := across
	for i, j := 0, 0; i < rows-1 || j < cols-1; {
		_, by := step(before, i, j)
		switch by {
		case right:
			if before == right {
				edits[len(edits)-1].Alt += alt[j : j+1]
			} else {
				edits = append(edits, Edit{Start: e.Start + i, Alt: alt[j : j+1]})
			}
			j++
		case down:
			if before == down {
				edits[len(edits)-1].Ref += ref[i : i+1]
			} else {
				edits = append(edits, Edit{Start: e.Start + i, Ref: ref[i : i+1]})
			}
			i++
		default:
			if ref[i] != alt[j] {
				edits = append(edits, Edit{e.Start + i, ref[i : i+1], alt[j : j+1]})
			}
			i, j = i+1, j+1
		}
		before = by
	}
	return edits
}
