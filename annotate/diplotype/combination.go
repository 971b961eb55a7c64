package diplotype

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The limits of a question.
const (
	maxCombinations   = 1 << 12 // pairs, and sets of alleles that a copy may have
	maxCombinedGroups = 12      // as maxGroups
)

// named is what one copy is called: alleles that it has together, and bases of positions that none of them explains.
type named struct {
	alleles []int    // numbers, ascending
	rest    []string // changes of the genome, by position
}

// combine names copies by combinations of alleles, where no pair of alleles explains the genotypes.
//
// A copy has every allele that it matches at all known defining positions, and the changes that these don't explain, [*6 + *14 + g.41010006G>C]. No position
// counts for two alleles of one copy: of alleles that share a position, the one with more defining positions explains it. Alleles with equally many, which only
// a missing position distinguishes, are alternatives. A copy without an allele is its changes alone, or the reference. The rule is PharmCAT's.
func (d *Definitions) combine(genotypes []Genotype, c *Call) {
	var known []int
	for i, g := range genotypes {
		if len(g.Bases) == 2 && !slices.Contains(g.Bases, "") {
			known = append(known, i)
		}
	}
	groups := d.groups(known, genotypes)
	switch {
	case len(known) == 0:
		return
	case len(groups) > maxCombinedGroups:
		c.Refused = fmt.Sprintf("%d groups of heterozygous positions without common phase, and combinations of alleles are searched for in at most %d: phase the calls", len(groups), maxCombinedGroups)
		return
	}
	pairs, all := make(map[Pair][2]named), true
	swapped := make([]bool, len(d.Positions))
	for order := range 1 << max(len(groups)-1, 0) {
		for k, group := range groups {
			for _, i := range group {
				swapped[i] = k > 0 && order>>(k-1)&1 == 1
			}
		}
		bases := func(copied int) map[int]string {
			of := make(map[int]string, len(known))
			for _, i := range known {
				of[i] = genotypes[i].Bases[(copied+btoi(swapped[i]))%2]
			}
			return of
		}
		ones, allOnes := d.combinations(bases(0))
		others, allOthers := d.combinations(bases(1))
		all = all && allOnes && allOthers
		for _, a := range ones {
			for _, b := range others {
				if !all || len(pairs) > maxCombinations {
					break
				}
				one, two := a, b
				if d.compare(&b, &a) < 0 {
					one, two = b, a
				}
				pairs[Pair{d.spell(&one), d.spell(&two)}] = [2]named{one, two}
			}
		}
		if !all || len(pairs) > maxCombinations {
			c.Refused = fmt.Sprintf("more than %d pairs of combinations of alleles: phase the calls", maxCombinations)
			return
		}
	}
	c.Pairs = slices.SortedFunc(maps.Keys(pairs), func(a, b Pair) int {
		x, y := pairs[a], pairs[b]
		return cmp.Or(d.compare(&x[0], &y[0]), d.compare(&x[1], &y[1]))
	})
	c.Combined = len(c.Pairs) > 0
}

// listed reports whether each allele of the gene is one change, as of DPYD and RYR1, so that a copy often has several: a pair of alleles is then not all that
// calls out of phase allow.
func (d *Definitions) listed() bool { return d.Gene == "DPYD" || d.Gene == "RYR1" }

// alsoCombined adds the pairs of combinations that explain the genotypes in another phase than the pairs of alleles do.
func (d *Definitions) alsoCombined(genotypes []Genotype, c *Call) {
	combined := *c
	if d.combine(genotypes, &combined); combined.Refused != "" {
		c.Refused, c.Pairs, c.Also = combined.Refused, nil, nil
		return
	}
	for _, p := range combined.Pairs {
		if !slices.Contains(c.Pairs, p) && !slices.Contains(c.Also, p) {
			c.Also = append(c.Also, p)
		}
	}
}

