package eval

import (
	"strings"

	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/vrs"
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
	record  *vcf.Record
	side    side
	depth   int     // FORMAT/DP, or INFO/DP; -1 when unknown
	score   float64 // NaN when missing
	atoms   []*atom
	decided int // of its atoms
	events  []*event
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

	decided bool    // there will be no other verdict
	fellows []*atom // of an atom that is right: those of both sides that together spell the same
}

// het reports whether it matters which haplotype is which.
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

// lengthChange is how much longer the atom makes its haplotype.
func (a *atom) lengthChange() int { return len(a.alt) - (a.end - a.start) }

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

// edit is an atom's change.
type edit struct {
	start, end int
	alt        string
}

// decompose takes the replacement of ref, which begins at start, by alt apart into single changes, in their order.
func decompose(start int, ref, alt string) []edit {
	var edits []edit
	for _, a := range (vrs.Edit{Start: start, Ref: ref, Alt: alt}).Atoms() {
		edits = append(edits, edit{a.Start, a.End(), a.Alt})
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
