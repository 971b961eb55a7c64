package diplotype

import (
	"slices"
)

// same reports whether two genotypes are written in the same way.
func (g Genotype) same(other Genotype) bool {
	return g.Phase == other.Phase && slices.Equal(g.Bases, other.Bases)
}

// isOnly says that no copy is known to have other bases.
func (g Genotype) isOnly(bases string) bool {
	return !slices.ContainsFunc(g.Bases, func(b string) bool { return b != "" && b != bases })
}

// count is how many copies have these bases.
func (g Genotype) count(bases string) int {
	n := 0
	for _, b := range g.Bases {
		if b == bases {
			n++
		}
	}
	return n
}

// agreed is what the different statements of a position say together, in whichever order they came; false: they contradict each other.
//
// A statement of another base is stronger than one of the reference base: the latter may be a block that continues over a variant. Besides, a
// variant's record with the reference's base only excludes the record's own alleles, since records of one position may be split by alleles. So each
// statement says how many copies have its alleles, and known is what all genotypes that fit all statements have in common. If no genotype fits, known is the
// single base that all statements have besides the reference: at least one copy has it.
func agreed(said []Genotype, ref string) (Genotype, bool) {
	for _, g := range said {
		if len(g.Bases) != 2 {
			return g, true // how many copies there are is the matter of the call
		}
	}
	variants := slices.DeleteFunc(slices.Clone(said), func(g Genotype) bool { return g.isOnly(ref) })
	if len(variants) == 0 {
		return leastKnown(said), true
	}
	said = variants
	if g, ok := oneGenotype(said); ok {
		return g, true
	}
	alleles := []string{}
	for _, g := range said {
		alleles = append(alleles, g.Bases...)
	}
	alleles = append(alleles, ref)
	slices.Sort(alleles)
	alleles = slices.Compact(alleles)
	var fitting []Genotype
	for i, a := range alleles {
		for _, b := range alleles[i:] {
			g := Genotype{Bases: []string{a, b}}
			if !slices.ContainsFunc(said, func(s Genotype) bool { return !g.fits(s, ref) }) {
				fitting = append(fitting, g)
			}
		}
	}
	if len(fitting) > 0 {
		return common(fitting, alleles), true
	}
	others := slices.DeleteFunc(alleles, func(a string) bool { return a == ref || a == "" })
	if len(others) == 1 {
		return Genotype{Bases: []string{"", others[0]}}, true
	}
	return Genotype{}, false
}

// fits reports whether as many copies have the alleles of a statement as it says.
func (g Genotype) fits(said Genotype, ref string) bool {
	for _, b := range said.Bases {
		if n := g.count(b); b != "" && b != ref && (n < said.count(b) || n > said.count(b)+said.count("")) {
			return false
		}
	}
	return true
}

// common are the bases that all genotypes have.
func common(list []Genotype, alleles []string) Genotype {
	var g Genotype
	for _, a := range alleles {
		n := 2
		for _, other := range list {
			n = min(n, other.count(a))
		}
		for range n {
			g.Bases = append(g.Bases, a)
		}
	}
	for len(g.Bases) < 2 {
		g.Bases = append(g.Bases, "")
	}
	return g
}

// oneGenotype is the genotype of all statements, in the order of those statements that give one.
func oneGenotype(said []Genotype) (Genotype, bool) {
	sorted := func(g Genotype) []string { return slices.Sorted(slices.Values(g.Bases)) }
	one := said[0]
	for _, g := range said[1:] {
		switch {
		case !slices.Equal(sorted(one), sorted(g)):
			return Genotype{}, false
		case one.Phase == "":
			one = g
		}
	}
	for _, g := range said {
		if g.Phase != "" && !g.same(one) {
			return Genotype{Bases: sorted(one)}, true // in two phases
		}
	}
	if one.Phase == "" {
		one.Bases = sorted(one)
	}
	return one, true
}

// leastKnown is the statement with the fewest known copies; nothing, if there is none.
func leastKnown(said []Genotype) Genotype {
	var least Genotype
	for _, g := range said {
		if least.Bases == nil || g.count("") > least.count("") {
			least = g
		}
	}
	return least
}