// combinations are what a copy with these bases, by position, may be called; false: too many.
func (d *Definitions) combinations(bases map[int]string) (list []named, all bool) {
	cores := make(map[int][]int) // the known defining positions of each allele that the copy has
	for n := range d.alleles {
		a := &d.alleles[n]
		var core []int
		has := !a.reference
		for i := range d.Positions {
			b, known := bases[i]
			if !a.core[i] || !known {
				continue
			}
			core = append(core, i)
			has = has && slices.Contains(a.bases[i], b)
		}
		if has && len(core) > 0 {
			cores[n] = core
		}
	}
	share := func(a, b int) bool {
		return slices.ContainsFunc(cores[a], func(i int) bool { return slices.Contains(cores[b], i) })
	}
	var candidates []int
	for _, n := range slices.Sorted(maps.Keys(cores)) {
		explained := false
		for m := range cores {
			explained = explained || share(n, m) && len(cores[m]) > len(cores[n])
		}
		if !explained {
			candidates = append(candidates, n)
		}
	}
	sets, all := maximal(candidates, share)
	for _, set := range sets {
		left := named{alleles: set}
		for _, i := range slices.Sorted(maps.Keys(bases)) {
			taken := slices.ContainsFunc(set, func(n int) bool { return slices.Contains(cores[n], i) })
			if p := d.Positions[i]; !taken && bases[i] != p.Ref {
				left.rest = append(left.rest, changeOf(p, bases[i]))
			}
		}
		list = append(list, left)
	}
	return list, all
}

// maximal are the largest sets of candidates without a shared position: each other candidate shares one with a member. false: there are too many.
func maximal(candidates []int, share func(a, b int) bool) (sets [][]int, all bool) {
	tried := 0
	var add func(set, left []int)
	add = func(set, left []int) {
		if tried++; tried > 16*maxCombinations || len(sets) > maxCombinations {
			return // too many to report, and the caller refuses
		}
		if len(left) == 0 {
			whole := !slices.ContainsFunc(candidates, func(n int) bool {
				return !slices.Contains(set, n) && !slices.ContainsFunc(set, func(m int) bool { return share(n, m) })
			})
			if whole {
				sets = append(sets, slices.Clone(set))
			}
			return
		}
		n, rest := left[0], left[1:]
		clashes := func(m int) bool { return m != n && share(n, m) }
		if !slices.ContainsFunc(set, clashes) {
			add(append(set, n), rest)
		}
		if slices.ContainsFunc(candidates, clashes) { // else it is in each
			add(set[:len(set):len(set)], rest)
		}
	}
	add(nil, candidates)
	return sets, tried <= 16*maxCombinations && len(sets) <= maxCombinations
}

// changeOf is what HGVS calls bases in place of a position's on its chromosome, without its name.
func changeOf(p Position, bases string) string {
	ref, start := p.Ref, p.Pos
	if strings.Contains(bases, " ") { // in no spelling of the position
		return fmt.Sprintf("g.%d%s>%s", start, ref, strings.ReplaceAll(bases, " ", "_"))
	}
	if len(ref) == 1 && len(bases) == 1 {
		return fmt.Sprintf("g.%d%s>%s", start, ref, bases)
	}
	for ref != "" && bases != "" && ref[0] == bases[0] {
		ref, bases, start = ref[1:], bases[1:], start+1
	}
	end := start + len(ref) - 1
	place := fmt.Sprintf("%d_%d", start, end)
	switch {
	case ref == "":
		return fmt.Sprintf("g.%d_%dins%s", start-1, start, bases)
	case len(ref) == 1:
		place = fmt.Sprint(start)
	}
	if bases == "" {
		return "g." + place + "del"
	}
	return "g." + place + "delins" + bases
}

// spell is a copy's name.
func (d *Definitions) spell(n *named) string {
	var words []string
	for _, i := range n.alleles {
		words = append(words, d.alleles[i].name)
	}
	words = append(words, n.rest...)
	switch len(words) {
	case 0:
		return d.reference()
	case 1:
		return words[0]
	}
	return "[" + strings.Join(words, " + ") + "]"
}

// reference is the name of the allele that is the reference.
func (d *Definitions) reference() string {
	for i := range d.alleles {
		if d.alleles[i].reference {
			return d.alleles[i].name
		}
	}
	return "Reference"
}

// compare orders copies: those that are one allele, in the order of the definitions, those that are one change, combinations.
func (d *Definitions) compare(a, b *named) int {
	class := func(n *named) int {
		switch {
		case len(n.alleles)+len(n.rest) > 1:
			return 2
		case len(n.rest) == 1:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(class(a), class(b)), slices.Compare(a.alleles, b.alleles), slices.Compare(a.rest, b.rest))
}
