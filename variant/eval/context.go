package eval

import (
	"slices"

	"github.com/porestream/porestream/genome"
)

// Thresholds of the homopolymers that have figures of their own, in bases.
var homopolymers = []int{4, 5, 7}

// A tandem repeat has units of 2 to maxUnit bases, at least minCopies of them, and at least minRepeat bases.
const (
	maxUnit   = 6
	minCopies = 3
	minRepeat = 10
)

// The names of the strata that every comparison has.
const (
	everywhere     = "all"
	outsideHP      = "outside homopolymers >= 5"
	tandem         = "tandem repeats"
	outsideRepeats = "outside homopolymers >= 4 and tandem repeats"
)

// homopolymerAt is the length of the longest homopolymer of the reference that the atom changes: one that has a replaced
// base, or one of the two bases that an insertion is between, at any of the places where an indel can be written.
func (a *atom) homopolymerAt(seq []byte) int {
	start, end := a.touched(len(seq))
	longest := 0
	for i := start; i < end; {
		from, to := i, i+1
		for from > 0 && seq[from-1] == seq[i] {
			from--
		}
		for to < len(seq) && seq[to] == seq[i] {
			to++
		}
		if seq[i] != 'N' {
			longest = max(longest, to-from)
		}
		i = to
	}
	return longest
}

// touched is the stretch of the reference that the atom changes, wherever it is written.
func (a *atom) touched(length int) (start, end int) {
	start, end = a.from, a.to+a.end-a.start
	if a.start == a.end {
		start, end = start-1, end+1
	}
	return max(0, start), min(length, end)
}

// inTandem reports whether the atom changes a tandem repeat of the reference, homopolymers not
// included.
func (a *atom) inTandem(seq []byte) bool {
	start, end := a.touched(len(seq))
	const around = maxUnit * (minCopies + 2)
	lo, hi := max(0, start-around), min(len(seq), end+around)
	for unit := 2; unit <= maxUnit; unit++ {
		need := max(minCopies*unit, minRepeat)
		for i := lo + unit; i < hi; {
			if seq[i] != seq[i-unit] || seq[i] == 'N' {
				i++
				continue
			}
			from := i - unit
			for i < hi && seq[i] == seq[i-unit] {
				i++
			}
			if i-from >= need && from < end && start < i && !uniform(seq[from:from+unit]) {
				return true
			}
		}
	}
	return false
}

// uniform reports whether all bases are the same.
func uniform(s []byte) bool {
	return !slices.ContainsFunc(s, func(b byte) bool { return b != s[0] })
}

// lengthBin is the bin of an insertion's or deletion's length: hap.py's, with single bases by themselves.
func (a *atom) lengthBin() string {
	n, what := a.lengthChange(), "insertion"
	if n < 0 {
		n, what = -n, "deletion"
	}
	if a.start < a.end && a.alt != "" {
		return "complex"
	}
	switch {
	case n == 1:
		return what + " 1"
	case n <= 5:
		return what + " 2-5"
	case n <= 15:
		return what + " 6-15"
	default:
		return what + " >= 16"
	}
}

// depths are the lower ends of the bins of depth.
var depths = []struct {
	least int
	name  string
}{{50, "depth >= 50"}, {30, "depth 30-49"}, {20, "depth 20-29"}, {15, "depth 15-19"}, {10, "depth 10-14"}, {5, "depth 5-9"}, {0, "depth < 5"}}

// strata lists the strata that an atom belongs to.
func (a *atom) strata(contig *genome.Contig, extra []Stratum) []string {
	list := []string{everywhere}
	run := a.homopolymerAt(contig.Seq)
	for _, least := range homopolymers {
		if run >= least {
			list = append(list, homopolymerName(least))
		}
	}
	if run < 5 {
		list = append(list, outsideHP)
	}
	repeat := a.inTandem(contig.Seq)
	if repeat {
		list = append(list, tandem)
	}
	if run < 4 && !repeat {
		list = append(list, outsideRepeats)
	}
	if a.kind == Indel {
		list = append(list, a.lengthBin())
	}
	if a.call.depth >= 0 {
		for _, d := range depths {
			if a.call.depth >= d.least {
				list = append(list, d.name)
				break
			}
		}
	}
	for _, s := range extra {
		if s.Regions.holds(contig, a) {
			list = append(list, s.Name)
		}
	}
	return list
}
