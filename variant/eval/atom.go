package eval

import (
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Kind is what a variant is counted as.
type Kind uint8

// The kinds. An MNP is counted as its SNPs.
const (
	SNP Kind = iota
	Indel
	kinds = 2
)

func (k Kind) String() string { return [...]string{"SNP", "INDEL"}[k] }

// side numbers the two sets.
type side uint8

const (
	truth side = iota
	query
)

// call is a record with what of it is compared.
type call struct {
	record *vcf.Record
	side   side
	depth  int     // FORMAT/DP, or INFO/DP; -1 when unknown
	score  float64 // NaN when missing
	atoms  []*atom
	judged int // of its atoms
	events []*event
}

// atom is the least change: one substituted base, an insertion or a deletion. What cannot be taken apart in reasonable
// time is an atom as a whole.
type atom struct {
	start, end int    // replaced stretch of the reference, 0-based, half open; start == end: insertion before start
	alt        string // what stands instead
	kind       Kind

	haplotypes uint8 // bit set of those that have it, of the two of a diploid genotype; 1 for haploid ones
	ploidy     uint8 // of the genotype: 1 or 2; 0: no genotype is given
	group      int   // atoms of a group of one side keep the relation of their haplotypes; meaningful if het
	phased     bool  // group is a phase set, not a record

	from, to int // first and last place of an indel that spells the same: see extent
	call     *call
	events   []*event // that it is a part of: two, if it is on both alleles of a genotype of two

	verdict
}

// verdict is what the comparison says of an atom.
type verdict struct {
	matched    bool // with its genotype
	allele     bool // whatever the genotype; true if matched
	unresolved bool // the search was given up: an error
	// Whether it is assessed: it lies in the regions, or is matched with what does. With genotypes and without.
	inside, insideAllele bool

	segment int  // number of the stretch of matched atoms in its cluster
	swapped bool // its group's haplotypes were swapped to match

	judged  bool    // there will be no other verdict
	fellows []*atom // of an atom that is right: those of both sides that together spell the same
}

// het tells whether it matters which haplotype is which.
func (a *atom) het() bool { return a.ploidy == 2 && a.haplotypes != 3 }

// slot is where the atom stands in playing order, in half bases: 2x is the gap before base x, 2x+1 the base. So an
// insertion goes with a substitution or deletion that begins behind it or ends before it, and with none around it.
func (a *atom) slot() int {
	if a.start == a.end {
		return 2 * a.start
	}
	return 2*a.start + 1
}

// stop is the first slot that the atom leaves free.
func (a *atom) stop() int {
	if a.start == a.end {
		return 2*a.start + 1
	}
	return 2 * a.end
}

// growth is how much longer the atom makes its haplotype.
func (a *atom) growth() int { return len(a.alt) - (a.end - a.start) }

// compare orders atoms as they are played; the side does not count.
func (a *atom) compare(b *atom) int {
	switch {
	case a.slot() != b.slot():
		return a.slot() - b.slot()
	case a.stop() != b.stop():
		return a.stop() - b.stop()
	case a.alt != b.alt:
		return strings.Compare(a.alt, b.alt)
	case a.het() != b.het():
		if a.het() {
			return 1
		}
		return -1
	}
	return int(a.ploidy) - int(b.ploidy)
}

// maxAlignment bounds the cells of the alignment that takes a complex allele apart: 1,000 bases by 1,000.
const maxAlignment = 1 << 20

// edit is an atom's change.
type edit struct {
	start, end int
	alt        string
}

// trim leaves out what the replacement of ref, which begins at start, by alt doesn't change at its ends.
func trim(start int, ref, alt string) (_ int, _, _ string) {
	for len(ref) > 0 && len(alt) > 0 && ref[len(ref)-1] == alt[len(alt)-1] {
		ref, alt = ref[:len(ref)-1], alt[:len(alt)-1]
	}
	for len(ref) > 0 && len(alt) > 0 && ref[0] == alt[0] {
		ref, alt, start = ref[1:], alt[1:], start+1
	}
	return start, ref, alt
}

// decompose takes the replacement of ref, which begins at start, by alt apart into single changes, in their order.
func decompose(start int, ref, alt string) []edit {
	start, ref, alt = trim(start, ref, alt)
	switch {
	case len(ref) == 0 && len(alt) == 0:
		return nil
	case len(ref) == 0 || len(alt) == 0:
		return []edit{{start, start + len(ref), alt}}
	case len(ref) == len(alt):
		var edits []edit
		for i := range len(ref) {
			if ref[i] != alt[i] {
				edits = append(edits, edit{start + i, start + i + 1, alt[i : i+1]})
			}
		}
		return edits
	case (len(ref)+1)*(len(alt)+1) > maxAlignment:
		return []edit{{start, start + len(ref), alt}}
	}
	return align(start, ref, alt)
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

// align aligns ref and alt from end to end with affine gaps (Gotoh) and returns what differs. Of alignments that cost
// the same it takes the one whose gaps lie furthest to the left.
func align(start int, ref, alt string) []edit {
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
	var edits []edit
	before := across
	for i, j := 0, 0; i < rows-1 || j < cols-1; {
		_, by := step(before, i, j)
		switch by {
		case right:
			if before == right {
				edits[len(edits)-1].alt += alt[j : j+1]
			} else {
				edits = append(edits, edit{start + i, start + i, alt[j : j+1]})
			}
			j++
		case down:
			if before == down {
				edits[len(edits)-1].end++
			} else {
				edits = append(edits, edit{start + i, start + i + 1, ""})
			}
			i++
		default:
			if ref[i] != alt[j] {
				edits = append(edits, edit{start + i, start + i + 1, alt[j : j+1]})
			}
			i, j = i+1, j+1
		}
		before = by
	}
	return edits
}

// extent returns the first and the last start at which an insertion or deletion spells the same sequence; the start
// itself for anything else.
func (e edit) extent(seq []byte) (from, to int) {
	from, to = e.start, e.start
	switch n := e.end - e.start; {
	case n > 0 && e.alt == "":
		for from > 0 && seq[from-1] == seq[from+n-1] {
			from--
		}
		for to+n < len(seq) && seq[to] == seq[to+n] {
			to++
		}
	case n == 0:
		k := len(e.alt)
		// The inserted text turns as it moves: alt[(i+shift) mod k].
		for shift := 0; from > 0 && seq[from-1] == e.alt[k-1-shift%k]; shift++ {
			from--
		}
		for shift := 0; to < len(seq) && seq[to] == e.alt[shift%k]; shift++ {
			to++
		}
	}
	return from, to
}
