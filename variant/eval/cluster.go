package eval

import "slices"

// cluster holds atoms of both sides that may have to do with each other, in playing order.
type cluster struct {
	atoms []*atom
	end   int // of the last replaced stretch, 0-based, half open
	// By side, how much all of its atoms together can lengthen and shorten a haplotype.
	longer, shorter [2]int
}

func (c *cluster) add(a *atom) {
	if len(c.atoms) == 0 {
		c.end = a.end
	}
	c.atoms = append(c.atoms, a)
	c.end = max(c.end, a.end)
	if g := a.lengthChange(); g > 0 {
		c.longer[a.call.side] += g
	} else {
		c.shorter[a.call.side] -= g
	}
}

// separable reports whether haplotypes that are equal beyond start, where the next atom begins, must be equal
// in the cluster by itself, whatever of it is played.
//
// Let U be the reference between the cluster and start, with n bases, and let the haplotypes of truth and query in the
// cluster differ in length by d. If d is 0, equal sequences are equal up to U and from U on. If it is not, U stands d
// bases further on in one than in the other, and where the two overlap, equality means U[i] = U[i+d] for all
// i < n-d. So it is enough that n is greater than the greatest d there can be, and that for no d up to it U repeats
// itself at distance d.
func (c *cluster) separable(seq []byte, start int) bool {
	between := start - c.end
	if between < 0 {
		return false
	}
	greatest := max(c.longer[truth]+c.shorter[query], c.longer[query]+c.shorter[truth])
	if greatest == 0 {
		return true
	}
	if between <= greatest {
		return false
	}
	for d := 1; d <= greatest; d++ {
		if periodic(seq[c.end:start], d) {
			return false
		}
	}
	return true
}

// periodic reports whether u repeats itself at distance d; d < len(u).
func periodic(u []byte, d int) bool {
	for i := 0; i+d < len(u); i++ {
		if u[i] != u[i+d] {
			return false
		}
	}
	return true
}

// evaluate gives every atom of the cluster its verdict.
func (s *search) evaluate(c *cluster) {
	if c.trivial() {
		return
	}
	for ploidy := uint8(1); ploidy <= 2; ploidy++ {
		s.haplotypes = 2
		s.match(choose(c.atoms, func(a *atom) bool { return a.ploidy == ploidy }), int(ploidy)*len(c.atoms))
	}
	for _, a := range c.atoms {
		a.allele = a.matched
	}
	s.haplotypes = 1
	for s.alleles(choose(c.atoms, func(a *atom) bool { return !a.allele })) {
	}
	s.alleles(c.atoms)
}

// trivial gives the verdict for clusters of one side, and of one and the same atom on both: most
// clusters are such.
func (c *cluster) trivial() bool {
	sides := [2]bool{}
	for _, a := range c.atoms {
		sides[a.call.side] = true
	}
	if !sides[truth] || !sides[query] {
		return true
	}
	if len(c.atoms) != 2 {
		return false
	}
	a, b := c.atoms[0], c.atoms[1]
	if a.compare(b) != 0 || a.ploidy == 0 {
		return false
	}
	a.matched, b.matched, a.allele, b.allele = true, true, true, true
	a.fellows = c.atoms
	b.fellows = c.atoms
	b.swapped = a.haplotypes != b.haplotypes
	return true
}

// choose returns those of atoms that satisfy is.
func choose(atoms []*atom, is func(*atom) bool) []*atom {
	var list []*atom
	for _, a := range atoms {
		if is(a) {
			list = append(list, a)
		}
	}
	return list
}

// bothSides reports whether there is something to compare.
func bothSides(atoms []*atom) bool {
	return slices.ContainsFunc(atoms, func(a *atom) bool { return a.call.side == truth }) &&
		slices.ContainsFunc(atoms, func(a *atom) bool { return a.call.side == query })
}

// match marks the atoms whose haplotypes are the same on both sides. Segments are numbered from segment on.
//
// Atoms of one side that overlap cannot all be played: a set can contradict itself. Those that were left out for that
// reason are compared again by themselves, so that two sets with the same contradiction are equal.
func (s *search) match(atoms []*atom, segment int) {
	for bothSides(atoms) {
		best, ok := s.run(atoms)
		if !ok {
			for _, a := range atoms {
				a.unresolved = true
			}
			return
		}
		if len(best) == 0 {
			return
		}
		for _, p := range best {
			a := atoms[p.atom]
			a.matched, a.segment, a.swapped = true, segment+p.segment, p.swapped
		}
		assess(atoms, best, func(a *atom, inside bool) { a.inside, a.insideAllele = inside, inside })
		relate(atoms, best)
		segment += len(best)
		taken := occupied(atoms, best)
		atoms = choose(atoms, func(a *atom) bool { return !a.matched && taken[a.call.side].overlap(a) })
	}
}

// occupancy is the slots that atoms of one side take, in playing order.
type occupancy struct {
	slots []int
	reach []int // the last slot left free by those so far
}

// occupied is the slots of what was played, by side.
func occupied(atoms []*atom, best []played) (by [2]occupancy) {
	for _, p := range best { // in playing order
		a := atoms[p.atom]
		o := &by[a.call.side]
		reach := a.stop()
		if n := len(o.reach); n > 0 {
			reach = max(reach, o.reach[n-1])
		}
		o.slots, o.reach = append(o.slots, a.slot()), append(o.reach, reach)
	}
	return by
}

// overlap reports whether an atom of the side cannot be on one haplotype together with one of
// these.
func (o *occupancy) overlap(a *atom) bool {
	before, _ := slices.BinarySearch(o.slots, a.stop()) // those that begin before a ends
	return before > 0 && o.reach[before-1] > a.slot()
}

// alleles marks the atoms whose alleles are the same on both sides; it reports whether there was one
// more.
func (s *search) alleles(atoms []*atom) bool {
	if !bothSides(atoms) {
		return false
	}
	best, ok := s.run(atoms)
	if !ok {
		for _, a := range atoms {
			a.unresolved = a.unresolved || !a.allele
		}
		return false
	}
	more := false
	assess(atoms, best, func(a *atom, inside bool) {
		if !a.allele {
			a.insideAllele = inside
		}
	})
	relate(atoms, best)
	for _, p := range best {
		a := atoms[p.atom]
		more = more || !a.allele
		a.allele = true
	}
	return more
}

// relate sets, for atoms that were not known to be right, the others that they are right together
// with.
func relate(atoms []*atom, best []played) {
	with := make(map[int][]*atom)
	for _, p := range best {
		with[p.segment] = append(with[p.segment], atoms[p.atom])
	}
	for _, p := range best {
		if a := atoms[p.atom]; a.fellows == nil {
			a.fellows = with[p.segment]
		}
	}
}

// assess reports to set, for each atom of the query that is matched, whether an atom of the truth in its
// segment lies in the regions. If so, the query's atom is assessed wherever it lies itself, and else it is
// not, as in vcfeval.
func assess(atoms []*atom, best []played, set func(*atom, bool)) {
	inside := make(map[int]bool)
	for _, p := range best {
		a := atoms[p.atom]
		inside[p.segment] = inside[p.segment] || a.call.side == truth && a.inside
	}
	for _, p := range best {
		if a := atoms[p.atom]; a.call.side == query {
			set(a, inside[p.segment])
		}
	}
}
